"""Glicko-2 beside the worked example of its paper, and what must hold for any player."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.players.league.glicko import Glicko, GlickoLadder, after_games, after_rest

NEW = Glicko()
players = st.builds(Glicko, st.floats(0, 4000), st.floats(20, 350), st.floats(0.03, 0.09))
games = st.tuples(players, st.sampled_from([0.0, 0.5, 1.0]))


def test_the_worked_example_of_the_paper() -> None:
    """Glickman, Example of the Glicko-2 system (2022), pages 4 and 5; his figures are rounded on the way."""
    opponents = [(Glicko(1400, 30), 1.0), (Glicko(1550, 100), 0.0), (Glicko(1700, 300), 0.0)]
    found = after_games(Glicko(1500, 200, 0.06), opponents)
    assert found.rating == pytest.approx(1464.06, abs=0.02)
    assert found.deviation == pytest.approx(151.52, abs=0.01)
    assert found.volatility == pytest.approx(0.05999, abs=1e-5)


def test_a_period_of_rest_is_that_of_the_paper() -> None:
    """Step 6, without games: the root of the sum of squares, on the scale of the formulas."""
    scale = 173.7178
    assert after_rest(Glicko(1500, 200, 0.06), 1).deviation == pytest.approx(
        scale * ((200 / scale) ** 2 + 0.06**2) ** 0.5
    )


@given(players, st.lists(games, min_size=1, max_size=6), games)
def test_more_games_lower_the_deviation(own: Glicko, some: list[tuple[Glicko, float]], another: object) -> None:
    before, after = after_games(own, some, 0), after_games(own, [*some, another], 0)  # type: ignore[list-item]
    # Of a game whose end is certain next to nothing is learned: then the two are equal but for rounding.
    assert after.deviation <= before.deviation * (1 + 1e-12) and before.deviation <= own.deviation * (1 + 1e-12)
    near = [(own._replace(deviation=50), 1.0)]
    assert after_games(own, near, 0).deviation < own.deviation - 0.01


@given(players, st.floats(0, 1e5), st.floats(0, 1e5))
def test_idling_raises_the_deviation_up_to_that_of_a_new_player(own: Glicko, days: float, more: float) -> None:
    rested = after_rest(own, days)
    assert own.deviation <= rested.deviation * (1 + 1e-12) and rested.deviation <= NEW.deviation
    assert after_rest(own, days + more).deviation >= rested.deviation
    assert after_rest(rested, more).deviation == pytest.approx(after_rest(own, days + more).deviation)
    assert after_rest(own, 1e7).deviation == NEW.deviation
    assert (rested.rating, rested.volatility) == (own.rating, own.volatility)


@given(players, players, st.floats(0, 1000))
def test_a_win_raises_a_rating_and_a_loss_lowers_it(own: Glicko, other: Glicko, days: float) -> None:
    won, tied, lost = (after_games(own, [(other, score)], days) for score in (1.0, 0.5, 0.0))
    assert lost.rating <= own.rating <= won.rating and lost.rating < tied.rating < won.rating
    assert all(0 < each.volatility < 1 for each in (won, tied, lost))


@given(players, players)
def test_the_scale_has_no_direction(own: Glicko, other: Glicko) -> None:
    mirrored = own._replace(rating=-own.rating), other._replace(rating=-other.rating)
    found = after_games(own, [(other, 1.0)]), after_games(mirrored[0], [(mirrored[1], 0.0)])
    assert found[0].rating == pytest.approx(-found[1].rating, abs=1e-6)
    assert found[0][1:] == pytest.approx(found[1][1:])


@given(players, st.lists(games, min_size=1, max_size=6), st.floats(0, 1000), st.randoms())
def test_the_order_in_a_period_changes_nothing(
    own: Glicko, some: list[tuple[Glicko, float]], days: float, random: object
) -> None:
    found = after_games(own, some, days)
    random.shuffle(some)  # type: ignore[attr-defined]
    assert after_games(own, some, days) == pytest.approx(found)


def test_a_ladder_rates_game_by_game() -> None:
    ladder = GlickoLadder(10.0)
    ladder.add("Ann", "bot", 1.0, 5.0)
    ann, bot = after_games(NEW, [(NEW, 1.0)], 0), after_games(NEW, [(NEW, 0.0)], 0)
    assert ladder.rating("Ann", 5.0) == ann and ladder.rating("Ann", 25.0) == after_rest(ann, 2)
    ladder.add("Ben", "bot", 0.5, 6.0)
    assert ladder.rating("Ben", 6.0) == after_games(NEW, [(bot, 0.5)], 0), "the opponent is rated as well"
    assert ladder.results["Ann"] == {1.0: 1} and ladder.last == {"Ann": 5.0, "Ben": 6.0}
    ladder.add("bot", "Ann", 0.0, 6.0)
    assert ladder.rating("Ann", 5.0) == ann, "names of players and opponents are two kinds of names"
