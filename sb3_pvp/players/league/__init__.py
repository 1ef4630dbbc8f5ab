"""Match making, ratings and leagues (self-play.md §4, §6); imports neither PyTorch nor games."""

from typing import TYPE_CHECKING, Any

from sb3_pvp.players.league.bradley_terry import BradleyTerry, center_of, fit_bradley_terry, informative_pairs
from sb3_pvp.players.league.leaderboard import Standing
from sb3_pvp.players.league.league import League, check_anchors
from sb3_pvp.players.league.match_makers import (
    MatchMaker,
    Prioritised,
    PrioritisedFictitious,
    Uniform,
    WindowLatest,
    match_maker,
)
from sb3_pvp.players.league.match_records import MatchRecord
from sb3_pvp.players.league.payoff import Counts, Payoff
from sb3_pvp.players.league.players import LEARNER, Player, file_name, player_of_file
from sb3_pvp.players.league.ratings import Elo, OpenSkill, Ratings, expected_score

if TYPE_CHECKING:
    from sb3_pvp.players.league.match_log import MatchLog

__all__ = [
    "LEARNER",
    "BradleyTerry",
    "Counts",
    "Elo",
    "League",
    "MatchLog",
    "MatchMaker",
    "MatchRecord",
    "OpenSkill",
    "Payoff",
    "Player",
    "Prioritised",
    "PrioritisedFictitious",
    "Ratings",
    "Standing",
    "Uniform",
    "WindowLatest",
    "center_of",
    "check_anchors",
    "expected_score",
    "file_name",
    "fit_bradley_terry",
    "informative_pairs",
    "match_maker",
    "player_of_file",
]


def __getattr__(name: str) -> Any:
    if name == "MatchLog":  # the only one that needs a database
        from sb3_pvp.players.league.match_log import MatchLog

        return MatchLog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
