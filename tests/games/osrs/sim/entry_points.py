"""Compiled entry points for tests: rules take records, which Python can only hand over inside arrays."""

from __future__ import annotations

from typing import Any

import numba

from sb3_pvp.games.osrs.sim import action_masks, observe, observe_memory, report, statistics, stock

entry_point = numba.njit(error_model="numpy")

ME, TARGET = 0, 1


@entry_point
def start_memory(seats: Any) -> None:
    statistics.start_memory(seats[ME])
    statistics.start_memory(seats[TARGET])


@entry_point
def clear_tick(seats: Any) -> None:
    statistics.clear_tick(seats[ME])
    statistics.clear_tick(seats[TARGET])


@entry_point
def record_hit(seats: Any, attacker: int, style: int, total: int, speed: int) -> None:
    statistics.record_hit(seats[attacker], seats[1 - attacker], style, total, speed)


@entry_point
def refresh_hitsplats(seats: Any) -> None:
    statistics.refresh_hitsplats(seats[ME], seats[TARGET])


@entry_point
def write_statistics(seats: Any, out: Any) -> None:
    observe_memory.write_memory(seats[ME], True, out)


@entry_point
def publish(seats: Any, fights: Any, obs: Any, masks: Any, meta: Any) -> None:
    """What the reply to ``ME`` holds, as the world writes it."""
    bag, foe_bag = stock.count_inventory(seats[ME]), stock.count_inventory(seats[TARGET])
    observe.observe(seats[ME], seats[TARGET], fights[0], bag, True, obs)
    action_masks.write_masks(seats[ME], seats[TARGET], fights[0], bag, masks)
    report.write_meta(seats[ME], seats[TARGET], bag, foe_bag, meta[0])
