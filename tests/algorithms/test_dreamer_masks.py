"""In the model, a DreamerV3 fighter chooses by masks that it expects, head by head; in fights, by the true ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sb3_pvp import load
from sb3_pvp.algorithms.dreamer.distributions import Draws
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.dreamer_fighters import (
    METRICS,
    OPPONENT,
    FighterPolicy,
    FightReplayBuffer,
    forbidden,
    illegal_shares,
    is_masked,
)
from sb3_pvp.algorithms.dreamer.dreamer_policy import DreamerPolicy
from sb3_pvp.algorithms.dreamer.losses import dreamer_losses
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game.contract import load_contract
from tests.algorithms.test_dreamer_fighters import SMALL
from tests.policies.files.numbers_game import GAME


def fighter(env: Any, **options: Any) -> DreamerV3:
    return DreamerV3("MultiInputPolicy", env, **SMALL | options)


def nh(count: int = 2, opponent: Any = "baseline", **settings: Any) -> PvpVecEnv:
    return PvpVecEnv(count, game="NhEnv", opponent=opponent, seed=0, **settings)


@pytest.fixture(scope="module")
def model() -> DreamerV3:
    return fighter(nh(), train_ratio=16).learn(60)


def features(model: DreamerV3, count: int) -> th.Tensor:
    return th.randn(count, model.policy.size.features, generator=th.Generator().manual_seed(0))


def test_actions_are_legal_by_masks_and_rules_wherever_they_come_from(model: DreamerV3) -> None:
    networks, contract = model.policy.networks, load_contract("NhEnv")
    masks = th.rand(500, contract.num_flat_actions, generator=th.Generator().manual_seed(1)) < 0.5
    for given in (masks, None):  # true ones, and those that it expects
        chosen = networks.choose(features(model, 500), Draws(), given)
        by = chosen["action_mask"]
        assert given is None or th.equal(by, masks)
        assert not forbidden(networks.actor, chosen, by).any()
        actions = th.cat([chosen[key] for key in networks.actor.counts], 1)
        rows = networks.actor.heads.rules.one_hot(actions) > 0
        legal = th.from_numpy(contract.dependencies.satisfied(rows.numpy()))
        # Where masks and rules leave nothing, the first entry of a head is taken.
        assert (legal | ~rows | (actions == 0).repeat_interleave(th.tensor(contract.head_sizes), 1)).all()
    assert contract.dependencies.require_none.any() or contract.dependencies.require_any.any()


def test_what_forbids_is_the_mask_of_a_head_that_has_a_choice() -> None:
    env = PvpVecEnv(1, game=GAME, opponent="any")
    actor = fighter(env).policy.networks.actor
    chosen = {"action": th.tensor([[0], [1], [2], [0], [3]])}
    masks = th.tensor([[1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]) > 0
    assert forbidden(actor, chosen, masks).tolist() == [False, True, False, False, True]


def test_what_it_judges_is_what_it_chose(model: DreamerV3) -> None:
    """Probabilities of many draws by the masks of the draws are those that they are judged by."""
    networks = model.policy.networks
    state = features(model, 1).expand(20_000, -1)
    masks = networks.choose(state[:1], Draws())["action_mask"]
    chosen = networks.choose(state, Draws(), masks.expand(20_000, -1))
    log_probs, entropies = networks.judge(state, chosen)
    actions = th.cat([chosen[key] for key in networks.actor.counts], 1)
    found, counts = np.unique(actions.numpy(), axis=0, return_counts=True)
    likeliest = found[counts.argmax()]
    rows = (actions == th.from_numpy(likeliest)).all(1)
    share = log_probs[rows][0].exp().item()
    assert rows.float().mean().item() == pytest.approx(share, abs=4 * math.sqrt(share / 20_000))
    assert th.stack([*entropies.values()]).sum(0).mean().item() == pytest.approx(-log_probs.mean().item(), rel=0.03)
    steps = {key: part.reshape(100, 200, -1) for key, part in chosen.items()}
    assert th.equal(networks.judge(state.reshape(100, 200, -1), steps)[0].flatten(), log_probs)


def test_the_first_action_in_the_model_is_legal_by_the_mask_that_was_seen(model: DreamerV3) -> None:
    assert model._seen is not None
    batch, steps = model._seen, model.settings.imagined_steps
    given = model.policy.networks, batch, model.policy.return_scale, model.settings, Draws()
    losses = dreamer_losses(*given)
    masks = losses.actions["action_mask"]
    assert masks.shape[:2] == (batch.rewards.numel(), steps + 1)
    assert th.equal(masks[:, 0], batch.observations["action_mask"].flatten(0, 1) > 0)
    assert not th.equal(masks[:, 1], masks[:, 0])
    last = dreamer_losses(*given[:3], replace(model.settings, imag_last=2), Draws()).actions["action_mask"]
    assert th.equal(last[:, 0], batch.observations["action_mask"][:, -2:].flatten(0, 1) > 0)


def test_the_mask_is_learnt_by_its_cross_entropy(model: DreamerV3) -> None:
    decoder, batch = model.policy.networks.decoder, model._seen
    assert batch is not None and "action_mask" not in decoder.signals
    masks = batch.observations["action_mask"]
    logits = th.full(masks.shape, math.log(3))  # three of four are legal
    losses = decoder.losses({"action_mask": logits}, {"action_mask": masks})
    legal, all_of_them = masks.sum(-1), masks.shape[-1]
    assert th.allclose(losses["action_mask"], legal * math.log(4 / 3) + (all_of_them - legal) * math.log(4))
    assert model._figures["loss/action_mask"] > 0


@pytest.mark.slow
def test_masks_become_known_and_shares_are_logged(tmp_path: Path) -> None:
    model = fighter(nh(), train_ratio=64, learning_rate=3e-3, batch_length=16)
    before = illegal_shares(learnt(model, 120), model._seen, 3)  # type: ignore[arg-type]
    state = th.get_rng_state()
    after = illegal_shares(learnt(model, 300), model._seen, 3)  # type: ignore[arg-type]
    assert {*after} == {*METRICS} and after == illegal_shares(model.policy.networks, model._seen, 3)  # type: ignore[arg-type]
    assert not th.equal(state, th.get_rng_state())  # by the training alone
    assert after["world_model/mask_errors"] < 0.5 * before["world_model/mask_errors"]
    assert after["world_model/illegal"] < before["world_model/illegal"]
    model.dump_logs()
    assert illegal_shares(model.policy.networks, model._seen._replace(is_first=th.ones(2, 16) > 0), 3) == {}  # type: ignore[union-attr]


def learnt(model: DreamerV3, steps: int) -> Any:
    return model.learn(steps, reset_num_timesteps=False).policy.networks


def test_a_game_with_masks_has_another_policy(tmp_path: Path) -> None:
    free, heads = spaces.Dict({"observation": spaces.Box(-1, 1, (3,))}), spaces.MultiDiscrete([2, 3])
    with_masks = spaces.Dict({**free.spaces, "action_mask": spaces.Box(0, 1, (5,), np.int8)})
    assert is_masked(with_masks, heads) and not is_masked(free, heads)
    assert not is_masked(with_masks, spaces.Box(-1, 1, (2,)))
    with pytest.raises(ValueError, match="mlp_keys must match 'action_mask'"):
        FighterPolicy(with_masks, heads, lambda _: 0.0, size=SMALL["policy_kwargs"]["size"], mlp_keys="observation")
    with pytest.raises(ValueError, match="cuda_graph=True"):
        fighter(nh(), cuda_graph=True).learn(10)
    with pytest.raises(ValueError, match="recent is a share from 0 to 1, got 2"):
        fighter(nh(), recent=2)
    # A file of the edition before has the plain policy, and goes on with it.
    old = DreamerV3(DreamerPolicy, nh(), **SMALL).learn(40)
    assert type(old.policy) is DreamerPolicy and OPPONENT not in old.replay_buffer.layout
    old.save(tmp_path / "old.zip")
    assert (
        type(load(tmp_path / "old.zip").policy) is type(load(tmp_path / "old.zip", safe=True).policy) is DreamerPolicy
    )


def test_both_seats_of_the_learner_are_experience() -> None:
    """Against itself, what one row of a pair records is what the other one's opponent does."""
    model = fighter(nh(4, "self")).learn(80)
    records = model.replay_buffer.records
    rewards, ends = (
        np.stack([records[name][row : 4 * model.replay_buffer.counts.min() : 4] for row in range(4)])
        for name in ("reward", "is_last")
    )
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[2], ends[3])
    assert not np.array_equal(rewards[0], rewards[1])
    assert model.replay_buffer.names == ["self"] and not records[OPPONENT][:80].any()


