"""Scripted teams as yardsticks. The whole table is that of ``python -m benchmarks soccer``."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.soccer import games_row
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.soccer import SOCCER_TWOS, STRIKERS_VS_GOALIE, SoccerGame


@pytest.mark.parametrize(
    ("better", "worse", "least"),
    [("chaser", "baseline", 0.98), ("striker", "chaser", 0.89), ("positional", "striker", 0.9)],
)
@pytest.mark.slow
def test_each_team_beats_the_next_weaker_one(better: str, worse: str, least: float) -> None:
    """200 games: these bounds are three standard deviations below the figures of the table."""
    row = games_row(SOCCER_TWOS, better, worse, 200)
    assert row["win_rate"] >= least


@pytest.mark.parametrize("name", list(SOCCER_TWOS.scripts))
@pytest.mark.slow
def test_a_team_is_as_strong_on_either_seat(name: str) -> None:
    assert 0.36 < games_row(SOCCER_TWOS, name, name, 200)["win_rate_of_decided"] < 0.64


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STRIKERS_VS_GOALIE.scripts))
def test_strikers_score_against_a_random_goalie(name: str) -> None:
    """Whoever has the goalie cannot win: it plays no other goal."""
    row = games_row(STRIKERS_VS_GOALIE, name, "baseline", 60)
    assert row["lost"] <= 30 and row["won"] >= 20


@pytest.mark.parametrize("game", [SOCCER_TWOS, STRIKERS_VS_GOALIE], ids=str)
@pytest.mark.parametrize("name", list(SOCCER_TWOS.scripts))
def test_rows_do_not_depend_on_each_other(game: SoccerGame, name: str) -> None:
    world, rng = game.make_world("sim", 16, 0, {}), np.random.default_rng(0)
    world.reset()
    for _ in range(5):
        world.step(world.contract.random_action(world.masks, rng))
    seen, masks, chance = world.obs[:, 1], world.masks[:, 1], rng.random(16)

    def act(rows: slice) -> np.ndarray:
        turn = Turn(game.contract, seen[rows], masks[rows], chance[rows])
        game.scripts[name](turn)
        return turn.actions()

    together = act(slice(None))
    assert np.array_equal(together, np.concatenate([act(slice(row, row + 1)) for row in range(16)]))
    assert (together != 0).any()


def test_an_agent_s_view_is_its_range_of_the_observations() -> None:
    contract, seen = STRIKERS_VS_GOALIE.contract, np.arange(1329, dtype=np.float32)[None]
    turn = Turn(contract, seen, np.ones((1, 27), bool), np.zeros(1))
    assert turn.agent("striker1")[0, [0, -1]].tolist() == [295, 589]
    with pytest.raises(ValueError, match="unknown agent 'stricker1'.*did you mean 'striker1'"):
        turn.agent("stricker1")
