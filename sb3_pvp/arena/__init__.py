"""AI against AI: an arena in which fighters of many owners meet, with rounds, one log and a table."""
