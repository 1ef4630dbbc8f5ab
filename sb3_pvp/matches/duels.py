"""Fights in which nobody learns: opponents in both seats, of which each fight has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import NUM_SEATS, Grouped, Leavable, Outcome
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice
from sb3_pvp.opponents.pool import OpponentPool

#: Random numbers of opponents in the first seat follow from another seed than those of the second seat.
_FIRST_SEAT = 1 << 32
#: In a pool: somebody whom nobody asks.
_NOBODY = OpponentChoice(WORLD_BOT)


class Result(NamedTuple):
    """How a fight ended.

    Attributes:
        outcome: as the first seat sees it: ``won``, ``lost`` or ``tied``, or why it broke off, such as ``timeout``.
        ticks: that were played.
        seed: of the fight.
        build: of which kind it was, if the world tells.
    """

    outcome: str
    ticks: int
    seed: int
    build: str | None


class Duels:
    """Up to N fights at a time, played side by side; opponents with the same model are asked together.

    Args:
        num_fights: N.
        settings: where and how; of these ``game``, ``world``, ``contract``, ``reset_params``, ``death_match`` and
            ``max_episode_ticks``.
    """

    def __init__(self, num_fights: int, settings: FightSettings) -> None:
        self._settings = settings
        self._world = settings.make_world(num_fights)
        self._pools = [OpponentPool(self._world, _NOBODY, seat, settings.game) for seat in range(NUM_SEATS)]
        self._actions = np.zeros((num_fights, NUM_SEATS, self._world.contract.num_heads), np.int64)
        self._length, self._seeds = np.zeros(num_fights, np.int64), np.zeros(num_fights, np.int64)
        self._is_played = np.zeros(num_fights, bool)

    def begin(
        self, fights: Sequence[int], players: Sequence[tuple[OpponentChoice, OpponentChoice]], seeds: Sequence[int]
    ) -> None:
        """Starts these fights, with the players of both seats and a seed for each.

        Raises `ValueError`, and `FileNotFoundError`, for players who cannot play here; the world's bot can only have
        the second seat.
        """
        which, options = np.asarray(fights, np.int64), []
        for fight, (first, second), seed in zip(fights, players, seeds, strict=True):
            if first.opponent == WORLD_BOT or SELF_PLAY in (first.opponent, second.opponent):
                raise ValueError(f"{first.label} cannot fight {second.label} in the first seat")
            self._pools[0].choose(fight, first)
            self._pools[1].choose(fight, second)
            bots = (None, WORLD_BOT if second.opponent == WORLD_BOT else None)
            rules = {} if self._settings.death_match else {"death_match": False}
            options.append({"bots": bots, **rules, "seed": seed})
        self._world.reset(which, options)
        for pool, stream in zip(self._pools, (_FIRST_SEAT, 0), strict=True):
            pool.begin(which, [seed + stream for seed in seeds])
        self._length[which], self._seeds[which], self._is_played[which] = 0, seeds, True

    def step(self) -> dict[int, Result]:
        """Plays a tick of all fights that have begun, and tells which have ended; these wait for their next `begin`."""
        playing = np.flatnonzero(self._is_played)
        self._actions[:] = 0
        for pool in self._pools:
            pool.act(self._actions)
        self._world.step(self._actions[playing], playing)
        for pool in self._pools:
            pool.advance()
        self._length[playing] += 1
        limit = self._settings.max_episode_ticks
        over = (self._world.outcome[:, 0] != int(Outcome.RUNNING)) | (self._length >= (limit or np.inf))
        ended = playing[over[playing]]
        results = {fight: self._result(fight) for fight in ended.tolist()}
        if ended.size:
            self._stop(ended)
        return results

    def close(self) -> None:
        """Closes the world."""
        self._world.close()

    def _result(self, fight: int) -> Result:
        outcome = Outcome(int(self._world.outcome[fight, 0]))
        word = "timeout" if outcome == Outcome.RUNNING else outcome.name.lower()
        build = self._world.build_name(fight) if isinstance(self._world, Grouped) else None
        return Result(word, int(self._length[fight]), int(self._seeds[fight]), build)

    def _stop(self, ended: NDArray[np.int64]) -> None:
        self._is_played[ended] = False
        for pool in self._pools:
            for fight in ended.tolist():
                pool.choose(fight, _NOBODY)
            pool.begin(ended, [None] * len(ended))
        if isinstance(self._world, Leavable):
            self._world.leave(ended)
