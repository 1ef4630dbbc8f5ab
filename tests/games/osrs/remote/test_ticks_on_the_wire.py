"""A world with a clock (protocol.md §5 and §6.4), without a game."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
import pytest

from sb3_pvp.games.osrs.remote.messages import WireRequest
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.ticked_lobby import EXPIRY_INTERVAL, TickedLobby
from sb3_pvp.games.osrs.remote.ticker import Ticker
from sb3_pvp.games.osrs.remote.wire_server import serve
from tests.games.osrs.remote.fake_world import DEATH_TICK, FakeWorld
from tests.games.osrs.remote.wire import NO_OP, error, only

Replies = list[dict[str, Any]]


class TickedWire:
    """Talks to a lobby whose clock is `tick`."""

    def __init__(self) -> None:
        self.lobby = TickedLobby(ServedGames(FakeWorld, first_size=2))

    def ask(self, agent: str, action: str, body: Any = None) -> Replies:
        replies: Replies = []
        self.lobby.handle(WireRequest(action, {"id": agent}, body), lambda line: replies.append(orjson.loads(line)))
        return replies

    def login(self, *agents: str) -> None:
        replies = [self.ask(agent, "login", {"agentType": "NhEnv"}) for agent in agents]
        self.lobby.tick()
        assert replies == [[{}]] * len(agents)

    def reset(self, agent: str, target: str, **body: Any) -> Replies:
        return self.ask(agent, "reset", {"target": target, "resetParams": {}, **body})

    def step(self, agent: str, action: Any = NO_OP) -> Replies:
        return self.ask(agent, "step", {"action": action})

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.lobby.tick()

    def debug(self) -> dict[str, dict[str, Any]]:
        replies = self.ask("", "debug")
        self.lobby.tick()
        return {agent["id"]: agent for agent in only(replies)["body"]}

    def fight_bot(self) -> None:
        self.login("1")
        self.reset("1", "baseline")
        self.tick(2)

    def pair(self) -> None:
        """Agent 2 is answered a tick after agent 1."""
        self.login("1", "2")
        replies = self.reset("1", "2"), self.reset("2", "1")
        self.tick()
        assert [len(reply) for reply in replies] == [1, 0]
        self.tick()
        assert [ticks(reply) for reply in replies] == [0, 1]


def ticks(replies: Replies) -> int:
    """Returns the episode's ticks in the only reply."""
    return int(only(replies)["body"]["meta"]["episodeTicks"])


def test_everything_is_answered_in_the_next_tick() -> None:
    wire = TickedWire()
    asked = [wire.ask("1", "login", {"agentType": "NhEnv"}), wire.ask("", "debug"), wire.ask("2", "logout")]
    assert asked == [[], [], []]
    wire.tick()
    assert asked[0] == [{}]
    assert [agent["id"] for agent in only(asked[1])["body"]] == ["1"]
    assert error(asked[2]) == "IllegalStateException: No player found for: 2"


def test_the_bot_comes_a_tick_later() -> None:
    wire = TickedWire()
    wire.login("1")
    reset = wire.reset("1", "baseline")
    wire.tick()
    assert reset == []
    wire.tick()
    assert ticks(reset) == 1


def test_a_step_is_played_in_the_next_tick_without_waiting_for_agents() -> None:
    wire = TickedWire()
    wire.fight_bot()
    wire.tick(2)
    step = wire.step("1", [3, 1, *NO_OP[2:]])
    assert step == []
    wire.tick()
    assert ticks(step) == 4
    assert only(step)["body"]["obs"][2] == 3


