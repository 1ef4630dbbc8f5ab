"""The page of an arena: leaderboard, players, matches and live fights, for people and as JSON."""
