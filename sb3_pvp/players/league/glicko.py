"""Glicko-2 (Glickman, 2012): ratings of players who change and pause, each with how certain it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from math import exp, log, pi, sqrt
from typing import NamedTuple

_SCALE = 400 / log(10)  #: Points of one unit of the formulas; 400 points are odds of ten to one, as in Elo.
_TAU = 0.5  #: How fast volatilities change; Glickman advises 0.3 to 1.2.
_PRECISE = 1e-6  #: Of the logarithm of a volatility's square.


class Glicko(NamedTuple):
    """Glicko-2's belief about a player; the defaults are those of a new one."""

    rating: float = 1500.0  #: Mean of the strength, on the scale of Elo.
    deviation: float = 350.0  #: Its standard deviation.
    volatility: float = 0.06  #: How erratic the results are.


def after_rest(own: Glicko, periods: float) -> Glicko:
    """Returns what is known of a player after some rating periods without a game, at worst as little as of a new one.

    ``periods`` need not be whole.
    """
    deviation = sqrt(own.deviation**2 + periods * (own.volatility * _SCALE) ** 2)
    return own._replace(deviation=min(deviation, Glicko().deviation))


def after_games(own: Glicko, games: Sequence[tuple[Glicko, float]], periods: float = 1.0) -> Glicko:
    """Returns a player's rating after a rating period.

    Args:
        own: the rating before.
        games: the opponents' ratings before, and the player's scores from 0 to 1; at least one.
        periods: that have passed since the player's last games; 1 is Glickman's formula, and 0 adds no uncertainty.
    """
    precision, surprise = 0.0, 0.0
    for other, score in games:
        weight = 1 / sqrt(1 + 3 * (other.deviation / _SCALE / pi) ** 2)
        lead = weight * (own.rating - other.rating) / _SCALE
        precision += weight**2 * _expected(lead) * _expected(-lead)
        surprise += weight * (score - _expected(lead))
    volatility = _volatility(own, 1 / precision, surprise / precision)
    rested = after_rest(own._replace(volatility=volatility), periods)
    variance = 1 / ((_SCALE / rested.deviation) ** 2 + precision)
    return Glicko(own.rating + _SCALE * variance * surprise, _SCALE * sqrt(variance), volatility)


class GlickoLadder:
    """Ratings of players who are better or worse some day, by their games against opponents that never change.

    Each game is a rating period of both. An opponent is rated by these games alone.

    Args:
        period: length of a rating period in which a player rests, in the units in which times are given.

    Attributes:
        results: of each player: how many games had which score.
        last: of each player: when its last game was.
    """

    def __init__(self, period: float) -> None:
        self._period, self._ratings = period, defaultdict[Hashable, Glicko](Glicko)
        self.results = defaultdict[str, Counter[float]](Counter)
        self.last = dict[str, float]()

    def add(self, player: str, opponent: Hashable, score: float, at: float) -> None:
        """Rates a game that was at this time; ``score`` is the player's, from 0 to 1."""
        own, other = self._ratings["player", player], self._ratings["opponent", opponent]
        periods = max(at - self.last.get(player, at), 0.0) / self._period
        self._ratings["player", player] = after_games(own, [(other, score)], periods)
        self._ratings["opponent", opponent] = after_games(other, [(after_rest(own, periods), 1 - score)], 0)
        self.results[player][score] += 1
        self.last[player] = at

    def rating(self, player: str, now: float) -> Glicko:
        """Returns what is known at this time of a player with games."""
        return after_rest(self._ratings["player", player], max(now - self.last[player], 0.0) / self._period)


def _expected(lead: float) -> float:
    """Returns the expected score; it does not overflow for any lead, nor does that of ``-lead`` vanish."""
    return 1 / (1 + exp(-lead)) if lead >= 0 else exp(lead) / (1 + exp(lead))


def _volatility(own: Glicko, variance: float, change: float) -> float:
    """Returns the new volatility: the root of Glickman's function (step 5), by the Illinois method."""
    spread, start = (own.deviation / _SCALE) ** 2 + variance, log(own.volatility**2)

    def slope(x: float) -> float:
        return exp(x) * (change**2 - spread - exp(x)) / (2 * (spread + exp(x)) ** 2) - (x - start) / _TAU**2

    low, high = start, log(change**2 - spread) if change**2 > spread else start - _TAU
    while high < start and slope(high) < 0:
        high -= _TAU
    at_low, at_high = slope(low), slope(high)
    while abs(high - low) > _PRECISE:
        middle = low + (low - high) * at_low / (at_high - at_low)
        at_middle = slope(middle)
        if at_middle * at_high <= 0:
            low, at_low = high, at_high
        else:
            at_low /= 2
        high, at_high = middle, at_middle
    return exp(low / 2)
