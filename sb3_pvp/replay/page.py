"""A recorded fight as one HTML page that needs nothing else: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.replay.recording import Recording, recording_to_plain, viewer_of

#: Data is no script to a browser unless it can end its element, or begin a comment in it.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_replay_page(recording: Recording, path: str | Path) -> None:
    write_atomically(Path(path), replay_page(recording))


def replay_page(recording: Recording) -> str:
    """The page as text; its ``Content-Security-Policy`` lets nothing run or be loaded but its own script and style."""
    own = viewer_of(recording.game or recording.contract).page()
    style = _data("page.css") + own["style"]
    # One script: that of the game completes what those before it begin.
    first, last = ("dom.js", "fight.js"), ("choices.js", "charts.js", "story.js", "player.js")
    script = "\n".join([*map(_data, first), own["script"], *map(_data, last)])
    content = {
        "recording": recording_to_plain(recording),
        "events": events_of(recording),
        "labels": [short_labels([choice.id for choice in head.choices], head.id) for head in recording.heads],
    }
    return Template(_data("page.html")).substitute(
        title=html.escape(" against ".join(player.name for player in recording.players)),
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        style=style,
        script=script,
        data=json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_ESCAPES),
    )


def events_of(recording: Recording) -> list[Mapping[str, Any]]:
    """What the game says that happened, and at last how the fight ended, unless the game has told that already."""
    viewer = viewer_of(recording.game or recording.contract)
    events = [*viewer.events([moment.scene for moment in recording.moments])]
    if not events or events[-1]["kind"] != "end":
        text = _NOBODY_WINS.get(recording.outcomes[0], f"the fight ends: {recording.outcomes[0]}")
        for player, outcome in zip(recording.players, recording.outcomes, strict=True):
            text = f"{player.name} wins" if outcome == "won" else text
        events.append({"tick": len(recording.moments) - 1, "kind": "end", "seat": None, "text": text})
    return events


_NOBODY_WINS = {
    "tied": "nobody wins",
    "timeout": "nobody wins: time is over",
    "running": "the recording ends",
    "desync": "the fight breaks off: the server lost step",
    "target_lost": "the fight breaks off: the opponent is gone",
}


def short_labels(ids: Sequence[str], head: str) -> list[str]:
    """Names of a head's entries without words of its id, or that several entries have; "none" for doing nothing."""
    words = [each.split("_") for each in ids]
    common = set(head.split("_")) | {word for own in words for word in own if sum(word in other for other in words) > 1}
    kept = [" ".join(word for word in own if word not in common) or " ".join(own) for own in words]
    return ["none" if {"no", "dont", "none"} & set(own) else text for own, text in zip(words, kept, strict=True)]


def _data(name: str) -> str:
    return (files("sb3_pvp.replay") / "data" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
