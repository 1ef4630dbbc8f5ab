"""Unity's fighters play SoccerTwos: its own network, where it lies, and small ones made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.soccer import games_row
from benchmarks.unity_soccer import ABLATIONS, by_sensor, play_case
from sb3_pvp import PvpPPO
from sb3_pvp.cli import main
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import Game
from sb3_pvp.games.soccer import SOCCER_TWOS, STRIKERS_VS_GOALIE
from sb3_pvp.games.soccer.layout import BRANCHES
from sb3_pvp.players.opponents import make_opponent
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.played_graphs import read_graph
from sb3_pvp.policies.files.model_files import load_opponent
from tests.games.soccer.golden import golden_file
from tests.policies.files.small_graphs import unity, weights_of, written

SIZES = [len(moves) for _, moves in BRANCHES]
TOLERANCE = 1e-4
Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def network() -> Path:
    path = golden_file("SoccerTwos-unity.onnx")
    if not path.is_file():
        pytest.skip("SB3_PVP_GOLDEN names no folder with SoccerTwos-unity.onnx, which is Unity's")
    return path


@pytest.fixture(scope="module")
def golden() -> Arrays:
    with np.load(golden_file("soccer-obs-golden.npz")) as file:
        return dict(file)


def check(network: Path, golden: Arrays) -> None:
    """Raises `AssertionError` unless the network gives the stored log-probabilities for the stored stacks."""
    graph, _ = read_graph(network.read_bytes())
    rows, wanted = len(golden["stacked_obs_336"]), golden["official_log_probs_3x3"]
    seen = golden["stacked_obs_336"].astype(np.float32)[:, None]
    numbers = np.full((rows, len(SIZES)), -1, np.float32)
    actions, log_probs = graph.decide(seen, np.ones((rows, sum(SIZES)), bool), numbers, SIZES)
    np.testing.assert_allclose(log_probs, wanted.reshape(rows, -1), atol=TOLERANCE)
    assert np.array_equal(actions, wanted.argmax(axis=2))


def test_it_gives_the_stored_log_probabilities(network: Path, golden: Arrays) -> None:
    check(network, golden)


@pytest.mark.parametrize("name", ["stacked_obs_336", "official_log_probs_3x3"])
def test_each_array_counts(name: str, network: Path, golden: Arrays) -> None:
    with pytest.raises(AssertionError):
        check(network, {**golden, name: golden[name] * 1.01})


def test_it_beats_whoever_acts_at_random(network: Path) -> None:
    fighter = load_opponent(network)
    fighter.check(SOCCER_TWOS.contract)
    rows = {case: play_case(case, fighter, "baseline", 120, 0) for case in ("as it is", "turns mirrored")}
    assert rows["as it is"]["win_rate"] > 0.9
    assert rows["turns mirrored"]["win_rate"] < 0.75


@pytest.mark.parametrize("year", [2021, 2022])
def test_both_formats_play(year: int, tmp_path: Path) -> None:
    path = written(unity(year, [336] if year == 2021 else [264, 72], SIZES), tmp_path)
    env = PvpVecEnv(6, path, game=SOCCER_TWOS, seed=1)
    env.reset()
    assert env.reset_infos[0]["opponent"] == "stranger"
    for _ in range(30):
        env.step(np.zeros((6, env.fights.contract.num_heads), np.int64))


def test_a_goalie_plays_against_strikers(tmp_path: Path) -> None:
    path = written(unity(2022, [738], SIZES), tmp_path, "goalie")
    env = PvpVecEnv(6, path, game=STRIKERS_VS_GOALIE, seed=1)
    env.reset()
    for _ in range(30):
        env.step(np.zeros((6, env.fights.contract.num_heads), np.int64))


def test_a_striker_cannot_be_the_goalie(tmp_path: Path) -> None:
    env = PvpVecEnv(2, written(unity(2022, [231, 63], SIZES), tmp_path), game=STRIKERS_VS_GOALIE)
    env.reset()
    with pytest.raises(ValueError, match="stranger.onnx cannot decide for all agents of its team"):
        env.step(np.zeros((2, env.fights.contract.num_heads), np.int64))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Two strikers and a goalie, of different networks, by their names."""
    sensors = {"first": [231, 63], "second": [231, 63], "goalie": [738]}
    graphs = {name: unity(2022, sizes, SIZES, seed) for seed, (name, sizes) in enumerate(sensors.items())}
    return {name: written(each, tmp_path, name) for name, each in graphs.items()}


def mixed(files: dict[str, str], *names: str) -> str:
    return "team:" + ",".join(files[name] for name in names)


