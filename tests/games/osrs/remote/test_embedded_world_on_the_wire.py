"""The embedded world behind the protocol: a fight of two agents to the end, and another with the same logins."""

from __future__ import annotations

from typing import Any

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.remote.wire import NO_OP, Wire, only

CONTRACT = load_contract("NhEnv")
HEALTH = CONTRACT.observation_index("player_health_percent")
TARGET_HEALTH = CONTRACT.observation_index("target_health_percent")
PID = CONTRACT.observation_index("player_has_pid")
SHOWN_DAMAGE = [CONTRACT.observation_index(f"damage_on_{side}_tick") for side in ("player", "target")]
RANGED_ATTACK = [2, 0, 1, *NO_OP[3:]]
Body = dict[str, Any]


def start(wire: Wire) -> tuple[Body, dict[str, Body]]:
    """Resets both agents. Returns the reply that comes first, and both replies of the next tick."""
    options = {"maintainTargetEnvironment": True, "deathMatch": True, "training": True}
    replies = {agent: wire.reset(agent, target, **options) for agent, target in (("1", "2"), ("2", "1"))}
    (first,) = (agent for agent, reply in replies.items() if reply)
    late = "2" if first == "1" else "1"
    (step,) = wire.step(first)
    return only(replies[first])["body"], {first: step["body"], late: only(replies[late])["body"]}


def tick(wire: Wire) -> dict[str, Body]:
    """Plays a tick in which agent 1 shoots at agent 2, which does nothing."""
    replies = {"1": wire.send_step("1", RANGED_ATTACK), "2": wire.send_step("2")}
    wire.lobby.play()
    return {agent: only(reply)["body"] for agent, reply in replies.items()}


def fight_to_the_end(wire: Wire, last: dict[str, Body]) -> list[dict[str, Body]]:
    """Returns the replies of the last two ticks: the death, and the terminal state."""
    for _ in range(1000):
        now = tick(wire)
        if "terminalState" in now["1"]:
            return [last, now]
        assert now["1"]["meta"]["targetActionMasks"] == now["2"]["actionMasks"]
        last = now
    raise AssertionError("no fighter died")


def test_two_fights_of_one_pair() -> None:
    wire = Wire(make_world=SimWorld)
    wire.login("1", "2")
    first, both = start(wire)
    assert first["obs"][PID] == 0
    assert first["meta"]["episodeTicks"] == 0
    assert [body["meta"]["episodeTicks"] for body in both.values()] == [1, 1]

    death, terminal = fight_to_the_end(wire, both)
    assert [terminal[agent]["terminalState"] for agent in ("1", "2")] == ["WON", "LOST"]
    assert death["1"]["obs"][TARGET_HEALTH] == death["2"]["obs"][HEALTH] == 0.0
    assert terminal["1"]["obs"][TARGET_HEALTH] > 0.0
    assert terminal["2"]["obs"] == death["2"]["obs"]

    first, both = start(wire)
    # The last hitsplat of the first fight is still on the loser (disagreements.md §1).
    assert sum(first["obs"][index] > 0 for index in SHOWN_DAMAGE) == 1
    assert all(body["obs"][HEALTH] == 1.0 for body in both.values())
