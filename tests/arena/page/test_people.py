"""The people of an arena: names and keys, fights that are played again, a ladder of their own, and oblivion."""

from __future__ import annotations

import json
import re
import shutil
import string
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp import load_demonstrations
from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.match_rounds import TICK_LIMIT
from sb3_pvp.arena.page import people as people_module
from sb3_pvp.arena.page.people import DAY, People, PersonFight
from sb3_pvp.arena.referee import Digests, unpacked
from sb3_pvp.arena.replaying import recording_of, verify
from sb3_pvp.arena.store import Entrant
from sb3_pvp.game import Outcome, as_other_sees
from sb3_pvp.players.league import glicko
from sb3_pvp.players.league.glicko import Glicko, after_games, after_rest
from sb3_pvp.players.opponents import WORLD_BOT
from tests.arena.page.pages import played
from tests.arena.test_arena_commands import run
from tests.arena.test_rounds import make

ANN, BOB, KEY = "Ann B.", "bob_2", "k" * 20


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    with closing(make(tmp_path / "arena", ("level-2", "level-8"))) as made:
        yield made


@pytest.fixture
def people(arena: Arena) -> People:
    found = People(arena)
    for name in (ANN, BOB):
        found.claim(name, KEY)
    return found


def fought(arena: Arena, seed: int = 1, person: str = ANN, opponent: str = "level-2", **facts: Any) -> PersonFight:
    """A fight in the arena's world: both sides choose at random; what the live server hands over at its end."""
    given: Any = {"build": None, "handicap": "", "finished_at": time.time(), "rated": True, "reset_params": {}, **facts}
    settings = replace(arena.challenge.settings, reset_params=given["reset_params"])
    contract, rng, row = arena.challenge.played.contract, np.random.default_rng(seed), np.array([0])
    with closing(settings.make_world(1)) as world:
        bot = WORLD_BOT if opponent == WORLD_BOT else None
        world.reset(row, [{"bots": (None, bot), "seed": seed}])
        digests, actions, observations, masks = Digests(world), [], [], []
        while world.outcome[0, 0] == Outcome.RUNNING and len(actions) < settings.max_episode_ticks:
            digests.add(row)
            observations.append(world.obs[0, 0].copy())
            masks.append(world.masks[0, 0].copy())
            actions.append([contract.random_action(each, rng) for each in world.masks[0]])
            world.step(np.array(actions[-1:]), row)
        outcome = Outcome(int(world.outcome[0, 0])).name.lower()
        if outcome == "running":
            outcome, given["cause"] = "tied", TICK_LIMIT
        given = {"outcome": outcome, "observations": np.array(observations), "masks": np.array(masks), **given}
        return PersonFight(
            person, opponent, seed=seed, ticks=world.ticks[0], actions=np.array(actions), digest=digests.of(0), **given
        )


