"""A fighter that remembers: rock-paper-scissors against somebody with a hidden habit, another one in each fight.

python examples/memory_simple.py    # about a minute of one core
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.policies import AutoregressivePolicy

HANDS, ROUNDS = ("rock", "paper", "scissors"), 15
HEAD = Head("hand", "The hand to show.", tuple(SubAction(each, f"Show {each}.") for each in HANDS))
CONTRACT = Contract("habits", (HEAD,), tuple(Observation(f"last_{each}", f"It has shown {each}.") for each in HANDS))


class HabitWorld(ArrayWorld):
    """The second seat shows its favourite hand in six of ten rounds, whatever it chooses; most rounds win the fight."""

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight], self.points[fight], self.habits[fight] = 0.0, 0, self.random[fight].integers(3)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        self.obs[fight] = np.eye(3)[hand := (self.habits[fight] + self.random[fight].choice(3, p=(0.6, 0.2, 0.2))) % 3]
        self.points[fight] += (0, 1, -1)[(int(actions[0, 0]) - hand) % 3]
        if self.ticks[fight] == ROUNDS:
            self.end(fight, self.points[fight], 0)


class Habits(Game):
    name, contract = CONTRACT.name, CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> HabitWorld:
        world = HabitWorld(CONTRACT, num_fights, seed)
        world.points, world.habits = np.zeros((2, num_fights), np.int64)
        return world


def main(total_timesteps: int = 200_000) -> dict[str, float]:
    rates, fights = {}, {"game": Habits, "opponent": "noop"}
    for name, memory in {"without memory": None, "with memory": {"kind": "gru", "size": 32}}.items():
        kwargs = {"net_arch": [32], "memory": memory}
        model = PvpPPO(AutoregressivePolicy, PvpVecEnv(64, **fights, seed=0), 2e-3, n_steps=60, batch_size=960,
                       n_epochs=4, policy_kwargs=kwargs, gamma=1.0, seed=0).learn(total_timesteps)  # fmt: skip
        rates[name] = evaluate_model(model, PvpVecEnv(64, **fights, seed=10**6), 2_000).win_rate
        print(f"{name}: wins {rates[name]:.0%} of its fights")
    return rates


if __name__ == "__main__":
    main()
