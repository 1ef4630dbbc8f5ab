"""Evaluates the learner against fixed opponents: win rates, and a rating among them (self-play.md §5, §6)."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import SkipValidation
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import NUMBER, Flag, Kind, OptionalMapping, OptionalPath, PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.common.waiting import ProgressLines, WaitedTooLong, wait_for, waiting
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.matches.evaluation import (
    EVALUATION_SEED,
    EvaluationFights,
    FinishedEpisode,
    Score,
    play_elsewhere,
    wilson_interval,
)
from sb3_pvp.players.league import LEARNER, League, Payoff, Player
from sb3_pvp.players.league.bradley_terry import fit_bradley_terry
from sb3_pvp.players.league.payoff import Counts
from sb3_pvp.players.opponents import (
    OpponentChoice,
    make_opponent,
    opponent_name,
    playing_like,
)
from sb3_pvp.policies.files.model_files import save_weights
from sb3_pvp.policies.files.shipped import MODEL_SUFFIXES, shipped_file

#: The opponent's name for the strongest player in the league at the time of an evaluation.
BEST = "best"

_STATISTICS = {
    "win_rate": "Share of fights that the learner won.",
    "win_rate_low": "Lower end of the 95 % interval of the win rate.",
    "win_rate_high": "Upper end of the 95 % interval of the win rate.",
    "lose_rate": "Share of fights that the learner lost.",
    "tie_rate": "Share of fights that were tied.",
    "mean_episode_reward": "Mean raw reward of a fight.",
    "mean_episode_length": "Mean length of a fight, in ticks.",
    "broken_fights": "Fights that were broken off; they count in no other metric.",
}
_RATING = {
    "elo": "Elo rating of the learner, given `ratings` of opponents.",
    "elo_low": "Lower end of the 95 % interval of this rating.",
    "elo_high": "Upper end of the 95 % interval of this rating.",
}
_AVERAGE = "average_"  #: In front of names, where the averaged policy is evaluated.
METRICS = (
    {f"eval/{{opponent}}/{name}": f"{text[:-1]}, against this opponent." for name, text in _STATISTICS.items()}
    | {f"eval/{name}": text for name, text in _RATING.items()}
    | {f"eval/{_AVERAGE}{name}": f"{text[:-1]}, of the averaged policy." for name, text in _RATING.items()}
)
_COLUMNS = ("steps", "rollouts", "opponent", "player", "fights", *_STATISTICS)
#: A separate environment for evaluation, or its differences from the training environment.
EvaluationEnv = SkipValidation[VecEnv | Mapping[str, Any] | None]
#: Whether to evaluate in another process while the training goes on.
Background = Annotated[bool | str, Kind[Any](bool | Literal["auto"], 'true, false or "auto"')]
_NONE = -1  #: In place of the number of a rollout, before the first one of a training.


@dataclass(frozen=True)
class Evaluation:
    """Fights of the learner as it was at some step."""

    steps: int
    rollout: int
    choices: list[OpponentChoice]  #: The opponent of each fight.
    deterministic: bool
    seed: int
    about: dict[str, OpponentChoice]  #: The opponents by their names in tags.
    weights: bytes = b""  #: Content of the learner's model file, for evaluation in the background.


class Pending(NamedTuple):
    """An evaluation that is under way."""

    plan: Evaluation
    future: Future[Any]
    played: dict[int, dict[str, Any]]  #: By number of the fight, in the order of ends.


class WinRateEvalCallback(base.PvpCallback):
    """Evaluates the learner against fixed opponents, in a separate environment; training is not affected.

    Win rates, with their 95 % Wilson intervals, are logged as ``eval/{opponent}/...`` and written to ``win_rates.csv``
    in the run folder. If a resumed run repeats an evaluation, it replaces the earlier result.

    In the background, a worker process fights with a copy of the learner while the training goes on, and results are
    recorded at the start of the first rollout after their arrival. The next evaluation waits for the last one, and so
    does the end of training. A checkpoint contains an evaluation that is under way, which is played again when the run
    resumes.

    Args:
        opponents: names of bots and fighters, paths of models, players of the run's league such as ``"main@0"``, and
            ``"best"``: the player whose rating interval has the highest lower end. Players that do not exist yet are
            skipped.
        eval_freq: rollouts between evaluations; the first is at the start of training, the last at its end.
        n_eval_episodes: fights against each opponent.
        deterministic: whether the learner acts deterministically.
        opponent_deterministic: whether opponents that are models do; default: like the learner.
        n_envs: largest number of parallel environments.
        env: a ``VecEnv`` whose environments have ``set_opponent``; or arguments in which a new `PvpVecEnv` differs from
            the training environment, such as ``{"reset_params": {...}}``.
        directory: of the league; default: ``league`` in the run folder.
        verbose: 1: print the win rates.
        background: evaluate in another process while the training goes on; ``"auto"``: if there is more than one core,
            in the embedded world. ``win_rates.csv`` has the steps of the evaluated model.
        ratings: fixed Elo ratings of some of the opponents, such as ``{"scripted": 1510}``: the learner's own among
            them is logged as ``eval/elo``, the Bradley-Terry rating that fits the fights of an evaluation best.
        average: evaluate the averaged policy, which a `PvpPPO` with ``ema_decay`` has; logged as
            ``eval/average_{opponent}/...`` and in ``average_win_rates.csv``. To see both, take this callback twice.
    """

    @checked
    def __init__(
        self,
        opponents: SkipValidation[str | Path | Sequence[str | Path]] = ("baseline",),
        eval_freq: PositiveInt = 50,
        n_eval_episodes: PositiveInt = 100,
        deterministic: Flag = False,
        n_envs: PositiveInt = 64,
        env: EvaluationEnv = None,
        directory: OptionalPath = None,
        verbose: bool | int = 0,
        background: Background = "auto",
        opponent_deterministic: Flag | None = None,
        ratings: OptionalMapping = None,
        average: Flag = False,
    ) -> None:
        super().__init__(verbose)
        self._prefix = _AVERAGE if average else ""
        self._eval_freq, self._n_eval_episodes = eval_freq, n_eval_episodes
        self._fights, self._background = EvaluationFights(env, n_envs), background
        if background is True and isinstance(env, VecEnv):
            raise ValueError("evaluation in the background needs an env that can be made elsewhere: pass its arguments")
        self._pool: WorkerPool | None = None
        self._pending: Pending | None = None
        listed: list[Any] = list(opponents) if isinstance(opponents, (list, tuple)) else [opponents]
        if not listed or not all(isinstance(each, (str, Path)) for each in listed):
            raise ValueError(f"opponents must be names of bots, paths of models, or 'best', got {opponents!r}")
        names = base.unique_names(listed, [opponent_name(opponent) for opponent in listed])
        #: Names of opponents in tags.
        self._labels = {
            each: self._prefix + re.sub(r"\W+", "_", name) for each, name in zip(listed, names, strict=True)
        }
        require_all_known("opponent with a rating", ratings or (), [*map(str, listed)])
        rated = {each: (ratings or {}).get(str(each)) for each in listed}
        #: Ratings of opponents that have one, by their names in tags.
        self._ratings = {
            self._labels[each]: NUMBER.read(f"the rating of {each}", rating)
            for each, rating in rated.items()
            if rating is not None
        }
        self._deterministic, self._opponent_deterministic = deterministic, opponent_deterministic
        self._directory = directory

    def _init_callback(self) -> None:
        self._rollout = self._evaluated = _NONE
        self._pending = None
        base.averaged(self.model, bool(self._prefix))  # raises now, not after the first rollouts
        self._path = base.path_in_run(self.model, None, f"{self._prefix}win_rates.csv")
        base.check_same_run(self.model, self._path, (int(row["steps"]) for row in read_rows(self._path)))
        if any(map(_is_league_player, self._labels)):
            self._league = base.shared_league(self.model, self._directory)
        self._resume_with_model(f"{self._prefix}win_rates")

    def _on_rollout_start(self) -> None:
        self._rollout = base.trained_rollouts(self.model)
        self._finish(wait=(is_due := self._rollout % self._eval_freq == 0))
        if is_due:
            self._evaluated = self._rollout
            self._evaluate()

    def _on_training_end(self) -> None:
        # Also called after an interruption, and possibly twice: only a newly trained model is evaluated, or one of a
        # run that was stopped while it waited for that, which is resumed without another rollout.
        rollout, last = base.trained_rollouts(self.model), self._evaluated
        if rollout != last or self._pending is not None:
            self._rollout = self._evaluated = rollout
            self._finish(wait=True)
            is_known = last == _NONE and str(rollout) in {row["rollouts"] for row in read_rows(self._path)}
            if rollout != last and not is_known:
                self._evaluate()
                self._finish(wait=True)
            self.logger.dump(int(self.model.num_timesteps))  # SB3 dumps nothing after the last rollout
        self._fights.close()
        self._close_pool()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def get_state(self) -> dict[str, Any]:
        """Returns an evaluation that is under way, if there is one."""
        return {} if self._pending is None else {"evaluation": self._pending.plan}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Begins an evaluation again that was under way."""
        if "evaluation" in state and (arguments := self._fights.arguments(self.training_env)) is not None:
            self._start(state["evaluation"], arguments)

    def _evaluate(self) -> None:
        """Evaluates the learner as it is now, or begins to do so in the background."""
        plan, model = self._plan(), cast("Any", self.model)
        arguments = self._fights.arguments(self.training_env)
        if arguments is not None and self._is_in_background(arguments):
            if self._pool is None:  # the first time, complain about wrong opponents at once
                settings = self.training_env.get_attr("settings", indices=[0])[0]
                for choice in {id(each): each for each in plan.choices}.values():
                    make_opponent(choice.opponent, settings.world_contract, settings.game)
            with base.averaged(model, bool(self._prefix)):
                save_weights(model, content := BytesIO())
            self._start(replace(plan, weights=content.getvalue()), arguments)
        else:
            show = ProgressLines(f"evaluating after {plan.steps} steps", len(plan.choices)).show
            with waiting(), base.averaged(model, bool(self._prefix)):
                played = self._fights.play(model, plan.choices, plan.deterministic, plan.seed, show)
            self._record(plan, played)

    def _plan(self) -> Evaluation:
        """Returns fights against all opponents that exist now."""
        resolved = ((label, self._resolve(opponent)) for opponent, label in self._labels.items())
        choices = {label: choice for label, choice in resolved if choice is not None}
        fights = [choice for choice in choices.values() for _ in range(self._n_eval_episodes)]
        # SB3 tells callbacks the steps of a checkpoint until the first step: it may be of the middle of a rollout.
        steps = int(self.model.num_timesteps)
        # Always the same seeds, so that evaluations differ by the learner only.
        return Evaluation(steps, self._rollout, fights, self._deterministic, EVALUATION_SEED, about=choices)

    def _is_in_background(self, arguments: Mapping[str, Any]) -> bool:
        is_auto = self._background == "auto"
        return num_cores() > 1 and arguments.get("world") == "sim" if is_auto else bool(self._background)

    def _start(self, plan: Evaluation, arguments: Mapping[str, Any]) -> None:
        """Lets a worker play; a run that resumes where there is none for it plays in this process, with its weights."""
        given = plan.weights, arguments, self._fights.num_envs, plan.choices, plan.deterministic, plan.seed
        if not self._is_in_background(arguments):
            self._record_played(plan, dict(play_elsewhere(*given)))
            return
        self._pool = self._pool or WorkerPool(1, "evaluation")
        played = dict[int, dict[str, Any]]()
        future = self._pool.submit(play_elsewhere, *given, each=lambda found: played.setdefault(*found))
        self._pending = Pending(plan, future, played)

    def _record_played(self, plan: Evaluation, played: Mapping[int, dict[str, Any]]) -> None:
        self._record(plan, [FinishedEpisode(plan.choices[number], info) for number, info in played.items()])

    def _finish(self, wait: bool) -> None:
        """Records the evaluation in the background, if there is one, when it is over; a signal leaves it pending."""
        pending = self._pending
        if pending is None or not (wait or pending.future.done()):
            return
        plan, future, played = pending
        text = f"waiting for the evaluation after {plan.steps} steps (Ctrl-C ends this)"
        try:
            wait_for(future, text, played.__len__, len(plan.choices))
            self._pending = None
            future.result()
        except (WorkerDied, WaitedTooLong) as error:  # not worth the training
            self._pending = None
            self._close_pool()  # a job that hangs would keep the next ones waiting
            text = f"the evaluation after {plan.steps} steps is lost: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            self._record_played(plan, played)

    def _record(self, plan: Evaluation, finished: list[FinishedEpisode]) -> None:
        """Logs the results and adds them to ``win_rates.csv``."""
        # Later rows are of a run that was killed after the checkpoint from which this one resumed, or, up to now, of
        # another callback's opponents.
        now, own = int(self.model.num_timesteps), {*self._labels.values()}
        rows = [
            row
            for row in read_rows(self._path)
            if int(row["steps"]) < plan.steps or (row["opponent"] not in own and int(row["steps"]) <= now)
        ]
        for label, choice in plan.about.items():
            results = summarize([each for each in finished if each.choice is choice])
            for name, value in results.items():
                self.logger.record(f"eval/{label}/{name}", value, exclude=() if name == "win_rate" else "stdout")
            row = (plan.steps, plan.rollout, label, choice.label, self._n_eval_episodes, *results.values())
            rows.append(dict(zip(_COLUMNS, row, strict=True)))
            if self.verbose:
                print(f"{plan.steps} steps, against {choice.label}: won {results['win_rate']:.1%}")
        self._log_rating(plan, finished)
        with replacing(self._path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda row: int(row["steps"])))

    def _log_rating(self, plan: Evaluation, finished: list[FinishedEpisode]) -> None:
        """Logs the learner's rating among the opponents that have one."""
        payoff, own, anchors = Payoff(), Player(LEARNER), dict[Player, float]()
        for number, (label, rating) in enumerate(self._ratings.items()):
            if label in plan.about:
                score = _score_of([each for each in finished if each.choice is plan.about[label]])
                if score.decided:
                    # Not by its label: that of a checkpoint is no player's name.
                    anchors[opponent := Player(f"opponent{number}")] = rating
                    payoff.add(own, opponent, Counts(score.wins, score.ties, score.losses))
        if anchors:
            found = fit_bradley_terry(payoff, anchors=anchors).intervals()[own]
            for name, value in zip(("elo", "elo_low", "elo_high"), found, strict=True):
                self.logger.record(f"eval/{self._prefix}{name}", value, exclude=() if name == "elo" else "stdout")

    def _resolve(self, opponent: str | Path) -> OpponentChoice | None:
        """Returns the opponent to play against now; ``None`` for a player that is not in the league (yet)."""
        choice = OpponentChoice(opponent)
        if _is_league_player(opponent):
            player = strongest(self._league) if opponent == BEST else Player.parse(str(opponent))
            if player is None or not self._league.path(player).is_file():
                return None
            choice = OpponentChoice(self._league.opponent(player), str(player))
        return playing_like(choice, self._deterministic, self._opponent_deterministic)


