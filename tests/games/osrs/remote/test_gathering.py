"""Fights wait for each other as long as that is worth it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from sb3_pvp.games.osrs.remote.gathering import MAX_SKIPS, WAIT_SECONDS, Gathering


class Handle:
    """A scheduled call, as far as `Gathering` uses it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Runs the calls that are due at once, or those with a delay."""

    def __init__(self) -> None:
        self.soon: list[Handle] = []
        self.later: list[Handle] = []

    def call_soon(self, call: Callable[[], object]) -> Handle:
        self.soon.append(Handle(call))
        return self.soon[-1]

    def call_later(self, seconds: float, call: Callable[[], object]) -> Handle:
        assert seconds == WAIT_SECONDS
        self.later.append(Handle(call))
        return self.later[-1]

    def run(self, handles: list[Handle]) -> None:
        due, handles[:] = handles[:], []
        for handle in due:
            if handle.call is not None:
                handle.call()


class Scene:
    """A `Gathering` on a fake loop, which counts its ticks."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.ticks = 0
        self.gathering = Gathering(self._play, cast(asyncio.AbstractEventLoop, self.loop))

    def _play(self) -> None:
        self.ticks += 1

    def alone(self) -> bool:
        """One fight becomes ready and no other one does; returns whether it had to wait."""
        before = self.ticks
        self.gathering.add(False)
        self.loop.run(self.loop.soon)
        waited = self.ticks == before
        self.loop.run(self.loop.later)
        assert self.ticks == before + 1
        return waited

    def together(self) -> bool:
        """Two fights become ready soon after each other; returns whether they were played together."""
        before = self.ticks
        for _ in range(2):
            self.gathering.add(False)
            self.loop.run(self.loop.soon)
        self.loop.run(self.loop.later)
        return self.ticks == before + 1


def test_no_wait_when_all_fights_are_ready() -> None:
    scene = Scene()
    scene.gathering.add(True)
    assert not scene.loop.later
    scene.gathering.add(True)
    scene.loop.run(scene.loop.soon)
    assert scene.ticks == 1


def test_a_wait_ends_with_the_last_one() -> None:
    scene = Scene()
    scene.gathering.add(False)
    scene.gathering.add(False)
    assert not scene.loop.soon
    scene.gathering.add(True)
    scene.loop.run(scene.loop.soon)
    assert scene.ticks == 1
    scene.loop.run(scene.loop.later)
    assert scene.ticks == 1, "the time-out is cancelled"


def test_a_wait_times_out() -> None:
    scene = Scene()
    scene.gathering.add(False)
    scene.gathering.add(False)
    scene.loop.run(scene.loop.later)
    assert scene.ticks == 1


def test_waits_in_vain_become_rare() -> None:
    scene = Scene()
    waits = "".join("w" if scene.alone() else "." for _ in range(400))
    assert [len(gap) for gap in waits.split("w")][:9] == [0, 1, 3, 7, 15, 31, MAX_SKIPS, MAX_SKIPS, MAX_SKIPS]


def test_a_wait_that_pays_is_followed_by_others() -> None:
    scene = Scene()
    for _ in range(400):
        scene.alone()
    waits = [scene.together() for _ in range(MAX_SKIPS)]
    assert not waits[0]
    assert all(scene.together() for _ in range(10))
    assert scene.alone()
