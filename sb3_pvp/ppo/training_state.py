"""What a run needs, besides the weights, to go on as if it had never stopped: random generators and environments."""

from __future__ import annotations

import copy
import pickle
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

VERSION = 1

State = dict[str, Any]

# What wrappers of SB3 remember from step to step consists of these; the rest of them is how they were set up.
_WRAPPER_DATA = (np.ndarray, RunningMeanStd, StackedObservations)


def pack(state: State) -> bytes:
    """The state as compressed bytes: reading a model for acting neither unpacks it nor needs its classes."""
    return zlib.compress(pickle.dumps(state | {"version": VERSION}, protocol=4), level=6)


def unpack(packed: bytes) -> State:
    """The state that was packed; raises ``ValueError`` if another version of this package did it."""
    state: State = pickle.loads(zlib.decompress(packed))
    if state["version"] != VERSION:
        raise ValueError(
            f"the training state in this model has version {state['version']}, but only {VERSION} can be resumed; "
            "load it with custom_objects={'training_state': None} to go on without it"
        )
    return state


def random_state() -> State:
    """The states of the global random generators: of Python, NumPy and PyTorch."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if th.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
    }


def set_random_state(state: State) -> None:
    """Puts the global random generators back; those of GPUs only if there are as many as there were."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    th.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == th.cuda.device_count():
        th.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Leaves the global random generators as they were before."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)


def env_state(env: VecEnv) -> list[Any] | None:
    """A snapshot of a vectorised environment, wrappers first; ``None`` if it has no ``get_state`` to take it with."""
    layers: list[Any] = []
    for layer in _layers(env):
        if hasattr(type(layer), "get_state"):
            return [*layers, layer.get_state()]  # type: ignore[attr-defined]
        layers.append({name: copy.deepcopy(value) for name, value in vars(layer).items() if _is_data(value)})
    return None


def set_env_state(env: VecEnv, state: list[Any]) -> None:
    """Puts an environment, wrapped as it was, back to a snapshot; raises ``ValueError`` if it does not fit."""
    layers = [*zip(_layers(env), state, strict=False)]
    inner, inner_state = layers[-1]
    if len(layers) != len(state) or not hasattr(type(inner), "set_state"):
        raise ValueError(f"{type(inner).__name__} has no set_state(), or is wrapped in another way than it was")
    inner.set_state(inner_state)  # type: ignore[attr-defined]
    for layer, data in layers[:-1]:
        vars(layer).update(data)


def _layers(env: VecEnv) -> Iterator[VecEnv]:
    yield env
    while isinstance(env, VecEnvWrapper):
        env = env.venv
        yield env


def _is_data(value: object) -> bool:
    # VecNormalize has one RunningMeanStd per key of a Dict observation.
    parts = value.values() if isinstance(value, dict) else [value]
    return bool(parts) and all(isinstance(part, _WRAPPER_DATA) for part in parts)
