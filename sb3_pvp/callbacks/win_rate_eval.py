"""How often the learner beats opponents who do not change (self-play.md §5)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks.base import EvaluationCallback, refuse_another_run, run_folder, shared_league, trained_rollouts
from sb3_pvp.callbacks.opponent_plan import told_apart
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.matches.evaluation import EVALUATION_SEED, Finished, Score, wilson_interval
from sb3_pvp.opponents.opponents import OpponentChoice, opponent_name
from sb3_pvp.selfplay import League, Player

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


class WinRateEvalCallback(EvaluationCallback):
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
        env: a ``VecEnv`` whose environments have ``set_opponent``; or arguments in which a new `PvpVecEnv` differs from
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
        super().__init__(eval_freq, n_eval_episodes, n_envs, env, verbose)
        listed: list[Any] = list(opponents) if isinstance(opponents, (list, tuple)) else [opponents]
        if not listed or not all(isinstance(each, (str, Path)) for each in listed):
            raise ValueError("evaluation needs opponents: names of bots, paths of models, or 'best'")
        names = told_apart(listed, [opponent_name(opponent) for opponent in listed])
        #: What opponents are called in tags.
        self._labels = {each: re.sub(r"\W+", "_", name) for each, name in zip(listed, names, strict=True)}
        self._deterministic, self._directory = deterministic, directory

    def _init_callback(self) -> None:
        super()._init_callback()
        self._path = run_folder(self.model) / EVALUATIONS
        refuse_another_run(self.model, self._path, (int(row["steps"]) for row in read_rows(self._path)))
        if any(map(_is_of_league, self._labels)):
            self._league = shared_league(self.model, self._directory)

    def _on_training_end(self) -> None:
        # Whoever cleans up calls this again, also when training was interrupted.
        if trained_rollouts(self.model) != self._rollout:
            self._rollout = trained_rollouts(self.model)
            self._evaluate()
            self.logger.dump(self.num_timesteps)
        super()._on_training_end()

    def _evaluate(self) -> None:
        chosen = ((label, self._choice(opponent)) for opponent, label in self._labels.items())
        choices = {label: choice for label, choice in chosen if choice is not None}
        all_fights = [choice for choice in choices.values() for _ in range(self._n_eval_episodes)]
        finished = self._play(all_fights, self._deterministic, EVALUATION_SEED)
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
        league = self._league
        player = strongest(league) if opponent == BEST else Player.parse(str(opponent))
        if player is None or not league.path(player).is_file():
            return None
        return OpponentChoice(league.opponent(player), str(player))


def strongest(league: League) -> Player | None:
    """The player with a model in the league whose rating is greatest for certain; ``None`` in an empty league."""
    models = set(league.players())
    standings = [each for each in league.leaderboard() if Player.parse(each.player) in models]
    best = max(standings, key=lambda each: each.low, default=None)
    return None if best is None else Player.parse(best.player)


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
