"""``python -m benchmarks screen_learning``: what a model has learnt of a game behind a screen, beside random play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecTransposeImage

from benchmarks.json_lines import append_line, read_lines
from benchmarks.report import Row, print_report
from sb3_pvp import load
from sb3_pvp.algorithms.presets import presets
from sb3_pvp.common.errors import Refusal, refusals, require_known
from sb3_pvp.games.screen import ScreenEnv
from sb3_pvp.zoo.worker_vec_env import WorkerVecEnv

RANDOM = "random"
REPEATS = 10_000  #: Of the bootstrap.


def bench_screen_learning(
    model: Annotated[Path, typer.Argument(help="The model, by its file.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The file of episodes: the same command goes on with it.", dir_okay=False)],
    preset: Annotated[str, typer.Option(help="The preset of its training, whose game is played.")] = "ScreenGalaga",
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each player.")] = 30,
    displays: Annotated[int, typer.Option(min=1, help="Displays side by side.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the actions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play episodes of a model, which draws its actions, and of random actions, in turns; compare mean returns.

    Intervals are those of 95 % of a bootstrap over episodes. ``ticks`` is how long an episode is, ``dropped`` the share
    of them for which there was no frame.
    """
    with refusals():
        known = {name: each for name, each in presets().items() if each.env_id == "Screen-v0"}
        require_known("preset", preset, known)
        play(model, out, known[preset].hyperparams()["env_kwargs"], episodes, displays, seed)
    print_report("screen_learning", compared(read_lines(out), str(model)), ("numpy", "mss"), as_json)


def play(path: Path, out: Path, env_kwargs: Mapping[str, Any], episodes: int, displays: int, seed: int) -> None:
    """Plays what the file lacks. All episodes that are begun count: the first ones to end would be the short ones."""
    played = Counter(line["player"] for line in (read_lines(out) if out.exists() else ()))
    left = {player: episodes - played[player] for player in (RANDOM, str(path))}
    if max(left.values()) <= 0:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    set_random_seed(seed + played.total())
    rng = np.random.default_rng(seed + played.total())
    model, env = load(path), VecTransposeImage(WorkerVecEnv([partial(ScreenEnv, **env_kwargs)] * displays))

    def begin() -> str | None:
        player = max(left, key=lambda each: left[each])
        left[player] -= 1
        return player if left[player] >= 0 else None

    try:
        players, returns = [begin() for _ in range(displays)], np.zeros(displays)
        seen: Any = env.reset()
        state, starts = None, np.ones(displays, bool)
        while any(players):
            actions, state = model.predict(seen, state, starts, deterministic=False)
            is_model = np.array(players) == str(path)
            actions = np.where(is_model, actions, rng.integers(model.action_space.n, size=displays))
            seen, rewards, starts, infos = env.step(actions)
            returns += rewards
            for row in np.flatnonzero(starts).tolist():
                if player := players[row]:
                    counts = {name: infos[row][name] for name in ("frames", "late", "dropped")}
                    append_line(out, {"player": player, "return": round(float(returns[row]), 6)} | counts)
                returns[row], players[row] = 0.0, begin()
    except (EOFError, ConnectionError) as error:
        raise Refusal("a display has failed, see above: the same command goes on") from error
    finally:
        env.close()


def compared(lines: list[dict[str, Any]], model: str) -> list[Row]:
    """Returns a row for each player, and one for by how much the model's mean return is greater."""
    rng, rows, means = np.random.default_rng(0), list[Row](), {}
    for player in (RANDOM, model):
        own = [line for line in lines if line["player"] == player]
        returns, ticks = np.array([line["return"] for line in own]), [line["frames"] + line["dropped"] for line in own]
        means[player] = returns.mean(), rng.choice(returns, (REPEATS, len(own))).mean(axis=1)
        rows.append(_row(player, *means[player]) | {"episodes": len(own), "ticks": float(np.mean(ticks))})
        rows[-1]["dropped"] = sum(line["dropped"] for line in own) / sum(ticks)
    (own_mean, own_means), (mean, others) = means[model], means[RANDOM]
    return [*rows, _row("difference", own_mean - mean, own_means - others)]


def _row(case: str, mean: Any, means: Any) -> Row:
    low, high = np.percentile(means, (2.5, 97.5))
    return {"case": case, "return": float(mean), "low": float(low), "high": float(high)}
