"""DreamerV3 as an algorithm of Stable-Baselines3 (dreamer.md §4.3, §5.1)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.dreamer_policy import Carried, DreamerPolicy
from sb3_pvp.algorithms.dreamer.losses import LossSettings, Sequences, dreamer_losses
from sb3_pvp.algorithms.dreamer.sequences import Arrays, SequenceReplayBuffer, TrainRatio
from sb3_pvp.algorithms.dreamer.signals import encode_actions
from sb3_pvp.algorithms.dreamer.world_model import Latent, Tensors


class DreamerV3(OffPolicyAlgorithm):
    """Learns a model of the world from replayed sequences, and an actor and a critic inside that model.

    ``train_ratio`` is the number of replayed steps for each recorded one; ``batch_size`` sequences of
    ``batch_length`` steps make an update. The actor plays ``imagined_steps`` from the last ``imag_last`` states of
    each sequence (0: from all). ``tau`` is how fast the slow critic follows. ``policy_kwargs`` are those of
    `DreamerPolicy`: ``size``, ``mlp_keys``, ``cnn_keys``, ``optimizer_kwargs``; it and all ``others`` are arguments
    of `OffPolicyAlgorithm`.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": DreamerPolicy,
        "CnnPolicy": DreamerPolicy,
        "MultiInputPolicy": DreamerPolicy,
    }
    policy: DreamerPolicy
    replay_buffer: SequenceReplayBuffer

    def __init__(
        self,
        policy: str | type[DreamerPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 4e-5,
        buffer_size: int = 1_000_000,
        batch_size: int = 16,
        batch_length: int = 64,
        train_ratio: float = 32.0,
        gamma: float = 1 - 1 / 333,
        gae_lambda: float = 0.95,
        ent_coef: float = 3e-4,
        imagined_steps: int = 15,
        imag_last: int = 0,
        tau: float = 0.02,
        _init_setup_model: bool = True,
        **others: Any,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate,
            buffer_size=buffer_size,
            # There is no random phase: the untrained policy acts from the first step.
            learning_starts=0,
            batch_size=batch_size,
            tau=tau,
            gamma=gamma,
            support_multi_env=True,
            sde_support=False,
            supported_action_spaces=(spaces.Box, spaces.Discrete, spaces.MultiDiscrete),
            **others,
        )
        self.batch_length = batch_length
        self.train_ratio = train_ratio
        self.gae_lambda, self.ent_coef = gae_lambda, ent_coef
        self.imagined_steps, self.imag_last = imagined_steps, imag_last
        self.n_updates = 0
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        spaces_of = (self.observation_space, self.action_space)
        policy = self.policy_class(*spaces_of, self.lr_schedule, **self.policy_kwargs).to(self.device)
        self.policy = policy  # type: ignore[assignment]
        if getattr(self, "replay_buffer", None) is None:
            # A sequence begins with the record whose state is carried into the first one that is trained on.
            given: dict[str, Any] = {"layout": self._layout(), "length": self.batch_length + 1, "seed": self.seed}
            self.replay_buffer = SequenceReplayBuffer(
                self.buffer_size, *spaces_of, device=self.device, n_envs=self.n_envs, **given
            )
        self._convert_train_freq()
        self.settings = LossSettings(self.gamma, self.gae_lambda, self.ent_coef, self.imagined_steps, self.imag_last)
        self._ratio = TrainRatio(self.train_ratio / (self.batch_size * self.batch_length))
        self._carried: Carried | None = None
        self._rewards = np.zeros(self.n_envs, np.float32)
        self._figures: Tensors = {}

    def _layout(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        size, policy = self.policy.size, self.policy
        layout: dict[str, tuple[tuple[int, ...], Any]] = {
            # One-hot draws by their class.
            "deter": ((size.deter,), np.float32), "stoch": ((size.stoch,), np.uint8), "reward": ((), np.float32),
            "is_first": ((), bool), "is_last": ((), bool), "is_terminal": ((), bool),
        }  # fmt: skip
        for kind, signals in (("observation", policy.observed.signals), ("action", policy.actions.signals)):
            layout |= {f"{kind}/{key}": (signal.shape, signal.dtype) for key, signal in signals.items()}
        return layout

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "settings", "_ratio", "_carried", "_rewards", "_figures"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []

    # -- acting: a record is complete when the action is chosen that is taken there

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        assert self._last_obs is not None and self._last_episode_starts is not None  # set by _setup_learn
        observations = self.policy.observed.tensors(self.policy.obs_to_tensor(self._last_obs)[0])
        if self._carried is None or len(self._carried.deter) != n_envs:
            self._carried = self.policy.start(n_envs)
        is_first = th.as_tensor(self._last_episode_starts, device=self.device)
        actions, self._carried = self.policy.step(observations, self._carried, is_first)
        records = _prefixed("observation", observations) | _prefixed("action", actions)
        records |= {
            "deter": self._carried.deter.cpu().numpy(), "stoch": self._carried.stoch.argmax(-1).cpu().numpy(),
            "reward": np.where(self._last_episode_starts, 0, self._rewards), "is_first": self._last_episode_starts,
        }  # fmt: skip
        for env in range(n_envs):
            record = {name: values[env] for name, values in records.items()}
            self.replay_buffer.append(env, {**record, "is_last": False, "is_terminal": False})
        chosen = self.policy.actions.to_env(actions)
        return chosen, chosen

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: NDArray[Any],
        new_obs: NDArray[Any] | dict[str, NDArray[Any]],
        reward: NDArray[Any],
        dones: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        # SB3's environments have reset by now: the last observation of an episode, with its reward, is in the infos.
        for env in np.flatnonzero(dones):
            observation = self.policy.obs_to_tensor(infos[env]["terminal_observation"])[0]
            seen = _prefixed("observation", self.policy.observed.tensors(observation))
            record: dict[str, Any] = dict.fromkeys(self.replay_buffer.records, 0)
            record |= {name: values[0] for name, values in seen.items()}
            truncated = infos[env].get("TimeLimit.truncated", False)
            record |= {"reward": reward[env], "is_last": True, "is_terminal": not truncated}
            self.replay_buffer.append(int(env), record)
        self._last_obs, self._last_episode_starts, self._rewards = new_obs, dones, reward

    # -- learning

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Makes the updates that are due after the records so far."""
        if self.replay_buffer.size() < batch_size * self.batch_length:
            return
        for _ in range(self._ratio.due(int(self.replay_buffer.counts.sum()))):
            self._update_learning_rate(self.policy.optimizer)
            self.update()

    def update(self) -> None:
        """Makes one update."""
        policy, chosen = self.policy, self.replay_buffer.choose(self.batch_size)
        batch = self._batch(self.replay_buffer.read(chosen))
        losses = dreamer_losses(policy.networks, batch, policy.return_scale, self.settings, policy.draws)
        total = losses.total(self.settings.scales)
        policy.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        policy.optimizer.step()
        policy.networks.follow(self.tau)
        deter, stoch = losses.observed.states
        self.replay_buffer.refresh(
            chosen, {"deter": deter.detach().cpu().numpy(), "stoch": stoch.argmax(-1).cpu().numpy()}
        )
        self.n_updates += 1
        self._figures = losses.figures

    def _batch(self, records: Arrays) -> Sequences:
        """Returns records as the losses take them: actions are those before, and the first record is but a start."""
        tensors = {name: th.as_tensor(values, device=self.device) for name, values in records.items()}
        signals, classes = self.policy.actions.signals, self.policy.size.classes
        flags = {name: tensors[name][:, 1:] for name in ("is_first", "is_last", "is_terminal")}
        return Sequences(
            {key: tensors[f"observation/{key}"][:, 1:] for key in self.policy.observed.signals},
            encode_actions(signals, {key: tensors[f"action/{key}"][:, :-1] for key in signals}),
            tensors["reward"][:, 1:],
            start=Latent(tensors["deter"][:, 0], F.one_hot(tensors["stoch"][:, 0].long(), classes).float()),
            **flags,
        )

    def dump_logs(self) -> None:
        """Writes the log, with figures of the last update."""
        self.logger.record("train/n_updates", self.n_updates, exclude="tensorboard")
        for name, value in self._figures.items():
            self.logger.record(f"train/{name}", value.item())
        super().dump_logs()


def _prefixed(kind: str, tensors: Tensors) -> Arrays:
    return {f"{kind}/{key}": values.cpu().numpy() for key, values in tensors.items()}
