"""The outcome predictor learns, and resumes exactly."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp.policies.networks import FrameStatistics, RunningNormalizer
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

SHAPE = (2, 3)


def fights(number: int, seed: int = 0) -> tuple[Any, Any]:
    """Returns observations whose first feature, on a large scale, decides who wins; the others are noise."""
    rng = np.random.default_rng(seed)
    won = rng.random(number) < 0.5
    observations = rng.normal(0, 1, (number, *SHAPE)).astype(np.float32)
    observations[:, 0, 0] = 1000 + 10 * np.where(won, 1, -1) + rng.normal(0, 3, number)
    return observations, won


def taught(epochs: int, predictor: OutcomePredictor | None = None) -> OutcomePredictor:
    predictor = predictor or OutcomePredictor(SHAPE)
    mean, scale = np.array([1000, 0, 0], np.float32), np.array([0.1, 1, 1], np.float32)
    predictor.statistics = FrameStatistics(mean, scale, 5.0)
    for _ in range(epochs):
        predictor.fit(*fights(600))
    return predictor


def weights(predictor: OutcomePredictor) -> Any:
    return np.concatenate([value.ravel() for value in predictor.__getstate__()["contents"]["network"].values()])


def test_it_learns_who_will_win() -> None:
    unseen = fights(300, seed=1)
    loss, _ = taught(0).evaluate(*unseen)
    assert abs(loss - np.log(2)) < 0.2
    better_loss, better = taught(6).evaluate(*unseen)
    assert better > 0.95 and better_loss < loss / 3
    sure = taught(6).predict(unseen[0])
    assert (sure["WIN"] > 0.5).tolist() == [bool(p > 0.5) for p in 1 - sure["LOSE"]]
    assert np.mean((sure["WIN"] > 0.5) == unseen[1]) == pytest.approx(better)


def test_probabilities_have_the_shape_of_the_batch() -> None:
    predictor, raw = taught(1), fights(12)[0]
    batch = predictor.predict({"observation": raw, "action_mask": np.ones((12, 4))})
    assert batch["WIN"].shape == batch["LOSE"].shape == (12,)
    np.testing.assert_allclose(batch["WIN"] + batch["LOSE"], 1, rtol=1e-6)
    one = predictor.predict(raw[3])
    assert one["WIN"].shape == () and float(one["WIN"]) == pytest.approx(float(batch["WIN"][3]))
    assert predictor.predict(raw.reshape(3, 4, *SHAPE))["WIN"].shape == (3, 4)
    with pytest.raises(ValueError, match=r"\(5,\).*\(2, 3\)"):
        predictor.predict(np.zeros(5))


def test_a_copy_resumes_exactly() -> None:
    straight = taught(4)
    copied = taught(2, pickle.loads(pickle.dumps(taught(2))))
    np.testing.assert_array_equal(weights(straight), weights(copied))
    assert straight.rng.random() == copied.rng.random()
    assert straight.predict(fights(5)[0])["WIN"].tolist() == copied.predict(fights(5)[0])["WIN"].tolist()


def test_what_is_pickled_is_no_torch() -> None:
    def kinds(tree: Any) -> set[type]:
        parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
        return {type(tree)}.union(*map(kinds, parts))

    assert th.Tensor not in kinds(taught(1).__getstate__()) and np.ndarray in kinds(taught(1).__getstate__())


def test_a_copy_is_of_its_own() -> None:
    original = taught(1)
    before = weights(original)
    taught(2, pickle.loads(pickle.dumps(original)))
    np.testing.assert_array_equal(weights(original), before)


def test_the_random_numbers_of_others_stay() -> None:
    th.manual_seed(3)
    expected = th.rand(2).tolist()
    th.manual_seed(3)
    taught(1)
    assert th.rand(2).tolist() == expected
    assert (weights(OutcomePredictor(SHAPE, seed=1)) != weights(OutcomePredictor(SHAPE, seed=2))).any()


def test_statistics_are_those_of_the_normalizer() -> None:
    normalizer = RunningNormalizer(4)
    seen = th.randn(50, 4) * 3 + 2
    normalizer.observe(seen)
    normalizer.update()
    ours = FrameStatistics.of(normalizer, 3)
    np.testing.assert_allclose(ours(seen[:, :3].numpy()), normalizer(seen)[:, :3].numpy(), rtol=1e-6)
    raw = OutcomePredictor((3,)).statistics
    np.testing.assert_array_equal(raw(seen[:, :3].numpy()), seen[:, :3].numpy())
