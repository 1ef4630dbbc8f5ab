"""How players get into an arena: where they come from, what is checked, and a report in one page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sb3_pvp.arena.challenge import FIGHTER, ONNX, SAFE_KINDS, SCRIPT, ZIP, Challenge, refusal_of
from sb3_pvp.arena.playing import MatchFight, Workers
from sb3_pvp.arena.referee import read_times, time_percentile
from sb3_pvp.arena.store import ACTIVE, REFUSED, Entrant, Store
from sb3_pvp.common.errors import did_you_mean, one_line
from sb3_pvp.common.plain_yaml import read_ordered_dict
from sb3_pvp.common.sandbox.sandbox import missing_walls
from sb3_pvp.players.league import League, Player, player_of_file
from sb3_pvp.players.league.league import LEAGUE, SETTINGS
from sb3_pvp.players.opponents import WORLD_BOT
from sb3_pvp.policies.files.reading import MOST_UNTRUSTED
from sb3_pvp.policies.files.shipped import shipped_file

HUB = "hub:"  #: Prefix of a source on the hub, followed by tags with commas between them.
_SUFFIXES = {".fighter": FIGHTER, ".onnx": ONNX, ".zip": ZIP}


@dataclass(frozen=True)
class Candidate:
    """Somebody who wants to take part."""

    name: str  #: As a player is named; with the name of the owner in front.
    kind: str
    path: Path | None  #: Its file; ``None`` for scripts.
    source: str  #: Where it came from, for people.
    owner: str = ""
    trusted: bool = False  #: Whether the owner of the arena trusts the file.
    tags: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class AdmissionReport:
    """What was found out about a candidate."""

    player: str
    checks: list[tuple[str, str]] = field(default_factory=list)  #: What was checked, and what was found.
    refusal: str = ""  #: Why it may not enter; ``""`` if it may.

    def __str__(self) -> str:
        width = max((len(name) for name, _ in self.checks), default=0)
        lines = [f"  {name:<{width}}  {found}" for name, found in self.checks]
        verdict = f"refused: {self.refusal}" if self.refusal else "may enter"
        return "\n".join([f"{self.player}: {verdict}", *lines])


def candidates(
    source: str, owner: str, trusted: bool, known: Sequence[Entrant], names: Collection[str], kinds: Collection[str]
) -> Iterator[Candidate | AdmissionReport]:
    """Yields who is found at a source that is no player yet, and reports of files that are refused unread.

    Args:
        source: a model file; a folder of such files, or a run's or league's; ``hub:TAG``; the name of a script, or of a
            fighter that ships.
        owner: of the files; on the hub, the owner of the repository counts.
        trusted: files may be unpickled.
        known: the players so far, which are not looked at again.
        names: of the game's scripts and of fighters that ship, which are no paths.
        kinds: that may enter; of files in a folder that are the same but for their ending, one is looked at.

    Raises `ValueError` and `OSError` if the source cannot be read.
    """
    if source.startswith(HUB):
        yield from _from_hub(source.removeprefix(HUB).split(","), {each.source for each in known})
        return
    path = Path(source)
    if source in names:
        shipped = shipped_file(source)
        kind, place = (SCRIPT, "the game") if shipped is None else (FIGHTER, "sb3_pvp")
        yield Candidate(str(Player.parse(source)), kind, shipped, f"{source} of {place}", trusted=True)
        return
    if not path.exists():
        raise FileNotFoundError(f"there is no file, folder or script {source}{did_you_mean(source, names)}")
    versions = {each.version for each in known}
    files = [path] if path.is_file() else _files_in(path, trusted, kinds)
    for file in files:
        if file.suffix not in _SUFFIXES:
            raise ValueError(f"{file} is no model file: its name must end in {', '.join(_SUFFIXES)}")
        try:
            if not trusted and (size := file.stat().st_size) > MOST_UNTRUSTED:
                raise ValueError(f"it has {size:,} bytes: a player's file has at most {MOST_UNTRUSTED >> 20} MiB")
            version = hash_of(file.read_bytes())
            name = _name_of(file, owner, version, {each.name for each in known})
        except ValueError as error:
            yield AdmissionReport(file.name, refusal=one_line(error))
            continue
        if version not in versions:
            facts = {"hyperparameters": hyperparameters_of(file), **_exploitability(file)}
            kind = _SUFFIXES[file.suffix]
            yield Candidate(name, kind, file, str(file.resolve()), owner, trusted, facts=facts)


def examine(
    candidate: Candidate, challenge: Challenge, store: Store, workers: Workers
) -> tuple[AdmissionReport, Entrant, bytes | None]:
    """Checks a candidate, last in a test fight against itself.

    Returns the report, the player with its state, and the content of its file.
    """
    report, facts = AdmissionReport(candidate.name), dict(candidate.facts)
    content = b"" if candidate.path is None else candidate.path.read_bytes()
    version = hash_of(content) if candidate.path else candidate.name
    weights = version
    try:
        Player.parse(candidate.name)
        report.checks.append(("file", f"{candidate.source}, {len(content):,} bytes, sha256 {version[:12]}"))
        if not candidate.trusted and candidate.kind not in SAFE_KINDS:
            raise ValueError(
                "an SB3 zip is unpickled, which runs code: sb3-pvp export it; or, if its algorithm has no such file, "
                "add it with --trusted"
            )
        if not candidate.trusted and (lacking := missing_walls()):
            raise ValueError(f"files of strangers are not played here: {'; '.join(lacking)}")
        if candidate.path is not None:
            about, weights = _read(candidate.path, candidate.kind)
            if candidate.path.read_bytes() != content:
                raise ValueError("its file has changed meanwhile: try again")
            facts |= about
            report.checks.append(("model", ", ".join(f"{key} {value}" for key, value in about.items())))
        refusal = refusal_of(challenge, candidate.kind, facts.get("algorithm"), facts.get("steps"), candidate.tags)
        if refusal:
            raise ValueError(refusal)
        report.checks.append(("entry", "kind, algorithm, budget and tags are as the challenge asks"))
        twins = [each.name for each in store.players(ACTIVE) if each.weights == weights]
        if twins:
            raise ValueError(f"it has the same weights as {twins[0]}")
        report.checks.append(("twins", "none"))
        if candidate.name != WORLD_BOT:  # which only sits in the second seat, and is the world's own
            report.checks += _test_fight(candidate, content, version, workers)
    except Exception as error:  # a file of anybody may make its reader raise anything
        report.refusal = one_line(error).replace(f"{candidate.path.parent}/" if candidate.path else "\n", "")[:500]
    facts |= {"report": report.checks, "trusted": candidate.trusted}
    state = REFUSED if report.refusal else ACTIVE
    opponent = candidate.name if candidate.path is None else f"{version}{candidate.path.suffix}"
    entrant = Entrant(
        candidate.name, candidate.kind, opponent, version, weights, candidate.source, candidate.owner, state,
        report.refusal, facts=facts,
    )  # fmt: skip
    return report, entrant, content if candidate.path else None


def hash_of(content: bytes) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def hyperparameters_of(model: Path) -> dict[str, Any]:
    """Returns the hyperparameters that the run of a model has stored beside it, as plain values; ``{}`` without any."""
    for folder in model.resolve().parents[:3]:
        for found in sorted(folder.glob("*/config.yml")):
            if (found.parent / "args.yml").is_file():
                with suppress(ValueError, OSError):
                    return read_ordered_dict(found)
    return {}


def _test_fight(candidate: Candidate, content: bytes, version: str, workers: Workers) -> list[tuple[str, str]]:
    """Lets a candidate fight itself, once from each seat; raises `ValueError` if it is at fault."""
    name = Player.parse(candidate.name)
    twin = Player(f"{name.name}+itself", name.step)
    file = None if candidate.path is None else (f"{version}{candidate.path.suffix}", content)
    players = {
        str(player): (candidate.kind, candidate.name if file is None else file[0], file) for player in (name, twin)
    }
    fights = [MatchFight("test", 0, str(name), str(twin), 0), MatchFight("test", 1, str(twin), str(name), 0)]
    results = [result for _, result in workers.play_now(players, fights)]
    causes = [cause for result in results for cause in result["faults"] if cause is not None]
    if causes:
        raise ValueError(f"it lost the test fight: {causes[0]}")
    times = read_times([text for result in results for text in result["times"]])
    slow = time_percentile(times, 0.99)
    ticks = sum(result["ticks"] for result in results)
    return [
        ("test fights", f"{len(results)} against itself, {ticks} ticks, {results[0]['outcome']}"),
        ("decisions", "none" if slow is None else f"99 % within {slow * 1000:.2g} ms"),
    ]


def _read(path: Path, kind: str) -> tuple[dict[str, Any], str]:
    """Returns what a model file says about itself, and a hash of its weights; unpickles nothing."""
    from sb3_pvp.policies.files.model_files import steps_of
    from sb3_pvp.policies.files.reading import read
    from sb3_pvp.policies.files.registry import name_of

    if kind == ONNX:
        return {"algorithm": None, "steps": None}, hash_of(path.read_bytes())
    file = read(path, safe=True)
    weights = file.weights()
    digest = hashlib.sha256()
    for name, part in sorted(weights.items()):
        digest.update(f"{name} {tuple(part.shape)} {part.dtype}".encode())
        digest.update(part.contiguous().numpy().tobytes())
    return {"algorithm": name_of(file), "steps": steps_of(path)}, digest.hexdigest()


def _files_in(folder: Path, trusted: bool, kinds: Collection[str]) -> list[Path]:
    """Returns the model files of a run's or league's players, or else all of a folder."""
    for league in (folder, folder / LEAGUE):
        if (league / SETTINGS).is_file():
            opened = League.existing(league)
            return [opened.path(player) for player in opened.players()]
    found = [file for file in folder.iterdir() if file.suffix in _SUFFIXES and not file.name.startswith(".")]
    # Of a model's forms, such as the zip and the graph of a run, the one that may enter and says most of itself.
    forms = (ONNX, ZIP, FIGHTER) if trusted else (ZIP, ONNX, FIGHTER)
    found.sort(key=lambda file: (_SUFFIXES[file.suffix] in kinds, forms.index(_SUFFIXES[file.suffix])))
    return sorted({file.stem: file for file in found}.values())


def _exploitability(file: Path) -> dict[str, Any]:
    """Returns what the league of a file has measured about its player."""
    with suppress(Exception):
        measured = json.loads((file.parent.parent / SETTINGS).read_text())["exploitability"]
        return {"exploitability": float(measured[str(player_of_file(file))])}
    return {}


def _name_of(file: Path, owner: str, version: str, taken: set[str]) -> str:
    """Returns a name that no other player has: that of the file, and of another version of it with its hash."""
    player = player_of_file(file)
    name = str(Player(f"{owner}+{player.name}" if owner else player.name, player.step))
    if name not in taken:
        return name
    return str(Player(f"{name.partition('@')[0]}+{version[:8]}", player.step))


def _from_hub(tags: Sequence[str], known: set[str]) -> Iterator[Candidate]:
    from sb3_pvp.policies.files.hub import find_fighters

    for found in find_fighters(tags, known):
        owner, _, repo = found.repo_id.rpartition("/")
        name = f"{owner}+{repo}+{found.commit[:8]}" if owner else f"{repo}+{found.commit[:8]}"
        kind = _SUFFIXES[found.path.suffix]
        yield Candidate(name, kind, found.path, found.source, owner, False, tuple(found.tags))
