"""Whom the rows of the training environment fight (self-play.md §1 to §4)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch as th
from pydantic import InstanceOf
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import SHARE, Flag, Kind, OptionalPath, PositiveInt, Seed, checked
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice, is_path, opponent_name
from sb3_pvp.schedules import drawing_from
from sb3_pvp.selfplay import LEARNER, League, MatchMaker, Player, Prioritised
from sb3_pvp.selfplay import match_maker as make_match_maker
from sb3_pvp.selfplay.match_log import SCORES

SELF, PAST, TARGET, LATEST, BASELINE = "self", "past", "target", "latest", "baseline"
#: In the order in which they are given rows: what a kind is called among the metrics of `env/`, and what that means.
_COUNTS = {
    SELF: ("num_self_play", "Rows in self-play, two to a fight."),
    PAST: ("num_past_self_play", "Rows that fight players of the league."),
    TARGET: ("num_specific_target_self_play", "Rows that fight the given targets."),
    LATEST: ("num_latest_target_self_play", "Rows that fight the newest snapshot."),
    BASELINE: ("num_baseline", "Rows that fight the world's baseline."),
}
METRICS = {
    **{f"env/{name}": meaning for name, meaning in _COUNTS.values()},
    "selfplay/past_num_opponents": "Players among whom the match maker chooses.",
    "selfplay/past_{statistic}_quality": "Quality scores of the past players, if the match maker keeps such.",
    "selfplay/past_{statistic}_softmax": "Probabilities of past players to be chosen next.",
    "selfplay/past_entropy_softmax": "Entropy of the choice among past players, in bits.",
    "selfplay/past_quality_histogram": "Histogram of the quality scores, if asked for.",
    "selfplay/past_softmax_histogram": "Histogram of the probabilities to be chosen, if asked for.",
    "selfplay/average-target-rollouts": "Rollouts that the past players had trained for whom the learner fought.",
    "selfplay/average-target-rollout-difference": (
        "Rollouts that the learner is ahead of the past players whom it has fought, on average."
    ),
    "selfplay/{kind}_win_rate": "Share of fights against such opponents that the learner won, ties as half.",
    "selfplay/{kind}_matches": "Fights against such opponents that were decided or tied in this rollout.",
}
KINDS = (*_COUNTS,)
#: The kinds whose opponents act through actions, and so have options.
_ACTING = (PAST, TARGET, LATEST)
_SCHEDULES, _PLAIN = ("delay_chance", "deterministic_share"), ("reset_params", "noise", "action_mask_override")
#: What a row fights, or will fight: the kind, and the name by which ``info`` must call it (``None``: any).
Seat = tuple[str, str | None]
_MAKER = Kind[Any](str | InstanceOf[Mapping], "a name, or a mapping with one")  # type: ignore[type-arg]
_TARGETS = Kind[Any](InstanceOf[Sequence] | InstanceOf[Path], "a list of paths of models and names of plug-ins")  # type: ignore[type-arg]


class SelfPlayCallback(base.PvpCallback):
    """Divides the rows among kinds of opponents, anew before each rollout, and chooses who that is for every episode.

    Rows are given to the kinds in this order: ``self_play`` (both seats learn; `PvpVecEnv` only, an even number of
    rows), ``past`` (players of the league, by the match maker), ``target`` (the list ``targets``), ``latest`` (the
    newest snapshot); the rest fights the world's baseline. Running fights go on when a row gets another kind, except
    into and out of ``self_play``. Choices are made one episode ahead.

    Works with every ``VecEnv`` whose environments have ``set_opponent`` and report ``opponent`` and ``outcome`` at the
    end of episodes, in other processes as well. List a `LeagueCallback` before this one; it adds snapshots to the
    league. With `PvpPPO` an exact resume goes on with the same choices.

    Args:
        self_play, past, target, latest: shares of the rows, numbers or schedules over trained rollouts.
        targets: paths of models and names of plug-ins, all equally likely.
        match_maker: of past players: a name of `sb3_pvp.selfplay.match_maker`, or ``{"name": ...}`` with its settings.
        num_live_opponents: at most so many past players are met in one rollout, see `PastPlayers`.
        opponent_options: ``{kind: options}`` for the kinds past, target and latest, see `OpponentOptions`.
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
        opponent_options: Mapping[str, Mapping[str, Any] | None] | None = None,
        past_of: OptionalPath = None,
        latest_of: OptionalPath = None,
        directory: OptionalPath = None,
        seed: Seed = None,
        histograms: Flag = False,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(verbose)
        self._shares = Shares({SELF: self_play, PAST: past, TARGET: target, LATEST: latest})
        options = opponent_options or {}
        require_all_known("kind of opponents with options", options, _ACTING)
        self._options = {kind: OpponentOptions(kind, options.get(kind)) for kind in _ACTING}
        self._targets = Targets([targets] if isinstance(targets, (str, Path)) else list(targets))
        if not targets and target != 0:
            raise ValueError("a share of target opponents needs targets: paths of models or names of plug-ins")
        maker = {"name": match_maker} if isinstance(match_maker, str) else dict(match_maker)
        self.match_maker = make_match_maker(maker.pop("name", "prioritised"), **maker)
        self._num_live, self._directory, self._seed = num_live_opponents, directory, seed
        self._past_of, self._latest_of, self._histograms = past_of, latest_of, histograms

    def _init_callback(self) -> None:
        league = base.shared_league(self.model, self._directory)
        if self._past_of is None and base.trained_rollouts(self.model) > 0:
            League(league.folder, self.match_maker)  # which takes up what it has learned there before
        past, latest = (
            (league, "") if folder is None else (other := League.existing(Path(folder)), base.run_name(other.folder))
            for folder in (self._past_of, self._latest_of)
        )
        # In another run's league nothing is written; what was learned about its players is this run's own.
        past[0].match_maker = self.match_maker
        self._chances: dict[str, float] = {}
        self._past = PastPlayers(*past, self._num_live, self._chances)
        self._players: dict[str, LatestPlayer] = {PAST: self._past, LATEST: LatestPlayer(*latest)}
        self._rng = np.random.default_rng(getattr(self.model, "seed", None) if self._seed is None else self._seed)
        self._running: list[Seat] | None = None
        self._resume_with_model("self_play")
        if not self.training_env.has_attr("set_opponent"):
            raise ValueError("SelfPlayCallback needs environments with set_opponent(choice), such as PvpVecEnv")

    def get_state(self) -> dict[str, Any]:
        """Where choices stand between two rollouts."""
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
        time, rows = base.trained_rollouts(self.model), self.training_env.num_envs
        self._steps_before = self.num_timesteps
        kinds = self._kinds = self._shares.divide(rows, time)
        env = self.training_env.unwrapped
        # Where environments are in other processes, theirs would be the error otherwise.
        if SELF in kinds and not isinstance(env, PvpVecEnv):
            raise ValueError(
                "both seats learn only in PvpVecEnv: use it as the training environment (rl-zoo3: --vec-env dummy) in "
                f"place of {type(env).__name__}, or leave out the share self_play"
            )
        for kind in dict.fromkeys(kind for kind in kinds if kind in self._players):
            self._players[kind].begin_rollout(base.learner(self.model), time, self._rng)
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
        self._points: dict[str, list[float]] = {kind: [] for kind in kinds if kind != SELF}
        self._past_steps: list[int] = []
        for kind, (name, _) in _COUNTS.items():
            self.logger.record(f"env/{name}", kinds.count(kind))

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        assert self._running is not None
        (kind, name), outcome = self._running[row], self._told(info, "outcome")
        if name in (None, info.get("opponent", name)):
            if outcome in SCORES and kind != SELF:  # broken fights say nothing
                self._points.setdefault(kind, []).append(SCORES[outcome])
            if kind == PAST and name is not None:
                step = self._past.record(name, outcome)
                self._past_steps += [] if step is None else [step]
        self._running[row], self._next[row] = self._next[row], self._assign(row)

    def _on_rollout_end(self) -> None:
        for kind, points in self._points.items():
            self.logger.record(f"selfplay/{kind}_matches", len(points))
            if points:
                self.logger.record(f"selfplay/{kind}_win_rate", sum(points) / len(points))
        if PAST in self._kinds:
            record_past(self.logger, self.match_maker, self._histograms)
        steps_of_a_rollout = int(getattr(self.model, "n_steps", 0)) * self.model.n_envs
        if self._past_steps and steps_of_a_rollout:
            mean = float(np.mean(self._past_steps)) / steps_of_a_rollout
            self.logger.record("selfplay/average-target-rollouts", mean, exclude="stdout")
            own = self._steps_before / steps_of_a_rollout
            self.logger.record("selfplay/average-target-rollout-difference", own - mean)

    def _assign(self, row: int) -> Seat:
        """Chooses whom the row fights after its running episode, and tells the environment."""
        kind, options = self._kinds[row], self._rows[row]
        if kind not in _ACTING:
            choice = OpponentChoice(SELF_PLAY if kind == SELF else WORLD_BOT)
        else:
            choice = (self._targets if kind == TARGET else self._players[kind]).draw(self._rng)
            # The world's bot does not act through actions.
            known = ("reset_params",) if choice.opponent == WORLD_BOT else options
            choice = replace(choice, **{name: options[name] for name in known if name in options})
        self.training_env.env_method("set_opponent", choice, indices=[row])
        return kind, choice.name


