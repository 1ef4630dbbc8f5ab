"""Two rows are the two seats of one fight."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhEnv, NhVecEnv, OpponentChoice, PvpVecEnv, parallel_env
from sb3_pvp.envs.measures import summarize
from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.policies import AutoregressivePolicy
from tests.envs.fake_world import FakeWorld, ending
from tests.envs.test_env_state import assert_plain, play
from tests.game.team_game import CoinsForTwo
from tests.games.osrs.remote.served import logged_in, world_server
from tests.players.opponent_models import random_model, saved

CONTRACT = load_contract("NhEnv")
NOISE = {"adders": [{"indices": ["0:10"], "value": {"type": "expression", "expression": "normal(0, 0.1)"}}]}


def nothing(rows: int) -> np.ndarray[Any, Any]:
    return np.zeros((rows, CONTRACT.num_heads), np.int64)


def test_a_pair_plays_the_fight_of_a_parallel_env() -> None:
    env, fight = NhVecEnv(2, "self", seed=3, frame_ages=(0, 2)), parallel_env(frame_ages=(0, 2))
    together, (apart, _) = env.reset(), fight.reset(seed=3)
    rng, ended = np.random.default_rng(0), False
    while not ended:
        actions = CONTRACT.random_action(env.action_masks(), rng)
        together, rewards, dones, infos = env.step(actions)
        apart, reward, over, _, _ = fight.step(dict(zip(("fighter_0", "fighter_1"), actions, strict=True)))
        ended = dones.all()
        assert dones[0] == dones[1] == over["fighter_0"]
        for row, agent in enumerate(("fighter_0", "fighter_1")):
            seen = infos[row]["terminal_observation"] if ended else {key: part[row] for key, part in together.items()}
            assert rewards[row] == np.float32(reward[agent])
            assert all(np.array_equal(seen[key], apart[agent][key]) for key in seen)
    outcomes = {info["outcome"] for info in infos}
    assert outcomes in ({"won", "lost"}, {"tied"})
    assert [(info["opponent"], info["seed"]) for info in infos] == [("self", 3)] * 2
    assert infos[0]["episode"]["l"] == infos[1]["episode"]["l"]
    assert infos[0]["build"] == infos[1]["build"]


def test_both_rows_see_each_other_s_actions_and_share_a_zero_sum() -> None:
    waste = ["player_died_with_food_multiplier", "player_wasted_food_multiplier"]
    env = NhVecEnv(4, "self", rewards={**dict.fromkeys(waste, 0.0), "tie": 0.0})
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = CONTRACT.random_action(env.action_masks(), rng)
        _, rewards, dones, _ = env.step(actions)
        if not dones.any():
            assert np.array_equal(env.fights.actions[:, 0], actions)
            assert np.array_equal(env.fights.actions[:, 1], actions[[1, 0, 3, 2]])
        meta = env.fights.tick.report
        assert np.array_equal(
            meta["damage_generated_on_target_scale"], meta["damage_generated_on_player_scale"][[1, 0, 3, 2]]
        )
        outcomes = [Outcome(int(each)) for each in env.fights.tick.outcome]
        for one, other in ((0, 1), (2, 3)):
            assert rewards[one] + rewards[other] == pytest.approx(0, abs=1e-5)
            assert {Outcome.WON: Outcome.LOST, Outcome.LOST: Outcome.WON}.get(outcomes[one], outcomes[one]) == outcomes[
                other
            ]


def test_the_learner_s_noise_and_masks_are_those_of_both_seats() -> None:
    env = NhVecEnv(2, "self", noise=NOISE, action_mask_override={"forbid": ["use_veng"]})
    observation = env.reset()
    clean = env.fights.world.obs[0]
    added = observation["observation"][:, 0] - clean
    assert added[:, :10].all() and not added[:, 10:].any() and (added[0, :10] != added[1, :10]).all()
    assert not observation["action_mask"][:, CONTRACT.flat_index("use_veng")].any()


def test_pairs_work_beside_other_opponents() -> None:
    env = NhVecEnv(7, "noop", world=FakeWorld, seed=10)
    env.env_method("set_opponent", "self", indices=[2, 3])
    env.env_method("set_opponent", "baseline", indices=[6])
    env.reset()
    assert [info["opponent"] for info in env.reset_infos] == ["noop"] * 2 + ["self"] * 2 + ["noop"] * 2 + ["baseline"]
    assert [info["seed"] for info in env.reset_infos] == [10, 11, 12, 12, 14, 15, 16]
    world: Any = env.fights.world
    assert world.options[3] == {} and world.options[2]["seed"] == 12  # fight 3 is idle
    env.step(nothing(7))
    assert world.meta["episode_ticks"][:, 0].tolist() == [1, 1, 1, 0, 1, 1, 1]
    assert env.fights.tick.report["episode_ticks"].tolist() == [1] * 7


def test_a_pair_forms_when_one_of_the_two_is_free_and_parts_when_its_fight_ends() -> None:
    env = NhVecEnv(4, "noop", world=FakeWorld, max_episode_ticks=None)
    env.reset()
    world: Any = env.fights.world
    env.env_method("set_opponent", "self", indices=[0, 1])
    for _ in range(3):
        assert not env.step(nothing(4))[2].any()
    world.end_tick = 4
    world._judge_all, world._judge = world._judge, lambda fight: world._judge_all(fight) if fight != 1 else None
    _, _, dones, infos = env.step(nothing(4))
    assert dones.all()
    assert [info["outcome"] for info in infos] == ["won", "timeout", "won", "won"]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, False, False]
    assert [info["opponent"] for info in env.reset_infos] == ["self", "self", "noop", "noop"]
    world.end_tick = 3
    env.env_method("set_opponent", OpponentChoice("baseline"), indices=[0])
    env.env_method("set_opponent", OpponentChoice("noop", name="idler"), indices=[1])
    for _ in range(2):
        assert not env.step(nothing(4))[2].any()
    _, _, dones, infos = env.step(nothing(4))
    assert [info["outcome"] for info in infos] == ["won", "lost", "won", "won"]
    assert [info["opponent"] for info in env.reset_infos] == ["baseline", "idler", "noop", "noop"]
    assert not any("seed" in info for info in env.reset_infos)


def test_a_row_that_leaves_its_pair_uses_its_own_seed() -> None:
    def observed(seed: int) -> Any:
        env = NhVecEnv(
            2, "self", seed=seed, reset_params={"randomizeGear": True, "randomizeBuild": True}, max_episode_ticks=3
        )
        env.reset()
        env.env_method("set_opponent", "noop")
        for _ in range(3):
            observation = env.step(nothing(2))[0]
        assert [info.get("seed") for info in env.reset_infos] == [None, seed + 1]
        return observation["observation"][1]

    alone = NhVecEnv(1, "noop", seed=8, reset_params={"randomizeGear": True, "randomizeBuild": True})
    assert np.array_equal(observed(7), alone.reset()["observation"][0])
    assert not np.array_equal(observed(7), observed(9))


def test_half_a_pair_is_refused() -> None:
    env = NhVecEnv(4, "noop")
    env.reset()
    env.env_method("set_opponent", "self", indices=[1])
    with pytest.raises(ValueError, match='rows 0 and 1 must both play "self" or neither'):
        env.step(nothing(4))
    with pytest.raises(ValueError, match="rows 0 and 1"):
        env.reset()
    env.env_method("set_opponent", "self", indices=[0])
    env.step(nothing(4))
    with pytest.raises(ValueError, match="this environment has 3"):
        NhVecEnv(3, "self").reset()
    with pytest.raises(ValueError, match="this environment has 1"):
        NhEnv(opponent="self").reset()


def test_restored_pairs_resume_bit_for_bit() -> None:
    def make(seed: int) -> NhVecEnv:
        return NhVecEnv(6, "self", seed=seed, max_episode_ticks=12, noise=NOISE, frame_ages=(0, 2))

    env, other = make(0), make(5)
    env.env_method("set_opponent", "scripted", indices=[2, 3])
    env.reset()
    play(env, 20)
    env.env_method("set_opponent", "baseline", indices=[0, 1])
    env.env_method("set_opponent", "self", indices=[2, 3])
    state = pickle.loads(pickle.dumps(env.get_state()))
    assert_plain(state)
    expected = play(env, 60)
    other.set_state(state)
    assert play(other, 60) == expected


def test_metrics_count_both_seats() -> None:
    env = NhVecEnv(2, "self", world=ending((Outcome.WON, Outcome.LOST), tick=2))
    env.env_method("enable_metrics", indices=[0])
    env.reset()
    for _ in range(2):
        env.step(nothing(2))
    sums = env.env_method("pop_metrics", indices=[0])[0]
    summary = summarize(sums, env.env_method("measures", indices=[0])[0])
    assert summary["terminal/win_percentage"] == summary["terminal/lose_percentage"] == 0.5


def test_it_is_drawn_from_either_seat() -> None:
    env = NhVecEnv(2, "self", world=FakeWorld, render_mode="ansi")
    env.reset()
    texts = env.env_method("render")
    assert texts[0] == texts[1] and texts[0].count("learner") >= 2


@pytest.mark.parametrize("algorithm", ["ours", "stock"])
def test_learners_train_in_both_seats(algorithm: str) -> None:
    env = make_vec_env("NhEnv", 4, vec_env_cls=NhVecEnv, env_kwargs={"opponent": "self", "max_episode_ticks": 9})
    settings: dict[str, Any] = {"n_steps": 12, "batch_size": 24, "n_epochs": 1, "device": "cpu"}
    if algorithm == "ours":
        model: MaskablePPO = PvpPPO(AutoregressivePolicy, env, policy_kwargs={"net_arch": [8]}, **settings)
    else:
        model = MaskablePPO("MultiInputPolicy", env, policy_kwargs={"net_arch": [8]}, **settings)
    model.learn(2 * 4 * 12)
    lengths = [episode["l"] for episode in model.ep_info_buffer or ()]
    assert len(lengths) % 2 == 0 and len(lengths) >= 8


class ChangeOpponents(BaseCallback):
    """Divides the rows anew before each rollout."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        for pair in range(3):
            kind = (self.num_timesteps // 96 + pair) % 3
            choice = ("self", OpponentChoice(self.path, delay_chance=0.2), "scripted")[kind]
            self.training_env.env_method("set_opponent", choice, indices=[2 * pair, 2 * pair + 1])


def test_a_run_with_all_kinds_of_opponents_resumes_exactly(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")

    def make_env(seed: int) -> NhVecEnv:
        return NhVecEnv(6, seed=seed, max_episode_ticks=11, reset_params={"randomizeGear": True})

    def run(model: PvpPPO, rollouts: int) -> PvpPPO:
        return model.learn(rollouts * 96, callback=ChangeOpponents(path), reset_num_timesteps=False)

    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 48, "n_epochs": 1, "device": "cpu", "seed": 1}
    whole = PvpPPO(AutoregressivePolicy, make_env(0), policy_kwargs={"net_arch": [8]}, **settings)
    run(whole, 4).save(tmp_path / "half")
    run(whole, 3)
    continued = run(PvpPPO.load(tmp_path / "half", env=make_env(9), device="cpu"), 3)
    mine, yours = whole.policy.state_dict(), continued.policy.state_dict()
    assert all(th.equal(mine[name], yours[name]) for name in mine)
    assert whole.num_timesteps == continued.num_timesteps == 7 * 96


def test_pairs_fight_on_a_server() -> None:
    with world_server(SimWorld) as port:
        env = NhVecEnv(4, "noop", world=f"rsps://127.0.0.1:{port}", max_episode_ticks=6)
        env.reset()
        assert len(logged_in(port)) == 8
        env.env_method("set_opponent", "self", indices=[2, 3])
        play(env, 7)
        assert [info["opponent"] for info in env.reset_infos] == ["noop", "noop", "self", "self"]
        assert env.fights.length[2] == env.fights.length[3] > 0
        assert len(logged_in(port)) == 6
        env.env_method("set_opponent", "noop", indices=[2, 3])
        play(env, 7)
        assert len(logged_in(port)) == 8
        env.close()
        assert logged_in(port) == []


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_row_without_a_partner_is_refused_at_once(num_envs: int) -> None:
    with pytest.raises(ValueError, match=f'must both play "self".* this environment has {num_envs} rows'):
        NhVecEnv(num_envs, opponent="self")


def test_a_snapshot_that_a_world_refuses_changes_nothing() -> None:
    env, twin = (PvpVecEnv(2, "self", game=CoinsForTwo) for _ in range(2))
    state = env.get_state()
    env.reset(), twin.reset()
    state["fights"]["world"] = {}
    with pytest.raises(ValueError, match="no snapshot of CoinsForTwoWorld"):
        env.set_state(state)
    actions = np.array([[0, 0], [1, 1]])
    (seen, rewards, *_), (expected, others, *_) = env.step(actions), twin.step(actions)
    assert np.array_equal(rewards, others) and np.array_equal(seen["observation"], expected["observation"])
