"""What a tick adds to the episodes of all fights, in one compiled pass instead of a dozen of NumPy's."""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy.typing import NDArray

from sb3_pvp.game import Outcome

_RUNNING, _TARGET_LOST = int(Outcome.RUNNING), int(Outcome.TARGET_LOST)


@njit(cache=True, error_model="numpy")
def add_tick(
    components: NDArray[Any], outcome: NDArray[Any], max_ticks: int, episodes: tuple[NDArray[Any], ...]
) -> None:
    """Writes the results of a tick of N fights into the arrays of ``episodes``, see `Fights`.

    ``components`` are the terms of the reward, float32 ``(terms, N)``, summed in their order; ``outcome`` are `Outcome`
    numbers, uint8 ``(N,)``. A fight that still runs after ``max_ticks`` ticks is truncated.
    """
    reward, episode_return, episode_components, length, terminated, truncated = episodes
    # The same in NumPy, which this is held against: tests/envs/test_tally.py. The loop adds in the order of the terms:
    # NumPy adds up a single column in another order than several, so a lone fight's reward could differ in a bit.
    reward[:] = 0
    for term in range(components.shape[0]):
        for fight in range(components.shape[1]):
            reward[fight] += components[term, fight]
            episode_components[term, fight] += components[term, fight]
    for fight in range(len(reward)):
        episode_return[fight] += reward[fight]
        length[fight] += 1
        timeout = outcome[fight] == _RUNNING and length[fight] >= max_ticks
        terminated[fight] = _RUNNING < outcome[fight] < _TARGET_LOST
        truncated[fight] = outcome[fight] >= _TARGET_LOST or timeout
