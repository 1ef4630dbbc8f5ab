"""Imitation: fighters that learn from demonstrations, and how alike two players are."""

from __future__ import annotations

from sb3_pvp.algorithms.imitation.cloning import Agreement, Cloning, agreement, clone
from sb3_pvp.algorithms.imitation.likeness import Likeness, likeness

__all__ = ["Agreement", "Cloning", "Likeness", "agreement", "clone", "likeness"]
