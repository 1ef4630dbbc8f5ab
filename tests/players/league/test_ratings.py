from __future__ import annotations

import json
import os
import subprocess
import sys
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matches import PLAYERS, match, matches, rollouts

from sb3_pvp.players.league import Elo, MatchLog, MatchRecord, OpenSkill, Payoff, Player, Ratings, expected_score
from sb3_pvp.players.league.ratings import shuffled

A, B, BOT = Player("exploiter", 5), Player("scripted"), Player("baseline")
COUNTED = matches().filter(lambda record: record.counted)


class TestElo:
    def test_expected_scores(self) -> None:
        assert expected_score(1500, 1500) == 0.5
        assert expected_score(1900, 1500) == pytest.approx(10 / 11)
        assert expected_score(1234, 1600) + expected_score(1600, 1234) == pytest.approx(1)

    def test_one_match_of_equals(self) -> None:
        elo = Elo()
        elo.update([match(A, B, "won")])
        assert elo.ratings == {A: 1508, B: 1492}

    def test_a_batch_uses_the_ratings_before_it(self) -> None:
        """self-play.md §6: ten wins at once are ten times the first one; the eleventh sees the new ratings."""
        elo = Elo()
        elo.update([match(A, B, "won", str(key)) for key in range(10)])
        assert elo.ratings == {A: 1580, B: 1420}
        elo = Elo()
        elo.update([match(A, B, "won", str(key)) for key in range(11)])
        assert elo.ratings[A] == 1580 + 16 * (1 - expected_score(1580, 1420))

    def test_batches_do_not_reach_over_rollouts(self) -> None:
        elo = Elo()
        elo.update([match(A, B, key="0")])
        elo.update([match(A, B, key="1")])
        assert elo.ratings[A] == 1508 + 16 * (1 - expected_score(1508, 1492))

    @given(rollouts())
    def test_what_one_wins_others_lose(self, story: list[list[MatchRecord]]) -> None:
        # Who enters with a predecessor's rating brings points in; without such, all points stay.
        elo = Elo()
        for records in story:
            elo.update([match(a, b, r.outcome, r.key, r.counted) for r in records for a, b in [no_learner(r)]])
        assert sum(elo.ratings.values()) == pytest.approx(1500 * len(elo.ratings), abs=1e-6)

    @given(st.lists(COUNTED, min_size=1, max_size=10), st.randoms())
    def test_the_order_inside_a_batch_changes_nothing(self, batch: list[MatchRecord], random: object) -> None:
        ratings = {player: 1500 + 37.1 * place for place, player in enumerate(PLAYERS)}
        elo, other = Elo(), Elo()
        elo.ratings, other.ratings = dict(ratings), dict(ratings)
        elo.apply(batch)
        random.shuffle(batch)  # type: ignore[attr-defined]
        other.apply(batch)
        assert elo.ratings == other.ratings

    @given(st.lists(matches(), unique_by=lambda record: record.key, max_size=40), st.randoms())
    def test_nor_does_the_order_in_a_rollout(self, records: list[MatchRecord], random: object) -> None:
        before = Ratings(), Ratings()
        for ratings in before:
            for rating in (ratings.elo, ratings.open_skill):
                rating.update(records)
            random.shuffle(records)  # type: ignore[attr-defined]
        assert before[0].elo.ratings == before[1].elo.ratings
        assert before[0].open_skill.ratings == before[1].open_skill.ratings

    @given(rollouts())
    def test_anchors_never_move(self, story: list[list[MatchRecord]]) -> None:
        elo = Elo(anchors={PLAYERS[0]: 1234.5})
        for records in story:
            elo.update(records)
        assert elo.ratings[PLAYERS[0]] == 1234.5

    def test_against_an_anchor_only_the_other_moves(self) -> None:
        elo = Elo(k=32, anchors={BOT: 1500})
        elo.update([match(A, BOT, "tied", "0"), match(BOT, B, "won", "1")])
        assert elo.ratings == {BOT: 1500, A: 1500, B: 1484}

    def test_snapshots_enter_as_strong_as_their_predecessor_and_others_with_1500(self) -> None:
        elo = Elo()
        elo.update([match(Player("main", 0), BOT)])
        assert elo.rating(Player("main", 64)) == 1508
        elo.update([match(Player("main", 64), BOT), match(A, BOT, key="x")])
        assert elo.ratings[Player("main", 0)] == 1508
        assert elo.ratings[Player("main", 64)] > 1508
        assert elo.ratings[A] == 1500 + 16 * (1 - expected_score(1500, 1492))

    @given(st.lists(matches(), max_size=40))
    def test_shuffling_keeps_the_counted_ones(self, records: list[MatchRecord]) -> None:
        kept = sorted((r for r in records if r.counted), key=str)
        assert sorted(shuffled(records), key=str) == kept


