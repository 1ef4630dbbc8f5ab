"""`MAPOCA`: MA-POCA (arXiv 2111.05992) for games whose sides are teams.

The order of events, from top to bottom; learning, schedules, saving and exact resume are those of `PvpPPO`:

1. `collect_rollouts`: the teams play, and the buffer fills; then values and baselines, λ-returns and advantages.
2. `train`: the rollout becomes gradients (`team_update.MapocaUpdate`), and counts as trained.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch as th
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.mapoca.buffer import GroupRolloutBuffer
from sb3_pvp.algorithms.mapoca.team_policy import MAPOCAPolicy
from sb3_pvp.algorithms.mapoca.team_update import MapocaUpdate
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.ppo.rollout_log import RolloutLog, truncated
from sb3_pvp.algorithms.ppo.update import record
from sb3_pvp.game.contract import Contract

#: Team-steps that the critic values at once: more of them leave a core's cache, and take twice as long.
ROWS_AT_ONCE = 256
#: Arguments of `PvpPPO` that would do nothing.
_WITHOUT = (
    *("actors", "clip_range_vf", "gradient_accumulation_steps", "max_grad_norm", "normalize_advantage", "precision"),
    *("normalize_reward", "rollout_buffer_class", "rollout_buffer_kwargs", "synchronous", "target_kl"),
)


class MAPOCA(PvpPPO):
    """MA-POCA: agents of a team act alone, and learn from what the team reaches, also after their own end.

    An environment's row is a team, its reward that of all its agents together, and ``num_timesteps`` counts steps of
    teams. Hyperparameters have SB3's names and may be schedules, as in `PvpPPO`; ``batch_size`` counts steps of teams.

    Args:
        policy: `MAPOCAPolicy`, or a subclass of it.
        env: a `sb3_pvp.envs.PvpVecEnv` of a game whose contract has agents.
        clip_value_loss: clip the loss of V, as that of the baseline; ml-agents means to, but does not.
        kwargs: other arguments of `PvpPPO`, except those that have no effect here, such as ``max_grad_norm``.

    Raises `ValueError` for an argument that it does not have, or a hyperparameter out of range.
    """

    policy: Any  #: A `MAPOCAPolicy`.
    rollout_buffer: Any  #: A `GroupRolloutBuffer`.
    clip_range: Any
    _last_obs: Any

    def __init__(
        self,
        policy: type[MaskableActorCriticPolicy],
        env: GymEnv | str,
        learning_rate: Any = 3e-4,
        n_steps: int = 64,
        batch_size: Any = 512,
        n_epochs: Any = 3,
        ent_coef: Any = 0.005,
        clip_value_loss: bool = True,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        if without := [name for name in _WITHOUT if name in kwargs]:
            raise ValueError(f"MAPOCA has no {without[0]}: leave it out")
        self.clip_value_loss = clip_value_loss
        given = {"learning_rate": learning_rate, "n_steps": n_steps, "batch_size": batch_size, "n_epochs": n_epochs}
        super().__init__(policy, env, **given, ent_coef=ent_coef, **kwargs, _init_setup_model=_init_setup_model)

    def _adopt_contract(self) -> None:
        """Passes the environments' contract to the policy, which needs its agents."""
        if self.env is not None and self.env.has_attr("contract") and "contract" not in self.policy_kwargs:
            contract: Contract = self.env.get_attr("contract", indices=[0])[0]
            self.policy_kwargs = {**self.policy_kwargs, "contract": contract}

    def _setup_model(self) -> None:
        """Sets up a buffer for teams in place of SB3's."""
        if not issubclass(self.policy_class, MAPOCAPolicy):
            raise ValueError(f"MAPOCA needs MAPOCAPolicy, not {self.policy_class.__name__}")
        super()._setup_model()
        self.rollout_buffer = self._new_buffer()

    def _new_buffer(self) -> GroupRolloutBuffer:
        policy, size = self.policy, self.policy.networks.critic.embed.in_features
        return GroupRolloutBuffer(
            self.n_steps, self.n_envs, policy.num_agents, size, policy.networks.actor.actions, device=self.device
        )

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int, use_masking: bool = True
    ) -> bool:
        """Plays ``n_rollout_steps`` of all teams into the buffer; false if a callback stops learning."""
        log, policy, buffer = RolloutLog(), self.policy, self.rollout_buffer
        self._begin_rollout(env, callback)
        buffer.reset()
        buffer.gamma, buffer.gae_lambda = self.gamma, self.gae_lambda
        for _ in range(n_rollout_steps):
            # 1. Every agent acts on what it sees itself.
            obs_tensor = obs_as_tensor(self._last_obs, self.device)
            with th.no_grad():
                seen, active = policy.team(obs_tensor)
            actions, log_probs, legal = policy.act(obs_tensor, self._draws_greedy())
            new_obs, rewards, dones, infos = env.step(actions.cpu().numpy())
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            # 2. Episodes end: those that were cut off go on in the critic's eyes, over whoever is left.
            ended = np.flatnonzero(dones)
            self._update_info_buffer([infos[row] for row in ended], dones[ended])
            log.add_step(rewards, dones, infos)
            cut, last = truncated(ended, infos)
            if cut:
                with th.no_grad():
                    last_values = policy.predict_values(policy.obs_to_tensor(last)[0])
                rewards[cut] += self.gamma * last_values.cpu().numpy().flatten()
            joint = actions.reshape(log_probs.shape)
            step = (each.cpu().numpy() for each in (seen, active, joint, log_probs, legal))
            seen_now, active_now, taken, old, masks = step
            buffer.add(seen_now, active_now, taken, rewards, self._last_episode_starts, old, masks)
            self._last_obs, self._last_episode_starts = new_obs, dones
        # 3. What each step was worth, by a critic that has not learned from it yet.
        log.finalizing = time.perf_counter()
        buffer.evaluate(policy.networks.critic, ROWS_AT_ONCE)
        with th.no_grad():
            last_values = policy.predict_values(obs_as_tensor(self._last_obs, self.device))
        buffer.compute_returns_and_advantage(last_values.cpu().numpy().flatten(), dones)
        numbers = {"gamma": self.gamma, "gae_lambda": self.gae_lambda, "agent_steps": int(buffer.active.sum())}
        record(self.logger, "rollout", log.metrics(buffer) | numbers)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Learns from the rollout in the buffer."""
        started, policy = time.perf_counter(), self.policy
        policy.set_training_mode(True)
        self._update_learning_rate(policy.optimizer)
        clip_range = float(self.clip_range(self._current_progress_remaining))
        update = MapocaUpdate(
            policy.networks,
            policy.optimizer,
            clip_range,
            self.ent_coef,
            self.vf_coef,
            clip_value_loss=self.clip_value_loss,
        )
        metrics: dict[str, Any] = {**update.run(self.rollout_buffer.samples(), self.n_epochs, self.batch_size)}
        policy.set_training_mode(False)
        self._n_updates += self.n_epochs
        self.trained_rollouts += 1
        self._rollout_start = None
        metrics |= {"clip_range": clip_range, "entropy_coef": self.ent_coef, "trained_rollouts": self.trained_rollouts}
        record(self.logger, "train", metrics | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
