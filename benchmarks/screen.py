"""``python -m benchmarks screen``: chess on xboard by pixels and mouse, and how well displays keep time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
import psutil
import typer
from numpy.typing import NDArray

from benchmarks.report import Row, positive_numbers, print_report
from sb3_pvp.games.chess.fen import read_fen
from sb3_pvp.games.chess.notation import legal_by_name, played
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.screen import ScreenEnv
from sb3_pvp.zoo.worker_vec_env import WorkerVecEnv

#: Shares of a square's pixels: of white pieces the bright ones, of black ones the dark ones.
_BRIGHT, _DARK = 0.12, 0.2
_PATIENCE = 40  #: Ticks until a move must be seen.
_PROGRAMS = ("Xvfb", "xboard", "fairymax", "xgalaga")


def bench_screen(
    moves: Annotated[int, typer.Option(min=0, help="Moves to play on xboard; 0: none.")] = 100,
    displays: Annotated[str, typer.Option(help="Numbers of displays side by side, comma-separated.")] = "1,4",
    seconds: Annotated[float, typer.Option(min=0.0, help="Seconds of play on these; 0: none.")] = 60.0,
    game: Annotated[str, typer.Option(help="The game on these.")] = "xgalaga",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the moves.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play chess by pixels and mouse, and measure by how much frames are late.

    Times are those of the clock. ``left`` is the number of processes that are there afterwards and were not before.
    """
    rows: list[Row] = []
    if moves:
        rows.append(_with_rest(partial(chess_by_mouse, moves, seed)))
    for count in positive_numbers(displays, "--displays") if seconds else ():
        rows.append(_with_rest(partial(_jitter, game, count, seconds)))
    print_report("screen", rows, ("numpy", "mss", "python-xlib"), as_json)


def _with_rest(run: Any) -> Row:
    """Adds how many processes of the programs are left."""
    before = _running()
    row: Row = run()
    return {**row, "left": len(_running() - before)}


def _running() -> set[int]:
    return {each.pid for each in psutil.process_iter(["name"]) if each.info["name"] in _PROGRAMS}


def occupied(board: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Returns what is on squares of a picture of xboard's board: 1 white, -1 black, 0 nothing; rank by rank from 1."""
    height, width, _ = board.shape
    cells = board[: height // 8 * 8, : width // 8 * 8].reshape(8, height // 8, 8, width // 8, 3).astype(np.int64)
    cells = cells[:, 4:-4, :, 4:-4]  # without the lines between squares
    bright = ((cells[..., 2] > 190) & (cells.min(axis=-1) > 190)).mean(axis=(1, 3))
    dark = (cells.max(axis=-1) < 70).mean(axis=(1, 3))
    return np.where(dark > _DARK, -1, np.where(bright > _BRIGHT, 1, 0))[::-1].ravel()


def chess_by_mouse(moves: int, seed: int) -> Row:
    """Plays random legal moves against xboard's engine: sees the board in the observations, and moves by the mouse.

    Of the row, ``ticks`` are those of the clock, to compare with ``frames`` and ``dropped``.
    """
    next(_turns(np.random.default_rng(0), read_fen(START)))  # so that nothing is compiled while the time runs
    # As many pixels as the board has, so that no other picture is needed.
    rng, env = np.random.default_rng(seed), ScreenEnv("xboard", {"tick": 0.1, "limit": None, "scale": [328, 328]})
    actions = {name: number for number, name in enumerate(env.action_names)}
    counts, ticks, done, games, lags = dict.fromkeys(("frames", "late", "dropped"), 0), 0, 0, 0, list[float]()
    try:
        while done < moves:
            env.reset(seed=seed + games)
            games, began, info = games + 1, time.monotonic(), dict[str, Any]()
            for action, follows in _turns(rng, read_fen(START)):
                seen, _, is_over, _, info = env.step(np.int64(actions[action]))
                done += 1
                lags.append(info["lag"])
                for _ in range(_PATIENCE):
                    if is_over or follows(occupied(seen)) or done == moves:
                        break
                    seen, _, is_over, _, info = env.step(np.int64(0))
                    lags.append(info["lag"])
                else:
                    raise RuntimeError(f"{action} was not answered in {_PATIENCE} ticks")
                if is_over or done == moves:
                    break
            ticks += round((time.monotonic() - began) / env.game.tick)
            counts = {name: count + info[name] for name, count in counts.items()}
    finally:
        env.close()
    return {"case": "xboard", "displays": 1, "moves": done, "games": games, "ticks": ticks, **counts, **_spread(lags)}


def _turns(rng: np.random.Generator, position: Any) -> Iterator[tuple[str, Any]]:
    """Yields White's moves as actions, with what says whether squares that are seen have the answer to it."""
    while True:
        legal = {name: move for name, move in legal_by_name(position).items() if len(name) == 4}  # promotions ask
        if not legal:
            return
        name = str(rng.choice([*legal]))
        position = after = played(position, legal[name])
        answers = [played(after, move) for move in legal_by_name(after).values()]
        seen: list[Any] = []

        def follows(squares: NDArray[np.int64], answers: Any = answers, seen: Any = seen) -> bool:
            seen[:] = [each for each in answers if (np.sign(each[:64]) == squares).all()]
            return bool(seen)

        yield f"move {_cell(name[:2])}>{_cell(name[2:])}", follows
        position = seen[0]


def _cell(square: str) -> str:
    return f"{ord(square[0]) - ord('a')},{8 - int(square[1])}"


def _jitter(game: str, count: int, seconds: float) -> Row:
    """Plays at random on so many displays at once."""
    env = WorkerVecEnv([partial(ScreenEnv, game) for _ in range(count)])
    tick, lags, totals = (
        env.get_attr("game")[0].tick,
        list[float](),
        dict.fromkeys(("frames", "late", "dropped"), 0),
    )
    try:
        env.reset()
        rng, last = np.random.default_rng(0), [dict[str, Any]() for _ in range(count)]
        for _ in range(round(seconds / tick)):
            _, _, dones, infos = env.step(rng.integers(env.action_space.n, size=count))  # type: ignore[attr-defined]
            lags += [info["lag"] for info in infos]
            for row in range(count):
                last[row] = infos[row]
                if dones[row]:
                    totals = {name: total + last[row].pop(name) for name, total in totals.items()}
        for each in last:
            totals = {name: total + each.get(name, 0) for name, total in totals.items()}
    finally:
        env.close()
    return {"case": game, "displays": count, **totals, **_spread(lags)}


def _spread(lags: list[float]) -> Row:
    """Returns by how many milliseconds frames came after they were due."""
    found = np.percentile(lags, (50, 95, 99, 100)) * 1000
    return {f"{name} ms": float(value) for name, value in zip(("median", "p95", "p99", "most"), found, strict=True)}
