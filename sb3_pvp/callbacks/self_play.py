"""Chooses the opponents of the training environments (self-play.md §1 to §4)."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch as th
from pydantic import InstanceOf
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import FLAG, SHARE, Flag, Kind, OptionalPath, PositiveInt, Seed, checked
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.common.schedules import sampling_from
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.league import LEARNER, League, MatchMaker, Player, Prioritised
from sb3_pvp.players.league import match_maker as make_match_maker
from sb3_pvp.players.league.match_records import SCORES
from sb3_pvp.players.opponents import SELF_PLAY, WORLD_BOT, OpponentChoice, is_path, opponent_name
from sb3_pvp.policies.files.model_files import find_file
from sb3_pvp.policies.files.reading import read

SELF, PAST, TARGET, LATEST, BASELINE = "self", "past", "target", "latest", "baseline"
#: The kinds of opponents, in the order in which they are given rows: their metrics under ``env/``, with descriptions.
_ROW_COUNTS = {
    SELF: ("num_self_play", "Rows in self-play, two per fight."),
    PAST: ("num_past_self_play", "Rows against players of the league."),
    TARGET: ("num_specific_target_self_play", "Rows against the given targets."),
    LATEST: ("num_latest_target_self_play", "Rows against the newest snapshot."),
    BASELINE: ("num_baseline", "Rows against the world's baseline."),
}
METRICS = {
    **{f"env/{name}": meaning for name, meaning in _ROW_COUNTS.values()},
    "selfplay/past_num_opponents": "Number of past players that the match maker chooses from.",
    "selfplay/past_{statistic}_quality": "Quality scores of past players (if the match maker keeps them).",
    "selfplay/past_{statistic}_softmax": "Probabilities of past players to be chosen next.",
    "selfplay/past_entropy_softmax": "Entropy of the choice among past players, in bits.",
    "selfplay/past_quality_histogram": "Histogram of the quality scores (if enabled).",
    "selfplay/past_softmax_histogram": "Histogram of the probabilities to be chosen (if enabled).",
    "selfplay/average-target-rollouts": "Mean age of the past players met in this rollout, in rollouts.",
    "selfplay/average-target-rollout-difference": "Rollouts that the learner is ahead of these players, on average.",
    "selfplay/{kind}_win_rate": "Share of fights against opponents of this kind that the learner won, ties as half.",
    "selfplay/{kind}_matches": "Fights against opponents of this kind that were won, lost or tied in this rollout.",
}
KINDS = (*_ROW_COUNTS,)
#: The kinds whose opponents are agents, and so have options.
_ACTING = (PAST, TARGET, LATEST)
#: What it knows of a rollout.
_OF_ROLLOUT = ("_kinds", "_next", "_points", "_past_steps", "_steps_before")
_AS_TRAINED = "as_trained"
_SCHEDULES, _PLAIN = ("delay_chance", "deterministic_share"), ("reset_params", "noise", "action_mask_override")
#: The kind of a row's opponents, and at the time of their draw the probabilities of past players, by name.
Assignment = tuple[str, Mapping[str, float]]
_MATCH_MAKER = Kind[Any](str | InstanceOf[Mapping], "a name, or a mapping with one")  # type: ignore[type-arg]
TARGETS = Kind[Any](InstanceOf[Sequence] | InstanceOf[Path], "a list of paths of models and names of plug-ins")  # type: ignore[type-arg]


class SelfPlayCallback(base.PvpCallback):
    """Assigns rows of the environment to kinds of opponents in each rollout, and an opponent to each row.

    A row is one learning seat, an index of the ``VecEnv``. Rows are assigned in this order: ``self_play`` (both seats
    learn; `PvpVecEnv` only, an even number of rows), ``past`` (players of the league, chosen by the match maker),
    ``target`` (the list ``targets``), ``latest`` (the newest snapshot); the remaining rows fight the world's baseline.
    When a row changes its kind, its running fight is finished first, unless either kind is ``self_play``.

    Opponents are set at the start of a rollout, from the next episode of each row on, so that actors can play without
    this callback; rows that are side by side share opponents, so that few models act in each actor. Works with any
    ``VecEnv``, also with subprocesses, whose environments have ``set_opponent`` and report ``opponent`` and ``outcome``
    at the end of episodes. List a `LeagueCallback`, which adds snapshots to the league, before this callback. `PvpPPO`
    and `DreamerV3` save its state, so that an exactly resumed run makes the same choices.

    Args:
        self_play, past, target, latest: shares of the rows, numbers or schedules over trained rollouts.
        targets: paths of models, and names of fighters and plug-ins, all equally likely.
        match_maker: for past players: a name of `sb3_pvp.players.league.match_maker`, or ``{"name": ...}`` with its
            settings.
        num_live_opponents: largest number of past players in one rollout, see `PastPlayers`.
        opponent_options: ``{kind: options}`` for the kinds past, target and latest, see `OpponentOptions`.
        past_of, latest_of: folder of another run, or of its league, to take these players from; default: this run.
        directory: of the league; default: ``league`` in the run folder.
        seed: of the choices; ``None``: that of the model, or a random one if it has none.
        histograms: also log histograms of qualities and probabilities.
    """

    @checked
    def __init__(
        self,
        self_play: Any = 0.0,
        past: Any = 0.0,
        target: Any = 0.0,
        latest: Any = 0.0,
        targets: Annotated[str | Path | Sequence[Any], TARGETS] = (),
        match_maker: Annotated[str | Mapping[str, Any], _MATCH_MAKER] = "prioritised",
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
        self._targets = Targets.of(targets, target)
        maker = {"name": match_maker} if isinstance(match_maker, str) else dict(match_maker)
        self.match_maker = make_match_maker(maker.pop("name", "prioritised"), **maker)
        self._num_live, self._directory, self._seed = num_live_opponents, directory, seed
        self._past_of, self._latest_of, self._histograms = past_of, latest_of, histograms

    def _init_callback(self) -> None:
        league = base.shared_league(self.model, self._directory)
        if self._past_of is None and base.trained_rollouts(self.model) > 0:
            League(league.folder, self.match_maker)  # restores the match maker's state from the league's settings
        past, latest = (
            (league, "") if folder is None else (other := League.existing(Path(folder)), base.run_name(other.folder))
            for folder in (self._past_of, self._latest_of)
        )
        # Only this run's league saves the state of its match maker; another run's folder is not written to.
        past[0].match_maker = self.match_maker
        self._past = PastPlayers(*past, self._num_live, self._options[PAST].as_trained)
        self._sources: dict[str, OpponentSource] = {
            SELF: OpponentSource([OpponentChoice(SELF_PLAY)]),
            PAST: self._past,
            TARGET: self._targets,
            LATEST: LatestPlayer(*latest),
            BASELINE: OpponentSource([OpponentChoice(WORLD_BOT)]),
        }
        self._rng = np.random.default_rng(getattr(self.model, "seed", None) if self._seed is None else self._seed)
        self._running: list[Assignment] | None = None
        self._is_amid = False  # whether a rollout has begun, also one that is resumed
        self._resume_with_model("self_play")
        if not self.training_env.has_attr("set_opponent"):
            raise ValueError("SelfPlayCallback needs environments with set_opponent(choice), such as PvpVecEnv")

    def get_state(self) -> dict[str, Any]:
        """Returns the random state, the match maker's state and the kinds of opponents of the running episodes.

        In the middle of a rollout also what is known of that.
        """
        names = _OF_ROLLOUT if self._is_amid else ()
        return {
            "rollout": {name: copy.deepcopy(getattr(self, name)) for name in names},
            "random": copy.deepcopy(self._rng.bit_generator.state),
            "match_maker": self.match_maker.get_state(),
            "running": copy.copy(self._running),
        }

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned; unless the episodes continue, all rows get new opponents."""
        self.match_maker.set_state(state["match_maker"])
        self._rng.bit_generator.state = state["random"]
        running, earlier = state["running"] if same_episodes else None, state.get("chances", {})
        # Files of earlier versions have names instead of probabilities, and all probabilities in one place, if at all.
        self._running = running and [(kind, more if isinstance(more, dict) else earlier) for kind, more in running]
        known = state.get("rollout", {}) if same_episodes else {}
        vars(self).update(known)
        self._is_amid = bool(known)

    def _on_rollout_start(self) -> None:
        self.match_maker.trained_rollouts = base.trained_rollouts(self.model)
        if not self._is_amid:  # else it was resumed there
            self._begin_rollout()
            self._is_amid = True
        for kind, (name, _) in _ROW_COUNTS.items():
            self.logger.record(f"env/{name}", self._kinds.count(kind))

    def _begin_rollout(self) -> None:
        time, rows = base.trained_rollouts(self.model), self.training_env.num_envs
        self._steps_before = int(self.model.num_timesteps)
        kinds = self._kinds = self._shares.divide(rows, time)
        env = self.training_env.unwrapped
        # Checked here, because environments in subprocesses would raise a less helpful error.
        if SELF in kinds and not isinstance(env, PvpVecEnv):
            raise ValueError(
                f"self_play needs a PvpVecEnv, got {type(env).__name__}: use it as the training environment (rl-zoo3: "
                "--vec-env dummy), or set self_play to 0"
            )
        for kind in dict.fromkeys(kinds):
            self._sources[kind].begin_rollout(base.learner(self.model), time, self._rng)
        for opponent, own in self._opponents(time):
            self.training_env.env_method("set_opponent", opponent, indices=own)
        self._next: list[Assignment] = [(kind, self._past.chances) for kind in kinds]
        if self._running is None:  # the running episodes began before this callback chose opponents
            # As SB3's _setup_learn does; the new episodes have the opponents that were just set.
            self.model._last_obs = self.training_env.reset()  # type: ignore[assignment]
            self.model._last_episode_starts = np.ones(rows, bool)
            self._running = [*self._next]
        # Fights of a kind that a row had before may still end in this rollout, see `_on_episode`.
        self._points: dict[str, list[float]] = {kind: [] for kind in kinds if kind != SELF}
        self._past_steps: list[int] = []

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        assert self._running is not None
        name, outcome = (self._required_info(info, key) for key in ("opponent", "outcome"))
        (kind, chances), self._running[row] = self._running[row], self._next[row]
        if outcome in SCORES and kind != SELF:  # broken fights have no score
            self._points.setdefault(kind, []).append(SCORES[outcome])
        if kind == PAST and (step := self._past.record(name, outcome, chances.get(name))) is not None:
            self._past_steps.append(step)

    def _on_rollout_end(self) -> None:
        self._is_amid = False
        for kind, points in self._points.items():
            self.logger.record(f"selfplay/{kind}_matches", len(points))
            if points:
                self.logger.record(f"selfplay/{kind}_win_rate", sum(points) / len(points))
        if PAST in self._kinds:
            record_past(self.logger, self.match_maker, self._histograms)
        rollout_steps = int(getattr(self.model, "n_steps", 0)) * self.model.n_envs
        if self._past_steps and rollout_steps:
            mean = float(np.mean(self._past_steps)) / rollout_steps
            self.logger.record("selfplay/average-target-rollouts", mean, exclude="stdout")
            own = self._steps_before / rollout_steps
            self.logger.record("selfplay/average-target-rollout-difference", own - mean)

    def _opponents(self, time: int) -> list[tuple[OpponentChoice, list[int]]]:
        """Returns what is played against in this rollout, each with its rows."""
        # Rows with the same options share the object, so that an environment loads it only once.
        shared: dict[tuple[Any, ...], tuple[OpponentChoice, list[int]]] = {}
        rows = iter(range(len(self._kinds)))  # kinds have their rows side by side
        for kind in dict.fromkeys(self._kinds):
            count = self._kinds.count(kind)
            choices = self._sources[kind].divide(count, self._rng)
            options = self._options[kind].of_rows(count, time, self._rng) if kind in _ACTING else [{}] * count
            for choice, own in zip(choices, options, strict=True):
                # The other options are the same for all rows of a kind.
                key = (kind, id(choice), own.get("delay_chance"), own.get("deterministic"))
                if key not in shared:
                    # The world plays its bot itself, by no options but these.
                    names = ("reset_params",) if choice.opponent == WORLD_BOT else own
                    shared[key] = replace(choice, **{name: own[name] for name in names if name in own}), []
                shared[key][1].append(next(rows))
        return [*shared.values()]