def strongest(league: League) -> Player | None:
    """Returns the league's player with a model whose rating interval has the highest lower end, if there is any."""
    models = set(league.players())
    rated = [(each.low, player) for each in league.leaderboard() if (player := Player.parse(each.player)) in models]
    return max(rated, key=lambda each: each[0], default=(0.0, None))[1]


def summarize(finished: Sequence[FinishedEpisode]) -> dict[str, float]:
    """Returns the statistics of these fights by name (``win_rate``, ...), from the learner's point of view."""
    score = _score_of(finished)
    shares = [count / max(score.decided, 1) for count in (score.losses, score.ties, score.reward, score.ticks)]
    low, high = wilson_interval(score.wins, score.decided)
    return dict(zip(_STATISTICS, (score.win_rate, low, high, *shares, score.broken), strict=True))


def _score_of(finished: Sequence[FinishedEpisode]) -> Score:
    score = Score()
    for each in finished:
        score.count(each.info)
    return score


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a CSV file by column; none if the file does not exist."""
    return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []


def _is_league_player(opponent: str | Path) -> bool:
    """Whether this is ``"best"`` or a player's name, such as ``"main@0"``, rather than a bot or a model's path."""
    if not isinstance(opponent, str) or opponent.endswith(MODEL_SUFFIXES):
        return False
    return opponent == BEST or ("@" in opponent and shipped_file(opponent) is None)