class TestNames:
    def test_a_name_belongs_to_whoever_has_its_key(self, people: People) -> None:
        assert people.claim("  ann   b. ", KEY) == ANN
        assert people.claim("\uff21nn\u00a0B.", KEY) == ANN, "wide letters and spaces are the same ones"
        with pytest.raises(ValueError, match=r"ANN B\. is somebody else's name"):
            people.claim("ANN B.", "l" * 20)
        assert not any(KEY.encode() in path.read_bytes() for path in people.folder.rglob("*.*"))

    @pytest.mark.parametrize(
        "name", ["", "a", "x" * 25, ".ann", "a/b", "../ann", "a\nb!", "<b>", "a@1", "bob_12_steps"]
    )
    def test_names_that_are_none(self, people: People, name: str) -> None:
        with pytest.raises(ValueError, match="a name has 2 to 24 letters") as caught:
            people.claim(name, KEY)
        assert "\n" not in str(caught.value)

    def test_a_player_of_the_arena_is_no_person(self, arena: Arena, people: People) -> None:
        arena.store.add(Entrant("ann+mine", "script", "level-3", "level-3", "level-3", "the game"))
        for name in ("level-2", "Level-2", "Ann Mine"):
            with pytest.raises(ValueError, match="there is a player"):
                people.claim(name, KEY)

    @pytest.mark.parametrize("key", ["", "k" * 19, "k" * 201])
    def test_keys_are_long(self, people: People, key: str) -> None:
        with pytest.raises(ValueError, match="20 to 200"):
            people.claim("Carl", key)

    def test_names_without_a_fight_are_free_after_a_day_and_the_others_are_bounded(
        self, arena: Arena, people: People, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        people.record(fought(arena))
        monkeypatch.setattr(people_module, "MOST_PEOPLE", 2)
        with pytest.raises(ValueError, match="2 people already"):
            people.claim("Carl", KEY)
        later = time.time() + DAY + 1
        monkeypatch.setattr(time, "time", lambda: later)
        assert people.claim("Carl", KEY) == "Carl"
        with pytest.raises(ValueError, match="somebody else"):
            people.claim(ANN, "l" * 20)
        with pytest.raises(ValueError, match="nobody has the name bob_2"):
            people.record(fought(arena, person=BOB))

    def test_of_many_who_want_a_name_at_once_one_gets_it(self, people: People) -> None:
        def claim(number: int) -> bool:
            try:
                return bool(people.claim("Dora", f"{number:020}"))
            except ValueError:
                return False

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(claim, range(8))) == 1


_LETTERS = string.ascii_letters + string.digits + " _.-éßǅ\uff21ﬁ"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with closing(make(tmp_path_factory.mktemp("crowd") / "arena", ("level-2",))) as made:
        yield People(made)


@given(st.text(_LETTERS, max_size=30))
@settings(deadline=None, max_examples=25)
def test_whoever_gets_a_name_gets_it_in_every_writing(crowd: People, name: str) -> None:
    try:
        shown = crowd.claim(name, KEY)
    except ValueError as error:
        assert "a name has" in str(error)
        return
    assert 2 <= len(shown) <= 24 and re.fullmatch(r"\w[\w .-]+", shown) and shown == shown.strip()
    for writing in (shown, name.upper(), name.lower(), f" {name} "):
        assert len(writing.strip()) > 24 or crowd.claim(writing, KEY) == shown
    with pytest.raises(ValueError, match="somebody else"):
        crowd.claim(name, "l" * 20)
    assert crowd.forget(name) == 0


