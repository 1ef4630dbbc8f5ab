"""Files on the hub that are too large, or not to be had, are not downloaded, and keep no others out."""

from __future__ import annotations

import pytest

from sb3_pvp.common.errors import Refusal
from sb3_pvp.policies.files import hub as client
from tests.hub_stand_in import Hub, hub_stand_in  # noqa: F401  (a fixture)


def test_what_is_too_large_is_not_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    card = b"---\ntags: [open]\n---\n"
    hub.add("eve/large", {"a.fighter": bytes(2000), "README.md": card})
    hub.add("ann/small", {"a.fighter": bytes(1000), "README.md": card})
    assert [each.repo_id for each in client.find_fighters(["open"], ())] == ["eve/large", "ann/small"]
    for limit in ("MOST_UNTRUSTED", "MOST_PULLED"):
        monkeypatch.setattr(client, limit, 1000)
    assert [each.repo_id for each in client.find_fighters(["open"], ())] == ["ann/small"]
    with pytest.raises(Refusal, match=r"^a\.fighter of eve/large has 2,000 bytes, and at most 1,000 are taken$"):
        client.pull_fighter("eve/large", None, None, None)


def test_one_repository_that_refuses_keeps_no_others_out(hub: Hub) -> None:
    card = b"---\ntags: [open]\n---\n"
    for name in ("eve/gone", "eve/gated", "ann/small"):
        hub.add(name, {"a.fighter": bytes(10), "README.md": card})
    hub.failing = {"/api/models/eve/gone": 404, "/eve/gated/resolve": 403}
    with pytest.warns(RuntimeWarning) as warned:
        assert [each.repo_id for each in client.find_fighters(["open"], ())] == ["ann/small"]
    assert [str(each.message).partition(":")[0] for each in warned] == [
        "eve/gone is left out",
        "eve/gated is left out",
    ]
