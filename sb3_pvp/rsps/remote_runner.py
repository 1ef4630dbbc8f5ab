"""Plays the fights of a remote world on an event loop of its own, in a background thread.

The thread lets an agent's reset follow its log-in at once, whatever the learner is doing: a synchronous world would
wait for it (``protocol-observed.md``, surprise 1).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.rsps.address import RemoteSettings
from sb3_pvp.rsps.agent_ids import AgentIds
from sb3_pvp.rsps.client_errors import Lost, RemoteError
from sb3_pvp.rsps.fight_setup import FightOptions, Surroundings
from sb3_pvp.rsps.guard import Guard
from sb3_pvp.rsps.journal import orphans
from sb3_pvp.rsps.remote_agent import log_out, log_out_orphans
from sb3_pvp.rsps.remote_fight import RemoteFight

_T = TypeVar("_T")

#: How long the server's word on a fight that is decided is waited for ...
PATIENCE = 2.0
#: ... and, once it was seen that the server does not go on before every agent has sent its step, that and all else
#: that may be answered in the same tick.
SHARED_PATIENCE = 0.02
#: The default of `RemoteSettings.idle_logout` on a server whose fights are not independent: shorter than others wait.
IDLE_SECONDS = 20.0
#: How long `RemoteRunner.shut_down` waits for log-outs that are under way; the guard sees to what is left then.
DEPARTURE_SECONDS = 1.0


class RemoteRunner:
    """F fights and the thread that plays them. Its methods are called from one other thread.

    Attributes:
        fights: read them between calls only.
    """

    def __init__(self, settings: RemoteSettings, contract: Contract, num_fights: int) -> None:
        self._settings = settings
        self._guard = Guard(settings.host, settings.port)
        ids = AgentIds(num_fights, settings.first_id)
        self._around = Surroundings(settings, contract, ids, self._guard)
        self.fights = [RemoteFight(index, self._around) for index in range(num_fights)]
        self._patience = PATIENCE if settings.defer_resets is None else SHARED_PATIENCE
        self._idle_timer: asyncio.TimerHandle | None = None
        self._abandoned: set[int] = set()
        self._has_cleaned_up = False
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rsps-client", daemon=True)
        self._thread.start()

    def reset(self, options: Mapping[int, FightOptions], seeds: Mapping[int, int]) -> None:
        """Starts new fights; raises `RemoteError` if that cannot be done."""
        self._run(self._reset(options, seeds))

    def step(self, choices: Mapping[int, NDArray[np.int64]]) -> set[int]:
        """Plays a tick of these fights and returns those in which anything happened.

        Raises `RemoteError` if a fight cannot be started.
        """
        return self._run(self._step(choices))

    def leave(self, fights: Iterable[int]) -> None:
        """Logs the agents of these fights out."""
        self._run(self._leave(fights))

    def shut_down(self) -> None:
        """Logs all agents out and ends the thread; later calls do nothing."""
        # A forked child has the objects, but not the thread, and its parent's agents are none of its business.
        if self._loop.is_closed() or os.getpid() != self._process:
            return
        try:
            self._run(self._shut_down())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._guard.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        if os.getpid() != self._process:
            work.close()
            raise RemoteError("a forked process cannot play in its parent's remote world: make a world of its own")
        return asyncio.run_coroutine_threadsafe(self._attended(work), self._loop).result()

    async def _attended(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does the work; from then on the fights may be played for a while, and after that are abandoned."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        result = await work
        seconds = self._settings.idle_logout
        if seconds is None:
            seconds = IDLE_SECONDS if self._around.fights_wait.is_set() else 0.0
        if seconds:
            self._idle_timer = self._loop.call_later(seconds, self._abandon, f"no step came for {seconds:g} s")
        return result

    def _abandon(self, fault: str) -> None:
        self._abandoned |= {index for index, fight in enumerate(self.fights) if fight.abandon(fault)}

    async def _reset(self, options: Mapping[int, FightOptions], seeds: Mapping[int, int]) -> None:
        if not self._has_cleaned_up:
            await self._clean_up()
        for index, fight_options in options.items():
            if index in seeds:
                self.fights[index].seed(seeds[index])
            self.fights[index].begin(fight_options)
        self._abandoned -= set(options)
        await self._wait_for_starts([self.fights[index] for index in options])

    async def _clean_up(self) -> None:
        """Logs out who was left behind by runs that were killed together with their guards."""
        self._has_cleaned_up = True
        if os.name != "posix":
            return
        with orphans(self._settings.host, self._settings.port) as left, contextlib.suppress(Lost):
            for path, agents in left.items():
                await log_out_orphans(self._settings, agents)
                path.unlink(missing_ok=True)

    async def _leave(self, fights: Iterable[int]) -> None:
        for index in fights:
            self.fights[index].leave()

    async def _step(self, choices: Mapping[int, NDArray[np.int64]]) -> set[int]:
        fights = {index: self.fights[index] for index in choices}
        abandoned = self._abandoned & set(choices)
        self._abandoned -= abandoned
        if abandoned and not self._settings.truncate_on_desync:
            raise RemoteError("a fight broke off: no step came for too long")
        playing = {index: fight for index, fight in fights.items() if fight.is_ready and not fight.is_over}
        waiting = {index: fight for index, fight in fights.items() if not fight.is_ready and not fight.is_over}
        for fight in fights.values():
            if fight.is_over and fight.agents:
                fight.leave()  # Nobody resets it, so nobody shall have to wait for its agents.
        await asyncio.gather(*(fight.tick(choices[index]) for index, fight in playing.items()))
        await self._wait_for_farewells(playing.values())
        if waiting:
            await self._wait_for_starts(list(waiting.values()), others_play=bool(playing))
        return {*abandoned, *playing, *(index for index, fight in waiting.items() if fight.is_ready)}

    async def _wait_for_farewells(self, fights: Iterable[RemoteFight]) -> None:
        farewells = {fight.farewell: fight for fight in fights if fight.farewell is not None}
        if farewells:
            done, pending = await asyncio.wait(farewells, timeout=self._patience)
            if pending:
                self._patience = SHARED_PATIENCE
            for task in pending:
                farewells[task].stop_listening()
            for task in done:
                task.result()

    async def _wait_for_starts(self, fights: list[RemoteFight], others_play: bool = False) -> None:
        """Waits until these fights have started, or, if starts are deferred, until it is time to go on without them."""
        starts = {fight.preparation for fight in fights if fight.preparation is not None}
        if not starts or not await self._must_defer(starts):
            pass
        elif others_play:
            await asyncio.wait(starts, timeout=0)
        else:
            await self._wait_for_some(starts)
        for start in starts:
            if start.done():
                start.result()

    async def _must_defer(self, starts: set[asyncio.Task[None]]) -> bool:
        """Returns false when all these fights have started, or true when they may need the steps of others for it."""
        defer = self._settings.defer_resets
        if defer is None and len(self.fights) > 1:
            foreign = self._loop.create_task(self._around.fights_wait.wait())
            started = self._loop.create_task(asyncio.wait(starts))
            await asyncio.wait([foreign, started], return_when=asyncio.FIRST_COMPLETED)
            foreign.cancel()
            started.cancel()
            return not started.done()
        if not defer:
            await asyncio.wait(starts)
        return bool(defer)

    async def _wait_for_some(self, starts: set[asyncio.Task[None]]) -> None:
        """Waits for the fights that start in the same tick, and for one at least if there is nothing else to do."""
        await asyncio.wait(starts, timeout=SHARED_PATIENCE)
        while not any(self._may_go_on(fight) for fight in self.fights):
            done, _ = await asyncio.wait(starts, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if done:
                await asyncio.wait(starts, timeout=SHARED_PATIENCE)
                return

    def _may_go_on(self, fight: RemoteFight) -> bool:
        """Whether it is this fight's turn, or, where other worlds share the server, theirs."""
        is_shared = bool(self._settings.defer_resets)
        return (fight.is_ready and not fight.is_over) or (is_shared and fight.waits_for_server)

    async def _shut_down(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        agents = []
        for fight in self.fights:
            mine = fight.take_agents()
            fight.leave()
            for agent in mine:
                agent.hang_up()
            agents += [agent for agent in mine if agent.is_logged_in]
        # One connection for each: a server with a clock answers one log-out per tick and connection.
        await asyncio.gather(*(log_out(self._settings, agent) for agent in agents))
        if self._around.departures:
            await asyncio.wait(self._around.departures, timeout=DEPARTURE_SECONDS)
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=DEPARTURE_SECONDS)
