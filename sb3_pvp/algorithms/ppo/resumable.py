"""The state of a run between two rollouts, from which training resumes exactly."""

from __future__ import annotations

import copy
import io
import os
import pickle
import random
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch as th
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.policies.files.reading import AVERAGE, average_in, packed_tensors

State = dict[str, Any]

VERSION = 1
#: Attributes of a model that change during a rollout, or while the next one is under way.
_ROLLOUT_ATTRIBUTES = ("num_timesteps", "trained_rollouts", "ep_info_buffer", "ep_success_buffer", "reward_normalizer")
# Attributes of SB3's wrappers with these types are running state; the others are configuration.
_WRAPPER_STATE_TYPES = (np.ndarray, RunningMeanStd, StackedObservations)


def current_state(model: Any, env: VecEnv, with_env: bool = True) -> State:
    """Returns the state of a model between two rollouts, as copies; without the environments see `packed`."""
    # Weights are in the model's own file, and do not change in a rollout; what a rollout changes is here.
    saved, buffers = model.policy.state_dict(), model.policy.named_buffers()
    return {
        "attributes": {name: copy.copy(getattr(model, name)) for name in _ROLLOUT_ATTRIBUTES if hasattr(model, name)},
        # AutoregressivePolicy collects statistics in its buffers during the rollout.
        "policy_buffers": {name: part.cpu().numpy().copy() for name, part in buffers if name in saved},
        "last_obs": copy.deepcopy(model._last_obs),
        "last_episode_starts": copy.deepcopy(model._last_episode_starts),
        "memory": getattr(model, "_last_memory", None),  # each tick makes a new one
        "env": _env_state(env) if with_env else None,
        "reset_params": model.reset_params,
        "random": random_state(),
        "parts": {name: part.get_state() for name, part in model.resumable_parts.items()},
    }


def resume(model: Any, env: VecEnv) -> None:
    """Restores the ``training_state`` of a loaded model, if it has one.

    If the environments cannot be restored, warns and continues in new episodes. Raises `ValueError` for a model that
    was loaded to play.
    """
    if getattr(model, "missing", None):
        raise ValueError(model.missing)
    if model.training_state is None:
        return
    # At the first rollout rather than in load(): only by then have callbacks registered, and the env was reset.
    state, model.training_state, same_episodes = unpack(model.training_state), None, True
    if model.run_folder is not None:
        state = found_again(state, Path(model.run_folder).absolute())
    # Environments first: if they refuse, nothing has changed yet, and what follows is right with new episodes too.
    try:
        _set_env_state(env, state["env"])
    except ValueError as error:
        warnings.warn(f"Training resumes with new episodes, not exactly where it stopped: {error}", stacklevel=4)
        same_episodes = False
    else:
        model._last_obs, model._last_episode_starts = state["last_obs"], state["last_episode_starts"]
        model._last_memory = state.get("memory")  # files of earlier versions have none
        if (before := state.get("reset_params")) not in (None, model.reset_params):  # neither this
            warnings.warn(
                f"From now on fights start with reset_params={model.reset_params}, before with {before}: "
                "to go on as before, give the environment those",
                stacklevel=4,
            )
    vars(model).update(state["attributes"])
    model._num_timesteps_at_start = model.num_timesteps  # SB3 computes time/fps from it
    buffers = {name: th.as_tensor(values) for name, values in state["policy_buffers"].items()}
    model.policy.load_state_dict(buffers, strict=False)
    # After the networks and environments, as making and resetting them draws numbers.
    set_random_state(state["random"])
    saved = state.get("parts", {})  # files of earlier versions have none
    for name in model.resumable_parts.keys() & saved.keys():
        model.resumable_parts[name].set_state(saved[name], same_episodes)


def steps_at_start(model: Any) -> int:
    """Returns the steps after which the training of a model goes on.

    A model that was saved during a rollout counts the steps until then, and goes on from the start of the rollout.
    """
    state = getattr(model, "training_state", None)  # other algorithms have none
    return int(model.num_timesteps if state is None else unpack(state)["attributes"]["num_timesteps"])


