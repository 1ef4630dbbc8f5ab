"""The files of a learning curve: one JSON line for each evaluation, one JSON object for the settings."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.matches.evaluation import Score, wilson_interval

EVALUATIONS, SETTINGS = "evaluations.jsonl", "settings.json"


@dataclass(frozen=True)
class Evaluation:
    """The result of a model at one moment of its training.

    Attributes:
        steps: agent steps (one seat, one tick) of training so far.
        rollouts: rollouts that were learned from.
        cpu_s: CPU seconds of training so far, all threads, without evaluations.
        wall_s: wall seconds of training so far, without evaluations.
        wins, losses, ties, broken: outcomes of the evaluation's fights.
        win_rate: share of wins among those that were decided.
        ci95: its 95 % interval after Wilson.
        mean_ticks: mean length of the fights.
    """

    steps: int
    rollouts: int
    cpu_s: float
    wall_s: float
    wins: int
    losses: int
    ties: int
    broken: int
    win_rate: float
    ci95: tuple[float, float]
    mean_ticks: float

    @classmethod
    def of(cls, score: Score, steps: int, rollouts: int, cpu_s: float, wall_s: float) -> Evaluation:
        """Returns the evaluation with this score."""
        figures = score.as_dict()
        figures |= {"ci95": wilson_interval(score.wins, score.decided), "mean_ticks": round(figures["mean_ticks"], 1)}
        del figures["episodes"]
        return cls(steps, rollouts, round(cpu_s, 2), round(wall_s, 2), **figures)

    @classmethod
    def read(cls, figures: dict[str, Any]) -> Evaluation:
        """Returns the evaluation with these JSON figures; raises ``TypeError`` or ``KeyError`` if they are invalid."""
        return cls(**{**figures, "ci95": tuple(figures["ci95"])})


def append_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Appends a line and waits until it is on the disk."""
    with (folder / EVALUATIONS).open("a") as file:
        file.write(json.dumps(asdict(evaluation)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_evaluations(folder: Path) -> list[Evaluation]:
    """Returns all evaluations of a run, oldest first, without a last line that an interruption has cut off."""
    path = folder / EVALUATIONS
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    return [Evaluation.read(json.loads(line)) for line in lines if line.endswith("\n")]


def forget_evaluations_after(folder: Path, steps: int) -> list[Evaluation]:
    """Drops the evaluations after the number of steps at which training resumes; returns the others."""
    kept = [evaluation for evaluation in read_evaluations(folder) if evaluation.steps <= steps]
    write_atomically(folder / EVALUATIONS, "".join(json.dumps(asdict(evaluation)) + "\n" for evaluation in kept))
    return kept


def fix_settings(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Writes the settings of a new run, or returns those with which the run in the folder began.

    Raises:
        ValueError: if other settings than the hyperparameters have changed.
    """
    if not (folder / SETTINGS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")
    before = read_settings(folder)
    for name in settings.keys() - {"hyperparams"}:
        if settings[name] != before[name]:
            raise ValueError(f"{folder} holds a run with {name} {before[name]!r}: use another folder for this one")
    return before


def read_settings(folder: Path) -> dict[str, Any]:
    """Returns the settings of a run; raises ``ValueError`` if the folder has none."""
    path = folder / SETTINGS
    if not path.is_file():
        raise ValueError(f"{folder} holds no learning curve: there is no {SETTINGS}")
    settings: dict[str, Any] = json.loads(path.read_text())
    return settings
