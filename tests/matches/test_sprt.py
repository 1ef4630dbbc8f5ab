"""The sequential test on pairs of fights (sb3_pvp.matches.sprt)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import binom

from benchmarks.sprt import LAWS, simulate
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.matches.sprt import PAIRS_PER_STEP, SCORES, Sprt, SprtResult, run_sprt, shortfall
from sb3_pvp.players.league import expected_score

COUNTS = st.lists(st.integers(0, 2000), min_size=5, max_size=5)
FEW = st.lists(st.integers(0, 3), min_size=5, max_size=5)
ELOS = st.tuples(st.floats(-600, 600), st.floats(1, 300)).map(lambda each: (each[0], each[0] + each[1]))
POINTS = ((0, 0), (0.5, 0), (0.5, 0.5), (1, 0.5), (1, 1))  #: A pair of fights of each outcome.


def best_likelihood(counts: list[int], score: float) -> float:
    """Maximises the likelihood of a distribution with this mean, by a general solver."""
    given = np.array(counts, float)

    def cost(p: NDArray[np.float64]) -> float:
        return -float(np.dot(given, np.log(np.maximum(p, 1e-300))) / max(given.sum(), 1))

    rules = [
        {"type": "eq", "fun": lambda p: p.sum() - 1},
        {"type": "eq", "fun": lambda p: np.dot(p, SCORES) - score},
    ]
    start = np.array([(1 - score) / 2, 0.125, 0.25, 0.125, score / 2])
    found = minimize(cost, start, bounds=[(1e-12, 1)] * 5, constraints=rules, options={"maxiter": 1000, "ftol": 1e-13})
    return float(-found.fun * max(given.sum(), 1))


@pytest.mark.parametrize(
    "counts",
    [[12, 40, 90, 44, 14], [3, 0, 50, 0, 9], [0, 0, 40, 0, 0], [0, 1, 20, 7, 0], [0, 0, 0, 0, 9], [30, 2, 1, 0, 0]],
)
@pytest.mark.parametrize("elos", [(0, 20), (-150, 60), (100, 250)])
def test_the_ratio_is_that_of_the_greatest_likelihoods(counts: list[int], elos: tuple[float, float]) -> None:
    first, second = (best_likelihood(counts, expected_score(elo, 0)) for elo in elos)
    assert Sprt(*elos).llr(counts) == pytest.approx(second - first, abs=2e-4)


def test_ratios_that_can_be_computed_by_hand() -> None:
    score = expected_score(20, 0)
    # Only won and lost pairs: a binomial distribution, so the ratio is that of Wald's test.
    by_hand = 30 * log(score / 0.5) + 20 * log((1 - score) / 0.5)
    assert Sprt().llr([20, 0, 0, 0, 30]) == pytest.approx(by_hand)
    # Ties only, and a mean above them: the most likely distribution has as few won pairs as give this mean.
    assert Sprt().llr([0, 0, 10, 0, 0]) == pytest.approx(10 * log(2 * (1 - score)))
    assert Sprt().llr([0, 0, 0, 0, 0]) == 0


@given(COUNTS | FEW, ELOS)
def test_seen_from_the_other_side_the_ratio_is_reversed(counts: list[int], elos: tuple[float, float]) -> None:
    mirrored = Sprt(-elos[1], -elos[0]).llr(counts[::-1])
    assert Sprt(*elos).llr(counts) == pytest.approx(-mirrored, rel=1e-9, abs=1e-9)


@given(COUNTS | FEW, ELOS)
def test_the_more_points_a_further_pair_gives_the_higher_the_ratio(
    counts: list[int], elos: tuple[float, float]
) -> None:
    test = Sprt(*elos)
    further = [test.llr([*counts[:i], counts[i] + 1, *counts[i + 1 :]]) for i in range(5)]
    slack = 1e-9 * (1 + sum(counts))
    assert all(low <= high + slack for low, high in pairwise(further))
    assert further[0] < test.llr(counts) + slack and further[-1] > test.llr(counts) - slack


@given(COUNTS | FEW, st.integers(2, 50), ELOS)
def test_the_ratio_grows_with_the_number_of_pairs(counts: list[int], times: int, elos: tuple[float, float]) -> None:
    many = Sprt(*elos).llr([times * count for count in counts])
    assert many == pytest.approx(times * Sprt(*elos).llr(counts), rel=1e-9, abs=1e-9)


@given(COUNTS | FEW | st.lists(st.integers(0, 10**12), min_size=5, max_size=5), ELOS)
def test_any_counts_have_a_verdict_that_fits_the_bounds(counts: list[int], elos: tuple[float, float]) -> None:
    test = Sprt(*elos)
    (lower, upper), llr = test.bounds, test.llr(counts)
    assert np.isfinite(llr)
    expected = "better" if llr >= upper else "not better" if llr <= lower else None
    assert test.verdict(counts) == expected


@settings(max_examples=20)
@given((COUNTS | FEW).filter(any))
def test_the_interval_holds_the_estimate_and_what_the_ratio_does_not_refuse(counts: list[int]) -> None:
    rating, low, high = SprtResult(tuple(counts), 0.0, None).elo
    assert low <= rating <= high and low < high
    assert (rating == inf) == (high == inf) == (not any(counts[:4]))
    assert (rating == -inf) == (low == -inf) == (not any(counts[1:]))
    for end in (low, high):
        if abs(end) < 1000:
            assert shortfall(counts, expected_score(end, 0)) == pytest.approx(1.92073, abs=1e-4)


def test_with_many_pairs_the_interval_is_that_of_their_variance() -> None:
    counts = np.array([1200, 4000, 9000, 4400, 1400])
    mean = counts @ SCORES / counts.sum()
    deviation = np.sqrt(counts @ (SCORES - mean) ** 2 / counts.sum() ** 2)
    expected = [400 * np.log10(s / (1 - s)) for s in (mean, mean - 1.96 * deviation, mean + 1.96 * deviation)]
    assert SprtResult(tuple(counts.tolist()), 0.0, None).elo == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"elo0": 20, "elo1": 20}, "elo0 must be below elo1"),
        ({"elo1": 2001}, "both within 2000 of 0, got 0, 2001"),
        ({"elo0": float("nan")}, "elo0 must be a finite number"),
        ({"alpha": 0}, "above 0 and below 0.5, got 0 and 0.05"),
        ({"beta": 0.5}, "above 0 and below 0.5, got 0.05 and 0.5"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Sprt(**wrong)


def test_wrong_counts_and_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="must be five counts"):
        Sprt().llr([1, 2, 3])
    with pytest.raises(ValueError, match="a count of pairs must be a non-negative integer, got -1"):
        Sprt().llr([1, 2, 3, 4, -1])
    with pytest.raises(ValueError, match=r"each of them 0, 0.5 or 1, got \(1, 2\)"):
        next(run_sprt(Sprt(), lambda n: [(1, 2)] * n))
    with pytest.raises(ValueError, match="pairs_per_step must be a positive integer"):
        next(run_sprt(Sprt(), lambda n: [(1, 0)] * n, pairs_per_step=0))


def test_it_plays_steps_until_its_verdict() -> None:
    asked = []

    def play(count: int) -> Iterator[tuple[float, float]]:
        asked.append(count)
        return iter([(1, 0.5), (0.5, 0.5), (1, 0)] * (count // 3))

    results = list(run_sprt(Sprt(), play, 30))
    assert asked == [30] * len(results) and len(results) > 1
    assert [result.pairs for result in results] == [(0, 0, 20 * n, 10 * n, 0) for n in range(1, len(results) + 1)]
    assert [result.verdict for result in results] == [None] * (len(results) - 1) + ["better"]
    assert results[-1].num_fights == 60 * len(results) and results[-1].llr > Sprt().bounds[1] > results[-2].llr


def test_it_ends_without_a_verdict_after_the_greatest_number_of_pairs_or_the_last() -> None:
    asked = []

    def play(count: int) -> list[tuple[float, float]]:
        asked.append(count)
        return [(1, 0)] * count

    *_, last = run_sprt(Sprt(), play, max_pairs=40)
    assert asked == [16, 16, 8] and last.pairs == (0, 0, 40, 0, 0) and last.verdict is None
    logged = iter([(0, 0.5)] * 20)
    results = list(run_sprt(Sprt(), lambda count: [pair for _, pair in zip(range(count), logged, strict=False)]))
    assert [result.pairs for result in results] == [(0, 16, 0, 0, 0), (0, 20, 0, 0, 0)] and results[-1].verdict is None


TRIALS = 200


@cache
def simulated(law: str, elo: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Makes the default test `TRIALS` times; returns the pairs after each step, and which tests said better."""
    rng = np.random.default_rng([list(LAWS).index(law), int(elo)])
    steps = list(simulate(Sprt(), LAWS[law](expected_score(elo, 0)), TRIALS, PAIRS_PER_STEP, rng))
    return np.array([counts for counts, _, _ in steps]), steps[-1][1]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.slow
