"""`bench serve`: its report, and that its clients notice wrong replies and servers that go away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.serve_load import Exchange, ask
from tests.games.osrs.remote.served import handler_server
from tests.serving.fighters import random_nh, write


@pytest.mark.slow
def test_both_servers_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(random_nh(1), tmp_path / "nh.fighter")
    options = ["--clients", "3", "--seconds", "0.5", "--backend", "compiled", "--model", str(tmp_path / "nh.fighter")]
    with pytest.raises(SystemExit) as exit_info:
        main(["serve", *options, "--json"])
    printed = capsys.readouterr()
    assert exit_info.value.code == 0, printed.err
    report = json.loads(printed.out)
    assert report["bench"] == "serve"
    plain, own = report["rows"]
    for row in (plain, own):
        assert row["n"] == 3 and row["wrong"] == 0 and row["agent_steps"] > 0 and row["p50_ms"] <= row["p99_ms"]
    assert own["control"] == plain["case"] and own["ratio"] > 0


def test_wrong_replies_and_closed_connections_are_noticed() -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(200):
            if not await reader.readline():
                break
            writer.write(b'{"action":[1,2]}\n')
        writer.close()

    right, wrong = Exchange(b"{}\n", b'{"action":[1,2]'), Exchange(b"{}\n", b'{"action":[1,3]')
    with handler_server(lie) as port:
        with pytest.raises(OSError, match="closed|reset"):
            ask(port, [right, wrong], clients=2, seconds=30)
        outcome = ask(port, [right, wrong], clients=2, seconds=0)
        assert len(outcome.latencies) > 0 and outcome.wrong <= len(outcome.latencies)
