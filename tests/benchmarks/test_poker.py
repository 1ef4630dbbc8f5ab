"""Poker by OpenSpiel: its exact exploitability, and that its games are played by the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")

from benchmarks import poker  # noqa: E402
from sb3_pvp.envs import PvpVecEnv  # noqa: E402


@pytest.mark.parametrize(
    ("game", "strategy", "exploitability"),
    [
        (poker.kuhn_poker(), poker.uniform, 11 / 24),
        # The first action is to pass: an opponent that bets wins every ante.
        (poker.kuhn_poker(), poker.first, 1.0),
        # Southey et al. 2005; the sum of both sides, 4.747, is the usual figure.
        (poker.leduc_poker(), poker.uniform, 2.3736),
    ],
)
def test_exact_exploitability_is_the_published_one(
    game: poker.PokerGame, strategy: Callable[[list[Any]], Any], exploitability: float
) -> None:
    assert poker.exact_exploitability(game, strategy) == pytest.approx(exploitability, abs=1e-4)


def test_a_player_who_bets_takes_the_ante_of_one_who_always_passes() -> None:
    env = PvpVecEnv(64, game=poker.kuhn_poker(), opponent="first", seed=0)
    env.reset()
    bet, rewards = env.action_space.nvec[0] - 1, []
    for _ in range(20):
        masks = env.action_masks()
        _, reward, dones, _ = env.step(np.where(masks[:, bet], bet, 0)[:, None])
        rewards += reward[dones].tolist()
    assert len(rewards) > 300
    # The first to move bets and the other folds; so does the learner in the second seat, after a pass.
    assert set(rewards) == {1.0}
