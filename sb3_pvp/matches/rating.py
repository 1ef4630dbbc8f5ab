"""Matches between the players of a league, for their ratings: opponents in both seats, no learner."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import orjson

from sb3_pvp.common.arguments import ABOVE_0, POSITIVE
from sb3_pvp.common.errors import require_known
from sb3_pvp.common.stop_signals import uninterrupted
from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, Game, find_game, game_reference
from sb3_pvp.matches.evaluation import FIGHTS_PER_PROCESS, num_processes, shares
from sb3_pvp.matches.play import PARALLEL, PlannedFight, play_fights
from sb3_pvp.players.league import League, MatchRecord, Payoff, Player, informative_pairs
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice, opponent_name, opponent_names
from sb3_pvp.policies.files.model_files import game_of, load, named_game
from sb3_pvp.policies.files.shipped import shipped_file

FIGHTS_PER_PAIR = 16  #: Fights of a pair that `rate` chooses.
ONE_SIDED = 200  #: After this many wins, or losses, without exception, a player is out of reach of its partners.
_PLAIN = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS

Pair = tuple[Player, Player]


def match_settings(
    league: League, world: str, game: str | None = None, reset_params: Mapping[str, Any] | None = None
) -> FightSettings:
    """Returns settings for matches of a league, by default those of its training (`ValueError` for wrong ones).

    If the league does not record these, the game is that of its newest model.
    """
    kept, models = league.fights, league.players()
    if game is None and kept:
        played = named_game(kept["game"])
    elif game is None and models:
        played = game_of(load(league.path(models[-1])))
    else:
        played = find_game(game or HOME_GAME)
    # Reset parameters of another game mean nothing here.
    if kept and reset_params is None and kept["game"] in (played.name, game_reference(played)):
        reset_params = kept["reset_params"]
    return FightSettings(game=played, world=world, reset_params=reset_params)


def check_players(league: League, players: Collection[Player], game: Game | None = None) -> None:
    """Raises `ValueError` unless each player has a model in the league, or is a bot, script or fighter that ships."""
    for player in players:
        opponent = league.opponent(player)
        if opponent != str(player):
            opponent_name(opponent)  # raises for parameters of a search that make no sense
            continue
        if player.step is not None:
            if shipped_file(str(player)) is not None:  # a version of it
                continue
            raise ValueError(f"{player} has no model in {league.folder}: there is no file {league.path(player)}")
        if game is not None and player.name in game.scripts:
            continue
        require_known("player", player.name, [*map(str, league.players()), *opponent_names(game=game)])


def play_matches(
    league: League,
    schedule: Mapping[Pair, int],
    seed: int,
    settings: FightSettings,
    parallel_fights: int = PARALLEL,
    jobs: int | None = None,
    advance: Callable[[int], object] = lambda fights: None,
    pool: WorkerPool | None = None,
) -> list[MatchRecord]:
    """Plays the fights of a schedule in parallel, and appends the matches to the league's log, unless it has them.

    Both sides sample their actions. A player has each seat in half of a pair's fights, but the world's own bot can
    only have the second seat. If an error interrupts this, the fights that were over are in the log. Raises
    `ValueError` for unknown players and impossible pairs, before the first fight.

    Args:
        schedule: the number of fights of each pair.
        seed: the n-th fight has the seed ``seed + n``.
        settings: those of the fights; those of a learner, such as ``rewards``, are ignored.
        parallel_fights: at the same time, in each process.
        jobs: processes that divide the fights, which changes no result; for ``None`` see `num_processes`.
        advance: called with 1 after each fight.
        pool: processes that run already, instead of ``jobs`` new ones.
    """
    POSITIVE.check(parallel_fights=parallel_fights)
    planned = [fight for pair, count in schedule.items() for fight in _plan_fights(league, pair, count, settings.game)]
    choices = {player: OpponentChoice(league.opponent(player)) for pair in planned for player in pair}
    series, records = _series(settings), dict[int, MatchRecord]()

    def play(part: slice) -> Iterator[tuple[int, MatchRecord]]:  # in a worker, to which it is pickled by value
        fights = {n: PlannedFight(pair, seed + n) for n, pair in enumerate(planned[part], part.start)}
        for number, fight in play_fights(fights, choices, settings, parallel_fights):
            a, b = planned[number]
            key = f"match/{series}/{a}/{b}/{seed + number}"
            yield number, MatchRecord.of(a, b, fight.outcome, fight.ticks, key, seed + number, fight.build)

    with ExitStack() as stack:
        if pool is None and (processes := num_processes(jobs, len(planned), settings.world)) > 1:
            pool = stack.enter_context(closing(WorkerPool(processes, "commands")))
        # Fights of a pair stay together: a process then has fewer models to run, in larger batches.
        parts = shares(len(planned), pool.size if pool else 1)
        try:
            for number, record in pool.stream(play, [(part,) for part in parts]) if pool else play(parts[0]):
                advance(number not in records)  # fights of a worker that has died come again
                records[number] = record
        finally:  # in the order of the schedule, so that the log does not depend on which fights were shorter
            in_order = [records[number] for number in sorted(records)]
            with uninterrupted():
                league.log.append(in_order)
    return in_order


@dataclass(frozen=True)
class Progress:
    """The progress of `rate`."""

    half_widths: dict[Player, float]  #: Half the width of each candidate's 95 % interval, Elo points.
    out_of_reach: tuple[Player, ...]  #: Uncertain candidates whose rating more fights would hardly improve.
    num_fights: int  #: Played so far.
    num_processes: int = 1  #: In which the next fights are played.


def rate(
    league: League,
    candidates: Collection[Player],
    half_width: float,
    settings: FightSettings,
    fights_per_round: int = 256,
    max_fights: int = 20_000,
    seed: int = 0,
    jobs: int | None = None,
) -> Iterator[Progress]:
    """Plays the most informative pairs until the ratings are certain; yields its progress before each round.

    Candidates that have won, or lost, `ONE_SIDED` fights without exception are out of reach and do not keep this from
    ending. Pairs whose fights do not count, such as two players that never attack first, are not chosen again. Raises
    `ValueError` for unknown players, or less than two, before the first fight.

    Args:
        league: the matches are appended to its log; its anchors have fixed ratings.
        half_width: Elo points; done when each 95 % interval is at most this wide on either side.
        settings, jobs: see `play_matches`; without ``jobs``, processes start when `FIGHTS_PER_PROCESS` fights are over.
        fights_per_round: the ratings are fitted again after this many fights.
        seed: fights have seeds from this one plus the number of matches in the log: a rating that was killed goes on.
    """
    ABOVE_0.check(half_width=half_width)
    POSITIVE.check(fights_per_round=fights_per_round, max_fights=max_fights)
    players = tuple(sorted(set(candidates)))
    check_players(league, players, settings.game)
    if len(players) < 2:
        raise ValueError("rating needs at least two players, such as two models, or a model and the baseline")
    seed, payoff, num_fights, pool = seed + len(league.log), Payoff(), 0, None
    fruitless: set[Pair] = set()
    with ExitStack() as stack:
        while True:
            fit = league.ratings().bradley_terry(players)
            widths = dict(zip(fit.players, fit.half_widths.tolist(), strict=True))
            uncertain = [player for player in players if widths[player] > half_width]
            totals = ((player, payoff.total(player)) for player in uncertain)
            out_of_reach = tuple(each for each, own in totals if max(own.wins, own.losses) == own.games >= ONE_SIDED)
            # Nobody knows how many fights it takes: so at worst, starting processes takes as long as the fights before.
            worth_it = max_fights if num_fights >= FIGHTS_PER_PROCESS else 0
            processes = num_processes(jobs, worth_it, settings.world)
            yield Progress({player: widths[player] for player in players}, out_of_reach, num_fights, processes)
            measurable = [player for player in players if player not in out_of_reach]
            left = min(fights_per_round, max_fights - num_fights)
            num_pairs = -(-left // FIGHTS_PER_PAIR)  # rounded up
            chosen = informative_pairs(fit, measurable, half_width, num_pairs, FIGHTS_PER_PAIR, fruitless)
            pairs = Counter([pair for pair in chosen for _ in range(FIGHTS_PER_PAIR)][:left])
            if not pairs:  # all are certain or out of reach, or `max_fights` is reached
                return
            if pool is None and processes > 1:
                pool = stack.enter_context(closing(WorkerPool(processes, "commands")))
            records = play_matches(league, pairs, seed + num_fights, settings, jobs=1, pool=pool)
            counted = {frozenset((record.player_a, record.player_b)) for record in records if record.counted}
            fruitless |= {pair for pair in pairs if frozenset(pair) not in counted}
            payoff.update(records)
            num_fights += pairs.total()


def _plan_fights(league: League, pair: Pair, num_fights: int, game: Game) -> list[Pair]:
    """Returns the fights of a pair, each as the players of the first and the second seat."""
    check_players(league, pair, game)
    POSITIVE.read(f"the number of fights of {pair[0]} against {pair[1]}", num_fights)
    a, b = pair
    seatings = [(first, second) for first, second in ((a, b), (b, a)) if league.opponent(first) != WORLD_BOT]
    if a == b or not seatings:
        raise ValueError(f"{a} cannot fight {b}: a match needs two players that differ, at least one of them an agent")
    # Of an odd number of fights, the last seating gets one more.
    return [seating for number, seating in enumerate(seatings) for _ in range((num_fights + number) // len(seatings))]


def _series(settings: FightSettings) -> str:
    """Returns how the keys of matches begin: the same for fights that players and seeds would repeat exactly."""
    if settings.world != "sim":  # no fight on a server is the same as another
        return uuid.uuid4().hex
    rules = settings.death_match, settings.max_episode_ticks, game_reference(settings.game), settings.reset_params
    text = orjson.dumps(rules, default=repr, option=_PLAIN)
    return hashlib.blake2b(text, digest_size=8).hexdigest()
