"""Which environments are those of this package."""

from __future__ import annotations

import gymnasium


def is_ours(env_id: str) -> bool:
    """Whether this environment was registered by this package."""
    return str(gymnasium.spec(env_id).entry_point).startswith("sb3_pvp.")
