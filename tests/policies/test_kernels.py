"""Compiled loops do what PyTorch does."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.kernels import normalize, observe, sample_heads
from sb3_pvp.policies.networks import RunningNormalizer

FORBIDDEN = -np.inf
LOGITS = st.lists(st.one_of(st.just(FORBIDDEN), st.floats(-20, 20, width=32)), min_size=1, max_size=6)
Drawn = tuple[NDArray[np.int64], NDArray[np.float32]]


def sample_entries(logits: NDArray[np.float32], numbers: NDArray[np.float32]) -> Drawn:
    """Entries of one head, and their log-probabilities, ``(batch,)``; those with the logit ``-inf`` are masked."""
    batch, size = logits.shape
    nothing, zeros = np.zeros((size, size), np.float32), np.zeros(batch, np.int64)
    given = np.nan_to_num(logits, neginf=7.0), logits > FORBIDDEN, numbers[:, None], np.zeros(1, np.int64)
    actions, log_probs, _ = sample_heads(*given, nothing, zeros, nothing, np.zeros(size, np.bool_))
    return actions[:, 0], log_probs


@settings(deadline=None)  # the first call compiles
@given(logits=LOGITS.filter(lambda logits: max(logits) > FORBIDDEN), number=st.floats(0, 1, exclude_max=True, width=32))
def test_an_entry_is_drawn_where_its_probabilities_add_up_to_the_number(logits: list[float], number: float) -> None:
    rows = np.array([logits], np.float32)
    ((chosen,), (log_prob,)) = sample_entries(rows, np.array([number], np.float32))
    expected = th.tensor(logits, dtype=th.float64).log_softmax(0)
    assert log_prob == pytest.approx(float(expected[chosen]), abs=1e-5)
    until = expected.exp().cumsum(0)[chosen]
    assert until - expected[chosen].exp() <= number + 1e-6 and number <= until + 1e-6
    assert logits[chosen] > FORBIDDEN


@settings(deadline=None)  # the first call compiles
@given(logits=LOGITS)
def test_a_negative_number_takes_the_most_likely_entry(logits: list[float]) -> None:
    rows = np.array([logits], np.float32)
    chosen, log_probs = sample_entries(rows, np.full(1, -1.0, np.float32))
    assert chosen[0] == rows[0].argmax() and log_probs[0] <= 0


def test_entries_are_drawn_as_often_as_they_are_likely() -> None:
    logits = np.array([0.5, FORBIDDEN, -1.0, 2.0], np.float32)
    numbers = np.random.default_rng(0).random(100_000, np.float32)
    chosen, _ = sample_entries(np.tile(logits, (len(numbers), 1)), numbers)
    shares = np.bincount(chosen, minlength=4) / len(numbers)
    assert shares == pytest.approx(th.from_numpy(logits).softmax(0).numpy(), abs=0.005)


def test_features_are_normalised_and_observed_as_pytorch_does_it() -> None:
    features = th.randn(7, 2, 5) * 3 + 1
    features[0, 0, 0] = np.nan
    normalizer = RunningNormalizer(5, clip=2.0)
    normalizer.mean.normal_()
    normalizer.variance.uniform_(0.5, 4.0)
    written = np.zeros((7, 14), np.float32)
    statistics = normalizer.mean.numpy(), normalizer.scale().numpy(), 2.0
    normalize(features.numpy(), *statistics, written, 1, 7)  # frames of five columns, and two of another part
    expected = ((features - normalizer.mean) * normalizer.scale()).clamp(-2.0, 2.0).numpy()
    assert np.allclose(written[:, 1:6], expected[:, 0], atol=1e-6, equal_nan=True)
    assert np.allclose(written[:, 8:13], expected[:, 1], atol=1e-6, equal_nan=True)
    assert not written[:, [0, 6, 7, 13]].any()
    rows, pending = features.reshape(-1, 5)[1:], np.ones((3, 8))
    observe(rows.numpy(), 2, pending)
    wide = rows.double()
    assert np.allclose(pending[:, 2:7], 1 + th.stack([th.ones_like(wide), wide, wide.square()]).sum(1).numpy())
    assert (pending[:, [0, 1, 7]] == 1).all()


def test_choices_are_observed_as_their_one_hot_encodings() -> None:
    rules = DependencyRules((3, 1, 4))
    actions = th.stack([th.randint(size, (9,)) for size in rules.head_sizes], 1)
    heads = AutoregressiveHeads(2, rules, [()] * 3, True, True, False)
    heads.observe(actions)
    chosen = [np.bincount(column, minlength=size) for column, size in zip(actions.T, rules.head_sizes, strict=True)]
    samples, total, squares = heads.normalizer.pending.numpy()
    assert (samples == 9).all() and (total == np.concatenate(chosen)).all() and (squares == total).all()
