"""The table, the match makers, and the referee's numbers: laws, and values from the course of the public tool."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.arena.challenge import Pairing, Rating
from sb3_pvp.arena.pairing import Field, pairs_of_round
from sb3_pvp.arena.referee import decision_range, packed, read_times, time_percentile, unpacked
from sb3_pvp.arena.table import as_csv, as_json, as_markdown, matches_of, rank_ranges, rated, standings, unsettled
from sb3_pvp.players.league import Elo, MatchRecord, Payoff, Player, fit_bradley_terry
from sb3_pvp.players.league.match_records import MatchDetails

NAMES = [f"p{n}" for n in range(8)]
ELO = Rating()


def fight(
    a: str, b: str, outcome: str, match: str = "", round_: int = 1, at: float = 0.0, number: int = 0, **facts: Any
) -> MatchRecord:
    """One fight of a match."""
    key = match or f"{round_}/{a}/{b}/{at}"
    details = MatchDetails(key, round_, "", 0, facts.get("cause"), facts.get("at_fault"), a, b, "9:3", "20:1", 0)
    players = Player.parse(a), Player.parse(b)
    return MatchRecord(*players, outcome, 1, facts.get("build"), 5, True, at, f"{key}/fight-{number}", details)


def ratings(
    records: list[MatchRecord], rating: Rating = ELO, anchors: dict[str, float] | None = None
) -> dict[str, float]:
    fixed = {Player.parse(name): value for name, value in (anchors or {}).items()}
    return {str(player): each for player, each in rated(matches_of(records), records, rating, fixed).items()}


Fights = st.lists(
    st.tuples(st.sampled_from([*combinations(NAMES, 2)]), st.sampled_from(["won", "tied", "lost"]), st.integers(1, 5)),
    max_size=60,
)


@given(Fights)
def test_batch_elo_conserves_its_sum(played: Any) -> None:
    records = [fight(*pair, outcome, f"{n}", round_) for n, (pair, outcome, round_) in enumerate(played)]
    for system in ("elo", "elo_sequential"):
        found = ratings(records, Rating(system=system))
        assert sum(found.values()) == pytest.approx(1200 * len(found), abs=1e-6)


@given(st.permutations(NAMES), st.lists(st.sampled_from(["won", "tied", "lost"]), min_size=4, max_size=4))
def test_batch_is_sequential_on_disjoint_pairs(names: list[str], outcomes: list[str]) -> None:
    pairs = zip(names[::2], names[1::2], outcomes, strict=True)
    records = [fight(a, b, outcome, f"{n}") for n, (a, b, outcome) in enumerate(pairs)]
    assert ratings(records) == ratings(records, Rating(system="elo_sequential"))
    # Twice in a round is something else.
    again = [*records, fight(names[0], names[2], "won", "again")]
    before, sequential = ratings(records), ratings(again, Rating(system="elo_sequential"))
    assert (ratings(again) == sequential) == (before[names[0]] == before[names[2]])


@given(Fights, st.randoms())
def test_the_order_of_a_log_matters_only_to_sequential_systems(played: Any, random: Any) -> None:
    records = [fight(*pair, outcome, f"{n}", round_) for n, (pair, outcome, round_) in enumerate(played)]
    other = random.sample(records, len(records))
    assert ratings(records) == ratings(other)
    fixed: Any = {}
    owners = {str(player): "" for record in records for player in (record.player_a, record.player_b)}
    one, two = (standings(each, ELO, fixed, owners, {}) for each in (records, other))
    assert as_json(one) == as_json(two)


def test_values_of_the_course() -> None:
    # Of the course that the public tool belongs to, unit 7: K = 16, 2600 against 2300.
    for outcome, expected in (("won", (2602, 2298)), ("lost", (2586, 2314))):
        elo = Elo(16)
        a, b = Player("a"), Player("b")
        elo.ratings = {a: 2600.0, b: 2300.0}
        elo.apply([fight("a", "b", outcome)])
        assert (round(elo.ratings[a]), round(elo.ratings[b])) == expected


def test_anchors_stay() -> None:
    records = [fight("p0", "p1", "won"), fight("p1", "p2", "lost", round_=2)]
    found = ratings(records, anchors={"p1": 1500.0})
    assert found["p1"] == 1500 and found["p0"] > 1200 and found["p2"] > 1200


def test_a_match_is_won_by_who_has_more_points() -> None:
    results = [("won", "lost"), ("won", "tied"), ("lost", "lost"), ("tied", "tied")]
    records = [
        fight("p0", "p1", outcome, f"m{n}", number=k)
        for n, pair in enumerate(results)
        for k, outcome in enumerate(pair)
    ]
    assert [match.score for match in matches_of(records)] == [0.5, 1.0, 0.0, 0.5]
    assert [match.fights for match in matches_of(records)] == [2, 2, 2, 2]


def test_figures_of_a_player() -> None:
    records = [
        fight("p0", "p1", "won", "a", build="MED"),
        fight("p0", "p1", "lost", "b", build="PURE", cause="crashed", at_fault="p0", at=7.0),
        fight("p2", "p0", "tied", "c", build="PURE"),
    ]
    table = standings(records, ELO, {}, {"p0": "ann", "p3": "bob"}, {"p0": 0.25})
    line = next(each for each in table if each.player == "p0")
    assert (line.owner, line.matches, line.wins, line.ties, line.losses, line.fights) == ("ann", 3, 1, 1, 1, 3)
    assert line.win_rate == 0.5 and line.crash_rate == pytest.approx(1 / 3) and line.exploitability == 0.25
    assert line.builds == {"MED": 1.0, "PURE": 0.25} and line.last_played == 7.0
    assert {each.player for each in table} == {"p0", "p1", "p2", "p3"}
    never = next(each for each in table if each.player == "p3")
    assert (never.rating, never.win_rate, never.crash_rate, never.seconds_p50) == (1200, None, None, None)
    assert as_csv(table).splitlines()[0].startswith("rank_low,rank_high,player,owner,rating")
    assert as_markdown(table).count("\n") == 6
    assert unsettled(table, 30) == [each.player for each in table]


@given(Fights)
def test_ranges_of_ranks_hold_the_order_of_strength(played: Any) -> None:
    records = [fight(*pair, outcome, f"{n}") for n, (pair, outcome, _) in enumerate(played)]
    fit = fit_bradley_terry(Payoff(records), [Player(name) for name in NAMES])
    ranges = rank_ranges(fit)
    order = sorted(fit.players, key=lambda player: -fit.ratings[fit.players.index(player)])
    for rank, player in enumerate(order, 1):
        low, high = ranges[player]
        assert 1 <= low <= rank <= high <= len(NAMES)


def test_ranks_get_certain() -> None:
    names = NAMES[:3]
    few = [fight(a, b, "won", f"{a}{b}{n}") for a, b in combinations(names, 2) for n in range(2)]
    many = [
        fight(a, b, "won" if n % 4 else "lost", f"{a}{b}{n}") for a, b in combinations(names, 2) for n in range(400)
    ]
    lines = [standings(records, Rating(system="bradley_terry"), {}, {}, {}) for records in (few, many)]
    assert lines[0][0].rank_low < lines[0][0].rank_high
    assert [(line.rank_low, line.rank_high) for line in lines[1]] == [(1, 1), (2, 2), (3, 3)]
    assert [line.player for line in lines[1]] == names and unsettled(lines[1], 40) == []


def maker(kind: str, count: int, records: list[MatchRecord] | None = None, seed: int = 0, **facts: Any) -> Any:
    players = [Player(name) for name in NAMES[:count]]
    found = {player: 1200.0 + 10 * n for n, player in enumerate(players)}
    pairing, rng = Pairing(kind=kind, **facts), np.random.default_rng(seed)  # type: ignore[arg-type]
    return pairs_of_round(Field(players, found, matches_of(records or []), records or [], 2), pairing, rng)


@given(st.integers(2, 8), st.integers(0, 1000), st.integers(1, 8))
def test_nearest_uses_everybody_at_most_once(count: int, seed: int, nearest: int) -> None:
    pairs = maker("nearest", count, seed=seed, nearest=nearest)
    seen = Counter(player for pair in pairs for player in pair)
    assert len(pairs) == count // 2 and set(seen.values()) == {1}
    assert pairs == maker("nearest", count, seed=seed, nearest=nearest)


def test_nearest_takes_near_ones() -> None:
    # The first of the queue always meets a neighbour; later ones may have lost theirs.
    for seed in range(50):
        a, b = maker("nearest", 8, seed=seed, nearest=1)[0]
        assert abs(NAMES.index(str(a)) - NAMES.index(str(b))) == 1
    met = {frozenset(map(str, maker("nearest", 8, seed=seed, nearest=7)[0])) for seed in range(200)}
    assert len(met) > 20, "with all of them near, anybody may meet anybody"


def test_other_match_makers() -> None:
    assert len(maker("round_robin", 8)) == 28
    assert maker("swiss", 4) == [(Player("p3"), Player("p2")), (Player("p1"), Player("p0"))]
    records = [fight("p3", "p2", "won", "a"), fight("p1", "p0", "won", "b")]
    second = maker("swiss", 4, records)
    assert second == [(Player("p3"), Player("p1")), (Player("p2"), Player("p0"))], "winners meet"
    assert len(maker("swiss", 5)) == 2
    assert len(maker("informative", 6)) == 3 and len(maker("informative", 6, matches=10)) == 10


@given(st.lists(st.lists(st.lists(st.integers(0, 300), min_size=3, max_size=3), min_size=2, max_size=2), max_size=30))
def test_actions_come_back(actions: list[list[list[int]]]) -> None:
    array = np.array(actions, np.int64).reshape(-1, 2, 3)
    assert (unpacked(packed(array), 3) == array).all()


def test_damaged_actions_are_one_error() -> None:
    for content in (b"", b"xxx", packed(np.zeros((2, 2, 3), int))[:-2]):
        with pytest.raises(ValueError, match="its actions are damaged"):
            unpacked(content, 3)
    with pytest.raises(ValueError, match="its actions are damaged"):
        unpacked(packed(np.zeros((2, 2, 3), int)), 5)


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=50), st.floats(0.01, 1))
def test_percentiles_of_times_are_at_most_a_range_too_long(seconds: list[float], share: float) -> None:
    counts = Counter(map(decision_range, seconds))
    text = " ".join(f"{number}:{count}" for number, count in counts.items())
    assert read_times([text, "", "x:1 2:y 3"]) == counts
    found = time_percentile(counts, share)
    exact = sorted(seconds)[max(int(np.ceil(share * len(seconds) - 1e-9)) - 1, 0)]
    assert found is not None and exact * 0.999 <= found <= exact * 2**0.26
    assert time_percentile(Counter(), share) is None
