"""Buffers that keep their memory hold what SB3's hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sb3_pvp.algorithms.ppo.buffers import REUSED
from sb3_pvp.algorithms.ppo.update import read_buffer

STEPS, ENVS = 5, 3
SPACES: list[Any] = [
    spaces.Box(-1, 1, (4,)),
    spaces.Discrete(6),
    spaces.Dict({"observation": spaces.Box(-1, 1, (2, 4)), "kind": spaces.Discrete(3)}),
]
ARRAYS = ("actions", "rewards", "episode_starts", "values", "log_probs", "action_masks")


def fill(buffers: list[Any], seed: int, masks_given: bool = True) -> None:
    """Adds the same random rollout to all buffers."""
    rng, space = np.random.default_rng(seed), buffers[0].observation_space
    space.seed(seed)
    for buffer in buffers:
        buffer.reset()
    for _ in range(STEPS):
        observations = [space.sample() for _ in range(ENVS)]
        seen = (
            {key: np.stack([each[key] for each in observations]) for key in space}
            if isinstance(space, spaces.Dict)
            else np.stack(observations)
        )
        action = rng.integers(2, size=(ENVS, 2))
        reward, start = rng.random(ENVS).astype(np.float32), rng.random(ENVS) < 0.5
        value, log_prob = th.from_numpy(rng.random((ENVS, 1), np.float32)), th.from_numpy(rng.random(ENVS, np.float32))
        masks = rng.random((ENVS, 4)) < 0.5 if masks_given else None
        for buffer in buffers:
            buffer.add(seen, action, reward, start, value, log_prob, action_masks=masks)


@pytest.mark.parametrize("space", SPACES, ids=["Box", "Discrete", "Dict"])
def test_rollouts_are_stored_as_in_sb3(space: Any) -> None:
    kinds = [kind for kind in REUSED if ("Dict" in kind.__name__) == isinstance(space, spaces.Dict)]
    stock, own = (
        each(STEPS, space, spaces.MultiDiscrete([2, 2]), "cpu", n_envs=ENVS) for each in (*kinds, REUSED[kinds[0]])
    )
    for seed, masks_given in ((0, True), (1, False), (2, True)):
        fill([stock, own], seed, masks_given)
        assert own.full
        for name in ARRAYS:
            assert np.array_equal(getattr(stock, name), getattr(own, name)), name
        seen = [
            each.observations if isinstance(space, spaces.Dict) else {"": each.observations} for each in (stock, own)
        ]
        assert all(np.array_equal(seen[0][key], seen[1][key]) for key in seen[0])


def test_a_rollout_after_the_batches_of_sb3_has_its_own_shape_again() -> None:
    own = REUSED[next(iter(REUSED))](STEPS, SPACES[0], spaces.MultiDiscrete([2, 2]), "cpu", n_envs=ENVS)
    fill([own], 0)
    assert len(next(own.get(4)).actions) == 4
    fill([own], 1)
    assert own.actions.shape == (STEPS, ENVS, 2)


def test_samples_are_shuffled_as_sb3_does_it() -> None:
    stock, own = (
        kind(STEPS, SPACES[0], spaces.MultiDiscrete([2, 2]), "cpu", n_envs=ENVS) for kind in next(iter(REUSED.items()))
    )
    fill([stock, own], 0)
    samples = read_buffer(own)
    np.random.seed(0)  # noqa: NPY002  # the global generator, as SB3
    expected = [batch.observations for batch in stock.get(4)]
    np.random.seed(0)  # noqa: NPY002
    batches = [samples[indices].observations for indices in th.split(samples.shuffled(), 4)]
    assert all(one.equal(other) for one, other in zip(expected, batches, strict=True))
