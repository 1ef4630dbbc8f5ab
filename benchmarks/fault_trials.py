"""Environments that play through a `FaultProxy`, and what becomes of them: the trials of the benchmark `faults`."""

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
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from benchmarks.fault_proxy import FaultProxy, RandomFaults
from benchmarks.fault_referee import Findings, Referee, WatchedWorld
from benchmarks.report import Row, Turn, make_row
from benchmarks.synchronous_server import RESET_TICKS, SynchronousServer
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.games.osrs.remote import RemoteSettings, serve
from sb3_pvp.games.osrs.remote.remote_agent import LOGOUT_TIMEOUT

HOST = "127.0.0.1"
#: Whom learners fight, by game: the server's bot, or an opponent on a second connection.
OPPONENTS = {"NhEnv": ("baseline", "scripted"), "DharokEnv": ("baseline", "noop")}
NUM_OPPONENTS = 2
#: Each fight ticks by itself; all agents share one tick that waits for each of them; a clock that waits for nobody.
MODES = ("independent", "synchronous", "tick")
INDEPENDENT, SYNCHRONOUS, TICK = MODES
#: Seconds between the ticks of the clock.
TICK_SECONDS = 0.02
#: How fast the synchronous server answers: like the recorded one, but in a fifth of the time.
SLOWNESS = 0.2
#: For a client that has to live with faults: short time-outs, and so many attempts that they are never used up.
SETTINGS = {"connect_timeout": 1.0, "reset_timeout": 1.0, "step_timeout": 0.5, "attempts": 30, "backoff": 0.01}
#: On a synchronous server others may keep a start waiting until they notice that a line is lost, and have logged out.
#: Who gives up before that logs in again and again, and each agent more is one more to wait for.
SYNCHRONOUS_SETTINGS = {**SETTINGS, "reset_timeout": 2.0}
MAX_DELAY = 1.5 * SETTINGS["step_timeout"]
#: The part of the steps that a single environment plays.
SINGLE_SHARE = 0.1
#: Seconds in which agents that are left behind must be logged out.
LOGOUT_SECONDS = 30.0
#: Seconds in which a world is closed.
CLOSE_SECONDS = 10.0
#: On a machine that has other work to do everything may take so many times as long as it should.
SLACK = 2.0
#: Seconds between the steps of the witness where nobody waits for it and no clock paces it.
WITNESS_PAUSE = 0.02
#: So many log-outs of one agent may be lost in a row.
LOST_LOGOUTS = 3


@dataclass(frozen=True)
class Terms:
    """What is played, and on what kind of server."""

    mode: str = INDEPENDENT
    env: str = "NhEnv"

    @property
    def settings(self) -> dict[str, float]:
        """Settings of clients that have to live with faults."""
        return SYNCHRONOUS_SETTINGS if self.mode == SYNCHRONOUS else SETTINGS

    @property
    def witness(self) -> dict[str, float]:
        """Settings of a client that is to lose no fight, whatever others do.

        On a synchronous server it must wait longer than others may keep it waiting. A clock forgives it some ticks.
        """
        if self.mode == SYNCHRONOUS:
            longest = SLACK * standstill(RemoteSettings(**self.settings))  # type: ignore[arg-type]
            return {"desync_tick_threshold": 0, "step_timeout": longest, "reset_timeout": longest}
        return {} if self.mode == TICK else {"desync_tick_threshold": 0}

    def patience(self, settings: RemoteSettings) -> float:
        """Who is stepped again within so many seconds has not missed too many ticks of the clock."""
        return settings.desync_tick_threshold * TICK_SECONDS if self.mode == TICK else 0.0


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


def bounds_in_step(settings: RemoteSettings) -> dict[str, float]:
    """The same where fights are not independent, so that resets are deferred: while no fight is under way a step waits
    until one has started, as a reset would."""
    own = bounds(settings)
    return {**own, "step": own["reset"] + 3 * settings.step_timeout}


def standstill(settings: RemoteSettings) -> float:
    """How long clients with these settings may keep another one waiting on a synchronous server, seconds.

    The start of a fight takes some ticks. In each of them somebody's line may be lost, and then the world stands still
    until that client's time-out. It goes on when the agent has logged out; log-outs may be lost, and are sent again.
    """
    noticed = max(settings.reset_timeout, settings.step_timeout)
    logout = min(LOGOUT_TIMEOUT, settings.step_timeout) + settings.backoff * 2.0**LOST_LOGOUTS
    return max(RESET_TICKS) * noticed + LOST_LOGOUTS * logout


def bounds_beside(others: RemoteSettings) -> dict[str, float]:
    """Bounds of a client without faults on a synchronous server that it shares with others: it waits with them."""
    waiting = standstill(others)
    return {"step": waiting, "reset": waiting, "close": CLOSE_SECONDS}


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
        cls,
        course: Course,
        settings: RemoteSettings,
        name: str,
        make_env: Callable[[Any], VecEnv],
        bounds: Mapping[str, float],
        seed: int,
    ) -> Player:
        """A player whose world is at that address."""
        findings, patience = Findings(), course.terms.patience(settings)
        world = partial(WatchedWorld, settings, course.referee, findings, f"{name}, port {settings.port}", patience)
        return cls(name, partial(make_env, world), findings, bounds, seed)

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


def many_fights(num_envs: int, opponent: str, contract: str, world: Any) -> VecEnv:
    """Fights in one world."""
    return NhVecEnv(num_envs, opponent=opponent, contract=contract, world=world)


