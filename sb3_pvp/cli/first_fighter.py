"""``sb3-pvp first-fighter``: what ``make train`` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.evaluate import score_model
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

ALGO = "maskable_ppo"
EVALUATIONS, EVALUATION_FIGHTS, EVALUATION_ENVS = 15, 128, 64


def first_fighter(
    n_timesteps: Annotated[int, typer.Option("--n-timesteps", "-n", min=0, help="0: as many as the yaml says.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Fights before and after, for the win rates.")] = 400,
    log_folder: Annotated[Path, typer.Option("--log-folder", "-f", help="Where runs are saved.")] = Path("logs"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of training and fights.")] = 0,
) -> None:
    """Train a fighter with the default hyperparameters; print how often it won before, and how often it wins now."""
    import gymnasium
    import yaml
    from rl_zoo3 import get_latest_run_id

    from sb3_pvp.zoo import hyperparams_path, train

    typer.echo("Compiling the embedded world (about a minute the first time) ...")
    env = gymnasium.make(HOME_GAME)
    env.reset()
    env.step(env.action_space.sample())
    env.close()
    path = hyperparams_path(ALGO)
    assert path is not None, f"this installation lacks hyperparams/{ALGO}.yml"
    defaults: dict[str, Any] = yaml.safe_load(path.read_text())[HOME_GAME]
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
    run = folder / f"{HOME_GAME}_{get_latest_run_id(str(folder), HOME_GAME)}"
    typer.echo(f"Two times {episodes} fights for the win rates ...")
    env_kwargs, model = defaults.get("env_kwargs", {}), run / f"{HOME_GAME}.zip"
    before, after = (score_model(zip, episodes, seed, **env_kwargs)[0] for zip in (run / "initial_model.zip", model))
    typer.echo(f"\nBefore training: {before}\nAfter training:  {after}\n")
    typer.echo(f"Learning curve: {plot_learning_curve(run, before)}\nModel:          {model}")
    again = f"sb3-pvp evaluate {model} --episodes {episodes} --seed {seed}"
    typer.echo(f"Fight again:    {again} --env-kwargs '{json.dumps(env_kwargs)}'")


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
