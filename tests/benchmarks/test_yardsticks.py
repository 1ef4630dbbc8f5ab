"""Self-play with exact exploitability: a run goes on where it stopped, and its figures are those of OpenSpiel."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")

from benchmarks import poker  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.yardsticks import study  # noqa: E402
from benchmarks.yardsticks.curves import read_points, table  # noqa: E402
from benchmarks.yardsticks.study import Run  # noqa: E402
from sb3_pvp import PvpPPO  # noqa: E402
from sb3_pvp.envs import PvpVecEnv  # noqa: E402


@pytest.mark.parametrize(
    ("game", "exploitability"),
    [
        (poker.goofspiel(4), 0.7083),
        (poker.goofspiel(5), 0.775),
        pytest.param(poker.liars_dice(), 0.7807, marks=pytest.mark.slow),
    ],
)
def test_exact_exploitability_of_a_uniform_player(game: poker.PokerGame, exploitability: float) -> None:
    assert poker.exact_exploitability(game, poker.uniform) == pytest.approx(exploitability, abs=1e-4)


def test_goofspiel_is_played_by_turns_to_its_end() -> None:
    env = PvpVecEnv(16, game=poker.goofspiel(4), opponent="uniform", seed=0)
    env.reset()
    random, ends, bids = np.random.default_rng(0), [], 0
    for _ in range(60):
        masks = env.action_masks()
        chosen = (masks * random.random(masks.shape)).argmax(1)
        bids += int((chosen > 0).sum())
        _, rewards, dones, _ = env.step(chosen[:, None])
        ends += rewards[dones].tolist()
    assert set(ends) == {-1.0, 0.0, 1.0}
    # The last card needs no decision: three bids in a game, apart from those that are under way.
    assert 3 * len(ends) <= bids <= 3 * (len(ends) + 16)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "N_ENVS", 16)
    planned = Run(tmp_path, "kuhn_poker", "ema", 0, 8 * 512, 4)
    first = [*islice(planned.points_left(), 3)]
    assert [each.steps for each in first] == [0, 1024, 2048]
    assert first[0].policy == first[0].average == pytest.approx(11 / 24, abs=0.01), "it begins close to uniform"
    (tmp_path / "yardsticks.jsonl").write_text("".join(f"{each.model_dump_json()}\n" for each in first[:2]))
    rest = [*planned.points_left()]
    assert [each.steps for each in rest] == [2048, 3072, 4096], "a figure that is missing is computed again"
    assert rest[0].model_dump(exclude={"cpu_s"}) == first[2].model_dump(exclude={"cpu_s"})
    assert [*planned.points_left()] == [] and len(read_points(tmp_path)) == 5
    whole = [*Run(tmp_path / "whole", "kuhn_poker", "ema", 0, 8 * 512, 4).points_left()]
    assert [each.policy for each in whole] == [each.policy for each in read_points(tmp_path)]
    model = PvpPPO.load(tmp_path / "kuhn_poker-ema-0.zip", average=True)
    assert poker.exact_exploitability(study._game("kuhn_poker"), poker.of_model(model)) == rest[-1].average


def test_the_command_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "N_ENVS", 8)
    given: list[Any] = ["yardsticks", "run", "-f", tmp_path, "--game", "kuhn_poker", "--seeds", 2, "-n", 512]
    given += ["--method", "ppo", "--method", "entropy", "--points", 2]
    with pytest.raises(SystemExit, match="0"):
        main([*map(str, given)])
    assert capsys.readouterr().out.count("kuhn_poker, ") == 2 * 2 * 3
    with pytest.raises(SystemExit, match="0"):
        main(["yardsticks", "draw", "-f", str(tmp_path), "-o", str(tmp_path / "curves.png")])
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].startswith("| kuhn_poker | ppo | 2 | 512 | 0.")
    assert table(read_points(tmp_path)) == printed.strip()
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    with pytest.raises(SystemExit, match="2"):
        main(["yardsticks", "run", "-f", str(tmp_path), "--game", "khun_poker"])
    assert "did you mean 'kuhn_poker'" in capsys.readouterr().err
