"""What the fights of an evaluation depend on: the learner, its time and the seed, not on what was played before."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.matches.evaluation import EvaluationFights, play_elsewhere
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import save_weights
from tests.cli.coins import Dice

NOOP = OpponentChoice("noop")  # throws the lowest side
ONLY_LOW_AT_FIRST = {
    "type": "jump",
    "jumps": {0: {"forbid": [f"side_{each}" for each in range(1, 6)]}, 1: {"forbid": []}},
}


def highest(**settings: Any) -> PvpPPO:
    """A model that throws the highest side."""
    env = PvpVecEnv(2, game=Dice(), **settings)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=4, seed=0)
    with th.no_grad():
        policy: Any = model.policy
        policy.heads.direct.bias[-1] = 9.0
    return model


@pytest.mark.parametrize(("trained", "outcome"), [(0, "tied"), (1, "won")])
def test_schedules_have_the_values_of_the_training(trained: int, outcome: str) -> None:
    model, content = highest(action_mask_override=ONLY_LOW_AT_FIRST), BytesIO()
    model.trained_rollouts = trained
    save_weights(model, content)
    fights = EvaluationFights(None, 2)
    arguments = fights.arguments(model.get_env())
    assert arguments is not None
    here = [each.info for each in fights.play(model, [NOOP] * 3, True, 0)]
    there = [info for _, info in play_elsewhere(content.getvalue(), arguments, 2, [NOOP] * 3, True, 0)]
    assert [each["outcome"] for each in (*here, *there)] == [outcome] * 6


def test_what_was_played_before_does_not_matter() -> None:
    model, bot = highest(), OpponentChoice("baseline")
    with th.no_grad():
        policy: Any = model.policy
        policy.heads.direct.bias[-1] = 0.0
    once, twice = EvaluationFights(None, 8), EvaluationFights(None, 8)
    twice.play(model, [bot] * 2, False, 0)
    played = [
        [(each.info["seed"], each.info["outcome"]) for each in fights.play(model, [bot] * 8, False, 0)]
        for fights in (once, twice)
    ]
    assert played[0] == played[1] and np.unique([seed for seed, _ in played[1]]).size == 8
