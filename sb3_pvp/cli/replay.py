"""``sb3-pvp record`` and ``sb3-pvp replay``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.usage import GameName, Opponent, ResetParams, Seed, World, json_object, use_one_thread

#: How the names of recordings end.
_RECORDING = re.compile(r"\.jsonl?(\.gz)?$")


def record(
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
) -> None:
    """Let two players fight once, and keep the fight with all that they thought; see sb3-pvp replay."""
    use_one_thread()
    from sb3_pvp.replay import record_fight, save_fight

    params = json_object(reset_params, "--reset-params")
    fight = record_fight(
        model, opponent, seed=seed, deterministic=deterministic, world=world, game=game, reset_params=params
    )
    save_fight(fight, output)
    names = [player.name for player in fight.players]
    typer.echo(f"{names[0]} against {names[1]}: {fight.outcomes[0]} after {len(fight.moments) - 1} ticks; see it with")
    typer.echo(f"sb3-pvp replay {output}" + (f" --game {fight.game}" if fight.game else ""))


def replay(
    fight: Annotated[Path, typer.Argument(help="A file of sb3-pvp record, or another recording that a game knows.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page to write; else beside the fight.", dir_okay=False)
    ] = None,
    game: GameName = None,
) -> None:
    """Turn a recorded fight into one HTML page, which needs no network and no other file."""
    from sb3_pvp.replay import load_fight, write_replay_page

    page = output or fight.with_name(_RECORDING.sub("", fight.name) + ".html")
    write_replay_page(load_fight(fight, game=game), page)
    typer.echo(f"open {page} in a browser; {page.name}#tick=40 begins there")
