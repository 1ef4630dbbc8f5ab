"""`MAPOCA`: MA-POCA (arXiv 2111.05992) for games whose sides are teams.

The order of events, from top to bottom; learning, schedules, saving and exact resume are those of `PvpPPO`:

1. `collect_rollouts`: the teams play, and the buffer fills; then values and baselines, λ-returns and advantages.
2. `train`: the rollout becomes gradients (`team_update.MapocaUpdate`), and counts as trained.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import torch as th
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv
from sb3_pvp.algorithms.mapoca.buffer import GroupRolloutBuffer
from sb3_pvp.algorithms.mapoca.team_policy import MAPOCAPolicy
from sb3_pvp.algorithms.mapoca.team_update import MapocaUpdate
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.ppo.actor_choice import play_on, rollout_of_actors
from sb3_pvp.algorithms.ppo.rollout_log import RolloutLog, truncated
from sb3_pvp.algorithms.ppo.update import record
from sb3_pvp.game.contract import Contract

#: Tags that `PvpPPO` does not log; all its others have the same meaning.
METRICS = {
    "rollout/agent_steps": "Steps of agents in the rollout; those of absent ones do not count.",
    "train/baseline_loss": "Mean squared error of the baselines of the agents.",
}
#: Team-steps that the critic values at once: more of them leave a core's cache, and take twice as long.
ROWS_AT_ONCE = 256
#: Arguments of `PvpPPO` that would do nothing.
_WITHOUT = (
    *("clip_range_vf", "gradient_accumulation_steps", "max_grad_norm", "normalize_advantage", "normalize_reward"),
    *("precision", "rollout_buffer_class", "rollout_buffer_kwargs", "target_kl", "ema_decay"),
    *("magnet", "magnet_coef", "ent_weights"),
)


class _OfAnyActions(OnPolicyAlgorithm):
    """What comes behind MaskablePPO among the bases of `MAPOCA`, and lets numbers pass."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "supported_action_spaces": None})


class MAPOCA(PvpPPO, _OfAnyActions):
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

    policy_aliases: ClassVar = {"MAPOCAPolicy": MAPOCAPolicy}
    plays_numbers: ClassVar = True
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
        self.algorithm, self.clip_value_loss = "mapoca", clip_value_loss
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
        self.rollout_buffer_class: Any = lambda *_, **__: None
        super()._setup_model()
        self.rollout_buffer_class, self.rollout_buffer = None, self._new_buffer()

    def _new_buffer(self) -> GroupRolloutBuffer:
        slots, actions = self.policy.slots, self.policy.networks.actor.actions
        return GroupRolloutBuffer(self.n_steps, self.n_envs, len(slots.kinds), slots.width, actions, device=self.device)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int, use_masking: bool = True
    ) -> bool:
        """Plays ``n_rollout_steps`` of all teams into the buffer; false if a callback stops learning."""
        log, policy, buffer, rows = RolloutLog(), self.policy, self.rollout_buffer, np.arange(env.num_envs)
        if isinstance(env, ActorVecEnv):
            steps, rows = rollout_of_actors(self, env, callback)
        else:
            self._begin_rollout(env, callback)
            steps = self._play(env, n_rollout_steps, use_masking=True, values_later=True)
        buffer.reset()
        buffer.gamma, buffer.gae_lambda = self.gamma, self.gae_lambda
        for step in steps:
            # 1. Every agent has acted on what it sees itself.
            obs, _, actions, _, _, action_masks, new_obs, rewards, dones, infos = step
            self.num_timesteps += len(rows)
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
            with th.no_grad():
                obs_tensor, joint = obs_as_tensor(obs, self.device), th.as_tensor(actions, device=self.device)
                seen, active = policy.team(obs_tensor)
                parts = seen, active, policy.slots.actions(joint), policy.legal(obs_tensor, joint, action_masks)
            seen_now, active_now, taken, legal = (part.cpu().numpy() for part in parts)
            active_now[np.setdiff1d(np.arange(env.num_envs), rows)] = False  # those of lost actors
            buffer.add(seen_now, active_now, taken, rewards, self._last_episode_starts, action_masks=legal)
            self._last_obs, self._last_episode_starts = new_obs, dones
        # 3. What each step was worth, by networks that have not learned from it yet.
        log.finalizing = time.perf_counter()
        buffer.evaluate(policy.networks.critic, ROWS_AT_ONCE, policy.networks.actor)
        with th.no_grad():
            last_values = policy.predict_values(obs_as_tensor(self._last_obs, self.device))
        buffer.compute_returns_and_advantage(last_values.cpu().numpy().flatten(), dones)
        numbers = {"gamma": self.gamma, "gae_lambda": self.gae_lambda, "agent_steps": int(buffer.active.sum())}
        record(self.logger, "rollout", log.metrics(buffer) | numbers)
        callback.update_locals(locals())
        callback.on_rollout_end()
        play_on(self, env, callback)
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
        self._count_rollout()
        metrics |= {"clip_range": clip_range, "entropy_coef": self.ent_coef, "trained_rollouts": self.trained_rollouts}
        record(self.logger, "train", metrics | {"time": time.perf_counter() - started})
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
