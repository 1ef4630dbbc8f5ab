"""``sb3-pvp evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.usage import bad_usage_if_refused, json_object

if TYPE_CHECKING:
    from sb3_pvp.evaluation import Score

PARALLEL_FIGHTS = 64


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's zip file.")],
    opponent: Annotated[str, typer.Option(help="Whom to fight.")] = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="How many fights.")] = 200,
    world: Annotated[str, typer.Option(help="Where to fight: sim, or rsps://host:port.")] = "sim",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fights.")] = 0,
    build: Annotated[str | None, typer.Option(help="Account build, such as MED; short for --reset-params.")] = None,
    reset_params: Annotated[str, typer.Option(help="Reset parameters of the wire as a JSON object.")] = "{}",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of taking the best.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let a model fight and print how often it wins, with a 95 % interval."""
    parameters = json_object(reset_params, "--reset-params")
    if build is not None:
        parameters["accountBuild"] = build
    score = score_model(model, episodes, seed, not stochastic, opponent=opponent, world=world, reset_params=parameters)
    typer.echo(json.dumps(score.as_dict()) if as_json else f"{model} against {opponent}: {score}")


def score_model(path: Path, episodes: int, seed: int, deterministic: bool = True, **env_kwargs: Any) -> Score:
    """Loads a model and lets it fight in `NhVecEnv(**env_kwargs)`; refused arguments are a `UsageError`."""
    from stable_baselines3.common.utils import check_for_correct_spaces, set_random_seed

    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.evaluation import evaluate_model
    from sb3_pvp.loading import load

    with bad_usage_if_refused():
        model = load(path)
        env = NhVecEnv(num_envs=min(PARALLEL_FIGHTS, episodes), seed=seed, **env_kwargs)
        check_for_correct_spaces(env, model.observation_space, model.action_space)
    set_random_seed(seed)
    try:
        return evaluate_model(model, env, episodes, deterministic)
    finally:
        env.close()
