"""DreamerV3 as an algorithm of Stable-Baselines3 (dreamer.md §4.3, §5.1)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from pydantic import Field
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, RolloutReturn, Schedule, TrainFreq
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional as F

from sb3_pvp.algorithms.cuda_graph import GraphedCall
from sb3_pvp.algorithms.dreamer.dreamer_fighters import (
    OPPONENT,
    FighterPolicy,
    FightReplayBuffer,
    illegal_shares,
    is_masked,
)
from sb3_pvp.algorithms.dreamer.dreamer_policy import Carried, DreamerPolicy
from sb3_pvp.algorithms.dreamer.losses import LossSettings, Sequences, dreamer_losses
from sb3_pvp.algorithms.dreamer.sequences import Arrays, Layout, SequenceReplayBuffer, updates_due
from sb3_pvp.algorithms.dreamer.signals import encode_actions
from sb3_pvp.algorithms.dreamer.world_model import Latent, Tensors
from sb3_pvp.algorithms.hyperparameters import is_schedule, value_at
from sb3_pvp.algorithms.ppo import resumable
from sb3_pvp.common.arguments import ABOVE_0, POSITIVE, Kind
from sb3_pvp.common.errors import arguments_of, foreign, require_all_known, require_known
from sb3_pvp.common.rows_on_disk import remove_rows
from sb3_pvp.policies.files.model_files import load_to_train
from sb3_pvp.policies.files.registry import find_algorithm

#: Returns are of two states in a row, at least.
_PAIR = Kind[int](Annotated[int, Field(ge=2)], "an integer of at least 2")
_LAST = Kind[int](Literal[0] | Annotated[int, Field(ge=2)], "0, for all states, or an integer of at least 2")
#: Arguments of `OffPolicyAlgorithm` that would do nothing.
_WITHOUT = (
    *("action_noise", "gradient_steps", "learning_starts", "n_steps", "optimize_memory_usage", "replay_buffer_class"),
    *("replay_buffer_kwargs", "sde_sample_freq", "sde_support", "support_multi_env", "train_freq", "use_sde"),
    "use_sde_at_warmup",
)
#: What of the infos of a step is recorded.
_RECORDED = ("episode", "is_success", "terminal_observation", "TimeLimit.truncated")


class DreamerV3(OffPolicyAlgorithm):
    """Learns a model of the world from replayed sequences, and an actor and a critic inside that model.

    ``train_ratio`` is the number of replayed steps for each recorded one; ``batch_size`` sequences of
    ``batch_length`` steps make an update. The actor plays ``imagined_steps`` from the last ``imag_last`` states of
    each sequence (0: from all). ``tau`` is how fast the slow critic follows. A rollout, the time of callbacks such as
    checkpoints, is ``rollout_steps`` steps of each environment. The replay is in ``replay_folder``, by default in
    the folder of the run, if it has one, else in memory. On a GPU, ``cuda_graph`` makes all of an update one call;
    with ``precision="bf16"`` products are in bfloat16. ``ent_coef`` may be a schedule over rollouts, as `PvpPPO` has
    them. ``policy_kwargs`` are those of `DreamerPolicy`: ``size``, ``mlp_keys``, ``cnn_keys``, ``optimizer_kwargs``; it
    and all ``others`` are arguments of `OffPolicyAlgorithm`, except those that have no effect here, such as
    ``gradient_steps``. Raises `ValueError` for these and unknown ones.

    Where observations have an action mask, the policy is a `FighterPolicy`, and a share ``recent`` of the sequences
    that are replayed are of fights against opponents who are present now, once these have changed.

    After `load`, ``learn(..., reset_num_timesteps=False)`` goes on exactly as if it had never stopped, if the replay is
    in a folder and the vectorised environment has ``get_state`` and ``set_state``; other environments begin new
    episodes. A run that stopped in the middle of a rollout goes on there, with the matches of `LeagueCallback` and the
    opponents of `SelfPlayCallback` so far. For other callbacks a rollout begins there, which is that much shorter. What
    a callback saves in ``on_step`` goes on behind that step, of which callbacks that come later have not heard then.
    """

    #: Packed state of the run for exact resume; consumed when it learns on after `load`.
    training_state: bytes | None = None
    run_folder: str | Path | None = None  #: Set by the program that starts the run, not saved.
    description: dict[str, Any] | None = None  #: Only while saving: the policy in plain values.
    _rollout_start: None = None  # A run is resumed between any two steps.
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = dict.fromkeys(
        ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"), DreamerPolicy
    )
    policy: DreamerPolicy
    replay_buffer: Any  # a `SequenceReplayBuffer` once it learns

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
        ent_coef: float | dict[str, Any] = 3e-4,
        imagined_steps: int = 15,
        imag_last: int = 0,
        tau: float = 0.02,
        rollout_steps: int = 250,
        recent: float = 0.5,
        replay_folder: str | None = None,
        cuda_graph: bool = False,
        precision: str = "fp32",
        _init_setup_model: bool = True,
        **others: Any,
    ) -> None:
        if without := [name for name in _WITHOUT if name in others]:
            raise ValueError(f"DreamerV3 has no {without[0]}: leave it out")
        require_all_known("argument of DreamerV3", others, arguments_of(type(self), _WITHOUT))
        POSITIVE.check(batch_size=batch_size, imagined_steps=imagined_steps, rollout_steps=rollout_steps)
        _PAIR.check(batch_length=batch_length)
        _LAST.check(imag_last=imag_last)
        ABOVE_0.check(train_ratio=train_ratio)
        super().__init__(
            policy, env, learning_rate, buffer_size=buffer_size, batch_size=batch_size, tau=tau, gamma=gamma,
            # There is no random phase: the untrained policy acts from the first step.
            learning_starts=0, support_multi_env=True, sde_support=False, **others,
        )  # fmt: skip
        self.batch_length, self.train_ratio = batch_length, train_ratio
        self.gae_lambda, self.ent_coef = gae_lambda, ent_coef
        self.imagined_steps, self.imag_last = imagined_steps, imag_last
        self.rollout_steps, self.replay_folder = rollout_steps, replay_folder
        self.cuda_graph, self.precision, self.recent = cuda_graph, precision, recent
        require_known("precision", precision, ("fp32", "bf16"))
        self.n_updates = self.trained_rollouts = 0
        self.algorithm = "dreamerv3"  #: Its name in the registry.
        #: The game, its reset parameters and the ages of frames, see `PvpPPO`; and what is saved with the run.
        self.game = self.reset_params = self.frame_ages = None
        self.resumable_parts: dict[str, Any] = {}
        if not 0 <= recent <= 1:
            raise ValueError(f"recent is a share from 0 to 1, got {recent}")
        if isinstance(policy, str) and is_masked(self.observation_space, self.action_space):
            self.policy_class = FighterPolicy  # a file of an earlier edition names its own
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        self._setup_lr_schedule()
        self.set_random_seed(self.seed)
        given = self.observation_space, self.action_space, self.lr_schedule
        self.policy = self.policy_class(*given, **self.policy_kwargs).to(self.device)  # type: ignore[assignment]
        self.train_freq = self.rollout_steps, "step"  # also where `load` has replaced them
        self._convert_train_freq()
        if self.cuda_graph and is_schedule(self.ent_coef):
            raise ValueError("cuda_graph=True keeps the ent_coef that it began with: give a number, not a schedule")
        ent_coef = value_at("ent_coef", self.ent_coef)
        self.settings = LossSettings(self.gamma, self.gae_lambda, ent_coef, self.imagined_steps, self.imag_last)
        self._counted: float | None = None
        self._carried: Carried | None = None
        self._rewards = np.zeros(self.n_envs, np.float32)
        #: What a step has led to, with rewards, dones and infos, while callbacks hear of it; else ``None``.
        self._step: tuple[Any, NDArray[Any], NDArray[Any], list[dict[str, Any]]] | None = None
        self._figures: Tensors = {}
        self._seen: Sequences | None = None
        self._rate = th.zeros((), device=self.device)
        if self.env is not None and self.env.has_attr("frame_ages"):
            self.frame_ages, fights = (self.env.get_attr(name, [0])[0] for name in ("frame_ages", "match_settings"))
            vars(self).update(fights or {})

    def _setup_learn(self, total_timesteps: int, callback: Any = None, is_new: bool = True, *args: Any) -> Any:
        """Opens the replay; raises `ValueError` if its folder has that of another run, or nothing would be learned."""
        self.resumable_parts, self._played = {"dreamer": self}, 0
        if self.cuda_graph and self.device.type != "cuda":
            raise ValueError(f"cuda_graph=True needs device='cuda', but this model is on {self.device}: leave it out")
        if self.cuda_graph and isinstance(self.policy, FighterPolicy):
            raise ValueError(
                "cuda_graph=True is not for games with action masks, whose heads choose on the CPU: leave it out"
            )
        needed = self.batch_size * self.batch_length
        if self.n_envs * max(self.buffer_size // self.n_envs, 1) < needed:
            raise ValueError(
                f"buffer_size={self.buffer_size} has no room for the {needed} sequences, batch_size * batch_length, "
                "that learning begins with: give a larger one"
            )
        self._learning = GraphedCall(self._learn) if self.cuda_graph else self._learn
        if is_new:
            self.training_state = None
        if self.replay_buffer is None:
            self._open_replay(is_new)
        found, own = self.replay_buffer, (self._layout(), self.n_envs, self.batch_length + 1)
        if (found.layout, found.n_envs, found.length) != own:
            raise ValueError("the replay is of another size, other spaces, batch_length or number of environments")
        return super()._setup_learn(total_timesteps, callback, is_new, *args)

    def _open_replay(self, is_new: bool) -> None:
        place = self.replay_folder or (self.run_folder and Path(self.run_folder, "replay"))
        folder = Path(place) if place else None
        if folder and self.training_state is None and folder.is_dir() and any(folder.iterdir()):
            if is_new or self.replay_folder:
                raise ValueError(
                    f"{folder} has the replay of another run: resume that one, take another folder, or remove it"
                )
            # In the run's own folder; but a checkpoint without its state does not know what is what in them.
            remove_rows(folder)
        # A sequence begins with the record whose state is carried into the first one that is trained on.
        given = self.n_envs, self._layout(), self.batch_length + 1, self.seed, folder
        if OPPONENT in given[1]:
            self.replay_buffer = FightReplayBuffer(self.recent, self.buffer_size, *given)
        else:
            self.replay_buffer = SequenceReplayBuffer(self.buffer_size, *given)

    def _layout(self) -> Layout:
        size, policy = self.policy.size, self.policy
        # One-hot draws by their class.
        layout: Layout = {"deter": ((size.deter,), np.float32), "stoch": ((size.stoch,), np.uint8)}
        layout |= {"reward": ((), np.float32), "is_first": ((), bool), "is_last": ((), bool), "is_terminal": ((), bool)}
        for kind, signals in (("observation", policy.observed.signals), ("action", policy.actions.signals)):
            layout |= {f"{kind}/{key}": signal.stored for key, signal in signals.items()}
        is_fight = isinstance(policy, FighterPolicy) and self.frame_ages is not None
        return layout | ({OPPONENT: ((), np.int32)} if is_fight else {})

    def _excluded_save_params(self) -> list[str]:
        of_process = (
            "settings",
            "_counted",
            "_carried",
            "_rewards",
            "_step",
            "_figures",
            "_seen",
            "_rate",
            "_learning",
            "_played",
            "run_folder",
        )
        return [*super()._excluded_save_params(), *of_process, "resumable_parts"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return ["policy", "policy.optimizer"], []

    def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
        """Writes a zip file, as SB3 does, but atomically; a replay in a folder can go back to this moment."""
        describe = partial(find_algorithm(self.algorithm).describe, self)
        resumable.save(self, path, exclude, describe, partial(super().save, include=include))

    @classmethod
    def load(cls, path: Any, env: Any = None, *args: Any, **kwargs: Any) -> DreamerV3:
        """Loads a model as SB3 does; ``kwargs`` are SB3's, or arguments of the algorithm that replace the saved ones.

        Raises `ValueError` for an unknown one, and a file that is no model, also of another Dreamer.
        """
        known, of_sb3 = arguments_of(cls, _WITHOUT), ("custom_objects", "force_reset", "print_system_info")
        require_all_known(f"argument of {cls.__name__}.load", kwargs, known and known.union(of_sb3))
        with foreign(f"{path} cannot be loaded as a DreamerV3 of this edition"):
            loaded: DreamerV3 = load_to_train(super().load, path, env, *args, **kwargs)
            return loaded

    def get_state(self) -> dict[str, Any]:
        """Returns what is not in the policy, between two steps or while callbacks hear of one."""
        carried, step = self._carried and [part.cpu().numpy() for part in self._carried], self._step
        if step is not None:  # infos may have what cannot be pickled
            step = *step[:3], [{name: info[name] for name in _RECORDED if name in info} for info in step[3]]
        state = {"carried": carried, "rewards": self._rewards.copy(), "counted": self._counted}
        return state | {"played": self._played, "step": step, "replay": self.replay_buffer.get_state()}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned; ``same_episodes``: the environments continue theirs."""
        self._played = state.get("played", 0)  # files of earlier versions have none
        if same_episodes and state["carried"]:
            self._carried = Carried(*(th.as_tensor(part, device=self.device) for part in state["carried"]))
            self._rewards, self._step = state["rewards"], state.get("step")  # nor this
        if state["replay"] is not None and not self.replay_buffer.set_state(state["replay"]):
            warnings.warn("There is no replay of this run any more: it goes on with an empty one", stacklevel=2)
        elif self.replay_buffer.counts.any():
            self._counted = state["counted"]

    def predict(self, *args: Any, **kwargs: Any) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
        """Does the same as `DreamerPolicy.predict`."""
        return self.policy.predict(*args, **kwargs)

    # -- acting

    def collect_rollouts(  # type: ignore[override]
        self, env: VecEnv, callback: BaseCallback, train_freq: TrainFreq, log_interval: int | None = None, **others: Any
    ) -> RolloutReturn:
        """Plays a rollout, or the rest of one, and learns meanwhile; a loaded run resumes before it."""
        resumable.resume(self, env)
        is_amid = self._step is not None  # a callback has saved it: updates are due behind the step
        if not is_amid:
            # What is due after a rollout, `learn` has done, unless the run was stopped at its end.
            self.train(self.gradient_steps, self.batch_size)
        if env.has_attr("set_trained_rollouts"):
            env.env_method("set_trained_rollouts", self.trained_rollouts)
        callback.on_rollout_start()
        goes_on, is_over = True, is_amid and self._finish_step(callback, train_freq, log_interval)
        while goes_on and not is_over:
            self.train(self.gradient_steps, self.batch_size)
            actions = self._act()
            new_obs, rewards, dones, infos = env.step(actions)
            self._step = new_obs, rewards, dones, infos
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            try:
                goes_on = callback.on_step()
            finally:  # Whatever it raises, the step is recorded, the last one ends its rollout, and the run can resume.
                is_over = self._finish_step(callback, train_freq, log_interval)
        return RolloutReturn(train_freq.frequency, 0, continue_training=goes_on)

    def _finish_step(self, callback: BaseCallback, train_freq: TrainFreq, log_interval: int | None) -> bool:
        """Records what a step has led to, once callbacks have changed its rewards; returns if its rollout is over."""
        assert self._step is not None
        (new_obs, rewards, dones, infos), self._step = self._step, None
        self._update_info_buffer(infos, dones)
        self._add_last_records(rewards, dones, infos)
        self._last_obs, self._last_episode_starts, self._rewards = new_obs, dones, rewards
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        for _ in range(dones.sum()):
            self._episode_num += 1
            if log_interval is not None and self._episode_num % log_interval == 0:
                self.dump_logs()
        self._played += 1
        is_over = self._played >= train_freq.frequency or self.num_timesteps >= self._total_timesteps
        if is_over:
            self._played = 0
            self.trained_rollouts += 1
            callback.on_rollout_end()
        return is_over

    def _act(self) -> NDArray[Any]:
        """Returns actions of all environments; the record of an observation is complete with the action taken there."""
        assert self.env is not None and self._last_obs is not None
        assert self._last_episode_starts is not None  # all set by _setup_learn
        if isinstance(self.replay_buffer, FightReplayBuffer):
            self.replay_buffer.look(self.env, self._last_episode_starts)
        observations = self.policy.observed.tensors(self.policy.obs_to_tensor(self._last_obs)[0])
        if self._carried is None or len(self._carried.deter) != self.n_envs:
            self._carried = self.policy.start(self.n_envs)
        is_first = th.as_tensor(self._last_episode_starts, device=self.device)
        actions, self._carried = self.policy.step(observations, self._carried, is_first, self.policy.draws)
        records = _prefixed("observation", observations) | _prefixed("action", actions)
        records |= _latents(*self._carried[:2]) | {"is_first": self._last_episode_starts}
        records["reward"] = np.where(self._last_episode_starts, 0, self._rewards)
        self.replay_buffer.append(np.arange(self.n_envs), {**records, "is_last": False, "is_terminal": False})
        return self.policy.actions.to_env(actions)

    def _add_last_records(self, rewards: NDArray[Any], dones: NDArray[Any], infos: list[dict[str, Any]]) -> None:
        # SB3's environments have reset by now: the last observation of an episode, with its reward, is in the infos.
        for env in np.flatnonzero(dones):
            observation = self.policy.obs_to_tensor(infos[env]["terminal_observation"])[0]
            seen = _prefixed("observation", self.policy.observed.tensors(observation))
            record: dict[str, Any] = dict.fromkeys(self.replay_buffer.layout, 0)
            is_terminal = not infos[env].get("TimeLimit.truncated", False)
            record |= {**seen, "reward": rewards[env], "is_last": True, "is_terminal": is_terminal}
            self.replay_buffer.append(np.array([env]), record)

    # -- learning

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Makes the updates that are due after the records so far."""
        if self.replay_buffer.size() < batch_size * self.batch_length:
            return
        self._update_learning_rate(self.policy.optimizer)
        if is_schedule(self.ent_coef):
            ent_coef = value_at("ent_coef", self.ent_coef, self.trained_rollouts)
            self.settings = replace(self.settings, ent_coef=ent_coef)
            self.logger.record("train/ent_coef", ent_coef)
        ratio, records = self.train_ratio / (batch_size * self.batch_length), int(self.replay_buffer.counts.sum())
        due, self._counted = updates_due(ratio, records, self._counted)
        for _ in range(due):
            self.update()

    def update(self) -> None:
        """Makes one update."""
        replay, (group,) = self.replay_buffer, self.policy.optimizer.param_groups
        if self.cuda_graph:  # which reads a schedule's rate from where it was captured
            group["lr"] = self._rate.fill_(group["lr"])
        places = replay.choose(self.batch_size)
        self._seen = self._batch(replay.read(places))
        states, self._figures = self._learning(self._seen)
        # Later sequences start from these states; the first record's was not computed anew.
        replay.write(places[:, 1:], _latents(*states))
        self.n_updates += 1

    def _learn(self, batch: Sequences) -> tuple[Latent, Tensors]:
        """Learns from a batch; returns the states that the model came to, and figures for the log."""
        policy, kind = self.policy, self.device.type
        policy.optimizer.zero_grad()
        with th.autocast(kind, th.bfloat16, self.precision == "bf16", cache_enabled=not self.cuda_graph):
            losses = dreamer_losses(policy.networks, batch, policy.return_scale, self.settings, policy.draws)
        losses.total(self.settings.scales).backward()  # type: ignore[no-untyped-call]
        policy.optimizer.step()
        policy.networks.follow(self.tau)
        return losses.observed.states, losses.figures(policy.return_scale, policy.actions.signals)

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
        if self._seen is not None and isinstance(self.policy, FighterPolicy):
            for name, share in illegal_shares(self.policy.networks, self._seen, self.imagined_steps).items():
                self.logger.record(name, share)
        super().dump_logs()


def _prefixed(kind: str, tensors: Tensors) -> Arrays:
    return {f"{kind}/{key}": values.cpu().numpy() for key, values in tensors.items()}


def _latents(deter: th.Tensor, stoch: th.Tensor) -> Arrays:
    return {"deter": deter.detach().cpu().numpy(), "stoch": stoch.argmax(-1).cpu().numpy()}
