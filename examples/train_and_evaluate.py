"""Trains a fighter against the bot of NhEnv, and prints its win rate before and after.

python examples/train_and_evaluate.py    # about 40 s of one core; saves fighter.zip
"""

from pathlib import Path

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.policies import AutoregressivePolicy

# One build with fixed gear. The presets train all seven, with random gear, which takes longer to learn.
START = {"accountBuild": "MED"}


def main(total_timesteps: int = 400_000, episodes: int = 200, path: str | Path = "fighter.zip") -> Score:
    """Trains and saves a fighter; returns its final score."""
    env = NhVecEnv(128, opponent="baseline", reset_params=START, seed=0)
    # Seeds that the training does not use, so that the fighter has not learned from these fights.
    test_env = NhVecEnv(64, opponent="baseline", reset_params=START, seed=1_000_000)
    model = PvpPPO(
        AutoregressivePolicy,
        env,
        n_steps=128,
        batch_size=1024,
        n_epochs=4,
        learning_rate=1e-3,
        ent_coef=0.005,
        policy_kwargs={"net_arch": [64, 64]},
        seed=0,
    )
    print(f"before: {evaluate_model(model, test_env, episodes)}")
    model.learn(total_timesteps)
    score = evaluate_model(model, test_env, episodes)
    print(f"after:  {score}")
    model.save(path)
    print(f"Saved {path}. Watch it: sb3-pvp record {path} -o fight.json.gz; sb3-pvp replay fight.json.gz")
    env.close()
    test_env.close()
    return score


if __name__ == "__main__":
    main()
