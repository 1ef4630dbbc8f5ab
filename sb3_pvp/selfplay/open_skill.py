"""OpenSkill ratings (Weng and Lin's Bayesian approximation, by the package ``openskill``) beside Elo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from openskill.models import PlackettLuce

from sb3_pvp.selfplay.elo import shuffled
from sb3_pvp.selfplay.match_log import MatchRecord
from sb3_pvp.selfplay.players import Player, predecessor


class Skill(NamedTuple):
    """What is believed of a player: mean and standard deviation of his skill."""

    mu: float
    sigma: float

    @property
    def ordinal(self) -> float:
        """The skill that he has almost surely, ``mu - 3 * sigma``: what OpenSkill ranks by."""
        return self.mu - 3 * self.sigma


class OpenSkill:
    """Skills by the Plackett-Luce model with its usual settings, one fight after the other.

    A new snapshot of the learner starts at its predecessor's mean, but is as uncertain as everybody at first.

    Attributes:
        skills: of all players who have fought.
    """

    def __init__(self) -> None:
        self.skills: dict[Player, Skill] = {}
        self._model = PlackettLuce()

    def skill(self, player: Player) -> Skill:
        """What is believed; of an unknown player, what he would enter with."""
        if player in self.skills:
            return self.skills[player]
        before = predecessor(player, self.skills)
        fresh = Skill(self._model.mu, self._model.sigma)
        return fresh if before is None else Skill(self.skills[before].mu, fresh.sigma)

    def update(self, records: Iterable[MatchRecord]) -> None:
        """Rates the matches of one roll-out, which is what one `MatchLog.append` has added; in shuffled order."""
        matches = shuffled(records)
        for player in sorted({player for match in matches for player in (match.player_a, match.player_b)}):
            self.skills[player] = self.skill(player)
        for match in matches:
            players = (match.player_a, match.player_b)
            teams = [[self._model.rating(*self.skills[player])] for player in players]
            rated = self._model.rate(teams, ranks=[1 - match.score, match.score])
            for player, (rating,) in zip(players, rated, strict=True):
                self.skills[player] = Skill(rating.mu, rating.sigma)

    def get_state(self) -> dict[str, list[float]]:
        """All skills, as values that JSON can hold."""
        return {str(player): list(skill) for player, skill in self.skills.items()}

    def set_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """Goes on from `get_state`."""
        self.skills = {Player.parse(text): Skill(*map(float, skill)) for text, skill in state.items()}
