"""``python -m benchmarks sprt``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.report import Row, print_report
from sb3_pvp.matches.evaluation import wilson_interval
from sb3_pvp.matches.sprt import PAIRS_PER_STEP, Sprt, shortfall
from sb3_pvp.players.league import expected_score

#: The probabilities ``(5,)`` of a pair's outcomes, for an expected score.
Law = Callable[[float], NDArray[np.float64]]


def tie_heavy(score: float) -> NDArray[np.float64]:
    """Seven of ten fights end in a tie."""
    fight = np.array([0.65 - score, 0.7, score - 0.35])
    return np.convolve(fight, fight)


def decided_only(score: float) -> NDArray[np.float64]:
    """No ties, and the fights of a pair have nothing in common."""
    return np.convolve([1 - score, 0, score], [1 - score, 0, score])


def seat_favoured(score: float) -> NDArray[np.float64]:
    """No ties; the gear roll of a pair adds 0.35 to the chances of one seat, which each player has once."""
    with_it, against_it = score + 0.35, score - 0.35
    return np.convolve([1 - with_it, 0, with_it], [1 - against_it, 0, against_it])


def one_fight_twice(score: float) -> NDArray[np.float64]:
    """No ties; a pair's fights end alike, so the second one says nothing."""
    return np.array([1 - score, 0, 0, 0, score])


LAWS: dict[str, Law] = {law.__name__: law for law in (tie_heavy, decided_only, seat_favoured, one_fight_twice)}


def simulate(
    test: Sprt, probabilities: NDArray[np.float64], trials: int, step: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]]:
    """Makes ``trials`` tests at the same time, without fights, until all have ended.

    Yields after each step the counts of pairs ``(trials, 5)``, which tests have said "better", and which go on.
    """
    (lower, upper), scores = test.bounds, [expected_score(elo, 0) for elo in (test.elo0, test.elo1)]
    counts, better = np.zeros((trials, 5), np.int64), np.zeros(trials, np.bool_)
    going = np.ones(trials, np.bool_)
    while going.any():
        counts[going] += rng.multinomial(step, probabilities, int(going.sum()))
        ratios = shortfall(counts[going], scores[0]) - shortfall(counts[going], scores[1])
        better[going] = ratios >= upper
        going[going] = (lower < ratios) & (ratios < upper)
        yield counts.copy(), better.copy(), going.copy()


def bench_sprt(
    elo0: Annotated[float, typer.Option(help="Elo difference of the first hypothesis.")] = 0.0,
    elo1: Annotated[float, typer.Option(help="Elo difference of the second one.")] = 20.0,
    trials: Annotated[int, typer.Option(min=1, help="Number of simulated tests of each case.")] = 1000,
    step: Annotated[int, typer.Option(min=1, help="Pairs of fights in each step.")] = PAIRS_PER_STEP,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all of them.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate sequential tests between players of known differences: what they say, and how many pairs it takes."""
    test, gap, rows = Sprt(elo0, elo1), elo1 - elo0, list[Row]()
    for name, law in LAWS.items():
        for elo in (elo0 + part * gap for part in (-1, 0, 0.25, 0.5, 0.75, 1, 2)):
            rng = np.random.default_rng(seed)
            *_, (counts, better, _) = simulate(test, law(expected_score(elo, 0)), trials, step, rng)
            low, high = wilson_interval(int(better.sum()), trials)
            pairs = counts.sum(1)
            spread = {"pairs": float(pairs.mean()), "90 % need at most": float(np.quantile(pairs, 0.9))}
            rows.append({"case": name, "elo": elo, "better": float(better.mean()), "low": low, "high": high, **spread})
    print_report("sprt", rows, ("numpy",), as_json)
