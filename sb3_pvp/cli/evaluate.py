"""``sb3-pvp evaluate``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.usage import AsJson, GameName, Opponent, ResetParams, Seed, World, json_object, tell, use_one_thread
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.names import require_all_known
from sb3_pvp.game import find_game, game_reference

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

PARALLEL_FIGHTS = 64
#: Arguments of the environment that have an option of their own.
_OPTIONS = {"opponent": "--opponent", "world": "--world", "game": "--game", "contract": "--game"}


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's zip file.")],
    opponent: Opponent = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="How many fights.")] = 200,
    world: World = "sim",
    game: GameName = None,
    seed: Seed = 0,
    build: Annotated[str | None, typer.Option(help="Of which kind fights are, in games that have several.")] = None,
    reset_params: ResetParams = None,
    frame_ages: Annotated[
        str | None, typer.Option(help="Stacked frames by age, such as 0,2; or how many. Usually the model knows.")
    ] = None,
    env_kwargs: Annotated[str, typer.Option(help="Other arguments of PvpVecEnv as a JSON object.")] = "{}",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions instead of taking the best.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model fight and print how often it wins, with a 95 % interval."""
    arguments = _env_arguments(env_kwargs)
    arguments["reset_params"] = arguments.get("reset_params", {}) | json_object(reset_params, "--reset-params")
    if frame_ages is not None:
        arguments["frame_ages"] = _frame_ages(frame_ages)
    arguments |= {"opponent": opponent, "world": world}
    score, fought = score_model(model, episodes, seed, not stochastic, game, build, **arguments)
    told = {"opponent": opponent, "deterministic": not stochastic, **fought, **score.as_dict()}
    told["groups"] = {name: group.as_dict() for name, group in sorted(score.groups.items())}
    tell(told, f"{model} against {opponent}: {score}", as_json)


def score_model(
    path: Path,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    game: str | None = None,
    build: str | None = None,
    **env_kwargs: Any,
) -> tuple[Score, dict[str, Any]]:
    """Loads a model and lets it fight in `PvpVecEnv`; without ``game``, in that which it was trained in.

    Returns also what was fought: the ``game``, and its reset parameters as ``start``.
    """
    use_one_thread()
    from stable_baselines3.common.utils import check_for_correct_spaces, set_random_seed

    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.matches.evaluation import evaluate_model
    from sb3_pvp.policies.model_files import game_of, load

    model = load(path)
    played = game_of(model) if game is None else find_game(game)
    if build is not None:
        if played.build_param is None:
            raise ValueError(f"{played.name} has no builds: leave --build out")
        env_kwargs["reset_params"] = {**env_kwargs["reset_params"], played.build_param: build}
    env_kwargs["frame_ages"] = _frames_of(model, env_kwargs.get("frame_ages"))
    with closing(PvpVecEnv(min(PARALLEL_FIGHTS, episodes), seed=seed, game=played, **env_kwargs)) as env:
        check_for_correct_spaces(env, model.observation_space, model.action_space)
        set_random_seed(seed)
        start = env.fights.settings.reset_params
        return evaluate_model(model, env, episodes, deterministic), {"game": game_reference(played), "start": start}


def _env_arguments(text: str) -> dict[str, Any]:
    from sb3_pvp.envs.settings import FightSettings

    arguments = json_object(text, "--env-kwargs")
    for name in arguments.keys() & _OPTIONS.keys():
        raise Refusal(f"--env-kwargs cannot set {name!r}: use {_OPTIONS[name]}")
    require_all_known("key of --env-kwargs", arguments, {field.name for field in fields(FightSettings)})
    if not isinstance(arguments.get("reset_params", {}), dict):
        raise Refusal(f"reset_params in --env-kwargs must be an object, got {arguments['reset_params']!r}")
    return arguments


def _frame_ages(text: str) -> int | list[int]:
    try:
        ages = [int(part) for part in text.strip("[] ").split(",")]
    except ValueError:
        raise Refusal(f"--frame-ages must be ages such as 0,2, or a number of frames; got {text!r}") from None
    return ages if len(ages) > 1 or "[" in text else ages[0]


def _frames_of(model: Any, frame_ages: Any) -> Any:
    """Those that were asked for, or those that the model was trained with; not every model knows more than how many."""
    seen = getattr(model.observation_space, "spaces", {}).get("observation")
    known = frame_ages if frame_ages is not None else getattr(model, "frame_ages", None)
    if known is None and seen is not None and seen.shape[0] > 1:
        raise ValueError(f"the model sees {seen.shape[0]} frames: say which with --frame-ages, such as 0,2")
    return (0,) if known is None else known
