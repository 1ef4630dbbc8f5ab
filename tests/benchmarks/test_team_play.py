"""The proofs of team play: curves of short runs, and agents that learn by themselves."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.team_play.curves import BINS, read_runs, table
from benchmarks.team_play.independent import IndependentAgents, PresentRows
from benchmarks.team_play.proofs import PROOFS, pettingzoo_team
from benchmarks.team_play.run import make_model, make_teams, run
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games import gate
from tests.games.pettingzoo_games import Relay


def bench(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main([*options])
    output = capsys.readouterr()
    assert exit_info.value.code == code, output.err
    return output.out, output.err


@pytest.mark.slow
def test_runs_become_a_table_and_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    files = []
    for method, seed in (("mapoca", 0), ("mapoca", 1), ("ppo", 0), ("terminal", 0), ("untrained", 0)):
        files.append(tmp_path / f"{method}-{seed}.jsonl")
        given = ("--method", method, "--seed", str(seed), "--agent-steps", "2000", "--out", str(files[-1]))
        last = json.loads(bench(capsys, "team_play", "train", "gate", *given, "--settings", '{"n_steps": 8}')[0])
        assert 2000 <= last["agent_steps"] < 4000 and 0.3 < last["score"] < 0.8

    picture, kept = tmp_path / "a.png", tmp_path / "a.json"
    out, _ = bench(capsys, "team_play", "plot", *map(str, files), "-o", str(picture), "--json", str(kept))
    head, _, row = out.splitlines()
    assert head == "|  | untrained | independent PPO | death is terminal | MA-POCA |"
    assert row.startswith("| gate | 0.") and row.count(" to ") == 1
    assert picture.read_bytes()[:4] == b"\x89PNG"
    runs = read_runs([kept])
    assert table(runs) == out.strip() and runs == read_runs(files) and runs[0].settings["n_steps"] == 8


def test_a_seed_makes_a_run() -> None:
    changes = {"n_envs": 8, "n_steps": 8, "hidden": [8]}
    first, again, other = (run("gate", "ppo", seed, changes, 1000).points for seed in (0, 0, 1))
    scores, same, different = ([each.score for each in points] for points in (first, again, other))
    assert scores == same != different


def test_points_are_spread_over_the_run() -> None:
    points = run("gate", "ppo", 0, {"n_envs": 4, "n_steps": 5, "hidden": [8]}, 2000).points
    steps = np.array([each.agent_steps for each in points])
    assert 30 <= len(points) <= BINS and np.diff(steps).min() > 0 and 2000 <= steps[-1] < 2060
    # The last score is that of all episodes, as long as there were not more of them.
    episodes = np.array([each.episodes for each in points])
    total = np.cumsum(np.diff(episodes, prepend=0) * [each.score for each in points])
    assert points[10].last == pytest.approx(total[10] / episodes[10], abs=1e-3)


def agents_alone(proof: str, teams: int) -> IndependentAgents:
    game, own_rewards = PROOFS[proof].make()
    return IndependentAgents(make_teams(replace(PROOFS[proof], n_envs=teams), game, 0), own_rewards)


def test_an_agent_alone_is_paid_until_its_own_end() -> None:
    env, waits = agents_alone("gate", 2), [gate.WAIT] * 3
    first = env.reset()
    assert env.num_envs == 6 and first[:, env.active_column].all() and np.array_equal(first[0], first[3])

    seen, paid, ends, infos = env.step(np.array([[gate.PRESS], [gate.WAIT], [gate.WAIT], *[[each] for each in waits]]))
    assert paid.tolist() == pytest.approx([-0.2, 0, 0, 0, 0, 0]) and ends.tolist() == [True] + [False] * 5
    assert not seen[0, env.active_column] and infos[0].keys() == {"terminal_observation"} and not any(infos[1:])
    masks = np.stack(env.env_method("action_masks"))
    assert masks.sum(1).tolist() == [1, 3, 3, 3, 3, 3] and masks[0, gate.WAIT]

    moves = [gate.WAIT, gate.EXIT, gate.WAIT, *waits]
    seen, paid, ends, infos = env.step(np.array(moves)[:, None])
    # The mates are out. Who has pressed is not paid for that.
    assert paid.tolist() == [0, 1, 1, 0, 0, 0] and ends.tolist() == [False, True, True, False, False, False]
    for _ in range(3):  # the team's match is still on
        assert not seen[:3, env.active_column].any()
        seen, paid, ends, infos = env.step(np.full((6, 1), gate.WAIT))
        assert not paid.any()
    assert ends.all() and seen[:, env.active_column].all()
    assert infos[0]["episode"]["r"] == pytest.approx(1.8) and infos[0]["is_success"] and not infos[3]["is_success"]
    assert "episode" not in infos[1] and not infos[1]["TimeLimit.truncated"]


def test_an_agent_alone_goes_on_behind_a_time_limit() -> None:
    env = agents_alone("key_sacrifice", 1)
    env.reset()
    ends = [env.step(np.zeros((3, 1), np.int64))[2:] for _ in range(50)]
    assert not any(over.any() for over, _ in ends[:-1])
    over, infos = ends[-1]
    assert over.all() and all(each["TimeLimit.truncated"] for each in infos)
    assert infos[0]["episode"]["r"] == 0 and not infos[0]["is_success"]


def test_only_steps_of_agents_in_the_game_are_learned_from() -> None:
    model = make_model(replace(PROOFS["gate"], n_envs=4, n_steps=20), "ppo", 0).learn(4 * 3 * 20)
    buffer = model.rollout_buffer
    assert isinstance(buffer, PresentRows)
    buffer.reset()
    env, callback = model.env, model._init_callback(None)
    callback.on_training_start({}, {})
    model.collect_rollouts(env, callback, buffer, 20)
    there = int(buffer.active.sum())
    assert 60 < there < 240
    batches = [*buffer.get(50)]
    assert sum(len(each.actions) for each in batches) == there and len(batches[0].actions) == 50
    for each in batches:
        assert (each.observations[:, buffer.active_column] == 1).all()
        assert each.action_masks.reshape(-1, 3).all() and len(each.returns) == len(each.actions)


def test_agents_of_pettingzoo_are_paid_by_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "relay", SimpleNamespace(parallel_env=Relay))
    game, own_rewards = pettingzoo_team("relay")()
    env = PvpVecEnv(2, game=game, opponent="noop")
    env.reset()
    actions = np.array([[1, 0, 0], [1, 2, 0]])
    paid = env.step(actions)[1]
    own = own_rewards(actions, np.ones((2, 2), bool), paid)
    assert own[:, 0].tolist() == [1, 1] and own.sum(1).tolist() == paid.tolist()


@pytest.mark.slow
def test_speeds_stand_beside_those_of_one_large_agent(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--n-envs", "4", "--n-steps", "8", "--seconds", "0.01", "--json")
    rows = json.loads(bench(capsys, "mapoca", *given)[0])["rows"]
    assert [row["case"].split(":")[0] for row in rows] == ["training"] * 3 + ["learning"] * 3
    assert ["ratio" in row for row in rows] == [True, False, False] * 2
    assert all(row["agent_steps_per_core_s"] > 0 for row in rows)


@pytest.mark.slow
def test_the_hours_of_the_usual_runs_with_ghosts(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--n-envs", "2", "--n-steps", "4", "--seconds", "0.01", "--json")
    rows = json.loads(bench(capsys, "ghost", *given)[0])["rows"]
    assert [row["case"] for row in rows] == [
        f"{name}, {who}" for name in ("MAPOCA", "PvpPPO") for who in ("striker", "ghost")
    ]
    assert ["ratio" in row for row in rows] == [False, True] * 2
    for row in rows:
        assert row["hours_10M"] == pytest.approx(1e7 / row["agent_steps_per_core_s"] / 3600) == 2 * row["hours_5M"]


def test_bad_usage_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    for expected, given in {
        "unknown proof 'gates' (did you mean 'gate'?)": ("gates",),
        "unknown method 'poca'": ("gate", "--method", "poca"),
        "unknown setting 'lr'": ("gate", "--settings", '{"lr": 1}'),
    }.items():
        _, err = bench(capsys, "team_play", "train", *given, "--out", str(out), code=2)
        assert expected in err and err.count("\n") == 1 and not out.exists()
    out.write_text("{}\n")
    _, err = bench(capsys, "team_play", "plot", str(out), "-o", str(tmp_path / "a.png"), code=2)
    assert f"{out} is no file of team_play train" in err and err.count("\n") == 1
