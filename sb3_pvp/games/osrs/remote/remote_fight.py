"""One fight on a server: an agent of ours against a bot or player of the server, or two agents of ours.

The reset of one agent of a pair may be answered a tick before the other's, and a synchronous world then waits for a
step of the first agent (``protocol.md`` §5.5). So a fight is ready with the first reply, which shows both sides. In the
first tick only that agent acts; the late reply to the other reset shows the state after this tick.

A synchronous world plays no tick before every agent has sent a message, and answers agent by agent. So an agent may be
answered, and waited for, while the steps of others are still under way. `RemoteFight.send_filler_steps` then sends a
*filler step* for it, a step without an action.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import NUM_SEATS, DesyncReason, Outcome
from sb3_pvp.games.osrs.remote.address import FRESH
from sb3_pvp.games.osrs.remote.client_errors import HungUp, Lost, NoServer, Refused, RemoteError, Silent
from sb3_pvp.games.osrs.remote.client_replies import POSITION, FightReply, View, mirrored_meta, uneventful_meta
from sb3_pvp.games.osrs.remote.client_requests import Reset
from sb3_pvp.games.osrs.remote.fight_setup import FightOptions, SharedState
from sb3_pvp.games.osrs.remote.remote_agent import RemoteAgent, retry_pause

logger = logging.getLogger(__name__)

#: Seconds without any reply after which the world is assumed to wait for silent agents.
QUIET_SECONDS = 0.05

_T = TypeVar("_T")
#: Selects the values of a record that decide a fight.
_DECISIVE = itemgetter(
    *map(
        POSITION.__getitem__,
        ("current_health_percent", "current_target_health_percent", "food_count", "target_food_count"),
    )
)
_OTHER_SIDE = {Outcome.WON: Outcome.LOST, Outcome.LOST: Outcome.WON}


class RemoteFight:
    """Two seats and their agents.

    Attributes:
        views: what each seat sees.
        outcomes: outcome of each seat.
        reason: why the fight broke off.
        agents: one for each of our seats; empty before the first start and after `leave`.
        is_ready: whether the fight has started.
        preparation: the task that starts the fight, until `leave`.
    """

    def __init__(self, index: int, shared: SharedState) -> None:
        self._index = index
        self._shared = shared
        self._random = random.Random()
        self._used_first_ids = False
        self._options = FightOptions()
        self._resets: list[asyncio.Task[FightReply]] = []
        self._late_seat: int | None = None
        #: By seat: steps without an action, sent because the world waited for them.
        self._filler_steps: dict[int, asyncio.Task[FightReply]] = {}
        #: A tick that may end with the next call, and the signal for that, see `postpone_first_tick`.
        self._unfinished_tick: asyncio.Task[dict[int, FightReply]] | None = None
        self._postponed: asyncio.Future[None] | None = None
        self._final_step: asyncio.Task[None] | None = None
        self._ignored_final_step: asyncio.Task[None] | None = None
        self._last_step: float | None = None
        self.preparation: asyncio.Task[None] | None = None
        self.agents: list[RemoteAgent] = []
        self.is_ready = False
        self.reason = DesyncReason.NONE
        self.outcomes = [Outcome.RUNNING] * NUM_SEATS
        self.views = [self._blank_view()] * NUM_SEATS

    def seed(self, seed: int) -> None:
        """Seeds the client's random numbers, the ids of episodes; a server has its own random numbers."""
        self._random.seed(seed)

    def begin(self, options: FightOptions) -> None:
        """Starts a new fight in the background: `preparation` ends when it is ready, or with a `RemoteError`."""
        previous = self.preparation
        if any(not task.done() for task in (*self._resets, previous) if task is not None):
            self.leave()  # A request may still be unanswered, so these agents cannot be used for another one.
        if self._shared.settings.logins == FRESH:
            self.leave()
        self.ignore_final_step()
        self._options = options
        self.is_ready = False
        self.reason = DesyncReason.NONE
        self.outcomes = [Outcome.RUNNING] * NUM_SEATS
        self.views = [self._blank_view()] * NUM_SEATS
        self.preparation = _background_task(self._prepare(previous))

    async def tick(self, choices: NDArray[np.int64], in_lock_step: bool = False) -> None:
        """Plays a tick of joint actions ``(2, heads)``; a failure ends the fight and sets `outcomes`. In lock-step with
        other worlds, `postpone_first_tick` is possible."""
        if self._is_too_late():
            self._break_off(Outcome.DESYNC, "the steps came too late", DesyncReason.TIME)
            return
        # Filler steps that were answered since the last call have played a tick, which may have ended the fight.
        await self.take_filler_replies(0.0)
        if self.is_over:
            return
        if not in_lock_step:
            await self._finish_tick(self._exchange(choices))
            return
        # A postponed tick is finished first; the new choices are dropped then.
        pending = self._unfinished_tick = self._unfinished_tick or _background_task(self._exchange(choices))
        self._postponed = asyncio.get_running_loop().create_future()
        either: list[asyncio.Future[Any]] = [pending, self._postponed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if pending.done():
            self._unfinished_tick = None
            if not pending.cancelled():  # By `leave`.
                await self._finish_tick(pending)

    def postpone_first_tick(self) -> None:
        """Lets the first tick of a fight end with the next call, when no replies come."""
        # If the fight has started while other worlds of a lock-step were stepped, the server waits for their next
        # steps, and the learner, which would send these, for the end of this tick.
        if (
            self._postponed is not None
            and not self._postponed.done()
            and all(agent.is_at_start for agent in self.agents)
        ):
            self._postponed.set_result(None)

    @property
    def is_over(self) -> bool:
        """Whether the fight has an outcome."""
        return self.outcomes[0] is not Outcome.RUNNING

    @property
    def final_step(self) -> asyncio.Task[None] | None:
        """The step whose reply confirms or corrects a predicted outcome, while it is under way and not ignored."""
        return None if self._final_step is None or self._final_step.done() else self._final_step

    @property
    def any_final_step(self) -> asyncio.Task[None] | None:
        """The same step, also if its reply is ignored."""
        return self.final_step or self._ignored_final_step

    def ignore_final_step(self) -> None:
        """Keeps the predicted outcome, whatever the server replies."""
        if self._final_step is not None:
            self._ignored_final_step, self._final_step = self._final_step, None

    @property
    def waits_for_server(self) -> bool:
        """Whether all agents have sent their log-ins, so that only replies are missing."""
        return bool(self.agents) and all(agent.is_logged_in for agent in self.agents)

    def abandon(self, fault: str) -> bool:
        """Logs out the agents of a fight that is not played any more, and returns whether it broke off: it does so
        unless it is over or was never started."""
        begun = self.preparation is not None or bool(self.agents)
        if begun and not self.is_over:
            self._end_broken(Outcome.DESYNC, fault, DesyncReason.IDLE)
            return True
        self.leave()
        return False

    @property
    def is_starting(self) -> bool:
        """Whether a start of the fight is under way."""
        return self.preparation is not None and not self.preparation.done()

    def leave(self) -> None:
        """Gives up the fight: cancels its tasks, and logs its agents out in the background."""
        others = (self.preparation, self._final_step, self._ignored_final_step, self._unfinished_tick)
        for task in (*self._resets, *self._filler_steps.values(), *others):
            # One of these tasks may be the caller, e.g. a filler step that has failed.
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._resets, self.preparation, self._final_step, self._ignored_final_step = [], None, None, None
        self._filler_steps, self._unfinished_tick = {}, None
        self.is_ready = False
        for agent in self.hand_over_agents():
            logout = _background_task(agent.leave())
            self._shared.pending_logouts.add(logout)
            logout.add_done_callback(self._shared.pending_logouts.discard)

    def hand_over_agents(self) -> list[RemoteAgent]:
        """Returns the agents and forgets them; the caller logs them out."""
        agents, self.agents = self.agents, []
        return agents

    def _blank_view(self) -> View:
        """Returns the view before a start: zeros, and masks that allow only the first choice of each head."""
        contract = self._shared.contract
        masks = np.zeros(contract.num_flat_actions, np.bool_)
        masks[np.cumsum([0, *contract.head_sizes[:-1]])] = True
        return View(np.zeros(contract.num_observations, np.float32), masks, uneventful_meta())

    # Starting

    async def _prepare(self, previous: asyncio.Task[None] | None) -> None:
        # The agents may be used again, and each may have only one unanswered request.
        for task in (previous, self._ignored_final_step):
            if task is not None:
                await asyncio.wait([task])
        self._ignored_final_step = None
        failures: list[RemoteError] = []
        # Only failures on a reachable server count as attempts; `server_unreachable` limits the rest by time.
        for pauses in itertools.count():
            try:
                await self._start()
                return
            except NoServer as error:
                self.log_out_agents()
                self._shared.server_unreachable(error)
            except (Lost, Refused) as error:
                self.log_out_agents()
                failures.append(error)
                self._raise_if_out_of_attempts(failures)
                logger.info("fight %d: %s; attempt %d follows", self._index, error, len(failures) + 1)
            await retry_pause(self._shared.settings, pauses)

    def _raise_if_out_of_attempts(self, failures: Sequence[RemoteError]) -> None:
        """Raises a `RemoteError` with the last failure, and a hint where it may help, if no attempt is left."""
        if len(failures) < self._shared.settings.attempts:
            return
        error, hint = failures[-1], ""
        if isinstance(error, Silent):
            hint = (
                "; a synchronous server starts no fight before all its agents have sent a step: "
                "if several environments share it, add ?defer_resets=true to the address"
            )
        raise RemoteError(f"no fight could be started in {len(failures)} attempts: {error}{hint}") from error

    def log_out_agents(self) -> None:
        """Logs the agents out as `leave` does, but keeps `preparation`, which continues with new agents."""
        preparation, self.preparation = self.preparation, None
        self.leave()
        self.preparation = preparation

    async def _start(self) -> None:
        count = 1 if self._options.against_world else NUM_SEATS
        if len(self.agents) != count:
            # New ids, too: a server may refuse one that has fought another kind of target (protocol-observed.md,
            # surprise 10).
            self.log_out_agents()
            self.agents = [self._new_agent(seat) for seat in range(count)]
            self._used_first_ids = True
        self._resets = [_background_task(agent.reset(self._make_reset(seat))) for seat, agent in enumerate(self.agents)]
        # Waiting for both would deadlock: one reset may be answered only after the other agent has stepped
        # (protocol-observed.md, surprise 2).
        await asyncio.wait(self._resets, return_when=asyncio.FIRST_COMPLETED)
        done = [seat for seat, start in enumerate(self._resets) if start.done()]
        replies = {seat: self._resets[seat].result() for seat in done}
        self._late_seat = None if len(replies) == count else 1 - done[0]
        self._last_step = None  # The time between two fights does not count as too late.
        self._update_views(replies)
        self.is_ready = True

    def _new_agent(self, seat: int) -> RemoteAgent:
        ids = self._shared.ids
        agent_id = ids.fresh() if self._used_first_ids else ids.first(self._index, seat)
        return RemoteAgent(agent_id, self._shared)

    def _make_reset(self, seat: int) -> Reset:
        options = self._options
        target = self._shared.settings.target if options.against_world else self.agents[1 - seat].id
        return Reset(
            target,
            {
                "agent": self.agents[seat].id,
                "target": target,
                "episodeId": str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
                **options.seat_reset_params[seat],
            },
            options.training,
            options.maintain_target_environment,
            options.death_match,
        )

    # Playing

    def send_filler_steps(self) -> bool:
        """Sends steps without an action for agents that the world may be waiting for: those that were answered and have
        not stepped in this call. Returns whether there are any. Their replies are taken by `take_filler_replies` or by
        the next tick."""
        seats = [
            seat
            for seat, (agent, start) in enumerate(zip(self.agents, self._resets, strict=False))
            if start.done() and agent.owes_message and agent.last_world_step != self._shared.num_world_steps
        ]
        if not seats or not self.is_ready or self.is_over:
            return False
        for seat in seats:
            self._filler_steps[seat] = _background_task(self._filler_step(seat))
        return True

    async def _filler_step(self, seat: int) -> FightReply:
        """Steps without an action. If that fails before the reply is waited for, the fight breaks off at once: the
        world may be waiting for this agent."""
        try:
            return await self.agents[seat].step([0] * self._shared.contract.num_heads)
        except RemoteError as error:
            if self._filler_steps.get(seat) is asyncio.current_task():
                self._end_broken(Outcome.DESYNC, str(error), _desync_reason(error))
                self._shared.broken_off.add(self._index)
            raise

    async def take_filler_replies(self, timeout: float = QUIET_SECONDS) -> None:
        """Takes the replies to filler steps if all come within ``timeout`` seconds; else the next tick takes them."""
        filler_steps = self._filler_steps
        if not filler_steps:
            return
        unanswered = [
            *self._filler_steps.values(),
            *(self._resets[self._late_seat : self._late_seat + 1] if self._late_seat is not None else ()),
        ]
        done, _ = await asyncio.wait(unanswered, timeout=timeout)
        # Not if the fight broke off meanwhile, or another call has taken the replies: both replace the dictionary.
        if self._filler_steps is filler_steps and len(done) == len(unanswered):
            await self._finish_tick(self._filler_replies())

    async def _filler_replies(self) -> dict[int, FightReply]:
        replies = {seat: filler.result() for seat, filler in self._filler_steps.items()}
        if self._late_seat is not None:
            replies[self._late_seat] = self._resets[self._late_seat].result()
        self._filler_steps, self._late_seat = {}, None
        return replies

    async def _finish_tick(self, exchange: Awaitable[dict[int, FightReply]]) -> None:
        """Applies the replies of a tick, or breaks the fight off if there are none."""
        try:
            replies = await exchange
        except RemoteError as error:
            self._break_off(Outcome.DESYNC, str(error), _desync_reason(error))
            return
        self._apply_replies(replies)
        if not self.is_over:
            self._predict_outcome()

    def _is_too_late(self) -> bool:
        now, before = time.monotonic(), self._last_step
        self._last_step = now
        tolerance = self._shared.settings.desync_tolerance_seconds
        return tolerance > 0 and before is not None and now - before >= tolerance

    async def _exchange(self, choices: NDArray[np.int64]) -> dict[int, FightReply]:
        if self._late_seat is not None:
            return await self._first_exchange(choices)
        if len(self.agents) == 1:
            return {0: await self._step(0, choices)}
        steps = [self._step(seat, choices) for seat in range(NUM_SEATS)]
        return dict(enumerate(await asyncio.gather(*steps)))

    async def _first_exchange(self, choices: NDArray[np.int64]) -> dict[int, FightReply]:
        """Plays the first tick of a pair, in which the reset of the late seat is answered."""
        assert self._late_seat is not None
        late, early, self._late_seat = self._late_seat, 1 - self._late_seat, None
        start = self._resets[late]
        if start.done():
            start.result()  # Raises its error.
            return await self._exchange(choices)
        replies = {early: await self._step(early, choices), late: await start}
        # A filler step was sent if both resets were completed in the same tick: the world waited for both seats.
        filler = self._filler_steps.pop(late, None)
        if filler is not None:
            await asyncio.wait([filler], timeout=QUIET_SECONDS)
            if filler.done():
                replies[late] = filler.result()
            else:
                self._filler_steps[late] = filler
        return replies

    def _step(self, seat: int, choices: NDArray[np.int64]) -> Awaitable[FightReply]:
        filler = self._filler_steps.pop(seat, None)
        # An agent may have only one unanswered message, so a filler step under way replaces this one.
        if filler is not None and not filler.done():
            return filler
        return self.agents[seat].step(choices[seat].tolist())

    def _update_views(self, replies: Mapping[int, FightReply]) -> None:
        """Updates the views of both seats; that of a seat without a reply is taken from the other seat's reply."""
        for seat in range(NUM_SEATS):
            if seat in replies:
                self.views[seat] = replies[seat].own
            elif 1 - seat in replies:
                self.views[seat] = replies[1 - seat].target or self._unknown_view(replies[1 - seat])

    def _unknown_view(self, reply: FightReply) -> View:
        # The server sends no `targetObs`: only some facts of the opponent's side are known.
        blank = self._blank_view()
        return View(blank.obs, blank.masks, mirrored_meta(reply.own.meta))

    def _apply_replies(self, replies: dict[int, FightReply]) -> None:
        outcomes = {seat: reply.outcome for seat, reply in replies.items()}
        if Outcome.TARGET_LOST in outcomes.values() or Outcome.DESYNC in outcomes.values():
            self._break_off(Outcome.TARGET_LOST, "the opponent is gone")
        elif max(agent.extra_ticks for agent in self.agents) > self._shared.settings.desync_tick_threshold:
            self._break_off(Outcome.DESYNC, "the world played ticks without our steps", DesyncReason.TICK)
        else:
            self._update_views(replies)
            self._set_outcomes(outcomes)

    def _set_outcomes(self, outcomes: Mapping[int, Outcome]) -> None:
        """Sets the outcomes of both seats if there is any; a seat without one gets the counterpart of the other's."""
        if any(outcome is not Outcome.RUNNING for outcome in outcomes.values()):
            for seat in range(NUM_SEATS):
                outcome = outcomes.get(seat, Outcome.RUNNING)
                if outcome is Outcome.RUNNING:
                    reported = outcomes[1 - seat]
                    outcome = _OTHER_SIDE.get(reported, reported)
                self.outcomes[seat] = outcome

    # Ending

    def _predict_outcome(self) -> None:
        """Ends the fight in the tick that decides it. The server reports the outcome only in the reply to one more
        step, whose action has no effect (protocol.md §6.2 and §6.3)."""
        decided = [self._predicted_outcome(view) for view in self.views[: len(self.agents)]]
        if any(outcome is not Outcome.RUNNING for outcome in decided):
            self._set_outcomes(dict(enumerate(decided)))
            self._final_step = _background_task(self._play_final_step())

    def _predicted_outcome(self, view: View) -> Outcome:
        # In the server's order: if both die, both have won (protocol.md §6.3).
        health, target_health, food, target_food = _DECISIVE(view.meta)
        if target_health <= 0:
            return Outcome.WON
        if health <= 0:
            return Outcome.LOST
        if not self._options.death_match and min(food, target_food) == 0:
            return Outcome.TIED
        return Outcome.RUNNING

    async def _play_final_step(self) -> None:
        # `_final_step` is another task, or none, as soon as this one is ignored.
        no_op = np.zeros((NUM_SEATS, self._shared.contract.num_heads), np.int64)
        predicted = list(self.outcomes)
        try:
            replies = await self._exchange(no_op)
        except RemoteError as error:
            if self._final_step is asyncio.current_task():
                self._break_off(Outcome.DESYNC, str(error), _desync_reason(error))
            else:
                # At once: the start of another fight may have to wait for this agent in a synchronous world.
                self.log_out_agents()
            return
        if self._final_step is not asyncio.current_task():
            return
        reported = {seat: reply.outcome for seat, reply in replies.items()}
        if all(outcome is Outcome.RUNNING for outcome in reported.values()):
            logger.warning("fight %d continued although the health of a fighter was 0", self._index)
            self.outcomes = [Outcome.RUNNING] * NUM_SEATS
            self._apply_replies(replies)
        elif Outcome.TARGET_LOST in reported.values():
            self._break_off(Outcome.TARGET_LOST, "the opponent is gone")
        else:
            self._set_outcomes(reported)
        if self.outcomes != predicted:
            logger.info("fight %d: predicted %s, the server reports %s", self._index, predicted, self.outcomes)

    def _break_off(self, outcome: Outcome, fault: str, reason: DesyncReason = DesyncReason.NONE) -> None:
        """Ends the fight as broken; raises `RemoteError` if ``truncate_on_desync`` is false."""
        self._end_broken(outcome, fault, reason)
        if not self._shared.settings.truncate_on_desync:
            raise RemoteError(f"a fight broke off: {fault}")

    def _end_broken(self, outcome: Outcome, fault: str, reason: DesyncReason) -> None:
        """Ends the fight without a winner and without rewards for the tick (rewards.md §5)."""
        logger.warning("fight %d broke off: %s", self._index, fault)
        self.outcomes = [outcome] * NUM_SEATS
        self.reason = reason
        self.views = [
            View(view.obs, view.masks, uneventful_meta(view.meta[POSITION["episode_ticks"]])) for view in self.views
        ]
        self.leave()


def _desync_reason(error: RemoteError) -> DesyncReason:
    if isinstance(error, HungUp):
        return DesyncReason.CONNECTION
    # The error of a server with a clock after missed ticks (protocol.md §6.5).
    return DesyncReason.TICK if "Too many ticks since last step" in str(error) else DesyncReason.NONE


def _background_task(work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
    """Runs a coroutine in the background. Its error is raised where the result is read, or else dropped."""
    task = asyncio.get_running_loop().create_task(work)
    # Reads the error once: asyncio would log that of a task whose result is never read.
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return task
