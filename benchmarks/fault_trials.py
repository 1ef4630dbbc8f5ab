"""The trials of the benchmark `faults`: environments that play through a `FaultProxy`, and what they must survive."""

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
#: Opponents of the learners, by game: the server's bot, and a script on a second connection.
OPPONENTS = {"NhEnv": ("baseline", "scripted"), "DharokEnv": ("baseline", "noop")}
NUM_OPPONENTS = 2
#: Fights tick independently; all agents share one tick that waits for each of them; a clock ticks without waiting.
MODES = ("independent", "synchronous", "tick")
INDEPENDENT, SYNCHRONOUS, TICK = MODES
#: Seconds between the ticks of the clock.
TICK_SECONDS = 0.02
#: Response times of the synchronous server, as a share of the recorded ones.
SLOWNESS = 0.2
#: Clients behind the proxy have short time-outs, and more attempts than they can use up.
SETTINGS = {"connect_timeout": 1.0, "reset_timeout": 1.0, "step_timeout": 0.5, "attempts": 30, "backoff": 0.01}
#: On a synchronous server a start waits until other clients have noticed a lost line and logged out. A client that
#: gives up earlier logs in again and again, and the server has to wait for each further agent.
SYNCHRONOUS_SETTINGS = {**SETTINGS, "reset_timeout": 2.0}
MAX_DELAY = 1.5 * SETTINGS["step_timeout"]
#: The share of the steps that single environments play.
SINGLE_SHARE = 0.1
#: Seconds in which agents that are left behind must be logged out.
LOGOUT_SECONDS = 30.0
#: Seconds in which a world is closed.
CLOSE_SECONDS = 10.0
#: Calls may take this many times their bound, since the machine may be busy.
SLACK = 2.0
#: Seconds between the steps of the witness if no other client waits for it and no clock paces it.
WITNESS_PAUSE = 0.02
#: Log-outs of one agent that may be lost in a row.
LOST_LOGOUTS = 3


@dataclass(frozen=True)
class Terms:
    """The kind of server (one of `MODES`) and the game."""

    mode: str = INDEPENDENT
    env: str = "NhEnv"

    @property
    def settings(self) -> dict[str, float]:
        """Settings of clients behind the proxy."""
        return SYNCHRONOUS_SETTINGS if self.mode == SYNCHRONOUS else SETTINGS

    @property
    def witness(self) -> dict[str, float]:
        """Settings of a client without faults, which must not lose a fight.

        On a synchronous server it must wait longer than the others can hold it up. A clock tolerates some late ticks.
        """
        if self.mode == SYNCHRONOUS:
            longest = SLACK * standstill(RemoteSettings(**self.settings))  # type: ignore[arg-type]
            return {"desync_tick_threshold": 0, "step_timeout": longest, "reset_timeout": longest}
        return {} if self.mode == TICK else {"desync_tick_threshold": 0}

    def patience(self, settings: RemoteSettings) -> float:
        """Seconds between two steps within which a client does not miss too many ticks of the clock."""
        return settings.desync_tick_threshold * TICK_SECONDS if self.mode == TICK else 0.0


def bounds(settings: RemoteSettings) -> dict[str, float]:
    """Longest allowed duration of each call of a remote world, seconds.

    One step may wait for the start of the opponent's agent, for that agent's first step, and for the reply to the step
    that requests the end.
    """
    pauses = sum(min(settings.backoff * 2**attempt, 5.0) for attempt in range(settings.attempts))
    return {
        "step": settings.reset_timeout + 3 * settings.step_timeout,
        "reset": settings.attempts * settings.reset_timeout + pauses,
        "close": CLOSE_SECONDS,
    }


def bounds_in_step(settings: RemoteSettings) -> dict[str, float]:
    """As `bounds`, for servers whose fights are not independent, so that resets are deferred: without a running fight,
    a step waits until one has started, as a reset would."""
    own = bounds(settings)
    return {**own, "step": own["reset"] + 3 * settings.step_timeout}


def standstill(settings: RemoteSettings) -> float:
    """Seconds that clients with these settings may hold up another one on a synchronous server.

    The start of a fight takes some ticks. In each of them a client's line may be lost, which stops the world until that
    client's time-out. The world continues when the agent has logged out; lost log-outs are sent again.
    """
    noticed = max(settings.reset_timeout, settings.step_timeout)
    logout = min(LOGOUT_TIMEOUT, settings.step_timeout) + settings.backoff * 2.0**LOST_LOGOUTS
    return max(RESET_TICKS) * noticed + LOST_LOGOUTS * logout


