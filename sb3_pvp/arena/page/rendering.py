"""Pages of an arena as HTML, for the server and as files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from sb3_pvp.arena.page.live_fight import SPEEDS, LiveSummary
from sb3_pvp.arena.page.people import PersonStanding
from sb3_pvp.arena.page.standing_figures import Figures, PlayerPage, Point
from sb3_pvp.arena.store import ACTIVE
from sb3_pvp.matches.replay.page import as_element_text, player_body
from sb3_pvp.players.handicaps import MOST_DELAY

#: Of the leaderboard: what is shown, by which attribute of a row it is sorted, and what it means.
COLUMNS = (
    ("Rank", "rank", "The ranks that a player may have, at 95 %"),
    ("Player", "player", "Its name, and its owner"),
    ("Rating", "rating", "By the system of the challenge"),
    ("Strength", "strength", "Bradley-Terry, with half of its 95 % interval"),
    ("Interval", "", ""),
    ("Matches", "matches", "All that count"),
    ("Won · tied · lost", "", ""),
    ("Fights won", "rate", "Ties count half"),
    ("Faults", "crash", "Share of the matches that were lost by a fault"),
    ("Last", "played", "When it last played"),
)
#: Newest matches of all on the page of the challenge.
_LATEST = 50


class Pages:
    """Renders the pages of an arena.

    Args:
        name: of the challenge.
        page: returns the address of a page: of a kind, and of what it is about.
        file: returns the address of a file of the site.
        replay: returns the address of the replay of a fight, or ``""`` if there is none.
        static: leave out what needs a server.
    """

    def __init__(
        self,
        name: str,
        page: Callable[..., str],
        file: Callable[[str], str],
        replay: Callable[[str], str],
        static: bool = False,
    ) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("sb3_pvp.arena.page"), autoescape=True, undefined=jinja2.StrictUndefined
        )
        filters: dict[str, Callable[..., Any]] = {
            "points": _points,
            "percent": lambda value: "" if value is None else f"{value:.1%}".replace("%", " %"),
            "milliseconds": lambda value: "unknown" if value is None else f"{1000 * value:.3g} ms",
            "moment": _moment,
            "points_of": _points_of,
        }
        self._environment.filters |= filters
        shared: dict[str, Any] = {"page": page, "file": file, "replay": replay, "challenge": name, "static": static}
        self._environment.globals |= shared | {"columns": COLUMNS, "home": page("home")}

    def leaderboard(self, figures: Figures) -> str:
        """Returns the first page."""
        table = figures.table
        builds = sorted({build for line in table for build in line.builds})
        return self._of("leaderboard", table=table, about=figures.challenge(), builds=builds)

    def player(self, figures: Figures, name: str) -> str:
        """Returns the page of a player; `KeyError` if there is none."""
        found = figures.player(name)
        days = [(each.day, each.wins, each.ties, each.losses) for each in found.days]
        return self._of("player", it=found, card=_card(found), days=days)

    def match(self, figures: Figures, key: str) -> str:
        """Returns the page of a match; `KeyError` if there is none."""
        return self._of("match", it=figures.match(key))

    def about(self, figures: Figures) -> str:
        """Returns the page of the challenge."""
        about = figures.challenge()
        rules = [(name.replace("_", " "), value) for name, value in about.rules.items() if name != "fingerprint"]
        return self._of("challenge", about=about, rules=rules, latest=figures.latest(count=_LATEST))

    def live(self, figures: Figures, fights: list[LiveSummary]) -> str:
        """Returns the page on which live fights are found and begun."""
        active = [line.player for line in figures.table if figures.entrants[line.player].state == ACTIVE]
        builds = sorted({build for line in figures.table for build in line.builds})
        return self._of("live", players=active, fights=fights, builds=builds)

    def play(self, figures: Figures, people: Sequence[PersonStanding]) -> str:
        """Returns the page on which a person chooses an opponent or a drill, with the ladder of people."""
        played = figures.arena.challenge.played
        active = [line for line in figures.table if figures.entrants[line.player].state == ACTIVE]
        opponents = [(line.player, _points(line.rating) if line.matches else "") for line in active]
        builds = sorted({build for line in figures.table for build in line.builds})
        drills: Callable[[], Sequence[Any]] = getattr(played.viewer, "drills", tuple)
        about = {"opponents": opponents, "builds": builds, "drills": drills(), "delays": MOST_DELAY}
        return self._of("play", people=people, **about)

    def watch(self, content: dict[str, Any], is_live: bool = False, script: str = "watch.js") -> str:
        """Returns the page that plays a recording, or a live fight; ``script`` is that of the scenes."""
        title = " against ".join(each["name"] for each in content["recording"]["players"])
        # Both are made for pages: the one is our own markup, the other JSON that no text can end.
        body, text = Markup(player_body(title)), Markup(as_element_text(content))
        return self._of(
            "watch",
            title=title,
            body=body,
            content=text,
            live=is_live,
            speeds=SPEEDS,
            script=script,
            person=bool(content.get("person")),
        )

    def error(self, status: int, message: str) -> str:
        """Returns a page that says what is wrong."""
        return self._of("error", status=status, message=message)

    def _of(self, name: str, **values: Any) -> str:
        return self._environment.get_template(f"{name}.html").render(values)


def _card(player: PlayerPage) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        ("Algorithm", player.algorithm),
        ("Steps of training", player.steps and f"{player.steps:,}"),
        ("File", player.version),
        ("Source", player.source),
        ("Tags", ", ".join(player.tags)),
        *((name, value) for name, value in player.hyperparameters.items()),
    ]
    return [(name, value) for name, value in facts if value not in ("", None)]


def _points_of(curve: Sequence[Point]) -> list[tuple[str, float]]:
    return [(each.at, each.value) for each in curve]


def _points(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _moment(moment: float | None) -> Markup:
    if not moment:
        return Markup("never")
    there = time.gmtime(moment)
    said, exact = time.strftime("%Y-%m-%d %H:%M", there), time.strftime("%Y-%m-%dT%H:%M:%SZ", there)
    return Markup('<time datetime="{}">{}</time>').format(exact, said)
