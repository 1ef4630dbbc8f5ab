"""`bench peers`: rounds in turns, what is skipped and why, and the peers that need no installation, for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch as th

from benchmarks import peer_installs, peers
from benchmarks.__main__ import main
from benchmarks.peer_installs import NEEDED, NotInstalled, checkout_of, install, loosened
from benchmarks.peer_programs.rounds import Task
from benchmarks.peers import CHECKOUT, CONTROL, PEERS, Measured, Peer, PeerFailed, Program, make_rows, take_turns
from benchmarks.report import Turn
from sb3_pvp.common.errors import Refusal

TINY = ["--n-envs", "2", "--n-steps", "8", "--batch-size", "4", "--net-arch", "8", "--rounds", "2", "--seconds", "0.01"]
OWN = ["world", "stock-dummy", "stock", "plain", "pvp_ppo"]
MEASURED = {"case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s"}
COLUMNS = {*MEASURED, "rollout_per_core_s", "learn_per_core_s", "ratio", "lacks"}


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["peers", *arguments])
    assert exit_info.value.code == 0


@pytest.mark.slow
def test_own_peers_take_part_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slow because each of them starts an interpreter with PyTorch."""
    run(*TINY, "--folder", str(tmp_path), "--only", ",".join(OWN), "--head-arch", "8", "--json", "--old", str(CHECKOUT))
    report = json.loads(capsys.readouterr().out)
    rows = {row["case"]: row for row in report["rows"]}
    old = ["PvpPPO of", "stock MaskablePPO on NhVecEnv of"]
    names = [peer.name for peer in PEERS if peer.key in OWN] + [f"{name} {CHECKOUT.name}" for name in old]
    assert list(rows) == names, "in the order of PEERS, and nothing was skipped"
    for name, row in rows.items():
        check_row(row)
        assert (row["learn_per_core_s"] is None) == (name == "NhVecEnv alone")
    assert rows["stock MaskablePPO on NhVecEnv"]["ratio"] == 1
    assert not list(tmp_path.rglob("pyvenv.cfg")), "they need no installation"


