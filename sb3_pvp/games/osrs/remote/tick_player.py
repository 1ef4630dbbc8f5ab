"""Starts fights, plays the ticks of all ready fights in one step of the world, and answers the agents."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np

from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.remote.agents import Ending, Fight, State, WireAgent
from sb3_pvp.games.osrs.remote.fight_pool import FightPool, ServedWorld
from sb3_pvp.games.osrs.remote.messages import error_reply
from sb3_pvp.games.osrs.remote.replies import ReplyEncoder, Views
from sb3_pvp.games.osrs.remote.wire_errors import ILLEGAL_ARGUMENT, WireRequestError

logger = logging.getLogger(__name__)


class TickPlayer:
    """Starts and plays the fights of one contract, in the order of events of ``protocol.md`` §5.5 and §6.2."""

    def __init__(self, contract: Contract, pool: FightPool) -> None:
        self._pool = pool
        self._encoder = ReplyEncoder(contract)
        self._no_op = [0] * contract.num_heads
        self._has_pid = contract.observation_index("player_has_pid")
        self._target_health = contract.observation_index("target_health_percent")
        #: In NhEnv's vector the target's health may be that of the tick before (protocol.md §6.2).
        self._target_health_is_late = contract.name == "NhEnv"

    def start(self, agents: list[WireAgent]) -> None:
        """Starts a fight of one agent against the bot, or of two against each other.

        One of two is answered at once, the other in the first tick. Raises `WireRequestError` if the world refuses.
        """
        fight = Fight(self._pool.take(), agents)
        slot = fight.slot
        try:
            slot.world.reset([slot.fight], fight.reset_options())
        except Exception as error:
            self._undo_start(fight)
            if not isinstance(error, ValueError):  # A `ValueError` refuses the client's options; others are bugs.
                logger.exception("a fight could not be started")
            raise WireRequestError(ILLEGAL_ARGUMENT, str(error)) from error
        fight.add_waiting_ticks()
        for agent in agents:
            agent.state = State.RESET_COMPLETE
        self._answer_first(fight)

    def _undo_start(self, fight: Fight) -> None:
        for agent in fight.agents:
            agent.fight = None
        self._pool.release(fight.slot)

    def _answer_first(self, fight: Fight) -> None:
        world, index = fight.slot.world, fight.slot.fight
        # Of two agents the one without PID has its turn later in the tick, so that its environment is complete: see
        # protocol.md §5.5.
        seat = 0 if fight.against_bot else int(world.obs[index, 0, self._has_pid] != 0)
        agent = fight.agents[seat]
        agent.state = State.STEPPING
        agent.answer(self._views(world, [agent]).reply(agent.row, agent.wants_target_view))

    def play(self, fights: Iterable[Fight]) -> None:
        """Plays one tick of these fights."""
        by_world: dict[int, list[Fight]] = {}
        for fight in fights:
            by_world.setdefault(id(fight.slot.world), []).append(fight)
        for group in by_world.values():
            try:
                self._play_group(group[0].slot.world, group)
            except Exception as error:  # One broken fight must not end the server.
                logger.exception("a tick of %d fights failed", len(group))
                self._answer_with_error(group, error)

    def _play_group(self, world: ServedWorld, fights: list[Fight]) -> None:
        actions = [fight.actions(self._no_op) for fight in fights]
        world.step(np.array(actions), np.array([fight.slot.fight for fight in fights]))
        views = self._views(world, [agent for fight in fights for agent in fight.agents])
        for fight in fights:
            # Read before the answers: one agent leaves with its terminal reply, which is no loss for the other one.
            target_left = fight.target_left
            for agent in fight.agents:
                self._answer(fight, agent, views, target_left)

    def _views(self, world: ServedWorld, agents: Iterable[WireAgent]) -> Views:
        """Encodes the views of these agents, and of opponents whose view is part of their replies."""
        rows = {agent.row: agent.wants_target_view for agent in agents}
        watched = [row ^ 1 for row, is_watching in rows.items() if is_watching]
        return self._encoder.views(world, list(rows), [row for row in watched if row not in rows])

    def _answer_with_error(self, fights: list[Fight], error: Exception) -> None:
        for agent in [agent for fight in fights for agent in fight.agents]:
            agent.answer(error_reply(WireRequestError("RuntimeException", str(error))))

    def _answer(self, fight: Fight, agent: WireAgent, views: Views, target_left: bool) -> None:
        if target_left and agent.state is State.STEPPING:
            agent.state = State.TERMINAL
            agent.ending = Ending(Outcome.TARGET_LOST.name, views.obs[agent.row])
        if agent.ending is None:
            self._answer_running(fight, agent, views)
        elif agent.message is not None:
            self._answer_terminal(fight, agent, views, agent.ending)

    def _answer_terminal(self, fight: Fight, agent: WireAgent, views: Views, ending: Ending) -> None:
        line = views.reply(agent.row, agent.wants_target_view, ending.obs, ending.outcome)
        self.leave(agent)  # After encoding the line, since it may release the fight.
        agent.answer(line)

    def _answer_running(self, fight: Fight, agent: WireAgent, views: Views) -> None:
        agent.state = State.STEPPING
        own_obs = None
        outcome = int(fight.slot.world.outcome[fight.slot.fight, agent.seat])
        if outcome != Outcome.RUNNING:
            agent.state = State.TERMINAL
            agent.ending = Ending(Outcome(outcome).name, views.obs[agent.row])
            own_obs = self._refreshed_obs(fight, agent.seat) if self._target_health_is_late else None
        error = agent.message.error if agent.message is not None else None
        if error is not None:
            agent.answer(error_reply(error))
        else:
            agent.answer(views.reply(agent.row, agent.wants_target_view, own_obs))

    def _refreshed_obs(self, fight: Fight, seat: int) -> bytes:
        """Returns the observation (JSON text) of the tick that decides a fight. The reference server builds the vector
        twice then, so that the target's health is not one vector late (disagreements.md §2)."""
        world, index = fight.slot.world, fight.slot.fight
        obs = world.obs[index, seat].copy()
        obs[self._target_health] = world.state[index, seat]["target_hp"]
        return self._encoder.observation(obs)

    def leave(self, agent: WireAgent) -> None:
        """Removes the agent from its fight, if it is in one."""
        agent.state = State.PENDING
        fight = agent.fight
        if fight is not None:
            fight.remove(agent)
            if not fight.agents:
                self._pool.release(fight.slot)
