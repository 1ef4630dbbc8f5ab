"""Opponents that are weaker than they could be: they see late, and move at random now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies.acting import Decision, Flags, Frames, Opponent

#: The latest that an opponent may see, in ticks.
MOST_DELAY = 10


class Handicapped:
    """Plays as another opponent does that sees each observation ``delay`` ticks late and sometimes moves at random.

    Args:
        opponent: who decides; in a single fight, since the frames that it has yet to see are kept here.
        contract: of the game.
        delay: reaction time in ticks, from 0 to `MOST_DELAY`. Masks are those of now, so that what it does is allowed.
        randomness: the share of ticks, from 0 to 1, in which a random allowed action is played.

    Raises `ValueError` for numbers outside of these ranges, and for a delay of one that searches.
    """

    def __init__(self, opponent: Opponent, contract: Contract, delay: int = 0, randomness: float = 0.0) -> None:
        if not 0 <= delay <= MOST_DELAY:
            raise ValueError(f"delay must be from 0 to {MOST_DELAY} ticks, got {delay}")
        if not 0 <= randomness <= 1:
            raise ValueError(f"randomness must be from 0 to 1, got {randomness}")
        self._opponent, self._contract = opponent, contract
        self._delay, self._randomness = delay, randomness
        self._late: list[Frames] = []
        self._random = np.random.default_rng(0)
        for name in ("frame_ages", "watch"):  # only some have them, see `Opponent`
            if hasattr(opponent, name):
                setattr(self, name, getattr(opponent, name))
        if delay and hasattr(self, "watch"):
            raise ValueError("a search looks at the world itself: nothing can be shown to it later")

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """See `Opponent.initial_state`; forgets what is still to be seen."""
        self._late, self._random = [], np.random.default_rng(seeds[0])
        return self._opponent.initial_state(seeds)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """See `Opponent.predict`; until the first observation arrives, the opponent sees the start of the fight."""
        self._late.append(observation)
        if len(self._late) > self._delay + 1:
            self._late.pop(0)
        actions, following = self._opponent.predict(self._late[0], state, episode_start, deterministic, action_masks)
        if self._random.random() < self._randomness:
            actions = self._contract.random_action(action_masks, self._random)
        return actions, following
