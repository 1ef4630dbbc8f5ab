"""MAPOCA with actors: the same weights as without them, also after a rollout that an actor has lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from inline_actors import InlineActors

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv
from sb3_pvp.algorithms.mapoca import MAPOCA, MAPOCAPolicy
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.gate import Gate
from sb3_pvp.games.soccer import STRIKERS_VS_GOALIE

ROLLOUT = 12 * 8


def new_model(game: Any = Gate, **arguments: Any) -> MAPOCA:
    kwargs = {"net_arch": [16, 16], "shared": "kinds" if game is STRIKERS_VS_GOALIE else True}
    env = PvpVecEnv(12, game=game, opponent="noop" if game is Gate else "self", seed=3)
    given = {"n_steps": 8, "batch_size": 48, "n_epochs": 2, "seed": 1, "device": "cpu", "eps_greedy": 0.3}
    model = MAPOCA(MAPOCAPolicy, env, policy_kwargs=kwargs, **(given | arguments))
    model.fleet_factory = InlineActors
    return model


def same_weights(one: Any, other: Any) -> bool:
    both = one.policy.state_dict(), other.policy.state_dict()
    return all(th.equal(part, both[1][name]) for name, part in both[0].items())


@pytest.mark.parametrize("game", [Gate, STRIKERS_VS_GOALIE])
def test_synchronous_actors_change_no_weight(game: Any) -> None:
    alone, played = (new_model(game, actors=count, synchronous=True).learn(3 * ROLLOUT) for count in (0, 3))
    assert isinstance(played.env, ActorVecEnv) and len(played.env.rows) == 3
    assert same_weights(alone, played)
    assert np.array_equal(alone.rollout_buffer.log_probs, played.rollout_buffer.log_probs)
    assert played.num_timesteps == alone.num_timesteps and played.trained_rollouts == 3


def test_actors_that_play_on_count_their_rollouts() -> None:
    model = new_model(actors=2)
    model.learn(3 * ROLLOUT)
    assert (model.num_timesteps, model.trained_rollouts) == (3 * ROLLOUT, 3)
    assert not same_weights(model, new_model().learn(3 * ROLLOUT))  # from rollouts of older weights


def test_resumes_exactly_with_actors(tmp_path: Path) -> None:
    whole = new_model(actors=3, synchronous=True).learn(4 * ROLLOUT)
    new_model(actors=3, synchronous=True).learn(2 * ROLLOUT).save(tmp_path / "half")
    env = PvpVecEnv(12, game=Gate, opponent="noop", seed=8)
    half = MAPOCA.load(tmp_path / "half", env)
    half.fleet_factory = InlineActors
    half.learn(2 * ROLLOUT, reset_num_timesteps=False)
    assert same_weights(whole, half)


def test_rows_of_a_lost_actor_are_left_out() -> None:
    model = new_model(actors=3, synchronous=True).learn(ROLLOUT)
    env: Any = model.env
    env._fleet.lost = {0}
    model.learn(8 * 8, reset_num_timesteps=False)
    assert model.num_timesteps == ROLLOUT + 8 * 8
    assert not model.rollout_buffer.active[:, :4].any() and model.rollout_buffer.active[0, 4:].any()
    assert not (model.rollout_buffer.observations == 77).any()