def check_row(row: dict[str, Any]) -> None:
    assert row.keys() == {*COLUMNS, "versions"}
    assert row["agent_steps"] >= 2 * 16 and row["agent_steps"] % 16 == 0, "whole rollouts of two fights, eight steps"
    assert row["agent_steps_per_core_s"] == pytest.approx(row["agent_steps"] / row["cpu_s"])
    assert row["ratio"] > 0
    assert row["versions"]["torch"] == str(th.__version__)
    parts = [1 / row[part] for part in ("rollout_per_core_s", "learn_per_core_s") if row[part]]
    assert sum(parts) == pytest.approx(1 / row["agent_steps_per_core_s"], rel=0.5), "the parts are nearly all of it"


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path, *_: Any) -> Path:
        raise NotInstalled("ERROR: No matching distribution found for torchrl")

    monkeypatch.setattr(peers, "install", refuse)
    run(*TINY, "--folder", str(tmp_path), "--only", "torchrl", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["bench"] == "peers" and report["versions"].keys() == {"sb3_pvp", "python", "torch"}
    control, torchrl = report["rows"]
    check_row(control)
    assert control["case"] == "stock MaskablePPO on NhVecEnv"
    assert torchrl == {"case": "torchrl", "skipped": "ERROR: No matching distribution found for torchrl"}


def test_the_table_is_followed_by_reasons_and_versions(capsys: pytest.CaptureFixture[str]) -> None:
    rows = make_rows({"fast": (peer_named("fast"), [Measured(Turn(10, 1.0, 1.0), 10.0, None)])}, 1)
    peers._print(rows, {"fast": {"torch": "2", "numpy": "1"}}, {"ill": "no wheel"}, as_json=False)
    header, _, *others = capsys.readouterr().out.splitlines()
    assert header.split() == [
        *("case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s"),
        *("rollout_per_core_s", "learn_per_core_s", "lacks"),
    ]
    assert others == ["not measured: ill: no wheel", "fast: torch 2, numpy 1"]


def test_a_program_that_fails_is_skipped_with_its_last_line(tmp_path: Path) -> None:
    """This interpreter has no sample-factory."""
    peer = next(each for each in PEERS if each.key == "sample-factory")
    program = Program(peer, Path(sys.executable), Task(str(CHECKOUT)), tmp_path / "log")
    with pytest.raises(PeerFailed, match="code 1: ModuleNotFoundError: No module named 'sample_factory'"):
        program.start()
    program.close()


def test_another_torch_is_refused() -> None:
    peers.require_same_torch({"torch": str(th.__version__)})
    with pytest.raises(PeerFailed, match="PyTorch 1.0, not "):
        peers.require_same_torch({"torch": "1.0"})


def peer_named(key: str) -> Peer:
    return Peer(key, key, "sb3")


class Script:
    """Stands in for a `Program`: answers with given rates, or fails."""

    def __init__(self, key: str, asked: list[str], cpu: list[float | None]) -> None:
        self.peer, self.asked, self.cpu = peer_named(key), asked, iter(cpu)

    def measure(self, seconds: float) -> Measured:
        self.asked.append(self.peer.key)
        cpu = next(self.cpu)
        if cpu is None:
            raise PeerFailed("out of memory")
        return Measured.from_answer({"agent_steps": 100, "cpu_s": cpu, "wall_s": cpu, "learn_s": cpu / 4})


def test_peers_take_turns_and_a_failing_one_drops_out() -> None:
    asked: list[str] = []
    scripts: list[Any] = [
        Script(CONTROL, asked, [1.0, 2.0, 4.0]),
        Script("fast", asked, [0.5, 0.5, 1.0]),
        Script("ill", asked, [1.0, None]),
    ]
    skipped: dict[str, str] = {}
    measured = take_turns(scripts, 3, 1.0, skipped)
    assert asked == [CONTROL, "fast", "ill", CONTROL, "fast", "ill", CONTROL, "fast"]
    assert skipped == {"ill": "out of memory"}
    rows = {row["case"]: row for row in make_rows(measured, 128)}
    assert list(rows) == [CONTROL, "fast"]
    assert rows["fast"]["ratio"] == 4, "the median of 2, 4 and 4, each within its round"
    assert rows["fast"]["agent_steps_per_core_s"] == 150
    assert rows["fast"]["learn_per_core_s"] == 800
    assert rows["fast"]["rollout_per_core_s"] == pytest.approx(100 / 0.375), "what is not learning is rollout"


def test_without_the_control_there_is_no_ratio() -> None:
    own = [Measured(Turn(10, 1.0, 1.0), 10.0, None)]
    (row,) = make_rows({"fast": (peer_named("fast"), own)}, 1)
    assert "ratio" not in row and row["learn_per_core_s"] is None


def test_cpu_time_of_child_processes_counts() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    text = f"""
import subprocess, sys
from benchmarks.peer_programs.rounds import Rounds
rounds = Rounds(1)
rounds.next_training()
rounds.next_training()
subprocess.run([sys.executable, "-c", {burn!r}])
rounds.next_training()
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=CHECKOUT, input="0\n", capture_output=True, text=True)
    versions, answer = map(json.loads, done.stdout.splitlines())
    assert "torch" in versions["versions"]
    assert 0.4 < answer["cpu_s"] < 5


def test_constraints_of_some_packages_are_left_out() -> None:
    text = '# Versions.\nnumpy==2.4.6; python_version >= "3.11"\nnumpy==2.2.6\nnumpy-financial==1\ntorch==2.13.0\n'
    assert loosened(text, ["numpy"]) == "# Versions.\nnumpy-financial==1\ntorch==2.13.0\n"
    pins = (CHECKOUT / "constraints.txt").read_text()
    for peer in PEERS:
        own = loosened(pins, peer.unpinned)
        assert "\ntorch==" in own, "everybody has the same PyTorch"
        assert not any(f"\n{name}==" in own for name in peer.unpinned)
        assert all(f"\n{name}==" in pins for name in peer.unpinned)


def test_an_installation_is_used_again_unless_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def record(command: list[str]) -> None:
        commands.append(command)
        (tmp_path / "peer").mkdir(exist_ok=True)

    monkeypatch.setattr(peer_installs, "_run", record)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("numpy==2\ntorch==2.13.0\n")
    python = install(tmp_path / "peer", "torchrl==1", constraints, ["numpy"])
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]
    assert commands[1][0] == str(python) == str(tmp_path / "peer" / "bin" / "python")
    assert commands[1][-len(NEEDED) - 1 :] == ["torchrl==1", *NEEDED]
    assert (tmp_path / "peer" / "constraints.txt").read_text() == "torch==2.13.0\n"
    install(tmp_path / "peer", "torchrl==1", constraints, ["numpy"])
    assert len(commands) == 2
    install(tmp_path / "peer", "torchrl==2", constraints, ["numpy"])
    assert len(commands) == 4


def test_pips_reason_is_reported(tmp_path: Path) -> None:
    said = "print('Looking.'); import sys; sys.exit('ERROR: no such release\\nHint: try another')"
    with pytest.raises(NotInstalled, match="^ERROR: no such release$"):
        peer_installs._run([sys.executable, "-c", said])


def test_an_old_checkout_is_a_folder_or_a_commit(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        command = ["git", *identity, "-C", str(tmp_path / "repository"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    package = tmp_path / "repository" / "sb3_pvp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("old = True\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "old")
    commit = git("rev-parse", "HEAD")
    (package / "__init__.py").write_text("old = False\n")
    for _ in range(2):
        path, label = checkout_of("HEAD", tmp_path / "repository", tmp_path / "commits")
        assert (path / "sb3_pvp" / "__init__.py").read_text() == "old = True\n"
        assert label == commit[:7] and path == tmp_path / "commits" / commit
    assert checkout_of(str(tmp_path / "repository"), CHECKOUT, tmp_path)[1] == "repository"
    with pytest.raises(Refusal, match="neither a folder nor a commit"):
        checkout_of("no-such-commit", tmp_path / "repository", tmp_path / "commits")
    with pytest.raises(Refusal, match="there is no sb3_pvp"):
        checkout_of(str(tmp_path), CHECKOUT, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "stok"], "did you mean 'stock'"),
        (["--batch-size", "100"], "--batch-size must divide the rollout of 128 x 128"),
        (["--net-arch", "64,x"], "--net-arch"),
        (["--settings", "[]"], "--settings"),
        (["--old", "no-such-commit"], "neither a folder nor a commit"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["peers", *arguments])
    assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
