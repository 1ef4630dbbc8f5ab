"""How often the learner beats opponents who do not change, and how strong it is among them (self-play.md §5, §6)."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import InstanceOf, SkipValidation
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks import base
from sb3_pvp.common.arguments import NUMBER, Flag, Kind, NonNegativeInt, OptionalPath, PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.matches.evaluation import EVALUATION_SEED, EvaluationFights, Finished, Score, wilson_interval
from sb3_pvp.opponents.opponents import OpponentChoice, known_opponents, opponent_name
from sb3_pvp.selfplay import LEARNER, Elo, League, Player

#: The league's strongest player, when it is evaluated.
BEST = "best"
#: The rating of a reference without one, and of the learner at first.
INITIAL = 1500.0

_FIGURES = {
    "win_rate": "Share of the fights that the learner won.",
    "win_rate_low": "Lower end of the 95 % interval of this share.",
    "win_rate_high": "Upper end of the 95 % interval of this share.",
    "lose_rate": "Share of the fights that it lost.",
    "tie_rate": "Share of the fights that nobody won.",
    "mean_episode_reward": "Mean raw reward of a fight.",
    "mean_episode_length": "Mean length of a fight, in ticks.",
    "broken_fights": "Fights that broke off, and count nowhere else.",
}
METRICS = {f"eval/{{opponent}}/{name}": f"{text[:-1]}, against this opponent." for name, text in _FIGURES.items()}
REFERENCE_METRICS = {
    "reference/elo": "Elo rating of the learner among the references, whose ratings are frozen.",
    "reference/average-match": "Mean rating of the references that it fought this time.",
    "reference/win_rate": "Share of these fights that it won, ties as half.",
    "reference/matches": "Fights that were decided or tied.",
}
_COLUMNS = ("steps", "rollouts", "opponent", "player", "fights", *_FIGURES)
#: An environment of an evaluation's own, or what is different in it.
EvaluationEnv = SkipValidation[VecEnv | Mapping[str, Any] | None]
_FOLDER = Kind[Any](str | InstanceOf[os.PathLike], "the path of a folder")  # type: ignore[type-arg]


class EvaluationCallback(base.PvpCallback):
    """Lets the learner play ``n_eval_episodes`` fights (`EvaluationFights`) every ``eval_freq`` rollouts."""

    def __init__(self, eval_freq: int, n_eval_episodes: int, n_envs: int, env: Any, verbose: int) -> None:
        super().__init__(verbose)
        self._eval_freq, self._n_eval_episodes = eval_freq, n_eval_episodes
        self._fights = EvaluationFights(env, n_envs)

    def _init_callback(self) -> None:
        self._rollout = base.trained_rollouts(self.model)

    def _on_rollout_start(self) -> None:
        self._rollout = base.trained_rollouts(self.model)
        if self._rollout % self._eval_freq == 0:
            self._evaluate()

    def _on_training_end(self) -> None:
        self._fights.close()

    def _evaluate(self) -> None:
        raise NotImplementedError


class WinRateEvalCallback(EvaluationCallback):
    """Lets the learner fight fixed opponents now and then, in an environment of its own.

    Training goes on as if nothing had happened. Win rates come with Wilson's 95 % interval, go to the log as
    ``eval/{opponent}/...`` and into ``win_rates.csv`` in the folder of the run, where an evaluation that a resumed run
    repeats takes the place of the earlier one.

    Args:
        opponents: names of bots, paths of models, players of the run's league, such as ``"main@0"``, and ``"best"``,
            the one whose rating has the greatest lower end. Players who are not there yet are left out.
        eval_freq: rollouts between evaluations, of which the first is at once and the last at the end of training.
        n_eval_episodes: fights against each opponent.
        deterministic: whether the learner acts without chance; opponents never do.
        n_envs: rows of the environment, at most.
        env: a ``VecEnv`` whose environments have ``set_opponent``; or arguments in which a new `PvpVecEnv` differs from
            the training environment, such as ``{"reset_params": {...}}``.
        directory: of the league; ``None``: ``league`` in the folder of the run.
        verbose: 1: prints the win rates.
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
    ) -> None:
        super().__init__(eval_freq, n_eval_episodes, n_envs, env, verbose)
        listed: list[Any] = list(opponents) if isinstance(opponents, (list, tuple)) else [opponents]
        if not listed or not all(isinstance(each, (str, Path)) for each in listed):
            raise ValueError(f"opponents must be names of bots, paths of models, or 'best', got {opponents!r}")
        names = base.told_apart(listed, [opponent_name(opponent) for opponent in listed])
        #: What opponents are called in tags.
        self._labels = {each: re.sub(r"\W+", "_", name) for each, name in zip(listed, names, strict=True)}
        self._deterministic, self._directory = deterministic, directory

    def _init_callback(self) -> None:
        super()._init_callback()
        self._path = base.path_in_run(self.model, None, "win_rates.csv")
        base.refuse_another_run(self.model, self._path, (int(row["steps"]) for row in read_rows(self._path)))
        if any(map(_is_of_league, self._labels)):
            self._league = base.shared_league(self.model, self._directory)

    def _on_training_end(self) -> None:
        # Whoever cleans up calls this again, also when training was interrupted.
        if base.trained_rollouts(self.model) != self._rollout:
            self._rollout = base.trained_rollouts(self.model)
            self._evaluate()
            self.logger.dump(self.num_timesteps)
        super()._on_training_end()

    def _evaluate(self) -> None:
        chosen = ((label, self._choice(opponent)) for opponent, label in self._labels.items())
        choices = {label: choice for label, choice in chosen if choice is not None}
        all_fights = [choice for choice in choices.values() for _ in range(self._n_eval_episodes)]
        model: Any = self.model
        finished = self._fights.play(model, all_fights, self._deterministic, EVALUATION_SEED)
        rows = [row for row in read_rows(self._path) if int(row["steps"]) < self.num_timesteps]
        for label, choice in choices.items():
            figures = summarize([each for each in finished if each.choice is choice])
            for name, value in figures.items():
                self.logger.record(f"eval/{label}/{name}", value, exclude=() if name == "win_rate" else "stdout")
            told = (self.num_timesteps, self._rollout, label, choice.label, self._n_eval_episodes, *figures.values())
            rows.append(dict(zip(_COLUMNS, told, strict=True)))
            if self.verbose:
                print(f"{self.num_timesteps} steps, against {choice.label}: won {figures['win_rate']:.1%}")
        with replacing(self._path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _choice(self, opponent: str | Path) -> OpponentChoice | None:
        """Who that is now; ``None`` if nobody."""
        if not _is_of_league(opponent):
            return OpponentChoice(opponent)
        player = strongest(self._league) if opponent == BEST else Player.parse(str(opponent))
        if player is None or not self._league.path(player).is_file():
            return None
        return OpponentChoice(self._league.opponent(player), str(player))


def strongest(league: League) -> Player | None:
    """The player with a model in the league whose rating is greatest for certain; ``None`` in an empty league."""
    models = set(league.players())
    rated = [(each.low, player) for each in league.leaderboard() if (player := Player.parse(each.player)) in models]
    return max(rated, key=lambda each: each[0], default=(0.0, None))[1]


def summarize(finished: Sequence[Finished]) -> dict[str, float]:
    """The figures of these fights, as the learner sees them; broken ones count only as such."""
    score = Score()
    for each in finished:
        score.count(each.info)
    shares = [count / max(score.decided, 1) for count in (score.losses, score.ties, score.reward, score.ticks)]
    low, high = wilson_interval(score.wins, score.decided)
    return dict(zip(_FIGURES, (score.win_rate, low, high, *shares, score.broken), strict=True))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of the file; none if there is no file."""
    return list(csv.DictReader(path.read_text().splitlines())) if path.is_file() else []


def _is_of_league(opponent: str | Path) -> bool:
    return isinstance(opponent, str) and (opponent == BEST or ("@" in opponent and not opponent.endswith(".zip")))


class Reference(NamedTuple):
    """A fighter with a known Elo rating; ``opponent`` is what environments take as such."""

    player: Player
    opponent: str
    rating: float


class ReferenceRatingCallback(EvaluationCallback):
    """Rates the learner by fights against references, in an environment of its own.

    References are the models (``*.zip``) of a folder, with ratings in its file ``ratings.json``, such as
    ``{"champion": 1720, "scripted": 1510}``, by the file's name without ``.zip`` (1500 for models that are not there),
    or by that of a bot. For every fight one is drawn, with the weight ``exp(-|rating of the learner - its rating| /
    400)`` (self-play.md §6). Ratings are read anew each time and stay frozen. Training goes on as if nothing had
    happened; with `PvpPPO` the learner's rating is saved with the model.

    Args:
        references: the folder.
        eval_freq: rollouts between ratings; the first is at once.
        n_eval_episodes: fights each time.
        n_envs, env: as in `WinRateEvalCallback`.
        seed: of the draws and fights.
        verbose: 1: prints the rating.
    """

    @checked
    def __init__(
        self,
        references: Annotated[str | os.PathLike[str], _FOLDER],
        eval_freq: PositiveInt = 10,
        n_eval_episodes: PositiveInt = 64,
        n_envs: PositiveInt = 64,
        env: EvaluationEnv = None,
        seed: NonNegativeInt = EVALUATION_SEED,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(eval_freq, n_eval_episodes, n_envs, env, verbose)
        self._folder, self._seed = Path(references), seed
        read_references(self._folder)

    def _init_callback(self) -> None:
        super()._init_callback()
        self._rating = INITIAL
        self._resume_with_model("reference_rating", "_rating")

    def _evaluate(self) -> None:
        references, rng = read_references(self._folder), np.random.default_rng([self._seed, self._rollout])
        drawn = draw(references, self._rating, self._n_eval_episodes, rng)
        choices = [OpponentChoice(each.opponent, str(each.player)) for each in drawn]
        model: Any = self.model
        finished = self._fights.play(model, choices, False, self._seed + self._rollout * self._n_eval_episodes)
        learner, key = Player(LEARNER), f"rollout-{self._rollout}/fight"
        records = [
            base.match_record(learner, Player.parse(each.choice.label), each.info, f"{key}-{number}")
            for number, each in enumerate(finished)
        ]
        elo = Elo(anchors={each.player: each.rating for each in references})
        elo.ratings[learner] = self._rating
        elo.update(records)
        self._rating = elo.rating(learner)
        counted = [record for record in records if record.counted]
        self.logger.record("reference/elo", self._rating)
        self.logger.record("reference/matches", len(counted), exclude="stdout")
        if counted:
            met = [elo.rating(record.player_b) for record in counted]
            self.logger.record("reference/average-match", float(np.mean(met)), exclude="stdout")
            self.logger.record("reference/win_rate", float(np.mean([record.score for record in counted])))
        if self.verbose:
            print(f"{self.num_timesteps} steps: {self._rating:.0f} Elo among the references")


def read_references(folder: Path) -> list[Reference]:
    """All references of a folder, by name; raises `ValueError` if there is none, or a rating is no number."""
    path = folder / "ratings.json"
    ratings = json.loads(path.read_text()) if path.is_file() else {}
    if not isinstance(ratings, dict) or not all(map(NUMBER.fits, ratings.values())):
        raise ValueError(f"{path} must be an object with a number for each reference")
    models = {file.stem: str(file) for file in folder.glob("[!.]*.zip")}
    if strangers := ratings.keys() - models.keys() - set(known_opponents()):
        raise ValueError(f"{path} rates {', '.join(sorted(strangers))}, of whom there is no model in {folder}")
    references = []
    for name in sorted(models.keys() | ratings.keys()):
        player = base.player_of_opponent(name)
        if player.name == LEARNER:  # a snapshot of another run must not pass for this one's learner
            player = Player(f"reference-{LEARNER}", player.step)
        references.append(Reference(player, models.get(name, name), float(ratings.get(name, INITIAL))))
    if not references:
        raise ValueError(f"{folder} has no references: put models (*.zip) there, and their ratings into {path.name}")
    return references


def draw(references: list[Reference], rating: float, count: int, rng: np.random.Generator) -> list[Reference]:
    """Draws whom to fight: those of a similar rating more often (self-play.md §6)."""
    weights = np.exp([-abs(rating - each.rating) / 400 for each in references])
    return [references[index] for index in rng.choice(len(references), count, p=weights / weights.sum()).tolist()]
