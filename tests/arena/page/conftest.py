"""An arena that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.live import LiveFights
from tests.arena.page.pages import played


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = played(tmp_path_factory.mktemp("page") / "arena")
    yield made
    made.close()


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages start no process for fights that nobody begins."""

    async def nothing(_: LiveFights) -> None:
        pass

    monkeypatch.setattr(LiveFights, "warm", nothing)
