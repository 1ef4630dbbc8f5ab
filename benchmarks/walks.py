"""``python -m benchmarks walks``."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import typer

import sb3_pvp
from benchmarks.report import Row, print_report

_PACKAGE = str(Path(sb3_pvp.__file__).parent)
#: What is not the walk: imports, and Numba's compiling, of which a second process has only the result.
_ASIDE = {"_find_and_load": "<frozen importlib._bootstrap>", "_compile_for_args": "dispatcher.py"}
_LINE = "train.py --preset PastSelfPlay --n-timesteps 256 --num-threads 1 --verbose 0 --eval-freq -1"

#: What a reader can follow, by walk: the most files, and the most switches. `tests/benchmarks` holds them.
LIMITS: dict[str, tuple[int, int | None]] = {
    "train.py -> learn": (50, 550),
    "snapshot -> opponent's act": (24, 120),
    "step_async -> observation": (12, None),
    "rollout -> weights": (7, None),
    "request -> reply": (8, None),
}


class _EndOfWalk(BaseException):
    """Ends a walk at its last call; no ``except Exception`` on the way may catch it."""


def bench_walks(
    train: Annotated[bool, typer.Option(help="Also walk from a command line of train.py to `learn`.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count the files of sb3_pvp that calls run through on five walks, and the switches from one file to another.

    Calls of Python functions count, except during imports and Numba's compiling. "Plug-in" also leaves out games and
    everything they call.
    "At most" is what a reader can follow; the exit code is 1 if a walk is longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        walked = {
            # First: the other walks load and cache what a fresh process would still have to walk through.
            **({"train.py -> learn": _train(Path(folder))} if train else {}),
            "snapshot -> opponent's act": _opponent_acts(Path(folder)),
            "step_async -> observation": _step(),
            "rollout -> weights": _learning_step(),
            "request -> reply": _request(Path(folder)),
        }
    rows: list[Row] = [
        {
            "case": name,
            "files": len(set(walk.files)),
            "switches": _switches(walk.files),
            "at most": " / ".join(str(limit) for limit in LIMITS[name] if limit),
            "plug-in files": len(set(walk.plugin)),
            "plug-in switches": _switches(walk.plugin),
            "walked": sorted(set(walk.files)),
        }
        for name, walk in walked.items()
    ]
    if not as_json:
        for row in rows:
            row["walked"] = " ".join(row["walked"])
    print_report("walks", rows, (), as_json)
    if any(is_too_long(row) for row in rows):
        raise typer.Exit(1)


def is_too_long(row: Row) -> bool:
    """Returns whether a walk goes beyond its `LIMITS`."""
    files, switches = LIMITS[row["case"]]
    return bool(row["files"] > files or (switches and row["switches"] > switches))


class Walk(NamedTuple):
    """The files of all calls in order, relative to the package; `plugin`: only those outside of a game's calls."""

    files: list[str]
    plugin: list[str]


def _switches(files: list[str]) -> int:
    return sum(one != other for one, other in pairwise(files))


@contextmanager
def walking(last: str = "") -> Iterator[Walk]:
    """Records the calls within the ``with`` block, which ends at the first call of a function named ``last``."""
    walk = Walk([], [])
    aside = games = 0

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal aside, games
        code, step = frame.f_code, {"call": 1, "return": -1}.get(event, 0)
        if code.co_filename.endswith(_ASIDE.get(code.co_name, "nowhere")):
            aside += step  # a depth: imports run further imports
        elif step and not aside and code.co_filename.startswith(_PACKAGE):
            file = code.co_filename.removeprefix(_PACKAGE)[1:]
            games += step * file.startswith("games")
            if event == "call":
                walk.files.append(file)
                walk.plugin.extend([file] * (not games))
        if event == "call" and code.co_name == last:
            raise _EndOfWalk

    sys.setprofile(see)
    try:
        yield walk
    except _EndOfWalk:
        pass
    finally:
        sys.setprofile(None)


def _opponent_acts(folder: Path) -> Walk:
    """Sets a file as the opponent of a row, resets the row, and lets the opponent act once."""
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.policies import AutoregressivePolicy

    env = NhVecEnv(2)
    PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2).save(folder / "snapshot")
    env.reset()
    with walking() as walk:
        env.env_method("set_opponent", str(folder / "snapshot.zip"), indices=[0])
        env.fights.reset([0])
        env.fights.opponents.act(env.fights.actions)
    return walk


def _step() -> Walk:
    """Steps a vectorised environment once, from actions to observations, in the middle of fights."""
    from sb3_pvp.envs import NhVecEnv

    env = NhVecEnv(2)
    env.reset()
    actions = env.fights.actions[:, 0].copy()
    with walking() as walk:
        env.step(actions)
    return walk


def _learning_step() -> Walk:
    """Learns once from a rollout that has been played."""
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.policies import AutoregressivePolicy

    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2), n_steps=16, batch_size=32)
    model.learn(32)
    with walking() as walk:
        model.train()
    return walk


def _request(folder: Path) -> Walk:
    """Sends a request to a server in this process, as a later one of a connection, and waits for the reply."""
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.policies import AutoregressivePolicy
    from sb3_pvp.serving.server import Server, ServerSettings

    models, env = folder / "models", NhVecEnv(2)
    models.mkdir()
    PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2).save(models / "fighter")
    observation = env.reset()
    masks = env.get_attr("contract")[0].split_mask(observation["action_mask"][0].astype(bool))
    asked = {"model": "fighter", "obs": observation["observation"][0].tolist()}
    line = json.dumps({**asked, "actionMasks": [mask.tolist() for mask in masks]}).encode() + b"\n"

    async def ask() -> Walk:
        async with Server(ServerSettings(models, port=0, reload_interval=0.0)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for _ in range(2):  # the first request of a connection may have to prepare something
                with walking() as walk:
                    writer.write(line)
                    reply = json.loads(await reader.readline())
                assert "action" in reply, reply
            writer.close()
            return walk

    return asyncio.run(ask())


def _train(folder: Path) -> Walk:
    """Runs a command line of train.py until `learn` is called."""
    from sb3_pvp.zoo import train

    line = [*_LINE.split(), "--log-folder", str(folder / "logs")]
    with patch.object(sys, "argv", line), walking(last="learn") as walk:
        train()
    return walk
