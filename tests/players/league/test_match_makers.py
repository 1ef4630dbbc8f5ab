from __future__ import annotations

import json
from collections import Counter
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matches import PLAYERS

from sb3_pvp.players.league import MatchMaker, Player, Prioritised, PrioritisedFictitious, WindowLatest, match_maker
from sb3_pvp.players.league.match_makers import MATCH_MAKERS

A, B, C = (Player("main", step) for step in (1, 2, 3))
OUTCOMES = st.sampled_from(["won", "lost", "tied", "timeout", "target_lost", "desync"])
STORIES = st.lists(st.tuples(st.sampled_from(PLAYERS), OUTCOMES), max_size=60)
KINDS = pytest.mark.parametrize("kind", MATCH_MAKERS)


def with_players(maker: MatchMaker, *players: Player) -> MatchMaker:
    for player in players:
        maker.add(player)
    return maker


@KINDS
@given(story=STORIES, players=st.lists(st.sampled_from(PLAYERS), unique=True, min_size=1))
def test_probabilities_sum_to_one_and_states_travel_as_json(
    kind: str, story: list[tuple[Player, str]], players: list[Player]
) -> None:
    maker = with_players(match_maker(kind), *players)
    for player, outcome in story:
        maker.record(player, outcome)
    chances = maker.probabilities()
    assert tuple(chances) == maker.players == tuple(players)
    assert sum(chances.values()) == pytest.approx(1)
    assert all(chance >= 0 for chance in chances.values())
    other = match_maker(kind)
    other.set_state(json.loads(json.dumps(maker.get_state())))
    assert other.probabilities() == chances
    rngs = (np.random.default_rng(1), np.random.default_rng(1))
    assert [maker.choose(rngs[0]) for _ in range(5)] == [other.choose(rngs[1]) for _ in range(5)]


@KINDS
def test_choices_follow_the_probabilities(kind: str) -> None:
    maker = with_players(match_maker(kind), A, B, C)
    for _ in range(30):
        maker.record(A, "won")
        maker.record(B, "lost")
    rng = np.random.default_rng(0)
    drawn = Counter(maker.choose(rng) for _ in range(4000))
    for player, chance in maker.probabilities().items():
        assert drawn[player] / 4000 == pytest.approx(chance, abs=0.03)


@KINDS
def test_an_empty_league_is_one_clear_error(kind: str) -> None:
    maker = match_maker(kind)
    assert maker.probabilities() == {}
    with pytest.raises(ValueError, match="no players to choose from"):
        maker.choose(np.random.default_rng(0))


@KINDS
def test_a_removed_player_is_not_chosen_and_known_players_stay_as_they_are(kind: str) -> None:
    maker = with_players(match_maker(kind), A, B)
    maker.record(A, "won")
    state = maker.get_state()
    maker.add(A)
    assert maker.get_state() == state
    maker.remove(A)
    maker.remove(A)
    assert maker.probabilities() == {B: 1}
    maker.record(A, "won")  # a fight that had not ended yet
    assert maker.players == (B,)


@KINDS
def test_broken_fights_teach_nothing_and_unknown_outcomes_are_refused(kind: str) -> None:
    maker = with_players(match_maker(kind), A)
    state = maker.get_state()
    for outcome in ("timeout", "target_lost", "desync"):
        maker.record(A, outcome)
    assert maker.get_state() == state
    with pytest.raises(ValueError, match="unknown outcome 'win'"):
        maker.record(A, "win")


def test_a_state_of_another_kind_is_refused() -> None:
    maker = with_players(match_maker("uniform"), A)
    with pytest.raises(ValueError, match="prioritised"):
        Prioritised().set_state(maker.get_state())


