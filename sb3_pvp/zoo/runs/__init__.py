"""Runs in their folders: saved, resumed and tracked."""
