"""MAPOCA where agents decide on numbers beside choices: learning, resuming, acting, files, graphs, and refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch as th

import sb3_pvp
from sb3_pvp.algorithms.mapoca import MAPOCA
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.pettingzoo_env import parallel_env
from sb3_pvp.game.contract import Contract, Head
from sb3_pvp.matches.evaluation import evaluate_by_rows
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies.files.description import describe
from sb3_pvp.policies.files.fighter_files import export_fighter, export_graph
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.serving.fighters import ModelSource
from tests.algorithms.test_mapoca import policy_of, team_of_dancers
from tests.game.aiming_game import CONTRACT, AimForTwo


def make_env(num_envs: int = 64, seed: int = 0, opponent: Any = "half") -> PvpVecEnv:
    return PvpVecEnv(num_envs, game=AimForTwo, opponent=opponent, seed=seed)


def new_model(env: PvpVecEnv | None = None, **arguments: Any) -> MAPOCA:
    given = {"n_steps": 8, "batch_size": 128, "learning_rate": 5e-3, "ent_coef": 0.0, "seed": 0, "device": "cpu"}
    return MAPOCA("MAPOCAPolicy", env or make_env(), policy_kwargs={"net_arch": [32]}, **(given | arguments))


@pytest.fixture(scope="module")
def trained() -> MAPOCA:
    return new_model().learn(64 * 8 * 50)


def points(model: Any, actions: Any = None) -> float:
    seen = make_env(512, seed=9).reset()
    decided = model.predict(seen, deterministic=True)[0] if actions is None else actions
    numbers = seen["observation"][:, 0]
    return float(((1 - np.abs(decided[:, 1::2] - numbers)) * (decided[:, ::2] == (numbers > 0))).mean())


@pytest.mark.slow
def test_it_learns_numbers_and_choices(trained: MAPOCA) -> None:
    assert points(new_model()) < 0.45  # half of the sides are right, and the numbers are somewhere
    assert points(trained) > 0.93
    # Numbers beyond the bounds are cut where they are played, and learned from as they were drawn.
    buffer = trained.rollout_buffer
    assert buffer.actions.shape[-1] == 2 and set(np.unique(buffer.actions[..., 1])) == {0, 1}
    assert np.abs(buffer.actions[..., 0]).max() > 2.5
    with th.no_grad():
        trained.policy.networks.actor.output.bias[0] += 100
        far = trained.predict(make_env(4).reset())[0]
        trained.policy.networks.actor.output.bias[0] -= 100
    assert (far[:, 1::2] == 1).all() and far.dtype == np.float32


def test_log_probabilities_are_those_of_what_was_drawn() -> None:
    policy: Any = new_model().policy
    seen = {key: th.as_tensor(part) for key, part in make_env(200).reset().items()}
    actions, log_probs = policy.act(seen)
    actor = policy.networks.actor
    own, _ = actor.evaluate(
        actor.body(policy.team(seen)[0]), policy.slots.actions(actions), policy.legal(seen, actions)
    )
    assert own.shape == (200, 2, 2) and th.allclose(own.sum((1, 2)), log_probs, atol=1e-4)
    likeliest, densest = policy.act(seen, deterministic=True)
    assert (
        densest[(likeliest[:, ::2] == actions[:, ::2]).all(1)]
        >= log_probs[(likeliest[:, ::2] == actions[:, ::2]).all(1)]
    ).all()
    # A game takes a third of what the networks decide on.
    means = actor.output(actor.body(policy.team(seen)[0]))[..., 0]
    assert th.allclose(likeliest[:, 1::2] * 3, means, atol=1e-6)


def same_weights(one: Any, other: Any) -> bool:
    both = one.policy.state_dict(), other.policy.state_dict()
    return all(th.equal(part, both[1][name]) for name, part in both[0].items())


@pytest.mark.parametrize("actors", [0, 2])
def test_it_resumes_exactly_with_and_without_actors(actors: int, tmp_path: Path) -> None:
    from tests.algorithms.actors.inline_actors import InlineActors

    def learned(model: MAPOCA) -> MAPOCA:
        model.actors, model.synchronous, model.fleet_factory = actors, True, InlineActors
        return model.learn(2 * 64 * 8, reset_num_timesteps=False)

    whole = learned(learned(new_model()))
    learned(new_model()).save(tmp_path / "half")
    assert same_weights(whole, learned(MAPOCA.load(tmp_path / "half", make_env(seed=7))))
    assert not actors or same_weights(whole, new_model().learn(4 * 64 * 8))


@pytest.mark.slow
def test_files_and_graphs_act_as_the_model_does(trained: MAPOCA, tmp_path: Path) -> None:
    seen = make_env(64, seed=3).reset()
    expected = trained.predict(seen, deterministic=True)[0]
    trained.save(tmp_path / "team.zip")
    export_fighter(trained, tmp_path / "team.fighter", onnx=True)
    export_graph(trained, tmp_path / "agent.onnx")
    rows = seen["observation"], model_opponent(trained).initial_state([*range(64)]), np.ones(64, bool)
    sampled = model_opponent(trained).predict(*rows, False, seen["action_mask"] != 0)[0]
    assert np.abs(sampled[:, 1::2]).max() <= 1 and not np.allclose(sampled, expected, atol=1e-3)
    for file, safe in (("team.zip", False), ("team.zip", True), ("team.fighter", True)):
        again = sb3_pvp.load(tmp_path / file, safe=safe)
        assert again.action_space == trained.action_space
        assert np.array_equal(again.predict(seen, deterministic=True)[0], expected)
    for file in ("team.zip", "team.fighter", "agent.onnx"):
        opponent = load_opponent(tmp_path / file)
        opponent.check(CONTRACT)
        for deterministic, wanted in ((True, expected), (False, sampled)):
            actions, _ = opponent.predict(*rows, deterministic, seen["action_mask"] != 0)
            assert actions.dtype == np.float32 and np.allclose(actions, wanted, atol=1e-5)
    session = onnxruntime.InferenceSession(tmp_path / "agent.onnx")
    given = {"observation": seen["observation"][..., :1], "action_mask": np.ones((64, 3), bool)}
    action, log_prob, entropy = session.run(
        ["action", "log_prob", "entropy"], given | {"uniform": np.full((64, 2), -1, np.float32)}
    )
    assert np.allclose(action, expected[:, :2], atol=1e-6)
    policy: Any = trained.policy
    parts = {key: th.as_tensor(part) for key, part in seen.items()}
    actor = policy.networks.actor
    own, entropies = actor.evaluate(
        actor.body(policy.team(parts)[0]),
        policy.slots.actions(th.as_tensor(expected)),
        policy.slots.masks(parts["action_mask"].bool()),
    )
    assert np.allclose(log_prob, own[:, 0].sum(1).detach(), atol=1e-4)
    assert np.allclose(entropy.sum(1), entropies[:, 0].detach(), atol=1e-4)


def test_it_is_an_opponent_and_is_evaluated(trained: MAPOCA, tmp_path: Path) -> None:
    trained.save(tmp_path / "team.zip")
    for opponent, least, most in (
        ("half", 0.9, 1),
        (OpponentChoice(str(tmp_path / "team.zip"), deterministic=True), 0.3, 0.7),
    ):
        make = partial(make_env, opponent=opponent)
        assert least < evaluate_by_rows(lambda: trained, make, 200, 64, 0, True, 1).win_rate < most


def test_agents_of_a_team_play_one_by_one() -> None:
    env = parallel_env(game=AimForTwo)
    seen, _ = env.reset(seed=0)
    assert env.action_space("team_0_first").contains(env.action_space("team_0_first").sample())
    actions = {name: env.action_space(name).sample(seen[name]["action_mask"]) for name in env.agents}
    assert all(env.action_space(name).contains(each) for name, each in actions.items())
    _, paid, over, *_ = env.step(actions)
    numbers = [float(seen[f"team_0_{each}"]["observation"][0, 0]) for each in ("first", "second")]
    chosen = [actions[f"team_0_{each}"] for each in ("first", "second")]
    right = [(1 - abs(amount - x)) * (side == (x > 0)) for (side, amount), x in zip(chosen, numbers, strict=True)]
    assert paid["team_0_first"] == pytest.approx(sum(right) / 2, abs=1e-6) and all(over.values())


def dancers_with_numbers(second: int = 1) -> Contract:
    """`team_of_dancers`, who also decide how high: the second one on so many numbers."""
    plain = team_of_dancers()
    one, other = plain.heads[:2], plain.heads[2:]
    numbers = [Head(f"two_height{each}", "", number=True) for each in range(second)]
    heads = (one[0], Head("one_height", "", number=True), one[1], *numbers, *other)
    agents = (replace(plain.agents[0], heads=(0, 3)), replace(plain.agents[1], heads=(3, 5 + second)))
    return replace(plain, heads=heads, agents=agents, shared_weights=False)


@pytest.mark.parametrize("shared", [False, "kinds"])
def test_rules_and_masks_hold_for_choices_beside_numbers(shared: Any) -> None:
    contract = dancers_with_numbers()
    policy = policy_of(contract, shared=shared)
    masks = th.ones(300, contract.num_flat_actions)
    masks[:150, contract.flat_index("one_right")] = 0
    obs = {"observation": th.randn(300, 1, 4), "action_mask": masks}
    actions, _ = policy.act(obs)
    assert th.equal(actions[:, 2] == 1, actions[:, 0] == 0) and th.equal(actions[:, 5] == 1, actions[:, 4] == 0)
    assert not actions[:150, 0].any() and actions[150:, 0].any()
    heights = actions[:, [1, 3]]
    assert len(heights.unique()) > 500 and abs(float(heights.std()) - 1 / 3) < 0.05
    own = policy.slots.actions(actions)
    assert th.allclose(own[:, :, 0], heights * 3) and th.equal(own[:, 0, 1:], actions[:, [0, 2]])
    assert th.equal(own[:, 1, 1:], actions[:, 4:])
    legal = policy.legal(obs, actions)
    assert legal.shape == (300, 2, 4) and (legal[:150, 0, :2].sum(1) == 1).all()


def test_what_only_chooses_is_refused_in_a_line(tmp_path: Path, trained: MAPOCA) -> None:
    with pytest.raises(ValueError, match="PvpPPO only makes choices, but this game asks for numbers: MAPOCA plays it"):
        PvpPPO("AutoregressivePolicy", make_env(2))
    with pytest.raises(ValueError, match="agents of dancers decide on 1 or 2 numbers: MAPOCA takes as many of each"):
        policy_of(dancers_with_numbers(2), shared=False)
    with pytest.raises(ValueError, match="trained in another game"):
        model_opponent(trained).check(team_of_dancers())
    export_fighter(trained, tmp_path / "team.fighter", onnx=False)
    with pytest.raises(ValueError, match="it decides on numbers, but the socket only has choices"):
        ModelSource(tmp_path / "team.fighter", "auto", "cpu").open()
    plain = describe(trained).plain()
    kind = type(describe(trained))
    with pytest.raises(ValueError, match="a head that is a number has one entry"):
        kind.model_validate({**plain, "numbers": [0]}).check(10**9)
