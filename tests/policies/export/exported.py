"""Models that export has to cope with, and files that try to run code."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

#: Arguments of policies, each with the ages of its frames.
SHAPES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "plain heads": ({"net_arch": [32, 32]}, (0,)),
    "deep heads": ({"net_arch": [32], "head_arch": [16, 16], "activation": "tanh"}, (0, 2)),
    "everything": (
        {
            "net_arch": {"pi": {"layers": [{"size": 16, "activation": "gelu", "repeat": 2}]}, "vf": [24]},
            "head_arch": [[]] * 6 + [[8]] * 5 + [{"layers": [{"size": 6}, {"dropout": 0.2}]}],
            "features_arch": [20],
            "future_masks": True,
            "normalize_actions": False,
        },
        (0, 1, 3),
    ),
    "independent heads": ({"autoregressive": False, "net_arch": [8]}, (0,)),
}


class Fights:
    """What a model meets in ``num_ticks`` ticks of fights: observations by key and masks, all ``(rows, ...)``."""

    def __init__(self, env: NhVecEnv, num_ticks: int, seed: int = 0) -> None:
        rng, seen = np.random.default_rng(seed), [env.reset()]
        contract = env.get_attr("contract", indices=[0])[0]
        for _ in range(num_ticks - 1):
            masks = np.stack(env.env_method("action_masks"))
            seen.append(env.step(contract.random_action(masks, rng))[0])
        env.close()
        self.parts: dict[str, NDArray[Any]] = {
            key: np.concatenate([each[key] for each in seen]) for key in seen[0] if isinstance(seen[0], dict)
        }
        self.masks = self.parts["action_mask"].astype(bool)


def trained(shape: str, **fights: Any) -> PvpPPO:
    """A model after two rollouts, the first of which fits its statistics; its weights have clear preferences."""
    arguments, ages = SHAPES[shape]
    env = NhVecEnv(8, frame_ages=ages, **fights)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=32, batch_size=64, policy_kwargs=arguments, seed=0)
    model.learn(2 * 8 * 32)
    with th.no_grad():
        for layer in model.policy.heads.parameters():
            generator = th.Generator().manual_seed(len(layer))
            if layer.ndim > 1:
                layer += layer.shape[1] ** -0.5 * th.randn(layer.shape, generator=generator)
    return model


def stock(policy: str) -> MaskablePPO:
    """A model of sb3-contrib's own policies, new, without reading its environment's masks."""
    env: Any = NhVecEnv(2)
    if policy == "MlpPolicy":
        import gymnasium as gym

        env = gym.wrappers.TransformObservation(gym.make("NhEnv"), lambda seen: seen["observation"][0], BOX)
    return MaskablePPO(policy, env, n_steps=2, batch_size=2, seed=0, policy_kwargs={"activation_fn": th.nn.ReLU})


BOX = spaces.Box(-np.inf, np.inf, (176,), np.float32)


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        import os

        return os.makedirs, (self.folder,)


def with_entries(path: Path, changes: dict[str, Any], to: Path) -> Path:
    """Copies a zip with some entries replaced: by bytes, by what a function makes of them, or without it: ``None``."""
    with ZipFile(path) as old, ZipFile(to, "w") as new:
        contents = {name: old.read(name) for name in old.namelist()}
        for name in contents | changes:
            change = changes.get(name, contents.get(name))
            if change is not None:
                new.writestr(name, change(contents[name]) if callable(change) else change)
    return to


def poisoned(path: Path, folder: Path, place: str, to: Path) -> Path:
    """Copies a model's zip with a pickle that makes ``folder``: in a field of ``data``, or as an entry."""
    pickled = pickle.dumps(Evil(folder))

    def spoil(content: bytes) -> bytes:
        data = json.loads(content)
        data[place] = {":type:": "evil", ":serialized:": base64.b64encode(pickled).decode()}
        return json.dumps(data).encode()

    return with_entries(path, {place: pickled} if "." in place else {"data": spoil}, to)
