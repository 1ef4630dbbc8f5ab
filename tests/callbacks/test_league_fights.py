"""The league of a run records how its fights start, and shows the ratings of who is met in them."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from duel import duels
from logged import remember
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.players.league import League, Player

ZERKER = {"accountBuild": "ZERKER"}


def own_world(**options: Any) -> SimWorld:
    return SimWorld(**options)


def league_of(folder: Path, env: VecEnv, **arguments: Any) -> League:
    """That of a run of one rollout."""
    network = {"net_arch": [2]}
    model = PvpPPO("MultiInputPolicy", env, n_steps=2, batch_size=2, n_epochs=1, policy_kwargs=network, device="cpu")
    vars(model)["run_folder"] = folder
    model.learn(2, callback=LeagueCallback(**arguments))
    return League.existing(folder)


@pytest.mark.parametrize("env", [NhVecEnv, lambda n, **kwargs: DummyVecEnv([lambda: NhEnv(**kwargs)] * n)])
def test_what_is_fought_in_a_run(tmp_path: Path, env: Any) -> None:
    league = league_of(tmp_path, env(2, reset_params=ZERKER), anchors={"baseline": 1500})
    assert league.fights == {"game": "NhEnv", "reset_params": ZERKER}
    assert league.anchors == {Player("baseline"): 1500}
    assert league_of(tmp_path / "second", env(2, contract="DharokEnv")).fights["game"] == "DharokEnv"


@pytest.mark.parametrize("env", [lambda: NhVecEnv(2, world=own_world, reset_params=ZERKER), lambda: duels(2)])
def test_fights_of_a_custom_world_are_not_recorded(tmp_path: Path, env: Any) -> None:
    assert league_of(tmp_path, env()).fights == {}


@pytest.mark.parametrize("opponent", ["baseline", pytest.param("generalist@1", marks=pytest.mark.slow)])
def test_who_is_no_snapshot_has_a_curve(tmp_path: Path, opponent: str) -> None:
    env = NhVecEnv(4, opponent=opponent)
    model = PvpPPO("MultiInputPolicy", env, n_steps=250, batch_size=500, n_epochs=1, device="cpu")
    vars(model)["run_folder"], memory = tmp_path, remember(model)
    model.learn(1000, callback=LeagueCallback())
    assert f"rollout/elo/{opponent}" in memory.dumps[-1]


def test_worker_processes_can_tell_it() -> None:
    env = NhEnv(reset_params=ZERKER, opponent="noop")
    assert pickle.loads(pickle.dumps(env.match_settings)) == {"game": "NhEnv", "reset_params": ZERKER}


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        *[({"baseline": rating}, "the anchor of baseline") for rating in (float("nan"), float("inf"), "high", None)],
        ({3: 1500}, "anchors must map names of players to ratings, got 3 as a name"),
        ({"main@x": 1500}, "a player is a name"),
        (0, "anchors must be a mapping"),
    ],
)
def test_anchors_that_are_none(anchors: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LeagueCallback(anchors=anchors)
