"""The laws of ghost self-play, at any settings and in any course of games."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.players.ghost import (
    LATEST,
    EloChanged,
    Event,
    GhostSelfPlay,
    GhostSettings,
    Saved,
    Swapped,
    TeamChanged,
    Trajectory,
)

SETTINGS = st.builds(
    GhostSettings,
    save_steps=st.integers(1, 60),
    team_change=st.none() | st.integers(1, 200),
    swap_steps=st.integers(1, 60),
    window=st.integers(1, 5),
    play_against_latest_model_ratio=st.floats(0, 1),
    initial_elo=st.floats(0, 3000),
)
TRAJECTORIES = st.builds(
    Trajectory, st.integers(0, 1), st.integers(1, 40), st.none() | st.sampled_from([-1.0, -0.1, 0.0, 0.3, 1.0])
)
#: What is finished at each moment, and whether an update follows.
COURSES = st.lists(st.tuples(st.lists(TRAJECTORIES, max_size=4), st.booleans()), max_size=40)
#: One network for both sides, or one for each.
SIDES = st.sampled_from([{0: "both", 1: "both"}, {1: "goalie", 0: "striker"}])
Course = list[tuple[list[Trajectory], bool]]


def began(settings: GhostSettings, sides: dict[int, str], seed: int = 0) -> GhostSelfPlay:
    return GhostSelfPlay(dict.fromkeys(sides.values(), settings), sides, seed)


def play(ghosts: GhostSelfPlay, course: Course) -> list[list[Event]]:
    """Plays a course, and returns the events of each moment."""
    happened = []
    for finished, updates in course:
        for name, own in ghosts.ghosts.items():
            happened.append(ghosts.advance(name, finished, own.version + updates))
    return happened


@given(SETTINGS, SIDES, COURSES)
def test_the_ring_never_holds_more_than_the_window(
    settings: GhostSettings, sides: dict[int, str], course: Course
) -> None:
    ghosts = began(settings, sides)
    for moment in course:
        for event in (each for events in play(ghosts, [moment]) for each in events):
            if isinstance(event, Saved):
                assert 0 <= event.slot < settings.window
            if isinstance(event, Swapped):
                assert event.opponent == LATEST or 0 <= event.opponent < settings.window
        for own in ghosts.ghosts.values():
            assert 1 <= len(own.slots) <= settings.window and len(own.elos) == settings.window + 1
            assert own.opponent < len(own.slots) and all(version <= own.version for version in own.slots)


@given(SETTINGS, SIDES, COURSES, st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_it_goes_on_equally_from_any_moment(
    settings: GhostSettings, sides: dict[int, str], course: Course, moment: int, seed: int
) -> None:
    whole, first, second = began(settings, sides, seed), began(settings, sides, seed), began(settings, sides)
    expected = play(whole, course)
    begin = play(first, course[:moment])
    state = json.loads(json.dumps(first.state()))
    second.restore(state)
    assert begin + play(second, course[moment:]) == expected
    assert second.state() == whole.state()
    assert state == first.state()  # a state is a copy


@given(SETTINGS, SIDES, COURSES)
def test_what_one_side_wins_the_other_loses(settings: GhostSettings, sides: dict[int, str], course: Course) -> None:
    ghosts = began(settings, sides)
    for moment in course:
        for name, own in ghosts.ghosts.items():
            before = sum(map(sum, (each.elos for each in ghosts.ghosts.values())))
            events = ghosts.advance(name, moment[0], own.version)
            after = sum(map(sum, (each.elos for each in ghosts.ghosts.values())))
            changes = [each.change for each in events if isinstance(each, EloChanged)]
            assert all(-1 <= each <= 1 for each in changes)
            if not any(isinstance(each, Saved) for each in events):  # a snapshot inherits its rating
                assert math.isclose(after, before, abs_tol=1e-6)


@given(SETTINGS, COURSES)
def test_both_teams_learn_in_turn(settings: GhostSettings, course: Course) -> None:
    ghosts, learning = began(settings, {0: "both", 1: "both"}), 0
    for events in play(ghosts, course):
        for event in events:
            if isinstance(event, TeamChanged):
                assert (event.old, event.new) == (learning, 1 - learning)
                learning = event.new
            if isinstance(event, Swapped):
                assert event.team == 1 - learning
    assert ghosts.learning_team == learning


def test_a_game_by_hand() -> None:
    """A snapshot of the start, a win against it, then one against the newest weights, which changes nothing."""
    settings = GhostSettings(save_steps=10, team_change=1000, swap_steps=10, play_against_latest_model_ratio=1)
    ghosts = began(settings, {0: "both", 1: "both"})
    events = ghosts.advance("both", [Trajectory(0, 10, 0.5), Trajectory(1, 11, -1)], version=3)
    assert events == [EloChanged(0, 0.5), Swapped(1, LATEST, 3)]
    own = ghosts.ghosts["both"]
    assert (own.elos[0], own.elos[-1], own.slots, own.step) == (1199.5, 1200.5, [0], 10)
    events = ghosts.advance("both", [Trajectory(0, 1, 0.5), Trajectory(0, 1, None)], version=4)
    assert events == [EloChanged(LATEST, 0.5), Saved(1, 4, 1200.5)]
    assert own.elos[:2] == [1199.5, 1200.5] and own.slots == [0, 4]
    assert (own.opponent, own.opponent_version) == (LATEST, 3)  # frozen until the next swap


def test_another_window_is_refused() -> None:
    ghosts, sides = began(GhostSettings(window=3), {0: "both", 1: "both"}), {0: "both", 1: "both"}
    with pytest.raises(ValueError, match="the run has a window of 3 snapshots, which cannot change: set window: 3"):
        began(GhostSettings(window=4), sides).restore(ghosts.state())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"save_steps": 0}, "save_steps must be a positive integer, got 0"),
        ({"team_change": 0}, "team_change must be a positive integer, got 0"),
        ({"swap_steps": 2.5}, "swap_steps must be a positive integer, got 2.5"),
        ({"window": -1}, "window must be a positive integer, got -1"),
        ({"play_against_latest_model_ratio": 1.1}, "play_against_latest_model_ratio must be a number from 0 to 1"),
        ({"initial_elo": math.nan}, "initial_elo must be a finite number"),
    ],
)
def test_settings_out_of_range(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        GhostSettings(**wrong)


def test_defaults_are_those_of_mlagents() -> None:
    own = GhostSettings()
    assert (own.save_steps, own.team_change, own.swap_steps, own.window) == (20_000, 100_000, 2_000, 10)
    assert (own.play_against_latest_model_ratio, own.initial_elo) == (0.5, 1200.0)
    assert GhostSettings(save_steps=50_000).team_change == 250_000
