"""Match makers of an arena: who meets whom in a round. Ratings and results in, pairs of players out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sb3_pvp.arena.challenge import Pairing
from sb3_pvp.arena.table import ArenaMatch
from sb3_pvp.players.league import MatchRecord, Payoff, Player, fit_bradley_terry, informative_pairs

Pair = tuple[Player, Player]


def pairs_of_round(
    players: Sequence[Player],
    ratings: Mapping[Player, float],
    matches: Sequence[ArenaMatch],
    records: Sequence[MatchRecord],
    pairing: Pairing,
    fights_per_match: int,
    rng: np.random.Generator,
) -> list[Pair]:
    """Returns the pairs of a round, with the match maker of a challenge.

    Args:
        players: who takes part.
        ratings: of all of them.
        matches, records: what was played so far.
        pairing: which match maker, and its settings.
        fights_per_match: of each pair.
        rng: of this round.
    """
    return _MAKERS[pairing.kind](sorted(players), ratings, matches, records, pairing, fights_per_match, rng)


def _nearest(players: Any, ratings: Any, matches: Any, records: Any, pairing: Any, fights: Any, rng: Any) -> list[Pair]:
    """Takes players from a queue in random order; each meets a random one of those with the nearest ratings.

    Everybody plays at most once, and with an odd number of players one waits for the next round.
    """
    queue, pairs = [players[number] for number in rng.permutation(len(players))], []
    while len(queue) > 1:
        player = queue.pop(0)
        near = sorted(queue, key=lambda other: (abs(ratings[other] - ratings[player]), other))[: pairing.nearest]
        opponent = near[rng.integers(len(near))]
        queue.remove(opponent)
        pairs.append((player, opponent))
    return pairs


def _round_robin(players: Any, *others: Any) -> list[Pair]:
    """Everybody meets everybody once."""
    return list(combinations(players, 2))


def _swiss(players: Any, ratings: Any, matches: Any, records: Any, pairing: Any, fights: Any, rng: Any) -> list[Pair]:
    """Neighbours by points meet, those first who have not met yet; with an odd number the last one waits."""
    points = dict.fromkeys(players, 0.0)
    met = {frozenset((match.player_a, match.player_b)) for match in matches}
    for match in matches:
        for player, score in ((match.player_a, match.score), (match.player_b, 1 - match.score)):
            if player in points:
                points[player] += score
    queue, pairs = sorted(players, key=lambda player: (-points[player], -ratings[player], player)), []
    while len(queue) > 1:
        player = queue.pop(0)
        opponent = next((other for other in queue if frozenset((player, other)) not in met), queue[0])
        queue.remove(opponent)
        pairs.append((player, opponent))
    return pairs


def _informative(
    players: Any, ratings: Any, matches: Any, records: Any, pairing: Any, fights: Any, rng: Any
) -> list[Pair]:
    """The pairs whose fights make the ratings most certain; the same pair may meet more than once in a round."""
    fit = fit_bradley_terry(Payoff(records), players)
    count = pairing.matches or max(len(players) // 2, 1)
    return informative_pairs(fit, players, pairing.half_width, count, fights)


_MAKERS: dict[str, Callable[..., list[Pair]]] = {
    "nearest": _nearest,
    "round_robin": _round_robin,
    "swiss": _swiss,
    "informative": _informative,
}
