from __future__ import annotations

import pytest
import torch as th

from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from sb3_pvp.policies.networks import RunningNormalizer


def test_statistics_of_parts_are_those_of_the_whole() -> None:
    th.manual_seed(0)
    samples = 40 + 12 * th.randn(1000, 3)
    normalizer = RunningNormalizer(3)
    for part in samples.split([10, 490, 500]):
        normalizer.observe(part)
        normalizer.update()
    th.testing.assert_close(normalizer.mean, samples.mean(0), atol=1e-3, rtol=1e-5)
    th.testing.assert_close(normalizer.variance, samples.var(0, correction=0), atol=1e-2, rtol=1e-4)
    assert normalizer(samples).mean().abs() < 1e-3


def test_on_another_device_they_are_the_same_without_copies_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = AutoregressiveHeads(2, DependencyRules((3, 2)), ((), ()), True, True, False)
    rows, copied = th.randn(5000, 7), []
    actions = th.stack([th.randint(size, (5000,)) for size in (3, 2)], 1)
    pending, double = [], th.Tensor.double

    def copy(tensor: th.Tensor) -> th.Tensor:
        copied.append(len(tensor))
        return double(tensor)

    for is_cpu in (True, False):
        monkeypatch.setattr(th.Tensor, "is_cpu", is_cpu)
        monkeypatch.setattr(th.Tensor, "double", copy)
        normalizer = RunningNormalizer(8)
        normalizer.observe(rows, 1)
        heads.normalizer.pending.zero_()
        heads.observe(actions)
        pending.append((normalizer.pending, heads.normalizer.pending.clone()))
    th.testing.assert_close(pending[0], pending[1])
    assert 0 < max(copied) <= 2048 and sum(copied) == 10_000


def test_observing_changes_nothing_until_the_update() -> None:
    normalizer = RunningNormalizer(2)
    features = th.tensor([[1.0, 50.0], [3.0, 150.0]])
    before = normalizer(features)
    normalizer.observe(features)
    assert normalizer(features).equal(before)
    normalizer.update()
    th.testing.assert_close(normalizer(features), th.tensor([[-1.0, -1.0], [1.0, 1.0]]))


def test_what_never_varied_keeps_its_unit_and_everything_is_clipped() -> None:
    normalizer = RunningNormalizer(2, clip=5.0)
    normalizer.observe(th.tensor([[7.0, 0.0], [7.0, 1.0]]))
    normalizer.update()
    assert normalizer(th.tensor([[7.5, 1000.0]])).tolist() == [[0.5, 5.0]]


def test_an_update_without_observations_does_nothing() -> None:
    normalizer = RunningNormalizer(1)
    normalizer.update()
    assert normalizer(th.tensor([[2.0]])).item() == 2.0


def test_small_variations_of_large_values_survive_many_updates() -> None:
    """Such as the level of a skill that is boosted once in a while."""
    th.manual_seed(1)
    samples = 118 + 0.05 * th.randn(20_000, 1, dtype=th.float64)
    samples = samples.float()
    normalizer = RunningNormalizer(1)
    for part in samples.split(200):
        normalizer.observe(part)
        normalizer.update()
    exact = samples.double()
    assert abs(normalizer.mean.item() - exact.mean().item()) < 1e-4
    assert abs(normalizer.variance.item() / exact.var(0, correction=0).item() - 1) < 1e-2


def test_values_that_never_vary_are_zero_however_large() -> None:
    normalizer = RunningNormalizer(1)
    for _ in range(100):
        normalizer.observe(th.full((64, 1), 1234.567))
        normalizer.update()
    assert abs(normalizer(th.tensor([[1234.567]])).item()) < 1e-3
