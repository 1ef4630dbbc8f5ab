"""The page of an arena as a folder of files, for any web server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.app import site_file
from sb3_pvp.arena.page.rendering import Pages
from sb3_pvp.arena.page.standing_figures import Figures
from sb3_pvp.arena.replaying import recording_of
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.matches.replay import write_replay_page
from sb3_pvp.players.league import MatchRecord

#: Of the newest matches, how many have replays.
REPLAYS = 20


def write_site(arena: Arena, folder: Path, replays: int = REPLAYS) -> int:
    """Writes all pages but the live fights; returns how many files there are. Pages of the same name are replaced."""
    figures, name = Figures.of(arena), arena.challenge.name
    newest = {line.key for line in figures.latest(count=replays)}
    with_replay = {each.key: each for key in newest for each in figures.fights[key] if _is_recorded(each)}
    top, below = _pages(name, "", with_replay.keys()), _pages(name, "../", with_replay.keys())
    texts = {"index.html": top.leaderboard(figures), "challenge.html": top.about(figures)}
    texts |= {f"players/{_slug(player)}.html": below.player(figures, player) for player in figures.entrants}
    texts |= {
        f"matches/{_slug(key)}.html": below.match(figures, key) for key in figures.fights if _is_match(figures, key)
    }
    for file in ("site.css", "site.js", "icon.svg"):
        texts[f"static/{file}"] = site_file(file, arena.challenge.game).decode()
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / place, text)
    (folder / "replays").mkdir(exist_ok=True)
    for key in with_replay:
        write_replay_page(recording_of(arena, key), folder / "replays" / f"{_slug(key)}.html")
    return len(texts) + len(with_replay)


def _pages(name: str, root: str, recorded: object) -> Pages:
    places = {"home": "index.html", "challenge": "challenge.html", "player": "players/", "match": "matches/"}

    def page(kind: str, about: str = "") -> str:
        return root + places[kind] + (f"{quote(_slug(about))}.html" if about else "")

    replay: Callable[[str], str] = lambda key: f"{root}replays/{quote(_slug(key))}.html" if key in recorded else ""  # type: ignore[operator]  # noqa: E731
    return Pages(name, page, lambda file: f"{root}static/{file}", replay, static=True)


def _is_match(figures: Figures, key: str) -> bool:
    return any(record.counted for record in figures.fights[key])


def _is_recorded(record: MatchRecord) -> bool:
    return bool(record.details and record.ticks)


def _slug(key: str) -> str:
    return key.replace("/", "-")
