"""MaskablePPO whose files know where the run stood, so that it can go on as if it had never stopped."""

from __future__ import annotations

import copy
import io
import pickle
import random
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import arguments_of, require_all_known

Self = TypeVar("Self", bound="ResumablePPO")
State = dict[str, Any]

VERSION = 1

# What wrappers of SB3 remember from step to step consists of these; the rest of them is how they were set up.
_WRAPPER_DATA = (np.ndarray, RunningMeanStd, StackedObservations)
#: What SB3's `load` itself takes by name, besides arguments of the algorithm.
_OF_LOAD = ("custom_objects", "force_reset", "print_system_info")


class ResumablePart(Protocol):
    """Something besides the learner and its environments that an exact resume must put back, such as a callback."""

    def get_state(self) -> State:
        """Where it stands between two roll-outs: copies that can be pickled."""

    def set_state(self, state: State, same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`; ``same_episodes``: so did the environments, in their episodes."""


class ResumablePPO(MaskablePPO):
    """`sb3_contrib.MaskablePPO`, with what `save` writes and `load` needs for an exact resume.

    A run stands somewhere only between two roll-outs: a model saved during a roll-out remembers its beginning.
    Subclasses call `_begin_rollout` before anything else in a roll-out, and forget `_rollout_start` after learning.
    """

    #: The attributes that change with every roll-out, and are not written to the file as they were at its beginning.
    _changing: ClassVar[tuple[str, ...]] = ("num_timesteps", "ep_info_buffer", "ep_success_buffer")

    #: What a loaded model will resume from, packed; taken up by the first roll-out.
    training_state: bytes | None = None
    _rollout_start: State | None = None

    #: The folder of the run, where callbacks put their files, if whoever started the run has set it; not saved.
    run_folder: str | Path | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: What is saved and resumed with the run, by name; callbacks add themselves in their ``_init_callback``.
        self.resumable_parts: dict[str, ResumablePart] = {}
        super().__init__(*args, **kwargs)

    def _begin_rollout(self, env: VecEnv) -> None:
        if self.training_state is not None:
            self._resume(_unpack(self.training_state), env)
            self.training_state = None
        self._rollout_start = self._current_state(env)

    def _current_state(self, env: VecEnv) -> State:
        """Where the run stands between two roll-outs, in copies."""
        saved, buffers = self.policy.state_dict(), self.policy.named_buffers()
        return {
            "attributes": {name: copy.deepcopy(getattr(self, name)) for name in self._changing},
            # In these some policies gather statistics while they act.
            "policy_buffers": {name: part.cpu().numpy().copy() for name, part in buffers if name in saved},
            "last_obs": copy.deepcopy(self._last_obs),
            "last_episode_starts": copy.deepcopy(self._last_episode_starts),
            "env": _env_state(env),
            "random": random_state(),
            "parts": {name: part.get_state() for name, part in self.resumable_parts.items()},
        }

    def _resume(self, state: State, env: VecEnv) -> None:
        """Goes on from a state; with a warning, and new episodes, if the environments cannot."""
        same_episodes = True
        try:
            _set_env_state(env, state["env"])
        except ValueError as error:
            warnings.warn(f"Training goes on with new episodes, not exactly where it stopped: {error}", stacklevel=4)
            same_episodes = False
        else:
            self._last_obs, self._last_episode_starts = state["last_obs"], state["last_episode_starts"]
        vars(self).update(state["attributes"])
        self._num_timesteps_at_start = self.num_timesteps
        buffers = {name: th.as_tensor(values) for name, values in state["policy_buffers"].items()}
        self.policy.load_state_dict(buffers, strict=False)
        set_random_state(state["random"])
        saved = state.get("parts", {})  # files of earlier versions have none
        for name in self.resumable_parts.keys() & saved.keys():
            self.resumable_parts[name].set_state(saved[name], same_episodes)

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        self._rollout_start, self.resumable_parts = None, {}
        if reset_num_timesteps:
            self.training_state = None
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)

    def save(
        self,
        path: str | Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Writes a zip file that `load` and ``MaskablePPO.load`` read, as SB3 does.

        A file of that name is replaced at once or not at all. ``exclude=["training_state"]`` leaves out what only an
        exact resume needs; to act, or to go on learning in new episodes, the rest is enough.
        """
        exclude, pending = set(exclude or ()), self.training_state
        if pending is None and "training_state" not in exclude:
            state = self._rollout_start
            if state is None and self.env is not None and self._last_obs is not None:  # else no reset has been yet
                state = self._current_state(self.env)
            if state is not None:  # packed, so that reading a model for acting needs none of its classes
                packed = pickle.dumps(state | {"version": VERSION}, protocol=4)
                self.training_state = zlib.compress(packed, level=6)
        try:
            if isinstance(path, (str, Path)):
                target = Path(path) if Path(path).suffix else Path(f"{path}.zip")
                with replacing(target) as partial, partial.open("wb") as file:
                    super().save(file, exclude, include)
            else:
                super().save(path, exclude, include)
        finally:
            self.training_state = pending

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_rollout_start", "run_folder", "resumable_parts"]

    @classmethod
    def load(
        cls: type[Self], path: str | Path | io.BufferedIOBase, env: GymEnv | None = None, *args: Any, **kwargs: Any
    ) -> Self:
        """Reads a model as SB3 does; ``kwargs`` are SB3's, and arguments of the algorithm in place of those saved.

        Without an environment, that is to act, the global random generators are left alone. Raises `ValueError` for an
        unknown argument, which SB3 would make an attribute that nobody reads.
        """
        known = arguments_of(cls)
        require_all_known(f"argument of {cls.__name__}.load", kwargs, known and known.union(_OF_LOAD))
        with nullcontext() if env is not None else kept_random_state():
            return super().load(path, env, *args, **kwargs)


def _unpack(packed: bytes) -> State:
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
