"""What search costs, how strong it plays, and what it teaches."""
