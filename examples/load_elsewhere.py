"""Loads the zip of a fighter in another program, where sb3_pvp has to be installed but not imported.

Like all zips of SB3 it has to be trusted; a fighter file need not be: load_fighter.py.

python examples/train_and_evaluate.py            # saves fighter.zip
python examples/load_elsewhere.py fighter.zip    # about 10 s
"""

import sys
from pathlib import Path

import gymnasium as gym
from sb3_contrib import MaskablePPO


def main(path: str | Path = "fighter.zip", *, episodes: int = 10) -> float:
    """Plays against the scripted opponent; returns the share of fights won."""
    fighter = MaskablePPO.load(path)
    env = gym.make("sb3_pvp:NhEnv", opponent="scripted", reset_params={"accountBuild": "MED"})
    won = 0
    for seed in range(episodes):
        is_over, (observation, info) = False, env.reset(seed=seed)
        while not is_over:
            # The mask is in the observation. Sampled actions win more often than the most likely ones.
            action, _ = fighter.predict(observation, deterministic=False)
            observation, _, terminated, truncated, info = env.step(action)
            is_over = terminated or truncated
        won += info["outcome"] == "won"
    print(f"{path} won {won} of {episodes} fights against the scripted fighter.")

    # Without an environment, the 176 numbers of an observation and the mask of 45 choices are enough.
    observation, info = env.reset(seed=0)
    numbers, mask = observation["observation"][0], observation["action_mask"]
    action, _ = fighter.predict(numbers, action_masks=mask, deterministic=True)
    print("Action from plain arrays:", action)
    return won / episodes


if __name__ == "__main__":
    main(*sys.argv[1:2])
