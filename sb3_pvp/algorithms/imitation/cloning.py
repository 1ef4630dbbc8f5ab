"""Behaviour cloning: a policy learns to do what was done in demonstrations (Pomerleau 1991), head by head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED
from sb3_pvp.policies.files.demonstrations import Demonstration
from sb3_pvp.policies.judging import shaped
from sb3_pvp.policies.networks import ROWS_AT_ONCE

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Agreement:
    """How well a policy foretells what was done; numbers of one tick are means over all ticks."""

    ticks: int
    log_likelihood: float  #: Of the actions of a tick, in nats.
    of_random: float  #: The same of a player that takes any open choice equally likely.
    top1: dict[str, float]  #: By head: how often its most likely choice was made, where there was one to make.

    @property
    def explained(self) -> float:
        """The share of what is surprising in a random player's eyes that the policy foretells: 0 as random, 1 all."""
        return 1 - self.log_likelihood / self.of_random if self.of_random else 0.0

    @property
    def mean_top1(self) -> float:
        """The mean of ``top1`` over the heads that ever had a choice."""
        return float(np.mean([*self.top1.values()])) if self.top1 else 1.0


class Cloning(NamedTuple):
    """What cloning has come to, on fights that it has not learned from."""

    before: Agreement
    after: Agreement
    epochs: int  #: After which it was best; 0: they have made it no better, and it is as it was.
    learned: int  #: Fights that it has learned from; the rest were held out.
    held_out: int


def open_choices(masks: Flags, actions: NDArray[np.int64], contract: Contract) -> tuple[Flags, NDArray[np.int64]]:
    """Returns whether what was done was open, and how many choices were, by masks and the rules between heads.

    Both are ``(T, heads)``; ``masks`` is ``(T, choices of all heads)``. A head without an open choice takes its first.
    """
    chosen, first = np.zeros_like(masks), contract.head_offsets[:-1]
    np.put_along_axis(chosen, actions + first, True, 1)
    legal = masks & contract.dependencies.satisfied(chosen)
    counts = np.add.reduceat(legal, first, 1, dtype=np.int64)
    return np.take_along_axis(legal, actions + first, 1) | ((counts == 0) & (actions == 0)), counts


