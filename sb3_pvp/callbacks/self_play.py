"""Whom the rows of the training environment fight (self-play.md §1 to §4)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks.base import PvpCallback
from sb3_pvp.callbacks.opponent_plan import BASELINE, LATEST, PAST, SELF, TARGET, Shares, read_options
from sb3_pvp.callbacks.opponent_sources import Drawn, LatestPlayer, OpponentSource, PastPlayers, Targets, label_of
from sb3_pvp.callbacks.rollouts import trained_rollouts
from sb3_pvp.callbacks.run_league import learner, shared_league
from sb3_pvp.callbacks.self_play_metrics import record_past, rollouts_of, win_figures
from sb3_pvp.common.arguments import PATH, POSITIVE
from sb3_pvp.common.checks import check_seed
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice
from sb3_pvp.selfplay import League
from sb3_pvp.selfplay import match_maker as make_match_maker

#: What a kind is called among the metrics of `env/`.
_COUNT_TAGS = {
    SELF: "num_self_play",
    PAST: "num_past_self_play",
    TARGET: "num_specific_target_self_play",
    LATEST: "num_latest_target_self_play",
    BASELINE: "num_baseline",
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
        self._shares = Shares({SELF: self_play, PAST: past, TARGET: target, LATEST: latest})
        self._options = read_options(opponent_options)
        self._targets = _read_targets(targets)
        maker = {"name": match_maker} if isinstance(match_maker, str) else match_maker
        if not isinstance(maker, Mapping):
            raise ValueError(f"match_maker must be a name, or a mapping with one, got {match_maker!r}")
        maker = dict(maker)
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
        self._sources: dict[str, OpponentSource] = {}
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
        if SELF in self._kinds:
            _check_pairs(self.training_env)
        for kind in dict.fromkeys(kind for kind in self._kinds if kind in self._options):
            if kind not in self._sources:
                self._sources[kind] = self._source(kind)
            self._sources[kind].begin_rollout(learner(self.model), time, self._rng)
        self._rows = [self._row_options(row, time) for row in range(rows)]
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
            if isinstance(source, PastPlayers) and name is not None:
                rollouts = rollouts_of(self.model, source.record(name, outcome))
                self._target_rollouts += [] if rollouts is None else [rollouts]
        self._running[row], self._next[row] = self._next[row], self._assign(row)

    def _on_rollout_end(self) -> None:
        for kind, outcomes in self._outcomes.items():
            for name, value in win_figures(outcomes).items() if kind != SELF else ():
                self.logger.record(f"selfplay/{kind}_{name}", value)
        if PAST in self._kinds:
            record_past(self.logger, self.match_maker, self._histograms)
        own = rollouts_of(self.model, self._steps_before)
        if self._target_rollouts and own is not None:
            mean = float(np.mean(self._target_rollouts))
            self.logger.record("selfplay/average-target-rollouts", mean, exclude="stdout")
            self.logger.record("selfplay/average-target-rollout-difference", own - mean)

    def _source(self, kind: str) -> OpponentSource:
        if kind == TARGET:
            return Targets(self._targets)
        folder = self._past_of if kind == PAST else self._latest_of
        league = self._league if folder is None else League.existing(folder)
        label = "" if folder is None else label_of(league)
        if kind == LATEST:
            return LatestPlayer(league, label)
        # In another run's league nothing is written; what was learned about its players is this run's own.
        league.match_maker = self.match_maker
        return PastPlayers(league, label, self._num_live, self._chances)

    def _row_options(self, row: int, time: int) -> dict[str, Any]:
        kind = self._kinds[row]
        position, count = row - self._kinds.index(kind), self._kinds.count(kind)
        return self._options[kind].of_row(position, count, time, self._rng) if kind in self._options else {}

    def _assign(self, row: int) -> Seat:
        """Chooses whom the row fights after its running episode, and tells the environment."""
        kind = self._kinds[row]
        drawn = self._sources[kind].draw(self._rng) if kind in self._options else None
        self.training_env.env_method("set_opponent", _choice(kind, drawn, self._rows[row]), indices=[row])
        return kind, None if drawn is None else drawn.name


def _read_targets(targets: Any) -> list[Any]:
    if isinstance(targets, (str, Path)):
        return [targets]
    if not isinstance(targets, Sequence):
        raise ValueError(f"targets must be a list of paths of models and names of plug-ins, got {targets!r}")
    return list(targets)


def _choice(kind: str, drawn: Drawn | None, options: dict[str, Any]) -> OpponentChoice:
    if drawn is None:
        return OpponentChoice(SELF_PLAY if kind == SELF else WORLD_BOT)
    if isinstance(drawn.opponent, str) and drawn.opponent == WORLD_BOT:  # it does not act through actions
        return OpponentChoice(WORLD_BOT, drawn.name, reset_params=options.get("reset_params"))
    return OpponentChoice(drawn.opponent, drawn.name, **options)


def _check_pairs(env: VecEnv) -> None:
    # Where environments are in other processes, theirs would be the error otherwise.
    if not isinstance(env.unwrapped, PvpVecEnv):
        raise ValueError(
            "both seats learn only in PvpVecEnv: use it as the training environment (rl-zoo3: --vec-env dummy) in "
            f"place of {type(env.unwrapped).__name__}, or leave out the share self_play"
        )
