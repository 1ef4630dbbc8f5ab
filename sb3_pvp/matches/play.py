"""Fights between two opponents, many at the same time: what ratings, the arena and sequential tests have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import NUM_SEATS, Grouped, Leavable, Outcome, World
from sb3_pvp.game.world import result_of
from sb3_pvp.matches.evaluation import FIRST_SEAT
from sb3_pvp.players.league import Player
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice
from sb3_pvp.players.pool import Members, OpponentPool, ask_opponents
from sb3_pvp.policies.acting import Decision

PARALLEL = 128  #: Fights that are played at the same time.
_EMPTY_SEAT = OpponentChoice(WORLD_BOT)  #: For a seat of an `OpponentPool` without a player: the pool ignores bots.


@dataclass(frozen=True)
class PlannedFight:
    """A fight that is to be played."""

    players: tuple[Player, Player]  #: Of the first and the second seat.
    seed: int  #: Everything that the world decides by chance follows from it.
    reset_params: Mapping[str, Any] | None = None  #: How it starts, if not as the world's fights do.


@dataclass(frozen=True)
class PlayedFight:
    """A fight that is over."""

    outcome: str  #: Of the first seat, see `result_of`: ``won``, ``lost``, ``tied``, ``timeout``, …
    ticks: int
    build: str | None  #: The kind of the fight, in games that have several.


class Referee:
    """Watches fights while they are played, and may end them; this one only lets them be played.

    Rows are those of the world, in each of which one fight is played after another.
    """

    def watch(self, world: World) -> None:
        """Called once, before the first fight."""

    def begin(self, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Called when the fights with these numbers begin."""

    def ask(self, seat: int, predict: Callable[..., Decision], members: Members, *seen: Any) -> Decision:
        """Lets the opponents of a group decide, see `sb3_pvp.players.pool.Ask`."""
        return ask_opponents(predict, members, *seen)

    def see(self, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Called before the world is stepped in ``rows``, with the actions of all rows ``(F, 2, heads)``."""

    def ends(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns which of the fights are over for another reason than the world's; bool ``(len(rows),)``."""
        return np.zeros(len(rows), bool)

    def result(self, row: int, fight: PlayedFight) -> Any:
        """Returns what `play_fights` yields for a fight that is over."""
        return fight


def play_fights(
    planned: Mapping[int, PlannedFight],
    choices: Mapping[Player, OpponentChoice],
    settings: FightSettings,
    parallel_fights: int = PARALLEL,
    referee: Referee | None = None,
) -> Iterator[tuple[int, Any]]:
    """Plays the planned fights, with consecutive numbers; yields the number and the result of each as it ends.

    Row r of the world plays the fights r, r + count, r + 2 count, ...: if free rows took the next fight of a common
    queue, short fights would be overrepresented among those that are over after an interruption.
    """
    count, first = min(len(planned), parallel_fights), min(planned)
    end, limit = first + len(planned), settings.max_episode_ticks or np.inf
    rules = {} if settings.death_match else {"death_match": False}
    referee = referee or Referee()
    with closing(settings.make_world(count)) as world:
        asks = [partial(referee.ask, seat) for seat in range(NUM_SEATS)]
        pools = [OpponentPool(world, _EMPTY_SEAT, settings.game, seat, ask) for seat, ask in enumerate(asks)]
        referee.watch(world)
        actions = np.zeros((count, NUM_SEATS, world.contract.num_heads), world.contract.action_dtype)
        # The number of each row's fight; at first one step before the first fight, as if one had just ended.
        numbers, ticks, ended = np.arange(first - count, first), np.zeros(count, np.int64), np.arange(count)
        while True:
            numbers[ended] += count
            ticks[ended] = 0
            begun = ended[numbers[ended] < end]
            if ended.size:
                fights = {row: planned[int(numbers[row])] for row in begun.tolist()}
                _start_fights(world, pools, ended, fights, choices, rules)
                referee.begin(begun, numbers[begun])
            playing = np.flatnonzero(numbers < end)
            if not playing.size:
                return
            actions[:] = 0
            for pool in pools:
                pool.act(actions)
            referee.see(playing, actions)
            world.step(actions[playing], playing)
            for pool in pools:
                pool.advance()
            ticks[playing] += 1
            over = (world.outcome[playing, 0] != int(Outcome.RUNNING)) | (ticks[playing] >= limit)
            ended = playing[over | referee.ends(playing)]
            for row in ended.tolist():
                word = result_of(*world.outcome[row].tolist())
                build = world.build_name(row) if isinstance(world, Grouped) else None
                yield int(numbers[row]), referee.result(row, PlayedFight(word, int(ticks[row]), build))


def _start_fights(
    world: World,
    pools: Sequence[OpponentPool],
    rows: NDArray[np.int64],
    fights: Mapping[int, PlannedFight],
    choices: Mapping[Player, OpponentChoice],
    rules: Mapping[str, bool],
) -> None:
    """Starts ``fights`` by row; the other rows have no more fights to play."""
    done = np.setdiff1d(rows, list(fights))
    if done.size and isinstance(world, Leavable):
        world.leave(done)
    seated = {row: [choices[player] for player in fight.players] for row, fight in fights.items()}
    if seated:
        bots = {row: (None, WORLD_BOT if second.opponent == WORLD_BOT else None) for row, (_, second) in seated.items()}
        starts = {row: fight.reset_params for row, fight in fights.items()}
        options = [
            {"bots": bots[row], **rules, "seed": fight.seed}
            | ({} if starts[row] is None else {"reset_params": starts[row]})
            for row, fight in fights.items()
        ]
        world.reset(np.array(list(fights)), options)
    for seat, (pool, stream) in enumerate(zip(pools, (FIRST_SEAT, 0), strict=True)):
        for row in rows.tolist():
            pool.choose(row, seated[row][seat] if row in seated else _EMPTY_SEAT)
        pool.begin(rows, [fights[row].seed + stream if row in fights else None for row in rows.tolist()])