def no_learner(record: MatchRecord) -> tuple[Player, Player]:
    a, b = (Player(f"fighter{p.age}" if p.name == "main" else p.name) for p in (record.player_a, record.player_b))
    return a, b


class TestOpenSkill:
    def test_winners_rise_and_everybody_gets_more_certain(self) -> None:
        ratings = OpenSkill()
        for number in range(20):
            ratings.update([match(A, B, "won", str(number))])
        a, b = ratings.ratings[A], ratings.ratings[B]
        assert a.mu > 25 > b.mu
        assert max(a.sigma, b.sigma) < 25 / 3
        assert a.ordinal == a.mu - 3 * a.sigma

    def test_a_tie_is_between_a_win_and_a_loss(self) -> None:
        means = []
        for outcome in ("won", "tied", "lost"):
            ratings = OpenSkill()
            ratings.update([match(A, B, outcome)])
            means.append(ratings.ratings[A].mu)
        assert means[0] > means[1] == pytest.approx(25) and means[1] > means[2]

    def test_snapshots_start_at_their_predecessors_mean_and_are_uncertain(self) -> None:
        ratings = OpenSkill()
        ratings.update([match(Player("main", 0), BOT)])
        new, old = ratings.rating(Player("main", 64)), ratings.ratings[Player("main", 0)]
        assert new.mu == old.mu and new.sigma == pytest.approx(25 / 3) and old.sigma < new.sigma


class TestPayoff:
    def test_counts_and_rates(self) -> None:
        payoff = Payoff([match(A, B, "won"), match(B, A, "won"), match(A, B, "tied"), match(B, A, "lost")])
        assert tuple(payoff.counts(A, B)) == (2, 1, 1)
        assert (payoff.counts(A, B).games, payoff.counts(B, A).games, payoff.counts(A, BOT).games) == (4, 4, 0)
        assert (payoff.counts(A, B).win_rate, payoff.counts(B, A).win_rate) == (0.625, 0.375)
        assert isnan(payoff.counts(A, BOT).win_rate)
        assert tuple(payoff.total(A)) == (2, 1, 1)
        matrix = payoff.matrix([A, B, BOT])
        assert matrix[0, 1] == 0.625 and matrix[1, 0] == 0.375 and np.isnan(matrix[2]).all()

    @given(st.lists(matches(), max_size=60))
    def test_what_one_wins_the_other_loses(self, records: list[MatchRecord]) -> None:
        payoff = Payoff(records)
        assert sum(counts.games for _, _, counts in payoff.pairs()) == sum(record.counted for record in records)
        for a, b, counts in payoff.pairs():
            assert payoff.counts(b, a) == counts.reversed()
            assert payoff.counts(a, b).win_rate + payoff.counts(b, a).win_rate == pytest.approx(1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=rollouts(), stops=st.sets(st.integers(0, 5)))
def test_recompute_equals_incremental(tmp_path: Path, story: list[list[MatchRecord]], stops: set[int]) -> None:
    path = tmp_path / "random.sqlite"
    path.unlink(missing_ok=True)
    log, anchors = MatchLog(path), {PLAYERS[0]: 1500.0}
    incremental = Ratings(anchors)
    for number, records in enumerate(story):
        log.append(records)
        if number in stops:  # resumes in another process, from JSON
            incremental.update(log)
            state = json.loads(json.dumps(incremental.get_state()))
            incremental = Ratings(anchors)
            incremental.set_state(state)
            assert incremental.is_prefix_of(log)
    incremental.update(log)
    again = Ratings(anchors)
    again.update(log)
    assert again.get_state() == incremental.get_state()
    assert again.position == len(log)
    assert again.bradley_terry().intervals() == incremental.bradley_terry().intervals()


