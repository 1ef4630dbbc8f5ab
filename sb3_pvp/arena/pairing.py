"""Match makers of an arena: who meets whom in a round. Ratings and results in, pairs of players out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sb3_pvp.arena.challenge import Pairing
from sb3_pvp.arena.table import ArenaMatch
from sb3_pvp.players.league import MatchRecord, Payoff, Player, fit_bradley_terry, informative_pairs

Pair = tuple[Player, Player]


@dataclass(frozen=True)
class Field:
    """What a match maker knows."""

    players: Sequence[Player]  #: Who takes part, sorted.
    ratings: Mapping[Player, float]  #: Of all of them.
    matches: Sequence[ArenaMatch]  #: So far.
    records: Sequence[MatchRecord]  #: The fights of these.
    fights_per_match: int


def pairs_of_round(field: Field, pairing: Pairing, rng: np.random.Generator) -> list[Pair]:
    """Returns the pairs of a round, by the match maker of a challenge; ``rng`` is that of this round."""
    return _MAKERS[pairing.kind](field, pairing, rng)


def _nearest(field: Field, pairing: Pairing, rng: np.random.Generator) -> list[Pair]:
    """Takes players from a queue in random order; each meets a random one of those with the nearest ratings.

    Everybody plays at most once, and with an odd number of players one waits for the next round.
    """
    queue, pairs = [field.players[number] for number in rng.permutation(len(field.players))], []
    while len(queue) > 1:
        player = queue.pop(0)
        own = field.ratings[player]
        near = sorted(queue, key=lambda other: (abs(field.ratings[other] - own), other))[: pairing.nearest]
        opponent = near[rng.integers(len(near))]
        queue.remove(opponent)
        pairs.append((player, opponent))
    return pairs


def _round_robin(field: Field, pairing: Pairing, rng: np.random.Generator) -> list[Pair]:
    """Everybody meets everybody once."""
    return list(combinations(field.players, 2))


def _swiss(field: Field, pairing: Pairing, rng: np.random.Generator) -> list[Pair]:
    """Neighbours by points meet, those first who have not met yet; with an odd number the last one waits."""
    points = dict.fromkeys(field.players, 0.0)
    met = {frozenset((match.player_a, match.player_b)) for match in field.matches}
    for match in field.matches:
        for player, score in ((match.player_a, match.score), (match.player_b, 1 - match.score)):
            if player in points:
                points[player] += score
    queue, pairs = sorted(field.players, key=lambda player: (-points[player], -field.ratings[player], player)), []
    while len(queue) > 1:
        player = queue.pop(0)
        opponent = next((other for other in queue if frozenset((player, other)) not in met), queue[0])
        queue.remove(opponent)
        pairs.append((player, opponent))
    return pairs


def _informative(field: Field, pairing: Pairing, rng: np.random.Generator) -> list[Pair]:
    """The pairs whose fights make the ratings most certain; the same pair may meet more than once in a round."""
    fit, count = fit_bradley_terry(Payoff(field.records), field.players), pairing.matches or len(field.players) // 2
    return informative_pairs(fit, field.players, pairing.half_width, count, field.fights_per_match)


_MAKERS: dict[str, Callable[[Field, Pairing, np.random.Generator], list[Pair]]] = {
    "nearest": _nearest,
    "round_robin": _round_robin,
    "swiss": _swiss,
    "informative": _informative,
}
