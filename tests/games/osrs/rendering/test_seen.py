"""What the player of one seat sees of a fight, and that nothing else is in it."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import Outcome, find_game, seen_scene
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene, scene_of
from sb3_pvp.games.osrs.rendering.seen import TARGET_MAPS
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.viewer import OsrsViewer

NAMES = ("alice", "bob")
FIGHTS = 8
#: What a seat's own record and report tell it of itself; everything else of the world is garbled below.
OWN_STATE = {"worn", "inventory"}
OWN_REPORT = {
    *("episode_ticks", "current_health_percent", "current_prayer_percent", "hit_present", "attack_type_hit"),
    *("player_attack_style_type", "player_frozen_ticks", "remaining_food_scale", "remaining_brew_scale"),
    *("wasted_food_scale", "wasted_brew_scale"),
    *(f"{skill}_level_scale" for skill in ("attack", "strength", "defence", "ranged", "magic")),
}


def junk(dtype: Any, rng: np.random.Generator) -> Any:
    """A record of random numbers, small enough to be styles and counts."""
    record = np.zeros((), dtype)
    for name in record.dtype.names or ():
        record[name] = rng.integers(0, 2 if record[name].dtype == np.bool_ else 3, record[name].shape)
    return record


def garble(records: Any, index: tuple[int, int], keep: set[str], rubbish: Any) -> None:
    """Replaces a record, but for these fields."""
    kept = {name: records[name][index].copy() for name in keep}
    records[index] = rubbish
    for name, value in kept.items():
        records[name][index] = value


@pytest.mark.parametrize(
    ("contract", "ticks"),
    # Two seats each: the slow one sees more than 10,000.
    [("NhEnv", 160), pytest.param("NhEnv", 640, marks=pytest.mark.slow), ("DharokEnv", 60)],
)
def test_nothing_that_the_contract_hides_changes_what_a_player_sees(contract: str, ticks: int) -> None:
    params = RANDOMISED if contract == "NhEnv" else {}
    world, rng = SimWorld(FIGHTS, seed=7, reset_params=params, contract=contract), np.random.default_rng(0)
    viewer, lifted = OsrsViewer(), 0
    states, reports = ([junk(array.dtype, rng) for _ in range(20)] for array in (world.state, world.report))
    world.reset()
    for _ in range(ticks):
        over = np.flatnonzero(world.outcome[:, 0] != Outcome.RUNNING)
        if len(over):
            world.reset(over)
        actions, masks = world.random_actions(), world.masks.copy()
        world.step(actions)
        state, report, obs = world.state.copy(), world.report.copy(), world.obs.copy()
        for fight, seat in product(range(FIGHTS), (0, 1)):
            other = 1 - seat
            seen = seen_scene(viewer, world, fight, NAMES, seat, tuple(actions[fight]), tuple(masks[fight]))
            _agrees(world, fight, seat, seen)
            if fight == 0:
                lifted += scene_of(world, fight, NAMES).fighters[other] != seen.fighters[other]
            rubbish, lies = states[rng.integers(20)], reports[rng.integers(20)]
            garble(world.state, (fight, other), set(), rubbish)
            garble(world.report, (fight, other), set(), lies)
            garble(world.state, (fight, seat), OWN_STATE, rubbish)
            garble(world.report, (fight, seat), OWN_REPORT, lies)
            world.obs[fight, other] = rng.normal(size=world.obs.shape[-1])
            mine: Any = [None, None]
            mine[seat] = actions[fight, seat]
            again = seen_scene(viewer, world, fight, NAMES, seat, mine, tuple(masks[fight]))
            assert again == seen
            world.state[fight], world.report[fight], world.obs[fight] = state[fight], report[fight], obs[fight]
    assert lifted == 2 * ticks


def _agrees(world: SimWorld, fight: int, seat: int, seen: Scene) -> None:
    """What is visible equals the seat's own observation."""

    def see(name: str) -> float:
        return float(world.obs[fight, seat, world.contract.observation_index(name)])

    me, target = seen.fighters[seat], seen.fighters[1 - seat]
    is_nh = world.contract.name == "NhEnv"
    assert me.hidden is False and target.hidden is True
    assert target.hitpoints / target.max_hitpoints == pytest.approx(see("target_health_percent"), abs=0.01)
    assert target.special_energy == pytest.approx(see("target_special_percent") / (100 if is_nh else 1))
    assert target.vengeance == bool(see("is_target_veng_active" if is_nh else "target_has_veng_cast"))
    assert (target.attack is not None) == bool(see("target_just_attacked"))
    assert target.first != bool(see("player_has_pid"))
    assert sum(target.hitsplats) == round(see("damage_on_target_tick") * me.max_hitpoints)
    assert sum(me.hitsplats) == round(see("damage_on_player_tick") * me.max_hitpoints)
    if is_nh:
        assert seen.distance == see("player_to_target_distance")
        prayers = [name for name in ("melee", "ranged", "magic", "smite", "redemption") if see(f"target_{name}_prayer")]
        assert [target.overhead] == (prayers or ["none"])
        using = [see(f"target_using_{name}") for name in ("melee", "ranged", "mage")]
        assert using == [target.style == name for name in ("melee", "ranged", "magic")]
        assert target.special_weapon == bool(see("target_spec_equipped"))
        assert target.frozen_ticks == see("target_frozen_ticks")
        assert target.freeze_immunity_ticks == see("target_frozen_immunity_ticks")
        assert target.waits.get("attack", 0) == see("target_attack_cycle_ticks")
        assert target.waits.get("food", 0) == see("target_potion_cycle_ticks")
        assert target.waits.get("vengeance", 0) == see("target_veng_cooldown_ticks")
        assert [hit.ticks - 1 for hit in target.incoming] == [t for t in [see("ticks_until_hit_on_target")] if t >= 0]
        assert [hit.ticks - 1 for hit in me.incoming] == [t for t in [see("ticks_until_hit_on_player")] if t >= 0]
        apart = max(abs(a - b) for a, b in zip(me.tile, target.tile, strict=True))
        assert apart == seen.distance and me.can_melee == target.can_melee == bool(see("player_location_can_melee"))
    else:
        assert target.armor_off == bool(see("target_armor_unequipped"))


