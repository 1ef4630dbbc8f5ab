"""``-i model.zip``: a new run that starts from the model, the counts and the league of another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.players.league import League, Player
from sb3_pvp.players.league.league import league_of

ROLLOUT = 20 * 16
SMALL = ["--preset", "PastSelfPlay", "--eval-freq", "-1", "--verbose", "0"]
CALLBACKS = [
    {"sb3_pvp.callbacks.MaskableCheckpointCallback": {}},
    {"sb3_pvp.callbacks.LeagueCallback": {"snapshot_every": 1, "anchors": {"baseline": 1500}}},
    {"sb3_pvp.callbacks.SelfPlayCallback": {"past": 0.5}},
]
PARAMS = ["-params", "n_envs:20", "n_steps:16", "batch_size:64", "policy_kwargs.net_arch:[8]"]


def train(folder: Path, rollouts: int, *more: str, params: tuple[str, ...] = ()) -> None:
    short = "env_kwargs.max_episode_ticks:10"  # so that matches end
    options = ["-f", str(folder), "-n", str(rollouts * ROLLOUT), *more, *PARAMS, f"callback:{CALLBACKS}", short]
    zoo.train([*SMALL, *options, *params])


def run_in(folder: Path, number: int) -> Path:
    return folder / f"maskable_ppo/NhEnv_{number}"


def players(run: Path) -> list[int]:
    return [player.age for player in League.existing(run / "league").players()]


def matches(run: Path) -> list[str]:
    return [record.key for record in League.existing(run / "league").log.records(counted_only=False)]


def rollouts_of(run: Path) -> set[int]:
    return {int(key.split("/")[1].removeprefix("rollout-")) for key in matches(run)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three rollouts."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder, 3, "--seed", "1")
    return folder


def test_counts_and_league_continue(folder: Path) -> None:
    first, second = run_in(folder, 1), run_in(folder, 2)
    train(folder, 2, "--seed", "2", "-i", str(first / "NhEnv.zip"))
    before, model = PvpPPO.load(first / "NhEnv.zip"), PvpPPO.load(second / "NhEnv.zip")
    assert (before.num_timesteps, before.trained_rollouts) == (3 * ROLLOUT, 3)
    assert (model.num_timesteps, model.trained_rollouts) == (5 * ROLLOUT, 5)
    assert model.learning_rate == pytest.approx(5e-4 - 4e-4 * 5 / 1000)  # the schedule continues, too
    assert players(first) == [0, ROLLOUT, 2 * ROLLOUT]
    assert players(second) == [0, ROLLOUT, 2 * ROLLOUT, 3 * ROLLOUT, 4 * ROLLOUT]
    assert rollouts_of(first) == {0, 1, 2} and rollouts_of(second) == {0, 1, 2, 3, 4}
    assert matches(second)[: len(matches(first))] == matches(first)
    assert League.existing(second / "league").recompute() == "identical"
    league, copied = (League.existing(run / "league") for run in (first, second))
    same = [league.path(player).read_bytes() == copied.path(player).read_bytes() for player in league.players()]
    assert all(same) and copied.anchors == {Player("baseline"): 1500}


def test_the_policy_is_that_of_the_model(folder: Path) -> None:
    start = run_in(folder, 1) / "NhEnv.zip"
    train(folder, 1, "-i", str(start), params=("policy_kwargs.net_arch:[16, 16]",))
    newest = max(folder.glob("maskable_ppo/NhEnv_*"), key=lambda run: int(run.name.removeprefix("NhEnv_")))
    initial = PvpPPO.load(newest / "initial_model.zip")
    assert initial.policy_kwargs == {"net_arch": [8]}
    models = PvpPPO.load(start), initial
    ours, theirs = ([each.detach().numpy() for each in model.policy.parameters()] for model in models)
    assert all(map(np.array_equal, ours, theirs))


def test_an_earlier_checkpoint_leaves_out_what_came_later(folder: Path, tmp_path: Path) -> None:
    checkpoint = run_in(folder, 1) / f"checkpoints/main_{ROLLOUT}_steps.zip"
    train(tmp_path, 1, "-i", str(checkpoint), params=("gamma:0.9",))
    run = run_in(tmp_path, 1)
    assert players(run) == [0, ROLLOUT]
    assert rollouts_of(run) == {0, 1}
    later = set(matches(run)) - set(matches(run_in(folder, 1)))
    first_of_run = {key for key in matches(run) if key.startswith("main/rollout-0/")}
    assert first_of_run == {key for key in matches(run_in(folder, 1)) if key.startswith("main/rollout-0/")}
    assert not later & first_of_run
    assert PvpPPO.load(run / "NhEnv.zip").num_timesteps == 2 * ROLLOUT
    known = League.existing(run / "league")
    assert {player for record in known.log.records() for player in (record.player_a, record.player_b)} <= {
        Player("baseline"),
        Player("main", 0),
        Player("main", ROLLOUT),
    }


@pytest.mark.slow
def test_the_seed_of_the_new_run_counts(folder: Path, tmp_path: Path) -> None:
    weights = []
    for name, seed in (("one", 1), ("two", 2), ("again", 1)):
        train(tmp_path / name, 1, "--seed", str(seed), "-i", str(run_in(folder, 1) / "NhEnv.zip"))
        model = PvpPPO.load(run_in(tmp_path / name, 1) / "NhEnv.zip")
        weights.append(model.policy.value_net.weight.detach().numpy())
    assert np.array_equal(weights[0], weights[2])
    assert not np.array_equal(weights[0], weights[1])


@pytest.mark.slow
def test_such_a_run_can_be_resumed_itself(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = run_in(folder, 1) / "NhEnv.zip"
    whole = ["-i", str(start), "--seed", "5"]
    train(tmp_path, 1, *whole, "--resume")
    train(tmp_path, 2, *whole, "--resume")  # one more
    run = run_in(tmp_path, 1)
    assert PvpPPO.load(run / "NhEnv.zip").num_timesteps == 5 * ROLLOUT
    for refused in (whole, []):  # it has all its steps; it is not a run that began with none
        with pytest.raises(SystemExit):
            train(tmp_path, 2, *refused, "--resume")
    assert "began with another initial model" in capsys.readouterr().err and not run_in(tmp_path, 2).exists()
    arguments = yaml.load((run / "NhEnv/args.yml").read_text(), Loader=yaml.UnsafeLoader)
    assert arguments["trained_agent"] == str(start)


def test_leagues_are_found_from_every_file_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "NhEnv_1"
    league = League(run / "league")
    for file in ("NhEnv.zip", "checkpoints/main_1_steps.zip", "league/players/main_1_steps.zip"):
        assert league_of(run / file) == league.folder.resolve()
    assert league_of(tmp_path / "NhEnv.zip") is None


def test_a_model_of_another_game_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = run_in(folder, 1) / "NhEnv.zip"
    with pytest.raises(SystemExit) as raised:
        zoo.train(["--preset", "DharokEnv", "-f", str(tmp_path), "-n", "64", "-i", str(model), "-params", "n_envs:2"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert raised.value.code == 2 and "is of another game, a team of another size" in error
