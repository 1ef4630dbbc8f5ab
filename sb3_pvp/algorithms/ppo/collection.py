"""How `PvpPPO` collects rollouts: in this process, or by actors (training.md §6)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer, MaskableRolloutBuffer
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import PyTorchObs
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv, Draws, FleetFactory, PlayedStep, obstacle
from sb3_pvp.algorithms.actors.fleet import compute_values
from sb3_pvp.algorithms.actors.local_actors import LocalActors
from sb3_pvp.algorithms.ppo import resumable
from sb3_pvp.algorithms.ppo.buffers import narrowed
from sb3_pvp.algorithms.ppo.reward_normalizer import RewardNormalizer, returns_to_go
from sb3_pvp.algorithms.ppo.rollout_log import RolloutLog, record
from sb3_pvp.common.cores import num_cores
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import map_parts

#: ``actors="auto"`` needs so many rows per actor, as a tick costs about the same for few rows, and so many steps, as it
#: takes seconds to start processes.
LEAST_ROWS, LEAST_TIMESTEPS = 32, 500_000
AUTO_ACTORS = "auto"
#: Up to this width, synchronising threads takes longer than computing a layer.
MAX_WIDTH_FOR_ONE_THREAD = 256


class RolloutCollection(MaskablePPO):
    """The part of `PvpPPO` that collects rollouts."""

    actors: int | str
    synchronous: bool
    eps_greedy: float
    gae_lambda: float
    trained_rollouts: int
    normalize_reward: bool
    reward_normalizer: RewardNormalizer
    #: Packed state of the run for exact resume; consumed by the first rollout after `load`.
    training_state: bytes | None = None
    #: State of the run at the start of the current rollout; ``None`` after learning.
    _rollout_start: resumable.State | None = None
    #: The buffer for all rows, while `rollout_buffer` is without those of lost actors.
    _whole_buffer: Any = None
    #: Makes what runs the actors; not saved.
    fleet_factory: FleetFactory = staticmethod(LocalActors)

    def _apply_schedules(self) -> None:
        raise NotImplementedError

    def _width(self) -> int:
        """Returns the width of the widest layer."""
        widths = [part.shape[-1] for name, part in self.policy.named_parameters() if name.endswith("bias")]
        return max(widths, default=0)

    def _num_actors(self, total_timesteps: int) -> int:
        """Returns how many actors play, after saying so if that was chosen here."""
        if self.actors != AUTO_ACTORS:
            return int(self.actors)
        assert self.env is not None
        is_possible = isinstance(self.env, ActorVecEnv) or obstacle(self.env) is None
        cores, is_worth_it = num_cores(), is_possible and total_timesteps >= LEAST_TIMESTEPS
        # One core is for learning: with an actor more, all slow each other down (`python -m benchmarks actors`).
        num_actors = min(cores - 1, self.n_envs // LEAST_ROWS) if is_worth_it else 0
        if self.verbose:
            processes = f"{num_actors} process{'es' if num_actors > 1 else ''}"
            where = f"{processes}, beside learning" if num_actors else "this process"
            print(f"{cores} core{'s' if cores > 1 else ''}: acting in {where}")
        return num_actors

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: Any,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Same as in MaskablePPO, plus actors, exact resume, ``eps_greedy`` and the metrics of the rollout."""
        assert isinstance(rollout_buffer, (MaskableRolloutBuffer, MaskableDictRolloutBuffer)), "it cannot store masks"
        log, rows = RolloutLog(), np.arange(env.num_envs)
        if isinstance(env, ActorVecEnv):
            if not env.is_collecting:
                self._start_actors(env, callback)
            self._apply_schedules()  # again, if learning has come after the start
            rollout = env.wait()
            steps, rows = env.steps(rollout), rollout.rows
            self._last_episode_starts[rollout.begun] = True  # type: ignore[index]
        else:
            if use_masking and not is_masking_supported(env):
                raise ValueError("Environment does not support action masking. Consider using ActionMasker wrapper")
            self._begin_rollout(env, callback)
            steps = self._play(env, n_rollout_steps, use_masking)
        if rollout_buffer.n_envs < env.num_envs:  # for the rows that were left by the last rollout
            rollout_buffer = self._whole_buffer
        rollout_buffer.reset()
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
            self._bootstrap_truncated(rewards, dones, infos)
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            rollout_buffer.add(
                obs,
                actions,
                rewards,
                self._last_episode_starts,
                values,
                log_probs,
                action_masks=action_masks,
            )
            self._last_obs, self._last_episode_starts = new_obs, dones
        if isinstance(env, ActorVecEnv):
            rollout_buffer.values[:] = env.values()
        self.rollout_buffer = self._whole_buffer = rollout_buffer
        if len(rows) < env.num_envs:  # actors were lost
            self.rollout_buffer = narrowed(rollout_buffer, rows)
        self._finish_rollout(log, map_parts(self._last_obs, itemgetter(rows)), dones[rows])
        callback.update_locals(locals())
        callback.on_rollout_end()
        if isinstance(env, ActorVecEnv) and self._can_overlap():
            self.trained_rollouts += 1  # for callbacks, matches and a checkpoint the next rollout has its own number
            try:
                self._start_actors(env, callback)
            finally:
                self.trained_rollouts -= 1  # until `train` is over
            self._apply_schedules()  # those of this rollout, for `train`
        return True

    def _play(self, env: VecEnv, n_steps: int, use_masking: bool) -> Iterator[PlayedStep]:
        """Plays a rollout step by step, each from the observation that the last one has led to."""
        # SB3's function calls each environment in turn; PvpVecEnv has the masks of all of them at hand.
        get_masks = getattr(env, "action_masks", None) or partial(get_action_masks, env)
        for _ in range(n_steps):
            obs, action_masks = self._last_obs, get_masks() if use_masking else None
            obs_tensor = obs_as_tensor(obs, self.device)  # type: ignore[arg-type]
            with th.no_grad():
                actions, values, log_probs = self._act(obs_tensor, self._draws_greedy(), action_masks)
            yield PlayedStep(obs, obs_tensor, actions, values, log_probs, action_masks, *env.step(actions))

    def _draws_greedy(self) -> bool:
        """Draws whether a step takes the most likely actions."""
        # Only if needed: with eps_greedy 0 the random stream must be that of SB3.
        return self.eps_greedy > 0 and bool(th.rand(()) < self.eps_greedy)

    def _start_actors(self, env: ActorVecEnv, callback: BaseCallback) -> None:
        """Lets the actors play a rollout, with the random numbers that `_play` would draw."""
        self._begin_rollout(env, callback)
        draws = Draws.empty(self.n_steps, env.num_envs, len(getattr(self.policy, "head_sizes", ())))
        for step in range(self.n_steps):
            draws.is_greedy[step] = self._draws_greedy()
            if draws.uniforms.size and not draws.is_greedy[step]:
                draws.uniforms[step] = th.rand(draws.uniforms.shape[1:]).numpy()
        env.start(draws)

    def _can_overlap(self) -> bool:
        """Whether the actors can play the next rollout while the model learns from this one."""
        # Before there are statistics, the policy sees other features than after learning.
        has_statistics = getattr(self.policy, "has_statistics", True)
        return not self.synchronous and has_statistics and self.num_timesteps < self._total_timesteps

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
        """Computes the values of the rollout in the buffer, if they were not while it was played."""
        buffer: Any = self.rollout_buffer
        if np.isnan(buffer.values[0, 0]):
            compute_values(self.policy, buffer.observations, buffer.values)

    def _resume(self, env: VecEnv) -> None:
        """Resumes a loaded run."""
        if self.training_state is not None:
            # Here rather than in load(): only now callbacks have registered their parts, and the env was reset.
            resumable.resume(self, resumable.unpack(self.training_state), env)
            self.training_state = None

    def _begin_rollout(self, env: VecEnv, callback: BaseCallback) -> None:
        """Resumes a loaded run, records where this rollout starts, moves the schedules and tells the callbacks."""
        self._resume(env)
        if isinstance(env, ActorVecEnv):
            env.begin()
        # Actors keep the state themselves, but in the first rollout of `learn`, callbacks may start new episodes.
        keeps_start = isinstance(env, ActorVecEnv) and self.num_timesteps > self._num_timesteps_at_start
        self._rollout_start = resumable.current_state(self, env, with_env=not keeps_start)
        self._apply_schedules()
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)
        self.policy.set_training_mode(False)
        callback.on_rollout_start()

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

    def _finish_rollout(self, log: RolloutLog, last_obs: Any, dones: NDArray[np.bool_]) -> None:
        """Computes values, normalises rewards and computes advantages (training.md §6.2 c and d).

        ``last_obs`` and ``dones`` are those after the last step.
        """
        log.finalizing, buffer = time.perf_counter(), self.rollout_buffer
        with th.no_grad():
            last_values = self.policy.predict_values(obs_as_tensor(last_obs, self.device))
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


def _stack(observations: list[Any]) -> Any:
    """Stacks arrays or Dict observations along a new first axis."""
    if isinstance(observations[0], dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack(observations)
