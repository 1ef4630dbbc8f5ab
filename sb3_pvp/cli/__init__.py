"""The console script ``sb3-pvp``: one file per sub-command; what they need is imported when they run."""

from sb3_pvp.cli.app import main

__all__ = ["main"]
