"""Behaviour cloning: what comes out is what was shown, in games where that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.matrix_games import WITH_A_WELL
from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.imitation import agreement, clone
from sb3_pvp.algorithms.imitation.cloning import Lessons, open_choices
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.game import find_game
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.demonstrating import demonstrate
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.demonstrations import Demonstration
from tests.policies.remembering import KINDS

NH = load_contract("NhEnv")


def chooser(**settings: object) -> PvpPPO:
    env = PvpVecEnv(2, game=WITH_A_WELL, opponent="self", seed=0)
    return PvpPPO(AutoregressivePolicy, env, seed=0, device="cpu", policy_kwargs={"net_arch": [16], **settings})


def shares(model: PvpPPO) -> np.ndarray:
    seen, masks = np.ones((1, 1, 1), np.float32), np.ones((1, 4), bool)
    obs = {"observation": seen, "action_mask": masks}
    given, nothing = model.policy.obs_to_tensor(obs)[0], th.zeros(1, 1, dtype=th.int64)
    return np.asarray(model.policy.head_probabilities(given, nothing, masks)[0])  # type: ignore[operator]


def random_fights(count: int, ticks: int, seed: int = 0) -> list[Demonstration]:
    """Fights of a player that takes any legal action of NhEnv, in random masks."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        masks = rng.random((ticks, NH.num_flat_actions)) < 0.6
        masks[:, NH.head_offsets[:-1]] = True
        actions = np.stack([NH.random_action(mask, rng) for mask in masks])
        seen = rng.normal(size=(ticks, NH.num_observations)).astype(np.float32)
        found.append(Demonstration(seen, masks, actions, "NhEnv", NH.fingerprint, "nobody", "won"))
    return found


@pytest.mark.slow
def test_a_known_strategy_is_learned() -> None:
    fights, model = [*demonstrate("champion", WITH_A_WELL, 3000, "champion")], chooser()
    found = clone(model, fights, epochs=16, batch_size=64, learning_rate=1e-2)
    np.testing.assert_allclose(shares(model), WITH_A_WELL.champion, atol=0.04)
    entropy = -sum(share * np.log(share) for share in WITH_A_WELL.champion if share)
    assert found.after.log_likelihood == pytest.approx(-entropy, abs=0.08)
    assert found.after.of_random == pytest.approx(-np.log(4))
    assert found.before.explained == pytest.approx(0, abs=0.02) and found.after.explained > 0.1
    assert (found.learned, found.held_out) == (2700, 300)


def test_with_full_weight_rare_choices_are_as_likely_as_common_ones() -> None:
    fights, model = [*demonstrate("champion", WITH_A_WELL, 3000, "champion")], chooser()
    made = np.bincount(np.concatenate([each.actions[:, 0] for each in fights]), minlength=4) > 0
    weights = Lessons.of(fights, WITH_A_WELL.contract).weights(WITH_A_WELL.contract, 1.0)
    counts = np.bincount(np.concatenate([each.actions[:, 0] for each in fights]), minlength=4)
    np.testing.assert_allclose((weights * counts)[made], len(fights) / made.sum(), rtol=1e-4)
    # It is judged by what was done, so what is left over must not be the best of these epochs by chance.
    clone(model, fights, epochs=1, rare=1.0, batch_size=64, learning_rate=1e-2)
    np.testing.assert_allclose(shares(model)[made], 1 / made.sum(), atol=0.1)


@pytest.mark.parametrize("kind", [*KINDS, None])
@pytest.mark.slow
def test_with_memory_what_was_seen_long_ago_is_done(kind: str | None) -> None:
    """The first tick says which of two choices of the first head is made in the last one."""
    fights = []
    for number in range(120):
        cue, ticks = number % 2, 6 + number % 3
        seen, masks = np.zeros((ticks, 176), np.float32), np.zeros((ticks, 45), bool)
        seen[0, 0], seen[-1, 1] = cue, 1.0
        masks[:, NH.head_offsets[:-1]] = True
        actions = np.zeros((ticks, 12), np.int64)
        last, prayer = ticks - 1, NH.head_index("prayer")
        masks[last, NH.flat_offset("prayer") : NH.flat_offset("prayer") + 3] = True
        actions[last, prayer] = 1 + cue
        fights.append(Demonstration(seen, masks, actions, "NhEnv", NH.fingerprint, "nobody", "won"))
    memory = None if kind is None else {**KINDS[kind], "critic": False} | ({"ticks": 10} if kind == "attention" else {})
    env = NhVecEnv(2, opponent="self", seed=0)
    model = PvpPPO(AutoregressivePolicy, env, seed=0, device="cpu", policy_kwargs={"net_arch": [32], "memory": memory})
    found = clone(model, fights, epochs=60, batch_size=128, learning_rate=3e-3, patience=60, held_out=0.3)
    assert found.after.top1.keys() == {"prayer"}
    right = found.after.top1["prayer"]
    assert right >= 0.95 if kind else right <= 0.75


