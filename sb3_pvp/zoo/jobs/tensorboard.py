"""TensorBoard as a job, once for each folder of logs."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sb3_pvp.zoo.jobs.jobs import RUNNING, Job, JobError, Jobs
from sb3_pvp.zoo.jobs.logs import last_lines

DEFAULT_PORT = 6006
NAME = "tensorboard"

_LOGDIR, _URL = "logdir", "url"
#: Seconds until it must listen; it imports much.
_PATIENCE = 120.0


@dataclass(frozen=True)
class TensorBoard:
    """A TensorBoard that runs as a job: where to look, and whether it was started just now."""

    job: Job
    url: str
    is_new: bool


def ensure_tensorboard(jobs: Jobs, logdir: Path, port: int = DEFAULT_PORT, host: str = "127.0.0.1") -> TensorBoard:
    """The TensorBoard of these jobs that shows this folder; if none runs, one is started, and listens on return.

    It is a job with the name `NAME`, on ``port`` (0: a free one); the host ``0.0.0.0`` lets everybody in the network
    look. Raises `JobError` if there is no such folder, if the port is in use, or if TensorBoard does not come up.
    """
    logdir = logdir.absolute()
    if not logdir.is_dir():
        raise JobError(f"there is no folder {logdir} yet: train with --tensorboard-log, or say where the logs are")
    with jobs.locked():  # else two who ask at the same time get one each
        for status in jobs.all():
            if status.state == RUNNING and status.job.details.get(_LOGDIR) == str(logdir):
                return TensorBoard(status.job, status.job.details[_URL], is_new=False)
        try:
            with socket.create_server((host, port)) as probe:
                port = int(probe.getsockname()[1])
        except OSError as error:
            raise JobError(
                f"TensorBoard cannot listen on {host}, port {port} ({error.strerror}): give another port, or 0"
            ) from error
        url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", host]
        job = jobs.start([*command, "--port", str(port)], NAME, {_LOGDIR: str(logdir), _URL: url})
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and jobs.is_running(job):
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1.0):
            return TensorBoard(job, url, is_new=True)
        time.sleep(0.2)
    jobs.stop([job])
    said = "\n".join(last_lines(Path(job.log), 5))
    raise JobError(f"TensorBoard did not come up ({job.log}): {said}")
