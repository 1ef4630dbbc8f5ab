"""An arena that plays by itself: a round every few hours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pandas as pd

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.match_rounds import RoundSummary
from sb3_pvp.common.errors import extra

_LAST = "last_round_at"
_LEAST = 0.1  # seconds between two rounds


def parse_interval(text: str) -> float:
    """Returns the seconds of a text such as ``4h``, ``30m`` or ``10s``; `ValueError` for anything else."""
    with suppress(ValueError):
        if (seconds := pd.Timedelta(text).total_seconds()) >= _LEAST:
            return float(seconds)
    raise ValueError(f"an interval is a number with a unit, such as 4h, 30m or 10s; got {text!r}")


def serve(
    arena: Arena,
    every: float,
    told: Callable[[RoundSummary | Exception | None], object],
    rounds: int | None = None,
) -> None:
    """Plays rounds until the season is over, or the process is interrupted.

    When the last round began is kept in the store: an arena that starts again waits for the rest of the time, and
    rounds that were missed are made up for by one. A round that takes longer than ``every`` is not played twice at the
    same time. What goes wrong in one round does not keep the next one from being played.

    Args:
        arena: which one.
        every: seconds between the beginnings of two rounds.
        told: called with the summary of each round, ``None`` at the end of the season, or what went wrong.
        rounds: end after so many.

    Raises `MissingExtra` if APScheduler is not installed.
    """
    with extra("arena", "rounds on schedule"):
        from apscheduler.schedulers.background import BackgroundScheduler
    # The scheduler only says when: rounds run in this thread, so that Ctrl-C reaches them. Due twice is due once.
    due, scheduler = threading.Event(), BackgroundScheduler(timezone=UTC)
    last = float(arena.store.fact(_LAST) or 0)
    first = datetime.fromtimestamp(max(last + every, time.time()), UTC)
    settings = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
    scheduler.add_job(due.set, "interval", seconds=every, next_run_time=first, **settings)
    scheduler.start()
    try:
        while rounds is None or rounds > 0:
            due.wait()
            due.clear()
            rounds = None if rounds is None else rounds - 1
            try:
                arena.store.set_fact(_LAST, str(time.time()))
                summary = arena.run_once()
            except (ValueError, OSError) as error:  # such as a database that is away, or too few players so far
                told(error)
                continue
            told(summary)
            if summary is None and arena.challenge.season.state() == "over":
                return
    finally:
        scheduler.shutdown(wait=False)
