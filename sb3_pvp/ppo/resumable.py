"""MaskablePPO whose files know where the run stood, so that it can go on as if it had never stopped."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import require_all_known
from sb3_pvp.common.signatures import arguments_of
from sb3_pvp.ppo import training_state as states
from sb3_pvp.ppo.training_state import State

Self = TypeVar("Self", bound="ResumablePPO")

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
    Subclasses call `_begin_rollout` before anything else in a roll-out, and `_end_rollout` after learning from it.
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
            self._resume(states.unpack(self.training_state), env)
            self.training_state = None
        self._rollout_start = self._current_state(env)

    def _end_rollout(self) -> None:
        self._rollout_start = None

    def _current_state(self, env: VecEnv) -> State:
        """Where the run stands between two roll-outs, in copies."""
        return {
            "attributes": {name: copy.deepcopy(getattr(self, name)) for name in self._changing},
            "policy_buffers": states.policy_buffers(self.policy),
            "last_obs": copy.deepcopy(self._last_obs),
            "last_episode_starts": copy.deepcopy(self._last_episode_starts),
            "env": states.env_state(env),
            "random": states.random_state(),
            "parts": {name: part.get_state() for name, part in self.resumable_parts.items()},
        }

    def _resume(self, state: State, env: VecEnv) -> None:
        """Goes on from a state; with a warning, and new episodes, if the environments cannot."""
        same_episodes = True
        try:
            states.set_env_state(env, state["env"])
        except ValueError as error:
            warnings.warn(f"Training goes on with new episodes, not exactly where it stopped: {error}", stacklevel=4)
            same_episodes = False
        else:
            self._last_obs, self._last_episode_starts = state["last_obs"], state["last_episode_starts"]
        vars(self).update(state["attributes"])
        self._num_timesteps_at_start = self.num_timesteps
        states.set_policy_buffers(self.policy, state["policy_buffers"])
        states.set_random_state(state["random"])
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
        self._end_rollout()
        self.resumable_parts = {}
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
            self.training_state = None if state is None else states.pack(state)
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
        with nullcontext() if env is not None else states.kept_random_state():
            return cls._load(path, env, *args, **kwargs)

    @classmethod
    def _load(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        return super().load(*args, **kwargs)
