"""A recorded fight, and its file format: gzipped JSON with a version."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import from_plain, to_plain
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import foreign, loadable
from sb3_pvp.game import Game, Outcome, PlainViewer, World, find_game, game_names, game_reference, viewer_for_players
from sb3_pvp.game.contract import Contract

FORMAT, VERSION = "sb3_pvp fight", 1
MAX_SIZE = 100_000_000  #: Uncompressed bytes, against decompression bombs; a fight of 2,000 ticks has a tenth of it.
MIN_PROBABILITY = 5e-5  #: Smaller ones are left out: they would be rounded to 0.


@dataclass(frozen=True)
class Choice:
    """A sub-action of a head."""

    id: str
    description: str


@dataclass(frozen=True)
class HeadChoices:
    """An action head with its sub-actions in order."""

    id: str
    description: str
    choices: tuple[Choice, ...]
    number: bool = False  #: Whether it is a number, see `sb3_pvp.game.contract.Head`.


@dataclass(frozen=True)
class RecordedPlayer:
    """A player: a trained model, a scripted opponent, the world's own bot, or any agent on a server."""

    name: str  #: Unique in the fight.
    kind: Literal["model", "script", "bot", "agent"]
    content_hash: str = ""  #: Of a model's policy.


@dataclass(frozen=True)
class Decision:
    """The action of a player in one tick, by head; ``None`` if unknown."""

    chosen: tuple[int | float, ...]  #: The position of the sub-action in its head, or the number.
    open: tuple[str, ...] | None = None  #: The mask, with ``"1"`` for each allowed sub-action: ``("110", …)``.
    #: A model's probabilities by sub-action, given its choices in earlier heads; negligible ones are left out.
    probabilities: tuple[Mapping[str, float], ...] | None = None


@dataclass(frozen=True)
class Future:
    """What a world model expects of the next ticks, the mean of some futures that it imagines; one number a tick."""

    rewards: tuple[float, ...]
    goes_on: tuple[float, ...]  #: How likely it is that the fight is still on, with the discount in it.
    #: Some of what the player sees, by the names of the contract: what it sees now, and what it expects to see.
    seen: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outlook:
    """A model's estimate of its prospects."""

    value: float  #: Of its critic, in the units of the rewards that it was trained on.
    win_probability: float | None = None  #: Of its outcome predictor, if it has one.
    future: Future | None = None  #: Of a world model.


@dataclass(frozen=True)
class Moment:
    """One tick of a fight; pairs are by seat, with ``None`` for unknown values."""

    scene: Any  #: The state after the tick, as made by the game's viewer.
    decisions: tuple[Decision | None, Decision | None] = (None, None)  #: In this tick; ``None`` at the start.
    outlooks: tuple[Outlook | None, Outlook | None] = (None, None)  #: Of models after this tick; ``None`` at the end.
    rewards: tuple[float | None, float | None] = (None, None)  #: Of agents in this tick; ``None`` at the start.


@dataclass(frozen=True)
class Recording:
    """A recorded fight."""

    contract: str  #: The name of the contract.
    heads: tuple[HeadChoices, ...]  #: The heads of the contract.
    players: tuple[RecordedPlayer, RecordedPlayer]
    outcomes: tuple[str, str]  #: Of each player: won, lost, tied, timeout, target_lost, desync or running.
    moments: tuple[Moment, ...]  #: The start of the fight, then every tick.
    seed: int | None = None  #: Of the fight; ``None`` if unknown.
    deterministic: bool = False  #: Whether models took the most likely actions.
    world: str = "sim"  #: ``"sim"``, the address of a server, or a description of the source.
    reset_params: Any = None  #: How the fight started, in the form that the world uses.
    build: str | None = None  #: The kind of the fight (`sb3_pvp.game.Grouped`), if the world has kinds.
    versions: Mapping[str, str] | None = None  #: Of the packages that made the recording.
    game: str | None = None  #: ``module:object``, if the game is not found by the contract's name.


@dataclass(frozen=True)
class TextScene:
    """A moment of a game whose viewer has no page of its own."""

    text: str
    outcome: str  #: Of the first seat.


class TextScenes:
    """Shows fights of a game by the text of its viewer, or by what its contract names.

    ``for_player``: as the viewer for a player does, see `sb3_pvp.game.viewer_for_players`.
    """

    def __init__(self, game: Game, for_player: bool = False) -> None:
        plain = game.viewer or PlainViewer(game.contract)
        self._viewer: Any = viewer_for_players(game.viewer, game.contract) if for_player else plain

    def scene(self, world: World, fight: int, names: Sequence[str], actions: Any = (None,) * 2) -> TextScene:
        """See `sb3_pvp.game.Viewer.scene`."""
        return self.shown(self._viewer.scene(world, fight, names, actions), Outcome(int(world.outcome[fight, 0])))

    def shown(self, scene: Any, outcome: Outcome = Outcome.RUNNING) -> TextScene:
        """Returns a scene of the game as text."""
        return TextScene(self._viewer.text(scene, color=False), outcome.name.lower())

    def read_scene(self, plain: Any) -> TextScene:
        """See `sb3_pvp.game.Viewer`."""
        return from_plain(TextScene, plain)

    def events(self, scenes: Sequence[TextScene]) -> list[dict[str, Any]]:
        """Returns nothing: a text says what happens."""
        return []

    def page(self) -> dict[str, str]:
        """Returns ``script`` and ``style`` for a page."""
        shown = 'element("pre", { class: "moment", tabindex: "0" }, moments[tick].scene.text)'
        script = f"scene.picture = (tick) => {shown};"
        return {"script": script, "style": ".moment { margin: 0; padding: 8px; overflow: auto; font-size: 13px; }\n"}


