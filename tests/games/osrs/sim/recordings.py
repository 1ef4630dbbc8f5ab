"""Reads recorded fights of the original server: the replies each agent got, episode by episode.

Two kinds of files are understood: wire transcripts (one line per message) and scenarios (one line per tick).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.paths import DATA

FOLDER = DATA / "recordings"

Json = dict[str, Any]


@dataclass
class Reply:
    """The body of one reset or step reply; ``terminal`` replies mix the values of two ticks."""

    obs: NDArray[np.float64]
    masks: NDArray[np.bool_]
    meta: Json
    terminal: bool

    @classmethod
    def parse(cls, body: Json) -> Reply:
        return cls(np.array(body["obs"], float), flatten(body["actionMasks"]), body["meta"], "terminalState" in body)


@dataclass
class Episode:
    """The replies to one agent from a reset to the end; ``params`` are the reset parameters it sent."""

    source: str
    agent: str
    params: Json
    replies: list[Reply] = field(default_factory=list)


def flatten(masks: list[list[bool]]) -> NDArray[np.bool_]:
    return np.array([allowed for head in masks for allowed in head], bool)


def _lines(path: Path) -> Iterator[Json]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _read_transcript(path: Path, lines: Iterator[Json]) -> list[Episode]:
    episodes: list[Episode] = []
    running: dict[str, Episode] = {}
    requests: dict[str, list[Json]] = {}
    for entry in lines:
        connection = str(entry["conn"])
        if entry["dir"] == ">":
            requests.setdefault(connection, []).append(json.loads(entry["line"]))
            continue
        request = requests[connection].pop(0)
        answer = json.loads(entry["line"])
        if request["action"] not in ("reset", "step") or "body" not in answer:
            continue
        agent = request["meta"]["id"]
        if request["action"] == "reset":
            running[agent] = Episode(path.name, agent, request["body"]["resetParams"])
            episodes.append(running[agent])
        running[agent].replies.append(Reply.parse(answer["body"]))
    return episodes


def _read_scenario(path: Path, header: Json, lines: Iterator[Json]) -> list[Episode]:
    """The agents of a scenario share the parameters that masks depend on, and have fresh ids in each repeat."""
    episodes: list[Episode] = []
    running: dict[str, Episode] = {}
    for entry in lines:
        for agent, exchange in entry["agents"].items():
            if "obs" not in exchange["reply"]:
                continue
            if exchange.get("reset"):
                running[agent] = Episode(path.name, agent, header["params"]["resetParams"])
                episodes.append(running[agent])
            running[agent].replies.append(Reply.parse(exchange["reply"]))
    return episodes


def read(path: Path) -> list[Episode]:
    """All episodes in a recording."""
    lines = _lines(path)
    header = next(lines)
    return _read_scenario(path, header, lines) if "scenario" in header else _read_transcript(path, lines)


def fights_below(folder: Path) -> list[Path]:
    """All recordings of NhEnv fights in a folder and the folders below it."""
    return [path for path in sorted(folder.rglob("*.jsonl.gz")) if _is_fight(path)]


def _is_fight(path: Path) -> bool:
    first = next(_lines(path))
    header = first.get("header", {"kind": "none"})
    return "scenario" in first or (header["kind"] in ("baseline", "selfplay") and "env" not in header)