class TestFights:
    def test_a_fight_is_played_again_bit_for_bit(self, arena: Arena, people: People) -> None:
        for seed in range(4):
            fight = fought(arena, seed)
            record = people.fight(people.record(fight))
            (found,) = verify(arena, record)
            assert found.same_observations and found.same_outcome and found.agreement is None
            assert (record.outcome, record.ticks, record.seed, record.counted) == (fight.outcome, 6, seed, True)
            for change in ({"digest": fight.digest ^ 1}, {"actions": fight.actions[:, ::-1]}, {"seed": seed + 9}):
                assert not verify(arena, people.fight(people.record(replace(fight, **change))))[0].same_observations
            wrong = "lost" if fight.outcome == "won" else "won"
            assert not verify(arena, people.fight(people.record(replace(fight, outcome=wrong))))[0].same_outcome

    def test_it_is_played_by_the_rules_of_a_models(self, tmp_path: Path) -> None:
        """What a model did in a match, as its referee has kept it, is the same fight if a person does it."""
        with closing(played(tmp_path / "arena", fights_per_match=2)) as arena:
            people = People(arena)
            people.claim(ANN, KEY)
            for each in arena.records():
                record = arena.log.fight(each.key)
                assert record.details is not None
                outcome = record.outcome if record.details.seat == 0 else as_other_sees(record.outcome)
                opponent = record.player_b if record.details.seat == 0 else record.player_a
                actions, seen = unpacked(record.details.actions, 2), (record.details.digest, record.finished_at, True)
                about = ANN, str(opponent), "", outcome, int(record.seed or 0), None, record.ticks
                own = people.fight(people.record(PersonFight(*about, {}, actions, *seen)))
                assert own.details is not None and own.details.challenge == record.details.challenge
                (found,) = verify(arena, own)
                assert found.same_observations and found.same_outcome
            assert people.ladder()[0].fights == len(arena.records()) == 6

    def test_it_is_no_match_of_the_arena(self, arena: Arena, people: People) -> None:
        before = arena.table()
        people.record(fought(arena))
        assert len(arena.log) == 0 and arena.table() == before

    def test_whoever_gave_up_has_lost(self, arena: Arena, people: People) -> None:
        fight = fought(arena)
        gone = replace(fight, outcome="lost", cause="gave up", actions=fight.actions[:3], ticks=3)
        record = people.fight(people.record(gone))
        assert record.details is not None and (record.details.cause, record.details.at_fault) == ("gave up", "Ann+B.")
        assert verify(arena, record)[0].same_outcome

    def test_it_is_a_recording(self, arena: Arena, people: People) -> None:
        fight = fought(arena)
        found = recording_of(arena, people.fight(people.record(fight)))
        assert [(each.name, each.kind) for each in found.players] == [("Ann+B.", "agent"), ("level-2", "script")]
        assert len(found.moments) == 7 and found.outcomes[0] == fight.outcome
        decided = [each.decisions[0].chosen for each in found.moments[1:] if each.decisions[0]]
        assert decided == [tuple(each) for each in fight.actions[:, 0].tolist()]

    def test_what_there_is_not_is_refused(self, arena: Arena, people: People) -> None:
        fight = fought(arena)
        for change, why in [
            ({"opponent": "level-9"}, "no player level-9"),
            ({"outcome": "running"}, "unknown outcome"),
            ({"person": "Nobody"}, "nobody has the name Nobody"),
        ]:
            with pytest.raises(ValueError, match=why):
                people.record(replace(fight, **change))
        assert not people.ladder() and not [*people.folder.rglob("*.npz")]
        with pytest.raises(ValueError, match="no fight 'people/fight-x'"):
            people.fight("people/fight-x")

    def test_of_the_home_game_with_a_build_and_the_worlds_own_bot(self, tmp_path: Path) -> None:
        challenge = Challenge(name="nh", game="NhEnv", max_ticks=40)
        with closing(Arena.create(tmp_path / "arena", challenge)) as arena:
            for script in (WORLD_BOT, "noop"):  # without test fights, which take long
                arena.store.add(Entrant(script, "script", script, script, script, "the game"))
            people = People(arena)
            people.claim(ANN, KEY)
            for opponent in (WORLD_BOT, "noop"):
                fight = fought(arena, 3, opponent=opponent, build="MED", reset_params={"accountBuild": "MED"})
                record = people.fight(people.record(fight))
                (found,) = verify(arena, record)
                assert found.same_observations and found.same_outcome and record.build == "MED"
                assert not verify(arena, people.fight(people.record(replace(fight, reset_params={}))))[
                    0
                ].same_observations