def bounds_beside(others: RemoteSettings) -> dict[str, float]:
    """Bounds of a client without faults on a synchronous server: it waits for the clients behind the proxy."""
    waiting = standstill(others)
    return {"step": waiting, "reset": waiting, "close": CLOSE_SECONDS}


class Player(threading.Thread):
    """A thread that plays random legal actions in an environment until it has played enough, then closes it.

    Attributes:
        findings: observations of its world.
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
        """A player whose world has these settings."""
        findings, patience = Findings(), course.terms.patience(settings)
        world = partial(WatchedWorld, settings, course.referee, findings, f"{name}, port {settings.port}", patience)
        return cls(name, partial(make_env, world), findings, bounds, seed)

    def play_until(self, enough: Callable[[], bool], pause: float = 0.0) -> None:
        """Starts playing, with a pause after each step."""
        self._enough = enough
        self._pause = pause
        self.start()

    def has_played(self, steps: float) -> bool:
        """Whether it has played at least this many steps."""
        return self.findings.steps >= steps

    def wait(self) -> None:
        """Waits for the end of the thread, or until one of its calls takes far too long."""
        while self.is_alive():
            self.join(0.1)
            if self._hangs():
                self.findings.errors.append(f"does not come back from a {self.findings.call}")
                return

    def broken_promises(self) -> list[str]:
        """What should not have happened, as texts: slow calls, wrong outcomes, exceptions."""
        found = self.findings
        late = [
            f"a {name} took {found.longest[name]:.1f} s, which is more than {SLACK:g} times {bound:g} s"
            for name, bound in self.bounds.items()
            if found.longest[name] > SLACK * bound
        ]
        return [f"{self.name}: {text}" for text in (*late, *found.wrong, *found.errors)]

    def run(self) -> None:
        """Plays, and records an exception as an error."""
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
    # The largest of independent uniform keys is a uniformly random legal entry.
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
    """A server of ours for all trials, in a thread.

    Args:
        seed: of the server's world.
        terms: the kind of server and the game.

    Attributes:
        port: of the server.
        referee: collects the true outcomes of its fights.
    """

    def __init__(self, seed: int, terms: Terms) -> None:
        self.terms = terms
        self.referee = Referee()
        # Compile the rules now: that takes longer than the clients' time-outs.
        self.referee.make_world(1, seed, contract=terms.env).close()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self.on_loop(self._start_server(seed))

    def on_loop(self, work: Any) -> Any:
        """Runs a coroutine in the server's event loop and returns its result."""
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
        # The tasks of a synchronous server, its clock and its connections, are not children of `_serving`.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self) -> None:
        """Stops the server and its thread."""
        self.on_loop(self._stop_server())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def request(self, action: str, agent: str = "") -> Any:
        """Sends a request without the proxy and returns the server's reply."""
        line = json.dumps({"action": action, "body": None, "meta": {"id": agent}}).encode() + b"\n"
        with socket.create_connection((HOST, self.port), LOGOUT_SECONDS) as connection:
            connection.sendall(line)
            return json.loads(connection.makefile().readline())

    def left_behind(self) -> list[str]:
        """Returns the ids of agents that are still logged in after `LOGOUT_SECONDS`, and logs them out."""
        deadline = time.monotonic() + LOGOUT_SECONDS
        while agents := [str(info["id"]) for info in self.request("debug")["body"]]:
            if time.monotonic() > deadline:
                for agent in agents:
                    self.request("logout", agent)
                break
            time.sleep(0.05)
        return agents


async def _served(server: asyncio.Server) -> None:
    async with server:
        await server.serve_forever()


@contextmanager
def open_course(seed: int, terms: Terms) -> Iterator[Course]:
    """Starts and closes a `Course`; the client's warnings are silenced, since faults are intended here."""
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
    """Lets learners play about ``steps`` steps through the proxy, in several environments at once, while a witness
    plays without it.

    Returns the row of the report and the broken promises.
    """
    proxy = FaultProxy(course.port, faults, seed=seed, max_delay=MAX_DELAY)
    settings = RemoteSettings(host=HOST, port=course.on_loop(proxy.start()), **course.terms.settings)  # type: ignore[arg-type]
    players = _players(course, settings, num_envs, seed)
    witness = _witness(course, settings, name, seed)
    turn = _play(players, witness, steps, WITNESS_PAUSE if course.terms.mode == INDEPENDENT else 0.0)
    broken_promises = [text for player in players for text in player.broken_promises()]
    broken_promises += [f"without a proxy: {text}" for text in witness.broken_promises()]
    # With a clock a client has to keep up, and this process is busy with all others: ticks that it missed because it
    # was late are no fault of the client.
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
