"""``sb3-pvp first-fighter``: what ``make train`` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

ALGO, ENV_ID = "maskable_ppo", HOME_GAME
EVALUATIONS, EVALUATION_FIGHTS, EVALUATION_ENVS = 15, 128, 64


def first_fighter(
    n_timesteps: Annotated[int, typer.Option("--n-timesteps", "-n", min=0, help="0: as many as the yaml says.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Fights before and after, for the win rates.")] = 400,
    log_folder: Annotated[Path, typer.Option("--log-folder", "-f", help="Where runs are saved.")] = Path("logs"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of training and fights.")] = 0,
) -> None:
    """Train a fighter with the default hyperparameters; print how often it won before, and how often it wins now."""
    from sb3_pvp.cli.evaluate import score_model
    from sb3_pvp.zoo import train

    _compile()
    train(_train_arguments(n_timesteps, log_folder, seed))
    run = _latest_run(log_folder)
    typer.echo(f"Two times {episodes} fights for the win rates ...")
    env_kwargs = _default_hyperparams().get("env_kwargs", {})
    before = score_model(run / "initial_model.zip", episodes, seed, **env_kwargs)
    after = score_model(run / f"{ENV_ID}.zip", episodes, seed, **env_kwargs)
    curve = plot_learning_curve(run, before)
    typer.echo(f"\nBefore training: {before}\nAfter training:  {after}\n")
    typer.echo(f"Learning curve: {curve}\nModel:          {run / ENV_ID}.zip")
    again = f"sb3-pvp evaluate {run / ENV_ID}.zip --episodes {episodes} --seed {seed}"
    typer.echo(f"Fight again:    {again} --env-kwargs '{json.dumps(env_kwargs)}'")


def plot_learning_curve(run: Path, before: Score) -> Path:
    """Draws the win rates before and, as rl-zoo3's evaluations have logged them, during training; returns the picture.

    :param run: the run's folder, which gets the picture
    :param before: how the untrained model did
    """
    import numpy as np
    from matplotlib.figure import Figure

    from sb3_pvp.matches.evaluation import wilson_interval

    evaluations = np.load(run / "evaluations.npz")
    steps = [0, *evaluations["timesteps"]]
    wins = [(before.wins, before.decided), *((int(won.sum()), len(won)) for won in evaluations["successes"])]
    low, high = np.transpose([wilson_interval(*count) for count in wins])
    axes = (figure := Figure(figsize=(7, 4), layout="constrained")).add_subplot(ylim=(0, 1))
    axes.set(xlabel="agent steps", ylabel="win rate against the baseline bot")
    axes.plot(steps, [won / episodes for won, episodes in wins], marker=".")
    axes.fill_between(steps, low, high, alpha=0.2, label="95 % interval")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path := run / "learning_curve.png", dpi=120)
    return path


def _compile() -> None:
    import gymnasium

    typer.echo("Compiling the embedded world (about a minute the first time) ...")
    env = gymnasium.make(ENV_ID)
    env.reset()
    env.step(env.action_space.sample())
    env.close()


def _train_arguments(n_timesteps: int, log_folder: Path, seed: int) -> list[str]:
    defaults = _default_hyperparams()
    n_timesteps = n_timesteps or int(defaults["n_timesteps"])
    eval_freq = max(n_timesteps // EVALUATIONS, defaults["n_envs"] * defaults["n_steps"])
    options = {
        "--algo": ALGO,
        "--env": ENV_ID,
        "--n-timesteps": n_timesteps,
        "--seed": seed,
        "--log-folder": log_folder,
        "--eval-freq": eval_freq,
        "--eval-episodes": EVALUATION_FIGHTS,
        "--n-eval-envs": EVALUATION_ENVS,
        "--verbose": 0,
    }
    return ["--progress", *(str(word) for option in options.items() for word in option)]


def _default_hyperparams() -> dict[str, Any]:
    import yaml

    from sb3_pvp.zoo import hyperparams_path

    path = hyperparams_path(ALGO)
    assert path is not None, "this installation lacks hyperparams/maskable_ppo.yml"
    defaults: dict[str, Any] = yaml.safe_load(path.read_text())[ENV_ID]
    return defaults


def _latest_run(log_folder: Path) -> Path:
    from rl_zoo3 import get_latest_run_id

    folder = log_folder / ALGO
    return folder / f"{ENV_ID}_{get_latest_run_id(str(folder), ENV_ID)}"
