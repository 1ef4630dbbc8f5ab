"""What W&B has written in offline mode."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

_BLOCK, _HEADER, _FILE_HEADER = 32768, 7, 7
_WHOLE, _LAST = 1, 4


@dataclass
class OfflineRun:
    """The contents of one transaction log."""

    id: str = ""
    project: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[Any] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def steps(self, metric: str) -> list[int]:
        """The steps after which a metric was logged."""
        return [row["global_step"] for row in self.history if metric in row]

    def artifact(self, alias: str) -> Any:
        (found,) = [each for each in self.artifacts if alias in each.aliases]
        return found


def read_runs(folder: Path) -> list[OfflineRun]:
    """All runs below a folder, in the order in which they began."""
    wandb.teardown()  # now all is written
    return [read_run(path) for path in sorted(folder.glob("wandb/offline-run-*/*.wandb"))]


def read_run(path: Path) -> OfflineRun:
    run = OfflineRun()
    for record in _records(path.read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind in ("run", "config"):
            config = record.run.config if kind == "run" else record.config
            run.config |= {each.key: json.loads(each.value_json) for each in config.update if each.key}
            if kind == "run":
                run.id, run.project = record.run.run_id, record.run.project
        elif kind == "history":
            items = record.history.item
            run.history.append({each.key or each.nested_key[0]: json.loads(each.value_json) for each in items})
        elif kind == "artifact":
            run.artifacts.append(record.artifact)
        elif kind == "files":
            run.files += [each.path for each in record.files.files]
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _records(data: bytes) -> Iterator[Record]:
    # LevelDB's log format: blocks of records with checksum, length and whether the record continues.
    position, part = _FILE_HEADER, b""
    while position + _HEADER <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < _HEADER:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        part += data[position + _HEADER : position + _HEADER + length]
        position += _HEADER + length
        if kind in (_WHOLE, _LAST):
            record = Record()
            record.ParseFromString(part)
            part = b""
            yield record


def use_folder(monkeypatch: pytest.MonkeyPatch, folder: Path, mode: str = "offline") -> None:
    """Lets W&B put everything into a folder, and know nothing of the machine's own settings."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    places = {
        "DIR": folder,
        "DATA_DIR": folder / "data",
        "CACHE_DIR": folder / "cache",
        "CONFIG_DIR": folder / "config",
    }
    for name, path in places.items():
        monkeypatch.setenv(f"WANDB_{name}", str(path))
    monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("NETRC", str(folder / "no-netrc"))
    wandb.teardown()  # what it has read of the environment before