class Shares:
    """The shares of the rows that each kind of opponent gets over time.

    ``schedules`` has numbers or schedules (`sb3_pvp.common.schedules.parse_schedule`) for all kinds but the last, which
    gets the rest. Raises `ValueError` for an invalid schedule, or if the initial shares sum to more than 1.
    """

    def __init__(self, schedules: Mapping[str, Any]) -> None:
        what = "the share {!r} of opponents"
        self._shares = {kind: base.Scheduled(what.format(kind), schedules[kind], SHARE) for kind in KINDS[:-1]}
        self._are_steady = all(isinstance(schedules[kind], (int, float)) for kind in KINDS[:-1])
        self.at(0)

    def at(self, t: int) -> dict[str, float]:
        """Returns the share of each kind but the last after ``t`` rollouts; raises `ValueError` if they exceed 1."""
        shares = {kind: share(t) for kind, share in self._shares.items()}
        if math.fsum(shares.values()) > 1 + 1e-9:  # tolerates rounding errors of decimals
            raise ValueError(f"the shares of opponents must not sum to more than 1: {shares} after {t} rollouts")
        return shares

    def divide(self, num_envs: int, t: int) -> list[str]:
        """Returns the kind of each of ``num_envs`` rows, rounding shares half to even (self-play.md §1).

        Raises `ValueError` if the rounded counts exceed ``num_envs``, or if self-play gets an odd number of rows. While
        shares change, such counts cannot be avoided: self-play has one less then, and the last kinds what is left.
        """
        shares = self.at(t)
        counts = {kind: round(num_envs * shares[kind]) for kind in KINDS[:-1]}
        if not self._are_steady:
            counts[SELF] -= counts[SELF] % 2
        elif counts[SELF] % 2:
            raise ValueError(
                f"self-play needs an even number of rows, but a share of {shares[SELF]} of {num_envs} environments is "
                f"{counts[SELF]} after {t} rollouts: change the share or n_envs"
            )
        elif sum(counts.values()) > num_envs:
            raise ValueError(
                f"the shares {shares} of {num_envs} environments are rounded to {counts} after {t} rollouts, which is "
                "too many: choose n_envs so that the shares give whole numbers"
            )
        rows = [kind for kind, count in counts.items() for _ in range(count)][:num_envs]
        return rows + [BASELINE] * (num_envs - len(rows))


