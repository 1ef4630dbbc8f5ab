"""Logs Elo and OpenSkill ratings after every rollout (self-play.md §6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import OptionalPath, checked
from sb3_pvp.players.opponents import SELF_PLAY

METRICS = {
    "rollout/elo/latest": "Elo rating of the learner.",
    "rollout/elo/average-match": "Mean Elo rating of the opponents met in this rollout, as rated before it.",
    "rollout/elo/{player}": "Elo rating of a player that is not a snapshot, such as `baseline`.",
    "rollout/open_skill/mu": "OpenSkill rating of the learner (mean).",
    "rollout/open_skill/sigma": "Uncertainty of this rating (standard deviation).",
}


class EloCallback(base.PvpCallback):
    """Logs the ratings of the learner and its opponents, from the matches that a `LeagueCallback` records.

    List the `LeagueCallback` before this callback, so that the matches of a rollout are recorded when it is rated.

    Args:
        directory: of the league; default: ``league`` in the run folder.
    """

    @checked
    def __init__(self, directory: OptionalPath = None, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._directory = directory

    def _init_callback(self) -> None:
        self._league = base.shared_league(self.model, self._directory)
        if self._league not in base.RECORDED_LEAGUES:
            raise ValueError(
                f"no callback records the matches of {self._league.folder}: list LeagueCallback before EloCallback"
            )

    def _on_rollout_start(self) -> None:
        self._learner = base.learner(self.model)
        self._elo_before = dict(self._league.ratings().elo.ratings)
        self._opponents: list[str] = []

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        if info["opponent"] != SELF_PLAY:
            self._opponents.append(str(info["opponent"]))

    def _on_rollout_end(self) -> None:
        ratings = self._league.ratings()
        self.logger.record("rollout/elo/latest", ratings.elo.rating(self._learner))
        if self._opponents:
            met = map(base.player_of_opponent, self._opponents)
            # A player that was first met in this rollout had no rating before it.
            before = [self._elo_before.get(player, ratings.elo.rating(player)) for player in met]
            self.logger.record("rollout/elo/average-match", float(np.mean(before)))
        for player, rating in ratings.elo.ratings.items():
            if player.step is None:  # snapshots would add a tag each
                self.logger.record(f"rollout/elo/{player}", rating, exclude="stdout")
        skill = ratings.open_skill.rating(self._learner)
        self.logger.record("rollout/open_skill/mu", skill.mu, exclude="stdout")
        self.logger.record("rollout/open_skill/sigma", skill.sigma, exclude="stdout")
