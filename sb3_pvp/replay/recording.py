"""A recorded fight and its file: gzipped JSON with a version."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.names import loadable
from sb3_pvp.common.plain_values import from_plain, to_plain
from sb3_pvp.contract import Contract
from sb3_pvp.game import Game, find_game, game_names

FORMAT, VERSION = "sb3_pvp fight", 1
MAX_SIZE = 100_000_000  #: Bytes that a file may unpack to; a fight of 2,000 ticks has a tenth of it.


@dataclass(frozen=True)
class Choice:
    """One entry of a head: its id and what it means."""

    id: str
    description: str


@dataclass(frozen=True)
class HeadChoices:
    """One decision of every tick, and its entries in order."""

    id: str
    description: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Player:
    """Who fought: a trained model, a scripted opponent, the world's own bot, or somebody on a server."""

    name: str  #: Unique in the fight.
    kind: Literal["model", "script", "bot", "agent"]
    content_hash: str = ""  #: Equal for equal policies; empty for others.


@dataclass(frozen=True)
class Decision:
    """What a fighter chose in one tick, and from what, by head in the contract's order; ``None`` if nobody knows."""

    chosen: tuple[int, ...]  #: The position of the entry.
    open: tuple[str, ...] | None = None  #: Of each entry, ``"1"`` where it was not masked: ``("110", …)``.
    #: What a model drew from, by the ids of entries, given its choices before; without what is next to impossible.
    probabilities: tuple[Mapping[str, float], ...] | None = None


@dataclass(frozen=True)
class Outlook:
    """How a model saw its prospects."""

    value: float  #: Its critic's estimate, in the units of the rewards that it learned from.
    win_probability: float | None = None  #: What its outcome predictor says, if it has one.


@dataclass(frozen=True)
class Moment:
    """One tick; the pairs are of the two seats, with ``None`` where nobody knows."""

    scene: Any  #: What was to be seen after the tick, of the kind that the game's viewer makes.
    decisions: tuple[Decision | None, Decision | None] = (None, None)  #: In this tick; ``None`` at the start.
    outlooks: tuple[Outlook | None, Outlook | None] = (None, None)  #: Of models after this tick; ``None`` at the end.
    rewards: tuple[float | None, float | None] = (None, None)  #: Of agents in this tick; ``None`` at the start.


@dataclass(frozen=True)
class Recording:
    """A fight."""

    contract: str  #: Its name.
    heads: tuple[HeadChoices, ...]  #: The contract's decisions.
    players: tuple[Player, Player]
    outcomes: tuple[str, str]  #: For each player: won, lost, tied, timeout, target_lost, desync or running.
    moments: tuple[Moment, ...]  #: The start of the fight, then every tick.
    seed: int | None = None  #: Of the fight; ``None`` if nobody knows.
    deterministic: bool = False  #: The players took the most likely actions.
    world: str = "sim"  #: Where it was fought: an address, ``"sim"``, or where it was recorded.
    reset_params: Any = None  #: How it started, in the world's own words.
    build: str | None = None  #: The first player's, if the world tells.
    versions: Mapping[str, str] | None = None  #: Of the packages that were used.
    game: str | None = None  #: What was played, ``module:object``, if that is not the contract's name.


def viewer_of(game: str | Game) -> Any:
    """What draws recorded fights of a game; raises `ValueError` if nobody knows the game, or how it looks."""
    found = find_game(game)
    if not hasattr(found.viewer, "page"):
        raise ValueError(f"{found.name} has no viewer for recorded fights: nobody knows how to draw them")
    return found.viewer


def heads_of(contract: Contract) -> tuple[HeadChoices, ...]:
    choices = (tuple(Choice(each.id, each.description) for each in head.actions) for head in contract.heads)
    return tuple(HeadChoices(head.id, head.description, own) for head, own in zip(contract.heads, choices, strict=True))


