"""Plays the fights of a remote world on an event loop in a background thread.

In a thread, an agent's reset follows its log-in at once, whatever the learner is doing: a synchronous world waits for
it (``protocol-observed.md``, surprise 1).
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds
from sb3_pvp.games.osrs.remote.client_errors import Lost, RemoteError
from sb3_pvp.games.osrs.remote.fight_setup import FightOptions, SharedState
from sb3_pvp.games.osrs.remote.guard import Guard
from sb3_pvp.games.osrs.remote.journal import stale_journals
from sb3_pvp.games.osrs.remote.remote_agent import log_out, log_out_stale_agents
from sb3_pvp.games.osrs.remote.remote_fight import QUIET_SECONDS, RemoteFight

_T = TypeVar("_T")

#: Seconds to wait for the server's report of a predicted outcome ...
FINAL_STEP_SECONDS = 2.0
#: ... and, on a server that is known to play no tick before every agent has sent a step, for that and all other replies
#: of the same tick.
SHARED_TICK_SECONDS = 0.02
#: Default of `RemoteSettings.idle_logout` on a server whose fights are not independent; shorter than the default of
#: ``step_timeout``, for which other learners wait meanwhile.
IDLE_SECONDS = 20.0
#: Seconds that `RemoteRunner.shut_down` waits for log-outs under way; the guard logs out what is left.
PENDING_LOGOUT_SECONDS = 1.0
#: A server with a clock answers a step or a reset sooner than this. One that does not is synchronous and waits for
#: another agent.
STEP_SECONDS, RESET_SECONDS = 1.5, 6.0
#: Seconds to wait for fights to start before looking for the reason: the server may wait for other worlds of the same
#: thread, which cannot be stepped meanwhile.
START_SECONDS = 0.25

#: The runners of this process by server: their worlds may wait for each other.
_runners_by_server: dict[str, weakref.WeakSet[RemoteRunner]] = defaultdict(weakref.WeakSet)


class RemoteRunner:
    """F fights and the thread that plays them. Its methods must be called from one other thread.

    Attributes:
        fights: the fights, to be read only between calls.
    """

    def __init__(self, settings: RemoteSettings, contract: Contract, num_fights: int) -> None:
        self._settings = settings
        self._guard = Guard(settings.host, settings.port)
        ids = AgentIds(num_fights, settings.first_id)
        self._shared = SharedState(settings, contract, ids, self._guard)
        self.fights = [RemoteFight(index, self._shared) for index in range(num_fights)]
        self._final_step_seconds = FINAL_STEP_SECONDS if settings.defer_resets is None else SHARED_TICK_SECONDS
        self._idle_timer: asyncio.TimerHandle | None = None
        self._filler_timer: asyncio.TimerHandle | None = None
        self._logged_out_stale = False
        self._pid = os.getpid()
        self._start_seconds = SHARED_TICK_SECONDS if settings.defer_resets else START_SECONDS
        self._caller_id = 0
        #: Start times of the last two steps.
        self._step_times = [0.0, 0.0]
        _runners_by_server[settings.host_port].add(self)
        self._loop = asyncio.new_event_loop()
        # A daemon: Python joins other threads before the finalizer of `RemoteWorld`, which ends this one.
        self._thread = threading.Thread(target=self._loop.run_forever, name="rsps-client", daemon=True)
        self._thread.start()

    def reset(self, options: Mapping[int, FightOptions], seeds: Mapping[int, int]) -> None:
        """Starts new fights; raises `RemoteError` if that fails."""
        self._run(self._reset(options, seeds))

    def step(self, choices: Mapping[int, NDArray[np.int64]]) -> set[int]:
        """Plays a tick of these fights and returns those that changed; raises `RemoteError` if one cannot start."""
        self._step_times = [self._step_times[1], time.monotonic()]
        return self._run(self._step(choices))

    def leave(self, fights: Iterable[int]) -> None:
        """Logs the agents of these fights out."""
        self._run(self._leave(fights))

    def shut_down(self) -> None:
        """Logs all agents out and ends the thread; later calls do nothing."""
        # A forked child has these objects but not the thread, and must not log out its parent's agents.
        if self._loop.is_closed() or os.getpid() != self._pid:
            return
        try:
            self._run(self._shut_down())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._guard.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if os.getpid() != self._pid:
            work.close()  # Python would warn of a coroutine that was never awaited.
            raise RemoteError("a forked process cannot play in its parent's remote world: make a new one")
        self._caller_id = threading.get_ident()
        return asyncio.run_coroutine_threadsafe(self._run_with_timers(work), self._loop).result()

    async def _run_with_timers(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does the work, and starts the timers for filler steps and for the idle log-out, which the next call stops."""
        for timer in (self._idle_timer, self._filler_timer):
            if timer is not None:
                timer.cancel()
        result = await work
        if self._may_be_in_lock_step() and self._shared.not_independent.is_set():
            self._schedule_filler_steps()
        seconds = self._settings.idle_logout
        if seconds is None:
            seconds = IDLE_SECONDS if self._shared.not_independent.is_set() else 0.0
        if seconds:
            self._idle_timer = self._loop.call_later(seconds, self._abandon, f"no step came for {seconds:g} s")
        return result

    def _abandon(self, fault: str) -> None:
        self._shared.broken_off |= {index for index, fight in enumerate(self.fights) if fight.abandon(fault)}

    async def _reset(self, options: Mapping[int, FightOptions], seeds: Mapping[int, int]) -> None:
        if not self._logged_out_stale:
            await self._log_out_stale()
        for index, fight_options in options.items():
            if index in seeds:
                self.fights[index].seed(seeds[index])
            self.fights[index].begin(fight_options)
        self._shared.broken_off -= set(options)
        await self._wait_for_starts([self.fights[index] for index in options])

    async def _log_out_stale(self) -> None:
        """Logs out the agents of runs that were killed together with their guards."""
        self._logged_out_stale = True
        if os.name != "posix":
            return
        # A journal whose agents could not be logged out is kept for the next run.
        with stale_journals(self._settings.host, self._settings.port) as left, contextlib.suppress(Lost):
            for path, agents in left.items():
                await log_out_stale_agents(self._settings, agents)
                path.unlink(missing_ok=True)

    async def _leave(self, fights: Iterable[int]) -> None:
        for index in fights:
            self.fights[index].leave()

    async def _step(self, choices: Mapping[int, NDArray[np.int64]]) -> set[int]:
        self._shared.num_world_steps += 1
        fights = {index: self.fights[index] for index in choices}
        playing = {index: fight for index, fight in fights.items() if fight.is_ready and not fight.is_over}
        waiting = {index: fight for index, fight in fights.items() if not fight.is_ready and not fight.is_over}
        for fight in fights.values():
            if fight.is_over and fight.agents:
                fight.leave()  # It was not reset, and a synchronous server would wait for its agents.
        if playing:
            in_lock_step = self._may_be_in_lock_step()
            ticks = [fight.tick(choices[index], in_lock_step) for index, fight in playing.items()]
            await self._play(ticks, fights.values())
            await self._wait_for_final_steps(playing.values())
        if waiting:
            await self._wait_for_starts(list(waiting.values()))
        broken = self._shared.broken_off & set(choices)
        self._shared.broken_off -= broken
        if broken and not self._settings.truncate_on_desync:
            raise RemoteError("a fight broke off: no step came for too long, or the server did not answer one")
        return {*broken, *playing, *(index for index, fight in waiting.items() if fight.is_ready)}

    async def _play(self, ticks: list[Coroutine[Any, Any, None]], fights: Collection[RemoteFight]) -> None:
        """Plays these ticks, and sends filler steps while no replies come."""
        # A synchronous server answers agent by agent: a fight may start meanwhile, and without a step of its agents the
        # server does not answer the others.
        played, began = asyncio.gather(*ticks), self._loop.time()
        with_fillers: list[RemoteFight] = []
        while not played.done():
            heard = self._shared.num_replies
            await asyncio.wait([played], timeout=QUIET_SECONDS)
            if self._shared.num_replies == heard and self._shared.not_independent.is_set() and not played.done():
                with_fillers += [fight for fight in fights if fight.send_filler_steps()]
                for fight in fights:
                    fight.postpone_first_tick()
                self._abandon_idle_worlds(began + STEP_SECONDS)
        await played
        if with_fillers:
            await asyncio.gather(*(fight.take_filler_replies() for fight in dict.fromkeys(with_fillers)))

    def _schedule_filler_steps(self) -> None:
        self._filler_timer = self._loop.call_later(QUIET_SECONDS, self._send_filler_steps)

    def _send_filler_steps(self) -> None:
        """Sends filler steps between the learner's steps, until all fights have started."""
        # The other worlds of a lock-step were stepped at the same time; their steps may wait for a fight that has
        # started since this world's step has returned.
        for fight in self.fights:
            fight.send_filler_steps()
        if any(fight.is_starting for fight in self.fights):
            self._schedule_filler_steps()

    async def _wait_for_final_steps(self, fights: Iterable[RemoteFight]) -> None:
        final_steps = {fight.final_step: fight for fight in fights if fight.final_step is not None}
        if final_steps:
            # No reply can come as long as the server waits for agents that are only stepped in the next call.
            blocked = self._shared.not_independent.is_set() and (self._is_waited_for() or self._may_be_in_lock_step())
            done, pending = await asyncio.wait(final_steps, timeout=0 if blocked else self._final_step_seconds)
            if pending:  # Such a server will not reply in time to later final steps either.
                self._final_step_seconds = SHARED_TICK_SECONDS
            for task in pending:
                final_steps[task].ignore_final_step()
            for task in done:
                task.result()

    async def _wait_for_starts(self, fights: list[RemoteFight]) -> None:
        """Waits until these fights have started, or, if starts are deferred, until others have to be stepped first."""
        starts = {fight.preparation for fight in fights if fight.preparation is not None}
        if starts:
            if not await self._must_defer_starts(starts):
                await asyncio.wait(starts)
            elif not self._is_waited_for():
                await self._wait_for_first_starts(starts)
        for start in starts:
            if start.done():
                start.result()

    async def _must_defer_starts(self, starts: set[asyncio.Task[None]]) -> bool:
        """Returns whether these fights may need the steps of other agents to start."""
        if self._settings.defer_resets is not None:
            return self._settings.defer_resets
        # That depends on the kind of server: waits until it is known, or all fights have started.
        not_independent = self._loop.create_task(self._shared.not_independent.wait())
        started = self._loop.create_task(asyncio.wait(starts))
        await asyncio.wait([not_independent, started], return_when=asyncio.FIRST_COMPLETED)
        not_independent.cancel()
        started.cancel()  # Cancels the waiting, not the starts.
        return not started.done()

    def _may_be_in_lock_step(self) -> bool:
        """Returns whether the learner may step this world together with others, which then wait for each other."""
        # By default that is a world of one fight in a worker process, as of a `SubprocVecEnv`.
        if self._settings.defer_resets is not None:
            return self._settings.defer_resets
        is_in_worker = multiprocessing.parent_process() is not None and not self._settings.launch
        return len(self.fights) == 1 and is_in_worker

    async def _wait_for_first_starts(self, starts: set[asyncio.Task[None]]) -> None:
        """Waits for the first fights to start, and briefly for others that start in the same tick."""
        # Not long in lock-step with other worlds. Any other world waits until a fight has started, so idle worlds that
        # the server waits for must be abandoned.
        began = self._loop.time()
        while not self._is_waited_for() and not any(start.done() for start in starts):
            tasks = [task for fight in self.fights for task in (fight.preparation, fight.any_final_step)]
            pending = {task for task in tasks if task is not None and not task.done()}
            # Each task that ends shows that the server makes progress.
            done, _ = await asyncio.wait(pending, timeout=self._start_seconds, return_when=asyncio.FIRST_COMPLETED)
            waits = all(fight.waits_for_server for fight in self.fights if not fight.is_ready and not fight.is_over)
            if not done and waits and self._shared.not_independent.is_set():
                self._abandon_idle_worlds(began + RESET_SECONDS)
                if self._may_be_in_lock_step():
                    # A learner in lock-step would lose this time in every step, so it is halved after each vain wait.
                    self._start_seconds = max(self._start_seconds / 2, SHARED_TICK_SECONDS)
                    return
        await asyncio.wait(starts, timeout=SHARED_TICK_SECONDS)

    def _is_waited_for(self) -> bool:
        """Returns whether a synchronous server waits for our agents: it sends no reply before they step or reset."""
        # A fight that is starting sends the resets of its agents without being stepped.
        return any(agent.owes_message for fight in self.fights if not fight.is_starting for agent in fight.agents)

    def _abandon_idle_worlds(self, deadline: float) -> None:
        """Abandons the fights of other worlds of this thread that the server waits for; raises `RemoteError` if the
        learner steps these in turn with this one, and the deadline has passed."""
        # The thread waits for this world, and so cannot step the others.
        for runner in list(_runners_by_server[self._settings.host_port]):
            shares_thread = runner is not self and runner._caller_id == self._caller_id and not runner._loop.is_closed()
            if not shares_thread or not runner._is_waited_for():
                continue
            # Worlds are stepped in turn if the other one was stepped before and after this world's previous step.
            if not runner._step_times[0] or not runner._step_times[0] <= self._step_times[0] <= runner._step_times[1]:
                # Each runner has its own event loop, on which alone its fights may be touched.
                runner._loop.call_soon_threadsafe(runner._abandon, "its learner plays in another world of this server")
            elif self._loop.time() > deadline:
                raise RemoteError(
                    f"{self._settings.host_port} waits for all agents before it answers one, so environments cannot be "
                    "stepped one after another there: use NhVecEnv, or a SubprocVecEnv"
                )

    async def _shut_down(self) -> None:
        for timer in (self._idle_timer, self._filler_timer):
            if timer is not None:
                timer.cancel()
        agents = []
        for fight in self.fights:
            # Taken before `leave`, which would repeat unanswered log-outs for minutes.
            mine = fight.hand_over_agents()
            fight.leave()
            for agent in mine:
                agent.hang_up()
            agents += [agent for agent in mine if agent.is_logged_in]
        # All at the same time: a server with a clock answers each log-out only in its next tick.
        await asyncio.gather(*(log_out(self._settings, agent) for agent in agents))
        if self._shared.pending_logouts:
            await asyncio.wait(self._shared.pending_logouts, timeout=PENDING_LOGOUT_SECONDS)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=PENDING_LOGOUT_SECONDS)