@pytest.mark.slow
def test_who_sat_opposite_is_recorded_and_those_present_are_preferred() -> None:
    env = nh(4, max_episode_ticks=12)
    model = fighter(env, recent=0.75).learn(4 * 30)
    replay: FightReplayBuffer = model.replay_buffer
    env.env_method("set_opponent", "scripted")
    model.learn(4 * 40, reset_num_timesteps=False)
    assert replay.names == ["baseline", "scripted"] and replay.present.tolist() == [1] * 4
    changes = replay.records[OPPONENT][: 4 * replay.counts.min()].reshape(-1, 4)
    assert (np.diff(changes, axis=0) >= 0).all() and 0 < changes.mean() < 1
    starts = replay.records["is_first"][: len(changes.ravel())].reshape(-1, 4)
    assert starts[1:][np.diff(changes, axis=0) > 0].all()

    def share() -> float:
        middles = replay.places(*replay.located(replay.draw(4000)))[:, replay.length // 2]
        return float(replay.records[OPPONENT][middles].mean())

    preferred, replay.recent = share(), 0.0
    uniform = share()
    assert preferred == pytest.approx(0.75 + 0.25 * uniform, abs=0.04)
    # With nobody who has been there before, any will do.
    replay.recent, replay.present[:] = 1.0, 7
    assert share() == pytest.approx(uniform, abs=0.04)
