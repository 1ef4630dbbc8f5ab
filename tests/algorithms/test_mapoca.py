"""MAPOCA on games for teams: learning, acting, saving, exact resume, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from benchmarks.team_play.run import DeathIsTerminal
from sb3_pvp.algorithms.mapoca import (
    MAPOCA,
    AgentActions,
    GroupRolloutBuffer,
    MAPOCAPolicy,
    MapocaUpdate,
    TeamNetworks,
)
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.games.gate import Gate
from sb3_pvp.games.soccer import STRIKERS_VS_GOALIE
from sb3_pvp.policies import AutoregressivePolicy
from tests.algorithms.mapoca_numbers import ADAM, sampled
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
@pytest.mark.slow
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


def policy_of(contract: Contract, frames: int = 1, shared: bool | str = True) -> MAPOCAPolicy:
    space = spaces.Dict(
        observation=contract.stacked_space(frames), action_mask=spaces.MultiBinary(contract.num_flat_actions)
    )
    return MAPOCAPolicy(space, contract.action_space, lambda _: 1e-3, contract=contract, shared=shared, net_arch=[8])


def test_rules_between_heads_hold_for_every_agent() -> None:
    contract = team_of_dancers()
    policy = policy_of(contract)
    obs = {"observation": th.randn(400, 1, 4), "action_mask": th.ones(400, 8)}
    actions, log_probs = policy.act(obs)
    legal = policy.legal(obs, actions)

    assert th.equal(actions[:, 1] == 1, actions[:, 0] == 0) and th.equal(actions[:, 3] == 1, actions[:, 2] == 0)
    assert 0 < (actions[:, 0] == 0).sum() < 400
    assert legal.shape == (400, 2, 4) and legal[..., :2].all() and (legal[..., 2:].sum(-1) == 1).all()
    # What the rules decide costs nothing.
    actor = policy.networks.actor
    own, _ = actor.evaluate(actor.body(policy.team(obs)[0]), policy.slots.actions(actions), legal)
    assert th.allclose(own[..., 1], th.zeros(400, 2), atol=1e-5) and (own[..., 0] < -0.1).all()
    assert th.allclose(own.sum((1, 2)), log_probs, atol=1e-5)


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
        "MAPOCA has no max_grad_norm: leave it out": {"max_grad_norm": 0.5},
        "unknown argument of MAPOCA": {"clip_loss": True},
    }.items():
        with pytest.raises(ValueError, match=fault):
            MAPOCA(MAPOCAPolicy, env, **arguments)
    with pytest.raises(ValueError, match="MAPOCA needs MAPOCAPolicy"):
        MAPOCA(AutoregressivePolicy, env)
    with pytest.raises(ValueError, match="do not see or do the same: pass policy_kwargs={'shared': False}"):
        policy_of(team_of_dancers(shared=False))
    with pytest.raises(ValueError, match="^shared is True, False or 'kinds', got 'kind'$"):
        policy_of(team_of_dancers(), shared="kind")
    with pytest.raises(ValueError, match="does not fit"):
        MAPOCA(MAPOCAPolicy, env, policy_kwargs={"contract": team_of_dancers()})
    with pytest.raises(ValueError, match="NaN"):
        MAPOCA(MAPOCAPolicy, env).predict({"observation": np.full((1, 4), np.nan), "action_mask": np.ones(4)})


def test_a_checkpoint_of_another_team_is_refused(tmp_path: Path) -> None:
    model_on(Gate).save(tmp_path / "three")
    other = PvpVecEnv(2, game=CoinsForTwo, opponent="noop")
    with pytest.raises(ValueError, match="three.zip is of another game, a team of another size"):
        MAPOCA.load(tmp_path / "three.zip", other)
    with pytest.raises(ValueError, match="trained in another game.*sees 18 features.*has 4 features"):
        PvpVecEnv(2, game=CoinsForTwo, opponent=str(tmp_path / "three.zip"))


@pytest.mark.parametrize("shared", [False, "kinds"])
def test_agents_of_unlike_sizes_have_networks_of_their_own(shared: Any) -> None:
    env = PvpVecEnv(4, game=STRIKERS_VS_GOALIE, opponent="self", seed=0)
    kwargs = {"net_arch": [16, 16], "shared": shared}
    model = MAPOCA("MAPOCAPolicy", env, n_steps=4, batch_size=8, policy_kwargs=kwargs, seed=0)
    policy, sizes = model.policy, [295, 295, 739] if shared is False else [295, 739]
    assert [body[0].in_features for body in policy.networks.actor.body.layers] == sizes
    before = {name: part.clone() for name, part in policy.networks.named_parameters() if part.numel()}
    model.learn(64)
    unchanged = {
        name for name, part in policy.networks.named_parameters() if name in before and part.equal(before[name])
    }
    last = len(sizes) - 1  # of the goalie, which has no mate for whom its action would count
    assert unchanged == {f"critic.embed_with_action.layers.{last}.{part}" for part in ("weight", "bias")}

    # An agent sees what is its own, and decides by that and its own networks alone.
    contract = STRIKERS_VS_GOALIE.contract
    obs = {"observation": th.randn(64, 1, contract.num_observations), "action_mask": th.ones(64, 27)}
    seen, _ = policy.team(obs)
    assert th.equal(seen[:, 0, :295], obs["observation"][:, 0, :295]) and not seen[:, 0, 295:739].any()
    assert th.equal(seen[:, 2, :739], obs["observation"][:, 0, 590:])
    logits = policy.networks.actor.output(policy.networks.actor.body(seen))
    other = {**obs, "observation": obs["observation"].clone()}
    other["observation"][:, 0, 295:] = 0  # all but the first striker's
    changed = policy.networks.actor.output(policy.networks.actor.body(policy.team(other)[0]))
    assert th.equal(logits[:, 0], changed[:, 0]) and not th.isclose(logits[:, 1:], changed[:, 1:]).any()
    with th.no_grad():
        policy.networks.actor.body.layers[-1][0].weight.zero_()
    assert th.equal(policy.networks.actor.output(policy.networks.actor.body(seen))[:, :2], logits[:, :2])


def test_agents_with_fewer_heads_are_filled_up() -> None:
    """One agent chooses twice and among three, the other once and between two."""
    heads = [Head(name, "", tuple(SubAction(f"{name}{each}", "") for each in range(size))) for name, size in SIZES]
    seen = tuple(Observation(f"seen{number}", "") for number in range(5))
    agents = (Agent("one", (0, 3), (0, 2)), Agent("two", (3, 5), (2, 3)))
    policy = policy_of(Contract("uneven", tuple(heads), seen, agents), shared=False)
    slots = policy.slots
    assert (slots.branches, slots.width, slots.sizes) == ((3, 2), 5, (3, 2))

    flat = th.tensor([[True, False, True, True, False, False, True]])
    assert slots.masks(flat)[0].int().tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 1, 0]]
    assert slots.actions(th.tensor([[2, 1, 1]]))[0].tolist() == [[2, 1], [1, 0]]
    assert slots.flat(slots.masks(flat).int())[0].tolist() == flat[0].int().tolist()
    actions, log_probs = policy.act({"observation": th.randn(50, 1, 5), "action_mask": flat.expand(50, -1)})
    assert {*actions[:, 0].tolist()} == {0, 2} and not actions[:, 1].any() and actions[:, 2].all()
    assert (log_probs > -1).all()


SIZES = (("a", 3), ("b", 2), ("c", 2))


class Numbers:
    """Two agents in one step: each sees a number, and is to say it, and whether it is positive; both are paid alike."""

    actions = AgentActions(continuous=1, branches=(2,))

    def play(self, networks: TeamNetworks, rows: int) -> tuple[GroupRolloutBuffer, float]:
        seen, masks = th.rand(rows, 2, 1) * 2 - 1, th.ones(rows, 2, 2, dtype=th.bool)
        actions = sampled(networks.actor, seen, masks)
        paid = (1 - (actions[..., :1] - seen).abs()) * (actions[..., 1:] == (seen > 0))
        buffer = GroupRolloutBuffer(1, rows, 2, 1, self.actions)
        everybody, starts = np.ones((rows, 2), bool), np.ones(rows, bool)
        rewards = paid.mean((1, 2)).numpy()
        buffer.add(seen.numpy(), everybody, actions.numpy(), rewards, starts)
        buffer.evaluate(networks.critic, 512, networks.actor)
        buffer.compute_returns_and_advantage(np.zeros(rows, np.float32), starts)
        return buffer, float(rewards.mean())


def test_agents_learn_numbers_and_choices_at_once() -> None:
    th.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # of the mini-batches
    game = Numbers()
    networks = TeamNetworks(1, game.actions, 32, 1)
    update = MapocaUpdate(networks, ADAM(networks.parameters(), 3e-3), 0.2, 0.0)
    _, before = game.play(networks, 512)
    for _ in range(40):
        update.run(game.play(networks, 256)[0].samples(), 4, 128)
    _, after = game.play(networks, 512)
    assert before < 0.2 and after > 0.6


def test_a_game_without_agents_is_played_by_one_large_one() -> None:
    contract = team_of_dancers()
    with pytest.warns(UserWarning, match="dancers has no agents"):
        policy = policy_of(Contract("dancers", contract.heads, contract.observations))
    assert policy.slots.kinds == (0,)
    actions, _ = policy.act({"observation": th.randn(50, 1, 4), "action_mask": th.ones(50, 8)})
    assert th.equal(actions[:, 3] == 1, actions[:, 2] == 0)
