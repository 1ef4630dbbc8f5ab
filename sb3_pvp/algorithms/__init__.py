"""Learning: a folder for each algorithm, the actors that play for it, presets and hyperparameters."""