class Shares:
    """Which share of the rows each kind of opponent gets over time.

    From numbers or schedules (`sb3_pvp.schedules.parse_schedule`) for all kinds but the last, which gets what is left.
    Raises `ValueError` for a wrong schedule, or shares that are impossible at the beginning.
    """

    def __init__(self, schedules: Mapping[str, Any]) -> None:
        given = {kind: schedules[kind] for kind in KINDS[:-1]}
        self._shares = {kind: base.Scheduled(f"the share {kind!r} of opponents", given[kind], SHARE) for kind in given}
        self.at(0)

    def at(self, t: int) -> dict[str, float]:
        """The share of each kind but the last after ``t`` rollouts; raises `ValueError` if they are too many."""
        shares = {kind: share(t) for kind, share in self._shares.items()}
        if math.fsum(shares.values()) > 1 + 1e-9:  # shares may be written as decimals
            raise ValueError(f"the shares of opponents must not sum to more than 1: {shares} after {t} rollouts")
        return shares

    def divide(self, num_envs: int, t: int) -> list[str]:
        """The kind of each row, ``num_envs`` of them; shares are rounded half to even (self-play.md §1).

        Raises `ValueError` if that is impossible: rows in self-play come in pairs.
        """
        shares = self.at(t)
        counts = {kind: round(num_envs * shares[kind]) for kind in KINDS[:-1]}
        if counts[SELF] % 2:
            raise ValueError(
                f"rows in self-play come in pairs, but a share of {shares[SELF]} of {num_envs} environments is "
                f"{counts[SELF]} after {t} rollouts: choose a share or n_envs that gives an even number"
            )
        rows = [kind for kind, count in counts.items() for _ in range(count)]
        if len(rows) > num_envs:
            raise ValueError(
                f"{num_envs} environments cannot be divided by {shares}, rounded they are {counts} after {t} "
                "rollouts: choose n_envs so that the shares give whole numbers"
            )
        return rows + [BASELINE] * (num_envs - len(rows))


