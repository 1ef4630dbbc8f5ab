"""The games. Nothing imports them: they are loaded by entry point, and only use `game.py` and the layers below it."""