def found_again(value: Any, folder: Path) -> Any:
    """Returns a state in which files that are gone are those of the same name in a run's folder, or beside it.

    Opponents are named by absolute paths, and the folder may have been moved or copied since. What several parts of the
    state share they share again.
    """
    known: dict[int, tuple[Any, Any]] = {}  # by identity; with what it was, whose number is not given anew so

    def find(each: Any) -> Any:
        if id(each) not in known:
            known[id(each)] = each, _found_again(each, folder, find)
        return known[id(each)][1]

    return find(value)


def _found_again(value: Any, folder: Path, find: Callable[[Any], Any]) -> Any:
    """Returns one value, whose parts ``find`` returns."""
    if isinstance(value, str):
        if not os.path.isabs(value) or os.path.exists(value):
            return value
        parts = Path(value).parts
        # At least with its own folder: else any file of that name would do.
        ends = [parts[begin:] for begin in range(1, len(parts) - 1)]
        here = (place.joinpath(*end) for place in (folder, folder.parent) for end in ends)
        return next((str(path) for path in here if path.is_file()), value)
    if isinstance(value, dict):
        return {key: find(each) for key, each in value.items()}
    if isinstance(value, list):
        return [find(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        given = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        changed = {name: found for name, each in given.items() if (found := find(each)) is not each}
        return replace(value, **changed) if changed else value
    return value


def packed(model: Any) -> bytes | None:
    """Returns the state at the start of the model's rollout, or now between two; ``None`` before the first reset.

    As bytes, so that loading a model for inference does not import the classes in it.
    """
    state, env = model._rollout_start, model.env
    if state is None:
        if env is None or model._last_obs is None:
            return None
        state = current_state(model, env)
    if state["env"] is None and env is not None:
        # Actors keep it: to ask them before every rollout would take several per cent of the training, and it is
        # seldom saved.
        state = state | {"env": _env_state(env, at_start=True)}
    return zlib.compress(pickle.dumps(state | {"version": VERSION}, protocol=4), level=6)


def save(
    model: Any,
    path: str | Path | io.BufferedIOBase,
    exclude: Iterable[str] | None,
    describe: Callable[[], dict[str, Any]],
    save_as_sb3: Callable[[Any, set[str]], None],
) -> None:
    """Writes the zip file of a model atomically, with its `packed` state and, if it has them, description and average.

    ``exclude`` and what ``save_as_sb3`` gets are arguments of SB3's ``save``; without the ``training_state`` there is
    no average either. ``describe`` raises `ValueError` for a model that has no plain description, and so cannot be
    loaded without unpickling.
    """
    exclude, pending = set(exclude or ()), model.training_state
    average = None if "training_state" in exclude else getattr(model, "average", None)
    if pending is None and "training_state" not in exclude:
        model.training_state = packed(model)
    model.description = None
    with suppress(ValueError):
        model.description = describe()

    def write(file: Any) -> None:
        if average is None:
            return save_as_sb3(file, exclude)
        # An entry of our own, which SB3 does not read: MaskablePPO loads the file as any other.
        save_as_sb3(content := io.BytesIO(), exclude)
        with ZipFile(content, "a") as archive:
            archive.writestr(AVERAGE, packed_tensors(average.weights()))
        file.write(content.getbuffer())

    try:
        if isinstance(path, (str, Path)):
            target = Path(path) if Path(path).suffix else Path(f"{path}.zip")
            with replacing(target) as partial, partial.open("wb") as file:
                write(file)
        else:
            write(path)
    finally:
        model.training_state = pending
        del model.description


@contextmanager
def loading(file: Any, to_play: bool) -> Iterator[None]:
    """Words for what goes wrong while SB3 loads a model; ``to_play``: the global random generators stay as they are."""
    try:
        with preserved_random_state() if to_play else nullcontext():
            yield
    except AssertionError as error:  # SB3 asserts that the file has data and parameters
        raise ValueError(f"{file} is not a model: {error}") from error
    except ValueError as error:
        if "spaces do not match" in str(error):  # of SB3
            text = "of another game, a team of another size, or sees other frames than the environment has"
            raise ValueError(f"{file} is {text}: {error}") from error
        raise


def restore_average(model: Any, file: Any, as_policy: bool) -> None:
    """Restores the averaged weights of a model from its file, a path or a stream, if it has them and the model too.

    ``as_policy``: they become the policy's; raises `ValueError` if the file has none.
    """
    if not (as_policy or model.average):
        return
    with ZipFile(file) as archive:
        found = average_in(
            {name: archive.read(name) for name in archive.namelist() if name == AVERAGE}, as_policy, file
        )
    if as_policy:
        model.policy.load_state_dict(found, strict=False)
    if model.average:  # of a file without them, the average begins with its weights
        model.average.set_weights(found or dict(model.policy.named_parameters()))


def unpack(packed: bytes) -> State:
    """Returns the state in ``packed``.

    Raises `ValueError` if an incompatible version of this package packed it, or a class in it cannot be imported.
    """
    try:
        state: State = pickle.loads(zlib.decompress(packed))
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the training state in this model cannot be read here: {error}: make it importable, or load the model "
            "with custom_objects={'training_state': None} to continue without it"
        ) from error
    if state["version"] != VERSION:
        raise ValueError(
            f"the training state in this model has version {state['version']}, but only {VERSION} can be resumed; "
            "load it with custom_objects={'training_state': None} to continue without it"
        )
    return state


def random_state() -> State:
    """Returns the states of the global random generators of Python, NumPy and PyTorch."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if th.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
    }


def set_random_state(state: State) -> None:
    """Restores the global random generators; those of GPUs only if the number of GPUs is the same."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    th.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == th.cuda.device_count():
        th.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def preserved_random_state() -> Iterator[None]:
    """Restores the global random generators on exit."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)


def _env_state(env: VecEnv, **when: bool) -> State:
    """Returns a snapshot of a vectorised environment and its wrappers; ``"inner"`` is ``None`` if not supported."""
    # What wrappers count, such as VecNormalize, is theirs alone: the environment inside knows nothing of it.
    wrappers, inner = _unwrap(env)
    data = [*map(_wrapper_state, wrappers)]
    state = {"num_envs": env.num_envs, "name": type(inner).__name__, "wrappers": data, "inner": None}
    with suppress(NotImplementedError):  # PvpVecEnv has get_state(), but its world may not support it
        state["inner"] = inner.get_state(**when) if hasattr(inner, "get_state") else None
    return state


def _set_env_state(env: VecEnv, state: State) -> None:
    """Restores a snapshot of `_env_state`; raises `ValueError`, and changes nothing, if it does not fit."""
    wrappers, inner = _unwrap(env)
    if state["num_envs"] != env.num_envs:
        raise ValueError(f"the run had {state['num_envs']} environments, now there are {env.num_envs}")
    if state["inner"] is None or not hasattr(inner, "set_state"):
        raise ValueError(f"{state['name']} could not save its state: it needs get_state(), as PvpVecEnv has")
    # All checks before any change: a run must not go on with half of its environments from the snapshot.
    if [data.keys() for data in map(_wrapper_state, wrappers)] != [data.keys() for data in state["wrappers"]]:
        raise ValueError("the vectorised environment has other wrappers than before")
    inner.set_state(state["inner"])
    for wrapper, data in zip(wrappers, state["wrappers"], strict=True):
        vars(wrapper).update(copy.deepcopy(data))


def _unwrap(env: VecEnv) -> tuple[list[VecEnvWrapper], Any]:
    """Returns the wrappers, outermost first, and the first environment inside them with its own ``get_state``."""
    wrappers = []
    # On the type: VecEnvWrapper forwards unknown attributes to the environment that it wraps.
    while isinstance(env, VecEnvWrapper) and not hasattr(type(env), "get_state"):
        wrappers.append(env)
        env = env.venv
    return wrappers, env


def _wrapper_state(wrapper: VecEnvWrapper) -> State:
    """Returns copies of the attributes of a wrapper that are running state."""

    def is_state(value: object) -> bool:
        # VecNormalize has a dict of RunningMeanStd, one per key of a Dict observation.
        parts = value.values() if isinstance(value, dict) else [value]
        return bool(parts) and all(isinstance(part, _WRAPPER_STATE_TYPES) for part in parts)

    return {name: copy.deepcopy(value) for name, value in vars(wrapper).items() if is_state(value)}
