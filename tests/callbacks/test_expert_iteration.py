"""Expert iteration: what it learns, refuses, and that it goes on exactly where a run was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import ExpertIterationCallback
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.search.opponent import network_of
from sb3_pvp.players.search.search import Search
from sb3_pvp.players.search.search_settings import SearchSettings
from sb3_pvp.policies import AutoregressivePolicy
from tests.callbacks.logged import remember
from tests.players.search.small_networks import FastTicTacToe, losses_of

GAME = "tests.players.search.small_networks:FastTicTacToe"


def learner(game: Any = GAME, **settings: Any) -> PvpPPO:
    env = PvpVecEnv(2, game=game, opponent="self", seed=0)
    given: dict[str, Any] = {"n_steps": 4, "batch_size": 8, "n_epochs": 0, "gamma": 1.0, "seed": 0, "device": "cpu"}
    given |= {"learning_rate": 3e-3, "policy_kwargs": {"net_arch": [64, 64]}}
    return PvpPPO(AutoregressivePolicy, env, **given | settings)


def teacher(**changes: Any) -> ExpertIterationCallback:
    given: dict[str, Any] = {"simulations": 25, "games": 64, "ticks": 4, "updates": 12, "batch_size": 256}
    return ExpertIterationCallback(**given | {"window": 4000} | changes)


@pytest.mark.parametrize("selection", ["puct", pytest.param("gumbel", marks=pytest.mark.slow)])
def test_policy_and_critic_approach_what_the_search_finds(selection: Any) -> None:
    model = learner()
    memory = remember(model)
    model.learn(8 * 10, teacher(selection=selection, simulations=10))
    losses = [each for each in memory.dumps if "expert/policy_loss" in each]
    assert losses[-1]["expert/policy_loss"] < 0.9 * losses[0]["expert/policy_loss"]
    assert losses[-1]["expert/value_loss"] < 0.9 * losses[0]["expert/value_loss"]
    assert losses[-1]["expert/games"] > 100 and 5 <= losses[-1]["expert/ticks_per_game"] <= 9
    assert losses[-1]["expert/positions"] > 64 * 30


@pytest.mark.slow
def test_tic_tac_toe_is_learned_well_enough_never_to_lose_with_search() -> None:
    model = learner()
    model.learn(8 * 40, teacher())
    alone, searching = (
        [
            losses_of(Search(FastTicTacToe(), network_of(model), SearchSettings(simulations=count)), seat)
            for seat in (0, 1)
        ]
        for count in (1, 200)
    )
    assert all(lost <= 0.05 * asked for lost, asked in alone)
    assert [lost for lost, _ in searching] == [0, 0]


def weights(model: PvpPPO) -> np.ndarray[Any, Any]:
    return th.cat([each.detach().flatten() for each in model.policy.parameters()]).numpy()


def test_a_run_that_was_stopped_goes_on_exactly(tmp_path: Path) -> None:
    given: dict[str, Any] = {"simulations": 4, "games": 16, "batch_size": 32, "updates": 2}
    through = learner()
    through.learn(8 * 6, teacher(**given))
    stopped = learner()
    stopped.learn(8 * 3, teacher(**given))
    stopped.save(tmp_path / "stopped")
    resumed = PvpPPO.load(tmp_path / "stopped", stopped.get_env())
    resumed.learn(8 * 3, teacher(**given), reset_num_timesteps=False)
    assert np.array_equal(weights(resumed), weights(through))
    assert not np.array_equal(weights(through), weights(stopped))


def test_what_it_cannot_teach_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"expert iteration needs a PvpPPO .* normalize_reward=False"):
        learner(normalize_reward=True).learn(8, teacher())
    with pytest.raises(ValueError, match="rock_paper_scissors cannot be searched: both players move at once"):
        learner(game="examples.rock_paper_scissors:RockPaperScissors").learn(8, teacher())
    with pytest.raises(ValueError, match="selection .* 'puct' or 'gumbel'"):
        teacher(selection="best")