class TestPrioritised:
    def test_the_probability_of_the_choice_may_be_given(self) -> None:
        maker = Prioritised(0.5)
        for player in (A, B):
            maker.add(player)
        for _ in range(100):
            maker.record(A, "won", 0.5)
        assert maker.qualities() == {A: pytest.approx(1 - 100 * 0.5 / (2 * 0.5)), B: 1.0}

    def test_example_of_the_specification(self) -> None:
        """self-play.md §4: two fresh opponents, a learner win against the first."""
        maker = Prioritised()
        with_players(maker, A, B).record(A, "won")
        assert maker.qualities() == {A: pytest.approx(0.99, abs=1e-15), B: 1.0}
        assert maker.probabilities()[A] == pytest.approx(exp(-0.01) / (1 + exp(-0.01)))

    @given(STORIES)
    def test_qualities_only_fall_and_only_when_the_learner_wins(self, story: list[tuple[Player, str]]) -> None:
        maker = Prioritised(learning_rate=0.3)
        with_players(maker, *PLAYERS)
        for player, outcome in story:
            before, chances = maker.qualities(), maker.probabilities()
            maker.record(player, outcome)
            fall = 0.3 / (len(PLAYERS) * chances[player]) if outcome == "won" else 0
            assert maker.qualities() == {**before, player: before[player] - fall}

    def test_newcomers_get_the_highest_quality(self) -> None:
        maker = Prioritised()
        with_players(maker, A, B)
        for player in (A, A, B):
            maker.record(player, "won")
        maker.add(C)
        qualities = maker.qualities()
        assert qualities[C] == max(qualities[A], qualities[B]) < 1

    def test_learning_rate_follows_the_roll_outs(self) -> None:
        maker = Prioritised({"type": "linear", "initial-value": 0.2, "final-value": 0.0, "change-over-time-steps": 10})
        with_players(maker, A)
        maker.record(A, "won")
        maker.trained_rollouts = 10
        maker.record(A, "won")
        assert maker.qualities()[A] == pytest.approx(0.8)

    def test_hopeless_opponents_stay_finite(self) -> None:
        maker = Prioritised(learning_rate=1)
        with_players(maker, A, B)
        for _ in range(2000):
            maker.record(A, "won")
        assert np.isfinite(maker.qualities()[A])
        assert maker.probabilities() == {A: pytest.approx(0, abs=1e-6), B: pytest.approx(1)}


class TestPrioritisedFictitious:
    @pytest.mark.parametrize(
        ("weighting", "weights"),
        [("hard", (0.0625, 0.5625)), ("linear", (0.25, 0.75)), ("linear_capped", (0.25, 0.5)), ("variance", (3, 3))],
    )
    def test_weights_by_win_rate(self, weighting: str, weights: tuple[float, float]) -> None:
        maker = PrioritisedFictitious(weighting, decay=1, prior_games=0)
        with_players(maker, A, B)
        for outcome in ("won", "won", "tied", "tied"):
            maker.record(A, outcome)
        for outcome in ("lost", "lost", "tied", "tied"):
            maker.record(B, outcome)
        assert maker.win_rates() == {A: 0.75, B: 0.25}
        assert list(maker.probabilities().values()) == pytest.approx([weight / sum(weights) for weight in weights])

    def test_unknown_opponents_count_as_even(self) -> None:
        for prior_games in (0, 1):
            maker = PrioritisedFictitious(prior_games=prior_games)
            assert with_players(maker, A) and maker.win_rates() == {A: 0.5}

    def test_old_games_fade(self) -> None:
        maker = PrioritisedFictitious(decay=0.5, prior_games=0)
        with_players(maker, A)
        for outcome in ("lost", "won", "won"):
            maker.record(A, outcome)
        assert maker.win_rates()[A] == pytest.approx((1 + 0.5) / (1 + 0.5 + 0.25))

    def test_beaten_opponents_come_back_with_a_prior_and_all_alike_if_all_are_beaten(self) -> None:
        careful, bold = PrioritisedFictitious(), PrioritisedFictitious(prior_games=0)
        for maker in (careful, bold):
            with_players(maker, A, B).record(A, "won")
        assert careful.probabilities()[A] > 0
        assert bold.probabilities() == {A: 0, B: 1}
        bold.record(B, "won")
        assert bold.probabilities() == {A: 0.5, B: 0.5}


class TestWindowLatest:
    def test_shares_of_the_window_and_of_the_latest(self) -> None:
        maker = WindowLatest(window=2, latest_ratio=0.4)
        assert with_players(maker, A).probabilities() == {A: 1}
        assert with_players(maker, B, C).probabilities() == pytest.approx({A: 0, B: 0.3, C: 0.7})

    def test_latest_only(self) -> None:
        assert with_players(WindowLatest(latest_ratio=1), A, B).probabilities() == {A: 0, B: 1}


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("prioritized", {}, "did you mean 'prioritised'"),
        ("uniform", {"window": 3}, "window"),
        ("prioritised", {"learning_rate": -1}, "learning_rate"),
        ("prioritised", {"learning_rate": "fast"}, "learning_rate"),
        ("prioritised", {"learning_rate": {"type": "liner"}}, "linear"),
        ("prioritised_fictitious", {"weighting": "herd"}, "did you mean 'hard'"),
        ("prioritised_fictitious", {"decay": 0}, "decay"),
        ("prioritised_fictitious", {"prior_games": -1}, "prior_games"),
        ("window_latest", {"window": 0}, "window"),
        ("window_latest", {"latest_ratio": 1.5}, "latest_ratio"),
    ],
)
def test_wrong_settings(kind: str, settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        match_maker(kind, **settings)