@pytest.mark.parametrize(("missed", "accepted"), [(3, True), (4, False)])
def test_missed_ticks(missed: int, accepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.games.osrs.remote.fake_world.DEATH_TICK", 100)
    wire = TickedWire()
    wire.fight_bot()
    wire.tick(missed)
    for _ in range(2):
        step = wire.step("1")
        wire.tick()
        assert ("body" in only(step)) is accepted
    if not accepted:
        text = f"EnvironmentException: Too many ticks since last step: {missed} for 1"
        assert error(step).startswith(text)
        wire.reset("1", "baseline")
        wire.tick(2)
        step = wire.step("1")
        wire.tick()
        assert ticks(step) == 2


def test_a_fight_continues_to_its_end_with_a_silent_opponent() -> None:
    wire = TickedWire()
    wire.pair()
    for tick in range(2, DEATH_TICK + 1):
        step = wire.step("1")
        wire.tick()
        assert ticks(step) == tick
    terminal = wire.step("1")
    wire.tick(3)
    assert only(terminal)["body"]["terminalState"] == "WON"
    # Its fight is decided, so its silence no longer matters.
    late = wire.step("2")
    wire.tick()
    assert only(late)["body"]["terminalState"] == "LOST"
    assert only(late)["body"]["obs"][0] == DEATH_TICK


@pytest.mark.parametrize("leave", ["logout", "reset"])
@pytest.mark.parametrize("is_silent", [True, False])
def test_the_opponent_of_an_agent_that_leaves_loses_its_target(leave: str, is_silent: bool) -> None:
    wire = TickedWire()
    wire.pair()
    if leave == "logout":
        wire.ask("2", "logout")
    else:
        wire.reset("2", "baseline")
    if is_silent:
        wire.tick(2)
        assert wire.debug()["1"]["state"] == "TERMINAL"
    step = wire.step("1")
    wire.tick()
    assert only(step)["body"]["terminalState"] == "TARGET_LOST"


def test_a_second_message_is_refused_at_once() -> None:
    wire = TickedWire()
    wire.fight_bot()
    first = wire.step("1")
    assert error(wire.step("1")) == "EnvironmentException: Message already queued"
    assert error(wire.reset("1", "baseline")) == "EnvironmentException: Message already queued"
    wire.tick()
    assert ticks(first) == 2


def test_refusals_at_once_and_in_the_next_tick() -> None:
    wire = TickedWire()
    wire.fight_bot()
    assert "NullPointerException" in error(wire.step("9"))
    assert "JsonSyntaxException" in error(wire.step("1", "x"))
    wrong = wire.step("1", [1, *NO_OP[1:]])
    assert wrong == []
    wire.tick()
    assert error(wrong) == "IllegalStateException: 0: attack 1 needs a mage_attack_type above 0"
    refused = wire.reset("1", "attacker")
    wire.tick()
    assert "use baseline or another agent's id" in error(refused)
    too_early = wire.step("1")
    wire.tick()
    assert "from state 'PENDING' for trigger 'STEP'" in error(too_early)


def test_a_reset_waits_until_the_dead_fighter_is_gone() -> None:
    wire = TickedWire()
    wire.fight_bot()
    for _ in range(DEATH_TICK):
        step = wire.step("1")
        wire.tick()
    # The tick after the death.
    assert only(step)["body"]["terminalState"] == "WON"
    reset = wire.reset("1", "baseline")
    seen = []
    while not reset:
        seen.append(wire.debug()["1"]["state"])
    # Carried out in tick 8 after the death, seen in tick 9 and answered there.
    assert seen == ["PENDING", *["PROCESSING_RESET"] * 6, "PENDING_TARGET_MATCH"]
    assert ticks(reset) == 1


def test_no_wait_after_a_fight_without_a_death() -> None:
    wire = TickedWire()
    wire.fight_bot()
    reset = wire.reset("1", "baseline")
    wire.tick(2)
    assert ticks(reset) == 1


def test_ticks_of_waiting_belong_to_the_episode() -> None:
    wire = TickedWire()
    wire.login("1", "2")
    early = wire.reset("1", "2")
    wire.tick(7)
    assert wire.debug()["1"]["currentEpisodeTicks"] == 6
    late = wire.reset("2", "1")
    wire.tick(2)
    assert sorted([ticks(early) - 8, ticks(late)]) in ([0, 1], [1, 0])
    steps = wire.step("1"), wire.step("2")
    wire.tick()
    assert [ticks(step) for step in steps] == [10, 2]


def test_debug_counts_ticks() -> None:
    wire = TickedWire()
    wire.login("1", "2")
    wire.reset("1", "baseline")
    wire.tick(2)
    wire.step("1")
    wire.tick()
    infos = wire.debug()
    assert infos["1"] == {
        "id": "1",
        "target": "baseline",
        "state": "STEPPING",
        "pendingMessage": False,
        "envType": "NhEnvironmentDescriptor",
        "currentEpisodeTicks": 2,
        "lastMessageTick": 1,
        "isLoaded": True,
        "isTargetLoaded": True,
    }
    assert infos["2"]["currentEpisodeTicks"] == 4
    assert infos["2"]["lastMessageTick"] == 0
    assert infos["2"]["isTargetLoaded"] is False


def test_long_silent_agents_are_logged_out_and_waiting_ones_are_not() -> None:
    wire = TickedWire()
    wire.login("1", "2")
    waiting = wire.reset("2", "absent")
    wire.tick(999)
    assert sorted(wire.debug()) == ["1", "2"]
    wire.tick(EXPIRY_INTERVAL)
    assert sorted(wire.debug()) == ["2"]
    assert waiting == []


class FakeLoop:
    """A clock that is set by hand, plus the time that ticks take."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, []  # type: ignore[var-annotated]

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any) -> Any:
        self.calls.append((when, call))
        return asyncio.TimerHandle(when, call, (), asyncio.new_event_loop())

    def run_next(self, late: float) -> None:
        when, call = self.calls.pop()
        self.now = when + late
        call()


def test_ticks_do_not_drift_and_are_skipped_after_a_long_one() -> None:
    loop, moments = FakeLoop(), []
    costs = iter([0.0, 0.1, 0.0, 1.7, 0.0, 0.0])

    def tick() -> None:
        moments.append(loop.now)
        loop.now += next(costs)

    Ticker(0.6, tick, loop).start()  # type: ignore[arg-type]
    for late in (0.01, 0.05, 0.0, 0.02, 0.0, 0.0):
        loop.run_next(late)
    assert moments == pytest.approx([0.61, 1.25, 1.8, 2.42, 4.2, 4.8])


def test_a_real_clock() -> None:
    async def scenario() -> list[int]:
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server = serve(port=0, make_world=FakeWorld, on_listening=listening.set_result, tick_rate=5)
        task = asyncio.ensure_future(server)
        reader, writer = await asyncio.open_connection("127.0.0.1", await listening)

        async def ask(action: str, body: Any) -> Any:
            writer.write(json.dumps({"action": action, "body": body, "meta": {"id": "1"}}).encode() + b"\n")
            return json.loads(await asyncio.wait_for(reader.readline(), 20))

        assert await ask("login", {"agentType": "NhEnv"}) == {}
        start = await ask("reset", {"target": "baseline", "resetParams": {}})
        await asyncio.sleep(0.1)
        late = await ask("step", {"action": NO_OP})
        task.cancel()
        return [reply["body"]["meta"]["episodeTicks"] for reply in (start, late)]

    start, late = asyncio.run(scenario())
    assert start == 1
    # Decided while the agent was silent.
    assert late > DEATH_TICK
