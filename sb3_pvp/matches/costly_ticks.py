"""`costly_ticks`: the decisions that cost a player of a fight most, found by playing the fight on many times."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import NUM_SEATS, Game, Outcome, Reseedable, controls_of, made_controls
from sb3_pvp.game.contract.turn import check_actions
from sb3_pvp.matches.evaluation import FIRST_SEAT
from sb3_pvp.matches.replay.record import second_opinion
from sb3_pvp.players.league.bradley_terry import Z95
from sb3_pvp.players.opponents import OpponentChoice, OpponentLike
from sb3_pvp.players.pool import Members, OpponentPool, ask_opponents

MOST_PAIRS = 256  #: That are played at the same time.
_RESULTS = np.array([0.5, 1.0, 0.0, 0.5, 0.5, 0.5])  # by `Outcome`; what was broken off, or is not over, is a tie


@dataclass(frozen=True)
class CostlyTick:
    """A decision and its cost: by how much it lowered the mean result, where a fight won is 1, tied 0.5 and lost 0."""

    tick: int  #: The tick that it led to, from 1: the number of its `Moment` in a recording.
    cost: float  #: Mean result with the fighter's action, less that with the one taken.
    low: float  #: Lower end of the 95 % interval of the cost; above 0 it surely was a mistake.
    high: float  #: Upper end.
    taken: tuple[int, ...]  #: The action, by head.
    instead: tuple[int, ...]  #: The most likely action of the fighter, by head.

    def words(self, game: Game) -> tuple[str, str]:
        """Returns what is ``taken`` and ``instead``, each without what both do, as a game's controls call it."""
        controls = [each for group in controls_of(game.viewer, game.contract) for each in group.controls]
        made = [made_controls(game.contract, action, controls) for action in (self.taken, self.instead)]
        only = ([each.label for each in own if each not in other] for own, other in (made, made[::-1]))
        taken, instead = (", ".join(labels) or "nothing" for labels in only)
        return taken, instead


