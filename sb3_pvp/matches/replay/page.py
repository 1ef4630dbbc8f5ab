"""A recorded fight as one self-contained HTML page: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.game import find_game
from sb3_pvp.matches.replay.recording import Recording, TextScenes, recording_to_plain, viewer_of

#: For JSON inside a <script> element, which the text must neither end nor turn into a comment.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_replay_page(recording: Recording, path: str | Path) -> None:
    """Writes the page of a recording to a file, atomically; errors are those of `replay_page`."""
    write_atomically(Path(path), replay_page(recording))


def replay_page(recording: Recording) -> str:
    """Returns the page, whose ``Content-Security-Policy`` blocks all else; `ValueError` if the game has no viewer."""
    style, script = player_files(recording.game or recording.contract)
    return Template(_data("page.html")).substitute(
        title=html.escape(" against ".join(player.name for player in recording.players)),
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        style=style,
        script=script,
        data=as_element_text(content_of(recording)),
    )


@dataclass(frozen=True)
class ShownFight:
    """A fight that a notebook shows as a page inside its own."""

    page: str = field(repr=False)  # notebooks keep the text of an output beside it
    height: int  #: In pixels.

    def _repr_html_(self) -> str:
        frame = f'sandbox="allow-scripts" style="border: 0; width: 100%; height: {self.height}px"'
        return f'<iframe srcdoc="{html.escape(self.page)}" {frame}></iframe>'


def show_fight(recording: Recording, height: int = 800) -> ShownFight:
    """Returns what shows the page of a recording inside a notebook; errors are those of `replay_page`."""
    return ShownFight(replay_page(recording), height)


def player_files(game: str, as_text: bool = False) -> tuple[str, str]:
    """Returns the style and the script of what plays a game's scenes; `ValueError` if the game is unknown.

    ``as_text``: of scenes of `sb3_pvp.matches.replay.recording.TextScenes`, although the game's viewer has a page.
    """
    own = (TextScenes(find_game(game)) if as_text else viewer_of(game)).page()
    # Joined to one script, in this order: the game's script fills in the object `scene` of fight.js for those after it.
    first, last = ("dom.js", "fight.js"), ("choices.js", "charts.js", "future.js", "story.js", "player.js")
    return _data("page.css") + own["style"], "\n".join([*map(_data, first), own["script"], *map(_data, last)])


def player_body(title: str) -> str:
    """Returns the elements that the script of `player_files` fills, beside a JSON element with the id ``fight``."""
    body = _data("page.html").partition("<body>")[2].partition("<noscript>")[0]
    return Template(body).substitute(title=html.escape(title))


def content_of(recording: Recording) -> dict[str, Any]:
    """Returns what the JSON element of a page holds."""
    return {
        "recording": recording_to_plain(recording),
        "events": events_of(recording),
        "labels": [short_labels([choice.id for choice in head.choices], head.id) for head in recording.heads],
    }


def as_element_text(content: Any) -> str:
    """Returns JSON that may stand in an element ``<script type="application/json">``."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def events_of(recording: Recording) -> list[Mapping[str, Any]]:
    """Returns the game's events, then the end of the fight, unless the game has its own event for that."""
    viewer = viewer_of(recording.game or recording.contract)
    events = [*viewer.events([moment.scene for moment in recording.moments])]
    if not events or events[-1]["kind"] != "end":
        names = [player.name for player in recording.players]
        events.append(end_event(names, recording.outcomes, len(recording.moments) - 1))
    return events


def end_event(names: Sequence[str], outcomes: Sequence[str], tick: int) -> dict[str, Any]:
    """Returns the end of a fight as an event."""
    text = _ENDS_WITHOUT_WINNER.get(outcomes[0], f"the fight ends: {outcomes[0]}")
    text = f"{names[outcomes.index('won')]} wins" if "won" in outcomes else text
    return {"tick": tick, "kind": "end", "seat": None, "text": text}


_ENDS_WITHOUT_WINNER = {
    "tied": "the fight is tied",
    "timeout": "the time is up, without a winner",
    "running": "the recording ends",
    "desync": "the fight is aborted: agent and server are out of step",
    "target_lost": "the fight is aborted: the opponent disappeared",
}


def short_labels(ids: Sequence[str], head: str) -> list[str]:
    """Returns short names of sub-actions, without words that they share or the head has; "none" for no action."""
    words = [each.split("_") for each in ids]
    times = Counter(word for own in words for word in {*own})
    common = {*head.split("_"), *(word for word, count in times.items() if count > 1)}
    kept = [" ".join(word for word in own if word not in common) or " ".join(own) for own in words]
    return ["none" if {"no", "dont", "none"} & set(own) else text for own, text in zip(words, kept, strict=True)]


def _data(name: str) -> str:
    return (files("sb3_pvp.matches.replay") / "data" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Returns the hash by which the ``Content-Security-Policy`` allows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
