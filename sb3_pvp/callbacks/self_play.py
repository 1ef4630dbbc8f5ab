"""Whom the rows of the training environment fight (self-play.md §1 to §4)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch as th
from pydantic import InstanceOf
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks import opponent_plan as plan
from sb3_pvp.callbacks.base import ALL_BUT_TENSORBOARD, PvpCallback, learner, shared_league, trained_rollouts
from sb3_pvp.common.arguments import Flag, Kind, OptionalMapping, OptionalPath, PositiveInt, Seed, checked
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice
from sb3_pvp.selfplay import League, MatchMaker, Prioritised
from sb3_pvp.selfplay import match_maker as make_match_maker
from sb3_pvp.selfplay.match_log import SCORES

#: What a kind is called among the metrics of `env/`, and what that means.
_COUNTS = {
    plan.SELF: ("num_self_play", "Rows in self-play, two to a fight."),
    plan.PAST: ("num_past_self_play", "Rows that fight players of the league."),
    plan.TARGET: ("num_specific_target_self_play", "Rows that fight the given targets."),
    plan.LATEST: ("num_latest_target_self_play", "Rows that fight the newest snapshot."),
    plan.BASELINE: ("num_baseline", "Rows that fight the world's baseline."),
}
METRICS = {
    **{f"env/{name}": meaning for name, meaning in _COUNTS.values()},
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
#: The kinds whose opponents act through actions, and so have options.
_ACTING = (plan.PAST, plan.TARGET, plan.LATEST)
#: What a row fights, or will fight: the kind, and the name by which ``info`` must call it (``None``: any).
Seat = tuple[str, str | None]
_MAKER = Kind[Any](str | InstanceOf[Mapping], "a name, or a mapping with one")  # type: ignore[type-arg]
_TARGETS = Kind[Any](InstanceOf[Sequence] | InstanceOf[Path], "a list of paths of models and names of plug-ins")  # type: ignore[type-arg]


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
    """

    @checked
    def __init__(
        self,
        self_play: Any = 0.0,
        past: Any = 0.0,
        target: Any = 0.0,
        latest: Any = 0.0,
        targets: Annotated[str | Path | Sequence[Any], _TARGETS] = (),
        match_maker: Annotated[str | Mapping[str, Any], _MAKER] = "prioritised",
        num_live_opponents: PositiveInt = 8,
        opponent_options: OptionalMapping = None,
        past_of: OptionalPath = None,
        latest_of: OptionalPath = None,
        directory: OptionalPath = None,
        seed: Seed = None,
        histograms: Flag = False,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(verbose)
        self._shares = plan.Shares({plan.SELF: self_play, plan.PAST: past, plan.TARGET: target, plan.LATEST: latest})
        options = opponent_options or {}
        require_all_known("kind of opponents with options", options, _ACTING)
        self._options = {kind: plan.OpponentOptions(kind, options.get(kind)) for kind in _ACTING}
        self._targets = plan.Targets([targets] if isinstance(targets, (str, Path)) else list(targets))
        if not targets and target != 0:
            raise ValueError("a share of target opponents needs targets: paths of models or names of plug-ins")
        maker = {"name": match_maker} if isinstance(match_maker, str) else dict(match_maker)
        self.match_maker = make_match_maker(maker.pop("name", "prioritised"), **maker)
        self._num_live, self._directory, self._seed = num_live_opponents, directory, seed
        self._past_of, self._latest_of, self._histograms = past_of, latest_of, histograms

    def _init_callback(self) -> None:
        league = shared_league(self.model, self._directory)
        if self._past_of is None and trained_rollouts(self.model) > 0:
            League(league.folder, self.match_maker)  # which takes up what it has learned there before
        past, latest = (
            (league, "") if folder is None else (other := League.existing(Path(folder)), plan.run_name(other.folder))
            for folder in (self._past_of, self._latest_of)
        )
        # In another run's league nothing is written; what was learned about its players is this run's own.
        past[0].match_maker = self.match_maker
        self._chances: dict[str, float] = {}
        self._past = plan.PastPlayers(*past, self._num_live, self._chances)
        self._sources: dict[str, plan.LatestPlayer | plan.Targets] = {
            plan.PAST: self._past,
            plan.TARGET: self._targets,
            plan.LATEST: plan.LatestPlayer(*latest),
        }
        self._rng = np.random.default_rng(getattr(self.model, "seed", None) if self._seed is None else self._seed)
        self._running: list[Seat] | None = None
        self._resume_with_model("self_play")
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
        kinds = self._kinds = self._shares.divide(rows, time)
        env = self.training_env.unwrapped
        # Where environments are in other processes, theirs would be the error otherwise.
        if plan.SELF in kinds and not isinstance(env, PvpVecEnv):
            raise ValueError(
                "both seats learn only in PvpVecEnv: use it as the training environment (rl-zoo3: --vec-env dummy) in "
                f"place of {type(env).__name__}, or leave out the share self_play"
            )
        for kind in dict.fromkeys(kind for kind in kinds if kind in _ACTING):
            self._sources[kind].begin_rollout(learner(self.model), time, self._rng)
        self._rows = [
            self._options[kind].of_row(row - kinds.index(kind), kinds.count(kind), time, self._rng)
            if kind in _ACTING
            else {}
            for row, kind in enumerate(kinds)
        ]
        self._next = [self._assign(row) for row in range(rows)]
        if self._running is None:  # what runs was begun before anybody was chosen
            self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
            self.model._last_episode_starts = np.ones(rows, bool)
            self._running, self._next = self._next, [self._assign(row) for row in range(rows)]
        self._points: dict[str, list[float]] = {kind: [] for kind in kinds if kind != plan.SELF}
        self._target_rollouts: list[float] = []
        for kind, (name, _) in _COUNTS.items():
            self.logger.record(f"env/{name}", kinds.count(kind))

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        assert self._running is not None
        (kind, name), outcome = self._running[row], self._told(info, "outcome")
        if name in (None, info.get("opponent", name)):
            if outcome in SCORES and kind != plan.SELF:  # broken fights say nothing
                self._points.setdefault(kind, []).append(SCORES[outcome])
            if kind == plan.PAST and name is not None:
                rollouts = self._rollouts_of(self._past.record(name, outcome))
                self._target_rollouts += [] if rollouts is None else [rollouts]
        self._running[row], self._next[row] = self._next[row], self._assign(row)

    def _on_rollout_end(self) -> None:
        for kind, points in self._points.items():
            self.logger.record(f"selfplay/{kind}_matches", len(points))
            if points:
                self.logger.record(f"selfplay/{kind}_win_rate", sum(points) / len(points))
        if plan.PAST in self._kinds:
            record_past(self.logger, self.match_maker, self._histograms)
        own = self._rollouts_of(self._steps_before)
        if self._target_rollouts and own is not None:
            mean = float(np.mean(self._target_rollouts))
            self.logger.record("selfplay/average-target-rollouts", mean, exclude="stdout")
            self.logger.record("selfplay/average-target-rollout-difference", own - mean)

    def _assign(self, row: int) -> Seat:
        """Chooses whom the row fights after its running episode, and tells the environment."""
        kind, options = self._kinds[row], self._rows[row]
        if kind not in _ACTING:
            choice = OpponentChoice(SELF_PLAY if kind == plan.SELF else WORLD_BOT)
        else:
            choice = self._sources[kind].draw(self._rng)
            # The world's bot does not act through actions.
            known = ("reset_params",) if choice.opponent == WORLD_BOT else options
            choice = replace(choice, **{name: options[name] for name in known if name in options})
        self.training_env.env_method("set_opponent", choice, indices=[row])
        return kind, choice.name

    def _rollouts_of(self, step: int | None) -> float | None:
        """The roll-outs that lead to a step; ``None`` where that means nothing."""
        steps_of_a_rollout = int(getattr(self.model, "n_steps", 0)) * self.model.n_envs
        return None if step is None or not steps_of_a_rollout else step / steps_of_a_rollout


def record_past(logger: Logger, match_maker: MatchMaker, histograms: bool) -> None:
    """Logs what the match maker thinks of the past players."""
    chances = np.array(list(match_maker.probabilities().values()))
    values = {"softmax": chances}
    if isinstance(match_maker, Prioritised):
        values["quality"] = np.array(list(match_maker.qualities().values()))
    entropy = float(-(chances * np.log2(chances + 1e-10)).sum())
    figures: dict[str, float] = {"num_opponents": len(match_maker.players), "entropy_softmax": entropy}
    for name, numbers in values.items():
        for statistic in ("mean", "min", "max", "std", "median") if numbers.size else ():
            figures[f"{statistic}_{name}"] = float(getattr(np, statistic)(numbers))
        if histograms:
            logger.record(f"selfplay/past_{name}_histogram", th.from_numpy(numbers), exclude=ALL_BUT_TENSORBOARD)
    for name, value in figures.items():
        logger.record(f"selfplay/past_{name}", value, exclude="stdout")
