"""Random legal actions, by masks and dependencies (contract.md §2.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import rng
from sb3_pvp.games.osrs.sim.compile import kernel, rule


@rule
def _is_legal(chosen: int, requirement: NDArray[np.int64]) -> bool:
    every, some, none = requirement[0], requirement[1], requirement[2]
    return bool(chosen & every == every and (some == 0 or chosen & some != 0) and chosen & none == 0)


@kernel
def choose_legal(
    masks: NDArray[np.bool_],
    head_sizes: NDArray[np.int64],
    required: NDArray[np.int64],
    states: NDArray[np.uint64],
    actions: NDArray[np.int64],
) -> None:
    """Samples a legal joint action for every seat, head by head; entry 0 where a head has none (contract.md §2.3).

    ``required`` are the `world.requirements` of the contract; ``states`` are one random state for each fight.
    """
    for f in range(masks.shape[0]):
        for seat in range(masks.shape[1]):
            chosen = 0
            start = 0
            for head in range(head_sizes.size):
                pick, legal = 0, 0
                for j in range(head_sizes[head]):
                    if masks[f, seat, start + j] and _is_legal(chosen, required[start + j]):
                        legal += 1  # the n-th legal entry replaces the pick with probability 1/n: one pass, uniform
                        states[f] += rng.GAMMA
                        if np.int64(rng.mix(states[f]) >> np.uint64(33)) % legal == 0:
                            pick = j
                actions[f, seat, head] = pick
                chosen |= 1 << (start + pick)
                start += head_sizes[head]
