"""Where a run stands between two rollouts, so that it can go on as if it had never stopped."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

State = dict[str, Any]

VERSION = 1
#: The attributes of a model that change with every rollout.
_CHANGING = ("num_timesteps", "ep_info_buffer", "ep_success_buffer", "reward_normalizer")
# What wrappers of SB3 remember from step to step consists of these; the rest of them is how they were set up.
_WRAPPER_DATA = (np.ndarray, RunningMeanStd, StackedObservations)


def current_state(model: Any, env: VecEnv) -> State:
    """Where the run of a `PvpPPO` stands between two rollouts, in copies."""
    saved, buffers = model.policy.state_dict(), model.policy.named_buffers()
    return {
        "attributes": {name: copy.deepcopy(getattr(model, name)) for name in _CHANGING},
        # In these some policies gather statistics while they act.
        "policy_buffers": {name: part.cpu().numpy().copy() for name, part in buffers if name in saved},
        "last_obs": copy.deepcopy(model._last_obs),
        "last_episode_starts": copy.deepcopy(model._last_episode_starts),
        "env": _env_state(env),
        "random": random_state(),
        "parts": {name: part.get_state() for name, part in model.resumable_parts.items()},
    }


def resume(model: Any, state: State, env: VecEnv) -> None:
    """Goes on from a state; with a warning, and new episodes, if the environments cannot."""
    same_episodes = True
    try:
        _set_env_state(env, state["env"])
    except ValueError as error:
        warnings.warn(f"Training goes on with new episodes, not exactly where it stopped: {error}", stacklevel=4)
        same_episodes = False
    else:
        model._last_obs, model._last_episode_starts = state["last_obs"], state["last_episode_starts"]
    vars(model).update(state["attributes"])
    model._num_timesteps_at_start = model.num_timesteps
    buffers = {name: th.as_tensor(values) for name, values in state["policy_buffers"].items()}
    model.policy.load_state_dict(buffers, strict=False)
    set_random_state(state["random"])
    saved = state.get("parts", {})  # files of earlier versions have none
    for name in model.resumable_parts.keys() & saved.keys():
        model.resumable_parts[name].set_state(saved[name], same_episodes)


def pack(state: State) -> bytes:
    """A state as bytes, so that reading a model for acting needs none of its classes."""
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


def _env_state(env: VecEnv) -> State:
    """A snapshot of a vectorised environment, ``"inner"``: ``None`` if it cannot tell, and of what is around it."""
    wrappers, inner = _unwrap(env)
    state = {"num_envs": env.num_envs, "name": type(inner).__name__, "wrappers": [*map(_data, wrappers)], "inner": None}
    with suppress(NotImplementedError):  # not every world can
        state["inner"] = inner.get_state() if hasattr(inner, "get_state") else None
    return state


def _set_env_state(env: VecEnv, state: State) -> None:
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
