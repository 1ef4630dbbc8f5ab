"""Models that never learned, but prefer something: random weights and statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch as th
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy


def random_model(seed: int, net_arch: Any = (16,), contract: str = "NhEnv", **arguments: Any) -> PvpPPO:
    """An autoregressive fighter; ``arguments`` may hold ``frame_ages``, all others are of its policy."""
    env = NhVecEnv(1, frame_ages=arguments.pop("frame_ages", (0,)), contract=contract)
    policy_kwargs = {"net_arch": list(net_arch), **arguments}
    model = PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, device="cpu", policy_kwargs=policy_kwargs)
    randomize(model, seed)
    return model


def plain_model(seed: int) -> MaskablePPO:
    """A fighter of stock MaskablePPO."""
    model = MaskablePPO("MultiInputPolicy", NhVecEnv(1), n_steps=2, batch_size=2, device="cpu")
    randomize(model, seed)
    return model


@th.no_grad()
def randomize(model: MaskablePPO, seed: int) -> None:
    generator = th.Generator().manual_seed(seed)
    for parameter in model.policy.parameters():
        num_inputs = parameter.shape[1] if parameter.ndim > 1 else 1
        parameter.normal_(0.0, 3 * num_inputs**-0.5, generator=generator)
    normalizer = getattr(model.policy, "observation_normalizer", None)
    if normalizer is not None:
        normalizer.variance.uniform_(0.1, 2.0, generator=generator)
        normalizer.count.fill_(100.0)
    model.policy.set_training_mode(False)


def saved(model: MaskablePPO, folder: Path, name: str) -> str:
    """The path of the model's file."""
    model.save(folder / name)
    return str(folder / f"{name}.zip")
