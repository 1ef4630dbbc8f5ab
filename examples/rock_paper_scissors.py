"""Rock-paper-scissors: a complete game of your own, learned by self-play.

python examples/rock_paper_scissors.py    # about 10 s of one core
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
from sb3_pvp.policies import AutoregressivePolicy

CHOICES = ("rock", "paper", "scissors")
HEAD = Head("choice", "The decision.", tuple(SubAction(each, f"Choose {each}.") for each in CHOICES))
CONTRACT = Contract("rock_paper_scissors", (HEAD,), (Observation("one", "Always 1: there is nothing to see."),))


class RpsWorld(ArrayWorld):
    """A fight is one simultaneous decision of both sides."""

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 1.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        first, second = actions[:, 0].tolist()
        self.end(fight, (first - second) % 3 == 1, (second - first) % 3 == 1)


class RockPaperScissors(Game):
    name, contract = CONTRACT.name, CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> RpsWorld:
        return RpsWorld(CONTRACT, num_fights, seed)


def main(total_timesteps: int = 80_000) -> list[list[float]]:
    env = PvpVecEnv(64, game=RockPaperScissors, seed=0)
    model = PvpPPO(AutoregressivePolicy, env, 1e-2, n_steps=8, batch_size=256, n_epochs=4, ent_coef=0.3, seed=0)
    shares = []
    # "noop" always takes the first choice, rock. Against itself the learner goes in shrinking circles.
    for opponent in ("noop", "self", "self", "self", "self"):
        model.set_env(PvpVecEnv(64, game=RockPaperScissors, opponent=opponent, seed=0))
        model.learn(total_timesteps // 5, reset_num_timesteps=False)
        choices, _ = model.predict({"observation": np.ones((3000, 1, 1)), "action_mask": np.ones((3000, 3))})
        shares.append([float(np.mean(choices == each)) for each in range(len(CHOICES))])
        print(f"after {opponent}:", *(f"{name} {share:4.0%}" for name, share in zip(CHOICES, shares[-1], strict=True)))
    return shares


if __name__ == "__main__":
    main()
