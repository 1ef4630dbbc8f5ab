"""Recorded fights of the Dharok game: read from transcripts, and kept as arrays in ``tests/data``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS
from sb3_pvp.games.osrs.remote.client_replies import decode_meta
from tests.games.osrs.faithfulness.reference import DATA, Json, read_lines

CONTRACT = load_contract("DharokEnv")
FIGHTS = DATA / "dharok_fights.npz"
_GROUPS = {name: group for group, names in OPTIONAL_FIELDS.items() for name in names}


@dataclass
class Recording:
    """One fight of T ticks; row 0 is the reset, row T is the terminal reply, one tick after the end.

    Observations and masks are what the two seats saw at the end of each tick. The terminal reply repeats the
    observation of the tick before, so there it is the other seat's ``targetObs`` that tells.
    """

    name: str
    against_bot: bool
    death_match: bool
    #: `Outcome` of both seats.
    outcomes: NDArray[np.uint8]
    #: (T+1, 2, heads); row 0 and the ignored actions of row T are zeros.
    actions: NDArray[np.uint8]
    obs: NDArray[np.float32]
    masks: NDArray[np.bool_]
    #: `META_DTYPE` records (T+1, 2); which of them were sent; which observations were.
    meta: NDArray[np.void]
    meta_known: NDArray[np.bool_]
    obs_known: NDArray[np.bool_]

    @property
    def ticks(self) -> int:
        return len(self.actions) - 1

    @property
    def reset_options(self) -> dict[str, Any]:
        """How the fight was asked for."""
        return {"bots": (None, "baseline" if self.against_bot else None), "death_match": self.death_match}


def flags(masks: list[list[bool]]) -> list[bool]:
    return [allowed for head in masks for allowed in head]


def exchanges(path: Path) -> Iterator[tuple[str, Json, Json]]:
    """Agent, request and reply body of each reset and step."""
    asked: dict[str, list[Json]] = {}
    for entry in read_lines(path):
        if "header" in entry:
            continue
        message = json.loads(entry["line"])
        if entry["dir"] == ">":
            asked.setdefault(entry["conn"], []).append(message)
        elif (request := asked[entry["conn"]].pop(0))["action"] in ("reset", "step"):
            yield request["meta"]["id"], request, message["body"]


def read_transcript(path: Path) -> Recording:
    """The fight of a transcript. Seat 0 is the agent that was answered first."""
    agents: dict[str, dict[int, tuple[Json, Json]]] = {}
    for agent, request, body in exchanges(path):
        agents.setdefault(agent, {})[body["meta"]["episodeTicks"]] = (request, body)
    sides = sorted(agents.values(), key=min)
    first = min(sides[0])
    rows = [[side.get(tick) for side in sides] for tick in range(first, max(sides[0]) + 1)]
    reset = sides[0][first][0]["body"]
    recording = _empty(path.name.removesuffix(".jsonl.gz"), reset, len(rows))
    for t, row in enumerate(rows):
        for seat, exchange in enumerate(row):
            if exchange is not None:
                _fill(recording, t, seat, *exchange)
    return recording


def _empty(name: str, reset: Json, rows: int) -> Recording:
    shape = (rows, NUM_SEATS)
    return Recording(
        name,
        reset["target"] == "baseline",
        reset["deathMatch"],
        np.zeros(NUM_SEATS, np.uint8),
        np.zeros((*shape, CONTRACT.num_heads), np.uint8),
        np.zeros((*shape, CONTRACT.num_observations), np.float32),
        np.zeros((*shape, CONTRACT.num_flat_actions), bool),
        np.zeros(shape, META_DTYPE),
        np.zeros(shape, bool),
        np.zeros(shape, bool),
    )


def _fill(recording: Recording, t: int, seat: int, request: Json, body: Json) -> None:
    """Takes in a reply: the seat's own view and that of its target."""
    recording.meta[t, seat] = decode_meta(body["meta"])
    recording.meta_known[t, seat] = True
    recording.masks[t, seat] = flags(body["actionMasks"])
    _see(recording, t, 1 - seat, body["meta"]["targetObs"])
    recording.masks[t, 1 - seat] = flags(body["meta"]["targetActionMasks"])
    if "terminalState" in body:
        recording.outcomes[seat] = Outcome[body["terminalState"]]
        assert (recording.obs[t - 1, seat] == np.float32(body["obs"])).all(), "a terminal reply repeats the last one"
        return
    _see(recording, t, seat, body["obs"])
    if request["action"] == "step":
        recording.actions[t, seat] = request["body"]["action"]


