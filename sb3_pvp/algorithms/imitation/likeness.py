"""How alike two players are, by demonstrations of both: what they do, how often, how soon, and who could tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.imitation.cloning import open_choices
from sb3_pvp.game import Game
from sb3_pvp.policies.files.demonstrations import Demonstration

Samples = Mapping[str, NDArray[np.float64]]
_BINS = 20  #: Of the histograms by which habits are compared.
#: Of the network that is to tell the players apart: its layer, passes over all ticks, and ticks of a mini-batch.
_WIDTH, _EPOCHS, _BATCH = 64, 8, 512


@dataclass(frozen=True)
class Habit:
    """Measurements of one kind, of both players."""

    ours: NDArray[np.float64]
    theirs: NDArray[np.float64]

    @property
    def divergence(self) -> float:
        """The Jensen-Shannon divergence of their histograms, from 0 to 1 bit; 0 if one of them has none."""
        if not len(self.ours) or not len(self.theirs):
            return 0.0
        both = np.concatenate([self.ours, self.theirs])
        # Whole numbers of few values have a bin each.
        values = np.unique(both)
        edges: Any = np.append(values, values[-1] + 1) if len(values) <= _BINS else _BINS
        span = (float(both.min()), float(max(both.max(), both.min() + 1e-9)))
        return divergence(*(np.histogram(each, edges, span)[0] for each in (self.ours, self.theirs)))


@dataclass(frozen=True)
class Likeness:
    """How alike two players are; `divergence`s are from 0, alike, to 1, never the same."""

    heads: dict[str, float]  #: By head, of what was chosen where there was a choice.
    actions_per_tick: Habit  #: How many heads did other than their first choice, by tick.
    habits: dict[str, Habit]  #: What the game knows of, see `sb3_pvp.game.Game.habits`.
    accuracy: float  #: Of a network that tells ticks of new fights apart: 0.5, it cannot, to 1.

    @property
    def mean_divergence(self) -> float:
        """The mean over the heads."""
        return float(np.mean([*self.heads.values()])) if self.heads else 0.0


def divergence(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Returns the Jensen-Shannon divergence of two counts of the same things, in bits."""
    shares = [each / max(each.sum(), 1e-12) for each in (ours, theirs)]
    middle = sum(shares) / 2

    def from_middle(share: NDArray[Any]) -> float:
        some = share > 0
        return float((share[some] * np.log2(share[some] / middle[some])).sum())

    return max((from_middle(shares[0]) + from_middle(shares[1])) / 2, 0.0)


def likeness(
    ours: Sequence[Demonstration],
    answers: Sequence[Demonstration],
    theirs: Sequence[Demonstration],
    game: Game,
    seed: int = 0,
) -> Likeness:
    """Compares two players.

    Args:
        ours: fights of one of them, by which habits are compared.
        answers: the fights of the other one, with what the first would have done in every tick; see
            `sb3_pvp.matches.demonstrating.answers`. By these choices are compared, and the two told apart.
        theirs: fights of the other one, as long as ``answers``.
        game: that was played.
        seed: of the network that tells them apart.

    Raises `ValueError` for less than two fights of one.
    """
    if min(len(ours), len(theirs)) < 2:
        raise ValueError("to compare players takes two fights of each at least")
    contract, both = game.contract, (ours, theirs)
    heads = {}
    for number, head in enumerate(contract.heads):
        counts = [_counts(fights, number, game) for fights in (answers, theirs)]
        if any(count.sum() for count in counts):
            heads[head.id] = divergence(*counts)
    busy = [np.concatenate([(each.actions > 0).sum(1) for each in fights]).astype(np.float64) for fights in both]
    measure: Callable[..., Samples] | None = getattr(game, "habits", None)
    found = {}
    if measure is not None:
        samples = [[measure(contract, each.observations, each.actions) for each in fights] for fights in both]
        found = {
            name: Habit(*(np.concatenate([each[name] for each in own]) for own in samples)) for name in samples[0][0]
        }
    return Likeness(heads, Habit(*busy), found, told_apart(answers, theirs, game, seed))


def told_apart(ours: Sequence[Demonstration], theirs: Sequence[Demonstration], game: Game, seed: int = 0) -> float:
    """Returns how often a network tells whose a tick is, from what was seen and done, in fights that it has not seen.

    It learns from every other fight. Both players count the same.
    """
    parts = [[_ticks(each, game) for each in fights] for fights in (ours, theirs)]
    learned, judged = ([np.concatenate(fights[at::2]) for fights in parts] for at in (0, 1))
    inputs = th.as_tensor(np.concatenate(learned))
    mean, scale = inputs.mean(0), inputs.std(0).clamp(min=1e-3)
    targets = th.cat([th.zeros(len(learned[0])), th.ones(len(learned[1]))])
    weights = th.where(targets > 0, len(targets) / len(learned[1]), len(targets) / len(learned[0])) / 2
    generator = th.Generator().manual_seed(seed)
    with th.random.fork_rng([]):
        th.manual_seed(seed)
        network = th.nn.Sequential(th.nn.Linear(inputs.shape[1], _WIDTH), th.nn.ReLU(), th.nn.Linear(_WIDTH, 1))
    optimizer = th.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(_EPOCHS):
        for rows in th.randperm(len(inputs), generator=generator).split(_BATCH):  # type: ignore[no-untyped-call]
            said = network(((inputs[rows] - mean) / scale).clamp(-5, 5)).flatten()
            loss = th.nn.functional.binary_cross_entropy_with_logits(said, targets[rows], weights[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with th.no_grad():
        said = [network(((th.as_tensor(each) - mean) / scale).clamp(-5, 5)).flatten() > 0 for each in judged]
    return float(((~said[0]).float().mean() + said[1].float().mean()) / 2)


def _counts(fights: Sequence[Demonstration], head: int, game: Game) -> NDArray[np.int64]:
    """Returns how often each choice of a head was made where there was another one."""
    counts = np.zeros(game.contract.head_sizes[head], np.int64)
    for each in fights:
        _, many = open_choices(each.masks, each.actions, game.contract)
        counts += np.bincount(each.actions[many[:, head] > 1, head], minlength=len(counts))
    return counts


def _ticks(fight: Demonstration, game: Game) -> NDArray[np.float32]:
    """Returns what was seen and done in every tick as numbers ``(T, width)``."""
    contract = game.contract
    chosen = np.zeros((len(fight.actions), contract.num_flat_actions), np.float32)
    np.put_along_axis(chosen, fight.actions + contract.head_offsets[:-1], 1.0, 1)
    return np.concatenate([fight.observations.reshape(len(chosen), -1), chosen], 1, dtype=np.float32)
