"""MAPPO of BenchMARL on simple_spread, for ``python -m benchmarks mapoca``, by the Python of its own environment.

That has BenchMARL and mpe2, and not this package. The one argument is a JSON object with the sizes and the seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import PettingZooTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from mpe2 import simple_spread_v3

AGENTS = 3


class Enough(Exception):
    """Ends the training."""


class Clock(Callback):  # type: ignore[misc]
    """Notes the time whenever a rollout has been played, and ends the training after so many CPU seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.marks: list[tuple[float, float]] = []

    def on_batch_collected(self, batch: Any) -> None:
        """Notes the time; the first two rollouts do not count."""
        self.marks.append((time.process_time(), time.perf_counter()))
        if len(self.marks) > 3 and self.marks[-1][0] - self.marks[2][0] > self.seconds:
            raise Enough


def main(task: dict[str, Any]) -> dict[str, float]:
    """Returns the number of agent-steps of complete training, and what they took."""
    torch.set_num_threads(1)
    # TorchRL looks for this game where PettingZoo had it.
    games = SimpleNamespace(mpe_environments={"mpe/simple_spread_v3": simple_spread_v3})
    sys.modules |= {"pettingzoo.mpe": games, "pettingzoo.mpe.all_modules": games}  # type: ignore[dict-item]
    frames, clock = task["n_envs"] * task["n_steps"], Clock(task["seconds"])
    network = MlpConfig(num_cells=[task["hidden"]], activation_class=torch.nn.SiLU, layer_class=torch.nn.Linear)
    with tempfile.TemporaryDirectory() as folder:
        config = ExperimentConfig.get_from_yaml()
        vars(config).update(
            max_n_frames=10**9,
            on_policy_collected_frames_per_batch=frames,
            on_policy_n_envs_per_worker=task["n_envs"],
            on_policy_n_minibatch_iters=task["n_epochs"],
            on_policy_minibatch_size=task["batch_size"],
            evaluation=False,
            loggers=[],
            create_json=False,
            prefer_continuous_actions=False,
            lr=1e-9,  # nothing is learned, as in the runs beside it
            save_folder=folder,
        )
        experiment = Experiment(
            task=PettingZooTask.SIMPLE_SPREAD.get_from_yaml(),
            algorithm_config=MappoConfig.get_from_yaml(),
            model_config=network,
            critic_model_config=network,
            seed=task["seed"],
            config=config,
            callbacks=[clock],
        )
        with suppress(Enough):
            experiment.run()
    (cpu, wall), (last_cpu, last_wall) = clock.marks[2], clock.marks[-1]
    return {"agent_steps": AGENTS * frames * (len(clock.marks) - 3), "cpu": last_cpu - cpu, "wall": last_wall - wall}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
