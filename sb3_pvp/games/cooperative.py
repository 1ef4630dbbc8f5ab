"""Small games for a team alone, as instruments: who dies for its team must still learn that this was good.

The team has the first seat. The other one is empty: one legal action, zeros to see, and no reward. A game is
``sb3_pvp.games.cooperative:GATE`` or ``:KEY_SACRIFICE`` wherever a game is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sb3_pvp.common.arguments import read_model
from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld, OutcomeRewards
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.game.world import Transition

AGENTS = 3
#: Moves in `KeySacrificeWorld`, by their number: along x and y.
MOVES = {"stay": (0, 0), "left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1)}
SIZE = 4  #: Cells of a side of its board.


#: Fields of the report of a world for `TeamRewards`.
TEAM_REPORT = (("reward", np.float32),)


class TeamRewards(OutcomeRewards):
    """What the game itself rewards: the field ``reward`` of the report, times a weight."""

    terms: ClassVar[Mapping[str, str]] = {"team": "The sum of what the game gives to the agents of the team."}
    tags: ClassVar[Mapping[str, str]] = {"team_weight": "team"}

    def __init__(self) -> None:
        self._defaults = {"team": 1.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the term, float32 ``(1, N)``."""
        return weights * transition.report["reward"]


def team_contract(
    name: str, moves: Mapping[str, Sequence[Iterable[Any]]], seen: Mapping[str, Sequence[str]], shared: bool = True
) -> Contract:
    """Returns the contract of a team alone.

    Args:
        name: of the contract.
        moves: for each agent its heads, by what they choose between.
        seen: for each agent what it sees; behind that comes whether it is ``active``.
        shared: whether one policy can play all agents.
    """
    heads, observations, agents = [], [], []
    for agent, its_heads in moves.items():
        begins = len(observations), len(heads)
        for number, choices in enumerate(its_heads):
            head = agent if len(its_heads) == 1 else f"{agent}_{number}"
            actions = [SubAction(f"{head}_{choice}", f"{agent}: {choice}.") for choice in choices]
            heads.append(Head(f"{head}_head", f"What {agent} does.", tuple(actions)))
        observations += [Observation(f"{agent}_{each}", f"{agent}: {each}.") for each in (*seen[agent], "active")]
        ranges = (begins[0], len(observations)), (begins[1], len(heads))
        agents.append(Agent(agent, *ranges, active=f"{agent}_active", seats=(0,)))
    return Contract(name, tuple(heads), tuple(observations), tuple(agents), shared_weights=shared)


class NoParams(BaseModel):
    """These games have no reset parameters."""

    model_config = ConfigDict(extra="forbid")


class TeamWorld(ArrayWorld):
    """F matches of equal agents, each with one head. Subclasses implement `place`, `see` and `act`.

    Attributes:
        alive: which agents are in the game ``(F, K)``.
    """

    def __init__(self, contract: Contract, num_fights: int, seed: int) -> None:
        super().__init__(contract, num_fights, seed, TEAM_REPORT)
        self.alive = np.zeros((num_fights, len(contract.agents)), np.bool_)
        self._first = np.isin(np.arange(contract.num_flat_actions), contract.head_offsets)

    def place(self, fight: int) -> None:
        """Sets up a match."""

    def see(self, fight: int) -> NDArray[Any]:
        """Returns what each agent sees, but for whether it is in the game ``(K, numbers)``."""
        raise NotImplementedError

    def act(self, fight: int, actions: NDArray[np.int64]) -> tuple[float, bool]:
        """Plays the choices of the agents in the game ``(K,)``; returns the reward, and whether the team has won."""
        raise NotImplementedError

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Starts a match with all agents."""
        read_model(NoParams, options.get("reset_params", {}), "reset parameter")
        self.alive[fight], self.report[fight] = True, 0
        self.obs[fight], self.masks[fight] = 0.0, self._first
        self.place(fight)
        self._show(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays a tick; a match is lost when nobody is left, or its time is up."""
        reward, won = self.act(fight, np.where(self.alive[fight], actions[0], 0))
        self.report["reward"][fight, 0] = reward
        if won or not self.alive[fight].any():
            self.end(fight, won, not won)
        self._show(fight)

    def _show(self, fight: int) -> None:
        alive = self.alive[fight][:, None]
        self.obs[fight, 0] = (np.concatenate([self.see(fight), alive], axis=1) * alive).ravel()
        self.masks[fight, 0] = (alive | self._first.reshape(len(alive), -1)).ravel()


