"""`AutoregressivePolicy`: masked heads that see the choices of earlier heads, and a critic that sees both fighters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from sb3_pvp.common.errors import require_known
from sb3_pvp.game.contract import Contract
from sb3_pvp.policies.contracts import AUTO, find_contract
from sb3_pvp.policies.features import (
    NormalizedFeatures,
    checked_observation,
    flat_masks,
    head_sizes_of,
    make_extractor,
)
from sb3_pvp.policies.heads import HEAD_FLAGS, AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.memory import NOT_CARRIED, EpisodeMemory, Remembered, read_memory
from sb3_pvp.policies.networks import (
    ACTIVATIONS,
    LEAST_ROWS_OF_LINEAR,
    Architecture,
    RunningNormalizer,
    apply_layers,
    filled,
    in_float32,
    make_network,
    parse_architectures,
)
from sb3_pvp.policies.sampling import AutoregressiveDistribution

Observation = NDArray[Any] | dict[str, NDArray[Any]]


class AutoregressivePolicy(MaskableActorCriticPolicy):
    """Autoregressive masked policy for `sb3_contrib.MaskablePPO` and `sb3_pvp.PvpPPO` (training.md §3).

    - Head ``i`` sees the choices of heads ``0..i-1``; every joint action obeys the masks and the rules between heads.
    - Masks default to ``obs["action_mask"]``, so `predict` always acts legally.
    - ``obs["privileged"]`` reaches the critic only; `predict` works without it.
    - Observations and the choices that heads see are normalised by running statistics, which are saved with the
      weights. They are collected during rollouts and applied after each learning phase. The first rollout only
      collects statistics: the weights do not change.

    The observation space is a Box, or a Dict of Boxes: ``"observation"`` (or any other keys) and, optionally,
    ``"privileged"`` and ``"action_mask"``. The action space is MultiDiscrete or Discrete.

    Args:
        net_arch: layers of actor and critic, one architecture or ``{"pi": ..., "vf": ...}``; by default ``[64, 64]``.
            An architecture is a list of sizes or ``{"layers": [...]}`` (`sb3_pvp.policies.networks.parse_layers`).
        head_arch: hidden layers of every head; or a list of architectures, one per head.
        features_extractor_class: an SB3 features extractor for observations with a shape, or its name, such as
            ``"ResidualPlanes"`` (`sb3_pvp.policies.extractors.known_extractors`); one for each of actor and critic,
            see `sb3_pvp.policies.features.ShapedFeatures`. The privileged part reaches the critic beside
            it. It sees normalised numbers, also of images, unless ``normalize_observations`` is false.
        features_extractor_kwargs: its arguments.
        features_arch: layers in front of actor and critic (after the extractor), one network for each of the two.
        share_features_extractor: use one such network for both; not possible with a privileged part.
        activation: ``"relu"``, ``"tanh"`` or ``"gelu"``, after each size of a list architecture.
        autoregressive: show each head the choices of the heads before it. Rules between heads hold either way.
        normalize_actions: normalise the choices that heads see.
        normalize_observations: normalise the observations.
        future_masks: show each head the masks of the heads after it.
        scale_constants: divide also features and choices that have been constant so far by their standard deviation of
            almost 0, as the original system does; by default they are only centred.
        memory: what the policy remembers of an episode, `sb3_pvp.policies.memory.MemorySettings` as a mapping, such as
            ``{"kind": "gru", "size": 64}``. Only `sb3_pvp.PvpPPO` trains it.
        contract: name, file or `Contract` with the rules between heads; ``"auto"``: the registered contract with these
            heads and observations, if there is one; ``None``: no rules. Names and files are looked up again when a
            saved model is loaded; a `Contract` is saved with the model.
        optimizer_class: as in SB3.
        optimizer_kwargs: as in SB3; the default is Adam with ``eps=1e-5``, fused.

    Raises:
        ValueError: if a space or an argument is not supported, or the contract does not fit the spaces.
    """

    action_net: AutoregressiveHeads
    action_dist: AutoregressiveDistribution
    optimizer: th.optim.Optimizer
    extractors: Any  #: `nn.ModuleList` of two `nn.Sequential`: for the actor and for the critic.

    def __init__(
        self,
        observation_space: spaces.Space,  # type: ignore[type-arg]
        action_space: spaces.MultiDiscrete | spaces.Discrete,
        lr_schedule: Schedule,
        *,
        net_arch: Architecture | Mapping[str, Architecture] | None = None,
        head_arch: Architecture | Sequence[Architecture] = (),
        features_extractor_class: type[BaseFeaturesExtractor] | str | None = None,
        features_extractor_kwargs: Mapping[str, Any] | None = None,
        features_arch: Architecture = (),
        share_features_extractor: bool = False,
        activation: str = "relu",
        autoregressive: bool = True,
        normalize_actions: bool = True,
        normalize_observations: bool = True,
        future_masks: bool = False,
        scale_constants: bool = False,
        memory: Mapping[str, Any] | None = None,
        contract: str | Contract | None = AUTO,
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if isinstance(features_extractor_class, str):
            from sb3_pvp.policies.extractors import find_extractor

            features_extractor_class = find_extractor(features_extractor_class)
        # Saved with the weights as given, so before the defaults below are filled in.
        names = AutoregressivePolicy.__init__.__kwdefaults__ or ()
        self._arguments: dict[str, Any] = {name: value for name, value in locals().items() if name in names}
        self.head_sizes = head_sizes_of(action_space)
        if optimizer_kwargs is None and optimizer_class is th.optim.Adam:
            optimizer_kwargs = {"eps": 1e-5, "fused": True}
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            features_extractor_class=NormalizedFeatures,
            features_extractor_kwargs={"normalize": normalize_observations, "scale_constants": scale_constants},
            optimizer_class=optimizer_class,
            optimizer_kwargs=optimizer_kwargs or {},
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """Returns the arguments as given; SB3's would include those of ActorCriticPolicy that we do not take."""
        space = {"observation_space": self.observation_space, "action_space": self.action_space}
        return space | {"lr_schedule": self._dummy_schedule} | self._arguments

    def _build(self, lr_schedule: Schedule) -> None:
        """Builds networks, heads and optimiser in place of SB3's MLPs."""
        given, extractor = self._arguments, self.features
        self.contract: Contract | None = find_contract(given["contract"], self.head_sizes, extractor)
        self.rules = DependencyRules(self.head_sizes, self.contract.dependencies if self.contract else None)
        require_known("activation", given["activation"], ACTIVATIONS)
        of_features, of_actor, of_critic, of_heads = parse_architectures(given, len(self.head_sizes))
        make = partial(make_extractor, self.observation_space, given, of_features)
        # Public features come first, so that the actor's part of a row is a slice, and the critic's the whole row.
        public = everything = make(extractor.num_public)
        if not given["share_features_extractor"]:
            everything = make(extractor.features_dim)
        elif extractor.has_privileged:
            raise ValueError("share_features_extractor=True would show the privileged part to the actor; leave it out")
        self.extractors = nn.ModuleList([public[0], everything[0]])
        settings = None if given["memory"] is None else read_memory(given["memory"])
        self.memory: EpisodeMemory | None = None if settings is None else settings.make(public[1])
        of_memory = settings.size if settings else 0
        self._critic_remembers = settings is not None and settings.critic
        self.actor, num_inputs = make_network(public[1] + of_memory, of_actor)
        self.critic, width = make_network(everything[1] + of_memory * self._critic_remembers, of_critic)
        self.value_net = nn.Linear(width, 1)
        flags = (given[flag] for flag in HEAD_FLAGS)
        self.action_net = AutoregressiveHeads(num_inputs, self.rules, of_heads, *flags)
        self.action_net.initialize()
        self.action_dist = AutoregressiveDistribution(self.action_net)
        # Orthogonal weights, zero biases (training.md §3.9).
        gains = {self.extractors: sqrt(2), self.actor: sqrt(2), self.critic: sqrt(2), self.value_net: 1}
        for module, gain in gains.items():
            module.apply(partial(self.init_weights, gain=gain))
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]
        self.optimizer.register_step_post_hook(self.forget_tables)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the hook, which optimisers lose when they are copied or pickled."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.optimizer.register_step_post_hook(self.forget_tables)

    def forget_tables(self, *_: object) -> None:
        """Lets what `act` has precomputed from the weights be computed again, after these have been replaced."""
        # A hook, because fused optimisers do not bump the version counters that tables are compared by.
        self.action_dist.built_from = ()

    @property
    def features(self) -> NormalizedFeatures:
        """The features extractor, with its own type."""
        assert isinstance(self.features_extractor, NormalizedFeatures)
        return self.features_extractor

    @property
    def heads(self) -> AutoregressiveHeads:
        """The action heads."""
        return self.action_net

    @property
    def head_ids(self) -> list[str]:
        """Ids of the heads in the contract, or their indices as text without a contract."""
        numbers = [*map(str, range(len(self.head_sizes)))]
        return [head.id for head in self.contract.heads] if self.contract else numbers

    @property
    def observation_normalizer(self) -> RunningNormalizer:
        """The running statistics of one frame's features, public before privileged."""
        return self.features.normalizer

    @property
    def has_statistics(self) -> bool:
        """Whether the statistics contain a rollout, so that learning can begin."""
        return bool(self.observation_normalizer.count > 0)

    def forward(
        self, obs: PyTorchObs, deterministic: bool | Sequence[bool] = False, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns sampled actions ``(batch, heads)``, values ``(batch, 1)`` and log-probabilities ``(batch,)``.

        Raises `ValueError` if the policy has memory, as this is the way of algorithms that do not carry it.
        """
        if self.memory is not None:
            instead = "train it with sb3_pvp.PvpPPO, or leave out policy_kwargs['memory']"
            raise ValueError(NOT_CARRIED.format(what="MaskablePPO", instead=instead))
        features, masks = self.features(obs), self._masks(obs, action_masks)
        # SB3's own loop comes by here, step by step; `PvpPPO` calls `act`, and computes values once per rollout.
        latent = self._actor_latent(features)
        actions, log_probs = self.action_dist.act(latent, masks, deterministic)
        self.observe(obs, actions)
        if th.is_grad_enabled():  # sampling computes log-probabilities outside of autograd
            log_probs = self.heads(latent, masks, actions)[0].sum(1)
        return self._shaped(actions), self.values_of(features), log_probs

    @th.no_grad()
    def act(
        self,
        obs: PyTorchObs,
        deterministic: bool | Sequence[bool] = False,
        action_masks: Any = None,
        uniforms: th.Tensor | None = None,
        remembered: Remembered | None = None,
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns sampled actions ``(batch, heads)`` and log-probabilities ``(batch,)``, as `forward` without values.

        `PvpPPO` computes the values of a whole rollout at once, by `predict_values`, and its statistics, by `observe`.
        ``uniforms`` are random numbers to sample with, see `AutoregressiveDistribution.act`. ``remembered`` is what the
        rows remember, for a policy with memory, and gets the next states; by default their episodes begin."""
        masks = self._masks(obs, action_masks)
        actions, log_probs = self.action_dist.act(self.actor_latent(obs, remembered), masks, deterministic, uniforms)
        return self._shaped(actions), log_probs

    def observe(self, obs: PyTorchObs, actions: th.Tensor) -> None:
        """Collects the statistics of observations, and of the actions that were taken, ``(batch, heads)``."""
        self.features.observe(obs)
        self.heads.observe(actions.reshape(-1, len(self.head_sizes)))

    def _shaped(self, actions: th.Tensor) -> th.Tensor:
        """Returns joint actions ``(batch, heads)`` in the shape of the action space."""
        return actions.reshape(-1, *(self.action_space.shape or ()))

    def evaluate_actions(
        self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        """Returns values ``(batch, 1)``, and log-probabilities and entropies ``(batch,)``, for given actions."""
        values, log_probs, entropies = self.evaluate_heads(obs, actions, action_masks)
        return values, log_probs.sum(1), entropies.sum(1)

    def evaluate_heads(
        self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns values ``(batch, 1)``, and log-probabilities and entropies per head ``(batch, heads)``.

        Both are conditional on the given actions of earlier heads (training.md §3.7).
        """
        found = self.evaluate_features(self._seen(obs), actions, self._masks(obs, action_masks))
        values, log_probs, entropies = found
        return values, log_probs, entropies

    def evaluate_features(
        self, features: th.Tensor, actions: th.Tensor, masks: th.Tensor, magnet: th.Tensor | None = None
    ) -> tuple[th.Tensor, ...]:
        """Does the same as `evaluate_heads` for normalised features ``(batch, features_dim)``; masks are bool.

        Of a policy with memory these are followed by what is remembered, see `remembering`.

        With ``magnet``, the `logits` of another policy, it also returns the KL divergences from it ``(batch, heads)``.
        """
        joint = actions.long().reshape(len(features), -1)
        # The trunk is passed on, not its output: on the CPU the heads decide which rows need it.
        log_probs, entropies, *divergences = self.heads(features, masks, joint, self._actor_latent, magnet)
        values = self.values_of(features)
        if self.training and not self.has_statistics and self.observation_normalizer.has_pending:
            # The first rollout only collects statistics (training.md §5). MaskablePPO calls backward() regardless, so
            # the results stay attached to the graph, with gradients of zero.
            zero = 0.0 * self.value_net.bias.sum()
            return tuple(part.detach() + zero for part in (values, log_probs, entropies, *divergences))
        return values, log_probs, entropies, *divergences

    def logits(self, features: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns flat logits ``(batch, A)``, given earlier actions, for normalised features; without gradients."""
        joint = actions.long().reshape(len(features), -1)
        found: th.Tensor = self.heads.logits(features, masks, joint, self._actor_latent)
        return found

    def log_prob(self, features: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns the log-probabilities ``(batch,)`` of actions for normalised features, without values."""
        joint = actions.long().reshape(len(features), -1)
        log_probs: th.Tensor = self.heads(features, masks, joint, self._actor_latent)[0]
        return log_probs.sum(1)

    @th.no_grad()
    def head_probabilities(self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None) -> th.Tensor:
        """Returns the probabilities of all entries given the actions of earlier heads, float ``(batch, A)``."""
        return self.evaluate_entries(obs, actions, action_masks)[0]

    def evaluate_entries(
        self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None, remembered: Remembered | None = None
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns what `head_probabilities` does, attached to the graph, and values ``(batch, 1)``."""
        features, masks = self._seen(obs, remembered), self._masks(obs, action_masks)
        return self.probabilities(features, actions, masks), self.values_of(features)

    def probabilities(self, features: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
        """Returns what `head_probabilities` does, attached to the graph, for normalised features."""
        joint = actions.long().reshape(len(features), -1)
        return self.heads.probabilities(features, masks, joint, self._actor_latent)

    def get_distribution(self, obs: PyTorchObs, action_masks: Any = None) -> AutoregressiveDistribution:
        """Returns the distribution of joint actions; masks default to those in the observation."""
        # A copy, which shares heads and tables: two distributions at a time must not share masks.
        distribution = copy(self.action_dist).proba_distribution(self.actor_latent(obs))
        distribution.apply_masking(self._masks(obs, action_masks))
        return distribution

    def actor_latent(self, obs: PyTorchObs, remembered: Remembered | None = None) -> th.Tensor:
        """Returns the output of the actor's trunk ``(batch, inputs of the heads)``; for ``remembered`` see `act`."""
        features = self._seen(obs, remembered)
        # Filled up, so that an action does not depend on how many rows were asked for at once.
        return self._actor_latent(filled(features, LEAST_ROWS_OF_LINEAR))[: len(features)]

    def predict_values(self, obs: PyTorchObs, remembered: Remembered | None = None) -> th.Tensor:
        """Returns the critic's values ``(batch, 1)``; for ``remembered`` see `act`."""
        return self.values_of(self._seen(obs, remembered) if self._critic_remembers else self.features(obs))

    def remembering(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Returns normalised features of sequences followed by what is remembered in each step, with gradients.

        Args:
            features: ``(T * n, features_dim)``, first those of the first step of all n sequences.
            state: before the first step, ``(n, width)``.
            starts: where episodes begin, bool ``(T * n,)``.
        """
        assert self.memory is not None
        return th.cat([features, self.memory.learn(self._public(features), state, starts)], 1)

    def _seen(self, obs: PyTorchObs, remembered: Remembered | None = None) -> th.Tensor:
        """Returns normalised features, with memory followed by what is remembered in this tick."""
        features: th.Tensor = self.features(obs)
        if self.memory is None:
            return features
        if remembered is None:
            starts = th.ones(len(features), dtype=th.bool, device=features.device)
            remembered = Remembered(self.memory.initial(len(features)), starts)
        return th.cat([features, self.memory.act(self._public(features), remembered)], 1)

    def predict(
        self,
        observation: Observation,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool | Sequence[bool] = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Returns legal actions for one observation or a batch of them, as in SB3.

        A head whose entries are all masked takes its first entry, as long as another head has a legal one.

        Args:
            observation: an observation of the environment, with or without ``"privileged"``; or, for a Dict space, the
                array ``(features,)``, ``(frames, features)`` or ``(batch, ...)`` of its ``"observation"``.
            state: with memory, what the last call has returned, an array ``(batch, width)`` in a tuple; ``None`` where
                episodes begin.
            episode_start: bool ``(batch,)``: which episodes begin, so that nothing before counts; by default none.
            deterministic: take the most likely entry of every head; or a sequence with one bool per head.
            action_masks: flat masks ``(A,)`` or ``(batch, A)``; may be left out if they are in the observation.

        Returns:
            Actions ``(heads,)`` or ``(batch, heads)``, and the next state; ``None`` without memory.

        Raises:
            ValueError: if a mask is missing, not 0 or 1, or allows nothing, the observation does not fit or is NaN, or
                the state is of another size.
        """
        observation = checked_observation(observation, self.observation_space, action_masks)
        if self.memory is not None:
            self.set_training_mode(False)
            seen, is_batch = self.obs_to_tensor(observation)
            rows = len(seen if isinstance(seen, th.Tensor) else next(iter(seen.values())))
            remembered = self.memory.given(state, episode_start, rows)
            with th.no_grad():
                actions = self._predict(seen, deterministic, action_masks, remembered).cpu().numpy()
            actions = actions.reshape(-1, *(self.action_space.shape or ()))
            return (actions if is_batch else actions[0]), (remembered.state.cpu().numpy(),)
        return super().predict(observation, state, episode_start, deterministic, action_masks)  # type: ignore[arg-type]

    def _predict(
        self,
        observation: PyTorchObs,
        deterministic: bool | Sequence[bool] = False,
        action_masks: Any = None,
        remembered: Remembered | None = None,
    ) -> th.Tensor:
        """Samples actions; refuses NaN and masks without a legal entry, which would give an arbitrary action."""
        latent, masks = self.actor_latent(observation, remembered), self._masks(observation, action_masks)
        if latent.isnan().any():
            raise ValueError("the observation or a weight of the model is NaN: no action can be chosen")
        if not masks.any(1).all():
            raise ValueError("an action mask allows nothing: at least one entry must be true, such as that of waiting")
        return self.action_dist.act(latent, masks, deterministic)[0]

    def set_training_mode(self, mode: bool) -> None:
        """Switches modes as in SB3; after learning, applies the statistics that the rollout has collected."""
        # The training mode ends once in a learning phase, after it: a rollout and its learning see the same statistics.
        if self.training and not mode:
            self.observation_normalizer.update()
            self.heads.normalizer.update()
            # Needed for optimisers without our hook, such as one that a user has put in place.
            self.forget_tables()
        super().set_training_mode(mode)

    def _actor_latent(self, features: th.Tensor) -> th.Tensor:
        """Returns the output of the actor's trunk ``(batch, inputs of the heads)``, from the public features only."""
        return apply_layers(self.actor, self._with_memory(self._public(features), features))

    def _public(self, features: th.Tensor) -> th.Tensor:
        """Returns what actor and memory see of flat features."""
        return apply_layers(self.extractors[0], features[:, : self.features.num_public])

    def _with_memory(self, inputs: th.Tensor, features: th.Tensor) -> th.Tensor:
        """Returns inputs of a network beside what is remembered, behind the flat features."""
        return inputs if self.memory is None else th.cat([inputs, features[:, self.features.features_dim :]], 1)

    def values_of(self, features: th.Tensor) -> th.Tensor:
        """Returns the critic's values ``(batch, 1)`` for normalised features, see `evaluate_features`."""
        inputs = apply_layers(self.extractors[1], features[:, : self.features.features_dim])
        latent = apply_layers(self.critic, self._with_memory(inputs, features) if self._critic_remembers else inputs)
        with in_float32(latent):
            return nn.functional.linear(latent.float(), self.value_net.weight, self.value_net.bias)

    def _masks(self, obs: PyTorchObs, action_masks: Any) -> th.Tensor:
        # Not self.device: SB3's property walks the module tree at each call.
        return flat_masks(obs, action_masks, self.rules.num_flat, self.value_net.weight.device)


# Pickle stores a class by its __module__: saved models find it in the package, wherever this file is.
AutoregressivePolicy.__module__ = "sb3_pvp.policies"
