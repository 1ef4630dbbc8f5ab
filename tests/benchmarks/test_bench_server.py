"""`bench server`: the report of a real server, and that its clients notice every step that is lost."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from benchmarks import server_load, server_process
from benchmarks.__main__ import main
from benchmarks.server_load import Load
from sb3_pvp.game.contract import load_contract
from tests.games.osrs.remote.served import handler_server

MEASURED = {"case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s"}
KEYS = MEASURED | {
    *("agent_steps_per_s", "p50_ms", "p99_ms", "rss_mb_start", "rss_mb_end"),
    *("descriptors_start", "descriptors_end", "rapid_connects", "lost_steps"),
}
MASKS = [[True] * size for size in load_contract("NhEnv").head_sizes]


def bench(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["server", *options])
    assert exit_info.value.code == code
    printed = capsys.readouterr()
    return printed.out, printed.err


@pytest.mark.slow
def test_a_real_server_loses_no_step_among_rapid_connections(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--connections", "6", "--pairs", "0.4", "--seconds", "0.3", "--rapid-connects", "60", "--json"]
    out, err = bench(capsys, *options)
    result = json.loads(out)
    assert result["bench"] == "server"
    assert {"sb3_pvp", "python", "numba", "numpy", "orjson"} == result["versions"].keys()
    (row,) = result["rows"]
    assert row.keys() == KEYS
    assert row["case"] == "2 in pairs, 4 against the bot"
    assert row["n"] == 6
    assert row["agent_steps"] > 6
    assert row["agent_steps_per_core_s"] == pytest.approx(row["agent_steps"] / row["cpu_s"])
    assert row["agent_steps_per_s"] == pytest.approx(row["agent_steps"] / row["wall_s"])
    assert 0 < row["p50_ms"] <= row["p99_ms"]
    assert row["descriptors_start"] is None or row["descriptors_start"] > 6
    assert row["rss_mb_end"] > 10
    assert (row["rapid_connects"], row["lost_steps"], err) == (60, 0, "")


def test_more_connections_than_the_system_allows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = bench(capsys, "--connections", str(2**40), code=2)
    assert not out
    assert "ulimit -n" in err


def answer(ticks: int, **more: Any) -> dict[str, Any]:
    return {"body": {"obs": [], "actionMasks": MASKS, "meta": {"episodeTicks": ticks}, **more}}


#: What a server does with the k-th step of an agent, and what the client says about it.
STEPS: dict[str, Callable[[int], Any]] = {
    "a tick is missing": lambda k: answer(1 + k + (k == 3)),
    "step was refused: ": lambda k: {"error": True, "message": "no"} if k == 3 else answer(1 + k),
    "the server closed the connection": lambda k: None if k == 3 else answer(1 + k),
    "the opponent was lost": lambda k: answer(1 + k, **({"terminalState": "TARGET_LOST"} if k == 3 else {})),
    "a reply without masks": lambda k: {"body": {"meta": {"episodeTicks": 1 + k}}},
    "a step got no reply": lambda k: "" if k == 3 else answer(1 + k),
}


@pytest.mark.parametrize(
    ("connections", "share", "paired"), [(3, 1, 2), (1, 1, 0), (100, 0.5, 50), (6, 0.4, 2), (7, 0, 0)]
)
def test_only_whole_pairs_fight_each_other(connections: int, share: float, paired: int) -> None:
    assert Load(("127.0.0.1", 1), connections, share, None, 0).num_paired == paired


def test_latency_of_a_pair_begins_when_both_have_sent_their_step() -> None:
    first = Load(("127.0.0.1", 1), connections=2, pairs=1, pace=None, seed=0)._fighters[0]
    first.is_stepping, first.speaker.moment, first._due = True, (2, 7), 1.0
    first.on_opponent_step((2, 8), 3.0)
    assert first._due == 1.0, "the opponent has its reply and continues"
    first.on_opponent_step((2, 7), 4.0)
    assert first._due == 4.0
    first.is_stepping = False
    first.on_opponent_step((2, 7), 5.0)
    assert first._due == 4.0


@pytest.mark.parametrize("fault", STEPS)
def test_every_kind_of_loss_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_load, "REPLY_TIMEOUT", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        k = 0
        async for line in reader:
            request = json.loads(line)
            k += request["action"] == "step"
            reply = {"login": {}, "reset": answer(1)}.get(request["action"]) if k == 0 else STEPS[fault](k)
            if reply is None:
                break
            if reply != "":
                writer.write(orjson.dumps(reply) + b"\n")
        writer.close()

    with handler_server(serve) as port:
        load = asyncio.run(play(port))
    assert [reason.startswith(fault) for reason in load.faults - Counter({"a fighter could not begin": 1})] == [True]
    assert set(load.faults.values()) == {1}


async def play(port: int) -> Load:
    load = Load(("127.0.0.1", port), connections=1, pairs=0, pace=None, seed=0)
    await load.start()
    await asyncio.sleep(0.1)
    await load.end()
    return load


def test_a_pace_is_kept_and_strangers_are_counted() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ticks = 0
        async for line in reader:
            if not (line.startswith(b'{"action"') and line.endswith(b"}\n")):
                break
            action = json.loads(line)["action"]
            ticks = 0 if action == "reset" else ticks + 1
            writer.write(orjson.dumps(answer(ticks) if action in ("reset", "step") else {}) + b"\n")
        writer.close()

    async def scenario(port: int) -> tuple[Load, int]:
        load = Load(("127.0.0.1", port), connections=2, pairs=0, pace=50, seed=0)
        await load.start()
        begun = len(load.latencies)
        taken, _ = await asyncio.gather(load.connect_rapidly(20), asyncio.sleep(0.5))
        assert len(load.latencies) - begun <= 2 * 50 * 0.5 + 2
        await load.end()
        return load, taken

    with handler_server(serve) as port:
        load, taken = asyncio.run(scenario(port))
    assert not load.faults
    assert taken == 20


def test_what_a_process_uses() -> None:
    usage = server_process.ServerProcess(os.getpid(), 0).usage()
    assert usage.cpu_s > 0
    assert 10 < usage.rss_mb < 100_000


@pytest.mark.parametrize(("time", "seconds"), [("00:00:07", 7), ("1:02.5", 62.5), ("2-01:00:01", 176_401)])
def test_cpu_time_as_ps_prints_it(time: str, seconds: float) -> None:
    assert server_process._seconds(time) == seconds
