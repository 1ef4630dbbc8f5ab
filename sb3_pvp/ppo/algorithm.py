"""`PvpPPO`: MaskablePPO with what long self-play runs need."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
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
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import FloatSchedule, explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.arguments import AT_LEAST_0, POSITIVE
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import arguments_of, require_all_known
from sb3_pvp.contract import Contract
from sb3_pvp.game import is_installed
from sb3_pvp.policies.autoregressive import AUTO, AutoregressivePolicy
from sb3_pvp.policies.model_files import find_model
from sb3_pvp.ppo import resumable
from sb3_pvp.ppo.hyperparameters import RANGES, is_schedule, value_at
from sb3_pvp.ppo.metrics import RolloutLog, record
from sb3_pvp.ppo.reward_normalizer import RewardNormalizer, returns_to_go
from sb3_pvp.ppo.update import PpoUpdate, UpdateLog, read_buffer
from sb3_pvp.schedules import Schedule, parse_schedule

Self = TypeVar("Self", bound="PvpPPO")

#: What SB3's `load` itself takes by name, besides arguments of the algorithm.
_OF_LOAD = ("custom_objects", "force_reset", "print_system_info")
#: Layers up to this width are computed in less time than it takes several threads to meet.
WIDEST_FOR_ONE_THREAD = 256


class PvpPPO(MaskablePPO):
    """`sb3_contrib.MaskablePPO`, which it equals with default arguments, and the following.

    - ``learning_rate``, ``clip_range``, ``ent_coef``, ``vf_coef``, ``gamma``, ``gae_lambda``, ``n_epochs`` (0: learn
      nothing), ``batch_size``, ``max_grad_norm`` and the arguments below, except ``normalize_reward``, may each be a
      schedule of `sb3_pvp.schedules`, or the config of one. Its time is the number of finished rollouts,
      `trained_rollouts`; the attribute of the same name holds its current value.
    - A policy whose ``has_statistics`` is false does not learn from a rollout; it only gathers statistics.
    - What `save` writes lets `load` and ``learn(..., reset_num_timesteps=False)`` go on exactly as if the run had never
      stopped, if the vectorised environment has ``get_state`` and ``set_state``. A model saved in the middle of a
      rollout goes on from its beginning. Only `reset_num_timesteps=True` starts a new run.
    - Environments that have a method ``set_trained_rollouts`` are told the time of schedules before each rollout.
    - While it learns on the CPU with no layer wider than 256, PyTorch has one thread: a second one made that 3 to 14
      times slower. With wider networks it has as many as it was given.

    Args:
        policy: a class of masked policies, such as `sb3_pvp.policies.AutoregressivePolicy`, or one of SB3's names.
        env: the environment; with action masks, as MaskablePPO needs them.
        gradient_accumulation_steps: mini-batches whose gradients make one step of the optimiser (training.md §7.3).
        normalize_reward: divide rewards by the running spread of discounted returns (training.md §6.2 c). What is
            logged as the reward of an episode remains raw.
        eps_greedy: probability that the actions of all environments in a step are the most likely ones (training.md
            §6.1).
        kwargs: the other arguments of MaskablePPO.

    Raises:
        ValueError: for an unknown argument, a hyperparameter out of its range, or a wrong schedule.
    """

    #: What a loaded model will resume from, packed; taken up by the first rollout.
    training_state: bytes | None = None
    #: Where the run stood when this rollout began; forgotten after learning.
    _rollout_start: resumable.State | None = None
    #: The folder of the run, where callbacks put their files, if whoever started the run has set it; not saved.
    run_folder: str | Path | None = None

    def __init__(
        self,
        policy: str | type[MaskableActorCriticPolicy],
        env: GymEnv | str,
        *args: Any,
        gradient_accumulation_steps: int | dict[str, Any] | Schedule = 1,
        normalize_reward: bool = False,
        eps_greedy: float | dict[str, Any] | Schedule = 0.0,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        require_all_known(f"argument of {type(self).__name__}", kwargs, arguments_of(type(self)))
        super().__init__(policy, env, *args, **kwargs | {"_init_setup_model": False})
        self.gradient_accumulation_steps: Any = gradient_accumulation_steps
        self.normalize_reward = normalize_reward
        self.eps_greedy: Any = eps_greedy
        #: Finished rollouts in the life of the model, the time of all schedules; persisted.
        self.trained_rollouts = 0
        #: Steps of the optimiser in the life of the model; persisted.
        self.num_updates = 0
        #: The hyperparameters that change with `trained_rollouts`.
        self.schedules: dict[str, Schedule] = {}
        #: The frames that the environments show, in ticks before the newest one, if they tell; persisted.
        self.frame_ages: tuple[int, ...] | None = None
        #: What is played, as `sb3_pvp.game.find_game` takes it, if the environments tell; persisted.
        self.game: str | None = None
        #: How fights start there, the game's reset parameters, if the environments tell; persisted.
        self.reset_params: dict[str, Any] | None = None
        #: The running statistics of returns; unused without ``normalize_reward``.
        self.reward_normalizer = RewardNormalizer()
        #: What is saved and resumed with the run, by name; callbacks add themselves in their ``_init_callback``. Their
        #: ``get_state()`` gives copies that can be pickled, and ``set_state(state, same_episodes)`` goes back there;
        #: ``same_episodes``: so did the environments, in their episodes.
        self.resumable_parts: dict[str, Any] = {}
        if _init_setup_model:  # what is loaded has the rules that it was trained with
            self._take_contract()
            self._setup_model()

    def _setup_model(self) -> None:
        POSITIVE.check(n_steps=self.n_steps)
        known = arguments_of(self.policy_class, without=("observation_space", "action_space", "lr_schedule"))
        require_all_known(f"argument of {self.policy_class.__name__}", self.policy_kwargs, known)
        given = {name: getattr(self, name) for name in RANGES}
        self.schedules |= {name: parse_schedule(value) for name, value in given.items() if is_schedule(value)}
        self._follow_schedules()
        super()._setup_model()
        if self.env is not None and self.env.has_attr("frame_ages"):
            self.frame_ages = self.env.get_attr("frame_ages", indices=[0])[0]
            fights = self.env.get_attr("kind_of_fights", indices=[0])[0]
            self.game, self.reset_params = (fights["game"], fights["reset_params"]) if fights else (None, None)

    def _take_contract(self) -> None:
        """Gives the policy the rules of what is played, unless it finds them by itself, in any process."""
        env, asked = self.env, self.policy_kwargs.get("contract", AUTO)
        if env is None or asked != AUTO or not issubclass(self.policy_class, AutoregressivePolicy):
            return
        contract = env.get_attr("contract", indices=[0])[0] if env.has_attr("contract") else None
        if isinstance(contract, Contract) and contract.action_space == self.action_space and not is_installed(contract):
            self.policy_kwargs = {**self.policy_kwargs, "contract": contract}

    def _follow_schedules(self) -> None:
        """Sets the hyperparameters to their values at this time."""
        for name in RANGES:
            given = self.schedules.get(name, getattr(self, name))
            setattr(self, name, value_at(name, given, self.trained_rollouts))
        self._setup_lr_schedule()
        self.clip_range = FloatSchedule(self.clip_range)

    def learn(self: Self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """See `MaskablePPO.learn`; small networks get one thread meanwhile."""
        AT_LEAST_0.check(total_timesteps=total_timesteps)
        biases = [part.shape[-1] for name, part in self.policy.named_parameters() if name.endswith("bias")]
        is_small = self.device.type == "cpu" and max(biases, default=0) <= WIDEST_FOR_ONE_THREAD
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
        """Fills the buffer with steps of the current policy; false if a callback ended the training, as in SB3."""
        assert isinstance(rollout_buffer, (MaskableRolloutBuffer, MaskableDictRolloutBuffer)), "it cannot store masks"
        self._begin_rollout(env)
        if use_masking and not is_masking_supported(env):
            raise ValueError("Environment does not support action masking. Consider using ActionMasker wrapper")
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        rollout_buffer.gamma, rollout_buffer.gae_lambda = self.gamma, self.gae_lambda
        # In one call, if the environment offers that.
        get_masks = getattr(env, "action_masks", None) or partial(get_action_masks, env)
        action_masks, n_steps, log = None, 0, RolloutLog()
        callback.on_rollout_start()
        while n_steps < n_rollout_steps:
            obs_tensor = obs_as_tensor(self._last_obs, self.device)  # type: ignore[arg-type]
            if use_masking:
                action_masks = get_masks()
            # Drawn only where there is a choice, so that without it the random numbers are those of SB3.
            is_greedy = self.eps_greedy > 0 and bool(th.rand(()) < self.eps_greedy)
            with th.no_grad():
                actions, values, log_probs = self.policy(obs_tensor, is_greedy, action_masks=action_masks)
            actions = actions.cpu().numpy()
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            # Callbacks see these names, which are those of SB3, and may add to the rewards in place.
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            n_steps += 1
            self._update_info_buffer(infos, dones)
            log.add_step(rewards, dones, infos)
            self._add_rest_of_truncated(rewards, dones, infos)
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

    def _begin_rollout(self, env: VecEnv) -> None:
        if self.training_state is not None:
            resumable.resume(self, resumable.unpack(self.training_state), env)
            self.training_state = None
        self._rollout_start = resumable.current_state(self, env)
        self._follow_schedules()
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)

    def _add_rest_of_truncated(
        self, rewards: NDArray[np.float32], dones: NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> None:
        """Adds the discounted value of what was cut off to the rewards, in place (training.md §6.2 b)."""
        cut = [
            index
            for index in np.flatnonzero(dones)
            if infos[index].get("TimeLimit.truncated", False) and infos[index].get("terminal_observation") is not None
        ]
        if cut:
            last = _stack([infos[index]["terminal_observation"] for index in cut])
            with th.no_grad():
                values = self.policy.predict_values(self.policy.obs_to_tensor(last)[0])
            rewards[cut] += self.gamma * self._on_reward_scale(values)

    def _on_reward_scale(self, values: th.Tensor) -> NDArray[np.float32]:
        """Values ``(batch,)`` on the scale of raw rewards: the critic learns the normalised ones."""
        raw = values.cpu().numpy().flatten()
        return raw * np.float32(self.reward_normalizer.std) if self.normalize_reward else raw

    def _finish_rollout(self, log: RolloutLog, dones: NDArray[np.bool_]) -> None:
        """Normalises rewards and computes advantages (training.md §6.2 c and d)."""
        log.finalizing, buffer = time.perf_counter(), self.rollout_buffer
        with th.no_grad():
            last_values = self.policy.predict_values(obs_as_tensor(self._last_obs, self.device))  # type: ignore[arg-type]
        if self.normalize_reward:
            raw_values = self._on_reward_scale(last_values)
            returns = returns_to_go(buffer.rewards, buffer.episode_starts, raw_values, dones, self.gamma)
            self.reward_normalizer.update(returns)
            buffer.rewards = self.reward_normalizer(buffer.rewards)
            record(self.logger, "rollout", self.reward_normalizer.figures(buffer.rewards))
        buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        numbers = {name: getattr(self, name) for name in ("eps_greedy", "gamma", "gae_lambda")}
        record(self.logger, "rollout", log.figures(buffer) | numbers)

    def train(self) -> None:
        """Learns from the rollout in the buffer (training.md §7)."""
        started = time.perf_counter()
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        numbers: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(PpoUpdate)}
        for name in ("clip_range", "clip_range_vf"):
            if numbers[name] is not None:
                numbers[name] = numbers[name](self._current_progress_remaining)
        update = PpoUpdate(**numbers)
        n_epochs = self.n_epochs if getattr(self.policy, "has_statistics", True) else 0
        log = update.run(read_buffer(self.rollout_buffer), n_epochs)
        # Some policies take over here what they have seen in the rollout.
        self.policy.set_training_mode(False)
        self._n_updates += len(log.epoch_starts)
        self.num_updates += len(log.grad_norms)
        self.trained_rollouts += 1
        self._rollout_start = None
        figures = self._update_figures(update, log)
        record(self.logger, "train", figures | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _update_figures(self, update: PpoUpdate, log: UpdateLog) -> dict[str, Any]:
        buffer = self.rollout_buffer
        figures = {
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
            figures["clip_range_vf"] = update.clip_range_vf
        if log.terms:
            figures |= log.figures(getattr(self.policy, "head_ids", None))
            figures["explained_variance"] = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        return figures

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[int, BaseCallback]:
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
        """Writes a zip file that `load` and ``MaskablePPO.load`` read, as SB3 does.

        A file of that name is replaced at once or not at all. ``exclude=["training_state"]`` leaves out what only an
        exact resume needs; to act, or to go on learning in new episodes, the rest is enough.
        """
        exclude, pending = set(exclude or ()), self.training_state
        if pending is None and "training_state" not in exclude:
            state = self._rollout_start
            if state is None and self.env is not None and self._last_obs is not None:  # else no reset has been yet
                state = resumable.current_state(self, self.env)
            self.training_state = None if state is None else resumable.pack(state)
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

        Without an environment, that is to act, the global random generators are left alone. Raises
        `FileNotFoundError`, and `ValueError` for what is no model, and for an unknown argument, which SB3 would make an
        attribute that nobody reads.
        """
        known = arguments_of(cls)
        require_all_known(f"argument of {cls.__name__}.load", kwargs, known and known.union(_OF_LOAD))
        file = find_model(path) if isinstance(path, (str, Path)) else path
        try:
            with nullcontext() if env is not None else resumable.kept_random_state():
                model = super().load(file, env, *args, **kwargs)
        except AssertionError as error:  # by which SB3 says that something is missing in the file
            raise ValueError(f"{file} is not a model: {error}") from error
        # A number in place of a saved schedule; a schedule has found its place already.
        for name in model.schedules.keys() & kwargs.keys():
            if not is_schedule(kwargs[name]):
                del model.schedules[name]
                setattr(model, name, kwargs[name])
        model._follow_schedules()
        return model


def _stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack(observations)
