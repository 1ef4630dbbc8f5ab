"""Normal numbers are drawn by the quantile of uniform ones."""

from __future__ import annotations

import torch as th

from sb3_pvp.policies.numbers import normal_quantile


def test_quantiles_are_those_of_the_normal_distribution() -> None:
    uniforms = th.linspace(1e-7, 1 - 1e-7, 200_001, dtype=th.float64)
    assert th.allclose(normal_quantile(uniforms), th.special.ndtri(uniforms), rtol=0, atol=2e-6)
    assert th.equal(normal_quantile(th.full((3,), -1.0)), th.zeros(3))
    ends = normal_quantile(th.tensor([0.0, 1 - 2**-24]))
    assert ends.isfinite().all() and ends[0] < -5 and ends[1] > 5
    drawn = normal_quantile(th.rand(100_000, generator=th.Generator().manual_seed(0)))
    assert abs(float(drawn.mean())) < 0.02 and abs(float(drawn.std()) - 1) < 0.02