def _see(recording: Recording, t: int, seat: int, obs: list[float]) -> None:
    seen = np.float32(obs)
    assert not recording.obs_known[t, seat] or (recording.obs[t, seat] == seen).all(), "both replies show the same"
    recording.obs[t, seat] = seen
    recording.obs_known[t, seat] = True


@dataclass
class Draws:
    """The random state of a fight before its reset and before each of its ticks."""

    seed: int
    #: (T,)
    words: NDArray[np.uint32]


#: The arrays of a recording with a row for each tick, and what is kept of it besides.
_ROWS = ("actions", "obs", "masks", "meta", "meta_known", "obs_known")
_SCALARS = ("name", "against_bot", "death_match", "outcomes")


def save(path: Path, fights: list[tuple[Recording, Draws]]) -> None:
    """Writes recordings with their draws: one array for each field, fights one after the other."""
    recordings = [recording for recording, _ in fights]
    arrays = {name: np.array([getattr(recording, name) for recording in recordings]) for name in _SCALARS}
    arrays["ticks"] = np.array([recording.ticks for recording in recordings])
    arrays["seeds"] = np.array([draws.seed for _, draws in fights])
    arrays["words"] = np.concatenate([draws.words for _, draws in fights])
    rows = {name: np.concatenate([getattr(recording, name) for recording in recordings]) for name in _ROWS}
    meta = rows.pop("meta")
    rows |= {f"meta.{name}": meta[name] for name in META_DTYPE.names or ()}
    # By columns (one entry, all ticks), which compress better than rows.
    arrays |= {name: np.ascontiguousarray(np.moveaxis(values, 0, -1)) for name, values in rows.items()}
    np.savez_compressed(path, allow_pickle=False, **arrays)


def load(path: Path = FIGHTS) -> list[tuple[Recording, Draws]]:
    """What `save` wrote."""
    with np.load(path) as file:
        arrays = dict(file)
    whole = {name: np.moveaxis(arrays[name], -1, 0) for name in _ROWS if name != "meta"}
    whole["meta"] = np.zeros(whole["meta_known"].shape, META_DTYPE)
    for name in META_DTYPE.names or ():
        whole["meta"][name] = np.moveaxis(arrays[f"meta.{name}"], -1, 0)
    ends = np.cumsum(arrays["ticks"] + 1)[:-1]
    parts = {name: np.split(values, ends) for name, values in whole.items()}
    words = np.split(arrays["words"], np.cumsum(arrays["ticks"])[:-1])
    fights = []
    for k, seed in enumerate(arrays["seeds"]):
        scalars = {name: arrays[name][k] for name in _SCALARS}
        scalars |= {"name": str(scalars["name"])}
        scalars |= {name: bool(scalars[name]) for name in ("against_bot", "death_match")}
        recording = Recording(**scalars, **{name: values[k] for name, values in parts.items()})
        fights.append((recording, Draws(int(seed), words[k])))
    return fights


def disagreements(recording: Recording, t: int, world: Any) -> dict[str, NDArray[np.bool_]]:
    """Which fights of a world show something else than row ``t``: (F,) for each entry that differs in any of them."""
    wrong: dict[str, NDArray[np.bool_]] = {}
    for seat in range(NUM_SEATS):
        if recording.obs_known[t, seat]:
            different = np.abs(world.obs[:, seat] - recording.obs[t, seat]) > 1e-6
            for entry in np.flatnonzero(different.any(axis=0)):
                wrong[f"seat {seat} obs {CONTRACT.observations[entry].id}"] = different[:, entry]
        different = world.masks[:, seat] != recording.masks[t, seat]
        for flat in np.flatnonzero(different.any(axis=0)):
            wrong[f"seat {seat} mask {flat}"] = different[:, flat]
        if recording.meta_known[t, seat]:
            wrong |= _wrong_meta(recording.meta[t, seat], world.meta[:, seat], seat)
    return wrong


def _wrong_meta(expected: np.void, got: NDArray[np.void], seat: int) -> dict[str, NDArray[np.bool_]]:
    wrong = {}
    for name in META_DTYPE.names or ():
        if name not in _GROUPS or expected[_GROUPS[name]]:
            different = np.abs(got[name].astype(float) - float(expected[name])) > 1e-6
            if different.any():
                wrong[f"seat {seat} meta {name}"] = different
    return wrong
