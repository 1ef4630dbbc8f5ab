"""How strong the learner is among fighters whose ratings are known and stay the same (self-play.md §6)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks.base import EvaluationCallback, match_record
from sb3_pvp.callbacks.opponent_plan import player_of_opponent
from sb3_pvp.common.arguments import NUMBER
from sb3_pvp.matches.evaluation import EVALUATION_SEED
from sb3_pvp.opponents.opponents import OpponentChoice, known_opponents
from sb3_pvp.selfplay import LEARNER, Elo, Player

#: The file with ratings in the folder of references.
RATINGS = "ratings.json"
#: The rating of a reference without one, and of the learner at first.
INITIAL = 1500.0

METRICS = {
    "reference/elo": "Elo rating of the learner among the references, whose ratings are frozen.",
    "reference/average-match": "Mean rating of the references that it fought this time.",
    "reference/win_rate": "Share of these fights that it won, ties as half.",
    "reference/matches": "Fights that were decided or tied.",
}


class Reference(NamedTuple):
    """A fighter with a known rating."""

    player: Player
    opponent: str  #: What environments take as such.
    rating: float  #: Elo.


class ReferenceRatingCallback(EvaluationCallback):
    """Rates the learner by fights against references, in an environment of its own.

    References are the models (``*.zip``) of a folder; their ratings are in its file ``ratings.json``, such as
    ``{"champion": 1720, "scripted": 1510}``, by the file's name without ``.zip``; 1500 for models that are not there.
    Names of bots and plug-ins in it are references as well. For every fight one is drawn, with the weight
    ``exp(-|rating of the learner - its rating| / 400)`` (self-play.md §6), and plays with its own observations.
    Ratings are read anew each time and stay frozen. Training goes on as if nothing had happened; with `PvpPPO` the
    rating is saved with the model.

    Args:
        references: the folder.
        eval_freq: roll-outs between ratings; the first is at once.
        n_eval_episodes: fights each time.
        n_envs: rows of the environment, at most.
        env: as in `WinRateEvalCallback`.
        seed: of the draws and fights.
        verbose: 1: prints the rating.

    Raises:
        ValueError: for impossible values, a folder without references or ratings that are none, at once.
    """

    def __init__(
        self,
        references: str | Path,
        eval_freq: int = 10,
        n_eval_episodes: int = 64,
        n_envs: int = 64,
        env: VecEnv | Mapping[str, Any] | None = None,
        seed: int = EVALUATION_SEED,
        verbose: int = 0,
    ) -> None:
        super().__init__(eval_freq, n_eval_episodes, n_envs, env, verbose)
        if not isinstance(references, (str, Path)):
            raise ValueError(f"references must be the path of a folder, got {references!r}")
        self._folder, self._seed = Path(references), seed
        read_references(self._folder)

    def _init_callback(self) -> None:
        super()._init_callback()
        self._rating = INITIAL
        self._resume_with_model("reference_rating", "_rating")

    def _evaluate(self) -> None:
        references = read_references(self._folder)
        drawn = draw(
            references, self._rating, self._n_eval_episodes, np.random.default_rng([self._seed, self._rollout])
        )
        choices = [OpponentChoice(each.opponent, str(each.player)) for each in drawn]
        finished = self._play(choices, False, self._seed + self._rollout * self._n_eval_episodes)
        learner = Player(LEARNER)
        records = [
            match_record(learner, Player.parse(each.choice.label), each.info, f"rollout-{self._rollout}/fight-{number}")
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
    path = folder / RATINGS
    ratings = json.loads(path.read_text()) if path.is_file() else {}
    if not isinstance(ratings, dict) or not all(map(NUMBER.fits, ratings.values())):
        raise ValueError(f"{path} must be an object with a number for each reference")
    models = {file.stem: str(file) for file in folder.glob("[!.]*.zip")}
    strangers = ratings.keys() - models.keys() - set(known_opponents())
    if strangers:
        raise ValueError(f"{path} rates {', '.join(sorted(strangers))}, of whom there is no model in {folder}")
    names = sorted(models.keys() | ratings.keys())
    if not names:
        raise ValueError(f"{folder} has no references: put models (*.zip) there, and their ratings into {RATINGS}")
    references = []
    for name in names:
        player = player_of_opponent(name)
        if player.name == LEARNER:  # a snapshot of another run must not pass for this one's learner
            player = Player(f"reference-{LEARNER}", player.step)
        references.append(Reference(player, models.get(name, name), float(ratings.get(name, INITIAL))))
    return references


def draw(references: list[Reference], rating: float, count: int, rng: np.random.Generator) -> list[Reference]:
    """Draws whom to fight: those of a similar rating more often (self-play.md §6)."""
    weights = np.exp([-abs(rating - each.rating) / 400 for each in references])
    return [references[index] for index in rng.choice(len(references), count, p=weights / weights.sum()).tolist()]
