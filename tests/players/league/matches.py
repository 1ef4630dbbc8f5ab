"""Invented matches, and hypothesis strategies for them."""

from __future__ import annotations

from hypothesis import strategies as st

from sb3_pvp.players.league import MatchRecord, Player

PLAYERS = (
    Player("baseline"),
    Player("scripted"),
    Player("main-exploiter-0", 640),
    *(Player("main", step) for step in (0, 64, 128, 192)),
)


def match(a: Player, b: Player, outcome: str = "won", key: str = "k", counted: bool | None = None) -> MatchRecord:
    counted = outcome in ("won", "tied", "lost") if counted is None else counted
    return MatchRecord(a, b, outcome, 7, "MED", 90, counted, 1.5e9, key)


@st.composite
def matches(draw: st.DrawFn) -> MatchRecord:
    a, b = draw(st.permutations(PLAYERS))[:2]
    outcome = draw(st.sampled_from(["won", "lost", "tied", "timeout", "target_lost", "desync"]))
    counted = outcome in ("won", "lost", "tied") and draw(st.integers(0, 5)) > 0
    return match(a, b, outcome, draw(st.text("abc/-0123456789", min_size=1, max_size=6)), counted)


def rollouts(max_size: int = 6) -> st.SearchStrategy[list[list[MatchRecord]]]:
    """Returns records for several calls of ``MatchLog.append``; keys may occur twice."""
    return st.lists(st.lists(matches(), max_size=25), max_size=max_size)
