"""A fight between two agents, or of one agent against the world's own bot."""

from __future__ import annotations

from typing import Any

from sb3_pvp.game import NUM_SEATS
from sb3_pvp.games.osrs.remote.agents import Agent, State
from sb3_pvp.games.osrs.remote.fight_pool import Slot
from sb3_pvp.games.osrs.remote.reset_request import BASELINE


class Fight:
    """The agents on the seats of one fight. A seat is empty when its agent has left, or when the world plays it."""

    def __init__(self, slot: Slot, agents: list[Agent]) -> None:
        self.slot = slot
        self.against_bot = len(agents) == 1
        self.seats: list[Agent | None] = [*agents, None][:2]
        #: The agents that are still in the fight; a new list whenever one leaves.
        self.agents = agents
        self._episode_ticks = slot.world.report["episode_ticks"][slot.fight]
        for seat, agent in enumerate(agents):
            agent.fight, agent.seat, agent.ending = self, seat, None
            agent.row = slot.fight * NUM_SEATS + seat

    @property
    def target_left(self) -> bool:
        """Whether one of two agents has left."""
        return not self.against_bot and None in self.seats

    def is_ready(self) -> bool:
        """Whether the next tick can be played: all agents that have not left have sent a message."""
        for agent in self.agents:
            if agent.message is None:
                return False
        return bool(self.agents)

    def target_is_loaded(self, agent: Agent) -> bool:
        """Whether the agent's opponent is in the world."""
        return self.against_bot or self.seats[1 - agent.seat] is not None

    def episode_ticks(self, agent: Agent) -> int:
        """Returns the ticks since the agent's episode began."""
        return int(self._episode_ticks[agent.seat])

    def add_waiting_ticks(self) -> None:
        """Adds the ticks in which an agent waited for its opponent to its episode; call it after the world's reset."""
        for agent in self.agents:
            seat = self.slot.fight, agent.seat
            if agent.counts.waited:
                # The counter, and the report that the reset has made of it.
                self.slot.world.state["ticks"][seat] += agent.counts.waited
                self.slot.world.report["episode_ticks"][seat] += agent.counts.waited

    def remove(self, agent: Agent) -> None:
        """Removes an agent, and stores on it what its login keeps."""
        agent.login = self.slot.world.login(self.slot.fight, agent.seat)
        agent.fight = agent.ending = None
        self.seats[agent.seat] = None
        # A new list: `TickPlayer` may be iterating over the old one.
        self.agents = [other for other in self.agents if other is not agent]

    def actions(self, no_op: list[int]) -> list[list[int]]:
        """Returns the joint action of each seat; once the fight is decided, actions are ignored (protocol.md §6.2)."""
        return [no_op if agent is None else self._playable_action(agent) or no_op for agent in self.seats]

    def _playable_action(self, agent: Agent) -> list[int] | None:
        # Another state: the reset of a late agent, or the step after the end, whose action has no effect.
        if agent.state is not State.STEPPING or self.target_left or agent.message is None:
            return None
        return agent.message.actions

    def reset_options(self) -> dict[str, Any]:
        """Returns the options of the world's reset, from the requests of the agents."""
        requests = [agent.request for agent in self.agents if agent.request is not None]
        params = [request.reset_params for request in requests]
        logins = [agent.login for agent in self.agents]
        return {
            "seat_reset_params": (params[0], params[-1]),
            "bots": (None, BASELINE if self.against_bot else None),
            # The agent that completes a pair chooses the tiles of both (protocol.md §5.4).
            "training": requests[-1].training,
            "death_match": all(request.death_match for request in requests),
            "maintain_target_environment": any(request.maintain_target_environment for request in requests),
            "logins": (logins[0], None if self.against_bot else logins[1]),
        }
