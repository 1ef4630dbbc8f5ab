"""Makes the data of these tests: ``python -m tests.games.osrs.faithfulness.condense REFERENCE_DIR``.

``REFERENCE_DIR`` holds ``rsps-transcripts``, ``scenarios``, ``gear-rolls.jsonl.gz`` and ``rsps-stats.json``.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.games.osrs.faithfulness.reference import RESETS, SCENARIOS, STATISTICS, Json, read_lines
from tests.games.osrs.faithfulness.scenario_scripts import SCRIPTS
from tests.games.osrs.faithfulness.wire_entries import fixed_entries


def write_lines(path: Path, objects: Iterable[Json]) -> None:
    """One JSON object per line, compressed; the same bytes for the same objects."""
    lines = [json.dumps(content, separators=(",", ":")) + "\n" for content in objects]
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
        file.write("".join(lines).encode())


def exchanges(path: Path) -> Iterator[tuple[Json, Json]]:
    """Requests and their replies, in the order of the replies."""
    asked: dict[str, list[Json]] = {}
    for entry in read_lines(path):
        if "header" in entry:
            continue
        message = json.loads(entry["line"])
        if entry["dir"] == ">":
            asked.setdefault(entry["conn"], []).append(message)
        else:
            yield asked[entry["conn"]].pop(0), message


def transcript_resets(path: Path) -> Iterator[Json]:
    """Every reset of a recorded fight."""
    started = [(request, reply) for request, reply in exchanges(path) if request["action"] in ("reset", "step")]
    solo = [pair for pair in started if pair[0]["body"].get("target") == "baseline"]
    for number, (request, reply) in enumerate(solo):
        yield {"source": f"{path.name[:-9]} {number}", "resets": [request["body"]], "reply": reply["body"]}
    if not solo:
        yield pair_reset(path.name[:-9], started[:3])


def pair_reset(source: str, started: list[tuple[Json, Json]]) -> Json:
    """The reset of two agents: the agent that is answered first steps, and in that tick the other one is answered."""
    (first, answer), *others = started
    ((late, late_answer),) = [exchange for exchange in others if exchange[0]["action"] == "reset"]
    ((step, step_answer),) = [exchange for exchange in others if exchange[0]["action"] == "step"]
    assert step["meta"] == first["meta"] != late["meta"]
    return {
        "source": source,
        "resets": [first["body"], late["body"]],
        "reply": answer["body"],
        "action": step["body"]["action"],
        "replies": [step_answer["body"], late_answer["body"]],
    }


def gear_roll(roll: Json) -> Json:
    """A line of the recorded gear rolls, in the shape of a recorded reset against the bot."""
    view = {"targetObs": roll["targetObs"], "targetActionMasks": roll["targetActionMasks"]}
    reply = {"obs": roll["obs"], "actionMasks": roll["actionMasks"], "meta": {**roll["meta"], **view}}
    flags = {"training": True, "maintainTargetEnvironment": True, "deathMatch": True}
    body = {"target": "baseline", **flags, "resetParams": roll["resetParams"]}
    return {"source": f"gear roll {roll['kind']} {roll['episodeId']}", "resets": [body], "reply": reply}


def resets(reference: Path) -> Iterator[Json]:
    """Every recorded reset."""
    for path in sorted((reference / "rsps-transcripts").glob("*.jsonl.gz")):
        if "header" in next(read_lines(path)):  # not the recording of bad input
            yield from transcript_resets(path)
    yield from map(gear_roll, read_lines(reference / "gear-rolls.jsonl.gz"))


def scenarios(reference: Path) -> Json:
    """Of each scenario that is played in the tests: parameters, and the fixed entries of every matched tick."""
    folder = reference / "scenarios"
    loose = json.loads((folder / "loose.json").read_text(encoding="utf-8"))
    return {
        name: fixed_entries(folder / f"{name}.jsonl.gz", loose[name], script.builds, script.cases)
        for name, script in SCRIPTS.items()
    }


def fights(reference: Path) -> Json:
    """The statistics of fights, without histograms and vectors of masks."""
    builds = json.loads((reference / "rsps-stats.json").read_text(encoding="utf-8"))["builds"]
    left_out = ("first_", "mask_", "results", "win_rate_ci", "attack_speed")
    return {
        build: {
            matchup: {key: _without_histograms(value) for key, value in entry.items() if not key.startswith(left_out)}
            for matchup, entry in content["matchups"].items()
        }
        for build, content in builds.items()
    }


def _without_histograms(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_histograms(inner) for key, inner in value.items() if key != "hist_hp"}
    return value


def main() -> None:
    """Writes the three files."""
    reference = Path(sys.argv[1])
    write_lines(RESETS, resets(reference))
    write_lines(SCENARIOS, [scenarios(reference)])
    write_lines(STATISTICS, [fights(reference)])


if __name__ == "__main__":
    main()