def test_the_weights_that_were_best_are_kept_and_the_same_seed_learns_the_same() -> None:
    fights, seen = random_fights(8, 20), []
    models = [PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", seed=0), seed=0, device="cpu") for _ in range(2)]
    ends = []
    for model in models:
        logged: list[float] = []
        found = clone(
            model, fights, epochs=6, batch_size=32, progress=lambda each, to=logged: to.append(each.log_likelihood)
        )
        assert found.after.log_likelihood == max(logged) == logged[found.epochs - 1]
        ends.append(th.cat([part.flatten().double() for part in model.policy.state_dict().values()]).tolist())
        seen.append(logged)
    assert ends[0] == ends[1] and seen[0] == seen[1]
    held = found.held_out
    judged = agreement(models[0].policy, [fights[each] for each in np.random.default_rng(0).permutation(8)[:held]])  # type: ignore[arg-type]
    assert judged == found.after


@pytest.mark.parametrize("learning_rate", [1e3, 1e30])  # the second one ends in NaN
def test_what_only_gets_worse_leaves_the_policy_as_it_was(learning_rate: float) -> None:
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", seed=0), seed=0, device="cpu")
    before = {name: part.detach().clone() for name, part in model.policy.named_parameters()}
    found = clone(model, random_fights(4, 20), epochs=2, learning_rate=learning_rate)
    assert found.epochs == 0 and found.after == found.before
    assert all(th.equal(before[name], part) for name, part in model.policy.named_parameters())


def test_a_clone_acts_legally_and_saves(tmp_path: object) -> None:
    fights = random_fights(4, 30)
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", seed=0), seed=0, device="cpu")
    clone(model, fights, epochs=2)
    masks = np.concatenate([each.masks for each in fights])
    seen = np.concatenate([each.observations for each in fights])
    actions, _ = model.predict(seen, action_masks=masks)
    assert open_choices(masks, actions, NH)[0].all()


def test_what_only_the_critic_sees_is_soon_known() -> None:
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", seed=0), n_steps=8, batch_size=16, seed=0, device="cpu")
    clone(model, random_fights(4, 30), epochs=1)
    known = model.policy.observation_normalizer
    assert 0 < known.count <= 16 and known.variance[: NH.num_observations].min() > 0  # type: ignore[operator,index,union-attr]
    model.learn(16)
    assert known.count == 32  # type: ignore[union-attr]


@pytest.mark.slow
@given(st.integers(0, 2**31), st.integers(1, 20))
def test_open_choices_are_those_of_the_contract(seed: int, ticks: int) -> None:
    (fight,) = random_fights(1, ticks, seed)
    opened, counts = open_choices(fight.masks, fight.actions, NH)
    assert opened.all()
    for tick in range(ticks):
        for head in range(NH.num_heads):
            legal = NH.conditional_mask(fight.masks[tick], fight.actions[tick, :head])
            assert max(counts[tick, head], 1) == legal.sum()  # nothing: the first one


def test_what_was_closed_is_neither_learned_nor_judged() -> None:
    fights = random_fights(4, 20)
    closed = [replace(each, masks=each.masks & ~_chosen(each, 4)) for each in fights]
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", seed=0), seed=0, device="cpu")
    food = NH.heads[4].id
    assert food in agreement(model.policy, fights).top1  # type: ignore[arg-type]
    assert food not in agreement(model.policy, closed).top1  # type: ignore[arg-type]


def _chosen(fight: Demonstration, head: int) -> np.ndarray:
    """The choices of one head that were made, but for its first, which is what a closed head does."""
    chosen = np.zeros_like(fight.masks)
    chosen[np.arange(len(fight.actions)), fight.actions[:, head] + NH.head_offsets[head]] = True
    return chosen


def test_what_cannot_be_is_one_line() -> None:
    model, fights = chooser(), [*demonstrate("champion", WITH_A_WELL, 2, "champion")]
    with pytest.raises(ValueError, match="two fights at least"):
        clone(model, fights[:1])
    stacked = PvpPPO(AutoregressivePolicy, NhVecEnv(2, "self", frame_ages=(0, 1)), device="cpu")
    with pytest.raises(ValueError, match="frame_ages"):
        clone(stacked, fights)
    assert find_game("NhEnv").habits is not None and find_game("DharokEnv").habits is None
