"""The console script ``sb3-pvp``. Commands import what they need when they run: ``--help`` must not wait for torch."""

from sb3_pvp.cli.app import main

__all__ = ["main"]
