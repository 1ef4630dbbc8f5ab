"""Who sits opposite: bots, scripts, models and leagues, and what a seat sees and may do."""
