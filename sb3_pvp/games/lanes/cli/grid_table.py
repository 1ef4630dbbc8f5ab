"""What a coarser grid costs: cells, joint actions, precision, and the win rate after the same training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.callbacks.base import trained_rollouts
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.pictures import new_figure
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.grid_actions import GridActionWrapper
from sb3_pvp.games.lanes import LANES
from sb3_pvp.games.lanes.pixels import ground
from sb3_pvp.matches.evaluation import evaluate_model

_ROWS, _KEEP_EVERY = 64, 20  #: Battles at once, and rollouts from one file to the next.
_SECONDS, _ENDLESS = 0.5, 10**12  #: Of a decision; steps, since the budget ends a run.
#: The columns of the table: what a row must have for them, and how they are written.
_COLUMNS = {
    "tiles\na side": ("tile", "{tile:g}"),
    "cells": ("cells", "{cells:.0f}"),
    "actions with\nfour cards": ("hand_actions", "{hand_actions:,.0f}"),
    "mean tiles away\nfrom its cell's": ("tiles_away", "{tiles_away:.2f}"),
    "CPU minutes\na run": ("cpu_minutes", "{cpu_minutes:.1f}"),
    "environment\nsteps a run": ("env_steps", "{env_steps:,.0f}"),
    "hours of play\na run": ("hours_of_play", "{hours_of_play:,.1f}"),
    "win rate": ("win_rate", "{win_rate:.1%} [{least:.1%}, {most:.1%}]"),
}
Row = dict[str, float]
_MEANS = ("env_steps", "hours_of_play", "cpu_minutes")
_SETTINGS: dict[str, Any] = {
    "n_steps": 64,
    "batch_size": 1024,
    "n_epochs": 2,
    "learning_rate": 5e-4,
    "gamma": 0.995,
    "ent_coef": 0.003,
    "policy_kwargs": {"net_arch": [128, 128]},
}


def grid_rows(
    folder: Path,
    tiles: Sequence[int],
    seeds: int,
    minutes: float,
    opponent: str,
    battles: int,
    say: Callable[[str], Any] | None,
) -> list[Row]:
    """Returns a row for each size: its counts and, over the seeds, the mean and the least and most of the win rates."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list[Row]()
    for tile in tiles:
        game = GridActionWrapper(LANES, tile)
        row: Row = {"tile": tile, **game.counts, "hand_actions": 4 * game.counts["cells"] + 1}
        runs = [_run(folder, game, seed, minutes, opponent, battles, say) for seed in range(seeds) if minutes]
        if runs:
            rates = [run["win_rate"] for run in runs]
            row |= {"win_rate": float(np.mean(rates)), "least": min(rates), "most": max(rates)}
            row |= {name: float(np.mean([run[name] for run in runs])) for name in _MEANS}
        rows.append(row)
    return rows


class _Budget(BaseCallback):
    """Counts CPU seconds of training, keeps the model every so many rollouts, and ends with the budget.

    It saves at the start of a rollout, where a run resumes exactly, and what it has counted is in the same file.
    """

    def __init__(self, file: Path, minutes: float, say: Callable[[str], Any] | None) -> None:
        super().__init__()
        self._file, self._seconds, self._say = file, 60 * minutes, say

    def _on_training_start(self) -> None:
        self._spent, self._since = getattr(self.model, "spent", 0.0), time.process_time()

    def _on_rollout_start(self) -> None:
        now = time.process_time()
        self._spent, self._since = self._spent + now - self._since, now
        if self._spent >= self._seconds or trained_rollouts(self.model) % _KEEP_EVERY == 0:
            self.model.spent = self._spent  # type: ignore[attr-defined]
            self.model.save(self._file)  # replaces the file atomically
            self._since = time.process_time()  # what that takes is no training
            if self._say is not None:
                self._say(f"{self._file.stem}: {self.num_timesteps} steps, {self._spent / 60:.1f} CPU minutes")

    def _on_step(self) -> bool:
        return self._spent < self._seconds


def _run(
    folder: Path,
    game: GridActionWrapper,
    seed: int,
    minutes: float,
    opponent: str,
    battles: int,
    say: Callable[[str], Any] | None,
) -> dict[str, float]:
    """Trains until the budget is spent, from the model that is kept, and returns the result, which is kept too."""
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.policies import AutoregressivePolicy

    name = f"tile{game.tile}-seed{seed}-{opponent}"
    kept, file = folder / f"{name}.json", folder / f"{name}.zip"
    asked = {"minutes": minutes, "battles": battles}
    if kept.exists() and asked.items() <= (run := json.loads(kept.read_text("utf-8"))).items():
        return dict(run)
    arguments: dict[str, Any] = {"game": game, "opponent": "baseline", "reset_params": {"bot": opponent}}
    env = PvpVecEnv(_ROWS, **arguments, rewards={"towers": 0.2, "damage": 0.2}, seed=1000 * seed)
    model: Any
    if file.exists():
        model = PvpPPO.load(file, env=env, device="cpu")
    else:
        model = PvpPPO(AutoregressivePolicy, env, **_SETTINGS, seed=seed, device="cpu")
    model.learn(_ENDLESS, _Budget(file, minutes, say), reset_num_timesteps=False)
    env.close()
    model, test = PvpPPO.load(file, device="cpu"), PvpVecEnv(_ROWS, **arguments, seed=10**6)
    steps = int(model.num_timesteps)
    torch.manual_seed(0)
    score = evaluate_model(model, test, battles, deterministic=False)
    run = {**asked, "wins": score.wins, "losses": score.losses, "ties": score.ties, "env_steps": steps}
    run["win_rate"] = (score.wins + score.ties / 2) / battles
    run |= {"hours_of_play": steps * _SECONDS / 3600, "cpu_minutes": model.spent / 60}
    test.close()
    write_atomically(kept, json.dumps(run))
    return run


def draw_grids(path: Path, rows: Sequence[Row], opponent: str) -> None:
    """Draws the grids over the arena, side by side, and below them the table."""

    arena = ground(448)[:, :, : 448 * 18 // 32].transpose(1, 2, 0).astype(np.uint8)
    figure = new_figure(max(2.4 * len(rows), 8.5), 5.6 + 0.25 * len(rows))
    parts: Any = figure.subfigures(2, 1, height_ratios=[4.4, 1.0 + 0.25 * len(rows)])
    above, below = parts
    for axes, row in zip(np.atleast_1d(above.subplots(1, len(rows))), rows, strict=True):
        tile = int(row["tile"])
        axes.imshow(arena, extent=(0, 18, 0, 32))
        axes.vlines([*range(0, 18, tile), 18], 0, 32, "white", linewidth=0.6)
        axes.hlines([*range(0, 32, tile), 32], 0, 18, "white", linewidth=0.6)
        axes.set_title(f"{tile} x {tile}: {row['cells']:.0f} cells", fontsize=10)
        axes.set_axis_off()
    axes = below.subplots()
    axes.set_axis_off()
    cells = [[each.format(**row) if part in row else "-" for part, each in _COLUMNS.values()] for row in rows]
    widths = [0.12] * (len(_COLUMNS) - 1) + [0.16]
    table = axes.table(cells, colLabels=[*_COLUMNS], colWidths=widths, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    table.scale(1, 1.25)
    for column in range(len(_COLUMNS)):
        table[0, column].set_height(1.9 * table[0, column].get_height())
    note = f"Win rate: share of points against {opponent}, a draw as half, mean of the seeds [least, most]."
    axes.set_title(note if any("win_rate" in row for row in rows) else "Nothing has been trained.", fontsize=8)
    figure.savefig(path, dpi=130)
