"""Workers that tests share, since a process behind walls takes seconds to start, whatever it plays then."""

from __future__ import annotations

import atexit
from functools import cache

from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.playing import Workers


class _Kept(Workers):
    """Ends with the tests."""

    def close(self) -> None:
        """Leaves the process to the next test."""


def kept(challenge: Challenge, *_: object) -> Workers:
    """One process for the fights of all challenges like this one; the arguments are those of `Workers`."""
    return _kept(challenge.model_dump_json())


@cache
def _kept(challenge: str) -> Workers:
    workers = _Kept(Challenge.model_validate_json(challenge), 1)
    atexit.register(Workers.close, workers)
    return workers
