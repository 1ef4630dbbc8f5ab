"""MAPOCA on games for teams: learning, acting, saving, exact resume, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from benchmarks.team_play.run import DeathIsTerminal
from sb3_pvp.algorithms.mapoca import MAPOCA, GroupRolloutBuffer, MAPOCAPolicy
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.games.gate import Gate
from sb3_pvp.policies import AutoregressivePolicy
from tests.game.team_game import CoinsForTwo

SMALL = {"net_arch": [16, 16]}


def model_on(game: Any, num_envs: int = 16, seed: int = 0, **arguments: Any) -> MAPOCA:
    env = PvpVecEnv(num_envs, game=game, opponent="noop", seed=seed)
    given = {"learning_rate": 3e-3, "n_steps": 8, "batch_size": 64, "policy_kwargs": SMALL, "seed": seed, **arguments}
    return MAPOCA(MAPOCAPolicy, env, **given)


def share_right(model: Any) -> float:
    seen = PvpVecEnv(256, game=CoinsForTwo, opponent="noop", seed=9).reset()
    actions, _ = model.predict(seen, deterministic=True)
    agents = seen["observation"].reshape(256, 2, 2)
    return float((actions == agents[..., 0])[agents[..., 1] == 1].mean())


def test_a_team_learns_also_after_saving_and_loading(tmp_path: Path) -> None:
    model = model_on(CoinsForTwo, 64, learning_rate=1e-2, batch_size=128).learn(4_096)
    assert share_right(model) == 1
    model.save(tmp_path / "team")
    again = MAPOCA.load(tmp_path / "team")
    assert share_right(again) == 1
    again.set_env(model.get_env())
    again.learn(256, reset_num_timesteps=False)
    assert share_right(again) == 1


def weights_of(model: Any) -> list[th.Tensor]:
    return [*model.policy.state_dict().values()]


def test_resumes_exactly(tmp_path: Path) -> None:
    whole = model_on(Gate).learn(512)
    model_on(Gate).learn(256).save(tmp_path / "half")
    env = PvpVecEnv(16, game=Gate, opponent="noop", seed=5)
    half = MAPOCA.load(tmp_path / "half", env).learn(256, reset_num_timesteps=False)

    assert half.num_timesteps == whole.num_timesteps == 512
    for ours, expected in zip(weights_of(half), weights_of(whole), strict=True):
        assert th.equal(ours, expected)


def test_the_buffer_has_what_was_played() -> None:
    model = model_on(Gate, n_steps=12).learn(12 * 16)
    buffer = model.rollout_buffer
    assert buffer.full and buffer.active[0].all() and not buffer.active.all()
    assert not buffer.actions[~buffer.active].any()
    assert np.isfinite(buffer.advantages).all() and (buffer.log_probs[buffer.active] < 0).any()
    pressed = ((buffer.actions[..., 0] == 1) & buffer.active).sum(-1)
    assert pressed.any()
    # Of the rewards, only those for leading others out are above what pressing costs.
    out = buffer.rewards + 0.2 * pressed
    assert np.allclose(out, out.round(), atol=1e-5) and {*out.round().ravel()} <= {0, 1, 2}
    # Who has pressed is gone in the next step of the same episode.
    gone = (buffer.actions[:-1, ..., 0] == 1) & buffer.active[:-1]
    assert not (gone & buffer.active[1:] & ~buffer.episode_starts[1:, :, None]).any()


@pytest.mark.parametrize("buffer_class", [GroupRolloutBuffer, DeathIsTerminal])
def test_agents_sacrifice_themselves_for_their_mates(buffer_class: type[GroupRolloutBuffer]) -> None:
    given = {"n_steps": 16, "batch_size": 256, "learning_rate": 4e-3, "ent_coef": 0.01}
    model = model_on(Gate, 64, **given, policy_kwargs={"net_arch": [32]})
    model.rollout_buffer.__class__ = buffer_class
    model.learn(24_000)
    share = np.mean([episode["r"] > 0 for episode in model.ep_info_buffer])
    assert share >= 0.95 if buffer_class is GroupRolloutBuffer else share <= 0.1


def team_of_dancers(shared: bool = True) -> Contract:
    """Two agents that take a step and a hand; the right hand only after the left step, which takes no other."""
    heads, seen, agents = [], [], []
    for number, name in enumerate(("one", "two")):
        steps = (SubAction(f"{name}_left", ""), SubAction(f"{name}_right", ""))
        hands = (
            SubAction(f"{name}_left_hand", "", require_none=(f"{name}_left",)),
            SubAction(f"{name}_right_hand", "", require_all=(f"{name}_left",)),
        )
        heads += [Head(f"{name}_step", "", steps), Head(f"{name}_hand", "", hands)]
        seen += [Observation(f"{name}_sees", ""), Observation(f"{name}_hears", "")]
        agents.append(Agent(name, (2 * number, 2 * number + 2), (2 * number, 2 * number + 2)))
    return Contract("dancers", tuple(heads), tuple(seen), tuple(agents), shared_weights=shared)


def policy_of(contract: Contract, frames: int = 1) -> MAPOCAPolicy:
    space = spaces.Dict(
        observation=contract.stacked_space(frames), action_mask=spaces.MultiBinary(contract.num_flat_actions)
    )
    return MAPOCAPolicy(space, contract.action_space, lambda _: 1e-3, contract=contract, net_arch=[8])


def test_rules_between_heads_hold_for_every_agent() -> None:
    contract = team_of_dancers()
    policy = policy_of(contract)
    obs = {"observation": th.randn(400, 1, 4), "action_mask": th.ones(400, 8)}
    actions, log_probs, legal = policy.act(obs)

    assert th.equal(actions[:, 1] == 1, actions[:, 0] == 0) and th.equal(actions[:, 3] == 1, actions[:, 2] == 0)
    assert 0 < (actions[:, 0] == 0).sum() < 400
    # What the rules decide costs nothing.
    assert th.allclose(log_probs[..., 1], th.zeros(400, 2), atol=1e-5) and (log_probs[..., 0] < -0.1).all()
    assert legal.shape == (400, 2, 4) and legal[..., :2].all() and (legal[..., 2:].sum(-1) == 1).all()


def test_an_agent_acts_on_its_own_frames_alone() -> None:
    policy = policy_of(team_of_dancers(), frames=3)
    obs = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    seen, present = policy.team({"observation": th.as_tensor(obs), "action_mask": th.ones(5, 8)})

    assert present.all()
    assert np.array_equal(seen[:, 1], obs[:, :, 2:].reshape(5, 6))


def test_refusals() -> None:
    env = PvpVecEnv(2, game=CoinsForTwo, opponent="noop")
    for fault, arguments in {
        "equal multiples of 4": {"policy_kwargs": {"net_arch": [16, 8]}},
        "MAPOCA has no actors: leave it out": {"actors": 2},
        "MAPOCA has no max_grad_norm: leave it out": {"max_grad_norm": 0.5},
        "unknown argument of MAPOCA": {"clip_loss": True},
    }.items():
        with pytest.raises(ValueError, match=fault):
            MAPOCA(MAPOCAPolicy, env, **arguments)
    with pytest.raises(ValueError, match="MAPOCA needs MAPOCAPolicy"):
        MAPOCA(AutoregressivePolicy, env)
    with pytest.raises(ValueError, match="do not share weights"):
        policy_of(team_of_dancers(shared=False))
    with pytest.raises(ValueError, match="does not fit"):
        MAPOCA(MAPOCAPolicy, env, policy_kwargs={"contract": team_of_dancers()})
    with pytest.raises(ValueError, match="NaN"):
        MAPOCA(MAPOCAPolicy, env).predict({"observation": np.full((1, 4), np.nan), "action_mask": np.ones(4)})


def test_a_game_without_agents_is_played_by_one_large_one() -> None:
    contract = team_of_dancers()
    with pytest.warns(UserWarning, match="dancers has no agents"):
        policy = policy_of(Contract("dancers", contract.heads, contract.observations))
    assert policy.num_agents == 1
    actions, _, _ = policy.act({"observation": th.randn(50, 1, 4), "action_mask": th.ones(50, 8)})
    assert th.equal(actions[:, 3] == 1, actions[:, 2] == 0)
