"""Model files that an actor on another node fetches: it keeps a few of them, and fetches what has gone again."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from sb3_pvp.algorithms.actors import remote_actor
from sb3_pvp.algorithms.actors.remote_actor import FetchedFiles


def test_what_has_made_room_for_others_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda given: given))
    monkeypatch.setattr(remote_actor, "KEPT_FILES", 2)
    read = SimpleNamespace(remote=lambda path: (f"version-{path}", f"{path}.zip", [path.encode()]))
    files = FetchedFiles(SimpleNamespace(read=read))
    for path in ("a", "b", "c", "a"):
        assert files.find(path).read_bytes() == path.encode()
