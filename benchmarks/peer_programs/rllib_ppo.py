"""RLlib's PPO: its new API stack with a local env runner and a local learner, and no worker processes.

RLlib can take a simulator that is vectorised already, so it gets NhVecEnv, but it keeps a Python object for every fight
and appends to it in every tick. It has no masks for several heads, and its heads know nothing of each other. Actor and
critic have their own layers; both see what our critic sees.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.trainable import trainable

from benchmarks.peer_programs.rounds import Rounds, Task, read_task

Floats = NDArray[np.float32]


class VectorFights(gym.vector.VectorEnv):
    """NhVecEnv as Gymnasium's vectorised environment.

    RLlib wants the first observation of a new fight one step after the last one of the old. NhVecEnv has played a tick
    of the new fight by then, so a new fight's first tick is left out of what is learned.
    """

    def __init__(self, task: Task) -> None:
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}
        self.env, self.num_envs = task.make_vec_env(), task.n_envs
        sizes = [self.env.observation_space[key].shape[-1] for key in ("observation", "privileged")]
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (sum(sizes),), np.float32)
        self.single_action_space = gym.spaces.MultiDiscrete(self.env.action_space.nvec)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Floats, dict[str, Any]]:
        """Starts all fights."""
        return _flat(self.env.reset()), {}

    def step(self, actions: Any) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Plays one tick of all fights."""
        observation, rewards, dones, infos = self.env.step(np.asarray(actions))
        flat, truncated = _flat(observation), np.zeros_like(dones)
        for row in np.flatnonzero(dones):
            truncated[row] = infos[row]["TimeLimit.truncated"]
            last = infos[row]["terminal_observation"]
            flat[row] = np.concatenate([last["observation"].ravel(), last["privileged"].ravel()])
        return flat, rewards, dones & ~truncated, truncated, {}


def main() -> None:
    """Trains in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps, "ray")
    # Ray would keep a token and folders of results in the user's home.
    os.environ.update(RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        trainable.DEFAULT_STORAGE_PATH = folder
        try:
            _train(task, rounds)
        finally:  # its daemons write into the folder as long as they live
            ray.shutdown()


def _train(task: Task, rounds: Rounds) -> None:
    ray.tune.register_env("fights", lambda _: VectorFights(task))
    config = PPOConfig().environment("fights").debugging(seed=task.seed).learners(num_learners=0)
    config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=task.n_envs,
        gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
    )
    layers = {"fcnet_hiddens": list(task.net_arch), "fcnet_activation": "tanh", "vf_share_layers": False}
    config.rl_module(model_config=DefaultModelConfig(**layers))
    config.training(train_batch_size=task.agent_steps, minibatch_size=task.batch_size, num_epochs=1)
    algorithm = config.build_algo()
    runner, learner = algorithm.env_runner_group.local_env_runner, algorithm.learner_group
    runner.sample = rounds.timed("rollout", runner.sample)
    learner.update = rounds.timed("learn", learner.update)
    while True:
        algorithm.train()
        rounds.next_training()


def _flat(observation: dict[str, Floats]) -> Floats:
    parts = [observation[key].reshape(len(observation[key]), -1) for key in ("observation", "privileged")]
    return np.concatenate(parts, 1)


if __name__ == "__main__":
    main()
