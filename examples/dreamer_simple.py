"""Trains a DreamerV3 on CartPole: it learns a model of the world, and how to act inside that model.

python examples/dreamer_simple.py    # about 6 minutes of one core; saves dreamer.zip
"""

from pathlib import Path

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import ModelSize

# Much smaller than the published sizes ("size1m" ... "size400m"), and its learning rate much higher.
SIZE = ModelSize(deter=128, hidden=32, units=32, classes=8, depth=4, stoch=8, blocks=4, layers=2)


def main(total_timesteps: int = 5_000, path: str | Path = "dreamer.zip") -> float:
    """Trains and saves a model; returns its mean return in 20 episodes."""
    env = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    kwargs = {"size": SIZE, "optimizer_kwargs": {"warmup": 100}}
    # A train_ratio of batch_size * batch_length: one update for each step of an environment.
    model = DreamerV3("MlpPolicy", env, learning_rate=1e-3, batch_length=32, train_ratio=512, imag_last=8,
                      policy_kwargs=kwargs, buffer_size=100_000, seed=0, verbose=1)  # fmt: skip
    model.learn(total_timesteps, log_interval=10)
    mean, _ = evaluate_policy(model, env, n_eval_episodes=20, deterministic=False)
    print(f"Mean return of 20 episodes: {mean:.0f} of 500")
    model.save(path)
    return float(mean)


if __name__ == "__main__":
    main()