class GateWorld(TeamWorld):
    """Five decisions: wait, press, or exit. Whoever presses dies at a price of 0.2, and the gate is open for a tick.

    If anybody exits then, the team gets 1 and has won.
    """

    decisions = 5

    def __init__(self, contract: Contract, num_fights: int, seed: int) -> None:
        super().__init__(contract, num_fights, seed)
        self.open = np.zeros(num_fights, np.bool_)

    def place(self, fight: int) -> None:
        """Shuts the gate."""
        self.open[fight] = False

    def see(self, fight: int) -> NDArray[Any]:
        """Whether the gate is open, and the share of the time that has passed."""
        return np.tile([self.open[fight], self.ticks[fight] / self.decisions], (AGENTS, 1))

    def act(self, fight: int, actions: NDArray[np.int64]) -> tuple[float, bool]:
        """Lets agents press and exit at the same time; after the last decision the match is lost."""
        presses, won = actions == 1, bool(self.open[fight] and (actions == 2).any())
        self.alive[fight] &= ~presses & (won or self.ticks[fight] < self.decisions)
        self.open[fight] = presses.any()
        return won - 0.2 * presses.sum(), won


class KeySacrificeWorld(TeamWorld):
    """A board of 4 x 4 cells: who steps on the dragon dies with it, and a mate takes its key to the door.

    Then the team gets 1 and has won. All move at the same time, and cells have room for all.
    """

    def __init__(self, contract: Contract, num_fights: int, seed: int) -> None:
        super().__init__(contract, num_fights, seed)
        #: Cells of the agents, the dragon (later the key) and the door.
        self.cells = np.zeros((num_fights, AGENTS + 2, 2), np.int64)
        self.dragon = np.zeros(num_fights, np.bool_)
        self.keeper = np.full(num_fights, -1)  #: Who has the key; -1: nobody.

    def place(self, fight: int) -> None:
        """Puts everything on cells of its own."""
        places = self.random[fight].permutation(SIZE * SIZE)[: AGENTS + 2]
        self.cells[fight] = np.stack(np.divmod(places, SIZE), axis=1)
        self.dragon[fight], self.keeper[fight] = True, -1

    def see(self, fight: int) -> NDArray[Any]:
        """Its own cell, where all else is from there, who is alive, and what has become of dragon and key."""
        cells, own = self.cells[fight], self.cells[fight, :AGENTS]
        away = (cells - own[:, None]) / (SIZE - 1)
        # The mates from the next one on, so that all agents see alike.
        turns = (np.arange(AGENTS)[:, None] + np.arange(1, AGENTS)) % AGENTS
        mates = away[np.arange(AGENTS)[:, None], turns] * self.alive[fight][turns][..., None]
        carries, keeper = self.keeper[fight] == np.arange(AGENTS), self.keeper[fight] >= 0
        parts = (own / (SIZE - 1), mates, self.alive[fight][turns], away[:, AGENTS:], carries)
        state = np.tile([self.dragon[fight], keeper], (AGENTS, 1))
        return np.concatenate([*(each.reshape(AGENTS, -1) for each in parts), state], axis=1)

    def act(self, fight: int, actions: NDArray[np.int64]) -> tuple[float, bool]:
        """Moves everybody, then settles who dies, who has the key, and whether it is at the door."""
        alive, cells = self.alive[fight], self.cells[fight]
        agents, thing, door = cells[:AGENTS], cells[AGENTS], cells[AGENTS + 1]
        agents[:] = np.clip(agents + np.array(list(MOVES.values()))[actions], 0, SIZE - 1)
        there = np.flatnonzero((agents == thing).all(axis=1) & alive)
        if self.dragon[fight] and there.size:
            alive[there], self.dragon[fight] = False, False
        elif self.keeper[fight] < 0 and there.size:
            self.keeper[fight] = there[0]
        if (keeper := self.keeper[fight]) >= 0:
            thing[:] = agents[keeper]
        won = bool(keeper >= 0 and (thing == door).all())
        return float(won), won


class TeamGame(Game):
    """A game for a team alone."""

    rewards, params = TeamRewards(), NoParams

    def __init__(self, contract: Contract, world: Callable[[Contract, int, int], TeamWorld], ticks: int) -> None:
        self.name, self.contract, self._world, self.max_episode_ticks = contract.name, contract, world, ticks

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> TeamWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        return self._world(self.contract, num_fights, seed)


def _equal(name: str, moves: Sequence[str], seen: Sequence[str]) -> Contract:
    agents = [f"agent{number}" for number in range(AGENTS)]
    return team_contract(name, {agent: [moves] for agent in agents}, dict.fromkeys(agents, seen))


_XY = "x", "y"
_MATES = [f"mate{number}_{axis}" for number in range(AGENTS - 1) for axis in _XY]
_LIVES = [f"mate{number}_lives" for number in range(AGENTS - 1)]
_THINGS = [f"{thing}_{axis}" for thing in ("dragon_or_key", "door") for axis in _XY]

GATE = TeamGame(_equal("Gate-v0", ("wait", "press", "exit"), ("open", "time")), GateWorld, 2 * GateWorld.decisions)
KEY_SACRIFICE = TeamGame(
    _equal(
        "KeySacrifice-v0",
        list(MOVES),
        [*_XY, *_MATES, *_LIVES, *_THINGS, "has_key", "dragon_lives", "somebody_has_key"],
    ),
    KeySacrificeWorld,
    50,
)
