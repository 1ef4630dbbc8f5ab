"""Environments on a server that answers agent by agent and then waits for all of them, as the reference server does.

The slow tests play 10,000 agent-steps in each cell, at the reference server's speed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from benchmarks.synchronous_server import SynchronousServer
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import FightMetricsCallback, LeagueCallback, SelfPlayCallback, WinRateEvalCallback
from sb3_pvp.callbacks.exploiters import ExploiterCallback
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game import DesyncReason, Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote import RemoteError, RemoteWorld
from sb3_pvp.games.osrs.remote.replies import ReplyEncoder
from sb3_pvp.players.league import League
from sb3_pvp.policies import AutoregressivePolicy
from tests.games.osrs.remote.living_world import LivingWorld
from tests.games.osrs.remote.replay import Recording
from tests.games.osrs.remote.served import ask, handler_server, in_thread, logged_in
from tests.paths import DATA

BOT = {"bots": (None, "baseline")}
FOLDER = DATA / "recordings"
CELL = int(os.environ.get("SB3_PVP_CELL", 10_000))
#: Seconds that a step may take beyond the server's slowest answer.
MARGIN = 4.5
BROKEN = ("desync", "target_lost")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Loads the compiled code, which on a busy machine takes longer than the time-outs of the first test."""
    ReplyEncoder(load_contract("NhEnv"))


@contextmanager
def synchronous(slowness: float = 1.0, seed: int = 0) -> Iterator[tuple[SynchronousServer, str]]:
    """Yields a server and its address; no agent may be left in the end, after log-ins under way are carried out."""
    server = SynchronousServer(LivingWorld, slowness, seed)
    with handler_server(server.handle) as port:
        yield server, f"rsps://127.0.0.1:{port}"
        deadline = time.monotonic() + 10
        while logged_in(port) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert logged_in(port) == []


LOGIN = b'{"action":"login","meta":{"id":"%s"},"body":{"agentType":"NhEnv"}}\n'
STEP = b'{"action":"step","meta":{"id":"stranger"},"body":{"action":[0]}}\n'


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        (b"[]\n", []),
        (b"\xff\n", []),
        (b"x" * 9000 + b"\n", []),
        (b"x" * 200_000 + b"\n", []),
        (b'{"action":"fly"}\n', []),
        (b'{"action":"login"', []),
        (b'{"action":"login","meta":null}\n', ["NullPointerException"]),
        (b'{"action":"login","meta":{"id":"a"},"body":{"agentType":"?"}}\n', ["NoSuchElementException"]),
        (STEP, ["NullPointerException"]),
        (LOGIN % b"b" * 2 + b'{"action":"logout","meta":{"id":"b"}}\n', ["Agent already exists"]),
    ],
    ids=range(10),
)
def test_bad_lines_do_not_disturb_others(lines: bytes, errors: list[str]) -> None:
    with synchronous(0.0) as (_, address):
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            *first, last = lines.splitlines(keepends=True)
            connection.sendall(b"".join(first))
            time.sleep(0.1 if first else 0.0)  # A log-in is carried out in the next tick, a log-out at once.
            with suppress(OSError):  # hung up on
                connection.sendall(last)
                connection.shutdown(socket.SHUT_WR) if not errors else time.sleep(0.1)
                connection.settimeout(0.5 if errors else 10)
            replies = b""
            with suppress(OSError):
                while data := connection.recv(1 << 16):
                    replies += data
        refused = [line["message"] for line in map(json.loads, replies.splitlines()) if line.get("error")]
        assert len(refused) == len(errors) and all(map(str.__contains__, refused, errors)), replies
        world = RemoteWorld(f"{address}?step_timeout=1&attempts=1&reset_timeout=2", 2)
        world.reset(options=BOT)
        for _ in range(3):
            world.step(np.zeros((2, 2, 12), np.int64))
        assert (world.outcome == Outcome.RUNNING).all()
        world.close()


def test_agents_that_reconnect_under_the_same_id() -> None:
    with synchronous(0.0) as (_, address):
        port = int(address.rpartition(":")[2])
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), 10) as connection:
                connection.sendall(LOGIN % b"again")
                assert connection.recv(100) == b"{}\n"
                connection.sendall(STEP.replace(b"stranger", b"again") * 2)
            assert logged_in(port) == ["again"]
            ask(port, "logout", "again")


