"""``python -m benchmarks lanes``: how fast the lanes are, and how strong their scripted players."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.report import Case, Row, measure, positive_numbers, print_report
from benchmarks.soccer import games_row
from sb3_pvp.game import Game, find_game
from sb3_pvp.games.lanes import lanes_pixels
from sb3_pvp.players.opponents import WORLD_BOT

VECTORS = "LaneClash-v0"
#: Decisions of a call; a battle has about 400.
_DECISIONS, _PICTURES = 64, 8
_SECONDS, _TICKS = 0.1, 5  # of a tick, and its ticks of a decision


def bench_lanes(
    battles: Annotated[str, typer.Option(help="Numbers of battles, comma-separated.")] = "1,1024",
    sizes: Annotated[str, typer.Option(help="Pixels of a side of pictures, comma-separated; empty: none.")] = "64,448",
    seconds: Annotated[float, typer.Option(min=0.0, help="CPU seconds for each case; 0: none.")] = 3.0,
    games: Annotated[int, typer.Option(min=0, help="Battles of each pair of players; 0: none.")] = 500,
    player: Annotated[list[str] | None, typer.Option(help="Another player than the scripts, such as a file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the battles.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure decisions of single seats, choices at random and observations included, and let the scripts play."""
    game, rows = find_game(VECTORS), list[Row]()
    if seconds:
        cases = [_decisions(game, count, _DECISIONS) for count in positive_numbers(battles, "--battles")]
        pixels = positive_numbers(sizes, "--sizes") if sizes else []
        cases += [_decisions(lanes_pixels(size), max(4096 // size, 8), _PICTURES) for size in pixels]
        rows += measure(cases, seconds)
    players = [*(player or []), *reversed(list(game.scripts)), WORLD_BOT]
    for pair in combinations(players, 2) if games else ():
        row = games_row(game, *pair, games, seed)
        steps = round(2 * games * row["mean_ticks"])
        rows.append({**row, "env_steps": steps, "hours_of_play": round(steps / 2 * _TICKS * _SECONDS / 3600, 1)})
    print_report("lanes", rows, ("numba", "numpy"), as_json)


def _decisions(game: Game, battles: int, decisions: int) -> Case:
    """Returns the case of a game in which all play legal choices at random."""
    world: Any = game.make_world("sim", battles, 0, {})
    world.reset()
    steps = 2 * battles * decisions
    rng = np.random.default_rng(0)
    chances = [rng.random((battles, 2, 3)) for _ in range(decisions)]
    return Case(f"{battles} battles, {game.name}, random play", battles, steps, partial(_play, world, chances))


def _play(world: Any, chances: Sequence[Any]) -> None:
    """Plays any card of the hand that can be paid, or none, on any tile that is open to it."""
    cards = len(world.table.cards)
    spells = np.array([False, *(card.kind == "spell" for card in world.table.cards)])
    for chance in chances:
        can = world.masks[:, :, : cards + 1]
        order = (chance[..., 0] * can.sum(axis=2)).astype(np.int64)
        card = (can.cumsum(axis=2) > order[..., None]).argmax(axis=2)
        rows = np.where(spells[card], 32, 15)
        columns, row = (chance[..., 1] * 18).astype(np.int64), (chance[..., 2] * rows).astype(np.int64)
        world.step(np.stack([card, columns, row], axis=2))
        if world.outcome.any():
            world.reset(np.flatnonzero(world.outcome[:, 0]))
