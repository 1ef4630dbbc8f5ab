"""``sb3-pvp evaluate``."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.threads import use_one_thread
from sb3_pvp.cli.usage import json_object
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_all_known

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

PARALLEL_FIGHTS = 64
#: Arguments of the environment that have an option of their own.
_OPTIONS = {"opponent": "--opponent", "world": "--world", "contract": "--env"}


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's zip file.")],
    opponent: Annotated[str, typer.Option(help="Whom to fight: a name, or a model's zip file.")] = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="How many fights.")] = 200,
    world: Annotated[str, typer.Option(help="Where to fight: sim, or rsps://host:port.")] = "sim",
    env: Annotated[str | None, typer.Option(help="NhEnv or DharokEnv; the model knows which.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fights.")] = 0,
    build: Annotated[str | None, typer.Option(help="Account build, such as MED; short for --reset-params.")] = None,
    reset_params: Annotated[str, typer.Option(help="Reset parameters of the wire as a JSON object.")] = "{}",
    frame_ages: Annotated[
        str | None, typer.Option(help="Stacked frames by age, such as 0,2; or how many. Usually the model knows.")
    ] = None,
    env_kwargs: Annotated[str, typer.Option(help="Other arguments of NhVecEnv as a JSON object.")] = "{}",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of taking the best.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let a model fight and print how often it wins, with a 95 % interval."""
    arguments = _env_arguments(env_kwargs)
    arguments["reset_params"] = arguments.get("reset_params", {}) | json_object(reset_params, "--reset-params")
    if env is not None:
        arguments["contract"] = env
    if build is not None:
        arguments["reset_params"]["accountBuild"] = build
    if frame_ages is not None:
        arguments["frame_ages"] = _frame_ages(frame_ages)
    score = score_model(model, episodes, seed, not stochastic, opponent=opponent, world=world, **arguments)
    typer.echo(json.dumps(score.as_dict()) if as_json else f"{model} against {opponent}: {score}")


def score_model(path: Path, episodes: int, seed: int, deterministic: bool = True, **env_kwargs: Any) -> Score:
    """Loads a model and lets it fight in `NhVecEnv(**env_kwargs)`; refused arguments are a `Refusal`."""
    use_one_thread()
    from contextlib import closing

    from stable_baselines3.common.utils import check_for_correct_spaces, set_random_seed

    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.game import WorldError
    from sb3_pvp.matches.evaluation import evaluate_model
    from sb3_pvp.policies.loading import load

    with refusals(WorldError):
        model = load(path)
        env_kwargs.setdefault("contract", _game_of(model))
        env_kwargs["frame_ages"] = _frames_of(model, env_kwargs.get("frame_ages"))
        with closing(NhVecEnv(num_envs=min(PARALLEL_FIGHTS, episodes), seed=seed, **env_kwargs)) as env:
            check_for_correct_spaces(env, model.observation_space, model.action_space)
            set_random_seed(seed)
            return evaluate_model(model, env, episodes, deterministic)


def _env_arguments(text: str) -> dict[str, Any]:
    from sb3_pvp.envs.settings import FightSettings

    arguments = json_object(text, "--env-kwargs")
    with refusals():
        for name in arguments:
            if name in _OPTIONS:
                raise ValueError(f"--env-kwargs cannot set {name!r}: use {_OPTIONS[name]}")
        require_all_known("key of --env-kwargs", arguments, {f.name for f in fields(FightSettings)} - _OPTIONS.keys())
        if not isinstance(arguments.get("reset_params", {}), dict):
            raise ValueError(f"reset_params in --env-kwargs must be an object, got {arguments['reset_params']!r}")
    return arguments


def _frame_ages(text: str) -> int | list[int]:
    try:
        ages = [int(part) for part in text.strip("[] ").split(",")]
    except ValueError:
        raise Refusal(f"--frame-ages must be ages such as 0,2, or a number of frames; got {text!r}") from None
    return ages if len(ages) > 1 or "[" in text else ages[0]


def _game_of(model: Any) -> str:
    """The contract with the heads and observations of a model; one that fits none will be refused anywhere."""
    from sb3_pvp.policies.contracts import AUTO, find_contract

    contract = find_contract(AUTO, model.policy.head_sizes, model.policy.features)
    return "NhEnv" if contract is None else contract.name


def _frames_of(model: Any, frame_ages: Any) -> Any:
    """Those that were asked for, or those that the model was trained with; not every model knows more than how many."""
    seen = getattr(model.observation_space, "spaces", {}).get("observation")
    known = frame_ages if frame_ages is not None else getattr(model, "frame_ages", None)
    if known is None and seen is not None and seen.shape[0] > 1:
        raise ValueError(f"the model sees {seen.shape[0]} frames: say which with --frame-ages, such as 0,2")
    return (0,) if known is None else known
