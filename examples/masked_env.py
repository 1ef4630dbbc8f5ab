"""Your own environment with masks and a rule between heads, trained with sb3-contrib's MaskablePPO.

A robot paints the six boards of a fence. The first head chooses to paint or to walk, the second where to walk.

python examples/masked_env.py    # about 10 s of one core
"""

import gymnasium as gym
import numpy as np
import torch as th
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env

from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.policies import AutoregressivePolicy

BOARDS = range(6)
DEEDS = (SubAction("walk", "To the next board."), SubAction("paint", "This board."))
RULES = {"nowhere": "paint", "left": "walk", "right": "walk"}  # which deed each way goes with
WAYS = tuple(SubAction(way, f"Go {way}.", require_all=(deed,)) for way, deed in RULES.items())
SEEN = (Observation(f"{what}_{board}", f"{what} {board}") for what in ("painted", "robot_at") for board in BOARDS)
CONTRACT = Contract("fence", (Head("deed", "What to do.", DEEDS), Head("way", "Where to walk.", WAYS)), tuple(SEEN))


class Fence(gym.Env):
    observation_space, action_space = CONTRACT.observation_space, CONTRACT.action_space

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[np.ndarray, dict[str, object]]:
        super().reset(seed=seed)
        self.painted, self.place = np.zeros(len(BOARDS), bool), int(self.np_random.integers(len(BOARDS)))
        return self.look(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        paints, way = bool(action[0]), int(action[1])
        assert paints == (way == 0), "the policy's contract rules this out"
        self.place += (0, -1, 1)[way]
        self.painted[self.place] |= paints
        return self.look(), -1.0, bool(self.painted.all()), False, {}

    def action_masks(self) -> np.ndarray:  # walk, paint; nowhere, left, right
        return np.array([True, not self.painted[self.place], True, self.place > 0, self.place < BOARDS[-1]])

    def look(self) -> np.ndarray:
        return np.append(self.painted, np.equal(BOARDS, self.place)).astype(np.float32)


def main(total_timesteps: int = 20_000, seed: int = 0) -> None:
    th.set_num_threads(1)  # networks this small are slower with more threads
    env, rules = make_vec_env(lambda: gym.wrappers.TimeLimit(Fence(), 100), 16, seed=seed), {"contract": CONTRACT}
    model = MaskablePPO(AutoregressivePolicy, env, n_steps=64, ent_coef=0.02, policy_kwargs=rules, seed=seed)
    before, _ = evaluate_policy(model, env, 100, deterministic=False)
    after, _ = evaluate_policy(model.learn(total_timesteps), env, 100, deterministic=False)
    print(f"Reward, -1 for each step: {before:.1f} before, {after:.1f} after training; the best possible is -12.")


if __name__ == "__main__":
    main()
