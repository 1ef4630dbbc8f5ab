"""KeySacrifice: a game for three agents alone, one of whom must die for the team to win.

Whoever steps on the dragon dies with it, and a mate takes its key to the door: an algorithm must credit the dead with
that. It is ``sb3_pvp.games.key_sacrifice:KeySacrifice`` wherever a game is expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld, NoParams
from sb3_pvp.games.team_alone import TEAM_REPORT, TeamRewards, team_contract

AGENTS, SIZE = 3, 4  #: Cells of a side of the board.
#: What an agent may do: along x and y.
MOVES = {"stay": (0, 0), "left": (-1, 0), "right": (1, 0), "down": (0, -1), "up": (0, 1)}
_NAMES = [f"agent{number}" for number in range(AGENTS)]
_SEEN = [
    *(f"{thing}_{axis}" for thing in ("own", "mate0", "mate1", "dragon_or_key", "door") for axis in "xy"),
    *("mate0_lives", "mate1_lives", "has_key", "somebody_has_key", "dragon_lives"),
]
CONTRACT = team_contract("key_sacrifice", {name: [MOVES] for name in _NAMES}, dict.fromkeys(_NAMES, _SEEN))
#: The mates of each agent, from the next one on, so that all agents see alike.
_MATES = (np.arange(AGENTS)[:, None] + np.arange(1, AGENTS)) % AGENTS
_STEPS, _FIRST = np.array(list(MOVES.values())), np.eye(len(MOVES), dtype=bool)[0]


class KeySacrificeWorld(ArrayWorld):
    """F matches on boards of 4 x 4 cells. All move at the same time, and cells have room for all.

    Attributes:
        alive: which agents are in the game ``(F, 3)``.
        cells: x and y of the agents, of the dragon, later the key, and of the door ``(F, 5, 2)``.
        dragon: whether it lives ``(F,)``.
        keeper: which agent has the key, or -1 ``(F,)``.
    """

    params_model = NoParams

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed, TEAM_REPORT)
        self.alive = np.zeros((num_fights, AGENTS), np.bool_)
        self.cells = np.zeros((num_fights, AGENTS + 2, 2), np.int64)
        self.dragon, self.keeper = np.zeros(num_fights, np.bool_), np.full(num_fights, -1)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Puts everything on cells of its own."""
        places = self.random[fight].permutation(SIZE * SIZE)[: AGENTS + 2]
        self.cells[fight] = np.stack(np.divmod(places, SIZE), axis=1)
        self.alive[fight], self.dragon[fight], self.keeper[fight] = True, True, -1
        self.report[fight], self.masks[fight, 1] = 0, np.tile(_FIRST, AGENTS)
        self._show(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Moves everybody, then settles who dies, who has the key, and whether it is at the door."""
        alive, cells = self.alive[fight], self.cells[fight]
        agents, thing, door = cells[:AGENTS], cells[AGENTS], cells[AGENTS + 1]
        agents[alive] = np.clip(agents + _STEPS[actions[0]], 0, SIZE - 1)[alive]
        there = np.flatnonzero((agents == thing).all(axis=1) & alive)
        if self.dragon[fight] and there.size:
            alive[there], self.dragon[fight] = False, False
        elif self.keeper[fight] < 0 and there.size:
            self.keeper[fight] = there[0]
        if (keeper := self.keeper[fight]) >= 0:
            thing[:] = agents[keeper]
        won = keeper >= 0 and (thing == door).all()
        self.report["reward"][fight, 0] = won
        if won or not alive.any():
            self.end(fight, won, not won)
        self._show(fight)

    def _show(self, fight: int) -> None:
        alive, cells = self.alive[fight], self.cells[fight]
        own = cells[:AGENTS]
        away = (cells - own[:, None]) / (SIZE - 1)
        lives, keeper = alive[_MATES], self.keeper[fight]
        mates = away[np.arange(AGENTS)[:, None], _MATES] * lives[..., None]
        places = np.concatenate([own[:, None] / (SIZE - 1), mates, away[:, AGENTS:]], axis=1).reshape(AGENTS, -1)
        state = np.tile([keeper >= 0, self.dragon[fight]], (AGENTS, 1))
        seen = np.column_stack([places, lives, keeper == np.arange(AGENTS), state, alive])
        self.obs[fight, 0] = (seen * alive[:, None]).ravel()
        self.masks[fight, 0] = (alive[:, None] | _FIRST).ravel()


class KeySacrifice(Game):
    """The game; a match is truncated after 50 ticks."""

    name, contract, rewards, params, max_episode_ticks = CONTRACT.name, CONTRACT, TeamRewards(), NoParams, 50

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> KeySacrificeWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        return KeySacrificeWorld(num_fights, seed)