def test_what_is_not_seen_has_no_value() -> None:
    world = SimWorld(1, seed=1)
    world.reset()
    _, target = seen_scene(OsrsViewer(), world, 0, NAMES, 0).fighters
    defaults = {each.name: each.default for each in fields(FighterScene)}
    assert (target.prayer, target.max_prayer, target.food_bars, target.brew_bars) == (0, 0, 0.0, 0.0)
    for name in ("levels", "gear", "food", "potions"):
        assert not getattr(target, name)
    assert target.heads == defaults["heads"]
    assert target.hitpoints == 0  # nobody has seen a hit yet


def test_every_observation_of_the_target_is_shown_or_is_no_part_of_a_scene() -> None:
    for name, ids in TARGET_MAPS.items():
        contract = find_game(name).contract
        shown = {*(each for each, _ in ids.waits.values()), *ids.overheads.values(), *ids.weapons.values()}
        shown |= {ids.vengeance, ids.special_weapon, ids.armor_off, ids.freeze_immunity, ids.moving, ids.next_hit}
        shown |= {"target_health_percent", "target_special_percent", "target_frozen_ticks", "target_just_attacked"}
        shown |= {"target_prayer_correct", *(f"target_using_{style}" for style in ("melee", "ranged", "mage"))}
        shown |= {"pending_damage_on_target", "damage_on_target_tick"}
        # Statistics of the fight so far, and the numbers of what it wears: no scene has a place for them.
        rest = [each.id for each in contract.observations if "target" in each.id and each.id not in shown]
        numbers = ("percent", "confidence", "number_of_hits", "gear", "accuracy", "strength", "distance", "lunar")
        left = [each for each in rest if not any(word in each for word in (*numbers, "dealt", "attacking"))]
        assert left == ([] if name == "NhEnv" else ["target_veng_available"])


def test_events_tell_no_more() -> None:
    world, viewer = SimWorld(1, seed=4), OsrsViewer()
    world.reset()
    scenes = [seen_scene(viewer, world, 0, NAMES, 0)]
    while len(scenes) < 40:
        world.step(world.random_actions())
        scenes.append(seen_scene(viewer, world, 0, NAMES, 0))
    events = viewer.events(scenes)
    its = [each["text"] for each in events if each["seat"] == 1]
    assert any(text.startswith("takes ") for text in its) and any("attack" in text for text in its)
    assert not [
        text for text in its for word in ("left", "eats", "drinks", "hits", "misses") if f" {word}" in f" {text}"
    ]
    assert any(each["text"].endswith(" left") for each in events if each["seat"] == 0)
