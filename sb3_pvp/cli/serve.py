"""``sb3-pvp serve``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.usage import choice, complete_game, use_one_thread
from sb3_pvp.common.errors import Refusal, require_known
from sb3_pvp.game import HOME_GAME
from sb3_pvp.policies.files.shipped import shipped_file, shipped_folder

if TYPE_CHECKING:
    from sb3_pvp.serving.server import Server

#: For the command, which also accepts the names of these options in the original.
NAMES_OF_THE_ORIGINAL = {
    "token_normalize_func": lambda option: {
        "remote-processor-pool-size": "workers",
        "remote-processor-type": "worker-type",
    }.get(option, option)
}
_MODELS = (
    "Folder of zip and fighter files, a file, or the name of a fighter that ships; changes are noticed. Default: the "
    "folder models, or without one all fighters that ship."
)
_BACKENDS, _WORKER_TYPES = ("auto", "torch", "compiled", "onnx"), ("process", "thread")
_BACKEND = "How models run; onnx: graphs of the weights, auto: compiled where that is possible."


def serve(
    models: Annotated[Path | None, typer.Option(help=_MODELS)] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Every client that can reach it may use the server.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 9999,
    game: Annotated[
        str,
        typer.Option(
            help="Game whose scripted fighters are served too: a name or module:object.", autocompletion=complete_game
        ),
    ] = HOME_GAME,
    backend: Annotated[str, choice(_BACKENDS, text=_BACKEND)] = "auto",
    device: Annotated[str, typer.Option(help="PyTorch device: cpu, or cuda where there is one.")] = "cpu",
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that run batches; by default none: the server's own event loop does."),
    ] = None,
    worker_type: Annotated[
        str | None,
        choice(_WORKER_TYPES, text="As in the original: process, by default 1 of them, or thread: the event loop."),
    ] = None,
    max_batch_size: Annotated[int, typer.Option(min=1, help="Requests that are decided together.")] = 256,
    reload_interval: Annotated[
        float, typer.Option(min=0, help="Seconds between looks into the folder; 0: only at the start.")
    ] = 1.0,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="HTTP port of /health and /metrics; 0 picks a free one.")
    ] = None,
    max_line: Annotated[int, typer.Option(min=1024, help="Bytes of a request.")] = 65536,
    max_connections: Annotated[int, typer.Option(min=1, help="Connections at the same time.")] = 1024,
    max_rate: Annotated[
        float, typer.Option(min=0, help="Requests per second of each connection, more are delayed; 0: no limit.")
    ] = 0.0,
    idle_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds until a silent connection is closed; 0: never.")
    ] = 600.0,
    strict_upstream: Annotated[
        bool, typer.Option("--strict-upstream", help="Close the connection at a bad request, without a reply.")
    ] = False,
) -> None:
    """Serve fighters to programs that ask for actions, until interrupted.

    Any client of the original prediction API can ask: one JSON object per line. A model's name is that of its file
    without ending. Files are never unpickled: zips of other programs need sb3-pvp export first.
    """
    from sb3_pvp.serving.connection import Limits
    from sb3_pvp.serving.server import ServerSettings, run_server

    _check(backend, worker_type, workers, device)
    use_one_thread()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = ServerSettings(
        models=_place(models),
        host=host,
        port=port,
        game=game,
        backend=backend,
        device=device,
        workers=0 if worker_type == "thread" else int(worker_type == "process") if workers is None else workers,
        max_batch_size=max_batch_size,
        reload_interval=reload_interval,
        metrics_port=metrics_port,
        is_strict=strict_upstream,
        limits=Limits(max_line, max_connections, max_rate, idle_timeout),
    )

    def announce(server: Server) -> None:
        if server.metrics_port is not None:
            typer.echo(f"health and metrics on http://{host}:{server.metrics_port}")
        print(f"sb3-pvp serve listens on {host}:{server.port}", flush=True)

    run_server(settings, announce)


def _place(models: Path | None) -> Path:
    """Returns the folder or file to serve, see `_MODELS`."""
    given = Path("models") if models is None else models
    shipped = shipped_folder() if models is None else shipped_file(models)
    return shipped if shipped is not None and not given.exists() else given


def _check(backend: str, worker_type: str | None, workers: int | None, device: str) -> None:
    """Refuses unknown names, other workers than asked for, and a device that is not there, or not for the back-end."""
    import torch

    require_known("back-end", backend, _BACKENDS)
    require_known("type of workers", worker_type or "process", _WORKER_TYPES)
    if worker_type == "thread" and (workers or 0) > 1:  # the original has 1 by default
        raise Refusal(f"--worker-type thread is the event loop alone: leave --worker-type out for {workers} processes")
    if worker_type == "process" and workers == 0:
        raise Refusal("--worker-type process needs at least one: leave --workers out, or --worker-type")
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise Refusal(f"--device must be cpu or cuda, not {device!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise Refusal("--device cuda: PyTorch sees no GPU here; leave --device out")
    if kind == "cuda" and backend in ("compiled", "onnx"):
        raise Refusal(f"--backend {backend} runs on the CPU only: take torch, or leave --device out")
