"""DreamerV3 for fighters: masks that the model expects, heads with rules, and who sat opposite (dreamer.md §4.1).

In a fight, masks are true. While the actor plays in the model there are none, so the model learns to expect them: a
head upon its state says of each entry how likely it is to be legal, and the actor chooses by masks drawn from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.vec_env import VecEnv
from torch import nn
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.distributions import Draws, mixed_probs
from sb3_pvp.algorithms.dreamer.dreamer_policy import DreamerPolicy
from sb3_pvp.algorithms.dreamer.layers import multi_layer
from sb3_pvp.algorithms.dreamer.losses import Sequences
from sb3_pvp.algorithms.dreamer.sequences import SequenceReplayBuffer
from sb3_pvp.algorithms.dreamer.signals import Signal
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent, Tensors, WorldDecoder
from sb3_pvp.game.contract import Contract, DependencyTables
from sb3_pvp.policies.contracts import AUTO, find_contract
from sb3_pvp.policies.features import ACTION_MASK, NormalizedFeatures, head_sizes_of
from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.sampling import AutoregressiveDistribution

OPPONENT = "opponent"  #: The part of a record that says who sat opposite; no network sees it.
#: The metrics of `illegal_shares`.
METRICS = {
    "world_model/illegal": "Share of the actions that the actor would take in the model, over all steps that it plays "
    "there, that the true masks forbid.",
    "world_model/illegal_seen": "The same where the model has just seen the observation.",
    "world_model/illegal_end": "The same after as many steps as the actor plays in the model.",
    "world_model/mask_errors": "Share of the entries of masks that the model expects wrongly, over all those steps.",
}
#: So many sequences are looked at for one that is against a present opponent.
_CANDIDATES = 64


class MaskedDecoder(WorldDecoder):
    """Predicts observations, and the mask as the logit of each entry."""

    def __init__(self, signals: Mapping[str, Signal], size: ModelSize) -> None:
        super().__init__({key: signal for key, signal in signals.items() if key != ACTION_MASK}, size)
        self.masks = multi_layer(size.features, size.units, size.layers, signals[ACTION_MASK].width)

    def forward(self, states: Latent) -> Tensors:
        """Returns what `WorldDecoder` returns, and the logits of masks ``(…, A)``."""
        return super().forward(states) | {ACTION_MASK: self.masks(states.features()).float()}

    def losses(self, predictions: Tensors, observations: Mapping[str, th.Tensor]) -> Tensors:
        """Returns the loss ``(…)`` of each key, summed over its elements."""
        logits = predictions[ACTION_MASK]
        losses = super().losses({key: part for key, part in predictions.items() if key != ACTION_MASK}, observations)
        own = F.binary_cross_entropy_with_logits(logits, observations[ACTION_MASK], reduction="none")
        return losses | {ACTION_MASK: own.sum(-1)}


class HeadsActor(nn.Module):
    """The actor: heads of which each sees what those before it chose, with the rules between them."""

    def __init__(self, actions: Mapping[str, Signal], size: ModelSize, tables: DependencyTables | None) -> None:
        super().__init__()
        #: How many heads each key of the action has.
        self.counts = {key: signal.size for key, signal in sorted(actions.items())}
        sizes = tuple(actions[key].classes for key, count in self.counts.items() for _ in range(count))
        self.trunk = multi_layer(size.features, size.units, size.layers)
        rules, flags = DependencyRules(sizes, tables), {"autoregressive": True, "normalize_actions": False}
        self.heads = AutoregressiveHeads(size.units, rules, [()] * len(sizes), **flags, future_masks=False)
        self.heads.initialize()
        # Nothing here is other while it learns, and tables are made anew for each choice then.
        self.distribution = AutoregressiveDistribution(self.heads.eval())

    def choose(self, features: th.Tensor, draws: Draws, masks: th.Tensor) -> Tensors:
        """Returns legal class numbers ``(n, size)`` of each key by masks, bool ``(n, A)``."""
        numbers = draws.uniforms(len(features), len(self.heads.rules.head_sizes))
        chosen, _ = self.distribution.act(self.trunk(features).detach().float(), masks, uniforms=numbers)
        return dict(zip(self.counts, th.split(chosen, [*self.counts.values()], -1), strict=True))

    def judge(self, features: th.Tensor, actions: Tensors) -> tuple[th.Tensor, Tensors]:
        """Returns log-probabilities ``(…)`` and entropies ``(…)`` of each key, see `DreamerNetworks.judge`."""
        masks, chosen = actions[ACTION_MASK], th.cat([actions[key] for key in self.counts], -1)
        rows = (part.flatten(0, -2) for part in (features, masks, chosen))
        log_probs, entropies = (part.reshape(*masks.shape[:-1], -1) for part in self.heads(*rows, self.trunk))
        parts = zip(self.counts, th.split(entropies, [*self.counts.values()], -1), strict=True)
        return log_probs.sum(-1), {key: part.sum(-1) for key, part in parts}


class FighterNetworks(DreamerNetworks):
    """The networks of a fighter: those of DreamerV3 with another actor, and a head for masks."""

    actor: HeadsActor  # type: ignore[assignment]
    decoder: MaskedDecoder

    def __init__(
        self,
        observations: Mapping[str, Signal],
        actions: Mapping[str, Signal],
        size: ModelSize,
        tables: DependencyTables | None,
    ) -> None:
        super().__init__(observations, actions, size)
        self.decoder, self.actor = MaskedDecoder(observations, size), HeadsActor(actions, size, tables)

    def choose(self, features: th.Tensor, draws: Draws, masks: th.Tensor | None = None) -> Tensors:
        """Returns an action of each key, and the masks by which it is legal: by default drawn ones."""
        if masks is None:
            # Drawn, not those that are likelier than not: what is seldom legal, such as to attack, would never be tried
            # in the model, and forgotten, before the model knows when it is.
            chances = self.decoder.masks(features).float().sigmoid()
            masks = chances > (0.5 if draws.likeliest else th.rand_like(chances))
        # With the action, as masks that are expected again would differ by what is rounded.
        return self.actor.choose(features, draws, masks) | {ACTION_MASK: masks}

    def legal(self, observations: Tensors) -> th.Tensor:
        """Implements `DreamerNetworks.legal`."""
        return observations[ACTION_MASK] > 0

    def judge(self, features: th.Tensor, actions: Tensors) -> tuple[th.Tensor, Tensors]:
        """Implements `DreamerNetworks.judge`."""
        return self.actor.judge(features, actions)


class FighterPolicy(DreamerPolicy):
    """The policy of games with masks: `DreamerV3` takes it where an observation has one and all actions are choices.

    ``contract`` has the rules between heads, as in `AutoregressivePolicy`; other arguments are those of
    `DreamerPolicy`. Raises `ValueError` if the contract does not fit, or ``mlp_keys`` leave out the mask.
    """

    networks: FighterNetworks

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *arguments: Any,
        contract: str | Contract | None = AUTO,
        **others: Any,
    ) -> None:
        self._contract = contract
        super().__init__(observation_space, action_space, lr_schedule, *arguments, **others)

    def make_networks(self) -> FighterNetworks:
        """Implements `DreamerPolicy.make_networks`."""
        seen, heads = self.observed.signals, head_sizes_of(self.action_space)
        if ACTION_MASK not in seen or seen[ACTION_MASK].width != sum(heads):
            raise ValueError(f"a fighter needs masks of its {sum(heads)} choices: mlp_keys must match {ACTION_MASK!r}")
        features = NormalizedFeatures(self.observation_space) if self._contract == AUTO else None
        found = find_contract(self._contract, heads, features)  # type: ignore[arg-type]  # needed for AUTO alone
        return FighterNetworks(seen, self.actions.signals, self.size, found.dependencies if found else None)


def is_masked(observations: spaces.Space[Any], actions: spaces.Space[Any]) -> bool:
    """Returns whether `FighterPolicy` is for these spaces."""
    if not isinstance(observations, spaces.Dict) or not isinstance(actions, (spaces.Discrete, spaces.MultiDiscrete)):
        return False
    numbers = [part for key, part in observations.spaces.items() if key != ACTION_MASK]
    is_plain = all(isinstance(part, spaces.Box) for part in numbers) and not np.any(getattr(actions, "start", 0))
    return is_plain and isinstance(observations.spaces.get(ACTION_MASK), spaces.Box)


class FightReplayBuffer(SequenceReplayBuffer):
    """Knows who sat opposite in each record, and prefers fights against those who are present.

    ``recent`` is the share of sequences that are drawn from fights against opponents who are present now, of all
    that are drawn; where nobody has changed, that is the same.
    """

    counted: ClassVar[tuple[str, ...]] = (*SequenceReplayBuffer.counted, "names", "present")

    def __init__(self, recent: float, buffer_size: int, n_envs: int, *others: Any) -> None:
        super().__init__(buffer_size, n_envs, *others)
        self.recent = recent
        self.names: list[str] = []  #: Of all opponents, in the order in which they first came.
        #: The number of the name of each environment's opponent, int32 ``(n_envs,)``; -1: not known.
        self.present = np.full(n_envs, -1, np.int32)

    def look(self, env: VecEnv, starts: NDArray[np.bool_]) -> None:
        """Looks who sits opposite where episodes start, bool ``(n_envs,)``."""
        rows = np.flatnonzero(starts)
        for row, name in zip(rows, env.get_attr("opponent_name", rows) if rows.size else (), strict=True):
            if name not in self.names:
                self.names.append(name)
            self.present[row] = self.names.index(name)

    def append(self, envs: NDArray[np.int64], records: Mapping[str, Any]) -> None:
        """Adds records as `SequenceReplayBuffer.append` does, with who sits opposite."""
        super().append(envs, {**records, OPPONENT: self.present[envs]})

    def draw(self, count: int) -> NDArray[np.int64]:
        """Implements `SequenceReplayBuffer.draw`."""
        drawn = super().draw(count)
        if not self.recent or not count:
            return drawn
        candidates = super().draw(_CANDIDATES * count)
        # A sequence may cross from one fight to the next: that of its middle is what most of it is of.
        middles = self.places(*self.located(candidates))[:, self.length // 2]
        fitting = candidates[np.isin(self.records[OPPONENT][middles], self.present)]
        if fitting.size:
            preferred = self.random.random(count) < self.recent
            drawn[preferred] = self.random.choice(fitting, preferred.sum())
        return drawn


@th.no_grad()
def illegal_shares(networks: FighterNetworks, batch: Sequences, steps: int) -> dict[str, float]:
    """Returns the `METRICS`: how actions and masks in the model are by true masks; nothing if no episode is so long.

    From every state of a batch, the model goes on with the actions that were taken, seeing nothing: after each step,
    what the actor would do there is compared with the true mask. Random numbers of others are not touched.
    """
    with th.random.fork_rng():
        th.manual_seed(0)
        draws, first = Draws(), batch.is_first
        steps = min(steps, first.shape[1] - 1)
        tokens = networks.encoder(batch.observations)
        states = networks.recurrent.observe(batch.start, tokens, batch.actions, first, draws).states
        # Only where the same episode goes on for so long.
        whole = ~first.unfold(1, steps + 1, 1)[..., 1:].any(-1)
        if not whole.any():
            return {}
        state = Latent(*(part[:, : whole.shape[1]][whole] for part in states))
        illegal, errors = [], []
        for step in range(steps + 1):
            window = slice(step, step + whole.shape[1])
            if step:
                deter = networks.recurrent.core(state, batch.actions[:, window][whole])
                state = Latent(deter, draws.latent(mixed_probs(networks.recurrent.prior(deter))))
            chosen = networks.choose(state.features(), draws)
            true = batch.observations[ACTION_MASK][:, window][whole] > 0
            errors.append((chosen[ACTION_MASK] != true).float().mean().item())
            illegal.append(forbidden(networks.actor, chosen, true).float().mean().item())
    figures = float(np.mean(illegal)), illegal[0], illegal[-1], float(np.mean(errors))
    return dict(zip(METRICS, figures, strict=True))


def forbidden(actor: HeadsActor, actions: Tensors, masks: th.Tensor) -> th.Tensor:
    """Returns which joint actions, ``(n, size)`` of each key, masks and rules forbid, bool ``(n,)``."""
    rules, chosen = actor.heads.rules, th.cat([actions[key] for key in actor.counts], -1)
    return ((rules.one_hot(chosen) > 0) & ~rules.legal(masks, chosen, compiled=False)).any(-1)
