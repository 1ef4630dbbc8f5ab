"""Keeps the league of a run: snapshots of the learner, all matches, ratings and figures of them (self-play.md §6)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import SkipValidation
from stable_baselines3.common.logger import Image

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import AT_LEAST_1, OptionalPath, PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import extra
from sb3_pvp.common.pictures import drawn, new_figure, write_png
from sb3_pvp.players.league import LEARNER, League, MatchRecord, Player, Standing, check_anchors
from sb3_pvp.players.league.leaderboard import FORMATS, snapshot_standings
from sb3_pvp.players.league.league import is_snapshot
from sb3_pvp.players.league.players import evenly_spread
from sb3_pvp.players.opponents import SELF_PLAY
from sb3_pvp.policies.files.model_files import save_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Most players in the figure of the payoff matrix, so that their names stay readable.
MAX_PLAYERS = 24
#: Most lines for players other than the learner in the figure of ratings.
_MAX_OTHERS = 8

#: What it knows of a rollout.
_OF_ROLLOUT = ("_rollout", "_learner", "_elo_before", "_met", "_records", "_episodes")

METRICS = {
    "rollout/elo/latest": "Elo rating of the learner.",
    "rollout/elo/average-match": "Mean Elo rating of the opponents met in this rollout, as rated before it.",
    "rollout/elo/{player}": "Elo rating of a player that is not a snapshot, such as `baseline`.",
    "rollout/open_skill/mu": "OpenSkill rating of the learner (mean).",
    "rollout/open_skill/sigma": "Uncertainty of this rating (standard deviation).",
    "league/num_players": "Players with a model in the league.",
    "league/num_matches": "Matches in the league's log, including broken ones.",
    "league/broken_matches": "Fights of this rollout that were broken off, which are not rated.",
    "league/bradley_terry/latest": "Bradley-Terry rating of the newest snapshot with matches, from all matches so far; "
    "logged with the figures.",
    "league/bradley_terry/low": "Lower end of the 95 % interval of this rating.",
    "league/bradley_terry/high": "Upper end of the 95 % interval of this rating.",
    "league/payoff": "Figure: win rates of players (rows) against one another (columns).",
    "league/ratings": "Figure: ratings of the learner's snapshots over steps, and of the other players.",
}


class LeagueCallback(base.PvpCallback):
    """Adds snapshots of the learner, and the finished matches of each rollout, to the league, and logs ratings.

    In the league the learner is ``main@STEPS``, with its steps at the start of the rollout in which the match ended.
    Matches are written at the end of a rollout, in one transaction. A run that is killed and resumed uses the same keys
    for them again, so that no match counts twice. Until then, those of a run that can resume in the middle of a rollout
    are in its checkpoint.

    List it before `SelfPlayCallback`. Environments must report ``opponent`` and ``outcome`` at the
    end of episodes, as `PvpEnv` does.

    Args:
        snapshot_every: rollouts between snapshots, a number or a schedule; the first is taken at the start.
        anchors: fixed Elo ratings, such as ``{"baseline": 1500}``; ``None``: those that the league has already.
        pictures_every: rollouts between ``leaderboard.csv``, ``payoff.png`` and ``ratings.png``; also at the end.
        directory: of the league; default: ``league`` in the run folder.
    """

    @checked
    def __init__(
        self,
        snapshot_every: Any = 1,
        anchors: SkipValidation[Mapping[str, float] | None] = None,
        pictures_every: PositiveInt = 20,
        directory: OptionalPath = None,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(verbose)
        with extra("plots", "pictures"):
            import matplotlib  # noqa: F401  (before work whose end is a picture)
        self._snapshot_every = base.Scheduled("snapshot_every", snapshot_every, AT_LEAST_1)
        self._pictures_every, self._directory = pictures_every, directory
        self._anchors = check_anchors({} if anchors is None else anchors)
        if strange := [name for name in anchors or () if not isinstance(name, (str, Player))]:
            raise ValueError(f"anchors must map names of players to ratings, got {strange[0]!r} as a name")

    def _init_callback(self) -> None:
        self._league = base.shared_league(self.model, self._directory)
        known = [*self._league.players(), *(each.player_a for each in self._league.log.records())]
        base.check_same_run(self.model, self._league.folder, (each.age for each in known if each.name == LEARNER))
        if self._anchors:
            self._league.add_anchors(self._anchors)
        env = self.training_env
        # The league stores how fights start, so that later matches outside of training start in the same way.
        if env.has_attr("match_settings") and (kind := env.get_attr("match_settings", indices=[0])[0]):
            self._league.set_fights(**kind)
        self._last_snapshot: int | None = None
        self._is_amid = False  # whether a rollout has begun, also one that is resumed
        self._is_published = True  # no rollout has ended yet
        self._warned = False
        self._resume_with_model("league", "_last_snapshot")

    def get_state(self) -> dict[str, Any]:
        """Returns the rollout of the last snapshot and, in the middle of a rollout, what is known of that."""
        known = {name: copy.copy(getattr(self, name)) for name in _OF_ROLLOUT} if self._is_amid else {}
        return super().get_state() | {"rollout": known}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned."""
        super().set_state(state, same_episodes)
        known = state.get("rollout", {})  # files of earlier versions have none
        vars(self).update(known)
        self._is_amid = bool(known)

    def _on_rollout_start(self) -> None:
        if self._is_amid:  # it was resumed there
            return
        self._rollout, self._learner = base.trained_rollouts(self.model), base.learner(self.model)
        if self._snapshot_every.is_due(self._last_snapshot, self._rollout):
            self._league.add(self._learner, lambda path: save_weights(self.model, path))
            self._last_snapshot = self._rollout
        self._elo_before = dict(self._league.ratings().elo.ratings)
        self._met: list[Player] = []
        self._records: list[MatchRecord] = []
        self._episodes = np.zeros(self.training_env.num_envs, np.int64)
        self._is_amid = True

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        key = f"{LEARNER}/rollout-{self._rollout}/row-{row}/episode-{self._episodes[row]}"
        self._episodes[row] += 1
        name, _ = self._required_info(info, "opponent"), self._required_info(info, "outcome")
        opponent = base.player_of_opponent(name)
        if name != SELF_PLAY:
            self._met.append(opponent)
            if opponent != self._learner:  # a fight against itself does not change its rating
                self._records.append(base.match_record(self._learner, opponent, info, key))

    def _on_rollout_end(self) -> None:
        league, records = self._league, self._records
        repeats = league.log.append(records) < len(records)
        self._is_amid = False
        if repeats and not self._warned and (others := league.log.count_conflicts(records)):
            self._warned = True
            warnings.warn(
                f"{others} fights of rollout {self._rollout} are in the log of {league.folder} already, with other "
                "results: this run repeats the rollouts after its checkpoint, but not exactly. The log keeps the old "
                "fights of these rollouts; to record the new ones, use a separate league",
                stacklevel=2,
            )
        league.save()
        self._log_ratings()
        self.logger.record("league/num_players", len(league.players()), exclude=("stdout",))
        self.logger.record("league/num_matches", len(league.log), exclude=("stdout",))
        self.logger.record("league/broken_matches", sum(not each.counted for each in records))
        # By the number of the rollout, so that a resumed run keeps the rhythm.
        self._is_published = (self._rollout + 1) % self._pictures_every == 0
        if self._is_published:
            self._publish()

    def _on_training_end(self) -> None:
        if not self._is_published:
            self._publish()

    def _log_ratings(self) -> None:
        ratings = self._league.ratings()
        self.logger.record("rollout/elo/latest", ratings.elo.rating(self._learner))
        if self._met:
            # A player that was first met in this rollout had no rating before it.
            before = [self._elo_before.get(player, ratings.elo.rating(player)) for player in self._met]
            self.logger.record("rollout/elo/average-match", float(np.mean(before)))
        for player, rating in ratings.elo.ratings.items():
            if not is_snapshot(player):  # they would add a tag each
                self.logger.record(f"rollout/elo/{player}", rating, exclude="stdout")
        skill = ratings.open_skill.rating(self._learner)
        self.logger.record("rollout/open_skill/mu", skill.mu, exclude="stdout")
        self.logger.record("rollout/open_skill/sigma", skill.sigma, exclude="stdout")

    def _publish(self) -> None:
        league = self._league
        standings = league.leaderboard()
        write_atomically(league.folder / "leaderboard.csv", FORMATS["csv"](standings))
        for name, figure in (("payoff", plot_payoff(league, standings)), ("ratings", plot_ratings(standings))):
            pixels = drawn(figure)
            with replacing(league.folder / f"{name}.png") as path:
                write_png(path, pixels)
            self.logger.record(f"league/{name}", Image(pixels, "HWC"), exclude=base.ALL_BUT_TENSORBOARD)
        # Snapshots without matches have no rating of their own yet.
        for _, newest in [pair for pair in snapshot_standings(standings, LEARNER) if pair[1].games][-1:]:
            for name, value in (("latest", newest.rating), ("low", newest.low), ("high", newest.high)):
                self.logger.record(f"league/bradley_terry/{name}", value, exclude=("stdout",))


