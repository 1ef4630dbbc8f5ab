"""``python -m benchmarks peers``: this package's learner beside those of others, on the same task."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import psutil
import typer

from benchmarks.peer_installs import NotInstalled, checkout_of, default_folder, install
from benchmarks.peer_programs.rounds import Task
from benchmarks.report import ROUNDS, Row, Turn, make_row, positive_numbers, print_report
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import Refusal, did_you_mean

CHECKOUT = Path(__file__).resolve().parents[1]
STOCK_LACKS = "rules between heads, normalised observations"
CONTROL = "stock"  #: Key of the peer that the others are divided by.
#: Seconds until a program that says nothing is given up; the first start of a checkout compiles the rules of the fight.
PATIENCE = 600.0
#: One thread each: a peer has one core, and small networks are slower on two.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


@dataclass(frozen=True)
class Peer:
    """A learner, or NhVecEnv without one.

    Attributes:
        key: for the option ``--only``, and the name of the folder of its virtual environment.
        name: in the report.
        program: module in `benchmarks.peer_programs`.
        lacks: what it does not do, compared with PvpPPO on NhVecEnv.
        options: see its program.
        requirement: what pip installs; ``""``: it runs in this interpreter.
        unpinned: packages of constraints.txt of which it needs another version.
        checkout: folder of the ``sb3_pvp`` that it uses.
    """

    key: str
    name: str
    program: str
    lacks: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    requirement: str = ""
    unpinned: tuple[str, ...] = ()
    checkout: Path = CHECKOUT


PEERS = (
    Peer("world", "NhVecEnv alone", "world_alone", "a learner"),
    Peer(
        "stock-dummy",
        "stock MaskablePPO on DummyVecEnv",
        "sb3",
        f"{STOCK_LACKS}, vectorised fights",
        {"learner": "MaskablePPO", "env": "DummyVecEnv"},
    ),
    Peer(
        CONTROL,
        "stock MaskablePPO on NhVecEnv",
        "sb3",
        STOCK_LACKS,
        {"learner": "MaskablePPO", "env": "NhVecEnv"},
    ),
    Peer("plain", "plain PPO loop", "plain_ppo", "rules between heads, normalised observations, time limits"),
    Peer(
        "sample-factory",
        "sample-factory",
        "sample_factory_ppo",
        "masks, rules between heads, time limits",
        requirement="sample-factory==2.1.1",
        unpinned=("gymnasium", "numpy", "huggingface-hub"),
    ),
    Peer(
        "rllib",
        "RLlib",
        "rllib_ppo",
        "masks, rules between heads, normalised observations",
        requirement="ray[rllib]==2.60.0",
        unpinned=("gymnasium",),
    ),
    Peer(
        "torchrl",
        "torchrl",
        "torchrl_ppo",
        "rules between heads, normalised observations",
        requirement="torchrl==0.14.1",
    ),
    Peer("pvp_ppo", "PvpPPO", "sb3", options={"learner": "PvpPPO", "env": "NhVecEnv"}),
)


class PeerFailed(Exception):
    """Raised when a program does not answer; the message says why, in one line."""


@dataclass(frozen=True)
class Measured:
    """One round of one peer."""

    turn: Turn
    rollout: float
    learn: float | None

    @classmethod
    def from_answer(cls, answer: dict[str, Any]) -> Measured:
        """Reads a program's line; where it does not time its rollouts, they are all that is not learning."""
        steps, cpu, learn = answer["agent_steps"], answer["cpu_s"], answer.get("learn_s")
        rollout = answer.get("rollout_s", cpu - (learn or 0.0))
        return cls(Turn(steps, cpu, answer["wall_s"]), steps / rollout, learn and steps / learn)


