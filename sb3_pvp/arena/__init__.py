"""AI against AI: an arena in which fighters of many owners meet, with rounds, one log and a table."""

from sb3_pvp.common.errors import extra

with extra("arena", "arenas"):
    from sb3_pvp.arena.arena import Arena
    from sb3_pvp.arena.challenge import Challenge, load_challenge
    from sb3_pvp.arena.exchange import compare_players, export_matches, import_matches
    from sb3_pvp.arena.replaying import recording_of, verify

__all__ = [
    "Arena",
    "Challenge",
    "compare_players",
    "export_matches",
    "import_matches",
    "load_challenge",
    "recording_of",
    "verify",
]
