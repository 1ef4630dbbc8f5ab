"""Environments that play through a `FaultProxy`, and what becomes of them: the trials of `bench faults`."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_pvp.cli.bench_report import Row, Turn, make_row
from sb3_pvp.cli.fault_referee import Findings, Referee, WatchedWorld
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.rsps import RemoteSettings, serve
from sb3_pvp.rsps.fault_proxy import FaultProxy, RandomFaults

HOST = "127.0.0.1"
#: Whom learners fight: the server's bot, or an opponent on a second connection.
OPPONENTS = ("baseline", "scripted")
#: For a client that has to live with faults: short time-outs, and so many attempts that they are never used up.
SETTINGS = {"connect_timeout": 1.0, "reset_timeout": 1.0, "step_timeout": 0.5, "attempts": 30, "backoff": 0.01}
MAX_DELAY = 1.5 * SETTINGS["step_timeout"]
#: The part of the steps that a single environment plays.
SINGLE_SHARE = 0.1
#: Seconds in which agents that are left behind must be logged out.
LOGOUT_SECONDS = 30.0
#: Seconds in which a world is closed.
CLOSE_SECONDS = 10.0
#: On a machine that has other work to do everything may take so many times as long as it should.
SLACK = 2.0
#: Seconds between the steps of the witness.
WITNESS_PAUSE = 0.02


def bounds(settings: RemoteSettings) -> dict[str, float]:
    """How long the calls of a remote world may take, seconds.

    One step may wait for the start of the opponent's agent, for that one's first step, and for the answer to the step
    that asks for the end.
    """
    pauses = sum(min(settings.backoff * 2**attempt, 5.0) for attempt in range(settings.attempts))
    return {
        "step": settings.reset_timeout + 3 * settings.step_timeout,
        "reset": settings.attempts * settings.reset_timeout + pauses,
        "close": CLOSE_SECONDS,
    }


class Player(threading.Thread):
    """Plays random legal actions in an environment until it has played enough, and closes it.

    Attributes:
        findings: what became of it.
        bounds: of its world, see `bounds`.
    """

    def __init__(
        self, name: str, make_env: Callable[[], VecEnv], findings: Findings, bounds: Mapping[str, float], seed: int
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.findings = findings
        self.bounds = bounds
        self._make_env = make_env
        self._random = np.random.default_rng(seed)

    @classmethod
    def through(
        cls, referee: Referee, settings: RemoteSettings, name: str, make_env: Callable[[Any], VecEnv], seed: int
    ) -> Player:
        """A player whose world is at that address."""
        findings = Findings()
        world = partial(WatchedWorld, settings, referee, findings, f"{name}, port {settings.port}")
        return cls(name, partial(make_env, world), findings, bounds(settings), seed)

    def play_until(self, enough: Callable[[], bool], pause: float = 0.0) -> None:
        """Starts playing, with a pause after each step."""
        self._enough = enough
        self._pause = pause
        self.start()

    def has_played(self, steps: float) -> bool:
        """It has played so many steps."""
        return self.findings.steps >= steps

    def wait(self) -> None:
        """Waits for the end, or until a call takes far too long."""
        while self.is_alive():
            self.join(0.1)
            if self._hangs():
                self.findings.errors.append(f"does not come back from a {self.findings.call}")
                return

    def broken_promises(self) -> list[str]:
        """What should not have happened."""
        found = self.findings
        late = [
            f"a {name} took {found.longest[name]:.1f} s, which is more than {SLACK:g} times {bound:g} s"
            for name, bound in self.bounds.items()
            if found.longest[name] > SLACK * bound
        ]
        return [f"{self.name}: {text}" for text in (*late, *found.wrong, *found.errors)]

    def run(self) -> None:
        """What is raised is written down as an error."""
        try:
            env = self._make_env()
            try:
                self._play(env)
            finally:
                env.close()
        except Exception:
            self.findings.errors.append(traceback.format_exc())

    def _play(self, env: VecEnv) -> None:
        env.reset()
        while not self._enough():
            masks = np.stack(env.env_method("action_masks"))
            env.step(legal_actions(masks, env.action_space.nvec, self._random))  # type: ignore[attr-defined]
            self.findings.steps += env.num_envs
            time.sleep(self._pause)

    def _hangs(self) -> bool:
        call = self.findings.call
        return call is not None and time.monotonic() - call[1] > 2 * SLACK * self.bounds[call[0]]


def legal_actions(masks: NDArray[np.bool_], head_sizes: Sequence[int], random: Generator) -> NDArray[np.int64]:
    """Random choices ``(N, heads)`` that the flat masks ``(N, A)`` allow; 0 where nothing is allowed."""
    keys = np.where(masks, random.random(masks.shape), -1.0)
    heads = np.split(keys, np.cumsum(head_sizes)[:-1], axis=1)
    return np.stack([head.argmax(axis=1) for head in heads], axis=1)


def many_fights(num_envs: int, opponent: str, world: Any) -> VecEnv:
    """Fights in one world."""
    return NhVecEnv(num_envs, opponent=opponent, world=world)


def one_fight(opponent: str, world: Any) -> VecEnv:
    """One `NhEnv`."""
    return DummyVecEnv([lambda: NhEnv(opponent=opponent, world=world)])


class Course:
    """Where trials take place: a server of ours, which must outlive all of them.

    Args:
        seed: of the server's world.

    Attributes:
        port: where it listens.
        referee: knows how its fights ended.
    """

    def __init__(self, seed: int) -> None:
        self.referee = Referee()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self.on_loop(self._start_server(seed))

    def on_loop(self, work: Any) -> Any:
        """The result of a coroutine that runs beside the server."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start_server(self, seed: int) -> int:
        listening: asyncio.Future[int] = self._loop.create_future()
        server = serve(port=0, seed=seed, make_world=self.referee.make_world, on_listening=listening.set_result)
        self._serving = self._loop.create_task(server)
        return await listening

    async def _stop_server(self) -> None:
        self._serving.cancel()
        await asyncio.wait([self._serving])

    def close(self) -> None:
        """Ends the server."""
        self.on_loop(self._stop_server())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ask(self, action: str, agent: str = "") -> Any:
        """The server's answer to a request that does not go through a proxy."""
        line = json.dumps({"action": action, "body": None, "meta": {"id": agent}}).encode() + b"\n"
        with socket.create_connection((HOST, self.port), LOGOUT_SECONDS) as connection:
            connection.sendall(line)
            return json.loads(connection.makefile().readline())

    def left_behind(self) -> list[str]:
        """Who is still logged in after `LOGOUT_SECONDS`; they are logged out then."""
        deadline = time.monotonic() + LOGOUT_SECONDS
        while agents := [str(info["id"]) for info in self.ask("debug")["body"]]:
            if time.monotonic() > deadline:
                for agent in agents:
                    self.ask("logout", agent)
                break
            time.sleep(0.05)
        return agents


