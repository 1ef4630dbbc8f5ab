"""What opponents see, and when they are too late to act on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.game import World
from sb3_pvp.opponents.mask_override import ActionMaskOverride
from sb3_pvp.opponents.noise import ObservationNoise
from sb3_pvp.opponents.rivals import Rival

_DELAYS, _NOISE = 4, 5  # streams of a fight's seed

_Owner = TypeVar("_Owner", ObservationNoise, ActionMaskOverride)


class OpponentSight:
    """One seat of N fights, as those see it who sit there: frames, noise, masks, and delays.

    Args:
        world: where the fights take place.
        seat: 0 or 1, in every fight.

    Attributes:
        agents: int64, the fights in which somebody acts in that seat.
        own: float32 ``(N, depth, D)``, what the seats saw of late, newest first.
        kept: the same, when those who are late last were in time.
        stale: bool ``(N,)``, who decides next by what was kept.
        delay_words: uint64 ``(N,)``, random numbers of delays.
        noise_words: the same of noise.
    """

    ARRAYS = ("own", "kept", "stale", "delay_words", "noise_words")

    def __init__(self, world: World, seat: int) -> None:
        self._world, self._seat = world, seat
        count = world.num_fights
        shape = (count, 1, world.contract.num_observations)
        self.own, self.kept = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self.stale = np.zeros(count, bool)
        self.delay_words, self.noise_words = (words_from_seeds(range(count), stream) for stream in (_DELAYS, _NOISE))

    def seed(self, fight: int, seed: int) -> None:
        """Determines the delays and the noise in a fight."""
        for words, stream in ((self.delay_words, _DELAYS), (self.noise_words, _NOISE)):
            words[fight] = words_from_seeds([seed], stream)[0]

    def follow(self, rivals: Sequence[Rival]) -> None:
        """Says who plays in each fight."""
        self.agents = np.flatnonzero([rival.opponent is not None for rival in rivals])
        self._noisy = _users(rival.noise for rival in rivals)
        self._restricted = _users(rival.override for rival in rivals)
        self._chances = np.array([rival.choice.delay_chance for rival in rivals], np.float64)
        self._slow = np.flatnonzero(self._chances)
        self._deepen(max(max(rival.frame_ages) for rival in rivals) + 1)

    def begin(self, fights: NDArray[np.int64]) -> None:
        """New episodes have begun: their first observation is taken up."""
        self.stale[fights] = False
        self.own[fights] = 0.0
        self._take_up(fights)

    def advance(self) -> None:
        """Takes up the observations after a tick."""
        if self.agents.size:
            self.own[:, 1:] = self.own[:, :-1]
            self._take_up(self.agents)

    def frames(self, fights: NDArray[np.int64], ages: Sequence[int]) -> NDArray[np.float32]:
        """What the opponents in these fights decide by, ``(n, frames, D)``, a new array."""
        rows, which = fights[:, np.newaxis], list(ages)
        frames: NDArray[np.float32] = self.own[rows, which]
        stale = self.stale[fights]
        if stale.any():
            frames[stale] = self.kept[rows[stale], which]
        return frames

    def masks(self) -> NDArray[np.bool_]:
        """Their flat masks ``(N, A)``."""
        masks = self._world.masks[:, self._seat].copy()
        for override, fights in self._restricted:
            masks[fights] = override.applied(masks[fights])
        return masks

    def draw_delays(self) -> NDArray[np.bool_]:
        """Who does nothing in this tick, bool ``(N,)``; whoever is late keeps what was seen when the delay began."""
        late = np.zeros(len(self.stale), bool)
        if self._slow.size:
            chance, self.delay_words[self._slow] = uniform(self.delay_words[self._slow])
            late[self._slow] = chance < self._chances[self._slow]
            fresh = late & ~self.stale
            self.kept[fresh] = self.own[fresh]
        return late

    def put_back(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Takes over arrays of another moment, with as many frames as were seen then."""
        for name in self.ARRAYS[:2]:
            setattr(self, name, arrays[name].copy())
        for name in self.ARRAYS[2:]:
            getattr(self, name)[:] = arrays[name]

    def _deepen(self, depth: int) -> None:
        """Remembers that many frames; unknown ones are zero, as before the start of an episode."""
        missing = depth - self.own.shape[1]
        if missing > 0:
            padding = ((0, 0), (0, missing), (0, 0))
            self.own, self.kept = np.pad(self.own, padding), np.pad(self.kept, padding)

    def _take_up(self, fights: NDArray[np.int64]) -> None:
        self.own[fights, 0] = self._world.obs[fights, self._seat]
        for noise, users in self._noisy:
            noisy = np.intersect1d(users, fights)
            self.own[noisy, 0] = noise.add(self.own[noisy, 0], noisy)


def _users(owners: Iterable[_Owner | None]) -> list[tuple[_Owner, NDArray[np.int64]]]:
    """Everybody who is there, with the fights that use it, ascending."""
    users: dict[int, tuple[_Owner, list[int]]] = {}
    for fight, owner in enumerate(owners):
        if owner is not None:
            users.setdefault(id(owner), (owner, []))[1].append(fight)
    return [(owner, np.array(fights)) for owner, fights in users.values()]
