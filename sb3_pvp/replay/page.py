"""A recorded fight as one HTML page that needs nothing else: no network, no other files."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sb3_pvp.atomic_files import write_atomically
from sb3_pvp.replay.events import events_of, short_labels
from sb3_pvp.replay.recording import Recording, recording_to_plain

#: They run one after the other, as one script.
_SCRIPTS = ("dom.js", "fight.js", "arena.js", "panels.js", "charts.js", "story.js", "player.js")
#: Data is no script to a browser unless it can end its element, or begin a comment in it.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_replay_page(recording: Recording, path: str | Path) -> None:
    """Writes the page, atomically."""
    write_atomically(Path(path), replay_page(recording))


def replay_page(recording: Recording) -> str:
    """The page as text.

    Its ``Content-Security-Policy`` lets nothing run, and nothing be loaded, but its own script and style.
    """
    style, script = _data("page.css"), "\n".join(map(_data, _SCRIPTS))
    title = " against ".join(player.name for player in recording.players)
    return Template(_data("page.html")).substitute(
        title=html.escape(title),
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'",
        style=style,
        script=script,
        data=json.dumps(_content(recording), separators=(",", ":"), allow_nan=False).translate(_ESCAPES),
    )


def _content(recording: Recording) -> dict[str, Any]:
    """What the page's script reads."""
    return {
        "recording": recording_to_plain(recording),
        "events": [asdict(event) for event in events_of(recording)],
        "labels": [short_labels([choice.id for choice in head.choices], head.id) for head in recording.heads],
    }


def _data(name: str) -> str:
    return (files("sb3_pvp.replay") / "data" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """How a policy names the text of an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