class OpponentOptions:
    """How the opponents of one ``kind`` play. Raises `ValueError` for an unknown option or a wrong schedule.

    The ``options`` are ``deterministic_share`` (the first rows of the kind, rounded up, meet opponents who choose
    without chance) and ``delay_chance`` (see `OpponentChoice`; an expression is drawn anew for each row in each
    rollout), both numbers or schedules; ``reset_params``, ``noise``, ``action_mask_override`` as in `OpponentChoice`.
    """

    def __init__(self, kind: str, options: Mapping[str, Any] | None = None) -> None:
        options = options or {}
        require_all_known(f"option of {kind} opponents", options, (*_SCHEDULES, *_PLAIN))
        with drawing_from(np.random.default_rng(0)):
            self._delay_chance, self._deterministic_share = (
                base.Scheduled(f"{name} of {kind} opponents", options.get(name, 0.0), SHARE) for name in _SCHEDULES
            )
        self._plain = {name: options[name] for name in _PLAIN if options.get(name) is not None}

    def of_row(self, position: int, count: int, t: int, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of `OpponentChoice` for the ``position``-th of ``count`` rows, after ``t`` rollouts."""
        with drawing_from(rng):
            delay_chance, share = self._delay_chance(t), self._deterministic_share(t)
        return {"delay_chance": delay_chance, "deterministic": position < math.ceil(count * share), **self._plain}


class LatestPlayer:
    """Gives rows the newest snapshot of a run's own learner, the same for a whole rollout.

    Players of another run have its ``label`` before their names.
    """

    def __init__(self, league: League, label: str) -> None:
        self._league, self._label = league, label

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Looks at what there is now; raises `ValueError` if there is nobody."""
        newest = max((player for player in self._known(learner) if player.name == LEARNER), default=None)
        if newest is None:
            raise ValueError(
                f"the league in {self._league.folder} has no snapshot of a learner: list LeagueCallback before "
                "SelfPlayCallback, or wait until the other run has begun"
            )
        self._newest = newest

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        """The opponent of an episode, whose name is the ``str()`` of a `Player`."""
        return self._chosen(self._newest)

    def _known(self, learner: Player) -> list[Player]:
        # A run that goes on from an earlier checkpoint finds snapshots whom its learner has yet to become.
        known = self._league.players()
        return [each for each in known if self._label or each.name != learner.name or each.age <= learner.age]

    def _chosen(self, player: Player) -> OpponentChoice:
        return OpponentChoice(self._league.opponent(player), base.named(player, self._label))


class PastPlayers(LatestPlayer):
    """Gives rows players of a league, drawn by its match maker.

    At most ``num_live`` players take part in a rollout, as each costs a batch of its own in every tick: so many draws
    of the match maker at its start, which may repeat themselves, and from which every episode takes one at random. On
    average that is the match maker's distribution; while the league has no more players, episodes ask it directly.
    How probable they were is kept in ``chances``, by name: some of their episodes end in later rollouts.
    """

    def __init__(self, league: League, label: str, num_live: int, chances: dict[str, float]) -> None:
        super().__init__(league, label)
        assert league.match_maker is not None
        self._maker, self._num_live, self._chances = league.match_maker, num_live, chances
        self._live: list[Player] = []
        self._players: dict[str, Player] = {}

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        self._maker.trained_rollouts = trained_rollouts
        for player in self._known(learner):
            self._maker.add(player)
        self._players = {base.named(player, self._label): player for player in self._maker.players}
        if not self._players:
            raise ValueError(
                f"the league in {self._league.folder} has no players: list LeagueCallback before SelfPlayCallback, "
                "it adds snapshots of the learner"
            )
        enough = len(self._players) <= self._num_live
        self._live = [] if enough else [self._league.choose(rng) for _ in range(self._num_live)]
        probabilities = self._maker.probabilities()
        met = [player for player in self._live if player in probabilities]  # the others have just lost their files
        self._chances |= {base.named(player, self._label): probabilities[player] for player in met}

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        player = self._live[rng.integers(len(self._live))] if self._live else self._league.choose(rng)
        if not self._league.path(player).is_file():
            player = self._league.choose(rng)
        return self._chosen(player)

    def record(self, name: str, learner_outcome: str) -> int | None:
        """Tells the match maker how an episode ended; gives the age of the player, in steps of its learner."""
        player = self._players.get(name)
        if player is None:
            return None
        self._maker.record(player, learner_outcome, self._chances.get(name) if self._live else None)
        return player.step


class Targets:
    """A fixed list of models and plug-ins, all equally likely; models are called by their file, see `told_apart`.

    Raises `ValueError` if two have one name, and `FileNotFoundError` for a model that is not there.
    """

    def __init__(self, targets: Sequence[Any]) -> None:
        names = []
        for target in targets:
            player, is_file = base.player_of_opponent(opponent_name(target)), is_path(target)
            if is_file and not Path(target).is_file():
                raise FileNotFoundError(f"there is no model {target} to train against")
            # This run's own snapshots are called like those of any other run's learner.
            label = base.run_name(Path(target).parent) if is_file and player.name == LEARNER else ""
            names.append(base.named(player, label))
        self.choices = [OpponentChoice(*each) for each in zip(targets, base.told_apart(targets, names), strict=True)]

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        """One of them; nothing is drawn where there is no choice."""
        return self.choices[rng.integers(len(self.choices)) if len(self.choices) > 1 else 0]


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
            logger.record(f"selfplay/past_{name}_histogram", th.from_numpy(numbers), exclude=base.ALL_BUT_TENSORBOARD)
    for name, value in figures.items():
        logger.record(f"selfplay/past_{name}", value, exclude="stdout")
