"""``sb3-pvp evaluate``, ``sb3-pvp record`` and ``sb3-pvp replay``."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, print_result
from sb3_pvp.cli.usage import (
    Average,
    GameName,
    Jobs,
    Opponent,
    ResetParams,
    Seed,
    World,
    complete_model,
    complete_opponent,
    progress,
    use_one_thread,
    watched,
)
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import Refusal, command_line, require_all_known
from sb3_pvp.game import HOME_GAME, find_game
from sb3_pvp.players.search.search_settings import SEARCH_OF
from sb3_pvp.policies.files.shipped import find_model, shipped_file

#: Arguments of the environment that have their own option.
_OPTIONS = {"opponent": "--opponent", "world": "--world", "game": "--game", "contract": "--game"}
_MODES = ("with the most likely actions", "with sampled actions")
_RECORDING_SUFFIX = re.compile(r"\.jsonl?(\.gz)?$")  #: Of recordings; a page has ``.html`` in its place.


def evaluate(
    model: Annotated[
        Path,
        typer.Argument(help="The model's file, a fighter that ships, or mcts:FILE.", autocompletion=complete_model),
    ],
    opponent: Opponent = "baseline",
    episodes: Annotated[int, typer.Option(min=1, help="Number of fights.")] = 200,
    world: World = "sim",
    game: GameName = None,
    seed: Seed = 0,
    build: Annotated[str | None, typer.Option(help="Only fights with this build, in games that have builds.")] = None,
    reset_params: ResetParams = None,
    env_kwargs: Annotated[str, typer.Option(help="Further arguments of PvpVecEnv.", metavar="JSON")] = "{}",
    stochastic: Annotated[bool, typer.Option("--stochastic", help="Sample actions, as in training.")] = False,
    opponent_deterministic: Annotated[
        bool | None,
        typer.Option(
            "--opponent-deterministic/--opponent-stochastic",
            help="How an opponent acts that is a model; default: like the model.",
        ),
    ] = None,
    safe: Annotated[bool, typer.Option("--safe", help="Unpickle nothing: the files need not be trusted.")] = False,
    average: Average = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model against an opponent.

    Prints the win rate with a 95 % interval, in total and for each build. Fights start as in the model's training,
    unless --build or --reset-params is given ('{}': the game's defaults).
    """
    use_one_thread()  # before anything computes with torch
    from sb3_pvp.envs.settings import FightSettings
    from sb3_pvp.matches.scoring import score_model

    arguments = json_object(env_kwargs, "--env-kwargs")
    for name in arguments.keys() & _OPTIONS.keys():
        raise Refusal(f"--env-kwargs cannot set {name!r}: use {_OPTIONS[name]}")
    # Checked here, since `score_model` would take its own arguments, such as ``safe``, from there.
    require_all_known("key of --env-kwargs", arguments, {field.name for field in fields(FightSettings)})
    if reset_params is not None:
        arguments["reset_params"] = json_object(reset_params, "--reset-params")
    arguments |= {"opponent": opponent, "world": world}
    given = not stochastic, game, build, safe, jobs, opponent_deterministic, average
    score, fights, note = score_model(model, episodes, seed, watched(episodes), *given, **arguments)
    groups = dict(sorted(score.groups.items()))
    is_name = str(model).startswith(SEARCH_OF) or shipped_file(model)
    name = str(model if is_name else find_model(model))
    figures = {"model": name, "opponent": opponent, "deterministic": not stochastic, **fights, **score.as_dict()}
    figures |= {"average": True} if average else {}
    figures["groups"] = {name: group.as_dict() for name, group in groups.items()}
    builds = [f"  {name}: {group}" for name, group in groups.items() if len(groups) > 1]
    who = f"the averaged policy of {model}" if average else model
    text = [f"{who} against {opponent}: {score}", f"fights of {_describe(fights, note, stochastic)}", *builds]
    print_result(figures, "\n".join([*text, _other_mode(stochastic, "--stochastic")]), as_json)


def record(
    model: Annotated[
        str,
        typer.Argument(help="The model's file, or the name of a fighter or script.", autocompletion=complete_opponent),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file.", dir_okay=False)] = Path(
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
    """Record a fight of two players for sb3-pvp replay.

    Records the action probabilities and values of models too. The fight starts as in the model's training, unless
    --reset-params is given ('{}': the game's defaults).
    """
    use_one_thread()
    from sb3_pvp.matches.replay import record_fight, save_fight
    from sb3_pvp.matches.scoring import start_of

    given = json_object(reset_params, "--reset-params")
    params, note = start_of(model, game) if reset_params is None else (given, "")
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
        "ticks": len(fight.moments) - 1,  # the first moment is the start
        "file": str(output),
    }
    fights = {"game": game or figures["game"], "start": params}
    drawn = f", with the build {fight.build}" if fight.build else ""
    lines = (
        f"{' against '.join(figures['players'])}: {fight.outcomes[0]} after {figures['ticks']} ticks{drawn}",
        f"a fight of {_describe(fights, note, not deterministic)}",
        _other_mode(deterministic, "--deterministic"),
        f"to watch it: {command_line('replay', output, *(['--game', fight.game] if fight.game else []))}",
    )
    print_result(figures, "\n".join(lines), as_json)


def replay(
    fight: Annotated[Path, typer.Argument(help="A file of sb3-pvp record, or in another format that the game reads.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file; default: next to the fight.", dir_okay=False)
    ] = None,
    game: GameName = None,
) -> None:
    """Turn a recorded fight into a single HTML page, or with -o FILE.mp4 into a video.

    The page needs no network and no other files; the video needs ffmpeg, and the extra render.
    """
    from sb3_pvp.matches.replay import load_fight, write_replay_page, write_video

    recording = load_fight(fight, game=game)
    if output is not None and output.suffix == ".mp4":
        write_video(recording, output)
        typer.echo(f"{output}: {len(recording.moments)} pictures")
        return
    page = output or fight.with_name(_RECORDING_SUFFIX.sub("", fight.name) + ".html")
    write_replay_page(recording, page)
    typer.echo(f"open {page} in a browser; {page.name}#tick=2 starts at tick 2")


def _describe(fights: dict[str, Any], note: str, sampled: bool) -> str:
    """Returns the settings of the fights in words."""
    modes = _MODES[sampled]
    if (other := fights.get("opponent_deterministic")) is not None:
        modes = f"both {modes}" if other != sampled else f"{modes}, the opponent {_MODES[not other]}"
    game = fights.get("game", HOME_GAME)
    return f"{game} with {find_game(game).start_in_words(fights.get('start', {}))}{note}, {modes}"


def _other_mode(given: bool, flag: str) -> str:
    return f"{'without' if given else 'with'} {flag} it may be far stronger, or weaker"
