from __future__ import annotations

from math import log, log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matches import PLAYERS, matches
from numpy.typing import NDArray

from sb3_pvp.players.league import (
    BradleyTerry,
    Counts,
    MatchRecord,
    Payoff,
    Player,
    fit_bradley_terry,
    informative_pairs,
)
from sb3_pvp.players.league.bradley_terry import SCALE, Z95

A, B, C = Player("a"), Player("b"), Player("c")
FLAT = 1e6  # deviation of a prior that has no influence


def games(*results: tuple[Player, Player, tuple[int, int, int]]) -> Payoff:
    payoff = Payoff()
    for a, b, counts in results:
        payoff.add(a, b, Counts(*counts))
    return payoff


def simulate(
    rng: np.random.Generator, truth: NDArray[np.float64], num_games: int, tie_rate: float = 0
) -> tuple[list[Player], Payoff]:
    """Returns a round robin; ties replace as many wins as losses, so that scores match the model."""
    players = [Player("p", number) for number in range(len(truth))]
    payoff = Payoff()
    for i in range(len(truth)):
        for j in range(i):
            win = 1 / (1 + 10 ** ((truth[j] - truth[i]) / 400))
            ties = tie_rate * min(win, 1 - win)
            counts = rng.multinomial(num_games, [win - ties / 2, ties, 1 - win - ties / 2])
            payoff.add(players[i], players[j], Counts(*counts.tolist()))
    return players, payoff


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 50))
def test_two_players_in_closed_form(wins: int, losses: int, ties: int) -> None:
    payoff = games((A, B, (wins, ties, losses)))
    up, down = wins + ties / 2, losses + ties / 2
    lead, deviation = 400 * log10(up / down), SCALE * sqrt(1 / up + 1 / down)
    fit = fit_bradley_terry(payoff, anchors={B: 1400}, prior_deviation=FLAT).intervals()
    assert fit[B] == (1400, 1400, 1400)
    assert fit[A].rating == pytest.approx(1400 + lead, abs=0.01)
    assert fit[A].high - fit[A].rating == pytest.approx(Z95 * deviation, abs=0.01)
    # Without anchor each is half the lead away from the mean, and half as uncertain.
    fit = fit_bradley_terry(payoff, prior_deviation=FLAT).intervals()
    assert (fit[A].rating, fit[B].rating) == pytest.approx((1500 + lead / 2, 1500 - lead / 2), abs=0.01)
    assert fit[A].high - fit[A].rating == pytest.approx(Z95 * deviation / 2, abs=0.01)


def test_three_players_against_a_brute_search() -> None:
    payoff = games((A, B, (7, 2, 3)), (B, C, (5, 0, 4)), (A, C, (1, 1, 6)))
    fit = fit_bradley_terry(payoff, anchors={C: 1500})

    def posterior(ratings: tuple[float, float]) -> float:
        points = dict(zip((A, B, C), (*ratings, 1500.0), strict=True))
        value = -sum(((rating - 1500) / 1000) ** 2 / 2 for rating in points.values())
        for a, b, (wins, ties, losses) in payoff.pairs():
            win = 1 / (1 + 10 ** ((points[b] - points[a]) / 400))
            value += (wins + ties / 2) * log(win) + (losses + ties / 2) * log(1 - win)
        return value

    best = (fit.ratings[0], fit.ratings[1])
    for change in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1)):
        assert posterior((best[0] + change[0], best[1] + change[1])) < posterior(best)


@pytest.mark.parametrize(("tie_rate", "anchored"), [(0, False), (0, True), (0.5, False)])
def test_intervals_cover_the_truth(tie_rate: float, anchored: bool) -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        truth = rng.normal(1500, 250, 8)
        players, payoff = simulate(rng, truth, 30, tie_rate)
        if anchored:
            fit = fit_bradley_terry(payoff, anchors={players[0]: truth[0]})
        else:
            fit, truth = fit_bradley_terry(payoff), truth - truth.mean() + 1500
        covered += (np.abs(fit.ratings - truth) <= fit.half_widths)[int(anchored) :].tolist()
    assert len(covered) >= 1400
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015) if not tie_rate else np.mean(covered) > 0.95


def test_many_games_recover_the_truth() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([900.0, 1300, 1500, 1650, 2150])
    _, payoff = simulate(rng, truth, 20_000)
    assert fit_bradley_terry(payoff).ratings == pytest.approx(truth, abs=25)


