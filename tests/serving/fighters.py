"""Fighters for tests of the server: one whose answers can be computed by hand, and random ones."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO

from sb3_pvp.game.contract import load_contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.outcome_predictor import OutcomePredictor
from tests.policies.random_policies import randomize

NH = load_contract("NhEnv")


def make_model(frames: int, features: int, privileged: int, sizes: tuple[int, ...], **arguments: Any) -> MaskablePPO:
    """Builds a model without an environment."""
    parts: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, (frames, features), np.float32),
        "action_mask": spaces.Box(0, 1, (sum(sizes),), np.int8),
    }
    if privileged:
        parts["privileged"] = spaces.Box(-np.inf, np.inf, (frames, privileged), np.float32)
    model = MaskablePPO(AutoregressivePolicy, None, device="cpu", policy_kwargs=arguments, _init_setup_model=False)  # type: ignore[arg-type]
    space = {"observation_space": spaces.Dict(parts), "action_space": spaces.MultiDiscrete(sizes)}
    vars(model).update(space, n_envs=1, n_steps=2, batch_size=2)
    model._setup_model()
    return model


def by_hand() -> MaskablePPO:
    """Sees two frames of two features, and one feature more of the opponent in each; heads of 2 and 3 entries.

    * Head 0 has the logits 0 and x, the first feature of the newest frame.
    * Head 1 has the logits 0, 0 and 0, or 0, 0 and log 3 after entry 1 of head 0.
    * The value is x + 10 y + 100 z, with the second feature y of the older frame, and the newest frame's z.
    * It wins with probability 0.8.
    """
    model = make_model(
        2, 2, 1, (2, 3), net_arch=[], contract=None, normalize_observations=False, normalize_actions=False
    )
    policy: Any = model.policy
    with th.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        policy.heads.set_layers(0, [(th.tensor([[0.0] * 4, [1.0, 0, 0, 0]]), th.zeros(2))])
        policy.heads.set_layers(1, [(th.tensor([[0.0] * 6, [0.0] * 6, [0.0] * 5 + [log(3)]]), th.zeros(3))])
        policy.value_net.weight.copy_(th.tensor([[1.0, 0, 0, 10, 100, 0]]))
    policy.set_training_mode(False)
    predictor = OutcomePredictor((2, 2))
    with th.no_grad():
        for parameter in predictor._network.parameters():
            parameter.zero_()
        predictor._network[-1].bias.copy_(th.tensor([0.0, log(4)]))
    model.outcome_predictor = predictor  # type: ignore[attr-defined]
    return model


def random_nh(seed: int) -> MaskablePPO:
    """Builds a model for NhEnv with random weights and statistics."""
    model = make_model(1, NH.num_observations, 93, NH.head_sizes, net_arch=[16], head_arch=[8])
    randomize(model.policy, th.Generator().manual_seed(seed))  # type: ignore[arg-type]
    return model


def write(model: MaskablePPO, path: Path) -> None:
    """Writes a fighter file without graphs."""
    export_fighter(model, path, onnx=False)
