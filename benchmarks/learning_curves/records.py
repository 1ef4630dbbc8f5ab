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
    """How a model did at one moment of its training.

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
        """The evaluation that gave this score."""
        figures = score.as_dict()
        figures |= {"ci95": wilson_interval(score.wins, score.decided), "mean_ticks": round(figures["mean_ticks"], 1)}
        del figures["episodes"]
        return cls(steps, rollouts, round(cpu_s, 2), round(wall_s, 2), **figures)

    @classmethod
    def read(cls, figures: dict[str, Any]) -> Evaluation:
        """The evaluation that was written as these figures; raises ``TypeError`` or ``KeyError`` for others."""
        return cls(**{**figures, "ci95": tuple(figures["ci95"])})


def append_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Adds a line, and waits until the disk has it."""
    with (folder / EVALUATIONS).open("a") as file:
        file.write(json.dumps(asdict(evaluation)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_evaluations(folder: Path) -> list[Evaluation]:
    """All evaluations of a run, oldest first; a last line that an interruption cut off is left out."""
    path = folder / EVALUATIONS
    lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
    return [Evaluation.read(json.loads(line)) for line in lines if line.endswith("\n")]


def forget_evaluations_after(folder: Path, steps: int) -> list[Evaluation]:
    """Keeps the evaluations up to this number of steps, from which training goes on, and returns them."""
    kept = [evaluation for evaluation in read_evaluations(folder) if evaluation.steps <= steps]
    write_atomically(folder / EVALUATIONS, "".join(json.dumps(asdict(evaluation)) + "\n" for evaluation in kept))
    return kept


def settle(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Writes down what is trained, or returns what the folder says already: a run ends as it began.

    Only the hyperparameters may have changed in the meantime. Raises ``ValueError`` if something else has.
    """
    if not (folder / SETTINGS).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")
    before = read_settings(folder)
    for name in settings.keys() - {"hyperparams"}:
        if settings[name] != before[name]:
            raise ValueError(f"{folder} holds a run with {name} {before[name]!r}: give this one a folder of its own")
    return before


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run; raises ``ValueError`` if the folder holds none."""
    path = folder / SETTINGS
    if not path.is_file():
        raise ValueError(f"{folder} holds no learning curve: there is no {SETTINGS}")
    settings: dict[str, Any] = json.loads(path.read_text())
    return settings
