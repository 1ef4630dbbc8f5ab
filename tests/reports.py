"""What must hold of the reports of NhEnv and DharokEnv in every tick, whatever the world."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.game import World
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style

STYLES = (
    "attack_type_hit",
    "target_prayer_type",
    "attack_type_received",
    "player_prayer_type",
    "player_attack_style_type",
    "target_attack_style_type",
    "current_player_prayer_type",
    "current_target_prayer_type",
)
NOT_NEGATIVE = ("current_health_percent", "current_prayer_percent", "distance", "player_frozen_ticks", "food_count")
#: A field, and the one under which the other seat has the same.
MIRRORED = (
    ("current_health_percent", "current_target_health_percent"),
    ("player_frozen_ticks", "target_frozen_ticks"),
    ("distance", "distance"),
)


def check_reports(world: World, ticks: int, seed: int = 0) -> None:
    """Plays with random legal actions, and raises `AssertionError` for a record that cannot be."""
    assert world.report.dtype == META_DTYPE
    rng = np.random.default_rng(seed)
    world.reset(options={"seed": seed})
    for _ in range(ticks):
        check_report(world.report)
        world.step(world.contract.random_action(world.masks, rng))
    check_report(world.report)


def check_report(report: Any) -> None:
    """Checks the records ``(F, 2)`` of one tick."""
    for name in (name for name in META_DTYPE.names or () if META_DTYPE[name].kind == "f"):
        assert np.isfinite(report[name]).all(), f"{name!r} must be finite"
    for name in STYLES:
        assert np.isin(report[name], list(Style)).all(), f"{name!r} must hold Style numbers"
    for name in NOT_NEGATIVE:
        assert (report[name] >= 0).all(), f"{name!r} must not be negative"
    for own, others in MIRRORED:
        assert (report[own] == report[others][:, ::-1]).all(), f"the seats disagree: {own!r} and the other's {others!r}"