def viewer_of(game: str | Game) -> Any:
    """Returns the viewer that draws recordings of a game; `ValueError` if the game is unknown."""
    found = find_game(game)
    return found.viewer if hasattr(found.viewer, "page") else TextScenes(found)


def viewer_for_page(game: str | Game, for_player: bool = False) -> Any:
    """Returns the viewer that draws live fights of a game, of a player's own ones only what the player may see."""
    found = find_game(game)
    return viewer_of(game) if not for_player or hasattr(found.viewer, "seen") else TextScenes(found, for_player=True)


def about_game(game: Game, contract: Contract) -> dict[str, Any]:
    """Returns what a recording says of its game: its ``contract``, ``heads`` and ``game``."""
    reference = game_reference(game)
    named = None if reference == contract.name else reference
    return {"contract": contract.name, "heads": heads_of(contract), "game": named}


def heads_of(contract: Contract) -> tuple[HeadChoices, ...]:
    """Returns the heads of a contract as a recording stores them."""
    choices = (tuple(Choice(each.id, each.description) for each in head.actions) for head in contract.heads)
    both = zip(contract.heads, choices, strict=True)
    return tuple(HeadChoices(head.id, head.description, own, head.number) for head, own in both)


def decision_of(contract: Contract, chosen: ArrayLike, mask: NDArray[np.bool_], probabilities: Any = None) -> Decision:
    """Returns a decision from an action ``(heads,)``, and its flat mask, bool ``(num_flat_actions,)``."""
    opened = ("".join("01"[bit] for bit in part.tolist()) for part in contract.split_mask(mask))
    both = zip(contract.heads, np.asarray(chosen).tolist(), strict=True)
    return Decision(tuple(each if head.number else int(each) for head, each in both), tuple(opened), probabilities)


def save_fight(recording: Recording, path: str | Path) -> None:
    """Writes a recording, atomically; equal recordings give equal files."""
    text = json.dumps(recording_to_plain(recording), separators=(",", ":"), allow_nan=False)
    with replacing(Path(path)) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))  # without the time, which gzip stores otherwise


def load_fight(path: str | Path, number: int = 0, game: str | None = None) -> Recording:
    """Loads a file of `save_fight`, or a recording in a game's own format, such as one of a server's messages.

    Args:
        path: a game's own format is recognized by the ending, see `sb3_pvp.game.Viewer`.
        number: of the fight in a file with several, from 0.
        game: ``module:object``, if the game is not installed. The one in the file is not imported, because files may
            come from anywhere.

    Raises `FileNotFoundError`, and `ValueError` if it is not a recorded fight or has an unknown version.
    """
    for known in loadable("game", game_names(), find_game):
        viewer: Any = known.viewer
        if str(path).endswith(getattr(viewer, "recordings", ())):
            return _from_wire_fight(viewer.read_recording(path, number), f"recording {Path(path).name}")
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no recorded fight {path}")
    with foreign(f"{path} is not a recorded fight"):
        with gzip.open(path) as file:
            content = file.read(MAX_SIZE + 1)  # one byte more tells a larger file from one of exactly this size
        if len(content) > MAX_SIZE:
            raise ValueError(f"its uncompressed size is more than {MAX_SIZE // 1_000_000} MB")
        return recording_from_plain(json.loads(content), game)


def recording_to_plain(recording: Recording) -> dict[str, Any]:
    """Converts a recording to the JSON values of its file."""
    return {"format": FORMAT, "version": VERSION, **to_plain(recording)}


def recording_from_plain(plain: Any, game: str | None = None) -> Recording:
    """Converts JSON values of `recording_to_plain` to a recording; `ValueError`, with the location, if invalid."""
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError(f"expected a JSON object with the format {FORMAT!r}, as made by sb3-pvp record")
    if plain.get("version") != VERSION:
        raise ValueError(f"it has version {plain.get('version')!r}, but only version {VERSION} can be read")
    recording = from_plain(Recording, {key: plain[key] for key in plain.keys() - {"format", "version"}})
    if not recording.moments:
        raise ValueError("it has no moments")
    played = game or recording.game or recording.contract
    if game is None and ":" in played:  # importing a module runs its code
        raise ValueError(f"its game is not installed; if you trust the file, pass --game {played}")
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


def _from_wire_fight(fight: Any, world: str) -> Recording:
    """Converts what a viewer's `read_recording` returned."""
    first, second = map(RecordedPlayer, fight.names, fight.kinds)
    moments = []
    for scene, *choices in fight.moments:
        one, other = (None if choice is None else decision_of(fight.contract, *choice) for choice in choices)
        moments.append(Moment(scene, (one, other)))
    facts = fight.contract.name, heads_of(fight.contract), (first, second), fight.outcomes, tuple(moments)
    return Recording(*facts, world=world, reset_params=fight.reset_params)


def _check_decision(decision: Decision, heads: tuple[HeadChoices, ...], place: str) -> None:
    for name in ("chosen", "open", "probabilities"):
        given = getattr(decision, name)
        if given is not None and len(given) != len(heads):
            raise ValueError(f"{place} has {len(given)} {name} for {len(heads)} heads")
    # Checked here, since the page would silently draw nothing for an entry that does not exist.
    opened = decision.open or ["1" * len(head.choices) for head in heads]
    for head, chosen, bits in zip(heads, decision.chosen, opened, strict=True):
        size = len(head.choices)
        is_there = -1 <= chosen <= 1 if head.number else 0 <= chosen < size
        if not is_there or len(bits) != size or set(bits) - {"0", "1"}:
            raise ValueError(f"{place} chose {chosen} of {head.id}, which has {size} entries, from {bits!r:.60}")
