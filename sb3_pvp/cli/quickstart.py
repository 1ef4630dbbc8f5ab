"""``sb3-pvp quickstart``: what ``make train`` runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.evaluate import score_model
from sb3_pvp.cli.usage import AsJson, tell
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

ALGO = "maskable_ppo"
EVALUATIONS, EVALUATION_FIGHTS, EVALUATION_ENVS = 15, 128, 64


def quickstart(
    n_timesteps: Annotated[
        int, typer.Option("--n-timesteps", "-n", min=0, help="Length of the training; 0: as the preset says.")
    ] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Fights before and after, for the win rates.")] = 400,
    log_folder: Annotated[
        Path, typer.Option("--log-folder", "-f", help="Where runs are saved.", file_okay=False)
    ] = Path("logs"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of training and fights.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train a first fighter, in a few minutes.

    Prints how often it won before and how often it wins now, draws its learning curve and says how to go on.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        run = _train(n_timesteps, log_folder, seed)
        typer.echo(f"Two times {episodes} fights for the win rates ...")
        model = run / f"{HOME_GAME}.zip"
        before, after = (score_model(zip, episodes, seed)[0] for zip in (run / "initial_model.zip", model))
    picture = plot_learning_curve(run, before)
    again = f"sb3-pvp evaluate {model} --episodes {episodes} --seed {seed}"
    figures = {
        "model": str(model),
        "learning_curve": str(picture),
        "before": before.as_dict(),
        "after": after.as_dict(),
    }
    text = (
        f"\nBefore training: {before}\nAfter training:  {after}\n\nLearning curve: {picture}\nModel:          {model}"
    )
    tell(figures, f"{text}\nFight again:    {again}", as_json)


def _train(n_timesteps: int, log_folder: Path, seed: int) -> Path:
    """Trains with the default hyperparameters; returns the folder of the run."""
    from rl_zoo3 import get_latest_run_id

    from sb3_pvp.zoo import find_preset, train

    defaults: dict[str, Any] = find_preset(HOME_GAME).hyperparams()
    n_timesteps = n_timesteps or int(defaults["n_timesteps"])
    options = {
        "--algo": ALGO,
        "--env": HOME_GAME,
        "--n-timesteps": n_timesteps,
        "--seed": seed,
        "--log-folder": log_folder,
        "--eval-freq": max(n_timesteps // EVALUATIONS, defaults["n_envs"] * defaults["n_steps"]),
        "--eval-episodes": EVALUATION_FIGHTS,
        "--n-eval-envs": EVALUATION_ENVS,
        "--verbose": 0,
    }
    train(["--progress", *(str(word) for option in options.items() for word in option)])
    folder = log_folder / ALGO
    return folder / f"{HOME_GAME}_{get_latest_run_id(str(folder), HOME_GAME)}"


def plot_learning_curve(run: Path, before: Score) -> Path:
    """Draws the win rates before and, as rl-zoo3's evaluations have logged them, during training; returns the picture.

    :param run: the run's folder, which gets the picture
    :param before: how the untrained model did
    """
    import numpy as np

    from sb3_pvp.callbacks.plots import Band, draw
    from sb3_pvp.matches.evaluation import wilson_interval

    evaluations = np.load(run / "evaluations.npz")
    wins = [(before.wins, before.decided), *((int(won.sum()), len(won)) for won in evaluations["successes"])]
    low, high = np.transpose([wilson_interval(*count) for count in wins])
    rates = np.array([won / episodes for won, episodes in wins])
    band = Band(np.array([0, *evaluations["timesteps"]], float), rates, low, high, 1)
    draw(run / "learning_curve.png", {run.name: band}, "win rate against the baseline bot", share=True)
    return run / "learning_curve.png"
