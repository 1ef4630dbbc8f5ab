"""Matches of an arena on two nodes of a Ray cluster: the same as on one machine, also if an actor is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from tests.algorithms.actors.conftest import cluster  # noqa: F401  (a fixture)


def results(arena: Arena) -> list[tuple[Any, ...]]:
    arena.run_once()
    arena.close()
    found = [(each.key, each.outcome, each.ticks, each.details) for each in arena.records()]
    return sorted(
        (key, outcome, ticks, details.digest, details.cause) for key, outcome, ticks, details in found if details
    )


def made(folder: Path) -> Arena:
    facts: Any = {"fights_per_match": 20, "pairing": {"kind": "round_robin"}, "max_ticks": 100}
    return Arena.create(folder, Challenge(name="nh", game="NhEnv", scripts=("scripted", "noop", "fast"), **facts))


@pytest.mark.slow
def test_matches_on_a_cluster_are_those_of_one_machine(
    cluster: Any,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = results(made(tmp_path / "alone"))
    made(tmp_path / "both").close()
    distributed = Arena(tmp_path / "both", distribute=True)
    assert distributed.workers.size == 2
    first = distributed.workers._part(0)
    stream, lost = type(first).play, []

    def losing(self: Any, *arguments: Any) -> Any:
        for played in stream(self, *arguments):
            yield played
            if not lost:
                lost.append(self)
                self._ray.kill(self._actor)  # as if its machine was gone

    monkeypatch.setattr(type(first), "play", losing)
    assert results(distributed) == alone
    assert len(lost) == 1