@given(rollouts())
def test_broken_and_uncounted_fights_never_count(story: list[list[MatchRecord]]) -> None:
    states = []
    for kept in (story, [[record for record in records if record.counted] for records in story]):
        ratings = Ratings()
        for records in kept:
            for part in (ratings.elo, ratings.open_skill, ratings.payoff):
                part.update(records)
        states.append(ratings.get_state())
    assert states[0] == states[1]


ANCHORS = st.dictionaries(st.sampled_from(PLAYERS), st.floats(-3000, 3000), min_size=1, max_size=3)


@given(rollouts(), ANCHORS, st.floats(-3000, 3000))
def test_all_ratings_move_with_their_anchors_and_intervals_stay_as_wide(
    story: list[list[MatchRecord]], anchors: dict[Player, float], distance: float
) -> None:
    first, moved = (Ratings({player: rating + by for player, rating in anchors.items()}) for by in (0, distance))
    for records in story:
        for ratings in (first, moved):
            for part in (ratings.elo, ratings.open_skill, ratings.payoff):
                part.update(records)
    for player in PLAYERS:
        assert moved.elo.rating(player) == pytest.approx(first.elo.rating(player) + distance, abs=1e-6)
        assert moved.open_skill.rating(player) == first.open_skill.rating(player)  # it has a scale of its own
    fits = first.bradley_terry(PLAYERS), moved.bradley_terry(PLAYERS)
    assert fits[1].ratings == pytest.approx(fits[0].ratings + distance, abs=1e-4)
    assert fits[1].half_widths == pytest.approx(fits[0].half_widths, abs=1e-4)


@pytest.mark.parametrize("anchor", [0, 1500, 3000])
def test_a_fighter_that_won_all_its_fights_is_above_the_bot(anchor: float) -> None:
    ratings = Ratings({BOT: anchor})
    for part in (ratings.elo, ratings.payoff):
        part.update([match(A, BOT, "won", str(number)) for number in range(20)])
    assert ratings.elo.rating(A) - anchor == pytest.approx(141.9, abs=0.1)
    assert ratings.bradley_terry().intervals()[A].rating - anchor == pytest.approx(851.1, abs=0.1)


def test_another_process_computes_the_same_bits(tmp_path: Path) -> None:
    log, rng = MatchLog(tmp_path / "matches.sqlite"), np.random.default_rng(0)
    for number in range(20):
        pairs = [rng.permutation(len(PLAYERS))[:2] for _ in range(30)]
        outcomes = rng.choice(["won", "lost", "tied", "desync"], 30)
        log.append(
            match(PLAYERS[a], PLAYERS[b], str(outcome), f"{number}/{row}")
            for row, ((a, b), outcome) in enumerate(zip(pairs, outcomes, strict=True))
        )
    ratings = Ratings()
    ratings.update(log)
    code = (
        "import json, sys; from sb3_pvp.players.league import *; r = Ratings(); r.update(MatchLog(sys.argv[1]));"
        "print(json.dumps([r.get_state(), list(r.bradley_terry().intervals().values())]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "OPENBLAS_NUM_THREADS": "1"}
    printed = subprocess.check_output([sys.executable, "-c", code, str(log.path)], env=environment)
    state, intervals = json.loads(printed)
    assert state == ratings.get_state()
    assert intervals == [list(one) for one in ratings.bradley_terry().intervals().values()]


def test_ratings_of_another_log_or_with_other_anchors_are_not_taken(tmp_path: Path) -> None:
    logs = [MatchLog(tmp_path / name) for name in "ab"]
    for log in logs:
        log.append([match(A, B, key=log.path.name)])
    ratings = Ratings()
    ratings.update(logs[0])
    assert ratings.is_prefix_of(logs[0]) and not ratings.is_prefix_of(logs[1])
    with pytest.raises(ValueError, match="anchors"):
        Ratings({BOT: 1500}).set_state(ratings.get_state())