class OpponentOptions:
    """Options for how the opponents of one ``kind`` play.

    ``deterministic_share`` (opponents of this share of the kind's rows, rounded up, act deterministically) and
    ``delay_chance`` (see `OpponentChoice`; a random expression is sampled for each row and rollout) are numbers or
    schedules; ``reset_params``, ``noise`` and ``action_mask_override`` are as in `OpponentChoice`. Past opponents also
    have ``as_trained``: fights begin as in the opponent's own training, such as that of a response in one build. Raises
    `ValueError` for an unknown option or an invalid schedule.
    """

    def __init__(self, kind: str, options: Mapping[str, Any] | None = None) -> None:
        options = options or {}
        of_kind = (_AS_TRAINED,) if kind == PAST else ()
        require_all_known(f"option of {kind} opponents", options, (*_SCHEDULES, *_PLAIN, *of_kind))
        self.as_trained = FLAG.read(f"{_AS_TRAINED} of {kind} opponents", options.get(_AS_TRAINED, False))
        with sampling_from(np.random.default_rng(0)):
            self._delay_chance, self._deterministic_share = (
                base.Scheduled(f"{name} of {kind} opponents", options.get(name, 0.0), SHARE) for name in _SCHEDULES
            )
        self._plain = {name: options[name] for name in _PLAIN if options.get(name) is not None}

    def of_rows(self, count: int, t: int, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Returns for each of ``count`` rows arguments of `OpponentChoice`, after ``t`` rollouts."""
        with sampling_from(rng):
            num_deterministic = math.ceil(count * self._deterministic_share(t))
            return [
                {"delay_chance": self._delay_chance(t), "deterministic": position < num_deterministic, **self._plain}
                for position in range(count)
            ]


class OpponentSource:
    """The opponents of one kind: ``choices``, with ``probabilities`` (``None``: all equal)."""

    probabilities: Sequence[float] | None = None

    def __init__(self, choices: Sequence[OpponentChoice] = ()) -> None:
        self.choices = choices

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Chooses the opponents of this rollout; raises `ValueError` if there are none."""

    def divide(self, count: int, rng: np.random.Generator) -> list[OpponentChoice]:
        """Returns the opponents of ``count`` rows side by side, in proportion to their probabilities.

        This is systematic sampling: the rows are evenly spread over the cumulative distribution, from a random point
        on, with the choices in random order. Each row's opponent has the given probabilities, as rounding is by chance.
        """
        if len(self.choices) == 1:
            return [*self.choices] * count
        order = rng.permutation(len(self.choices))
        weights = np.ones(len(order)) if self.probabilities is None else np.array(self.probabilities, float)[order]
        points = (np.arange(count) + rng.random()) / count * weights.sum()
        places = np.searchsorted(np.cumsum(weights)[:-1], points, side="right")
        return [self.choices[place] for place in order[places].tolist()]


class LatestPlayer(OpponentSource):
    """The newest snapshot of a run's learner, the same one for a whole rollout.

    ``label`` is prefixed to the names of players if the league is that of another run, else it is empty.
    """

    def __init__(self, league: League, label: str) -> None:
        super().__init__()
        self._league, self._label = league, label

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Implements `OpponentSource.begin_rollout`."""
        newest = max((player for player in self._available(learner) if player.name == LEARNER), default=None)
        if newest is None:
            raise ValueError(
                f"the league in {self._league.folder} has no snapshot of a learner: list LeagueCallback before "
                "SelfPlayCallback, or, for another run, wait until it has begun"
            )
        self.choices = [self._as_choice(newest)]

    def _available(self, learner: Player) -> list[Player]:
        # If a run resumes from an earlier checkpoint, its league has snapshots of its own future.
        players = self._league.players()
        return [each for each in players if self._label or each.name != learner.name or each.age <= learner.age]

    def _as_choice(self, player: Player) -> OpponentChoice:
        return OpponentChoice(self._league.opponent(player), base.labelled_name(player, self._label))


class PastPlayers(LatestPlayer):
    """Players of a league, with the probabilities of its match maker at the start of a rollout.

    Each different player in a rollout costs a forward pass per tick. If the league has more than ``num_live`` players,
    the match maker therefore samples ``num_live`` of them, with replacement, at the start of a rollout, among whom the
    rows are divided. On average this gives the match maker's distribution. ``as_trained``: fights begin as in their own
    training, where their files record that.
    """

    def __init__(self, league: League, label: str, num_live: int, as_trained: bool = False) -> None:
        super().__init__(league, label)
        assert league.match_maker is not None
        self._as_trained = as_trained
        self._maker, self._num_live = league.match_maker, num_live
        self.chances: dict[str, float] = {}  #: What the match maker gives each of the choices, by name.

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Adds new players to the match maker, removes those that are gone, and samples some if there are too many."""
        maker = self._maker
        maker.trained_rollouts = trained_rollouts
        for player in self._available(learner):
            maker.add(player)
        self._league.remove_gone(maker)
        if not maker.players:
            raise ValueError(
                f"the league in {self._league.folder} has no players: list LeagueCallback before SelfPlayCallback, "
                "so that snapshots of the learner are added to it"
            )
        chances = maker.probabilities()
        drawn: Mapping[Player, float] = chances
        if len(chances) > self._num_live:
            drawn = Counter(maker.choose(rng) for _ in range(self._num_live))
        self.choices, self.probabilities = [*map(self._as_choice, drawn)], [*drawn.values()]
        self.chances = {base.labelled_name(player, self._label): chances[player] for player in drawn}

    def _as_choice(self, player: Player) -> OpponentChoice:
        choice = super()._as_choice(player)
        return replace(choice, fight_params=_trained_params(choice.opponent)) if self._as_trained else choice

    def record(self, name: str, learner_outcome: str, chance: float | None) -> int | None:
        """Reports an outcome and the chance at the draw (``None``: the present one); returns the player's step."""
        player = base.player_of_opponent(name.removeprefix(f"{self._label}." if self._label else ""))
        self._maker.record(player, learner_outcome, chance)
        return player.step


class Targets(OpponentSource):
    """A fixed list of models and plug-ins, all equally likely; models are named after their files (`unique_names`).

    Raises `ValueError` if two opponents share a name, and `FileNotFoundError` for a model that does not exist.
    """

    def __init__(self, targets: Sequence[Any]) -> None:
        names = []
        for target in targets:
            player, is_file = base.player_of_opponent(opponent_name(target)), is_path(target)
            if is_file:
                find_file(target)  # raises if there is none
            # Snapshots have the same name in every run: without a label this one would pass for this run's learner.
            label = base.run_name(Path(target).parent) if is_file and player.name == LEARNER else ""
            names.append(base.labelled_name(player, label))
        unique = base.unique_names(targets, names)
        super().__init__([OpponentChoice(*each) for each in zip(targets, unique, strict=True)])

    @classmethod
    def of(cls, targets: str | Path | Sequence[Any], share: Any) -> Targets:
        """Returns those that a user gives, one or several; `ValueError` if there is a ``share`` for none."""
        if not targets and share != 0:
            raise ValueError("a share of target opponents needs targets: paths of models or names of plug-ins")
        return cls([targets] if isinstance(targets, (str, Path)) else list(targets))


@cache
def _trained_params(path: str) -> dict[str, Any] | None:
    """The reset parameters with which a model of a league was trained; ``None`` if its file does not record them."""
    return read(path, safe=True).description.reset_params if is_path(path) else None


def record_past(logger: Logger, match_maker: MatchMaker, histograms: bool) -> None:
    """Logs the match maker's statistics of past players."""
    chances = np.array(list(match_maker.probabilities().values()))
    values = {"softmax": chances}  # the reference's name for the probabilities, whatever the match maker
    if isinstance(match_maker, Prioritised):
        values["quality"] = np.array(list(match_maker.qualities().values()))
    logger.record("selfplay/past_num_opponents", len(match_maker.players), exclude="stdout")
    # The small number: finite where a chance is 0.
    entropy = float(-(chances * np.log2(chances + 1e-10)).sum())
    logger.record("selfplay/past_entropy_softmax", entropy, exclude="stdout")
    for name, numbers in values.items():
        for statistic in ("mean", "min", "max", "std", "median") if numbers.size else ():
            number = float(getattr(np, statistic)(numbers))
            logger.record(f"selfplay/past_{statistic}_{name}", number, exclude="stdout")
        if histograms:
            logger.record(f"selfplay/past_{name}_histogram", th.from_numpy(numbers), exclude=base.ALL_BUT_TENSORBOARD)
