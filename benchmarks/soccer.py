"""``python -m benchmarks soccer``: how fast soccer is, and how strong its scripted teams are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.peers import ONE_THREAD
from benchmarks.report import Case, Row, Turn, make_row, measure, positive_numbers, print_report
from sb3_pvp.game import Game, Outcome, find_game
from sb3_pvp.players.opponents import WORLD_BOT, make_opponent

GAME, PEERS = "SoccerTwos-v0", ("mpe2", "vmas")
MIRRORED = (
    1 << 32
)  #: Added to the seed of the first player, so that a player against itself does not act as its mirror.


def bench_soccer(
    pitches: Annotated[str, typer.Option(help="Numbers of pitches, comma-separated.")] = "1,1024",
    seconds: Annotated[float, typer.Option(min=0.0, help="CPU seconds for each number of pitches; 0: none.")] = 3.0,
    games: Annotated[int, typer.Option(min=0, help="Games of each pair of players; 0: none.")] = 1000,
    player: Annotated[list[str] | None, typer.Option(help="Another player than the scripts, such as a file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the games.")] = 0,
    peers: Annotated[Path | None, typer.Option(help="Python of an environment with mpe2 and VMAS.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure agent decisions, observations written, and let the scripted teams play each other."""
    game = find_game(GAME)
    rows: list[Row] = []
    if seconds:
        rows += measure([_decisions(game, count) for count in positive_numbers(pitches, "--pitches")], seconds)
        rows += [row for peer in PEERS if (row := _peer_row(peer, peers, seconds))]
    players = [*(player or []), *reversed(list(game.scripts)), WORLD_BOT]
    rows += [games_row(game, *pair, games, seed) for pair in combinations(players, 2) if games]
    print_report("soccer", rows, ("numba", "numpy"), as_json)


def _peer_row(peer: str, python: Path | None, seconds: float) -> Row | None:
    """Measures another library's agents in its own environment; says so in a line if it is not there."""
    if python is None:
        return None
    program = Path(__file__).parent / "peer_programs" / "team_worlds.py"
    command = [str(python), "-W", "ignore", str(program), peer, str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | ONE_THREAD)
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        typer.echo(f"{peer} is left out: {said}", err=True)
        return None
    found = json.loads(done.stdout.splitlines()[-1])
    return make_row(found["case"], found["n"], Turn(found["agent_steps"], found["cpu"], found["wall"]))


def _decisions(game: Game, pitches: int) -> Case:
    world = game.make_world("sim", pitches, 0, {})
    world.reset()
    agents = 2 * len(world.contract.agents)
    rng = np.random.default_rng(0)
    actions = [rng.integers(0, 3, (pitches, 2, world.contract.num_heads)) for _ in range(16)]
    steps = pitches * agents * len(actions)
    return Case(f"{pitches} pitches, random actions", pitches, steps, partial(_play, world, actions))


def _play(world: Any, actions: Sequence[Any]) -> None:
    for each in actions:
        world.step(each)
        if world.outcome.any():
            world.reset(np.flatnonzero(world.outcome[:, 0]))


class Played(NamedTuple):
    """Games of two players: the outcomes and seats of the first one ``(games,)``, and the world as it ended."""

    outcomes: NDArray[np.uint8]
    seats: NDArray[np.int64]
    world: Any


def play_games(game: Game, first: Any, second: Any, games: int, seed: int = 0) -> Played:
    """Lets two players play, each on each seat in half of the games, until all are won or their time is up."""
    world = game.make_world("sim", games, seed, {})
    # In the first half of the games, the first player has the first seat.
    seat_of = np.stack([np.arange(games) * 2 // games, 1 - np.arange(games) * 2 // games], axis=1)
    players = [make_opponent(each, game.contract, game) for each in (first, second)]
    bots = [[WORLD_BOT if players[one] is None else None for one in np.argsort(row)] for row in seat_of]
    world.reset(options=[{"seed": seed + row, "bots": pair} for row, pair in enumerate(bots)])
    seeds = [seed + row for row in range(games)]
    states = [
        None if each is None else np.asarray(each.initial_state([one + (1 - number) * MIRRORED for one in seeds]))
        for number, each in enumerate(players)
    ]
    for tick in range(game.max_episode_ticks or 2000):
        rows = np.flatnonzero(world.outcome[:, 0] == Outcome.RUNNING)
        if not rows.size:
            break
        actions = np.zeros((len(rows), 2, game.contract.num_heads), np.int64)
        for number, (each, state) in enumerate(zip(players, states, strict=True)):
            if each is not None and state is not None:
                seats, starts = seat_of[rows, number], np.full(len(rows), tick == 0)
                seen = world.obs[rows, seats]
                seen = seen[:, None] if hasattr(each, "frame_ages") else seen
                given = seen, state[rows], starts, False, world.masks[rows, seats]
                actions[np.arange(len(rows)), seats], following = each.predict(*given)
                if following is not None:
                    state[rows] = following
        world.step(actions, rows)
    return Played(world.outcome[np.arange(games), seat_of[:, 0]], seat_of[:, 0], world)


def games_row(game: Game, first: Any, second: Any, games: int, seed: int = 0) -> Row:
    """Lets two players play, and returns the results of the first one."""
    played = play_games(game, first, second, games, seed)
    won, lost = (int((played.outcomes == each).sum()) for each in (Outcome.WON, Outcome.LOST))
    counts = {"won": won, "lost": lost, "time_limit": games - won - lost}
    rates = {"win_rate": won / games, "win_rate_of_decided": won / max(won + lost, 1)}
    case = f"{first} against {second}"
    return {"case": case, "n": games, **counts, **rates, "mean_ticks": float(played.world.ticks.mean())}
