"""Whom the rows of the training environment fight (self-play.md §1 to §4)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks import opponent_plan as plan
from sb3_pvp.callbacks.base import ALL_BUT_TENSORBOARD, PvpCallback, learner, shared_league, trained_rollouts
from sb3_pvp.common.arguments import PATH, POSITIVE
from sb3_pvp.common.checks import check_seed
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice
from sb3_pvp.selfplay import League, MatchMaker, Prioritised
from sb3_pvp.selfplay import match_maker as make_match_maker
from sb3_pvp.selfplay.match_log import SCORES

#: What a kind is called among the metrics of `env/`.
_COUNT_TAGS = {
    plan.SELF: "num_self_play",
    plan.PAST: "num_past_self_play",
    plan.TARGET: "num_specific_target_self_play",
    plan.LATEST: "num_latest_target_self_play",
    plan.BASELINE: "num_baseline",
}
_STATISTICS = ("mean", "min", "max", "std", "median")
METRICS = {
    "env/num_self_play": "Rows in self-play, two to a fight.",
    "env/num_past_self_play": "Rows that fight players of the league.",
    "env/num_specific_target_self_play": "Rows that fight the given targets.",
    "env/num_latest_target_self_play": "Rows that fight the newest snapshot.",
    "env/num_baseline": "Rows that fight the world's baseline.",
    "selfplay/past_num_opponents": "Players among whom the match maker chooses.",
    "selfplay/past_{statistic}_quality": "Quality scores of the past players, if the match maker keeps such.",
    "selfplay/past_{statistic}_softmax": "Probabilities of past players to be chosen next.",
    "selfplay/past_entropy_softmax": "Entropy of the choice among past players, in bits.",
    "selfplay/past_quality_histogram": "Histogram of the quality scores, if asked for.",
    "selfplay/past_softmax_histogram": "Histogram of the probabilities to be chosen, if asked for.",
    "selfplay/average-target-rollouts": "Roll-outs that the past players had trained for whom the learner fought.",
    "selfplay/average-target-rollout-difference": (
        "Roll-outs that the learner is ahead of the past players whom it has fought, on average."
    ),
    "selfplay/{kind}_win_rate": "Share of fights against such opponents that the learner won, ties as half.",
    "selfplay/{kind}_matches": "Fights against such opponents that were decided or tied in this roll-out.",
}
#: What a row fights, or will fight: the kind, and the name by which ``info`` must call it (``None``: any).
Seat = tuple[str, str | None]


class SelfPlayCallback(PvpCallback):
    """Divides the rows among kinds of opponents, anew before each roll-out, and chooses who that is for every episode.

    Rows are given to the kinds in this order: ``self_play`` (both seats learn; `PvpVecEnv` only, an even number of
    rows), ``past`` (players of the league, by the match maker), ``target`` (the list ``targets``), ``latest`` (the
    newest snapshot); the rest fights the world's baseline. Running fights go on when a row gets another kind, except
    into and out of ``self_play``. Choices are made one episode ahead.

    Works with every ``VecEnv`` whose environments have ``set_opponent`` and report ``opponent`` and ``outcome`` at the
    end of episodes, in other processes as well. List a `LeagueCallback` before this one; it adds snapshots to the
    league. With `PvpPPO` an exact resume goes on with the same choices.

    Args:
        self_play, past, target, latest: shares of the rows, numbers or schedules over trained roll-outs.
        targets: paths of models and names of plug-ins, all equally likely.
        match_maker: how past players are chosen: a name of `sb3_pvp.selfplay.match_maker`, or ``{"name": ...}`` with
            its settings.
        num_live_opponents: at most so many past players are met in one roll-out (see `PastPlayers`), as each costs
            time in every tick.
        opponent_options: ``{kind: options}`` for the kinds past, target and latest, see
            `sb3_pvp.callbacks.opponent_plan.OpponentOptions`.
        past_of, latest_of: the folder of another run, or of its league, whose players are meant; ``None``: this run's.
        directory: of the league; ``None``: ``league`` in the folder of the run.
        seed: of the choices; ``None``: that of the model, or by chance if it has none.
        histograms: also log histograms of qualities and probabilities.

    Raises:
        ValueError: for impossible values, at once; and in training if the rows cannot be divided, the environment has
            no ``set_opponent``, or there is nobody to fight.
    """

    def __init__(
        self,
        self_play: Any = 0.0,
        past: Any = 0.0,
        target: Any = 0.0,
        latest: Any = 0.0,
        targets: Sequence[Any] = (),
        match_maker: str | Mapping[str, Any] = "prioritised",
        num_live_opponents: int = 8,
        opponent_options: Mapping[str, Mapping[str, Any]] | None = None,
        past_of: str | Path | None = None,
        latest_of: str | Path | None = None,
        directory: str | Path | None = None,
        seed: int | None = None,
        histograms: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self._shares = plan.Shares({plan.SELF: self_play, plan.PAST: past, plan.TARGET: target, plan.LATEST: latest})
        self._options = plan.read_options(opponent_options)
        if not isinstance(targets, (Sequence, Path)):
            raise ValueError(f"targets must be a list of paths of models and names of plug-ins, got {targets!r}")
        self._targets = [targets] if isinstance(targets, (str, Path)) else list(targets)
        if not isinstance(match_maker, (str, Mapping)):
            raise ValueError(f"match_maker must be a name, or a mapping with one, got {match_maker!r}")
        maker = {"name": match_maker} if isinstance(match_maker, str) else dict(match_maker)
        self.match_maker = make_match_maker(maker.pop("name", "prioritised"), **maker)
        POSITIVE.check(num_live_opponents=num_live_opponents)
        PATH.check(directory=directory, past_of=past_of, latest_of=latest_of)
        self._num_live, self._directory, self._seed = num_live_opponents, directory, check_seed(seed)
        self._past_of, self._latest_of, self._histograms = past_of, latest_of, histograms

    def _init_callback(self) -> None:
        self._league = shared_league(self.model, self._directory)
        if self._past_of is None:
            if trained_rollouts(self.model) > 0:
                League(self._league.folder, self.match_maker)  # which takes up what it has learned there before
            self._league.match_maker = self.match_maker
        seed = self._seed if self._seed is not None else getattr(self.model, "seed", None)
        self._rng = np.random.default_rng(seed)
        self._sources: dict[str, plan.OpponentSource] = {}
        self._chances: dict[str, float] = {}
        self._running: list[Seat] | None = None
        self._resume_with_model("self_play")

    def _on_training_start(self) -> None:
        if not self.training_env.has_attr("set_opponent"):
            raise ValueError(
                "SelfPlayCallback needs environments with a method set_opponent(choice), such as PvpVecEnv"
            )

    def get_state(self) -> dict[str, Any]:
        """Where choices stand between two roll-outs."""
        return {
            "random": copy.deepcopy(self._rng.bit_generator.state),
            "match_maker": self.match_maker.get_state(),
            "running": copy.copy(self._running),
            "chances": dict(self._chances),
        }

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`; in new episodes opponents are new as well."""
        self.match_maker.set_state(state["match_maker"])
        self._rng.bit_generator.state = state["random"]
        self._running = state["running"] if same_episodes else None
        self._chances.clear()
        self._chances.update(state.get("chances", {}))  # files of earlier versions have none

    def _on_rollout_start(self) -> None:
        time, rows, self._steps_before = trained_rollouts(self.model), self.training_env.num_envs, self.num_timesteps
        self._kinds = self._shares.divide(rows, time)
        env = self.training_env.unwrapped
        # Where environments are in other processes, theirs would be the error otherwise.
        if plan.SELF in self._kinds and not isinstance(env, PvpVecEnv):
            raise ValueError(
                "both seats learn only in PvpVecEnv: use it as the training environment (rl-zoo3: --vec-env dummy) in "
                f"place of {type(env).__name__}, or leave out the share self_play"
            )
        for kind in dict.fromkeys(kind for kind in self._kinds if kind in self._options):
            if kind not in self._sources:
                self._sources[kind] = self._source(kind)
            self._sources[kind].begin_rollout(learner(self.model), time, self._rng)
        self._rows = [
            self._options[kind].of_row(row - self._kinds.index(kind), self._kinds.count(kind), time, self._rng)
            if kind in self._options
            else {}
            for row, kind in enumerate(self._kinds)
        ]
        self._next: list[Seat] = [self._assign(row) for row in range(rows)]
        if self._running is None:  # what runs was begun before anybody was chosen
            self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
            self.model._last_episode_starts = np.ones(rows, bool)
            self._running = self._next
            self._next = [self._assign(row) for row in range(rows)]
        self._outcomes: dict[str, list[str]] = {kind: [] for kind in self._kinds}
        self._target_rollouts: list[float] = []
        for kind, tag in _COUNT_TAGS.items():
            self.logger.record(f"env/{tag}", self._kinds.count(kind))

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        assert self._running is not None
        kind, name = self._running[row]
        outcome = self._told(info, "outcome")
        if name in (None, info.get("opponent", name)):
            self._outcomes.setdefault(kind, []).append(outcome)
            source = self._sources.get(kind)
            if isinstance(source, plan.PastPlayers) and name is not None:
                rollouts = rollouts_of(self.model, source.record(name, outcome))
                self._target_rollouts += [] if rollouts is None else [rollouts]
        self._running[row], self._next[row] = self._next[row], self._assign(row)

    def _on_rollout_end(self) -> None:
        for kind, outcomes in self._outcomes.items():
            for name, value in win_figures(outcomes).items() if kind != plan.SELF else ():
                self.logger.record(f"selfplay/{kind}_{name}", value)
        if plan.PAST in self._kinds:
            record_past(self.logger, self.match_maker, self._histograms)
        own = rollouts_of(self.model, self._steps_before)
        if self._target_rollouts and own is not None:
            mean = float(np.mean(self._target_rollouts))
            self.logger.record("selfplay/average-target-rollouts", mean, exclude="stdout")
            self.logger.record("selfplay/average-target-rollout-difference", own - mean)

    def _source(self, kind: str) -> plan.OpponentSource:
        if kind == plan.TARGET:
            return plan.Targets(self._targets)
        folder = self._past_of if kind == plan.PAST else self._latest_of
        league = self._league if folder is None else League.existing(folder)
        label = "" if folder is None else plan.run_name(league.folder)
        if kind == plan.LATEST:
            return plan.LatestPlayer(league, label)
        # In another run's league nothing is written; what was learned about its players is this run's own.
        league.match_maker = self.match_maker
        return plan.PastPlayers(league, label, self._num_live, self._chances)

    def _assign(self, row: int) -> Seat:
        """Chooses whom the row fights after its running episode, and tells the environment."""
        kind, options = self._kinds[row], self._rows[row]
        if kind not in self._options:
            choice = OpponentChoice(SELF_PLAY if kind == plan.SELF else WORLD_BOT)
        else:
            choice = self._sources[kind].draw(self._rng)
            # The world's bot does not act through actions.
            known = ("reset_params",) if choice.opponent == WORLD_BOT else options
            choice = replace(choice, **{name: options[name] for name in known if name in options})
        self.training_env.env_method("set_opponent", choice, indices=[row])
        return kind, choice.name


