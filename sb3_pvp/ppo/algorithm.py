"""`PvpPPO`: MaskablePPO for long self-play runs."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import fields
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, PyTorchObs
from stable_baselines3.common.utils import FloatSchedule, explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.arguments import AT_LEAST_0, POSITIVE
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import arguments_of, require_all_known
from sb3_pvp.contract import Contract
from sb3_pvp.game import is_installed
from sb3_pvp.policies.autoregressive import AUTO, AutoregressivePolicy
from sb3_pvp.policies.description import describe
from sb3_pvp.policies.model_files import find_model, is_fighter
from sb3_pvp.policies.precision import AUTO as PRECISION_AUTO
from sb3_pvp.policies.precision import check_precision, resolve_precision
from sb3_pvp.ppo import resumable
from sb3_pvp.ppo.buffers import REUSED
from sb3_pvp.ppo.hyperparameters import RANGES, is_schedule, value_at
from sb3_pvp.ppo.metrics import RolloutLog, record
from sb3_pvp.ppo.reward_normalizer import RewardNormalizer, returns_to_go
from sb3_pvp.ppo.update import PpoUpdate, UpdateLog, map_parts, read_buffer
from sb3_pvp.schedules import Schedule, parse_schedule

Self = TypeVar("Self", bound="PvpPPO")

#: Keyword arguments of SB3's `load` that are no arguments of the algorithm.
_LOAD_ARGUMENTS = ("custom_objects", "force_reset", "print_system_info")
#: Up to this width, synchronising threads takes longer than computing a layer.
MAX_WIDTH_FOR_ONE_THREAD = 256
#: Agent-steps whose values are computed at once.
ROWS_OF_VALUES = 2048


class PvpPPO(MaskablePPO):
    """`sb3_contrib.MaskablePPO` with schedules over rollouts, reward normalisation and exact resume.

    With default arguments it computes the same as MaskablePPO (training.md §6, §7).

    - ``learning_rate``, ``clip_range``, ``ent_coef``, ``vf_coef``, ``gamma``, ``gae_lambda``, ``n_epochs`` (0: no
      learning), ``batch_size``, ``max_grad_norm``, ``gradient_accumulation_steps`` and ``eps_greedy`` may each be a
      schedule of `sb3_pvp.schedules`, or its config. Schedules are functions of `trained_rollouts`, the number of
      finished rollouts; the attribute of the same name holds the current value.
    - A policy whose ``has_statistics`` is false does not learn from a rollout: it only collects statistics.
    - After `load`, ``learn(..., reset_num_timesteps=False)`` continues exactly as if the run had never stopped, if the
      vectorised environment has ``get_state`` and ``set_state``. A model saved in the middle of a rollout resumes at
      the start of that rollout. ``reset_num_timesteps=True`` starts a new run.
    - If the environments have a method ``set_trained_rollouts``, it is called before each rollout.
    - With an `AutoregressivePolicy`, the critic runs once at the end of a rollout and not at each step: the local
      ``values`` that SB3 shows to callbacks is NaN, those of ``on_rollout_end`` are in ``rollout_buffer.values``.
    - On the CPU, `learn` uses one thread for layers of up to 256 units: a second one made it 3 to 14 times slower.

    Args:
        policy: class of a masked policy, such as `sb3_pvp.policies.AutoregressivePolicy`, or one of SB3's names.
        env: environment with action masks, as in MaskablePPO.
        gradient_accumulation_steps: mini-batches per step of the optimiser (training.md §7.3).
        normalize_reward: divide rewards by the running standard deviation of discounted returns (training.md §6.2 c).
            Logged episode rewards remain raw.
        precision: ``"bf16"`` computes the products of hidden layers in bfloat16 while learning, with an
            `AutoregressivePolicy`; ``"fp32"`` everything in float32. ``"auto"`` measures once, before the model first
            learns, and takes bfloat16 if the layers are wide and it is clearly faster on this machine; then the
            attribute, which is saved, holds the choice.
        eps_greedy: probability per step that all environments take the most likely actions (training.md §6.1).
        kwargs: other arguments of MaskablePPO.

    Raises:
        ValueError: for an unknown argument, a hyperparameter out of range, or an invalid schedule.
    """

    #: Packed state of the run for exact resume; consumed by the first rollout after `load`.
    training_state: bytes | None = None
    #: Only while saving: the policy in plain values, see `sb3_pvp.policies.description`.
    description: dict[str, Any] | None = None
    #: State of the run at the start of the current rollout; ``None`` after learning.
    _rollout_start: resumable.State | None = None
    #: Folder where callbacks put their files; set by the program that starts the run, not saved.
    run_folder: str | Path | None = None

    def __init__(
        self,
        policy: str | type[MaskableActorCriticPolicy],
        env: GymEnv | str,
        *args: Any,
        gradient_accumulation_steps: int | dict[str, Any] | Schedule = 1,
        normalize_reward: bool = False,
        precision: str = PRECISION_AUTO,
        eps_greedy: float | dict[str, Any] | Schedule = 0.0,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        require_all_known(f"argument of {type(self).__name__}", kwargs, arguments_of(type(self)))
        super().__init__(policy, env, *args, **kwargs | {"_init_setup_model": False})
        self.gradient_accumulation_steps: Any = gradient_accumulation_steps
        self.normalize_reward = normalize_reward
        self.precision = precision
        self.eps_greedy: Any = eps_greedy
        self.trained_rollouts = 0  #: Rollouts finished over the life of the model, the time of all schedules; saved.
        self.num_updates = 0  #: Optimiser steps over the life of the model; saved.
        self.schedules: dict[str, Schedule] = {}  #: Hyperparameters that are functions of `trained_rollouts`.
        # From the environments, or ``None`` if they do not have them; saved with the model.
        self.frame_ages: tuple[int, ...] | None = None  #: Ages of the frames in an observation, in ticks.
        self.game: str | None = None  #: The game, as `sb3_pvp.game.find_game` takes it.
        self.reset_params: dict[str, Any] | None = None  #: The game's reset parameters.
        #: Running statistics of returns; unused without ``normalize_reward``.
        self.reward_normalizer = RewardNormalizer()
        #: Objects saved with the run, by name; callbacks register in ``_init_callback``. ``get_state()`` returns copies
        #: to pickle, ``set_state(state, same_episodes)`` restores; ``same_episodes``: the environments resumed theirs.
        self.resumable_parts: dict[str, Any] = {}
        if _init_setup_model:  # a loaded model keeps the contract it was trained with
            self._adopt_contract()
            self._setup_model()

    def _setup_model(self) -> None:
        """Checks arguments, collects the schedules, and reads from the environments what is saved with the model."""
        POSITIVE.check(n_steps=self.n_steps)
        known = arguments_of(self.policy_class, without=("observation_space", "action_space", "lr_schedule"))
        require_all_known(f"argument of {self.policy_class.__name__}", self.policy_kwargs, known)
        given = {name: getattr(self, name) for name in RANGES}
        self.schedules |= {name: parse_schedule(value) for name, value in given.items() if is_schedule(value)}
        self._apply_schedules()
        super()._setup_model()
        buffer: Any = self.rollout_buffer
        if type(buffer) in REUSED:  # by default; another class that the user has chosen stays
            sizes = {name: getattr(buffer, name) for name in ("device", "gamma", "gae_lambda", "n_envs")}
            own_class: Any = REUSED[type(buffer)]
            self.rollout_buffer = own_class(self.n_steps, self.observation_space, self.action_space, **sizes)
        check_precision(self.precision, self.policy)
        if self.env is not None and self.env.has_attr("frame_ages"):
            self.frame_ages = self.env.get_attr("frame_ages", indices=[0])[0]
            fights = self.env.get_attr("match_settings", indices=[0])[0]
            self.game, self.reset_params = (fights["game"], fights["reset_params"]) if fights else (None, None)

    def _adopt_contract(self) -> None:
        """Passes the environments' contract to the policy, unless any process can look it up by its name."""
        env, given = self.env, self.policy_kwargs.get("contract", AUTO)
        if env is None or given != AUTO or not issubclass(self.policy_class, AutoregressivePolicy):
            return
        contract = env.get_attr("contract", indices=[0])[0] if env.has_attr("contract") else None
        if isinstance(contract, Contract) and contract.action_space == self.action_space and not is_installed(contract):
            self.policy_kwargs = {**self.policy_kwargs, "contract": contract}

    def _apply_schedules(self) -> None:
        """Sets the hyperparameters to their values at `trained_rollouts`."""
        for name in RANGES:
            given = self.schedules.get(name, getattr(self, name))
            setattr(self, name, value_at(name, given, self.trained_rollouts))
        # SB3 wraps numbers into schedules only in _setup_model; train() calls them.
        self._setup_lr_schedule()
        self.clip_range = FloatSchedule(self.clip_range)

    def learn(self: Self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """Same as `MaskablePPO.learn`, but with one thread of PyTorch for small networks on the CPU."""
        AT_LEAST_0.check(total_timesteps=total_timesteps)
        widths = [part.shape[-1] for name, part in self.policy.named_parameters() if name.endswith("bias")]
        is_small = self.device.type == "cpu" and max(widths, default=0) <= MAX_WIDTH_FOR_ONE_THREAD
        threads = th.get_num_threads()
        th.set_num_threads(1 if is_small else threads)
        try:
            return super().learn(total_timesteps, *args, **kwargs)
        finally:
            th.set_num_threads(threads)

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Same as in MaskablePPO, plus exact resume, ``eps_greedy`` and the metrics of the rollout."""
        assert isinstance(rollout_buffer, (MaskableRolloutBuffer, MaskableDictRolloutBuffer)), "it cannot store masks"
        self._begin_rollout(env)
        if use_masking and not is_masking_supported(env):
            raise ValueError("Environment does not support action masking. Consider using ActionMasker wrapper")
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        rollout_buffer.gamma, rollout_buffer.gae_lambda = self.gamma, self.gae_lambda
        # SB3's function calls each environment in turn; PvpVecEnv has the masks of all of them at hand.
        get_masks = getattr(env, "action_masks", None) or partial(get_action_masks, env)
        action_masks, n_steps, log = None, 0, RolloutLog()
        callback.on_rollout_start()
        while n_steps < n_rollout_steps:
            obs_tensor = obs_as_tensor(self._last_obs, self.device)  # type: ignore[arg-type]
            if use_masking:
                action_masks = get_masks()
            # Sampled only if needed: with eps_greedy 0 the random stream must be that of SB3.
            is_greedy = self.eps_greedy > 0 and bool(th.rand(()) < self.eps_greedy)
            with th.no_grad():
                actions, values, log_probs = self._act(obs_tensor, is_greedy, action_masks)
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            # Callbacks read these locals by SB3's names, and may add to the rewards in place.
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            n_steps += 1
            self._update_info_buffer(infos, dones)
            log.add_step(rewards, dones, infos)  # raw rewards, so before bootstrapping
            self._bootstrap_truncated(rewards, dones, infos)
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            rollout_buffer.add(
                self._last_obs,
                actions,
                rewards,
                self._last_episode_starts,
                values,
                log_probs,
                action_masks=action_masks,
            )
            self._last_obs, self._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        self._finish_rollout(log, dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _act(
        self, obs: PyTorchObs, deterministic: bool, action_masks: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], th.Tensor, th.Tensor]:
        """Returns actions, values and log-probabilities; values are NaN where `_compute_values` follows."""
        if isinstance(self.policy, AutoregressivePolicy):
            actions, log_probs = self.policy.act(obs, deterministic, action_masks)
            values = th.full_like(log_probs, th.nan)
        else:
            actions, values, log_probs = self.policy(obs, deterministic, action_masks=action_masks)
        return actions.cpu().numpy(), values, log_probs

    def _compute_values(self) -> None:
        """Computes the values of the rollout in the buffer, if they were not when acting.

        Step by step, a wide critic would take twice as long: its weights leave the cache while others run."""
        if not isinstance(self.policy, AutoregressivePolicy):
            return
        buffer: Any = self.rollout_buffer
        rows = map_parts(buffer.observations, lambda each: each.reshape(-1, *each.shape[2:]))
        parts = [slice(start, start + ROWS_OF_VALUES) for start in range(0, buffer.values.size, ROWS_OF_VALUES)]
        seen = (obs_as_tensor(map_parts(rows, itemgetter(part)), self.device) for part in parts)
        values = th.cat([*map(self.policy.predict_values, seen)])
        buffer.values[:] = values.reshape(buffer.values.shape).cpu().numpy()

    def _begin_rollout(self, env: VecEnv) -> None:
        """Resumes a loaded run, records where this rollout starts, and moves the schedules."""
        if self.training_state is not None:
            # Here rather than in load(): only now callbacks have registered their parts, and the env was reset.
            resumable.resume(self, resumable.unpack(self.training_state), env)
            self.training_state = None
        self._rollout_start = resumable.current_state(self, env)
        self._apply_schedules()
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)

    def _bootstrap_truncated(
        self, rewards: NDArray[np.float32], dones: NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> None:
        """Adds the discounted last value of truncated episodes to ``rewards (envs,)`` in place (training.md §6.2 b)."""
        cut = [
            index
            for index in np.flatnonzero(dones)
            if infos[index].get("TimeLimit.truncated", False) and infos[index].get("terminal_observation") is not None
        ]
        if cut:
            last = _stack([infos[index]["terminal_observation"] for index in cut])
            with th.no_grad():
                values = self.policy.predict_values(self.policy.obs_to_tensor(last)[0])
            rewards[cut] += self.gamma * self._to_raw_scale(values)

    def _to_raw_scale(self, values: th.Tensor) -> NDArray[np.float32]:
        """Returns values ``(batch,)`` on the scale of raw rewards; the critic predicts normalised ones."""
        raw = values.cpu().numpy().flatten()
        return raw * np.float32(self.reward_normalizer.std) if self.normalize_reward else raw

    def _finish_rollout(self, log: RolloutLog, dones: NDArray[np.bool_]) -> None:
        """Computes values, normalises rewards and computes advantages (training.md §6.2 c and d)."""
        log.finalizing, buffer = time.perf_counter(), self.rollout_buffer
        with th.no_grad():
            last_values = self.policy.predict_values(obs_as_tensor(self._last_obs, self.device))  # type: ignore[arg-type]
            self._compute_values()
        if self.normalize_reward:
            raw_values = self._to_raw_scale(last_values)
            returns = returns_to_go(buffer.rewards, buffer.episode_starts, raw_values, dones, self.gamma)
            self.reward_normalizer.update(returns)
            buffer.rewards = self.reward_normalizer(buffer.rewards)
            record(self.logger, "rollout", self.reward_normalizer.metrics(buffer.rewards))
        buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        numbers = {name: getattr(self, name) for name in ("eps_greedy", "gamma", "gae_lambda")}
        record(self.logger, "rollout", log.metrics(buffer) | numbers)

    def train(self) -> None:
        """Learns from the rollout in the buffer (training.md §7)."""
        started = time.perf_counter()
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._resolve_precision()
        numbers: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(PpoUpdate)}
        for name in ("clip_range", "clip_range_vf"):
            if numbers[name] is not None:
                numbers[name] = numbers[name](self._current_progress_remaining)
        update = PpoUpdate(**numbers)
        n_epochs = self.n_epochs if getattr(self.policy, "has_statistics", True) else 0
        log = update.run(read_buffer(self.rollout_buffer), n_epochs)
        # AutoregressivePolicy applies the statistics of the rollout here.
        self.policy.set_training_mode(False)
        self._n_updates += len(log.epoch_starts)
        self.num_updates += len(log.grad_norms)
        self.trained_rollouts += 1
        self._rollout_start = None
        metrics = self._update_metrics(update, log)
        record(self.logger, "train", metrics | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _resolve_precision(self) -> None:
        """Replaces ``"auto"`` by what is faster here; a run that resumes elsewhere keeps it."""
        given, self.precision = self.precision, resolve_precision(self.precision, self.policy)
        if given != self.precision and self.verbose:
            print(f"Learning with precision {self.precision}")

    def _update_metrics(self, update: PpoUpdate, log: UpdateLog) -> dict[str, Any]:
        """Returns the metrics of a learning phase, by tag without ``train/``."""
        buffer = self.rollout_buffer
        metrics = {
            "total_steps": self.num_timesteps,
            "trained_rollouts": self.trained_rollouts,
            "epochs": len(log.epoch_starts),
            "num_updates": len(log.grad_norms),
            "batch_size": update.batch_size or buffer.rewards.size,
            "grad_accum": update.gradient_accumulation_steps,
            "max_grad_norm": update.max_grad_norm,
            "entropy_coef": update.ent_coef,
            "vf_coef": update.vf_coef,
            "clip_coef": update.clip_range,
            "clip_range": update.clip_range,
        }
        if update.clip_range_vf is not None:
            metrics["clip_range_vf"] = update.clip_range_vf
        if log.terms:
            metrics |= log.metrics(getattr(self.policy, "head_ids", None))
            metrics["explained_variance"] = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        return metrics

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[int, BaseCallback]:
        """Drops the callbacks of the last call; a new run also drops the state it would resume from."""
        self._rollout_start, self.resumable_parts = None, {}
        if reset_num_timesteps:
            self.training_state = None
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args, **kwargs)

    def save(
        self,
        path: str | Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Writes a zip file for `load` and ``MaskablePPO.load``, as SB3 does, but atomically.

        ``exclude=["training_state"]`` omits what only exact resume needs; learning can still continue in new episodes.
        """
        exclude, pending = set(exclude or ()), self.training_state
        if pending is None and "training_state" not in exclude:
            state = self._rollout_start
            if state is None and self.env is not None and self._last_obs is not None:  # None before the first reset
                state = resumable.current_state(self, self.env)
            self.training_state = None if state is None else resumable.pack(state)
        self.description = None
        with suppress(ValueError):  # such a model cannot be loaded without unpickling
            self.description = describe(self).plain()
        try:
            if isinstance(path, (str, Path)):
                target = Path(path) if Path(path).suffix else Path(f"{path}.zip")
                with replacing(target) as partial, partial.open("wb") as file:
                    super().save(file, exclude, include)
            else:
                super().save(path, exclude, include)
        finally:
            self.training_state = pending
            del self.description

    def _excluded_save_params(self) -> list[str]:
        """Also excludes what belongs to the process or is packed into `training_state`."""
        return [*super()._excluded_save_params(), "_rollout_start", "run_folder", "resumable_parts"]

    @classmethod
    def load(
        cls: type[Self], path: str | Path | io.BufferedIOBase, env: GymEnv | None = None, *args: Any, **kwargs: Any
    ) -> Self:
        """Loads a model as SB3 does; ``kwargs`` are SB3's, or arguments of the algorithm that replace the saved ones.

        Without ``env``, that is for inference, the global random generators are left unchanged.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is no model, or an argument is unknown (SB3 would set an unused attribute).
        """
        known = arguments_of(cls)
        require_all_known(f"argument of {cls.__name__}.load", kwargs, known and known.union(_LOAD_ARGUMENTS))
        file = find_model(path) if isinstance(path, (str, Path)) else path
        if isinstance(file, Path) and is_fighter(file):
            raise ValueError(f"{file} is for inference only (sb3_pvp.load): to train, load the zip that it was made of")
        try:
            with nullcontext() if env is not None else resumable.preserved_random_state():
                model = super().load(file, env, *args, **kwargs)
        except AssertionError as error:  # SB3 asserts that the file has data and parameters
            raise ValueError(f"{file} is not a model: {error}") from error
        vars(model).pop("description", None)
        # A number given here replaces a saved schedule; _setup_model() has already stored schedules given here.
        for name in model.schedules.keys() & kwargs.keys():
            if not is_schedule(kwargs[name]):
                del model.schedules[name]
                setattr(model, name, kwargs[name])
        model._apply_schedules()
        return model


def _stack(observations: list[Any]) -> Any:
    """Stacks arrays or Dict observations along a new first axis."""
    if isinstance(observations[0], dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack(observations)
