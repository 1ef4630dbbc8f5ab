"""Agents and fights as clients see them (protocol.md §5 and §6), in a world without a game."""

from __future__ import annotations

from tests.games.osrs.remote.fake_world import DEATH_TICK
from tests.games.osrs.remote.wire import NO_OP, Wire, error, only

TARGET_HEALTH = 11


def test_reset_against_the_bot_is_answered_at_once() -> None:
    wire = Wire()
    wire.login("1")
    body = only(wire.reset("1", "baseline"))["body"]
    assert body["meta"]["episodeTicks"] == 1
    assert "terminalState" not in body
    assert wire.worlds[0].options[0]["bots"] == (None, "baseline")


def test_the_late_agent_of_a_pair_is_answered_after_the_first_action() -> None:
    wire = Wire()
    wire.pair(maintainTargetEnvironment=True)
    assert wire.second == []
    step = wire.send_step("1", [1, 0, 0, 1, *NO_OP[4:]])
    wire.lobby.play()
    assert only(step)["body"]["meta"]["episodeTicks"] == 1
    late = only(wire.second)["body"]
    assert late["meta"]["episodeTicks"] == 1
    assert late["obs"][:3] == [1, 1, 0]
    assert late["meta"]["targetObs"][:3] == [1, 0, 1]
    assert late["meta"]["targetObs"] == only(step)["body"]["obs"]


def test_a_pair_ticks_when_both_have_stepped() -> None:
    wire = Wire()
    wire.pair()
    wire.step("1")
    one = wire.send_step("1")
    wire.lobby.play()
    assert one == []
    two = wire.send_step("2")
    wire.lobby.play()
    assert only(one)["body"]["obs"][0] == only(two)["body"]["obs"][0] == 2


def test_a_pair_needs_both_targets() -> None:
    wire = Wire()
    wire.login("1", "2", "3")
    assert wire.reset("1", "2") == []
    assert wire.reset("2", "3") == []
    assert wire.reset("3", "not yet there") == []
    assert error(wire.send_step("1")).endswith("Message already queued")
    wire.login("not yet there")
    assert wire.reset("not yet there", "3") == []
    (info,) = (info for info in only(wire.ask(None, "debug"))["body"] if info["id"] == "3")
    assert info["state"] == "STEPPING"


def fight_to_the_end(wire: Wire) -> list[list[dict]]:  # type: ignore[type-arg]
    """Plays a pair to its end, and returns the replies to both agents in each tick."""
    wire.pair(maintainTargetEnvironment=True)
    wire.step("1")
    return [wire.step("1", "2") for _ in range(DEATH_TICK)]


def test_the_terminal_state_comes_one_step_late_with_the_saved_observation() -> None:
    *_, death, terminal = fight_to_the_end(Wire())
    assert [reply["body"]["meta"]["episodeTicks"] for reply in death] == [DEATH_TICK] * 2
    assert all("terminalState" not in reply["body"] for reply in death)
    assert [reply["body"]["terminalState"] for reply in terminal] == ["WON", "LOST"]
    for decided, final in zip(death, terminal, strict=True):
        assert final["body"]["obs"][0] == DEATH_TICK
        assert final["body"]["meta"]["episodeTicks"] == DEATH_TICK + 1
        assert final["body"]["meta"]["targetObs"][0] == DEATH_TICK + 1
        # The target's health is up to date only in the tick of death, and only in the agent's own vector.
        assert decided["body"]["obs"][TARGET_HEALTH] == 0.0
        assert decided["body"]["meta"]["targetObs"][TARGET_HEALTH] == 0.5
        assert final["body"]["obs"][TARGET_HEALTH] == 0.5


def test_the_action_after_death_has_no_effect() -> None:
    wire = Wire()
    wire.login("1")
    wire.reset("1", "baseline", maintainTargetEnvironment=True)
    for _ in range(DEATH_TICK - 1):
        wire.step("1")
    terminal = wire.send_step("1", [99] * 12)
    wire.lobby.play()
    assert only(terminal)["body"]["terminalState"] == "WON"
    assert wire.worlds[0].obs[0, 0, 2] == 0


def test_after_the_end_only_a_reset_is_possible_and_keeps_the_login() -> None:
    wire = Wire()
    fight_to_the_end(wire)
    assert error(wire.send_step("1")).startswith(
        "IllegalStateException: No valid leaving transitions are permitted from state 'PENDING' for trigger 'STEP'"
    )
    second = wire.reset("2", "1")
    first = wire.reset("1", "2")
    assert second == [] or first == []
    assert {fight["logins"] for fight in wire.worlds[0].options if fight} == {(("login", 0, 1), ("login", 0, 0))}


def test_the_first_fight_of_a_login_has_no_state_of_earlier_ones() -> None:
    wire = Wire()
    wire.pair()
    assert wire.worlds[0].options[0]["logins"] == (None, None)


