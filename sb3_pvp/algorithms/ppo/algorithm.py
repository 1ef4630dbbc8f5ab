"""`PvpPPO`: MaskablePPO for long self-play runs.

The order of events, which stands here from top to bottom; what they compute is in the modules beside this one:

1. `learn`: actors begin, if there are any, and callbacks register. Then by turns, as in SB3:
2. `collect_rollouts`: a loaded run resumes, schedules move on, callbacks hear of it (`_begin_rollout`); steps fill the
   buffer (`_play`, or actors), then values, normalised rewards and advantages (`_finish_rollout`).
3. `train`: the rollout becomes gradients (`update.PpoUpdate`), and counts as trained.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import FloatSchedule, obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv, FleetFactory, PlayedStep
from sb3_pvp.algorithms.actors.fleet import compute_values
from sb3_pvp.algorithms.actors.local_actors import LocalActors
from sb3_pvp.algorithms.actors.rollout_memory import MEMORY, RolloutMemory, at_end, of_truncated, shape_of_states
from sb3_pvp.algorithms.hyperparameters import RANGES, RAW_OBSERVATIONS, check_head_weights, is_schedule, value_at
from sb3_pvp.algorithms.ppo import resumable
from sb3_pvp.algorithms.ppo.actor_choice import play_on, rollout_of_actors, with_actors
from sb3_pvp.algorithms.ppo.average import EMA_DECAY, WeightAverage
from sb3_pvp.algorithms.ppo.buffers import narrowed, reused
from sb3_pvp.algorithms.ppo.magnet import Magnet, make_magnet, place_of
from sb3_pvp.algorithms.ppo.reward_normalizer import RewardNormalizer, returns_to_go
from sb3_pvp.algorithms.ppo.rollout_log import RolloutLog, truncated
from sb3_pvp.algorithms.ppo.update import PpoUpdate, read_buffer, record
from sb3_pvp.common.arguments import AT_LEAST_0, POSITIVE, Kind, NonNegativeInt, check_mask
from sb3_pvp.common.errors import arguments_of, require_all_known
from sb3_pvp.common.schedules import Schedule, parse_schedule
from sb3_pvp.game import is_installed
from sb3_pvp.game.contract import Contract
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.contracts import AUTO
from sb3_pvp.policies.features import ACTION_MASK, map_parts
from sb3_pvp.policies.files.description import describe
from sb3_pvp.policies.files.model_files import load_to_train
from sb3_pvp.policies.files.shipped import find_model, is_fighter
from sb3_pvp.policies.networks import AUTO as PRECISION_AUTO
from sb3_pvp.policies.networks import check_precision, resolve_precision, threads

Self = TypeVar("Self", bound="PvpPPO")

#: Up to this width, synchronising threads takes longer than computing a layer.
MAX_WIDTH_FOR_ONE_THREAD = 256
_ACTORS = Kind[Any](NonNegativeInt | Literal["auto"], "a number of processes, or 'auto'")


class PvpPPO(MaskablePPO):
    """`sb3_contrib.MaskablePPO` with schedules over rollouts, reward normalisation and exact resume.

    With default arguments it computes the same as MaskablePPO (training.md §6, §7).

    - ``learning_rate``, ``clip_range``, ``ent_coef``, ``vf_coef``, ``gamma``, ``gae_lambda``, ``n_epochs`` (0: no
      learning), ``batch_size``, ``max_grad_norm``, ``gradient_accumulation_steps`` and ``eps_greedy`` may each be a
      schedule of `sb3_pvp.common.schedules`, such as ``Function(f)``, or its config. Schedules are functions of
      `trained_rollouts`, the number of finished rollouts; the attribute of the same name holds the current value.
    - A policy whose ``has_statistics`` is false only collects statistics in a rollout, and does not learn.
    - After `load`, ``learn(..., reset_num_timesteps=False)`` continues exactly as if the run had never stopped, if the
      vectorised environment has ``get_state`` and ``set_state``. A model saved in the middle of a rollout resumes at
      the start of that rollout. ``reset_num_timesteps=True`` starts a new run.
    - If the environments have a method ``set_trained_rollouts``, it is called before each rollout.
    - With an `AutoregressivePolicy`, or actors, the critic runs once at the end of a rollout: the local ``values`` that
      SB3 shows to callbacks is ``None``; at ``on_rollout_end`` they are in ``rollout_buffer.values``.
    - On the CPU, `learn` uses one thread for layers of up to 256 units: a second one made it 3 to 14 times slower. A
      policy with convolutions uses all that PyTorch has to learn, and one to act in this process.

    Args:
        policy: class of a masked policy, such as `sb3_pvp.policies.AutoregressivePolicy`, or one of SB3's names.
        env: environment with action masks, as in MaskablePPO.
        gradient_accumulation_steps: mini-batches per step of the optimiser (training.md §7.3).
        normalize_reward: divide rewards by the running standard deviation of discounted returns (training.md §6.2 c).
            Logged episode rewards remain raw.
        precision: ``"bf16"`` computes the products of hidden layers in bfloat16 while learning, with an
            `AutoregressivePolicy`; ``"fp32"`` everything in float32; ``"auto"`` measures once, before the model first
            learns, which is clearly faster on this machine: then the attribute, which is saved, holds the choice.
        actors: processes that play the rollouts, each with an equal part of the rows of a `sb3_pvp.envs.PvpVecEnv`; 0:
            this process plays them itself; ``"auto"``: one per core, if `learn` is to last long enough.
        synchronous: with actors, learn from a rollout before the next one begins, so that results and `save` are
            exactly those without actors. By default the actors play on meanwhile, with the weights from before.
        eps_greedy: probability per step that all environments take the most likely actions (training.md §6.1).
        ema_decay: keep an exponential moving average of the weights, of about ``1 / (1 - ema_decay)`` steps of the
            optimiser, see `average`; training itself stays the same, to the bit.
        magnet: pull the policy towards another one, see `sb3_pvp.algorithms.ppo.magnet`: ``"uniform"``, ``"ema"``, the
            averaged policy, or the file or name of a fighter. Needs an `AutoregressivePolicy`.
        magnet_coef: weight in the loss of the KL divergence from the magnet, of all heads; may also be a function of
            the remaining progress, as SB3's ``clip_range``, or ``"lin_0.1"``, which falls from 0.1 to 0.
        ent_weights: weights of heads, by their ids, in the entropy that ``ent_coef`` multiplies; 1 for all others. More
            for the choices that an opponent must not guess makes a fighter harder to exploit (docs/recipes.md).
        kwargs: other arguments of MaskablePPO.

    Raises:
        ValueError: for an unknown argument, a hyperparameter out of range, or an invalid schedule.
    """

    #: Packed state of the run for exact resume; consumed by the first rollout after `load`.
    training_state: bytes | None = None
    #: State of the run at the start of the current rollout; ``None`` after learning.
    _rollout_start: resumable.State | None = None
    #: The buffer for all rows, while `rollout_buffer` is without those of lost actors.
    _whole_buffer: Any = None
    #: Of a policy with memory: `RolloutMemory.states` of the rollout, and what all rows remember now.
    _memory_states: Any = None
    _last_memory: th.Tensor | None = None
    #: The averaged policy, with ``ema_decay``; it is saved with the model, see `load`.
    average: WeightAverage | None = None
    pull: Magnet | None = None  #: What ``magnet`` names, while learning.
    #: Makes what runs the actors; not saved.
    fleet_factory: FleetFactory = staticmethod(LocalActors)
    #: Only while saving: the policy in plain values, see `sb3_pvp.policies.files.description`.
    description: dict[str, Any] | None = None
    #: Of a model that was loaded without an environment: what prevents training it; see `load`.
    missing: str | None = None
    plays_numbers: ClassVar = False  #: Whether heads may be numbers.
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
        actors: int | str = 0,
        synchronous: bool = False,
        eps_greedy: float | dict[str, Any] | Schedule = 0.0,
        ema_decay: float | None = None,
        magnet: str | Path | None = None,
        magnet_coef: float | str | dict[str, Any] | Schedule | Callable[[float], float] = 0.0,
        ent_weights: Mapping[str, float] | None = None,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        require_all_known(f"argument of {type(self).__name__}", kwargs, arguments_of(type(self)))
        if isinstance(getattr(env, "action_space", None), spaces.Box) and not self.plays_numbers:
            raise ValueError(
                f"{type(self).__name__} only makes choices, but this game asks for numbers: MAPOCA plays it"
            )
        super().__init__(policy, env, *args, **kwargs | {"_init_setup_model": False})
        self.gradient_accumulation_steps: Any = gradient_accumulation_steps
        self.eps_greedy: Any = eps_greedy
        self.normalize_reward, self.ema_decay = normalize_reward, ema_decay
        self.magnet, self.magnet_coef = magnet if magnet is None else str(magnet), magnet_coef
        self.ent_weights = ent_weights
        self.precision, self.actors, self.synchronous = precision, _ACTORS.read("actors", actors), synchronous
        self.trained_rollouts = 0  #: Rollouts finished over the life of the model, the time of all schedules; saved.
        self.num_updates = 0  #: Optimiser steps over the life of the model; saved.
        self.schedules: dict[str, Schedule] = {}  #: Hyperparameters that are functions of `trained_rollouts`.
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
        for name in RANGES:
            if is_schedule(given := getattr(self, name)):
                self.schedules[name] = parse_schedule(given)
            elif name not in self.schedules:
                setattr(self, name, value_at(name, given))
        self._apply_schedules(self.trained_rollouts)
        with threads(1):  # initial weights are orthogonal, by a decomposition that depends on the number of threads
            super()._setup_model()
        self.rollout_buffer = reused(self.rollout_buffer)
        shape_of_states(self.policy, self.n_steps, self.n_envs)  # refuses what cannot be
        check_precision(self.precision, self.policy)
        check_head_weights(self.ent_weights, self.policy)
        if (decay := EMA_DECAY.read("ema_decay", self.ema_decay)) is not None:
            self.average = WeightAverage(self.policy, decay)
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

    def _apply_schedules(self, trained_rollouts: int) -> None:
        """Sets the hyperparameters that are schedules to their values after so many rollouts."""
        for name, schedule in self.schedules.items():
            setattr(self, name, value_at(name, schedule, trained_rollouts))
        # SB3 wraps numbers into schedules only in _setup_model, but calls them in each learning phase.
        self._setup_lr_schedule()
        self.clip_range = FloatSchedule(self.clip_range)

    def learn(self: Self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """Same as `MaskablePPO.learn`, but with one thread of PyTorch for small networks on the CPU."""
        AT_LEAST_0.check(total_timesteps=total_timesteps)
        own = [
            each for each in self.policy.named_parameters() if not each[0].startswith("memory.")
        ]  # gates are one layer
        widths = [part.shape[-1] for name, part in own if name.endswith("bias")]
        is_small = self.device.type == "cpu" and max(widths, default=0) <= MAX_WIDTH_FOR_ONE_THREAD
        with threads(1 if is_small and not self._convolves else th.get_num_threads()):
            return super().learn(total_timesteps, *args, **kwargs)

    @property
    def _convolves(self) -> bool:
        """Whether the CPU computes convolutions, which take so long that more threads pay, whatever their width is."""
        return self.device.type == "cpu" and any(part.ndim == 4 for part in self.policy.parameters())

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
        assert self.env is not None
        self.magnet = place_of(self.magnet, self.run_folder)
        self.pull = make_magnet(self.magnet, self.policy, self.average)
        if self.pull and self.magnet_coef == 0 and "magnet_coef" not in self.schedules:
            warnings.warn(f"magnet={self.magnet!r} pulls nowhere without a magnet_coef, such as 0.05", stacklevel=3)
        normalizer = self.get_vec_normalize_env()
        if normalizer and normalizer.norm_obs and self.env.has_attr("match_settings"):
            raise ValueError(f"VecNormalize{RAW_OBSERVATIONS}")
        self.env = with_actors(self, total_timesteps)
        if reset_num_timesteps:
            self.training_state = None
        total, callbacks = super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args, **kwargs)
        # Actors have no wrappers, and what rows of a lost actor show means nothing.
        if isinstance(self._last_obs, dict) and not isinstance(self.env, ActorVecEnv):
            check_mask(self._last_obs.get(ACTION_MASK, True))
        if self.num_timesteps >= total:  # no rollout will resume what callbacks were waiting for
            resumable.resume(self, self.env)
        return total, callbacks

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int, use_masking: bool = True
    ) -> bool:
        """Same as in MaskablePPO, plus actors, exact resume, ``eps_greedy`` and the metrics of the rollout."""
        assert isinstance(rollout_buffer, (MaskableRolloutBuffer, MaskableDictRolloutBuffer)), "it cannot store masks"
        log, rows = RolloutLog(), np.arange(env.num_envs)
        values_later = isinstance(env, ActorVecEnv) or isinstance(self.policy, AutoregressivePolicy)
        if isinstance(env, ActorVecEnv):
            steps, rows = rollout_of_actors(self, env, callback)
        else:
            if use_masking and not is_masking_supported(env):
                raise ValueError("Environment does not support action masking. Consider using ActionMasker wrapper")
            self._begin_rollout(env, callback)
            steps = self._play(env, n_rollout_steps, use_masking, values_later)
        if rollout_buffer.n_envs < env.num_envs:  # it was narrowed to the rows that the last rollout had
            rollout_buffer = self._whole_buffer
        rollout_buffer.reset()
        # SB3 hands these to the buffer once and for all; here they may be schedules.
        rollout_buffer.gamma, rollout_buffer.gae_lambda = self.gamma, self.gae_lambda
        for n_steps, step in enumerate(steps):  # noqa: B007  # callbacks may read it
            obs, obs_tensor, actions, values, log_probs, action_masks, new_obs, rewards, dones, infos = step
            self.num_timesteps += len(rows)
            # Callbacks read these locals by SB3's names, and may add to the rewards in place.
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            ended = np.flatnonzero(dones)
            self._update_info_buffer([infos[row] for row in ended], dones[ended])
            log.add_step(rewards, dones, infos)  # raw rewards, so before bootstrapping
            cut, last = truncated(ended, infos)
            if cut:  # with the discounted value of what would have followed (training.md §6.2 b)
                with th.no_grad():
                    known_then = of_truncated(self.policy, cut, infos)
                    last_values = self.policy.predict_values(self.policy.obs_to_tensor(last)[0], *known_then)
                rewards[cut] += self.gamma * self._to_raw_scale(last_values)
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            known, starts = th.zeros_like(log_probs) if values is None else values, self._last_episode_starts
            rollout_buffer.add(obs, actions, rewards, starts, known, log_probs, action_masks=action_masks)
            self._last_obs, self._last_episode_starts = new_obs, dones
        log.finalizing = time.perf_counter()
        vars(rollout_buffer)[MEMORY] = self._memory_states
        if isinstance(env, ActorVecEnv):
            rollout_buffer.values[:] = env.values()
        elif values_later:
            given = rollout_buffer.observations, rollout_buffer.values
            compute_values(self.policy, *given, self._memory_states, rollout_buffer.episode_starts)
        self.rollout_buffer = self._whole_buffer = rollout_buffer
        if len(rows) < env.num_envs:  # actors were lost
            self.rollout_buffer = narrowed(rollout_buffer, rows)
        self._finish_rollout(log, map_parts(self._last_obs, itemgetter(rows)), dones[rows])
        callback.update_locals(locals())
        callback.on_rollout_end()
        play_on(self, env, callback)
        return True

    def _begin_rollout(self, env: VecEnv, callback: BaseCallback) -> None:
        """Resumes a loaded run, records where this rollout starts, moves the schedules and tells the callbacks."""
        resumable.resume(self, env)
        if isinstance(env, ActorVecEnv):
            env.begin()
        # Actors keep the state themselves, but in the first rollout of `learn`, callbacks may start new episodes.
        keeps_start = isinstance(env, ActorVecEnv) and self.num_timesteps > self._num_timesteps_at_start
        self._rollout_start = resumable.current_state(self, env, with_env=not keeps_start)
        self._apply_schedules(self.trained_rollouts)
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)
        self.policy.set_training_mode(False)
        callback.on_rollout_start()

    def _play(self, env: VecEnv, n_steps: int, use_masking: bool, values_later: bool) -> Iterator[PlayedStep]:
        """Plays a rollout step by step, each from the observation that the last one has led to."""
        # SB3's function calls each environment in turn; PvpVecEnv has the masks of all of them at hand.
        get_masks, policy = getattr(env, "action_masks", None) or partial(get_action_masks, env), self.policy
        memory, self._memory_states = RolloutMemory.of_policy(policy, n_steps, env.num_envs, self._last_memory)
        # A second thread would take time from what plays in other processes, such as displays.
        acting = 1 if self._convolves else th.get_num_threads()
        for step in range(n_steps):
            obs, action_masks = self._last_obs, get_masks() if use_masking else None
            obs_tensor, is_greedy = obs_as_tensor(obs, self.device), self._draws_greedy()  # type: ignore[arg-type]
            with th.no_grad(), threads(acting):
                if values_later:
                    values, known = None, memory and memory.before(step, self._last_episode_starts)
                    actions, log_probs = policy.act(obs_tensor, is_greedy, action_masks, None, *filter(None, [known]))  # type: ignore[operator]
                else:
                    actions, values, log_probs = policy(obs_tensor, is_greedy, action_masks=action_masks)
            taken = actions.cpu().numpy()
            played = PlayedStep(obs, obs_tensor, taken, values, log_probs, action_masks, *env.step(taken))
            if memory is not None:
                memory.after(step, played.dones, played.infos)
                self._last_memory = memory.state
            yield played

    def _draws_greedy(self) -> bool:
        """Draws whether a step takes the most likely actions; with ``eps_greedy=0`` the random stream stays SB3's."""
        return self.eps_greedy > 0 and bool(th.rand(()) < self.eps_greedy)

    def _to_raw_scale(self, values: th.Tensor) -> NDArray[np.float32]:
        """Returns values ``(batch,)`` on the scale of raw rewards; the critic predicts normalised ones."""
        raw = values.cpu().numpy().flatten()
        return raw * np.float32(self.reward_normalizer.std) if self.normalize_reward else raw

    def _finish_rollout(self, log: RolloutLog, last_obs: Any, dones: NDArray[np.bool_]) -> None:
        """Normalises rewards and computes advantages (training.md §6.2 c, d); given is what the last step led to."""
        buffer = self.rollout_buffer
        # What follows the last step is not in the buffer: GAE needs its value, or an episode would seem to end there.
        with th.no_grad():
            known = at_end(self.policy, buffer, dones)
            last_values = self.policy.predict_values(obs_as_tensor(last_obs, self.device), *known)
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
        started, samples = time.perf_counter(), read_buffer(self.rollout_buffer)
        if isinstance(self.policy, AutoregressivePolicy):
            # Of the whole rollout at once, whoever has played it: `act` collects none.
            self.policy.observe(samples.observations, samples.actions)
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        given, self.precision = self.precision, resolve_precision(self.precision, self.policy)
        if given != self.precision and self.verbose:
            print(f"Learning with precision {self.precision}")
        numbers: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(PpoUpdate)}
        for name in ("clip_range", "clip_range_vf", "magnet_coef"):
            if callable(numbers[name]):
                numbers[name] = numbers[name](self._current_progress_remaining)
        update = PpoUpdate(**numbers)
        n_epochs = self.n_epochs if getattr(self.policy, "has_statistics", True) else 0
        is_stale = isinstance(self.env, ActorVecEnv) and not self.synchronous
        log = update.run(samples, n_epochs, renew_log_probs=is_stale)
        # AutoregressivePolicy applies the statistics of the rollout here.
        self.policy.set_training_mode(False)
        self._n_updates += len(log.epoch_starts)
        self.num_updates += len(log.grad_norms)
        self._count_rollout()
        metrics = log.metrics(update, self.rollout_buffer)
        metrics |= {"total_steps": self.num_timesteps, "trained_rollouts": self.trained_rollouts}
        record(self.logger, "train", metrics | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def _count_rollout(self) -> None:
        """Counts the rollout that it has learned from, unless the next one has begun, which did so."""
        if not (isinstance(self.env, ActorVecEnv) and self.env.is_collecting):
            self.trained_rollouts += 1
            self._rollout_start = None

    def save(
        self,
        path: str | Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Writes a zip file for `load` and ``MaskablePPO.load``, as SB3 does, but atomically.

        ``exclude=["training_state"]`` omits what only exact resume needs; learning can still continue in new episodes.
        """
        as_sb3 = partial(super().save, include=include)
        resumable.save(self, path, exclude, lambda: describe(self).plain(), as_sb3)

    def _excluded_save_params(self) -> list[str]:
        """Also excludes what belongs to the process or is packed into `training_state`."""
        of_process = (
            "_rollout_start",
            "_whole_buffer",
            "_memory_states",
            "_last_memory",
            "fleet_factory",
            "run_folder",
            "resumable_parts",
            "average",
        )
        return [*super()._excluded_save_params(), *of_process, "pull"]

    @classmethod
    def load(
        cls: type[Self],
        path: str | Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        *args: Any,
        average: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Loads a model as SB3 does; ``kwargs`` are SB3's, or arguments of the algorithm that replace the saved ones.

        With ``average`` its policy is the averaged one, from which training would go on, too.

        Without ``env``, that is for inference, the global random generators are left unchanged.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is no model, or has no average, an argument is unknown (SB3 would set an unused
                attribute), or, with an ``env``, what training needs of the file cannot be imported.
        """
        known, of_sb3 = arguments_of(cls), ("custom_objects", "force_reset", "print_system_info")
        require_all_known(f"argument of {cls.__name__}.load", kwargs, known and known.union(of_sb3))
        file = find_model(path) if isinstance(path, (str, Path)) else path
        if isinstance(file, Path) and is_fighter(file):
            raise ValueError(f"{file} is for inference only (sb3_pvp.load): to train, load the zip that it was made of")
        with resumable.loading(file, to_play=env is None):
            model: Self = load_to_train(super().load, file, env, *args, **kwargs)
        vars(model).pop("description", None)
        resumable.restore_average(model, file, average)
        # A number given here replaces a saved schedule; _setup_model() has already stored schedules given here.
        for name in model.schedules.keys() & kwargs.keys():
            if not is_schedule(kwargs[name]):
                del model.schedules[name]
                setattr(model, name, value_at(name, kwargs[name]))
        model._apply_schedules(model.trained_rollouts)
        return model
