"""Searches for good hyperparameters: what is varied, what counts as good, and studies that several processes share."""
