"""The games in which it shows whether agents are credited with what comes after their own end, and the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from benchmarks.team_play.independent import OwnRewards
from sb3_pvp.game import Game, find_game
from sb3_pvp.games import gate
from sb3_pvp.games.pettingzoo import PettingZooTeam

#: What a run is judged by: the share of matches won, or what a team gets in one.
Score = Literal["success", "return"]


@dataclass(frozen=True)
class Proof:
    """A game, what to learn it with, and for how long; the same for all methods.

    Attributes:
        make: returns the game, and what each agent alone is paid in it.
        score: what counts.
        agent_steps: how long to learn; steps of agents that are in the game.
        n_envs, n_steps: teams, and steps of each in a rollout.
        batch_size: team-steps of a mini-batch.
        hidden: sizes of the hidden layers of actor and critic.
        last: episodes that the final score is the mean of.
        reward_scale: what rewards are multiplied by for learning; returns are shown without.
        learning_rate, ent_coef, gamma: as in SB3.
    """

    make: Callable[[], tuple[Game, OwnRewards]]
    score: Score
    agent_steps: int
    n_envs: int = 64
    n_steps: int = 32
    batch_size: int = 512
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    ent_coef: float = 0.01
    gamma: float = 0.99
    reward_scale: float = 1.0
    last: int = 500


def _gate() -> tuple[Game, OwnRewards]:
    def own(actions: Any, active: Any, paid: Any) -> Any:
        pressed = active & (actions == gate.PRESS)
        # All that are in the game when the gate is passed are paid for it, once each.
        out = paid + 0.2 * pressed.sum(1) > 0.5
        return out[:, None] - 0.2 * pressed

    return find_game("sb3_pvp.games.gate:Gate"), own


def _key_sacrifice() -> tuple[Game, OwnRewards]:
    # A reward of the group: all that live get it.
    return find_game("sb3_pvp.games.key_sacrifice:KeySacrifice"), lambda actions, active, paid: paid[:, None] * active


def pettingzoo_team(module: str, **arguments: Any) -> Callable[[], tuple[Game, OwnRewards]]:
    """Returns a maker of a team's game; its agents alone are paid what their environment says."""

    def make() -> tuple[Game, OwnRewards]:
        from pettingzoo.utils import BaseParallelWrapper

        made: list[Any] = []

        class Remembering(BaseParallelWrapper):  # type: ignore[misc]
            """Keeps the rewards of its last step."""

            def __init__(self) -> None:
                super().__init__(import_module(module).parallel_env(**arguments))
                made.append(self)

            def step(self, actions: Any) -> Any:
                result = super().step(actions)
                self.paid = [result[1].get(agent, 0.0) for agent in self.possible_agents]
                return result

        # The last ones are those of the matches; one before them only showed its spaces.
        return PettingZooTeam(Remembering), lambda actions, _, paid: np.array(
            [each.paid for each in made[-len(paid) :]]
        )

    return make


PROOFS = {
    "gate": Proof(_gate, "success", 200_000),
    "key_sacrifice": Proof(_key_sacrifice, "success", 600_000),
    "simple_spread": Proof(
        pettingzoo_team("mpe2.simple_spread_v3"), "return", 1_500_000, n_envs=32, n_steps=50, reward_scale=0.05
    ),
    # Each agent decides on five numbers, how strongly it is pushed where.
    "simple_spread_numbers": Proof(
        pettingzoo_team("mpe2.simple_spread_v3", continuous_actions=True),
        "return",
        300_000,
        n_envs=32,
        n_steps=50,
        batch_size=128,
        ent_coef=0.0,
        gamma=0.9,
        reward_scale=0.05,
    ),
    "knights_archers_zombies": Proof(
        pettingzoo_team("pettingzoo.butterfly.knights_archers_zombies_v11"),
        "return",
        1_000_000,
        n_envs=16,
        n_steps=128,
        hidden=(128, 128),
        last=100,
    ),
}
