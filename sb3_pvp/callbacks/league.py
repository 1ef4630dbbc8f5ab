"""Keeps the league of a run: snapshots of the learner, all matches, and how strong everybody is."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.callbacks import league_pictures
from sb3_pvp.callbacks.base import Every, PvpCallback
from sb3_pvp.callbacks.opponent_sources import player_of_opponent
from sb3_pvp.callbacks.rollouts import trained_rollouts
from sb3_pvp.callbacks.run_league import RECORDED, learner, match_record, refuse_another_run, shared_league
from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.opponents.opponents import SELF_PLAY
from sb3_pvp.policies.model_files import save_weights
from sb3_pvp.selfplay import LEARNER, MatchRecord, check_anchors
from sb3_pvp.selfplay.leaderboard import FORMATS, of_snapshots

METRICS = {
    "league/num_players": "Players with a model in the league.",
    "league/num_matches": "Matches in the league's log, broken ones among them.",
    "league/broken_matches": "Fights of this roll-out that broke off, and are not rated.",
    "league/bradley_terry/latest": "Bradley-Terry rating of the learner's newest snapshot with matches, from all "
    "matches so far; as often as there are pictures.",
    "league/bradley_terry/low": "Lower end of the 95 % interval of this rating.",
    "league/bradley_terry/high": "Upper end of the 95 % interval of this rating.",
    "league/payoff": "Picture: win rates of players (rows) against one another.",
    "league/ratings": "Picture: ratings of the learner's snapshots over steps, and of the others.",
}


class LeagueCallback(PvpCallback):
    """Adds snapshots of the learner to the league, and all finished matches of a roll-out to its log.

    The folder of the league (`sb3_pvp.selfplay.League`) gets ``leaderboard.csv``, ``payoff.png`` and ``ratings.png``
    now and then and at the end. The learner plays as ``main@STEPS``, with the steps at the start of the roll-out in
    which the match ended. Matches are logged in one go at the end of a roll-out, under keys that a run which is
    killed and goes on from a checkpoint uses again, so that none counts twice.

    List it before `SelfPlayCallback` and `EloCallback`. Environments report ``opponent`` and ``outcome`` at the end of
    episodes, as `PvpEnv` does.

    Args:
        snapshot_every: roll-outs between snapshots, a number or a schedule; the first is taken at once.
        anchors: Elo ratings that are given, such as ``{"baseline": 1500}``; ``None``: as before.
        pictures_every: roll-outs between pictures and leaderboards.
        directory: of the league; ``None``: ``league`` in the folder of the run.

    Raises:
        ValueError: for impossible values; and at the start of training, if the league is that of another run.
    """

    def __init__(
        self,
        snapshot_every: Any = 1,
        anchors: Mapping[str, float] | None = None,
        pictures_every: int = 20,
        directory: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self._snapshot_every, self._directory = Every("snapshot_every", snapshot_every), directory
        POSITIVE.check(pictures_every=pictures_every)
        self._pictures_every = pictures_every
        self._anchors = check_anchors(anchors or {})

    def _init_callback(self) -> None:
        self._league = shared_league(self.model, self._directory)
        self._check_fresh()
        RECORDED.add(self._league)
        if self._anchors:
            self._league.add_anchors(self._anchors)
        self._tell_what_is_fought()
        self._last_snapshot: int | None = None
        self._is_published = True  # nothing is new
        self._warned = False
        self._resume_with_model("league", "_last_snapshot")

    def _on_rollout_start(self) -> None:
        self._rollout, self._learner = trained_rollouts(self.model), learner(self.model)
        if self._snapshot_every.is_due(self._last_snapshot, self._rollout):
            self._league.add(self._learner, lambda path: save_weights(self.model, path))
            self._last_snapshot = self._rollout
        self._records: list[MatchRecord] = []
        self._episodes = np.zeros(self.training_env.num_envs, np.int64)

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        key = f"{LEARNER}/rollout-{self._rollout}/row-{row}/episode-{self._episodes[row]}"
        self._episodes[row] += 1
        name, _ = self._told(info, "opponent"), self._told(info, "outcome")
        opponent = player_of_opponent(name)
        if name != SELF_PLAY and opponent != self._learner:  # fights against itself tell nothing
            self._records.append(match_record(self._learner, opponent, info, key))

    def _on_rollout_end(self) -> None:
        league = self._league
        if league.log.append(self._records) < len(self._records):
            self._warn_of_others()
        league.save()
        self.logger.record("league/num_players", len(league.players()), exclude=("stdout",))
        self.logger.record("league/num_matches", len(league.log), exclude=("stdout",))
        self.logger.record("league/broken_matches", sum(not each.counted for each in self._records))
        self._is_published = (self._rollout + 1) % self._pictures_every == 0
        if self._is_published:
            self._publish()

    def _on_training_end(self) -> None:
        if not self._is_published:
            self._publish()

    def _warn_of_others(self) -> None:
        others = self._league.log.count_others(self._records)
        if others and not self._warned:
            self._warned = True
            warnings.warn(
                f"{others} fights of roll-out {self._rollout} are in the log of {self._league.folder} already, but "
                "as others: this run plays once more, and differently, what was played after its checkpoint. Until it "
                "is further than that the log keeps the fights that it has; a league of its own keeps them all",
                stacklevel=2,
            )

    def _tell_what_is_fought(self) -> None:
        """For matches after the training, which should be of the same kind."""
        env = self.training_env
        if env.has_attr("kind_of_fights") and (kind := env.get_attr("kind_of_fights", indices=[0])[0]):
            self._league.set_fights(**kind)

    def _publish(self) -> None:
        """Writes the leaderboard and the pictures."""
        league = self._league
        standings = league.leaderboard()
        write_atomically(league.folder / "leaderboard.csv", FORMATS["csv"](standings))
        league_pictures.publish(league, standings, self.logger)
        for _, newest in [pair for pair in of_snapshots(standings, LEARNER) if pair[1].games][-1:]:
            for name, value in (("latest", newest.rating), ("low", newest.low), ("high", newest.high)):
                self.logger.record(f"league/bradley_terry/{name}", value, exclude=("stdout",))

    def _check_fresh(self) -> None:
        """A new learner must not go on with the players and matches of another one, whose names it would take."""
        known = [*self._league.players(), *(each.player_a for each in self._league.log.records())]
        refuse_another_run(self.model, self._league.folder, (each.age for each in known if each.name == LEARNER))
