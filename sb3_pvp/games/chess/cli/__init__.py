"""The game's own sub-commands of ``sb3-pvp``: ``chess ladder``, ``chess openings`` and ``uci``."""