@dataclass(frozen=True, eq=False)
class Lessons:
    """The ticks of several fights, one after another, ``N`` in all."""

    observations: NDArray[np.float32]
    masks: Flags
    actions: NDArray[np.int64]
    open: Flags  #: See `open_choices`.
    counts: NDArray[np.int64]
    lengths: tuple[int, ...]  #: Of the fights.

    @classmethod
    def of(cls, fights: Sequence[Demonstration], contract: Contract) -> Lessons:
        """Returns all ticks of demonstrations."""
        looks, masks, actions = (
            np.concatenate([getattr(each, name) for each in fights]) for name in ("observations", "masks", "actions")
        )
        lengths = tuple(len(each.actions) for each in fights)
        return cls(looks, masks, actions, *open_choices(masks, actions, contract), lengths)

    @cached_property
    def fights(self) -> list[NDArray[np.int64]]:
        """The numbers of each fight's ticks."""
        return np.split(np.arange(len(self.actions)), np.cumsum(self.lengths)[:-1])

    def weights(self, contract: Contract, power: float) -> NDArray[np.float32]:
        """Returns what each choice counts ``(choices of all heads,)``, on average 1 a tick in every head.

        Choices that are ``n`` times as rare count ``n ** power`` times as much.
        """
        weights = np.zeros(contract.num_flat_actions, np.float32)
        for head in range(contract.num_heads):
            own = slice(*contract.head_offsets[head : head + 2])
            counts = np.bincount(self.actions[self.open[:, head], head], minlength=contract.head_sizes[head])
            raw = np.where(counts > 0, np.maximum(counts, 1.0) ** -power, 0)
            weights[own] = raw * counts.sum() / max((raw * counts).sum(), 1e-9)
        return weights

    def batches(self, size: int, whole: bool, random: np.random.Generator) -> Iterator[list[NDArray[np.int64]]]:
        """Yields the ticks of mini-batches, of about ``size`` each, in a new order: of whole fights, or single ones."""
        if not whole:
            order = random.permutation(len(self.actions))
            yield from ([part] for part in np.array_split(order, -(-len(order) // size)))
            return
        batch: list[NDArray[np.int64]] = []
        for number in random.permutation(len(self.fights)):
            batch.append(self.fights[number])
            if sum(map(len, batch)) >= size:
                yield batch
                batch = []
        if batch:
            yield batch


def agreement(
    policy: AutoregressivePolicy, fights: Sequence[Demonstration], contract: Contract | None = None
) -> Agreement:
    """Returns how well a policy foretells what was done in fights, from what was seen; no weights change.

    ``contract`` is that of the game, by default the policy's, which fighter files only know of installed games.
    """
    contract = contract or _contract_of(policy)
    lessons, whole = Lessons.of(fights, contract), policy.memory is not None
    policy.set_training_mode(False)
    parts = [[fight] for fight in lessons.fights] if whole else _parts_of(len(lessons.actions))
    surprise, random = 0.0, 0.0
    hits, choices = np.zeros(contract.num_heads), np.zeros(contract.num_heads)
    for part in parts:
        rows = np.concatenate(part)
        features, actions, masks = _seen(policy, lessons, part)
        with th.no_grad():
            chances = policy.probabilities(features, actions, masks).cpu().numpy()
        first = contract.head_offsets[:-1]
        taken = np.take_along_axis(chances, lessons.actions[rows] + first, 1)
        counted = lessons.open[rows] & (lessons.counts[rows] > 1)
        surprise -= float(np.log(np.maximum(taken, 1e-9))[counted].sum())
        random += float(np.log(lessons.counts[rows][counted]).sum())
        hits += ((taken >= np.maximum.reduceat(chances, first, 1)) & counted).sum(0)
        choices += counted.sum(0)
    ticks = len(lessons.actions)
    top1 = {head.id: float(hit / had) for head, hit, had in zip(contract.heads, hits, choices, strict=True) if had}
    return Agreement(ticks, -surprise / ticks, -random / ticks, top1)


def clone(
    model: Any,
    fights: Sequence[Demonstration],
    *,
    epochs: int = 40,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    rare: float = 0.0,
    held_out: float = 0.1,
    patience: int = 4,
    seed: int = 0,
    progress: Callable[[Agreement], object] = lambda found: None,
) -> Cloning:
    """Teaches the policy of a `PvpPPO` what was done in fights; the epoch that foretold best is kept, if any did.

    Every head learns the choices that were open, given those of earlier heads, so what comes out is legal. With memory
    it learns from whole fights.

    Args:
        model: a `PvpPPO` with an `AutoregressivePolicy` that sees the newest frame alone.
        fights: demonstrations of its game, see `sb3_pvp.matches.demonstrating.gather`.
        epochs: passes over all ticks, at most; it ends after ``patience`` of them that made it no better.
        batch_size: ticks.
        learning_rate: of Adam, which falls to nothing.
        rare: how much more rare choices count, from 0, not at all, to 1: every choice of a head as much in all.
        held_out: share of the fights, at least one, by which it is judged.
        seed: of what is held out, and of the order.
        progress: called after every epoch.

    Raises `ValueError` for another kind of model, and for less than two fights.
    """
    policy = model.policy
    if not isinstance(policy, AutoregressivePolicy) or tuple(getattr(model, "frame_ages", None) or (0,)) != (0,):
        raise ValueError("cloning needs a PvpPPO with an AutoregressivePolicy, and frame_ages=(0,)")
    if len(fights) < 2:
        raise ValueError("cloning needs two fights at least: one is held out, to judge by")
    contract, random = _contract_of(policy), np.random.default_rng(seed)
    order = random.permutation(len(fights))
    apart = max(round(len(fights) * held_out), 1)
    judged, learned = [fights[each] for each in order[:apart]], [fights[each] for each in order[apart:]]
    lessons = Lessons.of(learned, contract)
    if not policy.has_statistics:
        _observe(policy, lessons)
        if policy.features.has_privileged:
            # Demonstrations do not have what only a critic sees: its first rollout counts as much as these zeros.
            policy.observation_normalizer.count.clamp_(max=model.n_steps * model.n_envs)
    weights = th.as_tensor(lessons.weights(contract, rare), device=policy.device)
    before = best = agreement(policy, judged)
    kept, since, at = deepcopy(policy.state_dict()), 0, 0
    first = th.tensor(contract.head_offsets[:-1], device=policy.device)
    optimizer = th.optim.Adam(policy.parameters(), lr=learning_rate)
    for epoch in range(1, epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - (epoch - 1) / epochs)
        policy.set_training_mode(True)
        for part in lessons.batches(batch_size, policy.memory is not None, random):
            rows = np.concatenate(part)
            features, actions, masks = _seen(policy, lessons, part)
            log_probs = policy.evaluate_features(features, actions, masks)[1]
            counted = weights[actions + first]
            counted = counted * th.as_tensor(lessons.open[rows], device=policy.device)
            optimizer.zero_grad()
            (-(counted * log_probs).sum(1).mean()).backward()  # type: ignore[no-untyped-call]
            th.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        policy.set_training_mode(False)
        found = agreement(policy, judged)
        progress(found)
        since += 1
        if found.log_likelihood > best.log_likelihood:
            best, kept, since, at = found, deepcopy(policy.state_dict()), 0, epoch
        if since >= patience:
            break
    policy.load_state_dict(kept)
    policy.forget_tables()
    return Cloning(before, best, at, len(learned), len(judged))


def _contract_of(policy: AutoregressivePolicy) -> Contract:
    if policy.contract is None:
        raise ValueError("the policy knows no contract: give policy_kwargs={'contract': ...}")
    return policy.contract


def _parts_of(count: int) -> list[list[NDArray[np.int64]]]:
    return [[part] for part in np.array_split(np.arange(count), -(-count // ROWS_AT_ONCE))]


def _shown(policy: AutoregressivePolicy, lessons: Lessons, rows: NDArray[np.int64]) -> Any:
    """Returns what the policy is shown of ticks; of what only a critic sees, nothing is known."""
    parts: dict[str, Any] = {OBSERVATION: lessons.observations[rows], ACTION_MASK: lessons.masks[rows]}
    known = getattr(policy.observation_space, "spaces", {})
    if PRIVILEGED in known:
        parts[PRIVILEGED] = np.zeros((len(rows), *(known[PRIVILEGED].shape or ())), np.float32)
    return policy.obs_to_tensor(shaped(policy.observation_space, parts))[0]


def _observe(policy: AutoregressivePolicy, lessons: Lessons) -> None:
    """Collects the statistics by which a new policy scales what it sees."""
    policy.set_training_mode(True)
    for (rows,) in _parts_of(len(lessons.actions)):
        policy.observe(_shown(policy, lessons, rows), th.as_tensor(lessons.actions[rows], device=policy.device))
    policy.set_training_mode(False)


def _seen(
    policy: AutoregressivePolicy, lessons: Lessons, part: Sequence[NDArray[np.int64]]
) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    """Returns normalised features, with memory followed by what is remembered, actions, and masks of ticks.

    With memory, ``part`` has the ticks of whole fights.
    """
    rows = np.concatenate(part)
    features = policy.features(_shown(policy, lessons, rows))
    if policy.memory is not None:
        longest, starts = max(map(len, part)), np.cumsum([0, *map(len, part[:-1])])
        # Shorter fights are filled up with their last tick, which nothing is learned from.
        steps = np.arange(longest)[:, np.newaxis]
        wide = th.as_tensor(starts + np.minimum(steps, [len(each) - 1 for each in part]))
        begins = th.zeros(longest, len(part), dtype=th.bool)
        begins[0] = True
        initial = policy.memory.initial(len(part))
        all_rows = policy.remembering(features[wide.ravel()], initial, begins.ravel().to(features.device))
        columns = np.concatenate([np.arange(len(each)) * len(part) + number for number, each in enumerate(part)])
        features = all_rows[th.as_tensor(columns)]
    device = policy.device
    actions, masks = (th.as_tensor(each[rows], device=device) for each in (lessons.actions, lessons.masks))
    return features, actions, masks
