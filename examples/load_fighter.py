"""Plays a fight with a fighter file in another program; loading it unpickles nothing, so it need not be trusted.

python examples/train_and_evaluate.py            # saves fighter.zip
sb3-pvp export fighter.zip                       # makes fighter.fighter of it
python examples/load_fighter.py fighter.fighter  # about 10 s
"""

import sys
from pathlib import Path

import gymnasium as gym

import sb3_pvp


def main(path: str | Path = "fighter.fighter") -> str:
    """Plays a fight against the bot; returns how it ended."""
    fighter = sb3_pvp.load(path, safe=True)
    env = gym.make("NhEnv", opponent="baseline", reset_params={"accountBuild": "MED"})
    observation, info = env.reset(seed=1)
    is_over = False
    while not is_over:
        action, _ = fighter.predict(observation)  # the mask is in the observation
        observation, _, terminated, truncated, info = env.step(action)
        is_over = terminated or truncated
    print(f"{path}: {info['outcome']}, with the last action {action}")
    return str(info["outcome"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
