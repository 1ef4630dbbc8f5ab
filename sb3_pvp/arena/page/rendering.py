"""Pages of an arena as HTML, for the server and as files."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import astuple
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.live_fight import SPEEDS
from sb3_pvp.arena.page.standing_figures import Figures
from sb3_pvp.arena.replaying import recording_of
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.matches.replay import write_replay_page
from sb3_pvp.matches.replay.page import as_element_text, player_body, player_files
from sb3_pvp.players.handicaps import MOST_DELAY

#: Files of the site that are not made.
STATIC = ("site.css", "site.js", "live.js", "play.css", "play.js", "icon.svg")
#: Where pages and files are, by kind.
_PLACES = {"home": "", "file": "static/", "player": "players/", "match": "matches/", "replay": "replays/"}


class Pages:
    """Renders the pages of an arena.

    Args:
        challenge: its name.
        recorded: of pages as files, which leave out what needs a server: the keys of the fights that have a replay.
        root: where pages as files lie, seen from them.
    """

    def __init__(self, challenge: str, recorded: Set[str] | None = None, root: str = "") -> None:
        self._recorded, self._root = recorded, root
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("sb3_pvp.arena.page"), autoescape=True, undefined=jinja2.StrictUndefined
        )
        filters: dict[str, Callable[..., Any]] = {
            "points": lambda value: f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}",
            "percent": lambda value: "" if value is None else f"{value:.1%}".replace("%", " %"),
            "milliseconds": lambda value: "unknown" if value is None else f"{1000 * value:.3g} ms",
            "moment": _moment,
            "rows": lambda lines: [astuple(line) for line in lines],
        }
        self._environment.filters |= filters
        shared: dict[str, Any] = {"page": self._address, "challenge": challenge, "static": recorded is not None}
        self._environment.globals |= {**shared, "speeds": SPEEDS, "most_delay": MOST_DELAY}

    def page(self, template: str, **values: Any) -> str:
        """Returns a page from its template and what that shows."""
        return self._environment.get_template(f"{template}.html").render(values)

    def watch(self, content: dict[str, Any], is_live: bool = False, script: str = "watch.js") -> str:
        """Returns the page that plays a recording, or a live fight; ``script`` is that of the scenes."""
        title = " against ".join(each["name"] for each in content["recording"]["players"])
        # Both are made for pages: the one is our own markup, the other JSON that no text can end.
        texts = {"body": Markup(player_body(title)), "content": Markup(as_element_text(content))}
        return self.page("watch", title=title, live=is_live, script=script, person=content.get("person"), **texts)

    def _address(self, kind: str, about: str = "") -> str:
        """Returns the address of a page or a file, by what it is about; ``""`` if there is none."""
        folder = _PLACES.get(kind, kind)
        if self._recorded is None:
            return f"/{folder}{quote(about, safe='/@+')}"
        if kind == "replay" and about not in self._recorded:
            return ""
        return self._root + (folder + about if kind == "file" else f"{quote(folder + _slug(about)) or 'index'}.html")


def site_file(name: str, game: str) -> bytes:
    """Returns the content of a file of the site; `KeyError` if there is none."""
    if name in ("watch.css", "watch.js", "text.js"):
        return player_files(game, name == "text.js")[name != "watch.css"].encode()
    if name not in STATIC:
        raise KeyError(name)
    return (files("sb3_pvp.arena.page") / "static" / name).read_bytes()


def write_site(arena: Arena, folder: Path, replays: int = 20) -> int:
    """Writes all pages but the live fights, with replays of so many of the newest matches; replaces what is there.

    Returns how many files there are.
    """
    figures, name = Figures(arena), arena.challenge.name
    newest = {line.key for line in figures.latest(count=replays)}
    recorded = {each.key for key in newest for each in figures.match(key).fights if each.has_replay}
    top, below = Pages(name, recorded), Pages(name, recorded, "../")
    texts = {"index.html": top.page("leaderboard", figures=figures)}
    texts["challenge.html"] = top.page("challenge", figures=figures)
    for player in figures.entrants:
        texts[f"players/{_slug(player)}.html"] = below.page("player", it=figures.player(player))
    for match in figures.matches:
        texts[f"matches/{_slug(match.key)}.html"] = below.page("match", it=figures.match(match.key))
    for file in ("site.css", "site.js", "icon.svg"):
        texts[f"static/{file}"] = site_file(file, arena.challenge.game).decode()
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / place, text)
    (folder / "replays").mkdir(exist_ok=True)
    for key in recorded:
        write_replay_page(recording_of(arena, key), folder / "replays" / f"{_slug(key)}.html")
    return len(texts) + len(recorded)


def _slug(key: str) -> str:
    return key.replace("/", "-")


def _moment(moment: float | None) -> Markup:
    if not moment:
        return Markup("never")
    there = time.gmtime(moment)
    said, exact = time.strftime("%Y-%m-%d %H:%M", there), time.strftime("%Y-%m-%dT%H:%M:%SZ", there)
    return Markup('<time datetime="{}">{}</time>').format(exact, said)