def costly_ticks(
    settings: FightSettings,
    seed: int,
    actions: ArrayLike,
    seat: int,
    fighter: OpponentLike,
    *,
    bots: tuple[str | None, str | None] = (None, None),
    most: int = 3,
    continuations: int = 64,
    max_ticks: int | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> list[CostlyTick]:
    """Returns the decisions of a seat that cost it most, the costliest first; equal arguments give equal results.

    Where the fighter would most likely have acted otherwise, the fight is played on, in pairs with equal random
    numbers: once with the fighter's most likely action, once with the one taken. All else from that tick on is up to
    new chance and to the fighter, which samples in both seats: what the other seat did in that tick does not count, so
    that a wrong guess is no mistake. The world's bot keeps its seat.

    The ticks are chosen by successive halving: a quarter of ``continuations`` pairs for each, and in every further
    round twice as many new ones for the better half. As the costliest of many look costlier than they are, the costs
    that are returned are those of ``continuations`` new pairs each, which have no part in the choice.

    Args:
        settings, seed, actions, seat, fighter, bots: see `second_opinion`; the fighter is who knows better.
        most: number of ticks to return, if there are as many; ``continuations`` is the number of pairs for each.
        max_ticks: length of a fight, from its start, at which it is given up as a tie; by default the settings' limit.
        progress: called with the share that is done, up to 1.

    Raises `ValueError` as `second_opinion` does, for games that ask for numbers, and for worlds without ``reseed``,
    such as servers.
    """
    if settings.world_contract.numbers.size:
        raise ValueError(f"costly ticks are choices, but {settings.world_contract.name} asks for numbers")
    most, continuations = POSITIVE.read("most", most), POSITIVE.read("continuations", continuations)
    limit = (settings.max_episode_ticks or np.inf) if max_ticks is None else POSITIVE.read("max_ticks", max_ticks)
    taken = check_actions(actions, settings.world_contract, *np.shape(actions)[:1], NUM_SEATS)
    if not len(taken):
        return []
    start = {"bots": bots, "seed": seed, **({} if settings.death_match else {"death_match": False})}
    with closing(settings.make_world(1)) as world:
        if not isinstance(world, Reseedable):
            raise ValueError(f"the fight cannot be played on: {type(world).__name__} has no reseed()")
    decisions, _ = second_opinion(settings, seed, taken, seat, fighter, bots).thoughts(settings.world_contract)
    decided = np.array([each.chosen for each in decisions], np.int64).reshape(len(taken), -1)
    options = np.stack([decided, taken[:, seat]], axis=1)
    ticks = np.flatnonzero((options[:, 0] != options[:, 1]).any(axis=1))
    rounds, random, done = _rounds(len(ticks), most, continuations), np.random.default_rng([seed, seat]), 0
    gains = np.zeros(len(ticks))
    largest, total = (pick(many * pairs for many, pairs in rounds) for pick in (max, sum))
    with closing(settings.make_world(2 * max(1, min(largest, MOST_PAIRS)))) as world:
        replays = _Replays(world, settings.game, start, taken, OpponentChoice(fighter))
        for many, pairs in rounds:
            kept, costs = np.sort(np.argsort(-gains, kind="stable")[:many]), np.zeros(many * pairs)
            ticks, seeds = ticks[kept], random.integers(1 << 62, size=many * pairs)
            for first in range(0, len(costs), MOST_PAIRS):
                part = slice(first, first + MOST_PAIRS)
                costs[part] = replays.costs(np.repeat(ticks, pairs)[part], seeds[part], seat, options, limit)
                progress((done := done + len(costs[part])) / total)
            gains = gains[kept] + costs.reshape(many, pairs).sum(axis=1)
    pairs_of = zip(ticks.tolist(), costs.reshape(many, pairs), strict=True)
    found = [CostlyTick(tick + 1, *_interval(own), *map(tuple, options[tick, ::-1].tolist())) for tick, own in pairs_of]
    return sorted(found, key=lambda each: -each.cost)


def _rounds(ticks: int, most: int, continuations: int) -> list[tuple[int, int]]:
    """Returns how many ticks take part in each round, and how many pairs each gets; the last one gives the costs."""
    rounds, pairs = [], max(1, continuations // 4)
    while ticks > most:
        rounds.append((ticks, pairs))
        ticks, pairs = max(most, ticks // 2), 2 * pairs
    return [*rounds, (ticks, continuations)]


def _interval(costs: NDArray[np.float64]) -> tuple[float, float, float]:
    """Returns the mean of the costs ``(pairs,)``, and the ends of its 95 % interval."""
    # With two pairs more, 1 above and below the mean: 64 equal costs give 0.04 to each side, as the rule of three does.
    mean, count = float(costs.mean()), len(costs)
    half = Z95 * ((float(((costs - mean) ** 2).sum()) + 2) / (count + 1) / count) ** 0.5
    return mean, max(-1.0, mean - half), min(1.0, mean + half)


class _Replays:
    """Rows of a world in which the recorded fight is played again, and on by the fighter."""

    def __init__(self, world: Any, game: Game, start: dict[str, Any], taken: NDArray[np.int64], choice: Any) -> None:
        self._world, self._start, self._taken, self._asked = world, start, taken, np.arange(world.num_fights)
        self._actions = np.zeros((len(self._asked), *taken.shape[1:]), np.int64)
        seats = [seat for seat, bot in enumerate(start["bots"]) if bot is None]
        self._pools = {seat: OpponentPool(world, choice, game, seat, partial(self._ask, seat)) for seat in seats}

    def costs(
        self, begins: Any, seeds: Any, seat: int, options: NDArray[np.int64], limit: float
    ) -> NDArray[np.float64]:
        """Returns how much worse the second of two ``options (T, 2, heads)`` was in each of the ticks ``begins``."""
        begins, seeds, tick = np.repeat(begins, 2), np.repeat(seeds, 2), 0
        self._begin(seeds.tolist())
        playing = rows = np.arange(len(seeds))
        while playing.size:
            waiting, now = playing[begins[playing] > tick], playing[begins[playing] == tick]
            self._asked, recorded = playing[begins[playing] <= tick], min(tick, len(self._taken) - 1)
            for pool in self._pools.values():
                pool.act(self._actions)
            self._actions[waiting], self._actions[now, seat] = self._taken[recorded], options[recorded, now % 2]
            self._world.reseed(now, seeds[now].tolist())
            self._world.step(self._actions[playing], playing)
            for pool in self._pools.values():
                pool.advance()
            tick += 1
            playing = playing[(self._world.outcome[playing, 0] == Outcome.RUNNING) & (tick < limit)]
        worth: NDArray[np.float64] = _RESULTS[self._world.outcome[rows, seat]]
        return worth[::2] - worth[1::2]

    def _begin(self, seeds: list[int]) -> None:
        rows = np.arange(len(seeds))
        self._world.reset(rows, [self._start] * len(rows))
        for seat, pool in self._pools.items():
            pool.begin(rows, [seed + (FIRST_SEAT, 0)[seat] for seed in seeds])

    def _ask(self, seat: int, predict: Any, members: Members, frames: Any, states: NDArray[Any], *flags: Any) -> Any:
        """Asks the fighter where it decides; one that has more than random words, a memory, has to see all."""
        rows = self._asked if states.dtype == np.uint64 and states.ndim == 1 else np.arange(len(states))
        actions = np.zeros_like(self._actions[:, 0])
        if rows.size:
            own = states[rows], *(each[rows] for each in flags)
            if hasattr(opponent := members[0][0], "watch"):
                opponent.watch(self._world, rows, seat)
            actions[rows], after = ask_opponents(predict, [(opponent, rows)], [frames[0][rows]], *own)
            states[rows] = states[rows] if after is None else after
        return actions, states
