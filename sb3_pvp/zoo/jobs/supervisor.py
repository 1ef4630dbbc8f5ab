"""``python -m sb3_pvp.zoo.jobs.supervisor RESULT COMMAND...`` runs a job's command and writes down how it ended.

Whatever the command leaves running is ended with it. Told to end, the supervisor ends the command first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.process_trees import GRACE, MARK, stop
from sb3_pvp.zoo.jobs.jobs import Result

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(result: Path, command: Sequence[str]) -> None:
    """Runs the command to its end."""
    mark = os.environ[MARK]
    for number in _SIGNALS:
        signal.signal(number, signal.default_int_handler)
    code = _run(mark, command)
    write_atomically(result, Result(mark=mark, exit_code=code, ended_at=time.time()).model_dump_json())


def _run(mark: str, command: Sequence[str]) -> int:
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"the command cannot be started: {error}", flush=True)
        return 127
    try:
        process.wait()
    except KeyboardInterrupt:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    stop(mark, GRACE)
    code = process.wait()
    return code if code >= 0 else 128 - code  # as shells say that a signal ended it


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
