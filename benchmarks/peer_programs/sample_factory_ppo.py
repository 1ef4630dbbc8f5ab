"""sample-factory's PPO: everything in one process, one batched environment, a rollout and an update in turns.

Its defaults stay (observations and returns are normalised, no bootstrapping at time limits) except for what the task
says. Release 2.1.1 has no masks (its master has them since September 2024, which nobody has measured here), and its
heads know nothing of each other. Actor and critic have their own layers; both see what our critic sees.
"""

from __future__ import annotations

import tempfile
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from benchmarks.peer_programs.rounds import Rounds, Task, read_task

Step = tuple[dict[str, NDArray[np.float32]], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], list[Any]]


class BatchedFights(gym.Env[Any, Any]):
    """NhVecEnv as one environment of many agents, the interface by which sample-factory takes vectorised simulators."""

    is_multiagent = True

    def __init__(self, task: Task) -> None:
        self.env, self.num_agents = task.make_vec_env(), task.n_envs
        sizes = [self.env.observation_space[key].shape[-1] for key in ("observation", "privileged")]
        self.observation_space = gym.spaces.Dict({"obs": gym.spaces.Box(-np.inf, np.inf, (sum(sizes),), np.float32)})
        self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(int(n)) for n in self.env.action_space.nvec])
        self.render_mode = None

    def reset(self, **_: Any) -> tuple[Any, Any]:
        """Starts all fights."""
        return _flat(self.env.reset()), [{} for _ in range(self.num_agents)]

    def step(self, actions: NDArray[np.int32]) -> Step:  # type: ignore[override]
        """Plays one tick of all fights; fights that end are reset."""
        observation, rewards, dones, infos = self.env.step(actions)
        truncated = np.zeros_like(dones)
        for row in np.flatnonzero(dones):
            truncated[row] = infos[row]["TimeLimit.truncated"]
        return _flat(observation), rewards, dones & ~truncated, truncated, infos


class Conductor(AlgoObserver):  # type: ignore[misc]
    """Divides the CPU time between rollouts and learning, and waits between rounds. In serial mode, all waits."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds

    def on_start(self, runner: Runner) -> None:
        """Starts the clock of rollouts."""
        learner = runner.learners[0].learner
        learner.train = self.rounds.timed("learn", learner.train)

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Called after each update."""
        self.rounds.next_training()


def make_fights(*_: Any, **__: Any) -> BatchedFights:
    """Returns the environment; a process of sample-factory's own, which looks at its spaces, calls this too."""
    return BatchedFights(read_task())


def main() -> None:
    """Trains in rounds."""
    task = read_task()
    rounds = Rounds(task.agent_steps, "sample-factory")
    register_env("fights", make_fights)
    with tempfile.TemporaryDirectory() as folder:
        parser, _ = parse_sf_args(_arguments(task, folder))
        _, runner = make_runner(parse_full_cfg(parser, _arguments(task, folder)))
        runner.register_observer(Conductor(rounds))
        runner.init()
        runner.run()


def _arguments(task: Task, folder: str) -> list[str]:
    settings = {
        "env": "fights",
        "experiment": "peer",
        "train_dir": folder,
        "restart_behavior": "overwrite",
        "device": "cpu",
        "seed": task.seed,
        "serial_mode": True,  # one process; workers of their own would only add the cost of talking
        "async_rl": False,
        "batched_sampling": True,
        "num_workers": 1,
        "num_envs_per_worker": 1,
        "worker_num_splits": 1,
        "rollout": task.n_steps,
        "batch_size": task.batch_size,
        "num_batches_per_epoch": task.agent_steps // task.batch_size,
        "num_epochs": 1,
        "use_rnn": False,
        "actor_critic_share_weights": False,
        "nonlinearity": "tanh",
        "train_for_env_steps": 10**15,
        # Waiting for the next round is no fault, and a checkpoint is no part of training.
        "heartbeat_reporting_interval": 10**6,
        "save_every_sec": 10**6,
    }
    widths = ["--encoder_mlp_layers", *map(str, task.net_arch)]
    return [*(f"--{name}={value}" for name, value in settings.items()), *widths]


def _flat(observation: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    parts = [observation[key].reshape(len(observation[key]), -1) for key in ("observation", "privileged")]
    return {"obs": np.concatenate(parts, 1)}


if __name__ == "__main__":
    main()