def test_in_a_mixed_team_each_network_decides_for_its_agent(files: dict[str, str]) -> None:
    """On both seats, of which one has the strikers and the other one the goalie."""
    contract, rows = STRIKERS_VS_GOALIE.contract, 16
    team = make_opponent(mixed(files, *files), contract, STRIKERS_VS_GOALIE)
    assert team is not None
    world = STRIKERS_VS_GOALIE.make_world("sim", rows, 0, {})
    world.reset()
    for _ in range(3):
        world.step(contract.random_action(world.masks, np.random.default_rng(0)))
    wanted = np.zeros((rows, 2, contract.num_heads), np.int64)
    for seed, (agent, seat) in enumerate(zip(contract.agents, (0, 0, 1), strict=True)):
        first, end = agent.observations
        layer = weights_of(seed, end - first - 1, sum(SIZES))
        preferred = (world.obs[:, seat, first + 1 : end] @ layer).reshape(rows, len(SIZES), -1)
        wanted[:, seat, slice(*agent.heads)] = preferred.argmax(axis=2)
    for seat in range(2):
        seen, state = world.obs[:, seat], np.asarray(team.initial_state(range(rows)))
        actions, _ = team.predict(seen[:, None], state, np.zeros(rows, bool), True, world.masks[:, seat])
        assert np.array_equal(actions, wanted[:, seat])
    assert len(np.unique(wanted[:, 0, :3], axis=0)) > 1 and len(np.unique(wanted[:, 1, 6:], axis=0)) > 1


@pytest.mark.slow
def test_a_mixed_team_plays_whole_games_on_either_seat(files: dict[str, str]) -> None:
    team = mixed(files, *files)
    for other in ("positional", team):
        row = games_row(STRIKERS_VS_GOALIE, team, other, 8)
        assert row["won"] + row["lost"] + row["time_limit"] == 8 and row["mean_ticks"] > 1


def test_a_model_is_evaluated_against_a_mixed_team(files: dict[str, str], tmp_path: Path, capsys: Any) -> None:
    env = PvpVecEnv(2, game=STRIKERS_VS_GOALIE)
    given = {"n_steps": 2, "batch_size": 4, "policy_kwargs": {"net_arch": [4]}}
    PvpPPO(AutoregressivePolicy, env, **given).save(tmp_path / "model.zip")  # type: ignore[arg-type]
    command = ["evaluate", str(tmp_path / "model.zip"), "--episodes", "2", "--json", "--jobs", "1", "--opponent"]
    with pytest.raises(SystemExit) as ended:
        main([*command, mixed(files, *files)])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["episodes"] == 2 and found["opponent_deterministic"] and found["game"] == "StrikersVsGoalie-v0"
    for names, said in (
        (("first", "second", "first"), "first.onnx cannot play goalie of StrikersVsGoalie-v0, who sees 738 features"),
        (("goalie", "second", "goalie"), "goalie.onnx cannot play striker0 of StrikersVsGoalie-v0, who sees 294 "),
        (("first", "goalie"), "has 3 fighters (striker0, striker1, goalie), got 2"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, mixed(files, *names)])
        refusal = capsys.readouterr().err
        assert ended.value.code == 2 and said in refusal and refusal.count("\n") == 1


@pytest.mark.parametrize("game", [SOCCER_TWOS, STRIKERS_VS_GOALIE], ids=str)
def test_a_team_of_another_number_is_refused(game: Game, tmp_path: Path) -> None:
    path = written(unity(2021, [3 * 336], [3] * 9), tmp_path)
    with pytest.raises(ValueError, match=r"^stranger.onnx sees 1008 features, and .* \(each agent (294|336) and 9"):
        PvpVecEnv(1, path, game=game)


def altered(case: str) -> tuple[dict[str, float], dict[str, float]]:
    """What the first team sees after some moves by id, as it is and with an ablation."""
    world = SOCCER_TWOS.make_world("sim", 1, 3, {})
    world.reset()
    for _ in range(4):
        world.step(np.tile([1, 0, 2], (1, 2, 2)))
    seen = world.obs[:, 0]
    assert np.unique(seen).size > 20
    changed = np.concatenate([ABLATIONS[case].rays(each).reshape(1, 2, -1) for each in by_sensor(seen)], axis=2)
    ids = [each.id for each in world.contract.observations]
    return dict(zip(ids, seen[0].tolist(), strict=True)), dict(zip(ids, changed.reshape(-1).tolist(), strict=True))


def test_ablations_turn_round_what_they_say() -> None:
    seen, changed = altered("hit flag inverted")
    assert changed == {name: 1.0 - value if name.endswith("_nothing") else value for name, value in seen.items()}
    seen, changed = altered("goal tags swapped")
    for name, value in changed.items():
        stem, _, tag = name.partition("_own_goal") if "_own_goal" in name else name.partition("_goal")
        other = f"{stem}_goal" if "_own_goal" in name else f"{stem}_own_goal"
        assert value == (seen[other] if tag == "" and "goal" in name else seen[name])
    seen, changed = altered("newest frame first")
    for name, value in changed.items():
        agent, sensor, age, rest = name.split("_", 3)
        assert value == seen[f"{agent}_{sensor}_{2 - int(age)}_{rest}"]
    moves = np.array([[[0, 1, 2], [1, 2, 1], [2, 0, 0]]])
    assert ABLATIONS["turns mirrored"].actions(moves).tolist() == [[[0, 1, 1], [1, 2, 2], [2, 0, 0]]]
    assert altered("as it is")[0] == altered("as it is")[1]