class TestDemonstrations:
    def test_they_are_kept_with_consent_only(self, arena: Arena, people: People) -> None:
        fight = fought(arena, handicap="delay 2")
        people.record(replace(fight, observations=None, masks=None))
        assert not [*people.folder.rglob("*.npz")]
        key = people.record(fight)
        path = people.folder / "demonstrations" / "ann b." / f"{key.rpartition('-')[2]}.npz"
        (found,) = load_demonstrations(path)
        contract = arena.challenge.played.contract
        assert (found.contract, found.fingerprint) == (contract.name, contract.fingerprint)
        assert (found.opponent, found.outcome) == ("level-2 delay 2", fight.outcome)
        assert (found.observations == fight.observations).all() and (found.masks == fight.masks).all()
        assert (found.actions == fight.actions[:, 0]).all() and len(found.actions) == 6

    def test_without_its_file_a_fight_is_not_kept(
        self, arena: Arena, people: People, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fight = fought(arena)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
            patch.setattr(people_module, "save_demonstration", raising)
            people.record(fight)
        assert people.ladder() == []
        people.record(fight)
        assert len(people.ladder()) == 1


def raising(*_: object) -> None:
    raise OSError("the disk is full")


def expected(fights: list[PersonFight], now: float) -> dict[str, tuple[float, float]]:
    """The ladder as the issue says it, fight by fight."""
    ratings, last = dict[Any, Glicko](), dict[str, float]()
    for each in fights:
        if each.rated:
            own, other = (ratings.get(who, Glicko()) for who in (each.person, (each.opponent, each.handicap)))
            days = (each.finished_at - last.get(each.person, each.finished_at)) / DAY
            score = {"won": 1.0, "tied": 0.5, "lost": 0.0}[each.outcome]
            ratings[each.person] = after_games(own, [(other, score)], days)
            ratings[each.opponent, each.handicap] = after_games(other, [(after_rest(own, days), 1 - score)], 0)
            last[each.person] = each.finished_at
    found = {name: after_rest(ratings[name], (now - last[name]) / DAY) for name in last}
    return {name: (each.rating, each.deviation) for name, each in found.items()}


class TestLadder:
    def test_of_rated_fights_best_lower_bound_first(self, arena: Arena, people: People) -> None:
        fight, now = replace(fought(arena), outcome="won"), 1e9
        plan = [
            (ANN, "won", ""),
            (BOB, "won", "delay 2"),
            (ANN, "tied", ""),
            (BOB, "lost", ""),
            (ANN, "lost", "delay 2"),
        ]
        fights = [
            replace(fight, person=person, outcome=outcome, handicap=handicap, finished_at=now + number * DAY / 7)
            for number, (person, outcome, handicap) in enumerate(plan)
        ]
        fights.append(replace(fights[0], rated=False))
        for each in fights:
            people.record(each)
        ladder = people.ladder(now + 9 * DAY)
        assert {each.name: (each.rating, each.deviation) for each in ladder} == expected(fights, now + 9 * DAY)
        ann = next(each for each in ladder if each.name == ANN)
        assert (ann.fights, ann.won, ann.tied, ann.lost, ann.last_played) == (3, 1, 1, 1, fights[4].finished_at)
        assert ladder[0].lower >= ladder[1].lower and ann.lower == ann.rating - 1.96 * ann.deviation

    def test_who_idles_gets_uncertain_up_to_the_start(self, arena: Arena, people: People) -> None:
        people.record(replace(fought(arena), finished_at=1e9))
        deviations = [people.ladder(1e9 + days * DAY)[0].deviation for days in (0, 1, 100, 1e5)]
        assert deviations == sorted(deviations) and deviations[0] < deviations[2] < deviations[3] == 350.0

    def test_handicaps_are_other_opponents(self, arena: Arena, people: People) -> None:
        """Ann beats the opponent often; whoever then beats it with a handicap gains more than against itself."""
        fight = replace(fought(arena), outcome="won", observations=None)
        for _ in range(5):
            people.record(fight)
        gains = {}
        for handicap in ("", "delay 2"):
            people.claim(BOB, KEY)
            people.record(replace(fight, person=BOB, handicap=handicap))
            gains[handicap] = next(each.rating for each in people.ladder() if each.name == BOB)
            people.forget(BOB)
        assert gains["delay 2"] > gains[""] > 1500

    def test_only_what_is_new_is_computed(self, arena: Arena, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
        rated = list[object]()
        real = glicko.after_games
        monkeypatch.setattr(glicko, "after_games", lambda *given: rated.append(given) or real(*given))  # type: ignore[func-returns-value]
        fight = fought(arena)
        for _ in range(3):
            people.record(fight)
        first = people.ladder(2e9)
        assert len(rated) == 6 and people.ladder(2e9) == first and len(rated) == 6
        people.record(replace(fight, person=BOB))
        second = people.ladder(2e9)
        assert len(rated) == 8 and len(second) == 2
        # Another process forgets: all is computed again, also if as many fights have come since.
        assert People(arena).forget(ANN) == 3
        for _ in range(3):
            people.record(replace(fight, person=BOB))
        assert people.ladder(2e9) == People(arena).ladder(2e9) and people.ladder(2e9)[0].fights == 4


class TestOblivion:
    def test_everything_goes_and_the_opponents_ratings_follow(self, arena: Arena, people: People) -> None:
        fight, now = replace(fought(arena), finished_at=1e9), 1e9
        fights = [
            replace(fight, person=name, outcome=word) for name, word in [(BOB, "lost"), (ANN, "won"), (BOB, "won")]
        ]
        keys = [people.record(each) for each in fights]
        assert len(load_demonstrations(people.folder)) == 3
        assert people.forget("ANN b.") == 1
        assert len(load_demonstrations(people.folder)) == 2
        left = [each for each in fights if each.person == BOB]
        assert {each.name: (each.rating, each.deviation) for each in people.ladder(now)} == expected(left, now)
        with pytest.raises(ValueError, match="no fight"):
            people.fight(keys[1])
        assert people.fight(keys[0]).outcome == "lost"
        files = [path for path in people.folder.rglob("*") if path.is_file()]
        assert not any(word in path.read_bytes() for path in files for word in (b"Ann B.", b"ann b.", keys[1].encode()))
        assert not [path for path in people.folder.rglob("*") if "ann" in path.name.lower()]
        with pytest.raises(ValueError, match="nobody has the name Ann B"):
            people.forget(ANN)
        assert people.claim(ANN, "l" * 20) == ANN, "it is free again"

    def test_all_or_nothing(self, arena: Arena, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
        key = people.record(fought(arena))
        with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
            patch.setattr(shutil, "rmtree", raising)
            people.forget(ANN)
        assert people.fight(key).seed == 1 and people.ladder()[0].name == ANN
        assert people.forget(ANN) == 1

    def test_a_list_of_a_later_version_is_refused(self, arena: Arena, people: People) -> None:
        with people._reading() as connection:
            connection.exec_driver_sql("PRAGMA user_version = 2")
        with pytest.raises(ValueError, match="of version 2"):
            People(arena)
        (people.folder / "people.sqlite").write_text("no database at all, but rather long" * 100)
        with pytest.raises(ValueError, match="not a list of an arena's people"):
            People(arena)


def test_the_commands(arena: Arena, people: People, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nobody has fought" in run(capsys, "people", arena.folder)
    fight = fought(arena)
    key = people.record(fight)
    people.record(replace(fight, person=BOB, outcome="tied"))
    (header, *lines) = run(capsys, "people", arena.folder).splitlines()
    assert header.split() == ["name", "rating", "±", "fights", "won", "tied", "lost"] and len(lines) == 2
    found = json.loads(run(capsys, "people", arena.folder, "--json"))["people"]
    assert {each["name"]: each["fights"] for each in found} == {ANN: 1, BOB: 1} and found[0]["deviation"] < 350
    assert run(capsys, "verify", arena.folder, key).count("identical") == 2
    page = tmp_path / "fight.html"
    assert "Ann+B. against level-2" in run(capsys, "replay", arena.folder, key, "-o", page) and page.is_file()
    assert "Ann B. is forgotten: the name with its key, all demonstrations, and fights: 1" in run(
        capsys, "forget", arena.folder, ANN
    )
    assert "nobody has the name" in run(capsys, "forget", arena.folder, ANN, code=2)
    assert "no fight" in run(capsys, "verify", arena.folder, key, code=2)
