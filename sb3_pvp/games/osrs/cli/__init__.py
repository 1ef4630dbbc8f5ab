"""The game's own sub-commands of ``sb3-pvp``."""