class EloCallback(base.PvpCallback):
    """Does nothing: `LeagueCallback` logs the ratings by now. Programs and configurations may still list it."""

    @checked
    def __init__(self, directory: OptionalPath = None, verbose: bool | int = 0) -> None:
        super().__init__(verbose)


def plot_payoff(league: League, standings: Sequence[Standing]) -> Figure:
    """Plots the win rates of at most `MAX_PLAYERS` players as a matrix; white where two have never met.

    At most half of the players are others than the learner; its snapshots are chosen evenly spread over their steps.
    """
    known = sorted((Player.parse(each.player) for each in standings), key=lambda player: (player.age, player))
    own, others = ([each for each in known if (each.name == LEARNER) == is_own] for is_own in (True, False))
    players = others[-MAX_PLAYERS // 2 :]
    players += evenly_spread(own, MAX_PLAYERS - len(players))
    figure = new_figure(8, 7)
    names, axes = [str(player) for player in players], figure.subplots()
    rates = league.ratings().payoff.matrix(players)
    picture = axes.imshow(np.asarray(rates, float), vmin=0, vmax=1, cmap="RdYlGn", interpolation="nearest")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_title("win rate of the row against the column")
    figure.colorbar(picture, ax=axes)
    return figure


def plot_ratings(standings: Sequence[Standing]) -> Figure:
    """Plots the ratings of the learner's snapshots over steps, with 95 % intervals, and others as horizontal lines."""
    figure = new_figure(8, 5)
    axes = figure.subplots()
    own = snapshot_standings(standings, LEARNER)
    steps = [step for step, _ in own]
    axes.plot(steps, [each.elo for _, each in own], "--", linewidth=1, label="Elo")
    axes.plot(steps, [each.rating for _, each in own], label="Bradley-Terry, 95 % interval")
    axes.fill_between(steps, [each.low for _, each in own], [each.high for _, each in own], alpha=0.2, linewidth=0)
    others = [each for each in standings if Player.parse(each.player).name != LEARNER]
    for number, each in enumerate(others[:_MAX_OTHERS]):
        # C0 and C1 are the colours of the two curves.
        axes.axhline(each.rating, color=f"C{number + 2}", linewidth=0.8, linestyle=":", label=each.player)
    axes.set(xlabel="steps", ylabel="rating")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure
