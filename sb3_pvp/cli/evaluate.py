"""``sb3-pvp evaluate``."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.usage import (
    AsJson,
    GameName,
    Opponent,
    ResetParams,
    Seed,
    World,
    json_object,
    progress,
    tell,
    use_one_thread,
    with_or_without,
)
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_all_known
from sb3_pvp.game import Game, find_game, game_reference

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

PARALLEL_FIGHTS = 64
#: Arguments of the environment that have an option of their own.
_OPTIONS = {"opponent": "--opponent", "world": "--world", "game": "--game", "contract": "--game"}
#: Characters of the longest bar.
_BAR = 20


def evaluate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The model's zip file.")],
    opponent: Opponent = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="How many fights.")] = 200,
    world: World = "sim",
    game: GameName = None,
    seed: Seed = 0,
    build: Annotated[
        str | None, typer.Option(help="Only fights of this kind, such as a build, in games that have several.")
    ] = None,
    reset_params: ResetParams = None,
    frame_ages: Annotated[
        str | None, typer.Option(help="Stacked frames by age, such as 0,2; or how many. Usually the model knows.")
    ] = None,
    env_kwargs: Annotated[str, typer.Option(help="Other arguments of PvpVecEnv as a JSON object.")] = "{}",
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions, as in training, instead of taking the most likely.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model fight, and print how often it wins.

    That is with a 95 % interval, and for each kind of fight. Fights start as in the model's training, unless
    --build or --reset-params say otherwise ('{}': as the game does).
    """
    arguments = _env_arguments(env_kwargs)
    if reset_params is not None:
        arguments["reset_params"] = arguments.get("reset_params", {}) | json_object(reset_params, "--reset-params")
    if frame_ages is not None:
        arguments["frame_ages"] = _frame_ages(frame_ages)
    arguments |= {"opponent": opponent, "world": world}
    score, fought, unsure = score_model(model, episodes, seed, not stochastic, game, build, **arguments)
    told = {"opponent": opponent, "deterministic": not stochastic, **fought, **score.as_dict()}
    told["groups"] = {name: group.as_dict() for name, group in sorted(score.groups.items())}
    modes = ("with the most likely actions", "with sampled actions")
    params = json.dumps(fought.get("start"), default=str)
    start = f"fights of {fought.get('game')} with {params}{unsure}, {modes[stochastic]}"
    other = f"{modes[not stochastic]}: {with_or_without('--stochastic', context)}"
    text = [f"{model} against {opponent}: {score}", start, *_bars(score), other]
    tell(told, "\n".join(text), as_json)


def score_model(
    path: Path,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    game: str | None = None,
    build: str | None = None,
    **env_kwargs: Any,
) -> tuple[Score, dict[str, Any], str]:
    """Loads a model and lets it fight in `PvpVecEnv`; what is not said is as in its training.

    Returns also what was fought, the ``game`` and its reset parameters as ``start``, and what is to be said of these.
    """
    use_one_thread()
    from stable_baselines3.common.utils import check_for_correct_spaces, set_random_seed

    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.matches.evaluation import evaluate_model
    from sb3_pvp.policies.model_files import find_model, game_of, load

    model = load(path := find_model(path))
    played = game_of(model) if game is None else find_game(game)
    with suppress(ValueError):  # not every model tells its game
        if (trained := game_of(model)).contract != played.contract:
            raise Refusal(f"{path} was trained in {trained.name}, not in {played.name}: leave --game out")
    if build is not None:
        if played.build_param is None:
            raise ValueError(f"{played.name} has no builds: leave --build out")
        env_kwargs["reset_params"] = {**env_kwargs.get("reset_params", {}), played.build_param: build}
    unsure = ""
    if "reset_params" not in env_kwargs:
        env_kwargs["reset_params"], unsure = trained_start(model, path, played)
    env_kwargs["frame_ages"] = _frames_of(model, env_kwargs.get("frame_ages"), played)
    with (
        progress(f"{episodes} fights", episodes) as advance,
        closing(PvpVecEnv(min(PARALLEL_FIGHTS, episodes), seed=seed, game=played, **env_kwargs)) as env,
    ):
        with refusals(about=f"{path} cannot play these fights of {played.name}"):
            check_for_correct_spaces(env, model.observation_space, model.action_space)
        set_random_seed(seed)
        start = env.fights.settings.reset_params
        score = evaluate_model(model, env, episodes, deterministic, advance)
        return score, {"game": game_reference(played), "start": start}, unsure


def trained_start(model: Any, path: Path, game: Game) -> tuple[dict[str, Any], str]:
    """How fights of this game started in the training of a model, as reset parameters; and ``{}`` with words that say
    so if neither the model nor the league that it is in tells."""
    from sb3_pvp.selfplay import League
    from sb3_pvp.zoo.resume import league_of

    fights: dict[str, Any] = {
        "game": getattr(model, "game", None),
        "reset_params": getattr(model, "reset_params", None),
    }
    if fights["reset_params"] is None and (folder := league_of(path)) is not None:
        with suppress(ValueError):
            fights = League.existing(folder).fights
    if fights.get("game") in (game.name, game_reference(game)) and fights.get("reset_params") is not None:
        return dict(fights["reset_params"]), ""
    return {}, " (the model does not tell how those of its training started)"


def _bars(score: Score) -> list[str]:
    """A line for each kind of fight, if there are several."""
    groups = sorted(score.groups.items()) if len(score.groups) > 1 else []
    width = max((len(name) for name, _ in groups), default=0)
    return [
        f"  {name:{width}}  {'█' * round(_BAR * group.win_rate):{_BAR}}  {group.win_rate:6.1%} of {group.decided}"
        for name, group in groups
    ]


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


def _frames_of(model: Any, frame_ages: Any, game: Game) -> Any:
    """Those that were asked for, or those that the model was trained with; not every model knows more than how many."""
    seen = getattr(model.observation_space, "spaces", {}).get("observation")
    known = frame_ages if frame_ages is not None else getattr(model, "frame_ages", None)
    frames, *features = getattr(seen, "shape", None) or (1,)
    if known is None and frames > 1 and features == [game.contract.num_observations]:
        raise ValueError(f"the model sees {frames} frames: say which with --frame-ages, such as 0,2")
    return (0,) if known is None else known
