"""Gate: a game for teams that shows whether an algorithm credits agents with what their mates reach after their death.

Each side has a gate of its own, three agents and five decisions. Who presses the button loses a little and is gone, but
the gate is open in the next tick: then any agent left can take all that are left through it. An agent that counts only
its own reward learns never to press.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Game, Transition
from sb3_pvp.game.arrays import ArrayWorld, NoParams, OutcomeRewards
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction

NUM_AGENTS, NUM_DECISIONS = 3, 5
NAMES = ("first", "second", "third")
WAIT, PRESS, EXIT = range(3)
_CHOICES = {"wait": "Do nothing.", "press": "Open the gate for the next tick, and be gone.", "exit": "Lead all out."}
_SEEN = {
    "plays": "1 until the agent is gone or out.",
    "open": "1 while the gate is open.",
    "time": "The share of the decisions that is over.",
    **{f"is_{name}": f"1 for the {name} agent." for name in NAMES},
}
CONTRACT = Contract(
    "gate",
    tuple(
        Head(f"{name}_move", "", tuple(SubAction(f"{name}_{each}", about) for each, about in _CHOICES.items()))
        for name in NAMES
    ),
    tuple(Observation(f"{name}_{each}", about) for name in NAMES for each, about in _SEEN.items()),
    tuple(
        Agent(name, (number * len(_SEEN), (number + 1) * len(_SEEN)), (number, number + 1), active=f"{name}_plays")
        for number, name in enumerate(NAMES)
    ),
    shared_weights=True,
)
_OPEN, _TIME = 1, 2


class GateWorld(ArrayWorld):
    """Both sides play beside each other; the one that brings more agents out has won."""

    params_model = NoParams

    def __init__(self, num_fights: int, seed: int) -> None:
        super().__init__(CONTRACT, num_fights, seed, report=[("pressed", np.float32), ("out", np.float32)])
        self.out = np.zeros((num_fights, 2), np.int64)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.out[fight], self.masks[fight] = 0, True
        agents = self.obs[fight].reshape(2, NUM_AGENTS, -1)
        agents[:] = 0
        agents[..., 0] = 1
        agents[..., -NUM_AGENTS:] = np.eye(NUM_AGENTS)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        for seat in range(2):
            self.play_team(fight, seat, actions[seat])
        if self.ticks[fight] == NUM_DECISIONS or not self.masks[fight, :, PRESS:].any():
            self.end(fight, *self.out[fight].tolist())

    def play_team(self, fight: int, seat: int, moves: NDArray[np.int64]) -> None:
        """Plays a tick of one side."""
        agents = self.obs[fight, seat].reshape(NUM_AGENTS, -1)
        alive = agents[:, 0] == 1
        pressed = alive & (moves == PRESS)
        is_out = (agents[0, _OPEN] == 1) & (alive & (moves == EXIT)).any()
        out = alive.sum() if is_out else 0
        self.out[fight, seat] += out
        self.report[fight, seat] = pressed.sum(), out
        left = alive & ~pressed & ~is_out
        agents[:, 0], agents[:, _OPEN], agents[:, _TIME] = left, pressed.any(), self.ticks[fight] / NUM_DECISIONS
        # Who is out of the game has one legal action.
        self.masks[fight, seat].reshape(NUM_AGENTS, -1)[:, PRESS:] = left[:, None]


class GateRewards(OutcomeRewards):
    """What the agents of a team get together, each term times a weight."""

    terms: ClassVar[Mapping[str, str]] = {"press": "Each agent that presses: -0.2.", "out": "Each agent led out: 1."}
    tags: ClassVar[Mapping[str, str]] = {f"{name}_weight": name for name in terms}

    def __init__(self) -> None:
        self._defaults = {"press": -0.2, "out": 1.0}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the terms, float32 ``(2, N)``."""
        terms: NDArray[np.float32] = np.stack([transition.report["pressed"], transition.report["out"]])
        return weights * terms


class Gate(Game):
    """The game, for `sb3_pvp.envs.PvpVecEnv`."""

    name, contract, rewards, params = CONTRACT.name, CONTRACT, GateRewards(), NoParams

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> GateWorld:
        """See `sb3_pvp.game.Game`."""
        return GateWorld(num_fights, seed)
