"""Who beats whom: duels, evaluation, and rating by playing; for results and not for learning."""
