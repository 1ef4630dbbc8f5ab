"""Times updates of sheeprl's DreamerV3 of 2024, by the Python of its own environment; ``python -m benchmarks dreamer``.

Its one argument is a JSON object with the sizes and the seconds; it prints another one.
"""

from __future__ import annotations

import json
import os
import sys
import time

import gymnasium as gym
import hydra
import numpy as np
import torch
from hydra import compose, initialize_config_module
from lightning.fabric import Fabric
from omegaconf import OmegaConf
from sheeprl.algos.dreamer_v3.utils import Moments
from sheeprl.algos.dreamer_v3_5.agent import build_agent
from sheeprl.algos.dreamer_v3_5.dreamer_v3_5 import train
from sheeprl.utils.utils import dotdict

ACTIONS, FEATURES, BATCH = 6, 64, 16


def main(task: dict) -> dict:  # type: ignore[type-arg]  # sheeprl's Python, not ours
    """Returns the number of updates, and what they took."""
    # What a run of sheeprl has to be told, and updates do not depend on.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    micro = task["units"] == 32
    with initialize_config_module("sheeprl.configs", version_base="1.3"):
        config = compose(
            "config",
            overrides=[
                "exp=dreamer_v3_5", "algo=dreamer_v3_5_1M", "env=dummy", "algo.cnn_keys.encoder=[]",
                "algo.mlp_keys.encoder=[state]", "algo.total_steps=1", f"algo.per_rank_batch_size={BATCH}",
                f"algo.per_rank_sequence_length={task['batch_length']}", f"algo.dense_units={task['units']}",
                f"algo.world_model.discrete_size={task['classes']}",
                f"algo.world_model.stochastic_size={task['stoch']}",
                f"algo.world_model.recurrent_model.recurrent_state_size={task['deter']}",
                f"algo.world_model.recurrent_model.hidden_size={task['units']}",
                *(["algo.world_model.recurrent_model.blocks=4", *_layers(2)] if micro else []),
            ],
        )  # fmt: skip
    config = dotdict(OmegaConf.to_container(config, resolve=True))
    fabric = Fabric(accelerator="cpu", devices=1)
    space = gym.spaces.Dict({"state": gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)})
    world_model, actor, critic, target_critic, _ = build_agent(fabric, (ACTIONS,), False, config, space)
    parameters = [*world_model.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = fabric.setup_optimizers(hydra.utils.instantiate(config.algo.optimizer, params=parameters))
    moments = Moments(0.99, 1.0, 0.05, 0.95)
    data = _batch(task)

    def update() -> None:
        train(fabric, config, world_model, actor, critic, target_critic, optimizer, moments, data, None, (ACTIONS,))

    for _ in range(3):
        update()
    updates, cpu, wall = 0, -time.process_time(), -time.perf_counter()
    while time.process_time() + cpu < task["seconds"]:
        update()
        updates += 1
    count = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    spent = {"cpu_s": cpu + time.process_time(), "wall_s": wall + time.perf_counter()}
    return {"updates": updates, "parameters": count, **spent}


def _layers(count: int) -> list[str]:
    networks = ("world_model.encoder", "world_model.observation_model", "actor", "critic")
    return [f"algo.{name}.mlp_layers={count}" for name in networks]


def _batch(task: dict) -> dict[str, torch.Tensor]:  # type: ignore[type-arg]
    length = task["batch_length"] + 1
    none = torch.zeros(length, BATCH, 1)
    return {
        "state": torch.randn(length, BATCH, FEATURES),
        "actions": torch.nn.functional.one_hot(torch.randint(ACTIONS, (length, BATCH)), ACTIONS).float(),
        "rewards": torch.randn(length, BATCH, 1),
        "is_first": none, "terminated": none, "truncated": none,
        "deter": torch.zeros(length, BATCH, task["deter"]),
        "stoch": torch.zeros(length, BATCH, task["stoch"], dtype=torch.uint8),
    }  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(main(json.loads(sys.argv[1]))))
