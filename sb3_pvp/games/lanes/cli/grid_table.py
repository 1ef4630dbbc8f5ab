"""What a coarser grid costs: cells, joint actions, precision, and the win rate after the same training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.grid_actions import GridActionWrapper
from sb3_pvp.games.lanes import LANES
from sb3_pvp.games.lanes.pixels import ground

_ROWS, _STEPS = 64, 64
_PART = 8 * _ROWS * _STEPS  #: Environment steps from one file to the next.
_SECONDS = 0.5  #: Of a decision.


def grid_rows(
    folder: Path,
    tiles: Sequence[int],
    seeds: int,
    minutes: float,
    opponent: str,
    battles: int,
    say: Callable[[str], Any] | None,
) -> list[dict[str, float | None]]:
    """Returns a row for each size: its counts and, over the seeds, the mean and the least and most of the win rates."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, float | None]] = []
    for tile in tiles:
        game = GridActionWrapper(LANES, tile)
        row: dict[str, float | None] = {"tile": tile, **game.counts}
        runs = [_run(folder, game, seed, minutes, opponent, battles, say) for seed in range(seeds) if minutes]
        if runs:
            rates = [run["win_rate"] for run in runs]
            row |= {"win_rate": float(np.mean(rates)), "least": min(rates), "most": max(rates)}
            row |= {name: float(np.mean([run[name] for run in runs])) for name in ("env_steps", "hours_of_play")}
        rows.append(row)
    return rows


def _run(
    folder: Path,
    game: GridActionWrapper,
    seed: int,
    minutes: float,
    opponent: str,
    battles: int,
    say: Callable[[str], Any] | None,
) -> dict[str, float]:
    """Trains until the budget is spent, from the last part that is kept, and returns the result, which is kept too."""
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.policies import AutoregressivePolicy

    name = f"tile{game.tile}-seed{seed}-{opponent}"
    kept, file = folder / f"{name}.json", folder / f"{name}.zip"
    run: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {"cpu": 0.0, "env_steps": 0}
    if run["cpu"] >= 60 * minutes and run.get("battles") == battles:
        return run
    arguments: dict[str, Any] = {"game": game, "opponent": "baseline", "reset_params": {"bot": opponent}}
    env = PvpVecEnv(_ROWS, **arguments, rewards={"towers": 0.2, "damage": 0.2}, seed=1000 * seed + run["env_steps"])
    if run["env_steps"]:
        model = PvpPPO.load(file, env=env)
    else:
        settings: dict[str, Any] = {
            "n_steps": _STEPS,
            "batch_size": 1024,
            "n_epochs": 2,
            "learning_rate": 5e-4,
            "gamma": 0.995,
        }
        model = PvpPPO(
            AutoregressivePolicy,
            env,
            **settings,
            gamma=0.995,
            ent_coef=0.003,
            seed=seed,
            policy_kwargs={"net_arch": [128, 128]},
        )
    while run["cpu"] < 60 * minutes:
        began = time.process_time()
        model.learn(_PART, reset_num_timesteps=False)
        run = {"cpu": run["cpu"] + time.process_time() - began, "env_steps": run["env_steps"] + _PART}
        model.save(file)  # before what says that it is there
        _keep(kept, run)
        if say is not None:
            say(f"{name}: {run['env_steps']} steps, {run['cpu'] / 60:.1f} CPU minutes")
    env.close()
    test = PvpVecEnv(_ROWS, **arguments, seed=10**6)
    run |= {"win_rate": _win_rate(model, test, battles), "battles": battles}
    run["hours_of_play"] = run["env_steps"] * _SECONDS / 3600
    test.close()
    _keep(kept, run)
    return run


def _keep(path: Path, run: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(run))


def _win_rate(model: Any, env: PvpVecEnv, battles: int) -> float:
    """Returns the share of battles that a model wins, a draw as a half, with sampled actions."""
    seen: Any = env.reset()
    points, over = 0.0, 0
    while over < battles:
        actions, _ = model.predict(seen, deterministic=False)
        seen, _, dones, infos = env.step(actions)
        for row in np.flatnonzero(dones)[: battles - over].tolist():
            over += 1
            points += {"won": 1.0, "lost": 0.0}.get(infos[row]["outcome"], 0.5)
    return points / battles


def draw_grids(path: Path, tiles: Sequence[int]) -> None:
    """Draws the grids over the arena, side by side."""
    from matplotlib.figure import Figure

    arena = ground(448)[:, :, : 448 * 18 // 32].transpose(1, 2, 0).astype(np.uint8)
    figure = Figure(figsize=(2.4 * len(tiles), 4.6), layout="constrained")
    for axes, tile in zip(np.atleast_1d(figure.subplots(1, len(tiles))), tiles, strict=True):
        axes.imshow(arena, extent=(0, 18, 0, 32))
        axes.vlines(np.arange(0, 19, tile), 0, 32, "white", linewidth=0.6)
        axes.hlines(np.arange(0, 33, tile), 0, 18, "white", linewidth=0.6)
        counts = GridActionWrapper(LANES, tile).counts
        axes.set_title(f"{tile} x {tile}: {counts['cells']} cells\n{counts['joint_actions']} actions", fontsize=9)
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
