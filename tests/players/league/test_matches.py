from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sb3_contrib import MaskablePPO

from benchmarks.synchronous_server import SynchronousServer
from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.matches import evaluation, rating
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.matches.rating import ONE_SIDED, Progress, play_matches, rate
from sb3_pvp.players.league import League, MatchRecord, Payoff, Player
from sb3_pvp.policies import AutoregressivePolicy
from tests.games.osrs.remote.living_world import LivingWorld
from tests.games.osrs.remote.served import handler_server, logged_in, world_server

BOT, NOOP, SCRIPTED = map(Player, ("baseline", "noop", "scripted"))
ONE_FRAME, TWO_FRAMES = Player("main", 64), Player("stacking", 9)
SETTINGS = FightSettings()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a league with two models, one of which sees two frames."""
    league = League(tmp_path_factory.mktemp("league"))
    for player, frames in ((ONE_FRAME, 1), (TWO_FRAMES, 2)):
        env = NhVecEnv(1, frame_ages=frames)
        network = {"net_arch": [8], "head_arch": []}
        model = MaskablePPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, seed=0, policy_kwargs=network)
        league.add(player, model.save)
    return league.folder


@pytest.fixture
def league(models: Path, tmp_path: Path) -> League:
    league = League(tmp_path / "league")
    (league.folder / "players").rmdir()
    (league.folder / "players").symlink_to(models / "players")
    return league


def comparable(records: list[MatchRecord]) -> list[MatchRecord]:
    return [replace(record, key="k", finished_at=0) for record in records]


def test_half_of_the_fights_in_either_seat_and_all_in_the_log(league: League) -> None:
    records = play_matches(league, {(ONE_FRAME, SCRIPTED): 5}, 0, SETTINGS)
    assert Counter(record.player_a for record in records) == {ONE_FRAME: 2, SCRIPTED: 3}
    assert league.log.records(counted_only=False) == records
    assert len({record.key for record in records}) == 5
    assert all(record.ticks > 0 and record.build for record in records)


def test_the_same_fight_is_counted_once(league: League) -> None:
    def fight(seed: int, settings: FightSettings = SETTINGS) -> int:
        play_matches(league, {(NOOP, SCRIPTED): 4}, seed, settings)
        return len(league.log)

    assert [fight(0), fight(0), fight(2)] == [4, 4, 8]
    longer = {"length": fight(0, FightSettings(max_episode_ticks=2001))}
    other = {"start": fight(0, FightSettings(reset_params={"accountBuild": "MED"})), **longer}
    assert other == {"length": 12, "start": 16}


def test_a_rating_that_was_killed_goes_on_with_the_fights_that_it_would_have_played(
    league: League, tmp_path: Path
) -> None:
    def begin(league: League) -> Iterator[Progress]:
        return rate(league, [SCRIPTED, BOT], 1, SETTINGS, fights_per_round=16, max_fights=64)

    whole = League(tmp_path / "whole")
    assert [each.num_fights for each in begin(whole)] == [0, 16, 32, 48, 64]
    for _, state in zip(range(3), begin(league), strict=False):  # and then no more of it
        played = state.num_fights
    assert played == len(league.log) == 32
    for _ in zip(range(3), begin(league), strict=False):
        pass
    assert comparable(league.log.records()) == comparable(whole.log.records())
    assert [each.seed for each in whole.log.records()] == [*range(64)]


@pytest.mark.parametrize("pair", [(BOT, SCRIPTED), (SCRIPTED, BOT)])
def test_the_worlds_bot_sits_in_the_second_seat(league: League, pair: tuple[Player, Player]) -> None:
    records = play_matches(league, {pair: 6}, 0, SETTINGS)
    assert [(record.player_a, record.player_b) for record in records] == [(SCRIPTED, BOT)] * 6


def test_a_player_that_does_nothing_loses_in_either_seat(league: League) -> None:
    records = play_matches(league, {(NOOP, SCRIPTED): 10}, 0, SETTINGS)
    assert Counter(record.outcome for record in records) == {"lost": 5, "won": 5}
    assert Payoff(records).counts(SCRIPTED, NOOP).win_rate == 1


def test_the_same_seed_gives_the_same_fights(league: League) -> None:
    def fight(seed: int) -> list[MatchRecord]:
        records = play_matches(league, {(TWO_FRAMES, SCRIPTED): 4}, seed, SETTINGS)
        return comparable(records)

    first = fight(5)
    assert fight(5) == first != fight(6)


def test_reset_params_reach_the_fights(league: League) -> None:
    settings = FightSettings(reset_params={"accountBuild": "ZERKER"})
    records = play_matches(league, {(SCRIPTED, BOT): 4}, 0, settings)
    assert {record.build for record in records} == {"ZERKER"}


def test_fights_that_time_out_are_kept_and_do_not_count(league: League) -> None:
    records = play_matches(league, {(NOOP, SCRIPTED): 3}, 0, FightSettings(max_episode_ticks=5))
    assert [(record.outcome, record.counted) for record in records] == [("timeout", False)] * 3
    assert league.ratings().broken == 3 and not league.ratings().elo.ratings


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ((BOT, Player("baselin")), "did you mean 'baseline'"),
        ((Player("main", 65), BOT), "main@65 has no model"),
        ((NOOP, NOOP), "two players"),
        ((BOT, BOT), "two players"),
    ],
)
def test_who_cannot_fight(league: League, pair: tuple[Player, Player], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        play_matches(league, {pair: 1}, 0, SETTINGS)
    assert len(league.log) == 0


def test_rating_ends_when_all_are_known_well_enough(league: League) -> None:
    league.anchors[BOT] = 1500
    rounds = list(rate(league, [SCRIPTED, ONE_FRAME, BOT], 150, SETTINGS, fights_per_round=32))
    first, *_, last = rounds
    assert (first.num_fights, first.out_of_reach) == (0, ()) and max(first.half_widths.values()) > 1000
    assert max(last.half_widths.values()) <= 150 < max(rounds[-2].half_widths.values())
    assert last.num_fights == len(league.log) <= 32 * (len(rounds) - 1)
    assert last.half_widths[BOT] == 0


def test_players_out_of_reach_do_not_hold_up_the_others(league: League) -> None:
    *_, last = rate(league, [NOOP, SCRIPTED], 60, SETTINGS, fights_per_round=64)
    assert NOOP in last.out_of_reach and last.half_widths[NOOP] > 60
    assert ONE_SIDED <= last.num_fights < ONE_SIDED + 64


def test_pairs_whose_fights_never_count_are_left_alone(league: League) -> None:
    *_, last = rate(league, [NOOP, SCRIPTED, BOT], 60, FightSettings(max_episode_ticks=5), fights_per_round=32)
    assert 0 < last.num_fights <= 3 * 32 and min(last.half_widths.values()) > 60


def test_rating_stops_at_the_limit(league: League) -> None:
    *_, last = rate(league, [SCRIPTED, BOT], 1, SETTINGS, fights_per_round=32, max_fights=40)
    assert last.num_fights == 40 == len(league.log)


@pytest.mark.parametrize("count", [0, -1])
def test_numbers_of_fights_are_positive(league: League, count: int) -> None:
    for what, play in (
        (
            "the number of fights of noop against scripted",
            lambda: play_matches(league, {(NOOP, SCRIPTED): count}, 0, SETTINGS),
        ),
        ("parallel_fights", lambda: play_matches(league, {(NOOP, SCRIPTED): 1}, 0, SETTINGS, count)),
        ("fights_per_round", lambda: [*rate(league, [NOOP, SCRIPTED], 50, SETTINGS, fights_per_round=count)]),
        ("max_fights", lambda: [*rate(league, [NOOP, SCRIPTED], 50, SETTINGS, max_fights=count)]),
        ("num_episodes", lambda: [evaluate_model(MaskablePPO, NhVecEnv(1), count)]),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=f"{what} must be a positive integer, got {count}"):
            play()
    assert len(league.log) == 0


def test_rating_needs_two(league: League) -> None:
    with pytest.raises(ValueError, match="two players"):
        list(rate(league, [BOT], 50, SETTINGS))


def test_pairs_fight_side_by_side_and_no_fight_depends_on_the_others(league: League) -> None:
    schedule = {(NOOP, SCRIPTED): 3, (SCRIPTED, BOT): 4, (TWO_FRAMES, NOOP): 2, (NOOP, BOT): 1}
    short = FightSettings(max_episode_ticks=300)
    together = comparable(play_matches(league, schedule, 7, short))
    expected = [(NOOP, SCRIPTED), *[(SCRIPTED, NOOP)] * 2, *[(SCRIPTED, BOT)] * 4]
    expected += [(TWO_FRAMES, NOOP), (NOOP, TWO_FRAMES), (NOOP, BOT)]
    assert [(record.player_a, record.player_b) for record in together] == expected
    assert [record.seed for record in together] == list(range(7, 17))
    few = comparable(play_matches(league, schedule, 7, short, parallel_fights=3))
    assert few == together
    alone = comparable(play_matches(league, {(SCRIPTED, BOT): 2}, 7 + 3, SETTINGS, parallel_fights=1))
    assert alone == together[3:5]


@pytest.mark.usefixtures("one_worker")
def test_fights_in_several_processes_are_the_same(league: League, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = {(NOOP, SCRIPTED): 3, (SCRIPTED, BOT): 4, (TWO_FRAMES, ONE_FRAME): 8}
    short = FightSettings(max_episode_ticks=100)
    divided = play_matches(league, schedule, 7, short, jobs=2)
    assert comparable(divided) == comparable(play_matches(league, schedule, 7, short))
    assert league.log.records(counted_only=False) == divided, "logged in the order of the schedule, and once"
    # A worker that dies after some fights: they arrive twice, and count once. Interrupted: what was over is kept.
    stream = WorkerPool.stream

    def interrupted(pool: WorkerPool, function: Any, parts: Any) -> Iterator[Any]:
        items = [*stream(pool, function, parts)]
        yield from items[:5] + items[:9]
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerPool, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play_matches(league, {(SCRIPTED, BOT): 12}, 100, short, jobs=2)
    assert len(league.log) == 15 + 9


def test_processes_are_started_for_many_fights_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "num_cores", lambda: 4)
    found = [evaluation.num_processes(None, number, "sim") for number in (100, 1_999, 3_000, 100_000)]
    assert found == [1, 1, 3, 4]
    assert evaluation.num_processes(None, 100_000, "rsps://127.0.0.1:1") == 1
    assert evaluation.num_processes(3, 1, "rsps://127.0.0.1:1") == 3
    for count, parts in ((7, 3), (2, 3), (0, 2)):
        things = [*range(count)]
        divided = [things[each] for each in evaluation.shares(count, parts)]
        assert [thing for part in divided for thing in part] == things and all(divided)
        assert max(map(len, divided), default=0) <= -(-count // parts)


def test_rating_starts_processes_after_some_fights(league: League, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    class Pool:
        def __init__(self, size: int, kind: str) -> None:
            self.size = size
            sizes.append(size)

        def stream(self, function: Any, parts: Sequence[Any]) -> Iterator[Any]:
            assert len(parts) == self.size
            for part in parts:
                yield from function(*part)

        def close(self) -> None:
            sizes.append(0)

    monkeypatch.setattr(rating, "WorkerPool", Pool)
    monkeypatch.setattr(rating, "FIGHTS_PER_PROCESS", 64)
    monkeypatch.setattr(evaluation, "FIGHTS_PER_PROCESS", 64)
    monkeypatch.setattr(evaluation, "num_cores", lambda: 3)
    *_, last = rounds = list(rate(league, [SCRIPTED, BOT], 1, SETTINGS, fights_per_round=32, max_fights=160))
    assert [each.num_processes for each in rounds] == [1, 1, 2, 2, 2, 2]
    assert sizes == [2, 0], "one pool for all rounds, closed at the end"
    assert len(league.log) == 160 == last.num_fights
    assert [record.seed for record in league.log.records(counted_only=False)] == list(range(160))


def test_fights_that_are_over_are_kept_if_an_error_ends_the_others(
    league: League, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, ended = rating.play_fights, []

    def failing(*given: Any) -> Iterator[tuple[int, MatchRecord]]:
        for each in play(*given):
            ended.append(each)
            yield each
            if len(ended) == 3:
                raise ConnectionError("the server is gone")

    monkeypatch.setattr(rating, "play_fights", failing)
    with pytest.raises(ConnectionError):
        play_matches(league, {(SCRIPTED, BOT): 8}, 0, SETTINGS)
    assert len(league.log) == len(ended) == 3


@pytest.mark.slow
def test_matches_on_a_server(league: League) -> None:
    with world_server(SimWorld) as port:
        settings = FightSettings(world=f"rsps://127.0.0.1:{port}", max_episode_ticks=30)
        records = play_matches(league, {(TWO_FRAMES, SCRIPTED): 3, (SCRIPTED, BOT): 2}, 0, settings, parallel_fights=2)
        assert [(record.outcome, record.ticks) for record in records] == [("timeout", 30)] * 5
        assert logged_in(port) == []


@pytest.mark.slow
def test_a_finished_pair_does_not_stop_a_synchronous_world(league: League) -> None:
    with handler_server(SynchronousServer(LivingWorld).handle) as port:
        settings = FightSettings(world=f"rsps://127.0.0.1:{port}?reset_timeout=5&step_timeout=5")
        records = play_matches(league, {(NOOP, SCRIPTED): 4, (NOOP, BOT): 3}, 0, settings, parallel_fights=3)
        assert len(records) == 7 and all(record.counted for record in records)
        assert logged_in(port) == []
