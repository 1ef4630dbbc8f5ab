"""Invariants of every fight, over builds, fight types, rolled gear, bots, and legal or arbitrary actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from arena import CONTRACT, sum_bonuses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import SimWorld, items
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.prayer import EXCLUDES
from sb3_pvp.games.osrs.sim.state import (
    FREEZE_TIMER,
    HITPOINTS,
    MAX_PENDING_DAMAGE,
    MAX_PENDING_HITS,
    NO_ITEM,
    PRAYER,
    SHIELD,
    WEAPON,
)

FIGHTS, TICKS = 24, 120
SIZES = np.array(CONTRACT.head_sizes)
FOOD = np.isin(np.arange(items.NUM_ITEMS), [items.SHARK, items.ANGLERFISH, items.KARAMBWAN])
DOSES = np.zeros(items.NUM_ITEMS, np.int64)
DOSES[items.POTION_DOSES] = [1, 2, 3, 4]
#: A random weight for each lasting item and one for all bottles, full or empty: their sum stands for what a seat owns.
WEIGHTS = np.random.default_rng(0).integers(1 << 40, size=items.NUM_ITEMS)
WEIGHTS[(DOSES > 0) | (np.arange(items.NUM_ITEMS) == items.VIAL)] = WEIGHTS[items.VIAL]
WEIGHTS[FOOD] = 0

play_settings = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "wild": st.booleans(),
        "bots": st.sampled_from([(None, None), (None, "baseline"), ("baseline", None)]),
        "death_match": st.booleans(),
        "reset_params": st.fixed_dictionaries(
            {
                "accountBuild": st.sampled_from(BUILD_NAMES),
                "randomizeGear": st.booleans(),
                "randomizeFightType": st.booleans(),
                "allowMovingIfCanAttack": st.booleans(),
                "onlySwitchGearWhenAttackSoon": st.booleans(),
                "onlySwitchPrayerWhenAboutToAttack": st.booleans(),
            }
        ),
    }
)


def owned(state: Any, per_item: NDArray[np.int64]) -> NDArray[np.int64]:
    """(F, 2): the sum over what is worn and carried."""
    padded = np.append(per_item, 0)  # NO_ITEM is the last entry
    total: NDArray[np.int64] = padded[state["worn"]].sum(axis=2) + padded[state["inventory"]].sum(axis=2)
    return total


def check_ranges(state: Any) -> None:
    """Levels, energy, timers and queues stay within their bounds."""
    level, base = state["level"], state["base"]
    assert (level >= 0).all()
    assert (level[:, :, HITPOINTS] <= base[:, :, HITPOINTS] + 22).all()
    assert (level[:, :, PRAYER] <= base[:, :, PRAYER]).all()
    assert (level[:, :, :PRAYER] <= base[:, :, :PRAYER] + 2 + base[:, :, :PRAYER] // 5 + 5).all()
    for name, most in (("energy", 100), ("num_hits", MAX_PENDING_HITS), ("num_damage", MAX_PENDING_DAMAGE)):
        assert ((state[name] >= 0) & (state[name] <= most)).all()
    assert (state["timer"] >= 0).all()
    assert (state["maul_queue"] == 0).all()
    assert np.isin(state["special_on"], [0, 1]).all()
    assert ((state["dying"] == 1) == (level[:, :, HITPOINTS] == 0)).all()


def check_prayers(state: Any) -> None:
    for prayer, excluded in enumerate(EXCLUDES):
        active = (state["prayers"] >> prayer) & 1 == 1
        assert (state["prayers"][active] & excluded == 0).all()


def check_gear(state: Any) -> None:
    """Everything is in its slot, a two-hander leaves no hand for a shield, and the bonuses are those of the gear."""
    worn = state["worn"]
    slots = np.append(items.SLOT, NO_ITEM)[worn]
    assert ((worn == NO_ITEM) | (slots == np.arange(worn.shape[2]))).all()
    two_handed = np.append(items.TWO_HANDED, 0)[worn[:, :, WEAPON]] == 1
    assert (worn[:, :, SHIELD][two_handed] == NO_ITEM).all()
    for seat in range(2):
        expected = state[:, seat].copy()
        sum_bonuses(expected)
        assert (expected["bonus"] == state["bonus"][:, seat]).all()


def check_change(before: Any, after: Any) -> None:
    """The changes that one tick may make."""
    assert (owned(before, WEIGHTS) == owned(after, WEIGHTS)).all()
    assert (owned(before, DOSES) >= owned(after, DOSES)).all()
    assert (owned(before, FOOD.astype(int)) >= owned(after, FOOD.astype(int))).all()
    dead = before["dying"] == 1
    assert (after["dying"][dead] == 1).all()
    assert (after["hits_dealt"][dead] == before["hits_dealt"][dead]).all()
    steps = np.maximum(np.abs(after["x"] - before["x"]), np.abs(after["y"] - before["y"]))
    assert (steps <= 2).all()
    frozen = (before["timer"][:, :, FREEZE_TIMER] > 1) & (after["timer"][:, :, FREEZE_TIMER] > 0)
    assert (steps[frozen] == 0).all()
    assert (after["ticks"] == before["ticks"] + 1).all()


def check_reply(world: SimWorld) -> None:
    assert np.isfinite(world.obs).all()
    heads = CONTRACT.split_mask(world.masks)
    for head, mask in zip(CONTRACT.heads, heads, strict=True):
        assert mask.any() or head.id == "prayer"  # only the overhead may have no entry, and falls back to the first
    assert (heads[CONTRACT.head_index("prayer")][..., 0] == 0).all()


def is_legal(world: SimWorld, actions: NDArray[np.int64]) -> bool:
    """Every head's choice is one that mask and rules leave, or entry 0 if they leave none (contract.md §2.3)."""
    for head in range(CONTRACT.num_heads):
        allowed = CONTRACT.conditional_mask(world.masks, actions[..., :head])
        if not np.take_along_axis(allowed, actions[..., head : head + 1], axis=-1).all():
            return False
    return True


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(play_settings)
def test_fights_stay_within_the_rules(play: dict[str, Any]) -> None:
    world = SimWorld(FIGHTS, play["seed"], play["reset_params"])
    world.reset(options={"bots": play["bots"], "death_match": play["death_match"]})
    wild = np.random.default_rng(play["seed"])
    outcome = world.outcome.copy()
    for _ in range(TICKS):
        before = world.state.copy()
        actions = wild.integers(SIZES, size=(FIGHTS, 2, len(SIZES))) if play["wild"] else world.random_actions()
        assert play["wild"] or is_legal(world, actions)
        world.step(actions)
        check_ranges(world.state)
        check_prayers(world.state)
        check_gear(world.state)
        check_change(before, world.state)
        check_reply(world)
        settled = outcome != 0
        assert (world.outcome[settled] == outcome[settled]).all()
        outcome = world.outcome.copy()
