"""How often the learner beats opponents who do not change (self-play.md §5)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks.opponent_sources import told_apart
from sb3_pvp.callbacks.rollouts import trained_rollouts
from sb3_pvp.callbacks.run_league import RunLeague, refuse_another_run, run_folder, shared_league
from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.matches.evaluation import FIELDS, wilson_interval
from sb3_pvp.matches.evaluation_fights import EVALUATION_SEED, EvaluationFights, Finished
from sb3_pvp.opponents.opponents import OpponentChoice, opponent_name
from sb3_pvp.selfplay import Player

#: The league's strongest player, when it is evaluated.
BEST = "best"
#: The file in the folder of the run.
EVALUATIONS = "win_rates.csv"

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
_COLUMNS = ("steps", "rollouts", "opponent", "player", "fights", *_FIGURES)


class WinRateEvalCallback(BaseCallback):
    """Lets the learner fight fixed opponents now and then, in an environment of its own.

    Training goes on as if nothing had happened. Win rates come with Wilson's 95 % interval, go to the log as
    ``eval/{opponent}/...`` and into ``win_rates.csv`` in the folder of the run, where an evaluation that a resumed run
    repeats takes the place of the earlier one.

    Args:
        opponents: names of bots and plug-ins; paths of models; players of the run's league, such as ``"main@0"``; and
            ``"best"``, the one of them whose rating is greatest for certain (the lower end of its interval). Players
            who are not there yet are left out.
        eval_freq: roll-outs between evaluations, of which the first is at once and the last at the end of training.
        n_eval_episodes: fights against each opponent.
        deterministic: whether the learner acts without chance; opponents never do.
        n_envs: rows of the environment, at most.
        env: a ``VecEnv`` whose environments have ``set_opponent``; or arguments in which a new `NhVecEnv` differs from
            the training environment, such as ``{"reset_params": {...}}``.
        directory: of the league; ``None``: ``league`` in the folder of the run.
        verbose: 1: prints the win rates.

    Raises:
        ValueError: for impossible values; and in training for an unknown opponent, if an ``env`` is needed, or if the
            file is of another run.
    """

    def __init__(
        self,
        opponents: str | Path | Sequence[str | Path] = ("baseline",),
        eval_freq: int = 50,
        n_eval_episodes: int = 100,
        deterministic: bool = False,
        n_envs: int = 64,
        env: VecEnv | Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        listed: list[Any] = list(opponents) if isinstance(opponents, (list, tuple)) else [opponents]
        self._opponents: list[str | Path] = listed
        if not listed or not all(isinstance(each, (str, Path)) for each in listed):
            raise ValueError("evaluation needs opponents: names of bots, paths of models, or 'best'")
        POSITIVE.check(eval_freq=eval_freq, n_eval_episodes=n_eval_episodes, n_envs=n_envs)
        self._eval_freq, self._n_eval_episodes = eval_freq, n_eval_episodes
        self._deterministic, self._directory = deterministic, directory
        names = told_apart(self._opponents, [opponent_name(opponent) for opponent in self._opponents])
        self._labels = {str(opponent): _label(name) for opponent, name in zip(self._opponents, names, strict=True)}
        self._fights = EvaluationFights(env, n_envs)

    def _init_callback(self) -> None:
        self._path = run_folder(self.model) / EVALUATIONS
        refuse_another_run(self.model, self._path, max((int(row[0]) for row in read_rows(self._path)), default=0))
        self._run: RunLeague | None = None
        if any(_is_of_league(opponent) for opponent in self._opponents):
            self._run = shared_league(self.model, self._directory)
        self._rollout = trained_rollouts(self.model)

    def _on_rollout_start(self) -> None:
        self._rollout = trained_rollouts(self.model)
        if self._rollout % self._eval_freq == 0:
            self._evaluate()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        # Whoever cleans up calls this again, also when training was interrupted.
        if trained_rollouts(self.model) != self._rollout:
            self._rollout = trained_rollouts(self.model)
            self._evaluate()
            self.logger.dump(self.num_timesteps)
        self._fights.close()

    def _evaluate(self) -> None:
        choices = {label: choice for label, choice in map(self._choice, self._opponents) if choice is not None}
        all_fights = [choice for choice in choices.values() for _ in range(self._n_eval_episodes)]
        finished = list(self._fights.play(self.model, all_fights, self._deterministic, EVALUATION_SEED))  # type: ignore[arg-type]
        rows = []
        for label, choice in choices.items():
            figures = summarize([each for each in finished if each.choice is choice])
            for name, value in figures.items():
                self.logger.record(f"eval/{label}/{name}", value, exclude=_quiet(name))
            rows.append(
                [self.num_timesteps, self._rollout, label, choice.label, self._n_eval_episodes, *figures.values()]
            )
            if self.verbose:
                print(f"{self.num_timesteps} steps, against {choice.label}: won {figures['win_rate']:.1%}")
        replace_rows(self._path, self.num_timesteps, rows)

    def _choice(self, opponent: str | Path) -> tuple[str, OpponentChoice | None]:
        """What the opponent is called in tags, and who that is now; ``None`` if nobody."""
        if not _is_of_league(opponent):
            return self._labels[str(opponent)], OpponentChoice(opponent)
        assert self._run is not None
        league = self._run.league
        player = strongest(self._run) if opponent == BEST else Player.parse(str(opponent))
        if player is None or not league.path(player).is_file():
            return "", None
        return self._labels[str(opponent)], OpponentChoice(league.opponent(player), str(player))


def strongest(run: RunLeague) -> Player | None:
    """The player with a model in the league whose rating is greatest for certain; ``None`` in an empty league."""
    models = set(run.league.players())
    standings = [each for each in run.league.leaderboard() if Player.parse(each.player) in models]
    best = max(standings, key=lambda each: each.low, default=None)
    return None if best is None else Player.parse(best.player)


def summarize(finished: Sequence[Finished]) -> dict[str, float]:
    """The figures of these fights, as the learner sees them; broken ones count only as such."""
    outcomes = [FIELDS.get(str(each.info["outcome"]), "broken") for each in finished]
    decided = len(outcomes) - outcomes.count("broken")
    low, high = wilson_interval(outcomes.count("wins"), decided)
    rates = {name: outcomes.count(name) / max(decided, 1) for name in ("wins", "losses", "ties")}
    whole = [each.info["episode"] for each in finished if "episode" in each.info]
    return {
        "win_rate": rates["wins"],
        "win_rate_low": low,
        "win_rate_high": high,
        "lose_rate": rates["losses"],
        "tie_rate": rates["ties"],
        "mean_episode_reward": float(np.mean([episode["r"] for episode in whole])) if whole else 0.0,
        "mean_episode_length": float(np.mean([episode["l"] for episode in whole])) if whole else 0.0,
        "broken_fights": outcomes.count("broken"),
    }


def replace_rows(path: Path, steps: int, rows: Sequence[Sequence[Any]]) -> None:
    """Adds rows to the file, in place of those that an attempt which was killed has written at this time or later."""
    before = [row for row in read_rows(path) if int(row[0]) < steps]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *before, *rows])
    write_atomically(path, text.getvalue())


def read_rows(path: Path) -> list[list[str]]:
    """The rows of the file without its head, of which the first values are steps; none if there is no file."""
    return list(csv.reader(path.read_text().splitlines()))[1:] if path.is_file() else []


def _is_of_league(opponent: str | Path) -> bool:
    return isinstance(opponent, str) and (opponent == BEST or ("@" in opponent and not opponent.endswith(".zip")))


def _label(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def _quiet(name: str) -> tuple[str, ...]:
    return () if name == "win_rate" else ("stdout",)
