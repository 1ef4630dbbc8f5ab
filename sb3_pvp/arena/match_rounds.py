"""Rounds: pairs are planned in the store, claimed from it, played, and kept in the log; nothing is lost or twice."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sb3_pvp.arena.challenge import SCRIPT, Challenge
from sb3_pvp.arena.pairing import Field, pairs_of_round
from sb3_pvp.arena.playing import FightResult, MatchFight, Players, Workers, forfeit
from sb3_pvp.arena.store import GONE, Entrant, QueuedMatch, Store
from sb3_pvp.arena.table import matches_of, rated
from sb3_pvp.game import as_other_sees
from sb3_pvp.players.league import MatchLog, MatchRecord, Player
from sb3_pvp.players.league.match_records import MatchDetails
from sb3_pvp.players.opponents import WORLD_BOT

TICK_LIMIT = "tick limit"  #: The cause of a tie of two players that do not finish their fight.
_RENEW = 60.0  # seconds between two signs of life
Results = list[tuple[MatchFight, FightResult]]


@dataclass
class RoundSummary:
    """What a round brought."""

    number: int
    matches: int = 0  #: Played here.
    fights: int = 0
    faults: int = 0  #: Matches that were lost by a fault.
    failed: int = 0  #: Matches that could not be played.
    is_over: bool = False  #: Whether all of its matches are over, also those that others play.


def plan_round(challenge: Challenge, store: Store, log: MatchLog) -> int:
    """Returns the number of the open round, planned now if there is none; `ValueError` for less than two players."""
    if (number := store.open_round()) is not None:
        return number
    players = sorted(Player.parse(each.name) for each in store.players("active"))
    if len(players) < 2:
        raise ValueError(f"a round needs two players, the arena has {len(players)}: add some with sb3-pvp arena add")
    records = log.records(detailed=True)
    matches = matches_of(records)
    newest = max((match.round for match in matches), default=0)
    ratings = rated(matches, records, challenge.rating, challenge.fixed)
    ratings = {player: ratings.get(player, challenge.rating.initial) for player in players}
    rng = np.random.default_rng(_seed(challenge, newest + 1, "pairs"))
    known = Field(players, ratings, matches, records, challenge.fights_per_match)
    pairs = pairs_of_round(known, challenge.pairing, rng)
    planned = [(str(a), str(b), _seed(challenge, newest + 1, n)) for n, (a, b) in enumerate(pairs)]
    return store.plan(newest, planned)


def _seed(challenge: Challenge, number: int, what: object) -> int:
    """Returns a seed that no other match of the challenge has, but for chance."""
    text = f"{challenge.name}/{challenge.season.name}/{number}/{what}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest())


def play_round(
    challenge: Challenge,
    store: Store,
    log: MatchLog,
    workers: Workers,
    advance: Callable[[int], object] = lambda matches: None,
) -> RoundSummary:
    """Plays what is left of the open round, or a new one; ``advance`` is called with 1 after each match.

    Matches that another arena on the same store plays are left to it. If this process is killed, the next call goes on.
    """
    number = plan_round(challenge, store, log)
    summary = RoundSummary(number)
    at_once = max(4 * workers.size, 2048 // challenge.fights_per_match)
    try:
        while claimed := store.claim(at_once):
            known = log.known([_fight_key(match.key, 0) for match in claimed])
            store.done([match.key for match in claimed if _fight_key(match.key, 0) in known])
            left = [match for match in claimed if _fight_key(match.key, 0) not in known]
            for match, records in play_matches(challenge, store, workers, left):
                if isinstance(records, str):
                    store.failed(match.key, records)
                    summary.failed += 1
                else:
                    log.append(records)
                    store.done([match.key])
                    summary.matches += 1
                    summary.fights += len(records)
                    summary.faults += any(each.details and each.details.at_fault for each in records)
                advance(1)
    finally:
        store.release()  # after an error or Ctrl-C
    summary.is_over = store.close_round(number)
    return summary


def play_matches(
    challenge: Challenge, store: Store, workers: Workers, matches: Sequence[QueuedMatch]
) -> Iterator[tuple[QueuedMatch, list[MatchRecord] | str]]:
    """Plays matches; yields each with the records of its fights, or why it could not be played."""
    entrants = {each.name: each for each in store.players()}
    players, lost = files_of(store, entrants, {name for each in matches for name in (each.player_a, each.player_b)})
    by_key = {match.key: match for match in matches}
    fights = []
    for match in matches:
        planned = _fights(match, challenge.fights_per_match, entrants)
        if lost.keys() & {match.player_a, match.player_b}:
            results = [(fight, forfeit([lost.get(fight.first), lost.get(fight.second)])) for fight in planned]
            yield match, _records(challenge, match, entrants, results)
        else:
            fights += planned
    over, renewed = defaultdict[str, Results](list), time.monotonic()
    failed = set[str]()
    for fight, result in workers.play(players, fights):
        match = by_key[fight.match]
        if isinstance(result, str):
            if match.key not in failed:
                failed.add(match.key)
                yield match, result
            continue
        over[match.key].append((fight, result))
        if len(over[match.key]) == challenge.fights_per_match:
            yield match, _records(challenge, match, entrants, over.pop(match.key))
        if time.monotonic() - renewed > _RENEW:
            store.still_here()
            renewed = time.monotonic()


def files_of(store: Store, entrants: dict[str, Entrant], names: set[str]) -> tuple[Players, dict[str, str]]:
    """Returns what sandboxes need of these players, and why some cannot play: their file has changed or is gone."""
    players, lost = dict[str, tuple[str, str, tuple[str, bytes] | None]](), dict[str, str]()
    for name in names:
        entrant, file = entrants[name], None
        if entrant.kind != SCRIPT:
            try:
                file = (entrant.opponent, store.file(entrant.version))
            except ValueError as error:
                lost[name] = str(error)
                store.set_state(name, GONE, str(error))
                continue
        players[name] = (entrant.kind, entrant.opponent, file)
    return players, lost


def _fights(match: QueuedMatch, count: int, entrants: dict[str, Entrant]) -> list[MatchFight]:
    """Returns the fights of a match: pairs with the same seed, in which the players swap seats."""
    a, b = match.player_a, match.player_b
    bots = [entrants[name].opponent == WORLD_BOT for name in (a, b)]
    if any(bots):  # the world's own bot only sits in the second seat
        first, second = (b, a) if bots[0] else (a, b)
        return [MatchFight(match.key, n, first, second, match.seed + n) for n in range(count)]
    seats = ((a, b), (b, a))
    return [MatchFight(match.key, n, *seats[n % 2], match.seed + n // 2) for n in range(count)]


def _records(
    challenge: Challenge,
    match: QueuedMatch,
    entrants: dict[str, Entrant],
    results: Sequence[tuple[MatchFight, FightResult]],
) -> list[MatchRecord]:
    """Returns the records of the fights of a match: a player that is at fault in one of them has lost them all."""
    a, b = match.player_a, match.player_b
    causes = dict[str, str]()
    for fight, result in results:
        for name, cause in zip((fight.first, fight.second), result.faults, strict=True):
            if cause is not None:
                causes.setdefault(name, cause)
    records = []
    for fight, result in sorted(results, key=lambda each: each[0].number):
        seat = 0 if fight.first == a else 1
        outcome = result.outcome if seat == 0 else as_other_sees(result.outcome)
        own = {name: cause for name, cause in zip((fight.first, fight.second), result.faults, strict=True) if cause}
        cause, at_fault = None, None
        if outcome == "timeout":
            outcome, cause = "tied", TICK_LIMIT
        if causes:
            at_fault = None if len(causes) > 1 else next(iter(causes))
            outcome = "tied" if at_fault is None else "lost" if at_fault == a else "won"
            cause = "; ".join(own.values()) or f"the match is lost: {'; '.join(causes.values())}"
        times = result.times if seat == 0 else result.times[::-1]
        versions = entrants[a].version, entrants[b].version
        about = match.key, match.round, challenge.rules_hash, seat, cause, at_fault
        details = MatchDetails(*about, *versions, times[0], times[1], result.digest, result.actions)
        players = Player.parse(a), Player.parse(b)
        record = MatchRecord.of(
            *players, outcome, result.ticks, _fight_key(match.key, fight.number), fight.seed, result.build
        )
        records.append(replace(record, details=details))
    return records


def _fight_key(match: str, number: int) -> str:
    return f"{match}/fight-{number}"