class Program:
    """A peer's process. It waits between rounds."""

    def __init__(self, peer: Peer, python: Path, task: Task, log: Path) -> None:
        self.peer, self._log = peer, log
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [python, "-m", f"benchmarks.peer_programs.{peer.program}", task.to_json()],
                cwd=CHECKOUT,
                env=environment | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def start(self) -> dict[str, str]:
        """Waits until the program has warmed up; returns the versions of its packages."""
        versions: dict[str, str] = self._answer()["versions"]
        return versions

    def measure(self, seconds: float) -> Measured:
        """Trains for about ``seconds`` of CPU time."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{seconds}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerFailed(self._failure()) from None
        return Measured.from_answer(self._answer())

    def request_end(self) -> None:
        """Tells the program that there are no more rounds."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what was written is not read any more
                pipe.close()

    def close(self) -> None:
        """Waits until the program has ended; kills it and its child processes if it does not end by itself."""
        self.request_end()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            own = psutil.Process(self._process.pid)
            for process in [*own.children(recursive=True), own]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise PeerFailed(f"no answer for {PATIENCE:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(self._failure())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self) -> str:
        code = self._process.wait()
        lines = self._log.read_text(errors="replace").split("\n")
        output = [line.strip() for line in lines if line.strip()]
        return f"it ended with code {code}: {output[-1] if output else 'no output'}"


def bench_peers(
    n_envs: Annotated[int, typer.Option(min=1, help="Number of fights.")] = 128,
    n_steps: Annotated[int, typer.Option(min=1, help="Ticks of each fight in a rollout.")] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Agent-steps per mini-batch.")] = 2048,
    net_arch: Annotated[str, typer.Option(help="Hidden layers of actor and critic, comma-separated.")] = "64,64",
    head_arch: Annotated[str, typer.Option(help="Hidden layers of PvpPPO's heads; 128,128: the Core network's.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in which the peers take turns.")] = ROUNDS,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds of each peer per round.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    only: Annotated[str, typer.Option(help=f"Some of {', '.join(p.key for p in PEERS)}; {CONTROL} always.")] = "",
    old: Annotated[list[str], typer.Option(help="An older checkout, or a commit, that takes part too.")] = [],  # noqa: B006
    settings: Annotated[str, typer.Option(help="Arguments for this checkout's PvpPPO, as JSON.")] = "{}",
    folder: Annotated[Path | None, typer.Option(help="Where to keep virtual environments and logs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare PvpPPO with stock MaskablePPO, a plain loop, sample-factory, RLlib and torchrl.

    All of them train the same network on the same fights, in turns, on one core each. Other projects are installed
    into virtual environments of their own, with the same PyTorch, on first use. A peer's ratio is the median over the
    rounds of its speed divided by that of stock MaskablePPO on NhVecEnv in the same round; the rates of rollouts and of
    learning are medians too.
    """
    widths = positive_numbers(net_arch, "--net-arch")
    head_widths = positive_numbers(head_arch, "--head-arch") if head_arch else []
    if n_envs * n_steps % batch_size:
        raise Refusal(f"--batch-size must divide the rollout of {n_envs} x {n_steps} agent-steps; got {batch_size}")
    extra = json_object(settings, "--settings")
    home = (folder or default_folder()).absolute()
    peers = [*_chosen(only), *(peer for name in old for peer in _old_peers(name, home))]
    tasks = [
        Task(
            checkout=str(peer.checkout),
            n_envs=n_envs,
            n_steps=n_steps,
            batch_size=batch_size,
            net_arch=widths,
            seed=seed,
            options=peer.options | {"head_arch": head_widths, "settings": extra if peer.key == "pvp_ppo" else {}},
        )
        for peer in peers
    ]
    with _programs(peers, tasks, home) as (programs, versions, skipped):
        measured = take_turns(programs, rounds, seconds, skipped)
    rows = make_rows(measured, n_envs)
    _print(rows, versions, skipped, as_json)


def take_turns(
    programs: Sequence[Program], rounds: int, seconds: float, skipped: dict[str, str]
) -> dict[str, tuple[Peer, list[Measured]]]:
    """Returns the rounds of each peer by its name; a peer that fails goes to ``skipped`` instead, with the reason."""
    measured: dict[str, tuple[Peer, list[Measured]]] = {each.peer.name: (each.peer, []) for each in programs}
    for _ in range(rounds):
        for program in programs:
            name = program.peer.name
            if name in skipped:
                continue
            try:
                measured[name][1].append(program.measure(seconds))
            except PeerFailed as failure:
                skipped[name] = str(failure)
                del measured[name]
    return measured


def make_rows(measured: dict[str, tuple[Peer, list[Measured]]], n_envs: int) -> list[Row]:
    """Returns the rows of the report."""
    control = next((own for peer, own in measured.values() if peer.key == CONTROL), None)
    return [_row(peer, own, control, n_envs) for peer, own in measured.values()]


def _row(peer: Peer, own: list[Measured], control: list[Measured] | None, n_envs: int) -> Row:
    turns = [one.turn for one in own]
    total = Turn(sum(t.agent_steps for t in turns), sum(t.cpu for t in turns), sum(t.wall for t in turns))
    learn = [one.learn for one in own if one.learn]
    row = make_row(
        peer.name,
        n_envs,
        total,
        rollout_per_core_s=median(one.rollout for one in own),
        learn_per_core_s=median(learn) if learn else None,
    )
    if control is not None:
        row["ratio"] = median(one.turn.rate / other.turn.rate for one, other in zip(own, control, strict=True))
    return row | {"lacks": peer.lacks}


@contextmanager
def _programs(
    peers: Sequence[Peer], tasks: Sequence[Task], home: Path
) -> Iterator[tuple[list[Program], dict[str, dict[str, str]], dict[str, str]]]:
    """Starts all programs; gives those that run, the versions of their packages, and why the others do not run."""
    programs: list[Program] = []
    versions: dict[str, dict[str, str]] = {}
    skipped: dict[str, str] = {}
    logs = home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        for peer, task in zip(peers, tasks, strict=True):
            try:
                python = Path(sys.executable)
                if peer.requirement:
                    python = install(home / peer.key, peer.requirement, CHECKOUT / "constraints.txt", peer.unpinned)
                program = Program(peer, python, task, logs / f"{peer.key}.log")
                programs.append(program)
                versions[peer.name] = program.start()
                require_same_torch(versions[peer.name])
            except (NotInstalled, PeerFailed) as failure:
                skipped[peer.name] = str(failure)
        yield [each for each in programs if each.peer.name not in skipped], versions, skipped
    finally:
        for program in programs:  # all of them at once, as it takes them seconds
            program.request_end()
        for program in programs:
            program.close()


def require_same_torch(versions: dict[str, str]) -> None:
    """Raises `PeerFailed` if a peer has another PyTorch than this interpreter."""
    import torch as th

    if versions["torch"] != str(th.__version__):
        raise PeerFailed(f"it has PyTorch {versions['torch']}, not {th.__version__}")


def _chosen(only: str) -> list[Peer]:
    keys = [part.strip() for part in only.split(",") if part.strip()]
    known = [peer.key for peer in PEERS]
    for key in keys:
        if key not in known:
            raise Refusal(f"--only: unknown peer {key!r}{did_you_mean(key, known)}; known: {', '.join(known)}")
    return [peer for peer in PEERS if not keys or peer.key in (CONTROL, *keys)]


def _old_peers(name: str, home: Path) -> list[Peer]:
    checkout, label = checkout_of(name, CHECKOUT, home / "commits")
    both = {
        f"PvpPPO of {label}": ("", {"learner": "PvpPPO", "env": "NhVecEnv"}),
        f"stock MaskablePPO on NhVecEnv of {label}": (
            STOCK_LACKS,
            {"learner": "MaskablePPO", "env": "NhVecEnv"},
        ),
    }
    return [
        Peer(f"{options['learner']}-{label}", name, "sb3", lacks, options, checkout=checkout)
        for name, (lacks, options) in both.items()
    ]


def _print(rows: list[Row], versions: dict[str, dict[str, str]], skipped: dict[str, str], as_json: bool) -> None:
    if as_json:
        left_out = [{"case": name, "skipped": reason} for name, reason in skipped.items()]
        rows = [row | {"versions": versions[row["case"]]} for row in rows]
        print_report("peers", [*rows, *left_out], ("torch",), as_json=True)
        return
    print_report("peers", rows, (), as_json=False)
    for name, reason in skipped.items():
        typer.echo(f"not measured: {name}: {reason}")
    for row in rows:
        packages = ", ".join(f"{name} {number}" for name, number in versions[row["case"]].items())
        typer.echo(f"{row['case']}: {packages}")
