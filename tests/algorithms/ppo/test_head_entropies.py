"""Weights of heads in the entropy: the known equilibria of a game with two heads, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from test_magnet import PAYOFF, Throws, quantal_response, self_play

from sb3_pvp import MAPOCA, PvpPPO
from sb3_pvp.policies import AutoregressivePolicy


class TwoThrows(Throws):
    """Two throws at once, whose payoffs add up."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.action_space = spaces.MultiDiscrete([3, 3])

    def action_masks(self) -> np.ndarray:
        return np.ones((self.num_envs, 6), bool)

    def step_wait(self) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, list[dict[str, Any]]]:
        own, other = np.split(self.actions, 2)
        won = PAYOFF[own, other].sum(1)
        return self._observation(), np.append(won, -won), np.ones(self.num_envs, bool), [{}] * self.num_envs


def strategies(model: PvpPPO) -> np.ndarray:
    """The chances of both heads, ``(2, 3)``."""
    policy: Any = model.policy
    with th.no_grad():
        chances = policy.head_probabilities({"observation": th.ones(1, 1)}, th.zeros(1, 2), np.ones((1, 6), bool))
    return chances.double().numpy().reshape(2, 3)


def test_each_head_comes_to_rest_where_its_own_entropy_says() -> None:
    policy = {"net_arch": [], "contract": None, "optimizer_class": th.optim.SGD, "autoregressive": False}
    model = self_play(200, env=TwoThrows, ent_coef=0.25, ent_weights={"1": 3.0}, policy_kwargs=policy)
    first, second = strategies(model)
    assert np.abs(quantal_response(0.25) - quantal_response(0.75)).max() > 0.04
    np.testing.assert_allclose(first, quantal_response(0.25), atol=0.015)
    np.testing.assert_allclose(second, quantal_response(0.75), atol=0.015)


def test_weights_of_one_are_none_to_the_bit_and_are_kept_with_the_model(tmp_path: Path) -> None:
    plain, weighted = self_play(2, ent_coef=0.3), self_play(2, ent_coef=0.3, ent_weights={"0": 1.0})
    for one, other in zip(plain.policy.parameters(), weighted.policy.parameters(), strict=True):
        assert th.equal(one, other)
    weighted.save(tmp_path / "model.zip")
    assert PvpPPO.load(tmp_path / "model.zip").ent_weights == {"0": 1.0}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"2": 1.0}, "unknown head in ent_weights '2'"),
        ({"0": -1.0}, "the weight of 0 in ent_weights must be a number of at least 0"),
        (3.0, "ent_weights must be a mapping"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PvpPPO(AutoregressivePolicy, TwoThrows(2), ent_weights=weights)


def test_who_has_no_weighted_heads_says_so() -> None:
    with pytest.raises(ValueError, match="ent_weights needs an AutoregressivePolicy"):
        PvpPPO("MultiInputPolicy", TwoThrows(2), ent_weights={"0": 2.0})
    with pytest.raises(ValueError, match="ent_weights"):
        MAPOCA(AutoregressivePolicy, TwoThrows(2), ent_weights={"0": 2.0})