@contextmanager
def open_course(seed: int) -> Iterator[Course]:
    """A course; what goes wrong in fights is not logged meanwhile, for that is what is wanted."""
    logger = logging.getLogger("sb3_pvp.rsps")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    course = Course(seed)
    try:
        yield course
    finally:
        course.close()
        logger.setLevel(level)


def run_trial(
    course: Course, name: str, faults: RandomFaults, num_envs: int, steps: int, seed: int
) -> tuple[Row, list[str]]:
    """Lets learners play about ``steps`` steps through faults, in several environments at once, while a witness plays
    without a proxy.

    Returns the row of the report, and what was promised and is not so.
    """
    proxy = FaultProxy(course.port, faults, seed=seed, max_delay=MAX_DELAY)
    settings = RemoteSettings(host=HOST, port=course.on_loop(proxy.start()), **SETTINGS)  # type: ignore[arg-type]
    plain = RemoteSettings(host=HOST, port=course.port, desync_tick_threshold=0)
    players = _players(course.referee, settings, num_envs, seed)
    witness = Player.through(course.referee, plain, f"witness of {name}", partial(many_fights, 2, "scripted"), seed)
    turn = _play(players, witness, steps)
    broken_promises = [text for player in players for text in player.broken_promises()]
    broken_promises += [f"without a proxy: {text}" for text in witness.broken_promises()]
    if witness.findings.broken:
        broken_promises.append(f"{witness.findings.broken} fights broke off without a proxy")
    left = course.left_behind()
    broken_promises += [f"agent {agent} is still logged in" for agent in left]
    course.on_loop(proxy.stop())
    row = make_row(name, num_envs, turn, injected=sum(proxy.injected.values()))
    row |= _sums([player.findings for player in players]) | {"left_behind": len(left)}
    row |= {"longest_step_s": max(player.findings.longest["step"] for player in players)}
    row |= {"step_bound_s": players[0].bounds["step"]}
    row |= {"witness_steps": witness.findings.steps, "witness_lost": witness.findings.broken}
    return row | {"broken_promises": len(broken_promises)}, broken_promises


def _players(referee: Referee, settings: RemoteSettings, num_envs: int, seed: int) -> list[Player]:
    players: list[Player] = []
    for opponent in OPPONENTS:
        kinds: dict[str, Callable[[Any], VecEnv]] = {
            "NhVecEnv": partial(many_fights, num_envs, opponent),
            "NhEnv": partial(one_fight, opponent),
        }
        for kind, make_env in kinds.items():
            name = f"{kind} against {opponent}"
            players.append(Player.through(referee, settings, name, make_env, seed + len(players)))
    return players


def _play(players: Sequence[Player], witness: Player, steps: int) -> Turn:
    cpu, wall = -time.process_time(), -time.perf_counter()
    is_over = threading.Event()
    witness.play_until(is_over.is_set, WITNESS_PAUSE)
    for player in players:
        share = SINGLE_SHARE if "NhEnv" in player.name else 1 - SINGLE_SHARE
        player.play_until(partial(player.has_played, steps * share / len(OPPONENTS)))
    for player in players:
        player.wait()
    is_over.set()
    witness.wait()
    played = sum(player.findings.steps for player in players)
    return Turn(played, cpu + time.process_time(), wall + time.perf_counter())


def _sums(findings: Sequence[Findings]) -> Row:
    return {
        "decided": sum(each.decided for each in findings),
        "unjudged": sum(each.unjudged for each in findings),
        "broken": sum(each.broken for each in findings),
        "wrong": sum(len(each.wrong) for each in findings),
        "errors": sum(len(each.errors) for each in findings),
    }
