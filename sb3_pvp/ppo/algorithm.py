"""`PvpPPO`: MaskablePPO with what long self-play runs need."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import FloatSchedule, explained_variance, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.contract import Contract
from sb3_pvp.game import is_installed
from sb3_pvp.policies.autoregressive import AUTO, AutoregressivePolicy
from sb3_pvp.ppo.hyperparameters import RANGES, read_constant, read_schedule, scheduled_number
from sb3_pvp.ppo.metrics import RolloutLog, record
from sb3_pvp.ppo.resumable import ResumablePPO
from sb3_pvp.ppo.reward_normalizer import RewardNormalizer, returns_to_go
from sb3_pvp.ppo.update import PpoUpdate, UpdateLog, read_buffer
from sb3_pvp.schedules import Schedule

Self = TypeVar("Self", bound="PvpPPO")

#: Layers up to this width are computed in less time than it takes several threads to meet.
WIDEST_FOR_ONE_THREAD = 256


class PvpPPO(ResumablePPO):
    """`sb3_contrib.MaskablePPO`, which it equals with default arguments, and the following.

    - ``learning_rate``, ``clip_range``, ``ent_coef``, ``vf_coef``, ``gamma``, ``gae_lambda``, ``n_epochs``,
      ``batch_size``, ``max_grad_norm`` and the arguments below, except ``normalize_reward``, may each be a schedule of
      `sb3_pvp.schedules`, or the config of one. Its time is the number of finished roll-outs, `trained_rollouts`; the
      attribute of the same name holds its current value.
    - A policy whose ``has_statistics`` is false does not learn from a roll-out; it only gathers statistics.
    - What `save` writes lets `load` and ``learn(..., reset_num_timesteps=False)`` go on exactly as if the run had never
      stopped, if the vectorised environment has ``get_state`` and ``set_state``. A model saved in the middle of a
      roll-out goes on from its beginning. Only `reset_num_timesteps=True` starts a new run.
    - Environments that have a method ``set_trained_rollouts`` are told the time of schedules before each roll-out.
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
        ValueError: for a hyperparameter out of its range, or a wrong schedule.
    """

    _changing: ClassVar[tuple[str, ...]] = (*ResumablePPO._changing, "reward_normalizer")

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
        super().__init__(policy, env, *args, **kwargs | {"_init_setup_model": False})
        self.gradient_accumulation_steps: Any = gradient_accumulation_steps
        self.normalize_reward = normalize_reward
        self.eps_greedy: Any = eps_greedy
        #: Finished roll-outs in the life of the model, the time of all schedules; persisted.
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
        if _init_setup_model:  # what is loaded has the rules that it was trained with
            self._take_contract()
            self._setup_model()

    def _setup_model(self) -> None:
        given = {name: read_schedule(getattr(self, name)) for name in RANGES}
        self.schedules |= {name: schedule for name, schedule in given.items() if schedule is not None}
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
        for name, schedule in self.schedules.items():
            setattr(self, name, scheduled_number(name, schedule, self.trained_rollouts))
        for name in RANGES:
            setattr(self, name, read_constant(name, getattr(self, name)))
        self._setup_lr_schedule()
        self.clip_range = FloatSchedule(self.clip_range)

    def learn(self: Self, *args: Any, **kwargs: Any) -> Self:
        """See `MaskablePPO.learn`; small networks get one thread meanwhile."""
        biases = [part.shape[-1] for name, part in self.policy.named_parameters() if name.endswith("bias")]
        if self.device.type != "cpu" or max(biases, default=0) > WIDEST_FOR_ONE_THREAD:
            return super().learn(*args, **kwargs)
        threads = th.get_num_threads()
        th.set_num_threads(1)
        try:
            return super().learn(*args, **kwargs)
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
        action_masks, n_steps, log = None, 0, RolloutLog()
        callback.on_rollout_start()
        while n_steps < n_rollout_steps:
            obs_tensor = obs_as_tensor(self._last_obs, self.device)  # type: ignore[arg-type]
            if use_masking:
                action_masks = _masks(env)
            with th.no_grad():
                actions, values, log_probs = self.policy(obs_tensor, self._is_greedy(), action_masks=action_masks)
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
        super()._begin_rollout(env)
        self._follow_schedules()
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)

    def _is_greedy(self) -> bool:
        # Drawn only where there is a choice, so that without it the random numbers are those of SB3.
        return self.eps_greedy > 0 and bool(th.rand(()) < self.eps_greedy)

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
        """Learns from the roll-out in the buffer (training.md §7)."""
        started = time.perf_counter()
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        update = self._update()
        n_epochs = self.n_epochs if getattr(self.policy, "has_statistics", True) else 0
        log = update.run(read_buffer(self.rollout_buffer), n_epochs)
        # Some policies take over here what they have seen in the roll-out.
        self.policy.set_training_mode(False)
        self._n_updates += len(log.epoch_starts)
        self.num_updates += len(log.grad_norms)
        self.trained_rollouts += 1
        self._rollout_start = None
        figures = self._update_figures(update, log)
        record(self.logger, "train", figures | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _update(self) -> PpoUpdate:
        numbers: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(PpoUpdate)}
        for name in ("clip_range", "clip_range_vf"):
            if numbers[name] is not None:
                numbers[name] = numbers[name](self._current_progress_remaining)
        return PpoUpdate(**numbers)

    def _update_figures(self, update: PpoUpdate, log: UpdateLog) -> dict[str, Any]:
        buffer = self.rollout_buffer
        figures = update.figures() | {
            "total_steps": self.num_timesteps,
            "trained_rollouts": self.trained_rollouts,
            "epochs": len(log.epoch_starts),
            "num_updates": len(log.grad_norms),
            "batch_size": update.batch_size or buffer.rewards.size,
        }
        if log.terms:
            figures |= log.figures(getattr(self.policy, "head_ids", None))
            figures["explained_variance"] = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        return figures

    @classmethod
    def load(cls: type[Self], *args: Any, **kwargs: Any) -> Self:
        """See `ResumablePPO.load`."""
        model = super().load(*args, **kwargs)
        # A number in place of a saved schedule; a schedule has found its place already.
        for name in RANGES.keys() & kwargs.keys():
            if read_schedule(kwargs[name]) is None:
                model.schedules.pop(name, None)
                setattr(model, name, kwargs[name])
        model._follow_schedules()
        return model


def _masks(env: VecEnv) -> NDArray[np.bool_]:
    """The masks of all environments ``(num_envs, flat actions)``, in one call if the environment offers that."""
    method = getattr(env, "action_masks", None)
    masks: NDArray[np.bool_] = method() if callable(method) else get_action_masks(env)
    return masks


def _stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack(observations)