def test_the_error_rates_hold(law: str) -> None:
    better = {}
    for elo in (0, 10, 20):
        steps, said_better = simulated(law, elo)
        better[elo] = int(said_better.sum())
        low, high = wilson_interval(better[elo], TRIALS)
        share = f"better {better[elo] / TRIALS:.1%} (95 % interval {low:.1%} to {high:.1%})"
        print(f"{law} {elo:2} Elo: {share}, {steps[-1].sum() / TRIALS:.0f} pairs")
    # Of 200 tests with an error rate of 5 %, more are wrong with a probability of 0.1 %.
    most = binom.ppf(0.999, TRIALS, 0.05)
    assert better[0] <= most
    assert TRIALS - better[20] <= most
    assert TRIALS / 4 < better[10] < 3 * TRIALS / 4


def test_simulated_tests_are_those_that_run_sprt_makes() -> None:
    steps, better = simulated("seat_favoured", 20)
    drawn = np.diff(steps, axis=0, prepend=0)
    for trial in range(3):
        played = iter([[POINTS[i] for i in np.repeat(range(5), counts)] for counts in drawn[:, trial]])
        *_, last = run_sprt(Sprt(), lambda count: next(played))  # noqa: B023
        assert (last.verdict == "better") == better[trial] and last.pairs == tuple(steps[-1, trial])
