"""Any two-player game of PettingZoo as a game."""
