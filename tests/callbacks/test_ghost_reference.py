"""Ghost self-play against traces of ml-agents 1.1.0 itself: every event, counter and rating, and the random draws.

The folder in SB3_PVP_GOLDEN may hold other traces of the same layout. A trace with any event changed does not pass.
"""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from sb3_pvp.players.ghost import GhostSelfPlay, GhostSettings, Saved, Swapped, TeamChanged, Trajectory
from tests.games.soccer.golden import golden_file

Json = dict[str, Any]
#: Ratings in the file are rounded to nine places.
PLACES = 9
NAMES = list("ABCDEF")


@cache
def scenarios() -> dict[str, Json]:
    found = json.loads(gzip.decompress(golden_file("ghost-golden.json.gz").read_bytes()))["scenarios"]
    return {each["name"][0]: each for each in found}


class Recorded(np.random.RandomState):
    """Remembers what was drawn."""

    draws: list[Any]

    def uniform(self) -> float:  # type: ignore[override]
        number = super().uniform()
        self.draws.append(["uniform", round(number, PLACES)])
        return number

    def randint(self, size: int) -> int:  # type: ignore[override]
        number = super().randint(size)
        self.draws.append(["randint", size, number])
        return number


class Replay:
    """Plays a scenario: what ml-agents' trainers do beside ours is to count to the next update."""

    def __init__(self, scenario: Json) -> None:
        self.scenario, given = scenario, copy.deepcopy(scenario["settings"])
        self.buffer_sizes = {name: own.pop("buffer_size") for name, own in given.items()}
        for own in given.values():
            own.pop("teams")
        settings = {name: GhostSettings(**own) for name, own in given.items()}
        teams = {team: name for name, team in scenario["registration_order"]}
        if begin := scenario["initial_trainer_step"]:  # a resumed run has its Elo from training_status.json
            elo = scenario["after_registration"]["SoccerTwos"]["slot_elos"][0]
            settings = {name: replace(own, initial_elo=elo) for name, own in settings.items()}
        self.play = GhostSelfPlay(settings, teams)
        for own in self.play.ghosts.values():
            own.step = begin
        self.play.random = self.random = Recorded(scenario["numpy_seed"])
        self.teams, self.all_draws = teams, list[Any]()
        self.buffers, self.versions = dict.fromkeys(given, 0), dict.fromkeys(given, 0)
        self.live = {f"{name}?team={team}": 0 for team, name in sorted(teams.items(), key=lambda each: each[::-1])}

    def numbers(self, name: str) -> Json:
        own = self.play.ghosts[name]
        return {
            "learning_team": own.learning_team,
            "step": own.step,
            "ghost_step": own.ghost_step,
            "slots": own.slots,
            "slot_elos": rounded(own.elos),
            "opponent": own.opponent,
            "next_slot": own.next_slot,
            "last_save": own.last_save,
            "last_swap": own.last_swap,
            "last_team_change": own.last_team_change,
        }

    def run(self) -> Json:
        """Returns the trace, in the layout of the file."""
        queue = {"learning_team": self.play.learning_team, "queue": self.play.state()["teams"][1:]}
        begin = {"after_registration": self.numbers_of_all(), "controller_after_registration": queue}
        trace = [self.tick(number, entries) for number, entries in enumerate(self.scenario["input_ticks"])]
        # The file lists where something happened, and some more: what it does not list has to be nothing.
        listed = {each["tick"]: each for each in self.scenario["trace"]}
        for each in trace:
            for name in self.buffers.keys() - listed.get(each["tick"], {}).keys():
                if not each[name]["events"] and "slot_elos_changed" not in each[name]:
                    del each[name]
        return begin | {
            "trace": [each for each in trace if each.keys() & self.buffers.keys()],
            "final": self.numbers_of_all(),
            "all_draws": self.all_draws,
            "elo_written_to_training_status": {
                name: rounded([own.elos[-1]])[0] for name, own in self.play.ghosts.items()
            },
        }

    def numbers_of_all(self) -> Json:
        return {name: copy.deepcopy(self.numbers(name)) for name in self.buffers}

    def tick(self, number: int, entries: list[Any]) -> Json:
        learning = self.play.learning_team
        happened = {name: self.advance(name, entries) for name in self.buffers}
        reset = learning != self.play.learning_team
        return {"tick": number, **happened, "reset_env": reset, "live_policies": dict(self.live)}

    def advance(self, name: str, entries: list[Any]) -> Json:
        """Lets the trainer of a network advance; returns what the file says of it."""
        own, events, self.random.draws = self.play.ghosts[name], list[Any](), []
        before, learned = rounded(own.elos), own.learning_team
        finished = list[Trajectory]()
        for behaviour, _, steps, done, mates_done, interrupted, reward, group_reward, _ in entries:
            brain, _, team = behaviour.partition("?team=")
            if brain == name:
                is_result = done and mates_done and not interrupted
                finished.append(Trajectory(int(team), steps, reward + group_reward if is_result else None))
        self.buffers[name] += sum(each.steps for each in finished if each.team == learned)
        pushed = dict[int, int]()
        if self.buffers[name] > self.buffer_sizes[name]:
            self.buffers[name] = 0
            self.versions[name] += 1
            events.append(["update", self.versions[name]])
            pushed[learned] = self.versions[name]
        swapped = False
        for event in self.play.advance(name, finished, self.versions[name]):
            match event:
                case TeamChanged(old, new):
                    events.append(["team_change", old, new, self.play.state()["teams"][1:]])
                case Saved(slot, version, elo):
                    events.append(["save", "slot", slot, "version", version, "elo", rounded([elo])[0]])
                case Swapped(team, _, version):
                    pushed[team], swapped = version, True
        if own.learning_team != learned and self.teams[own.learning_team] == name:
            pushed[own.learning_team], swapped = self.versions[name], True
        if swapped:
            events.append(["swap", self.random.draws, "opponent_slot", own.opponent])
        self.all_draws += self.random.draws
        for team, version in sorted(pushed.items()):
            self.live[f"{name}?team={team}"] = version
            events.append(["policy_pushed", f"{name}?team={team}", version])
        numbers = self.numbers(name)
        changed = {
            str(slot): new
            for slot, (old, new) in enumerate(zip(before, numbers["slot_elos"], strict=True))
            if old != new
        }
        kept = ("learning_team", "step", "ghost_step")
        shown = {"events": events, "elo": numbers["slot_elos"][-1], "opponent_slot": own.opponent}
        shown |= {each: numbers[each] for each in kept}
        if events:
            shown |= {"slots": [*own.slots], "slot_elos": numbers["slot_elos"]}
        elif changed:
            shown["slot_elos_changed"] = changed
        return shown


