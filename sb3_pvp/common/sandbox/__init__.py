"""Processes behind walls, for code of strangers: own user, no network, no files, limits of memory and time."""
