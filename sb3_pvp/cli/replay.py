"""``sb3-pvp record`` and ``sb3-pvp replay``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.evaluate import trained_start
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
from sb3_pvp.game import find_game

#: How the names of recordings end.
_RECORDING = re.compile(r"\.jsonl?(\.gz)?$")


def record(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Who fights: a model's zip file, or a scripted opponent's name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.", dir_okay=False)] = Path(
        "fight.json.gz"
    ),
    opponent: Opponent = "baseline",
    seed: Seed = 0,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Take the most likely actions instead of sampling.")
    ] = False,
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
        params, unsure = trained_start(fighter, path, game_of(fighter) if game is None else find_game(game))
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
    modes = ("with sampled actions", "with the most likely actions")
    build = f" of the build {fight.build}" if fight.build else ""
    lines = (
        f"{' against '.join(figures['players'])}: {fight.outcomes[0]} after {figures['ticks']} ticks",
        f"a fight of {figures['game']}{build} with {json.dumps(params, default=str)}{unsure}, {modes[deterministic]}",
        f"{modes[not deterministic]}: {with_or_without('--deterministic', context)}",
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

    page = output or fight.with_name(_RECORDING.sub("", fight.name) + ".html")
    write_replay_page(load_fight(fight, game=game), page)
    typer.echo(f"open {page} in a browser; {page.name}#tick=40 begins there")
