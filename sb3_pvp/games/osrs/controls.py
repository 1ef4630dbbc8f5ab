"""What a human may do in a fight, and why not now: as data, in the words of the game's players."""

from __future__ import annotations

from collections.abc import Mapping

from sb3_pvp.game import Control, ControlGroup
from sb3_pvp.games.osrs.rendering.scene import Scene

_FARTHEST = 7
_FARCASTS = tuple(
    Control(f"farcast_{tiles}_tiles", f"Farcast {tiles}", key, ("move_to_farcast_tile",))
    for tiles, key in zip(range(2, _FARTHEST + 1), "vbnm,.", strict=True)
)
_SUPPLIES = (
    Control("eat_primary_food", "Food", "a"),
    Control("eat_karambwan", "Karambwan", "s"),
    Control("use_brew", "Saradomin brew", "d"),
    Control("use_restore_potion", "Super restore", "f"),
    Control("use_combat_potion", "Super combat potion", "g"),
)
_VENGEANCE = ControlGroup("Spells", (Control("use_veng", "Vengeance", "k"),))

#: By game. Keys lie under the left hand: prayers above attacks above the inventory above movement.
CONTROLS: Mapping[str, tuple[ControlGroup, ...]] = {
    "NhEnv": (
        ControlGroup(
            "Attack",
            (
                Control("use_ice_spell", "Ice barrage", "q", ("mage_attack",)),
                Control("use_blood_spell", "Blood barrage", "w", ("mage_attack",)),
                Control("basic_ranged_attack", "Ranged", "e", ("ranged_attack",)),
                Control("basic_melee_attack", "Melee", "r", ("melee_attack",)),
                Control("melee_special_attack", "Melee special", "t", ("melee_attack",)),
                Control("ranged_special_attack", "Ranged special", "y", ("ranged_attack",)),
                Control("use_magic_spec", "Magic special", "u", ("mage_attack",)),
            ),
        ),
        ControlGroup(
            "Prayer",
            (
                Control("mage_prayer", "Protect from Magic", "1"),
                Control("ranged_prayer", "Protect from Missiles", "2"),
                Control("melee_prayer", "Protect from Melee", "3"),
                Control("smite_prayer", "Smite", "4"),
                Control("redemption_prayer", "Redemption", "5"),
            ),
            "grid",
            3,
        ),
        ControlGroup(
            "Inventory",
            (
                *_SUPPLIES,
                Control("use_ranged_potion", "Ranging potion", "h"),
                Control("use_tank_gear", "Tank gear", "j", ("no_op_attack",)),
            ),
            "grid",
            4,
        ),
        ControlGroup(
            "Movement",
            (
                Control("move_next_to_target", "Next to", "z"),
                Control("move_under_target", "Under", "x"),
                Control("move_diagonal_to_target", "Diagonal", "c"),
                *_FARCASTS,
            ),
        ),
        _VENGEANCE,
    ),
    "DharokEnv": (
        ControlGroup(
            "Attack",
            (
                Control("whip_attack", "Abyssal tentacle", "q"),
                Control("axe_attack", "Dharok's greataxe", "w"),
                Control("maul_spec_attack", "Granite maul special", "e"),
            ),
        ),
        ControlGroup("Inventory", _SUPPLIES, "grid", 4),
        ControlGroup("Gear", (Control("full_armor", "Full armour", "z"), Control("take_armor_off", "Armour off", "x"))),
        _VENGEANCE,
    ),
}
_PRAYERS = {"melee": "melee_prayer", "ranged": "ranged_prayer", "magic": "mage_prayer"}


def idle_actions(scene: Scene, seat: int) -> tuple[str, ...]:
    """Returns the choices that keep gear and overhead prayer: rules and masks are made for fighters that never idle."""
    overhead = scene.fighters[seat].overhead
    if overhead is None:
        return ()
    return ("no_gear",) if overhead == "none" else ("no_gear", _PRAYERS.get(overhead, f"{overhead}_prayer"))


def action_at(east: int, north: int) -> str:
    """Returns the movement for a click so many tiles from the opponent."""
    tiles = max(abs(east), abs(north))
    if tiles >= 2:
        return f"farcast_{min(tiles, _FARTHEST)}_tiles"
    return "move_diagonal_to_target" if east and north else "move_next_to_target" if tiles else "move_under_target"