def test_the_undefeated_and_the_unknown_stay_finite() -> None:
    payoff = games((A, B, (1000, 0, 0)))
    fit = fit_bradley_terry(payoff, [A, B, C], anchors={B: 1500}).intervals()
    assert 2300 < fit[A].rating < 4000 and 2000 < fit[A].low < fit[A].rating < fit[A].high < 5000
    assert fit[C].rating == 1500 and fit[C].high - fit[C].rating == pytest.approx(Z95 * 1000, rel=1e-3)
    assert fit_bradley_terry(games((A, B, (10**6, 0, 0)))).ratings[0] > fit_bradley_terry(payoff).ratings[0]
    assert fit_bradley_terry(Payoff()).intervals() == {}


def test_groups_that_never_met_are_both_around_the_center() -> None:
    fit = fit_bradley_terry(games((A, B, (9, 0, 1)), (C, Player("d"), (1, 0, 9)))).ratings
    assert fit[0] + fit[1] == pytest.approx(3000) and fit[2] + fit[3] == pytest.approx(3000)


@given(st.lists(matches(), max_size=60), st.randoms())
def test_only_the_counts_matter_and_the_mean_is_the_center(records: list[MatchRecord], random: object) -> None:
    fit = fit_bradley_terry(Payoff(records))
    random.shuffle(records)  # type: ignore[attr-defined]
    assert fit_bradley_terry(Payoff(records)).intervals() == fit.intervals()
    if fit.players:
        assert fit.ratings.mean() == pytest.approx(1500)


@given(st.lists(matches().filter(lambda record: record.counted), min_size=1, max_size=60))
def test_the_covariance_is_the_inverse_of_the_curvature(records: list[MatchRecord]) -> None:
    anchor = records[0].player_a
    fit = fit_bradley_terry(Payoff(records), anchors={anchor: 1500})
    assert (np.linalg.eigvalsh(fit.covariance) > -1e-6).all()
    assert fit.covariance[fit.players.index(anchor)].any() == 0
    assert (fit.half_widths <= Z95 * 1000 * (1 + 1e-9)).all()


class TestInformativePairs:
    def fit(self, *results: tuple[Player, Player, tuple[int, int, int]]) -> BradleyTerry:
        return fit_bradley_terry(games(*results), [A, B, C], anchors={B: 1500})

    def test_the_unknown_fights_first(self) -> None:
        fit = self.fit((A, B, (50, 0, 50)))
        assert all(C in pair for pair in informative_pairs(fit, [A, B, C], 50, 3, 10))

    def test_excluded_pairs_are_left_alone(self) -> None:
        pairs = informative_pairs(self.fit(), [A, B, C], 50, 6, 10, {(A, C), (B, C)})
        assert set(pairs) == {(A, B)}
        assert informative_pairs(self.fit(), [], 50, 6, 10) == []

    def test_even_fights_tell_more(self) -> None:
        fit = self.fit((A, B, (900, 0, 100)), (C, B, (9, 0, 1)))
        assert informative_pairs(fit, [A, B, C], 60, 1, 10) == [(A, C)]

    def test_the_certain_need_no_fights(self) -> None:
        fit = self.fit((A, B, (500, 0, 500)), (C, B, (5, 0, 5)))
        bound = fit.half_widths[0] + 1
        assert all(C in pair for pair in informative_pairs(fit, [A, B, C], bound, 5, 10))
        assert informative_pairs(fit, [A, B], bound, 5, 10) == []
        assert len(informative_pairs(fit, [A, B, C], bound, 100, 100)) < 100

    @given(st.lists(matches(), max_size=60))
    def test_more_certain_than_with_the_same_fights_of_the_first_pair(self, records: list[MatchRecord]) -> None:
        fit = fit_bradley_terry(Payoff(records), PLAYERS)
        pairs = informative_pairs(fit, PLAYERS, 1, 8, 5)
        assert len(pairs) == 8
        assert uncertainty_after(fit, pairs) <= uncertainty_after(fit, [PLAYERS[:2]] * 8) + 1e-9

    def test_a_hopeless_player_does_not_keep_the_others_waiting(self) -> None:
        fit = self.fit((B, A, (300, 0, 0)), (C, B, (5, 0, 5)))
        assert fit.half_widths[0] > 3 * fit.half_widths[2]
        assert informative_pairs(fit, [A, B, C], 50, 3, 16) == [(B, C)] * 3


def uncertainty_after(fit: BradleyTerry, pairs: list[tuple[Player, ...]], num_games: int = 5) -> float:
    """Returns the sum of log variances after these pairs have played, by inverting the information matrix."""
    information = np.linalg.pinv(fit.covariance / SCALE**2)
    for a, b in pairs:
        lead = np.array([(player == a) - (player == b) for player in fit.players], float)
        win = 1 / (1 + np.exp(-(fit.ratings @ lead) / SCALE))
        information += num_games * win * (1 - win) * np.outer(lead, lead)
    return float(np.log(np.diag(np.linalg.pinv(information))).sum())