def win_figures(outcomes: Sequence[str]) -> dict[str, float]:
    """The number of a roll-out's fights and, if there were any, the win rate; broken fights are left out."""
    points = [SCORES[outcome] for outcome in outcomes if outcome in SCORES]
    return {"matches": len(points), "win_rate": sum(points) / len(points)} if points else {"matches": 0}


def record_past(logger: Logger, match_maker: MatchMaker, histograms: bool) -> None:
    """Logs what the match maker thinks of the past players."""
    chances = np.array(list(match_maker.probabilities().values()))
    values = {"softmax": chances}
    if isinstance(match_maker, Prioritised):
        values["quality"] = np.array(list(match_maker.qualities().values()))
    entropy = float(-(chances * np.log2(chances + 1e-10)).sum())
    figures: dict[str, float] = {"num_opponents": len(match_maker.players), "entropy_softmax": entropy}
    for name, numbers in values.items():
        if numbers.size:
            figures |= {f"{statistic}_{name}": float(getattr(np, statistic)(numbers)) for statistic in _STATISTICS}
        if histograms:
            logger.record(f"selfplay/past_{name}_histogram", th.from_numpy(numbers), exclude=ALL_BUT_TENSORBOARD)
    for name, value in figures.items():
        logger.record(f"selfplay/past_{name}", value, exclude="stdout")


def rollouts_of(model: BaseAlgorithm, step: int | None) -> float | None:
    """The roll-outs that lead to a step; ``None`` where that means nothing."""
    steps_of_a_rollout = int(getattr(model, "n_steps", 0)) * model.n_envs
    return None if step is None or not steps_of_a_rollout else step / steps_of_a_rollout
