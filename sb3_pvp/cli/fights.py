"""``sb3-pvp evaluate``, ``sb3-pvp record`` and ``sb3-pvp replay``."""

from __future__ import annotations

import json
import re
import shlex
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
)
from sb3_pvp.common.arguments import MAPPING
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_all_known
from sb3_pvp.game import Game, find_game, game_reference

if TYPE_CHECKING:
    from sb3_pvp.matches.evaluation import Score

#: Arguments of the environment that have an option of their own.
_OPTIONS = {"opponent": "--opponent", "world": "--world", "game": "--game", "contract": "--game"}
_MODES = ("with the most likely actions", "with sampled actions")


def evaluate(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The model's zip file.")],
    opponent: Opponent = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="How many fights.")] = 200,
    world: World = "sim",
    game: GameName = None,
    seed: Seed = 0,
    build: Annotated[str | None, typer.Option(help="Only fights of this build, in games that have some.")] = None,
    reset_params: ResetParams = None,
    frame_ages: Annotated[str | None, typer.Option(help="Ages of stacked frames, as 0,2; else the model's.")] = None,
    env_kwargs: Annotated[str, typer.Option(help="Other arguments of PvpVecEnv.", metavar="JSON")] = "{}",
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions, as in training.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model fight, and print how often it wins.

    The win rate has a 95 % interval, and is told for each kind of fight as well. Fights start as in the model's
    training, unless --build or --reset-params say otherwise ('{}': as the game does).
    """
    from sb3_pvp.envs.settings import FightSettings

    arguments = json_object(env_kwargs, "--env-kwargs")
    for name in arguments.keys() & _OPTIONS.keys():
        raise Refusal(f"--env-kwargs cannot set {name!r}: use {_OPTIONS[name]}")
    require_all_known("key of --env-kwargs", arguments, {field.name for field in fields(FightSettings)})
    if reset_params is not None:
        given = MAPPING.read("reset_params in --env-kwargs", arguments.get("reset_params")) or {}
        arguments["reset_params"] = given | json_object(reset_params, "--reset-params")
    if frame_ages is not None:
        try:
            ages = [int(part) for part in frame_ages.strip("[] ").split(",")]
        except ValueError:
            raise Refusal(f"--frame-ages must be ages such as 0,2, or a number of frames; got {frame_ages!r}") from None
        arguments["frame_ages"] = ages if len(ages) > 1 or "[" in frame_ages else ages[0]
    arguments |= {"opponent": opponent, "world": world}
    score, fought, unsure = score_model(model, episodes, seed, not stochastic, game, build, **arguments)
    told = {"opponent": opponent, "deterministic": not stochastic, **fought, **score.as_dict()}
    told["groups"] = {name: group.as_dict() for name, group in sorted(score.groups.items())}
    start, other = _told(fought, unsure, stochastic, "--stochastic", context)
    width = max(map(len, score.groups), default=0)
    bars = [
        f"  {name:{width}}  {'█' * round(20 * group.win_rate):20}  {group.win_rate:6.1%} of {group.decided}"
        for name, group in sorted(score.groups.items())
    ]
    text = [f"{model} against {opponent}: {score}", f"fights of {start}", *(bars if len(bars) > 1 else ()), other]
    tell(told, "\n".join(text), as_json)


def record(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Who fights: a model's zip file, or a scripted opponent's name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)] = Path(
        "fight.json.gz"
    ),
    opponent: Opponent = "baseline",
    seed: Seed = 0,
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Take the most likely actions.")] = False,
    world: World = "sim",
    game: GameName = None,
    reset_params: ResetParams = None,
    as_json: AsJson = False,
) -> None:
    """Record a fight of two players, with all that they thought.

    sb3-pvp replay makes a page of it. The fight starts as those of the model's training, unless --reset-params says
    otherwise ('{}': as the game does).
    """
    use_one_thread()
    from sb3_pvp.opponents.opponents import is_path
    from sb3_pvp.policies.model_files import find_model, game_of, load
    from sb3_pvp.replay import record_fight, save_fight

    params, unsure = json_object(reset_params, "--reset-params"), ""
    if reset_params is None and is_path(model):
        path = find_model(model)
        fighter = load(path)
        params, unsure = _trained_start(fighter, path, game_of(fighter) if game is None else find_game(game))
    with progress("fighting"):
        fight = record_fight(
            model, opponent, seed=seed, deterministic=deterministic, world=world, game=game, reset_params=params
        )
    save_fight(fight, output)
    figures = {
        "players": [player.name for player in fight.players],
        "deterministic": deterministic,
        "game": fight.game or fight.contract,
        "start": fight.reset_params,
        "build": fight.build,
        "seed": seed,
        "outcome": fight.outcomes[0],
        "ticks": len(fight.moments) - 1,
        "file": str(output),
    }
    fought = {"game": figures["game"] + (f" of the build {fight.build}" if fight.build else ""), "start": params}
    start, other = _told(fought, unsure, not deterministic, "--deterministic", context)
    lines = (
        f"{' against '.join(figures['players'])}: {fight.outcomes[0]} after {figures['ticks']} ticks",
        f"a fight of {start}",
        other,
        f"see it with: sb3-pvp replay {output}" + (f" --game {fight.game}" if fight.game else ""),
    )
    tell(figures, "\n".join(lines), as_json)


def replay(
    fight: Annotated[Path, typer.Argument(help="A file of sb3-pvp record, or another recording that a game knows.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write; else beside the fight.", dir_okay=False)
    ] = None,
    game: GameName = None,
) -> None:
    """Turn a recorded fight into one HTML page.

    It needs no network and no other file.
    """
    from sb3_pvp.replay import load_fight, write_replay_page

    page = output or fight.with_name(re.sub(r"\.jsonl?(\.gz)?$", "", fight.name) + ".html")
    write_replay_page(load_fight(fight, game=game), page)
    typer.echo(f"open {page} in a browser; {page.name}#tick=40 begins there")


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
        env_kwargs["reset_params"], unsure = _trained_start(model, path, played)
    if env_kwargs.get("frame_ages") is None:
        env_kwargs["frame_ages"] = getattr(model, "frame_ages", None)
    if env_kwargs["frame_ages"] is None:  # not every model knows more than how many
        seen = getattr(model.observation_space, "spaces", {}).get("observation")
        frames, *features = getattr(seen, "shape", None) or (1,)
        if frames > 1 and features == [played.contract.num_observations]:
            raise ValueError(f"the model sees {frames} frames: say which with --frame-ages, such as 0,2")
        env_kwargs["frame_ages"] = (0,)
    with (
        progress(f"{episodes} fights", episodes) as advance,
        closing(PvpVecEnv(min(64, episodes), seed=seed, game=played, **env_kwargs)) as env,
    ):
        with refusals(about=f"{path} cannot play these fights of {played.name}"):
            check_for_correct_spaces(env, model.observation_space, model.action_space)
        set_random_seed(seed)
        start = env.fights.settings.reset_params
        score = evaluate_model(model, env, episodes, deterministic, advance)
        return score, {"game": game_reference(played), "start": start}, unsure


def _trained_start(model: Any, path: Path, game: Game) -> tuple[dict[str, Any], str]:
    """How fights of this game started in the training of a model, as reset parameters; and ``{}`` with words that say
    so if neither the model nor the league that it is in tells."""
    from sb3_pvp.selfplay import League
    from sb3_pvp.zoo.resume import league_of

    fights: dict[str, Any] = {name: getattr(model, name, None) for name in ("game", "reset_params")}
    if fights["reset_params"] is None and (folder := league_of(path)) is not None:
        with suppress(ValueError):
            fights = League.existing(folder).fights
    if fights.get("game") in (game.name, game_reference(game)) and fights.get("reset_params") is not None:
        return dict(fights["reset_params"]), ""
    return {}, " (the model does not tell how those of its training started)"


def _told(fought: dict[str, Any], unsure: str, sampled: bool, flag: str, context: typer.Context) -> tuple[str, str]:
    """What was fought, and the command line that is the same but for this flag, which decides how actions are taken."""
    words = list(context.obj["arguments"])
    command = ["sb3-pvp", *(word for word in words if word != flag), *([] if flag in words else [flag])]
    start = json.dumps(fought.get("start"), default=str)
    return (
        f"{fought.get('game')} with {start}{unsure}, {_MODES[sampled]}",
        f"{_MODES[not sampled]}: {shlex.join(command)}",
    )