def one_fight(opponent: str, contract: str, world: Any) -> VecEnv:
    """One `NhEnv`."""
    return DummyVecEnv([lambda: NhEnv(opponent=opponent, contract=contract, world=world)])


class Course:
    """Where trials take place: a server of ours, which must outlive all of them.

    Args:
        seed: of the server's world.
        terms: what is played there, and how.

    Attributes:
        port: where it listens.
        referee: knows how its fights ended.
    """

    def __init__(self, seed: int, terms: Terms) -> None:
        self.terms = terms
        self.referee = Referee()
        # Compiled before clients wait for it.
        self.referee.make_world(1, seed, contract=terms.env).close()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self.on_loop(self._start_server(seed))

    def on_loop(self, work: Any) -> Any:
        """The result of a coroutine that runs beside the server."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start_server(self, seed: int) -> int:
        if self.terms.mode == SYNCHRONOUS:
            synchronous = SynchronousServer(self.referee.make_world, SLOWNESS, seed)
            server = await asyncio.start_server(synchronous.handle, HOST, 0)
            self._serving = self._loop.create_task(_served(server))
            return int(server.sockets[0].getsockname()[1])
        listening: asyncio.Future[int] = self._loop.create_future()
        serving = serve(
            port=0,
            seed=seed,
            make_world=self.referee.make_world,
            on_listening=listening.set_result,
            tick_rate=1000 * TICK_SECONDS if self.terms.mode == TICK else None,
        )
        self._serving = self._loop.create_task(serving)
        return await listening

    async def _stop_server(self) -> None:
        self._serving.cancel()
        await asyncio.wait([self._serving])
        # What a synchronous server does besides: its clock, and its connections.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

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


async def _served(server: asyncio.Server) -> None:
    async with server:
        await server.serve_forever()


@contextmanager
def open_course(seed: int, terms: Terms) -> Iterator[Course]:
    """A course; what goes wrong in fights is not logged meanwhile, for that is what is wanted."""
    logger = logging.getLogger("sb3_pvp.games.osrs.remote")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    course = Course(seed, terms)
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
    settings = RemoteSettings(host=HOST, port=course.on_loop(proxy.start()), **course.terms.settings)  # type: ignore[arg-type]
    players = _players(course, settings, num_envs, seed)
    witness = _witness(course, settings, name, seed)
    turn = _play(players, witness, steps, WITNESS_PAUSE if course.terms.mode == INDEPENDENT else 0.0)
    broken_promises = [text for player in players for text in player.broken_promises()]
    broken_promises += [f"without a proxy: {text}" for text in witness.broken_promises()]
    # With a clock a client has to keep up, and this process has more to do than that: what it missed is its own fault.
    lost = witness.findings.broken - (witness.findings.missed if course.terms.mode == TICK else 0)
    lost += witness.findings.blamed
    if lost:
        broken_promises.append(f"{lost} fights broke off without a proxy")
    left = course.left_behind()
    broken_promises += [f"agent {agent} is still logged in" for agent in left]
    course.on_loop(proxy.stop())
    row = make_row(name, num_envs, turn, injected=sum(proxy.injected.values()))
    row |= _sums([player.findings for player in players]) | {"left_behind": len(left)}
    row |= {"longest_step_s": max(player.findings.longest["step"] for player in players)}
    row |= {"step_bound_s": players[0].bounds["step"]}
    row |= {"witness_steps": witness.findings.steps, "witness_lost": lost}
    if course.terms.mode == TICK:
        row |= {"missed": sum(player.findings.missed for player in players), "witness_missed": witness.findings.missed}
    if course.terms.mode != INDEPENDENT:
        row |= {"witness_decided": witness.findings.decided, "witness_longest_s": witness.findings.longest["step"]}
    return row | {"broken_promises": len(broken_promises)}, broken_promises


def _players(course: Course, settings: RemoteSettings, num_envs: int, seed: int) -> list[Player]:
    players: list[Player] = []
    own_bounds = bounds(settings) if course.terms.mode == INDEPENDENT else bounds_in_step(settings)
    contract = course.terms.env
    for opponent in OPPONENTS[contract]:
        kinds: dict[str, Callable[[Any], VecEnv]] = {
            "NhVecEnv": partial(many_fights, num_envs, opponent, contract),
            "NhEnv": partial(one_fight, opponent, contract),
        }
        for kind, make_env in kinds.items():
            name = f"{kind} against {opponent}"
            players.append(Player.through(course, settings, name, make_env, own_bounds, seed + len(players)))
    return players


def _witness(course: Course, others: RemoteSettings, name: str, seed: int) -> Player:
    settings = RemoteSettings(host=HOST, port=course.port, **course.terms.witness)  # type: ignore[arg-type]
    kinds = {INDEPENDENT: bounds(settings), SYNCHRONOUS: bounds_beside(others), TICK: bounds_in_step(settings)}
    own_bounds = kinds[course.terms.mode]
    make_env = partial(many_fights, 2, OPPONENTS[course.terms.env][-1], course.terms.env)
    return Player.through(course, settings, f"witness of {name}", make_env, own_bounds, seed)


def _play(players: Sequence[Player], witness: Player, steps: int, pause: float) -> Turn:
    cpu, wall = -time.process_time(), -time.perf_counter()
    is_over = threading.Event()
    witness.play_until(is_over.is_set, pause)
    for player in players:
        share = SINGLE_SHARE if "NhEnv" in player.name else 1 - SINGLE_SHARE
        player.play_until(partial(player.has_played, steps * share / NUM_OPPONENTS))
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