class Played(Counter[str]):
    """Counts the outcomes of fights; ``longest`` is the longest step, seconds."""

    longest = 0.0

    def play(self, env: VecEnv, steps: int, seed: int = 0) -> None:
        """Plays random actions for ``steps`` agent-steps, then closes the environment."""
        random = np.random.default_rng(seed)
        env.reset()
        gc.freeze()  # Looking through all that torch, pytest and the server hold takes a fifth of a second of CPU time.
        for _ in range(-(-steps // env.num_envs)):
            actions = random.integers(0, env.action_space.nvec, (env.num_envs, 12))  # type: ignore[attr-defined]
            start = time.monotonic()
            _, _, dones, infos = env.step(actions)
            self.longest = max(self.longest, time.monotonic() - start)
            self.update(infos[row]["outcome"] for row in np.flatnonzero(dones))
        env.close()

    def check(self, server: SynchronousServer, least: int) -> None:
        """Checks that no step took too long, no fight broke off, and at least ``least`` were decided."""
        assert not any(self[outcome] for outcome in BROKEN), self
        assert self["won"] + self["lost"] >= least, self
        assert self.longest < server.slowest_answer + MARGIN


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of an untrained model."""
    path = tmp_path_factory.mktemp("models") / "fighter.zip"
    MaskablePPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, seed=0).save(path)
    return path


@pytest.mark.parametrize("options", [BOT, {}], ids=["bot", "pair"])
@pytest.mark.parametrize("num_fights", [4, 30])
def test_starts_and_restarts(num_fights: int, options: dict[str, Any]) -> None:
    with synchronous() as (server, address):
        world = RemoteWorld(f"{address}?step_timeout=20", num_fights)
        world.reset(options=options)
        for _ in range(25):
            start = time.monotonic()
            world.step(np.zeros((num_fights, 2, 12), np.int64))
            assert time.monotonic() - start < server.slowest_answer + MARGIN
            assert not (world.outcome >= Outcome.TARGET_LOST).any()
            over = np.flatnonzero(world.outcome[:, 0])
            if over.size:
                world.reset(over, options)
        world.close()
        # A world that waits for an agent without a step would do so until `step_timeout`.
        assert server.longest_wait < 15


@pytest.mark.slow
def test_processes_in_lock_step_need_no_option() -> None:
    with synchronous(0.2) as (server, address):
        played = Played()
        played.play(SubprocVecEnv([partial(NhEnv, world=f"{address}?step_timeout=5")] * 3), 300)
        played.check(server, least=3)


class _BothAtOnce:
    """Answers the resets of a pair in one tick, as happens in half of the cases (protocol.md §5.5), one reply after
    the other, and then waits for both steps."""

    def __init__(self) -> None:
        self._body = Recording(FOLDER / "selfplay-04-core_random1.jsonl.gz").bodies("141")[0]
        self._waiting: list[asyncio.StreamWriter] = []
        self._ticks = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            action = json.loads(line)["action"]
            if action == "logout":
                writer.write(b'{"error":true,"message":"IllegalStateException: No player found for: it"}\n')
            elif action == "login":
                writer.write(b"{}\n")
            else:
                self._waiting.append(writer)
            if len(self._waiting) == 2:
                self._body["meta"]["episodeTicks"], self._ticks = self._ticks, self._ticks + 1
                waiting, self._waiting = self._waiting, []
                for each in waiting:
                    each.write(json.dumps({"body": self._body}).encode() + b"\n")
                    await asyncio.sleep(0.02)


def test_a_pair_that_is_reset_in_one_tick() -> None:
    with handler_server(_BothAtOnce().handle) as port:
        world = RemoteWorld(f"rsps://127.0.0.1:{port}?step_timeout=3&reset_timeout=3", 1)
        world.reset()
        for _ in range(5):
            world.step(np.zeros((1, 2, 12), np.int64))
            assert (world.outcome == Outcome.RUNNING).all()
        assert (world.meta["episode_ticks"] == 5).all()
        world.close()


class _WaitsForOthers:
    """Answers the first step of a fight only when the other agents, which wait for its end, have stepped again."""

    def __init__(self) -> None:
        self._body = Recording(FOLDER / "baseline-07-core_random1.jsonl.gz").bodies("114")[0]
        self._ticks = 0
        self.others = threading.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            action = json.loads(line)["action"]
            if action == "step":
                self._ticks += 1
                await asyncio.to_thread(self.others.wait)
            self._body["meta"]["episodeTicks"] = self._ticks
            replies = {"logout": b'{"error":true,"message":"No player found for: it"}', "login": b"{}"}
            writer.write(replies.get(action, json.dumps({"body": self._body}).encode()) + b"\n")


def test_the_first_tick_of_a_fight_in_lock_step_ends_with_the_next_step() -> None:
    server = _WaitsForOthers()
    with handler_server(server.handle) as port:
        world = RemoteWorld(f"rsps://127.0.0.1:{port}?step_timeout=120&defer_resets=true", 1)
        world.reset(options=BOT)
        for ticks in (0, 1, 2):
            start = time.monotonic()
            world.step(np.zeros((1, 2, 12), np.int64))
            assert time.monotonic() - start < 60
            assert world.ticks[0] == ticks and world.outcome[0, 0] == Outcome.RUNNING
            server.others.set()
        world.close()


class _HangsUpOnTheSecond:
    """Starts the second of two fights while the step of the first is under way, closes the connection when its agent
    steps, and then waits for it, as a world does."""

    def __init__(self) -> None:
        self._body = Recording(FOLDER / "baseline-07-core_random1.jsonl.gz").bodies("114")[0]
        self._agents: list[str] = []
        self._is_stepped, self._is_alone = asyncio.Event(), asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            is_second = request["meta"]["id"] in self._agents[1:]
            reply = b"{}"
            if request["action"] == "logout" and request["meta"]["id"] not in self._agents:
                reply = b'{"error":true,"message":"IllegalStateException: No player found for: it"}'
            elif request["action"] == "logout":
                self._agents.remove(request["meta"]["id"])
                self._is_alone.set()
            elif request["action"] == "login":
                self._agents.append(request["meta"]["id"])
            elif request["action"] == "step" and is_second:
                break
            elif request["action"] == "step":
                self._is_stepped.set()
                await self._is_alone.wait()
                reply = self._shown(1)
            else:
                if is_second:
                    await self._is_stepped.wait()
                reply = self._shown(0)
            writer.write(reply + b"\n")
        writer.close()

    def _shown(self, ticks: int) -> bytes:
        self._body["meta"]["episodeTicks"] = ticks
        return json.dumps({"body": self._body}).encode()


def test_an_agent_lost_in_a_filler_step_logs_out_at_once() -> None:
    with handler_server(_HangsUpOnTheSecond().handle) as port:
        world = RemoteWorld(f"rsps://127.0.0.1:{port}?step_timeout=120", 2)
        world.reset(options=BOT)
        start = time.monotonic()
        world.step(np.zeros((2, 2, 12), np.int64))
        assert time.monotonic() - start < 60
        assert sorted(world.outcome[:, 0]) == [Outcome.RUNNING, Outcome.DESYNC]
        world.close()


@pytest.mark.slow
def test_environments_cannot_be_stepped_one_after_another() -> None:
    with synchronous(0.2) as (_, address):
        env = DummyVecEnv([partial(NhEnv, world=address)] * 2)
        with pytest.raises(RemoteError, match="use NhVecEnv, or a SubprocVecEnv"):
            Played().play(env, 20)
        env.close()


def test_worlds_of_one_thread_make_way_for_each_other() -> None:
    with synchronous(0.2) as (_, address):
        training, evaluation = (RemoteWorld(address, 3) for _ in range(2))
        worlds = [training, evaluation, training]
        for world in worlds:
            world.reset(options=BOT)
            start = time.monotonic()
            for _ in range(12):
                world.step(np.zeros((3, 2, 12), np.int64))
                assert not (world.outcome >= Outcome.TARGET_LOST).any()
                if over := np.flatnonzero(world.outcome[:, 0]).tolist():
                    world.reset(over, BOT)
            assert time.monotonic() - start < 5
        evaluation.step(np.zeros((3, 2, 12), np.int64))
        assert (evaluation.outcome == Outcome.DESYNC).all() and (evaluation.desync_reason == DesyncReason.IDLE).all()
        training.close()
        evaluation.close()


@pytest.mark.slow
@pytest.mark.parametrize("opponent", ["baseline", "scripted", "model", "self"])
@pytest.mark.parametrize("num_envs", [4, 30, 100])
def test_cell(num_envs: int, opponent: str, model: Path) -> None:
    with synchronous() as (server, address):
        played = Played()
        chosen = str(model) if opponent == "model" else opponent
        played.play(NhVecEnv(num_envs, opponent=chosen, world=f"{address}?step_timeout=5"), CELL)
        played.check(server, least=CELL // 100)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="starts processes")
@pytest.mark.parametrize("options", ["", "?defer_resets=true"])
@pytest.mark.parametrize("num_envs", [4, 30])
def test_cell_of_processes(num_envs: int, options: str) -> None:
    with synchronous() as (server, address):
        played = Played()
        played.play(SubprocVecEnv([partial(NhEnv, world=address + options)] * num_envs), CELL)
        played.check(server, least=CELL // 100)


class _Endings(BaseCallback):
    """Counts the outcomes of the learner's fights."""

    def __init__(self) -> None:
        super().__init__()
        self.endings: Counter[str] = Counter()

    def _on_step(self) -> bool:
        self.endings.update(info["outcome"] for info in self.locals["infos"] if "episode" in info)
        return True


def train(env: NhVecEnv, folder: Path, steps: int) -> _Endings:
    """Trains, with an evaluation after every fourth rollout."""
    endings = _Endings()
    evaluation = WinRateEvalCallback(eval_freq=4, n_eval_episodes=10)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=32, batch_size=256, n_epochs=1, seed=0)
    model.run_folder = folder
    model.learn(steps, callback=[endings, evaluation, FightMetricsCallback()])
    return endings


@pytest.mark.slow
@pytest.mark.parametrize("idle_logout", ["", "?idle_logout=2"])
@pytest.mark.parametrize("num_envs", [4, 30])
def test_cell_of_evaluation_beside_training(num_envs: int, idle_logout: str, tmp_path: Path) -> None:
    with synchronous() as (_, address):
        env = NhVecEnv(num_envs, world=address + idle_logout)
        endings = train(env, tmp_path, CELL).endings
        env.close()
        # Each evaluation breaks off the fights under way once; FightMetricsCallback stops the run if others do.
        evaluations = CELL // (4 * 32 * num_envs)
        assert endings["desync"] <= num_envs * (evaluations + 1)
        assert endings["won"] >= CELL // 100


@pytest.mark.slow
def test_cell_of_trainings_side_by_side() -> None:
    """Several learners, each with its own fights and at its own pace, as with exploiters."""
    with synchronous() as (server, address):
        played = [Played() for _ in range(3)]
        threads = [
            threading.Thread(target=each.play, args=(NhVecEnv(10, world=address), CELL // 3, seed))
            for seed, each in enumerate(played)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in played:
            each.check(server, least=CELL // 300)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="starts processes")
def test_cell_of_exploiters(tmp_path: Path) -> None:
    """A run and its exploiters, each in its own process, on one server."""
    with synchronous() as (_, address):
        env, endings = NhVecEnv(10, world=address), _Endings()
        model = PvpPPO(AutoregressivePolicy, env, n_steps=32, batch_size=256, n_epochs=1, seed=0)
        model.run_folder = tmp_path
        log = tmp_path / "exploiters.jsonl"
        preset = {"n_envs": 8, "callback": [{"sb3_pvp.callbacks.EpisodeLogCallback": {"path": str(log)}}]}
        exploiters = ExploiterCallback(1, 1, preset, rollouts=5, max_restarts=0, nice=0)
        callbacks = [endings, LeagueCallback(), SelfPlayCallback(past=0.5), exploiters, FightMetricsCallback()]
        model.learn(CELL, callbacks)
        env.close()
        assert model.logger.name_to_value["exploiters/failures"] == 0
    episodes = [json.loads(line) for line in log.read_text().splitlines()]
    played = Counter(episode["outcome"] for episode in episodes)
    names = {player.name for player in League.existing(tmp_path / "league").players()}
    assert {name.rpartition("-")[0] for name in names} >= {"main-exploiter-0", "league-exploiter-0"}
    for each in (endings.endings, played):
        assert not any(each[outcome] for outcome in BROKEN), each
        assert each["won"] + each["lost"] >= CELL // 100


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [4, 30])
def test_cell_of_a_server_that_restarts(num_envs: int) -> None:
    servers = ExitStack()

    def start(port: int) -> int:
        server = SynchronousServer(LivingWorld, 1.0)

        async def main(announce: Any) -> None:
            listening = await asyncio.start_server(server.handle, "127.0.0.1", port)
            announce(listening.sockets[0].getsockname()[1])
            try:
                await asyncio.Event().wait()
            finally:
                listening.close()

        return servers.enter_context(in_thread(main))

    port = start(0)
    env = NhVecEnv(num_envs, world=f"rsps://127.0.0.1:{port}?restart_timeout=60&backoff=0.05")
    played = Played()
    outcomes: list[Counter[str]] = []
    for _ in range(3):
        before = Counter(played)
        env.reset()
        for _ in range(CELL // 3 // num_envs):
            actions = np.zeros((num_envs, 12), np.int64)
            _, _, dones, infos = env.step(actions)
            played.update(infos[row]["outcome"] for row in np.flatnonzero(dones))
        outcomes.append(Counter(played) - before)
        servers.close()
        start(port)
    env.close()
    assert logged_in(port) == []
    servers.close()
    for each in outcomes:
        assert each["won"] >= CELL // 300
        assert each["desync"] <= num_envs  # those that were under way when the server was killed
