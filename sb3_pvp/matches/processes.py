"""How fights are divided between processes."""

from __future__ import annotations

from itertools import pairwise

from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.common.cores import num_cores
from sb3_pvp.game import WorldFactory

#: A process is worth its start for so many fights. A start takes five seconds of CPU time, as do 200 fights of large
#: networks, or 1,000 to 3,000 of small ones.
FIGHTS_PER_PROCESS = 1000
FIRST_SEAT = 1 << 32  #: Added to the fight's seed for the first seat, so that the two players sample differently.


def num_processes(jobs: int | None, num_fights: int, world: str | WorldFactory) -> int:
    """Returns in how many processes to play so many fights: ``jobs`` if given.

    Else all cores that have enough to do, or only this process if the fights are not in the embedded world. Raises
    `ValueError` for less than one job.
    """
    if jobs is not None:
        return POSITIVE.read("jobs", jobs)
    return max(min(num_cores(), num_fights // FIGHTS_PER_PROCESS), 1) if world == "sim" else 1


def shares(count: int, parts: int) -> list[slice]:
    """Divides ``count`` things, which stay in order, into at most so many nearly equal parts; none is empty."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [slice(start, end) for start, end in pairwise(ends) if start < end]
