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
from torch import nn

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


def policy_buffers(policy: nn.Module) -> State:
    """Copies of the buffers in a policy's state: in them, some policies gather statistics while they act."""
    saved = policy.state_dict().keys()
    return {name: buffer.cpu().numpy().copy() for name, buffer in policy.named_buffers() if name in saved}


def set_policy_buffers(policy: nn.Module, buffers: State) -> None:
    """Puts the buffers back."""
    policy.load_state_dict({name: th.as_tensor(values) for name, values in buffers.items()}, strict=False)


def env_state(env: VecEnv) -> State:
    """A snapshot of a vectorised environment.

    ``"inner"`` is what its ``get_state`` gives, ``None`` if it cannot; ``"wrappers"`` is what those around it hold,
    outermost first.
    """
    wrappers, inner = _unwrap(env)
    try:
        inner_state = inner.get_state() if hasattr(inner, "get_state") else None
    except NotImplementedError:  # not in every world
        inner_state = None
    return {
        "num_envs": env.num_envs,
        "name": type(inner).__name__,
        "inner": inner_state,
        "wrappers": [_data(wrapper) for wrapper in wrappers],
    }


def set_env_state(env: VecEnv, state: State) -> None:
    """Puts an environment back to a snapshot; raises ``ValueError``, and changes nothing, if it does not fit."""
    wrappers, inner = _unwrap(env)
    if state["num_envs"] != env.num_envs:
        raise ValueError(f"there were {state['num_envs']} environments, and now there are {env.num_envs}")
    if state["inner"] is None or not hasattr(inner, "set_state"):
        raise ValueError(f"{state['name']} could not tell its state with get_state(), as PvpVecEnv can")
    if [data.keys() for data in map(_data, wrappers)] != [data.keys() for data in state["wrappers"]]:
        raise ValueError("the vectorised environment is wrapped in another way than it was")
    inner.set_state(state["inner"])
    for wrapper, data in zip(wrappers, state["wrappers"], strict=True):
        vars(wrapper).update(copy.deepcopy(data))


def _unwrap(env: VecEnv) -> tuple[list[VecEnvWrapper], Any]:
    """The wrappers, outermost first, down to one that speaks for what it wraps; and that one, or the bare VecEnv."""
    wrappers = []
    while isinstance(env, VecEnvWrapper) and not hasattr(type(env), "get_state"):
        wrappers.append(env)
        env = env.venv
    return wrappers, env


def _data(wrapper: VecEnvWrapper) -> State:
    def is_data(value: object) -> bool:
        # VecNormalize has one RunningMeanStd per key of a Dict observation.
        parts = value.values() if isinstance(value, dict) else [value]
        return bool(parts) and all(isinstance(part, _WRAPPER_DATA) for part in parts)

    return {name: copy.deepcopy(value) for name, value in vars(wrapper).items() if is_data(value)}
