"""The games of the proofs of DreamerV3 pay for what they ask for, and runs become a table and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from stable_baselines3.common.env_checker import check_env

from benchmarks.__main__ import main
from benchmarks.dreamer_proofs.games import Chase, Cue, Repeat
from benchmarks.dreamer_proofs.pictures import draw_runs, table
from benchmarks.dreamer_proofs.proofs import EPISODES, PROOFS, Bar, learner, reached_at, read_episodes
from benchmarks.json_lines import append_line


def episode_return(env: Any, act: Any, seed: int = 0) -> float:
    """The return of an episode in which ``act`` chooses by all observations so far."""
    seen, total, done = [env.reset(seed=seed)[0]], 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(act(seen))
        seen.append(observation)
        total, done = total + reward, terminated or truncated
    return total


@pytest.mark.parametrize("env", [Repeat(2), Cue(3), Chase()], ids=lambda env: type(env).__name__)
def test_games_are_those_of_gymnasium(env: Any) -> None:
    check_env(env)


@pytest.mark.parametrize("delay", [1, 2, 4])
def test_whoever_remembers_repeats_all(delay: int) -> None:
    env = Repeat(delay)
    assert episode_return(env, lambda seen: int(seen[-1 - delay][1]) if len(seen) > delay else 0) == 32 - delay
    now = [episode_return(env, lambda seen: int(seen[-1][1]), seed) for seed in range(40)]
    assert abs(np.mean(now)) < 4


@pytest.mark.parametrize("delay", [2, 8])
def test_a_cue_is_asked_for_later(delay: int) -> None:
    for seed in range(4):
        assert episode_return(Cue(delay), lambda seen: int(seen[0][1]), seed) == 1
        assert episode_return(Cue(delay), lambda seen: int(seen[0][0]), seed) == -1
    env = Cue(delay)
    assert env.reset(seed=0)[0].sum() == 1 and not env.step(0)[0].any()


def test_whoever_looks_chases_all() -> None:
    def towards(seen: list[Any]) -> int:
        cells = seen[-1][:: Chase.pixels, :: Chase.pixels, 0]
        (own,), (goal,) = np.argwhere(cells == 128), np.argwhere(cells == 255)
        down, right = goal - own
        return int(down > 0) if down else 2 + int(right > 0)

    assert episode_return(Chase(), towards) == 32
    assert episode_return(Chase(), lambda seen: 0) < 0


@pytest.mark.parametrize("name", PROOFS)
def test_every_proof_has_a_learner(name: str) -> None:
    model = learner(name, 0)
    assert model.n_envs == 4 and all(bar.steps <= PROOFS[name].steps for bar in PROOFS[name].bars)


def test_runs_become_a_table_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROOFS, "repeat1-ppo", replace(PROOFS["repeat1-ppo"], steps=256))
    with pytest.raises(SystemExit) as ended:
        main(["dreamer_proofs", "run", "repeat1-ppo:3", "--out", str(tmp_path)])
    assert ended.value.code == 0
    runs = read_episodes(tmp_path)
    assert set(runs) == {("repeat1-ppo", 3)}
    first = runs["repeat1-ppo", 3][0]
    assert (first["seed"], first["env_steps"], first["length"], first["updates"]) == (3, 128, 32, 0)
    # What a process was cut off in is not read.
    with (tmp_path / EPISODES).open("a") as file:
        file.write('{"proof": "repe')
    assert read_episodes(tmp_path) == runs
    draw_runs(tmp_path / "runs.png", runs)
    pixels = imread(tmp_path / "runs.png")
    assert (pixels[..., 2] > pixels[..., 0] + 0.3).any()  # there is a blue line
    assert table(runs).splitlines()[2].startswith("| repeat1-ppo, 3 | 25 (last 20, within 30,000) | not in ")


def test_a_run_that_is_made_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    for proof, steps in (("cue2", 8), ("repeat1", 32), ("repeat1", 64), ("cue2", 8), ("repeat1", 32), ("repeat1", 40)):
        append_line(tmp_path / EPISODES, {"proof": proof, "seed": 0, "env_steps": steps})
    found = {name: [each["env_steps"] for each in run] for (name, _), run in read_episodes(tmp_path).items()}
    assert found == {"cue2": [8, 8], "repeat1": [32, 40]}


def test_a_bar_is_reached_by_the_last_episodes() -> None:
    episodes = [{"env_steps": 10 * i, "episode_return": value} for i, value in enumerate([0, 9, 0, 6, 6, 0], 1)]
    assert reached_at(episodes, Bar(2, 5.5, 100)) == 50
    assert reached_at(episodes, Bar(1, 8, 100)) == 20
    assert reached_at(episodes, Bar(3, 6, 100)) is None


@pytest.mark.parametrize(("job", "message"), [("repeat:0", "unknown proof 'repeat'"), ("repeat1", "repeat1:0; got")])
def test_bad_jobs_are_one_line(job: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dreamer_proofs", "run", job, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