def rounded(numbers: list[float]) -> list[float]:
    return [round(each, PLACES) for each in numbers]


def assert_close(ours: Any, theirs: Any, where: str = "") -> None:
    """Compares the values of JSON; ratings may differ in the last of their rounded places."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            assert_close(ours[key], value, f"{where}/{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for number, value in enumerate(theirs):
            assert_close(ours[number], value, f"{where}/{number}")
    elif isinstance(theirs, float):
        assert abs(ours - theirs) < 2.5 * 10**-PLACES, (where, ours, theirs)
    else:
        assert ours == theirs and type(ours) is type(theirs), (where, ours, theirs)


def result_of(scenario: Json) -> Json:
    ours = Replay(scenario).run()
    if len(scenario["settings"]) > 1:  # there the file has no ratings of slots but with other events
        for tick in ours["trace"]:
            for name in scenario["settings"]:
                tick.get(name, {}).pop("slot_elos_changed", None)
    return ours


@pytest.mark.parametrize("name", NAMES)
def test_same_events_as_mlagents(name: str) -> None:
    scenario = scenarios()[name]
    ours = result_of(scenario)
    assert_close(ours, {each: scenario[each] for each in ours})


@pytest.mark.parametrize("name", NAMES)
def test_any_changed_event_fails(name: str) -> None:
    scenario = scenarios()[name]
    ours, number = result_of(scenario)["trace"], 0
    for mine, theirs in zip(ours, scenario["trace"], strict=True):
        for network in scenario["settings"].keys() & theirs.keys():
            events = theirs[network]["events"]
            for place, event in enumerate(events):
                other = [*event[:-1], [*event[-1], 9] if isinstance(event[-1], list) else event[-1] + 1]
                for changed in ([*events[:place], other, *events[place + 1 :]], events[:place] + events[place + 1 :]):
                    with pytest.raises(AssertionError):
                        assert_close(mine, {**theirs, network: {**theirs[network], "events": changed}})
                number += 1
            with pytest.raises(AssertionError):
                assert_close(mine, {**theirs, network: {**theirs[network], "events": [*events, ["update", 1]]}})
    assert number > 20
