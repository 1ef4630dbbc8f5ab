"""The callback of a learning curve: it measures CPU time, evaluates, and saves checkpoints."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.learning_curves.records import Evaluation, append_evaluation
from benchmarks.report import cpu_seconds
from sb3_pvp.matches.evaluation import evaluate_model

#: Fight i of an evaluation has this seed plus i, far from the seeds of training.
EVALUATION_SEED = 1_000_000_007
#: CPU seconds until the first evaluation of a model that has learned.
EARLY = 10.0


@dataclass(frozen=True)
class Budget:
    """How long a run trains and how often it is evaluated. Minutes are CPU minutes of training.

    Attributes:
        cpu_minutes: length of the training.
        evaluate_every: minutes between evaluations; fewer at the beginning, when the win rate changes fast.
        checkpoint_every: minutes between checkpoints.
        fights: fights per evaluation.
        win_rate: training also ends when two evaluations in a row reach this.
    """

    cpu_minutes: float = 30.0
    evaluate_every: float = 1.5
    checkpoint_every: float = 3.0
    fights: int = 256
    win_rate: float | None = None


@dataclass
class Progress:
    """State that resumes after an interruption; it is saved inside the checkpoint.

    Attributes:
        cpu_s, wall_s: seconds of training, exploiters included, without evaluations and checkpoints.
        evaluate_at, checkpoint_at: CPU seconds at which the next one is due.
        evaluated_steps: agent steps at the last evaluation.
        reached: number of evaluations in a row that reached the win rate of the budget.
    """

    cpu_s: float = 0.0
    wall_s: float = 0.0
    evaluate_at: float = 0.0
    checkpoint_at: float = 0.0
    evaluated_steps: int = -1
    reached: int = 0


class CurveCallback(BaseCallback):
    """Evaluates and saves between rollouts, where a run can resume exactly; neither counts as training time.

    Args:
        folder: of the run; gets the evaluations.
        budget: length of the training and frequency of evaluations.
        env: for evaluations; its fights are those of one evaluation.
        checkpoint: the model's file.
    """

    def __init__(self, folder: Path, budget: Budget, env: VecEnv, checkpoint: Path) -> None:
        super().__init__()
        self._folder, self._budget, self._env, self._checkpoint = folder, budget, env, checkpoint
        self._done = False

    def _on_training_start(self) -> None:
        self._progress = Progress(**getattr(self.model, "curve_progress", {}))
        self._start_clock()

    def _on_rollout_start(self) -> None:
        self._stop_clock()
        progress, budget = self._progress, self._budget
        over = progress.cpu_s >= 60 * budget.cpu_minutes
        if over or progress.cpu_s >= progress.evaluate_at:
            self._evaluate()
        self._done = over or progress.reached >= 2
        if self._done or progress.cpu_s >= progress.checkpoint_at:
            self._save()
        self._start_clock()

    def _on_step(self) -> bool:
        return not self._done  # only the result of this method can stop a training of SB3

    def _on_training_end(self) -> None:
        if not self._done:  # the limit of steps came first
            self._stop_clock()
            self._evaluate()
            self._save()

    def _evaluate(self) -> None:
        progress = self._progress
        if progress.evaluated_steps == self.num_timesteps:  # a run that was over and is started again
            return
        self._env.seed(EVALUATION_SEED)
        with torch.random.fork_rng(devices=[]):  # so that evaluations do not change the training's random numbers
            score = evaluate_model(self.model, self._env, self._budget.fights)
        rollouts = self.model.trained_rollouts  # type: ignore[attr-defined]
        evaluation = Evaluation.of(score, self.num_timesteps, rollouts, progress.cpu_s, progress.wall_s)
        append_evaluation(self._folder, evaluation)
        progress.evaluated_steps = self.num_timesteps
        # At first after a quarter more training each time: evenly spaced on the logarithmic axis of the plot.
        early = max(EARLY, progress.cpu_s / 4)
        progress.evaluate_at = progress.cpu_s + min(60 * self._budget.evaluate_every, early)
        wanted = self._budget.win_rate
        progress.reached = progress.reached + 1 if wanted is not None and score.win_rate >= wanted else 0
        self._report(evaluation, str(score))

    def _save(self) -> None:
        progress = self._progress
        progress.checkpoint_at = progress.cpu_s + 60 * self._budget.checkpoint_every
        self.model.curve_progress = asdict(progress)  # type: ignore[attr-defined]
        self.model.save(self._checkpoint)  # replaces the file atomically

    def _report(self, evaluation: Evaluation, score: str) -> None:
        speed = evaluation.steps / max(evaluation.cpu_s, 1e-9)
        text = f"{self._folder.name}: {evaluation.cpu_s / 60:.1f} CPU minutes, {evaluation.steps:,} steps"
        print(f"{text} ({speed:,.0f} per CPU second): {score}", file=sys.stderr, flush=True)

    def _start_clock(self) -> None:
        self._cpu, self._wall = cpu_seconds(), time.perf_counter()

    def _stop_clock(self) -> None:
        self._progress.cpu_s += cpu_seconds() - self._cpu
        self._progress.wall_s += time.perf_counter() - self._wall