def decision_of(contract: Contract, chosen: ArrayLike, mask: NDArray[np.bool_], probabilities: Any = None) -> Decision:
    """What was chosen, an entry of each head, and from what, bool ``(A,)``."""
    opened = ("".join("01"[bit] for bit in part.tolist()) for part in contract.split_mask(mask))
    return Decision(tuple(np.asarray(chosen).tolist()), tuple(opened), probabilities)


def save_fight(recording: Recording, path: str | Path) -> None:
    """Writes a recording, atomically; equal recordings make equal files."""
    text = json.dumps(recording_to_plain(recording), separators=(",", ":"), allow_nan=False)
    with replacing(Path(path)) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


def load_fight(path: str | Path, number: int = 0, game: str | None = None) -> Recording:
    """Reads a file of `save_fight`, or a recording that a game makes itself, such as of what its servers are told.

    Args:
        path: names of files tell a game's viewer that they are its own.
        number: which of the fights in a recording of a game, from 0 on.
        game: what was played, ``module:object``, if it is not installed: files are not trusted to say what to import.

    Raises `FileNotFoundError`, and `ValueError` for another file, another version and what does not belong there.
    """
    for known in loadable("game", game_names(), find_game):
        viewer: Any = known.viewer
        if str(path).endswith(getattr(viewer, "recordings", ())):
            return _told(viewer.read_recording(path, number), f"recording {Path(path).name}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no recorded fight {path}")
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise ValueError(f"it unpacks to more than {MAX_SIZE // 1_000_000} MB")
        return recording_from_plain(json.loads(content), game)
    except (OSError, EOFError, zlib.error, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not a recorded fight: {error}") from error


def recording_to_plain(recording: Recording) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, **to_plain(recording)}


def recording_from_plain(plain: Any, game: str | None = None) -> Recording:
    """The recording in such JSON values; raises `ValueError` that tells what is wrong with them."""
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError("it should be a JSON object with the format 'sb3_pvp fight'; sb3-pvp record makes one")
    if plain.get("version") != VERSION:
        raise ValueError(f"it has version {plain.get('version')!r}, this sb3_pvp reads version {VERSION}")
    recording = from_plain(Recording, {key: plain[key] for key in plain.keys() - {"format", "version"}})
    if not recording.moments:
        raise ValueError("it has no moments")
    played = game or recording.game or recording.contract
    if game is None and ":" in played:
        raise ValueError(f"its game is not installed; if you trust the file, say --game {played}")
    viewer, moments = viewer_of(played), []
    for number, moment in enumerate(recording.moments):
        for decision in moment.decisions:
            if decision is not None:
                _check_decision(decision, recording.heads, f"moments[{number}].decisions")
        try:
            moments.append(replace(moment, scene=viewer.read_scene(moment.scene)))
        except ValueError as error:
            raise ValueError(f"moments[{number}].scene: {error}") from error
    return replace(recording, moments=tuple(moments), game=game or recording.game)


def _told(fight: Any, world: str) -> Recording:
    first, second = map(Player, fight.names, fight.kinds)
    moments = []
    for scene, *choices in fight.moments:
        one, other = (None if choice is None else decision_of(fight.contract, *choice) for choice in choices)
        moments.append(Moment(scene, (one, other)))
    told = fight.contract.name, heads_of(fight.contract), (first, second), fight.outcomes, tuple(moments)
    return Recording(*told, world=world, reset_params=fight.reset_params)


def _check_decision(decision: Decision, heads: tuple[HeadChoices, ...], place: str) -> None:
    for name in ("chosen", "open", "probabilities"):
        given = getattr(decision, name)
        if given is not None and len(given) != len(heads):
            raise ValueError(f"{place} has {len(given)} {name} for {len(heads)} heads")
    opened = decision.open or ["1" * len(head.choices) for head in heads]
    for head, chosen, bits in zip(heads, decision.chosen, opened, strict=True):
        size = len(head.choices)
        if not 0 <= chosen < size or len(bits) != size or set(bits) - {"0", "1"}:
            raise ValueError(f"{place} chose {chosen} of {head.id}, which has {size} entries, from {bits!r:.60}")
