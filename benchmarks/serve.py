"""``python -m benchmarks serve``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from benchmarks.report import ROUNDS, Row, Turn, make_row, positive_numbers, print_report
from benchmarks.server_process import CPU_RESOLUTION, ServerProcess, allow_descriptors, started
from sb3_pvp.common.errors import Refusal, refusals

if TYPE_CHECKING:
    from benchmarks.serve_load import Exchange

#: File descriptors besides those of the connections.
_SPARE = 200
_PLAIN = "model.predict per request"
#: Observations of fights that the clients send in turns.
_OBSERVATIONS = 500
_NAME = "fighter"


def bench_serve(
    clients: Annotated[str, typer.Option(help="How many clients ask at the same time, comma-separated.")] = "1,256",
    seconds: Annotated[float, typer.Option(min=0.1, help="Wall-clock seconds for each case.")] = 10.0,
    model: Annotated[
        Path | None, typer.Option(help="A zip of PvpPPO or a fighter file, of NhEnv; default: a new one.", exists=True)
    ] = None,
    network: Annotated[
        str, typer.Option(help="Network of a new model: that of the default preset, or core.")
    ] = "default",
    backend: Annotated[str, typer.Option(help="As of sb3-pvp serve.")] = "auto",
    workers: Annotated[int, typer.Option(min=0, help="Processes of the server that decide; 0: its event loop.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new model and of the observations.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure sb3-pvp serve beside a server that calls model.predict per request, in turns.

    Both answer the same deterministic requests, with observations of real fights, to clients that ask again as soon as
    they have a reply. ``ratio`` compares replies per second, as the median of the rounds; ``wrong`` counts replies with
    another action than that of ``model.predict``, and the exit code is 1 if there is one.
    """
    numbers = positive_numbers(clients, "--clients")
    with refusals(), TemporaryDirectory() as folder, ExitStack() as stack:
        allow_descriptors(max(numbers) + _SPARE)
        path, exchanges = _prepare(Path(folder), model, network, seed)
        options = ["--backend", backend, "--workers", str(workers)]
        given = ["-m", "sb3_pvp.cli", "serve", "--port", "0", "--models", folder, *options]
        servers = {
            _PLAIN: stack.enter_context(started("-m", "benchmarks.plain_predict_server", str(path))),
            f"sb3-pvp serve, {backend}, {workers}": stack.enter_context(started(*given)),
        }
        rows = [row for number in numbers for row in _measure(servers, exchanges, number, seconds)]
    print_report("serve", rows, ("torch", "numba", "numpy", "orjson"), as_json)
    if any(row["wrong"] for row in rows):
        raise typer.Exit(1)


def _prepare(folder: Path, model: Path | None, network: str, seed: int) -> tuple[Path, Sequence[Exchange]]:
    """Puts the model into a folder of its own; returns its path, and requests with the replies that are right."""
    from benchmarks import stacks
    from benchmarks.serve_load import Exchange
    from sb3_pvp.serving.client import request_line

    path = folder / f"{_NAME}{'.zip' if model is None else model.suffix}"
    with stacks.one_thread(seed):
        if model is None:
            names = {"default": stacks.DEFAULT, "core": stacks.CORE}
            if network not in names:
                raise Refusal(f"--network must be default or core, not {network!r}")
            stacks.make_model(names[network], stacks.Size(32, 64, seed)).save(path)
        else:
            shutil.copyfile(model, path)
        observations, masks, sizes, actions = _fights(path, seed)
    requests = [
        request_line(_NAME, seen, np.split(mask, np.cumsum(sizes)[:-1]), deterministic=True)
        for seen, mask in zip(observations, masks, strict=True)
    ]
    replies = [b'{"action":[' + ",".join(map(str, action)).encode() + b"]" for action in actions.tolist()]
    return path, [Exchange(*each) for each in zip(requests, replies, strict=True)]


def _fights(path: Path, seed: int) -> tuple[Any, Any, tuple[int, ...], Any]:
    """Returns observations and masks from fights of the model, the sizes of heads, and the actions of ``predict``."""
    from sb3_pvp import load
    from sb3_pvp.envs import NhVecEnv
    from sb3_pvp.game.contract import load_contract

    model, env = load(path), NhVecEnv(50, seed=seed)
    sizes = load_contract("NhEnv").head_sizes
    shape = model.observation_space["observation"].shape
    seen: Any = env.reset()
    if seen["observation"].shape[1:] != shape:
        raise Refusal(f"the model sees {shape}, but NhEnv shows {seen['observation'].shape[1:]}")
    parts: list[tuple[Any, Any]] = []
    while len(parts) * env.num_envs < _OBSERVATIONS:
        parts.append((seen["observation"].copy(), seen["action_mask"].astype(bool)))
        for _ in range(7):  # so that the observations differ
            seen, *_ = env.step(model.predict(seen)[0])
    observations, masks = (np.concatenate(each) for each in zip(*parts, strict=True))
    actions = [
        model.predict(o, action_masks=m, deterministic=True)[0] for o, m in zip(observations, masks, strict=True)
    ]
    return observations, masks, sizes, np.array(actions)


def _measure(
    servers: dict[str, ServerProcess], exchanges: Sequence[Exchange], clients: int, seconds: float
) -> list[Row]:
    """Measures servers in turns, after a short warm-up of each."""
    from benchmarks.serve_load import Outcome, ask

    found: dict[str, list[tuple[Outcome, float]]] = {name: [] for name in servers}
    for turn in range(1 + ROUNDS):
        for name, server in servers.items():
            before = server.usage().cpu_s
            outcome = ask(server.port, exchanges, clients, seconds / ROUNDS if turn else 0.2)
            if turn:
                found[name].append((outcome, server.usage().cpu_s - before))
    rates = {name: [len(one.latencies) / one.wall for one, _ in turns] for name, turns in found.items()}
    rows = []
    for name, turns in found.items():
        latencies = np.concatenate([np.array(one.latencies) for one, _ in turns])
        p50, p99 = np.percentile(latencies, (50, 99)) * 1000
        cpu, wall = sum(cpu for _, cpu in turns), sum(one.wall for one, _ in turns)
        row = make_row(name, clients, Turn(len(latencies), max(cpu, CPU_RESOLUTION), wall))
        row |= {"agent_steps_per_s": len(latencies) / wall, "p50_ms": float(p50), "p99_ms": float(p99)}
        row["wrong"] = sum(one.wrong for one, _ in turns)
        if name != _PLAIN:
            ratio = median(own / plain for own, plain in zip(rates[name], rates[_PLAIN], strict=True))
            row |= {"control": _PLAIN, "ratio": ratio}
        rows.append(row)
    return rows