def test_the_opponent_of_an_agent_that_leaves_loses_its_target() -> None:
    for leave in ("logout", "reset"):
        wire = Wire()
        wire.pair()
        wire.step("1")
        waiting = wire.send_step("1")
        if leave == "logout":
            assert wire.ask("2", "logout") == [{}]
        else:
            wire.reset("2", "baseline")
        wire.lobby.play()
        assert only(waiting)["body"]["terminalState"] == "TARGET_LOST"
        assert only(waiting)["body"]["meta"]["episodeTicks"] == 2
        assert "PENDING" in error(wire.send_step("1"))


def test_the_late_agent_is_answered_even_if_the_first_one_leaves() -> None:
    wire = Wire()
    wire.pair()
    wire.ask("1", "logout")
    wire.lobby.play()
    assert "terminalState" not in only(wire.second)["body"]
    assert wire.step("2")[0]["body"]["terminalState"] == "TARGET_LOST"


def test_one_login_plays_several_fights() -> None:
    wire = Wire()
    wire.login("1", "2", "3")
    wire.reset("1", "baseline")
    wire.step("1")
    for opponent in ("2", "3"):
        waiting = wire.reset("1", opponent)
        first = wire.reset(opponent, "1")
        assert sorted([len(waiting), len(first)]) == [0, 1]
        early = opponent if first else "1"
        assert wire.step(early)[0]["body"]["meta"]["episodeTicks"] == 1
        assert len(waiting) == len(first) == 1
        # An agent that has lost its target is out of the fight, and may fight another one.
        wire.reset(opponent, "baseline")
        assert wire.step("1")[0]["body"]["terminalState"] == "TARGET_LOST"
    assert "body" in only(wire.reset("1", "baseline"))
    # Each agent has one of the four fights; those of earlier resets were released.
    assert [info["state"] for info in only(wire.ask(None, "debug"))["body"]] == ["STEPPING"] * 3
    assert len(wire.worlds) == 1


def test_leaving_a_decided_fight_does_not_change_the_outcome_of_the_other_agent() -> None:
    wire = Wire()
    wire.pair()
    wire.step("1")
    for _ in range(DEATH_TICK - 1):
        wire.step("1", "2")
    wire.reset("1", "baseline")
    assert wire.step("2")[0]["body"]["terminalState"] == "LOST"


def test_fights_that_are_ready_share_one_step_of_the_world() -> None:
    wire = Wire()
    wire.login("1", "2", "3")
    for agent in ("1", "2", "3"):
        wire.reset(agent, "baseline")
    wire.step("1", "3")
    assert wire.worlds[0].batches == [[0, 2]]
    assert wire.scheduled == [False, False]
    wire.step("2")
    wire.step("1", "2", "3")
    assert wire.scheduled[2:] == [False, False, False, True]


def test_the_pool_grows_and_reuses_fights() -> None:
    wire = Wire(first_size=1)
    agents = [str(number) for number in range(4)]
    wire.login(*agents)
    for agent in agents:
        wire.reset(agent, "baseline")
    assert [(world.num_fights, world.seed) for world in wire.worlds] == [(1, 7), (2, 8), (4, 10)]
    assert all("body" in reply for reply in wire.step(*agents))
    for _ in range(20):
        wire.reset("0", "baseline")
    assert len(wire.worlds) == 3


def test_options_of_the_reset_reach_the_world() -> None:
    wire = Wire()
    wire.login("1", "2")
    params = {"accountBuild": "MED", "randomizeGear": "true", "unknown": 1, "episodeId": 5, "randomBuildOptions": []}
    wire.reset("1", "2", resetParams=params, deathMatch=True, training=True)
    wire.reset("2", "1", resetParams={}, deathMatch=False)
    options = wire.worlds[0].options[0]
    assert options["seat_reset_params"] == ({"accountBuild": "MED", "randomizeGear": True, "episodeId": "5"}, {})
    assert options["death_match"] is False
    assert options["training"] is False
    assert options["bots"] == (None, None)


def test_target_view_only_when_asked_for() -> None:
    wire = Wire()
    wire.login("1")
    assert "targetObs" not in only(wire.reset("1", "baseline"))["body"]["meta"]
    meta = only(wire.reset("1", "baseline", maintainTargetEnvironment=True))["body"]["meta"]
    assert len(meta["targetObs"]) == 176
    assert [len(head) for head in meta["targetActionMasks"]] == [4, 3, 3, 4, 5, 2, 2, 2, 2, 5, 7, 6]


def test_debug_lists_the_agents_by_id() -> None:
    wire = Wire()
    assert wire.ask(None, "debug") == [{"body": []}]
    wire.login("20", "10", "3")
    wire.reset("20", "baseline")
    wire.step("20")
    wire.reset("10", "3")
    infos = only(wire.ask(None, "debug"))["body"]
    assert [info["id"] for info in infos] == ["10", "20", "3"]
    assert [info["state"] for info in infos] == ["PENDING_TARGET_MATCH", "STEPPING", "PENDING"]
    assert infos[1] == {
        "id": "20",
        "target": "baseline",
        "state": "STEPPING",
        "pendingMessage": False,
        "envType": "NhEnvironmentDescriptor",
        "currentEpisodeTicks": 2,
        "lastMessageTick": 1,
        "isLoaded": True,
        "isTargetLoaded": True,
    }
    assert "target" not in infos[2]
