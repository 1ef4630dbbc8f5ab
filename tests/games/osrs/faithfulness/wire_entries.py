"""Replies on the wire, entry by entry, and which entries of a recorded scenario are fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.games.osrs.faithfulness.reference import Json, read_lines

#: Phases that prepare a state by reacting to what is seen; their length varies.
REACTIVE_PHASES = {"start", "setup", "free_slot", "hurt", "freeze"}
#: The other side's view is compared as its own reply; episode ticks depend on who was answered first.
LEFT_OUT = {"targetObs", "targetActionMasks", "episodeTicks"}
#: What follows from a distance, by index; loose as a whole where the distance was not under control.
POSITION = {
    *(f"obs {k}" for k in (33, 55, 56, 60, 61, 62)),
    *(f"mask 9.{k}" for k in range(5)),
    *(f"mask 10.{k}" for k in range(7)),
    *("mask 11.3", "meta distance"),
}
OBS_PID = 57

Entries = dict[str, Any]
#: Build, case, phase, tick in the phase, both actions as text, who has PID.
Key = tuple[str, str, str, int, str, str, int]
Sides = tuple[Entries, Entries]


def entries(reply: Json) -> Entries:
    """A reply as one flat mapping; indices are those of the contract."""
    masks = {f"mask {h}.{j}": bit for h, head in enumerate(reply["actionMasks"]) for j, bit in enumerate(head)}
    meta = {f"meta {name}": value for name, value in reply["meta"].items() if name not in LEFT_OUT}
    obs = {f"obs {k}": value for k, value in enumerate(reply["obs"])}
    return {**obs, **masks, **meta, "terminalState": reply.get("terminalState")}


def same(x: Any, y: Any) -> bool:
    """Equal, numbers to 1e-6."""
    if isinstance(x, (int, float)) and isinstance(y, (int, float)) and not isinstance(x, bool):
        return abs(x - y) <= 1e-6 * max(1.0, abs(x))
    return bool(x == y)


def matched_tick(place: Sequence[Any], exchanges: Sequence[Json]) -> tuple[Key, Sides] | None:
    """The key of a tick and both sides' entries; ``None`` unless both sides got a full reply in a scripted phase.

    ``place`` is build, case, phase, tick in the phase; an exchange has an ``action`` and a ``reply``.
    """
    build, case, phase, tick = place
    a, b = exchanges
    if phase in REACTIVE_PHASES or "obs" not in a["reply"] or "obs" not in b["reply"]:
        return None
    pid = int(a["reply"]["obs"][OBS_PID])
    key = (build, str(case), phase, tick, str(a["action"]), str(b["action"]), pid)
    return key, (entries(a["reply"]), entries(b["reply"]))


def recorded_ticks(path: Path) -> Iterator[tuple[Key, Sides]]:
    """The matched ticks of a recorded scenario, over all its repeats."""
    header, *rows = read_lines(path)
    pairs = {(rep["build"], str(rep["case"]), rep["rep"]): (rep["A"], rep["B"]) for rep in header["agentParamsPerRep"]}
    for row in rows:
        agents = [row["agents"].get(agent) for agent in pairs[row["build"], str(row["case"]), row["rep"]]]
        if None not in agents:
            tick = matched_tick([row[name] for name in ("build", "case", "phase", "pt")], agents)
            if tick is not None:
                yield tick


def loose_entries(groups: Iterable[list[Sides]], known: Sequence[Iterable[str]]) -> list[set[str]]:
    """Per side, what differed between repeats of a matched tick, here or in another recording (``known``)."""
    loose = [set(names) for names in known]
    for first, *repeats in groups:
        for side, other in ((side, repeat[side]) for repeat in repeats for side in (0, 1)):
            names = first[side].keys() | other.keys()
            loose[side].update(name for name in names if not same(first[side].get(name), other.get(name)))
    return [side | POSITION for side in loose] if any("meta distance" in side for side in loose) else loose


def fixed_entries(path: Path, known: Sequence[Iterable[str]], builds: Sequence[str], cases: Sequence[str]) -> Json:
    """The fixed entries of the repeated ticks of these builds and cases, and the gear of side A."""
    groups: dict[Key, list[Sides]] = {}
    for key, sides in recorded_ticks(path):
        groups.setdefault(key, []).append(sides)
    loose = loose_entries(groups.values(), known)
    wanted = {key: group[0] for key, group in groups.items() if len(group) > 1 and key[0] in builds and key[1] in cases}
    names = [
        sorted(set().union(*(sides[side] for group in groups.values() for sides in group)) - loose[side])
        for side in (0, 1)
    ]
    ticks = [
        [*key, *([sides[side].get(name) for name in names[side]] for side in (0, 1))] for key, sides in wanted.items()
    ]
    header = next(read_lines(path))
    gear = {rep["build"]: rep["episodeIdA"] for rep in header["agentParamsPerRep"] if rep["paramsA"]["randomizeGear"]}
    return {"names": names, "ticks": ticks, "episode_ids": gear}
