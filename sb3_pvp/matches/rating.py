"""Matches between the players of a league: opponents in both seats, for ratings and not for learning."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import ABOVE_0, POSITIVE
from sb3_pvp.common.names import require_known
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import NUM_SEATS, Game, Grouped, Leavable, Outcome, World
from sb3_pvp.opponents.opponents import WORLD_BOT, OpponentChoice, known_opponents
from sb3_pvp.opponents.pool import OpponentPool
from sb3_pvp.selfplay import League, MatchRecord, Payoff, Player, informative_pairs

FIGHTS_OF_A_CHOICE = 16  #: `rate` chooses pairs for so many fights at a time.
PARALLEL = 128  #: Fights side by side.
ONE_SIDED = 200  #: Who has won, or lost, so many without exception cannot be measured with these partners.
_FIRST_SEAT = 1 << 32  #: Lies between the seeds of opponents in the second seat and in the first one.
_NOBODY = OpponentChoice(WORLD_BOT)  #: In a pool: somebody whom nobody asks.

Pair = tuple[Player, Player]


def check_players(league: League, players: Collection[Player], game: Game | None = None) -> None:
    """Raises `ValueError` unless each of them has a model in the league, or is a bot or script of that name."""
    for player in players:
        if league.path(player).is_file():
            continue
        if player.step is not None:
            raise ValueError(f"{player} has no model in {league.folder}: its file would be {league.path(player)}")
        require_known("player", player.name, [*map(str, league.players()), *known_opponents(game=game)])


def play_matches(
    league: League, schedule: Mapping[Pair, int], seed: int, settings: FightSettings, parallel_fights: int = PARALLEL
) -> list[MatchRecord]:
    """Lets pairs of players fight so many times, all side by side, and adds the matches to the league's log.

    The settings say what is fought, where and how; those of learners do not count, such as ``rewards``. Actions are
    sampled on either side. Half of a pair's fights are in either seat; the world's own bot can only sit in the second
    one. The n-th fight has the seed ``seed + n``. If an error ends this, the fights that were over are in the log.

    Raises `ValueError` for unknown players, and pairs that cannot fight each other; nothing was played then.
    """
    POSITIVE.check(parallel_fights=parallel_fights)
    planned = [fight for pair, count in schedule.items() for fight in _seated(league, pair, count, settings.game)]
    records: dict[int, MatchRecord] = {}
    try:
        for number, record in _play(league, planned, seed, settings, parallel_fights):
            records[number] = record
    finally:
        in_order = [records[number] for number in sorted(records)]
        league.log.append(in_order)
    return in_order


@dataclass(frozen=True)
class Progress:
    """How far `rate` has come."""

    half_widths: dict[Player, float]  #: Half of the 95 % interval of each candidate, Elo points.
    out_of_reach: tuple[Player, ...]  #: Uncertain candidates of whom more fights would tell next to nothing.
    num_fights: int  #: Fought so far.


def rate(
    league: League,
    candidates: Collection[Player],
    half_width: float,
    settings: FightSettings,
    fights_per_round: int = 256,
    max_fights: int = 20_000,
    seed: int = 0,
) -> Iterator[Progress]:
    """Lets the most informative pairs fight until every candidate is known well enough; yields before each round.

    Nobody waits for those who are out of reach: who has won, or lost, `ONE_SIDED` fights without exception against
    partners who were chosen for being near. Pairs whose fights do not count, as of two who never attack first, are
    left alone.

    Args:
        league: gets the matches into its log; its anchors are the fixed points.
        half_width: Elo points; done when no 95 % interval is wider than this on either side.
        settings: where and how, see `play_matches`.
        fights_per_round: the ratings are fitted anew after so many fights.

    Raises `ValueError` for unknown players, or fewer than two; nothing was played then.
    """
    ABOVE_0.check(half_width=half_width)
    POSITIVE.check(fights_per_round=fights_per_round, max_fights=max_fights)
    players = tuple(sorted(set(candidates)))
    check_players(league, players, settings.game)
    if len(players) < 2:
        raise ValueError("rating needs two players at least, such as two models, or a model and the baseline")
    fought, num_fights = Payoff(), 0
    fruitless: set[Pair] = set()
    while True:
        fit = league.ratings().bradley_terry(players)
        widths = dict(zip(fit.players, fit.half_widths.tolist(), strict=True))
        uncertain = [player for player in players if widths[player] > half_width]
        totals = ((player, fought.total(player)) for player in uncertain)
        out_of_reach = tuple(player for player, own in totals if max(own.wins, own.losses) == own.games >= ONE_SIDED)
        yield Progress({player: widths[player] for player in players}, out_of_reach, num_fights)
        measurable = [player for player in players if player not in out_of_reach]
        left = max(min(fights_per_round, max_fights - num_fights), 0)
        choices = -(-left // FIGHTS_OF_A_CHOICE)
        chosen = informative_pairs(fit, measurable, half_width, choices, FIGHTS_OF_A_CHOICE, fruitless)
        pairs = Counter([pair for pair in chosen for _ in range(FIGHTS_OF_A_CHOICE)][:left])
        if not pairs:
            return
        records = play_matches(league, pairs, seed + num_fights, settings)
        counted = {frozenset((record.player_a, record.player_b)) for record in records if record.counted}
        fruitless |= {pair for pair in pairs if frozenset(pair) not in counted}
        fought.update(records)
        num_fights += pairs.total()


def _seated(league: League, pair: Pair, num_fights: int, game: Game) -> list[Pair]:
    """The fights of a pair, whoever has the first seat in front."""
    check_players(league, pair, game)
    POSITIVE.read(f"how often {pair[0]} fights {pair[1]}", num_fights)
    a, b = pair
    seatings = [(first, second) for first, second in ((a, b), (b, a)) if league.opponent(first) != WORLD_BOT]
    if a == b or not seatings:
        raise ValueError(f"{a} cannot fight {b}: a match needs two players, of whom one at least is an agent")
    return [seating for number, seating in enumerate(seatings) for _ in range((num_fights + number) // len(seatings))]


def _play(
    league: League, planned: Sequence[Pair], seed: int, settings: FightSettings, parallel_fights: int
) -> Iterator[tuple[int, MatchRecord]]:
    """The number and the record of each planned fight, as they end.

    Which row plays what is settled before: if whoever is free took the next fight, short ones would prevail among
    those that are over.
    """
    count, series = min(len(planned), parallel_fights), uuid.uuid4().hex
    choices = {player: OpponentChoice(league.opponent(player)) for pair in planned for player in pair}
    rules = {} if settings.death_match else {"death_match": False}
    with closing(settings.make_world(count)) as world:
        pools = [OpponentPool(world, _NOBODY, settings.game, seat) for seat in range(NUM_SEATS)]
        actions = np.zeros((count, NUM_SEATS, world.contract.num_heads), np.int64)
        numbers, ticks, ended = np.arange(-count, 0), np.zeros(count, np.int64), np.arange(count)
        while True:
            numbers[ended] += count
            ticks[ended] = 0
            if ended.size:
                seated = {
                    row: [choices[player] for player in planned[numbers[row]]]
                    for row in ended.tolist()
                    if numbers[row] < len(planned)
                }
                _begin(world, pools, ended, seated, [seed + number for number in numbers.tolist()], rules)
            playing = np.flatnonzero(numbers < len(planned))
            if not playing.size:
                return
            actions[:] = 0
            for pool in pools:
                pool.act(actions)
            world.step(actions[playing], playing)
            for pool in pools:
                pool.advance()
            ticks[playing] += 1
            over = (world.outcome[:, 0] != int(Outcome.RUNNING)) | (ticks >= (settings.max_episode_ticks or np.inf))
            ended = playing[over[playing]]
            for row in ended.tolist():
                number, outcome = int(numbers[row]), Outcome(int(world.outcome[row, 0]))
                (a, b), key = planned[number], f"match/{series}/{number}"
                word = "timeout" if outcome == Outcome.RUNNING else outcome.name.lower()
                build = world.build_name(row) if isinstance(world, Grouped) else None
                yield number, MatchRecord.of(a, b, word, int(ticks[row]), key, seed + number, build)


def _begin(
    world: World,
    pools: Sequence[OpponentPool],
    rows: NDArray[np.int64],
    seated: Mapping[int, Sequence[OpponentChoice]],
    seeds: Sequence[int],
    rules: Mapping[str, bool],
) -> None:
    """Fights begin in the rows where somebody is seated; in the others nobody plays any more."""
    done = np.setdiff1d(rows, list(seated))
    if done.size and isinstance(world, Leavable):
        world.leave(done)
    if seated:
        bots = {row: (None, WORLD_BOT if second.opponent == WORLD_BOT else None) for row, (_, second) in seated.items()}
        world.reset(np.array(list(seated)), [{"bots": bots[row], **rules, "seed": seeds[row]} for row in seated])
    for seat, (pool, stream) in enumerate(zip(pools, (_FIRST_SEAT, 0), strict=True)):
        for row in rows.tolist():
            pool.choose(row, seated[row][seat] if row in seated else _NOBODY)
        pool.begin(rows, [seeds[row] + stream if row in seated else None for row in rows.tolist()])
