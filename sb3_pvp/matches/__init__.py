"""Fights for results, not for learning: evaluation of a model, and matches that rate a league's players."""
