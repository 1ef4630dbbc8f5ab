"""Why something is impossible now, as far as a seen scene tells; the mask says whether it is (nh-actions.md §4)."""

from __future__ import annotations

from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene

_ATTACKS = (
    *("use_ice_spell", "use_blood_spell", "basic_ranged_attack", "basic_melee_attack"),
    *("whip_attack", "axe_attack"),
)
_SPECIALS = ("melee_special_attack", "ranged_special_attack", "use_magic_spec", "maul_spec_attack")
#: The headed styles are possible if one of their kinds is.
_STYLES = {
    "mage_attack": "use_ice_spell",
    "ranged_attack": "basic_ranged_attack",
    "melee_attack": "basic_melee_attack",
}
_MELEE = ("basic_melee_attack", "melee_special_attack")
_POTIONS = {
    "use_brew": "brew",
    "use_restore_potion": "restore",
    "use_combat_potion": "combat",
    "use_ranged_potion": "ranging",
}
_MOVES = ("move_next_to_target", "move_diagonal_to_target", "move_under_target", "move_to_farcast_tile")
_PRAYERS = ("mage_prayer", "ranged_prayer", "melee_prayer")
_FARCASTS = tuple(f"farcast_{tiles}_tiles" for tiles in range(2, 8))
_LAST_MOMENT = "here only right before its attack, in {} ticks"


def reasons_of(scene: Scene, seat: int) -> dict[str, str]:
    """Returns by sub-action why it is impossible, if it is; also for fights with other rules than usual."""
    me, foe = scene.fighters[seat], scene.fighters[1 - seat]
    waits, beside = me.waits, "frozen, and not next to it" if me.frozen_ticks and not me.can_melee else ""
    wait = _cooldown(waits.get("attack", 0))
    later = _LAST_MOMENT.format(foe.waits["attack"]) if "attack" in foe.waits else ""
    found = dict.fromkeys(_ATTACKS, wait or "not with this gear, these levels, or so full an inventory")
    found["use_blood_spell"] = wait or (
        "nothing to heal" if me.hitpoints >= me.max_hitpoints else found["use_ice_spell"]
    )
    energy = f"no such weapon, or {me.special_energy:.0%} special energy is too little"
    found |= {each: (wait if each != "maul_spec_attack" else "") or energy for each in _SPECIALS}
    found |= {each: wait or beside or found[each] for each in _MELEE}
    found |= {style: found[kind] for style, kind in _STYLES.items()}
    for action, name in _POTIONS.items():
        found[action] = _supply(waits.get("potion", 0), me.potions.get(name, 0), f"{name} doses") or "of no use now"
    pieces = sum(count for name, count in me.food.items() if name != "karambwan")
    for action, name, left in (("food", "food", pieces), ("karambwan", "karambwan", me.food.get("karambwan", 0))):
        eat = "eat_primary_food" if action == "food" else "eat_karambwan"
        found[eat] = _supply(waits.get(action, 0), left, name) or "full hitpoints"
    found["use_veng"] = _cooldown(waits.get("vengeance", 0)) or "not on the lunar spellbook"
    found["use_tank_gear"] = later or "not possible now"
    found["take_armor_off"] = "no room in the inventory"
    found |= _movement(me, foe, scene.distance)
    found |= _prayer(me, later)
    return found


def actions_at_will(scene: Scene, seat: int) -> frozenset[str]:
    """Returns what a human may do whenever the game itself allows it, although fighters are held to when it matters."""
    me = scene.fighters[seat]
    if me.overhead is None:
        return frozenset()
    steps = () if me.frozen_ticks else (*(each for each in _MOVES if each != "move_under_target"), *_FARCASTS)
    return frozenset((*(_PRAYERS if me.prayer else ()), *steps))


def _cooldown(ticks: int) -> str:
    return f"on cooldown for {ticks} tick{'s' * (ticks > 1)}" if ticks else ""


def _supply(wait: int, left: int, name: str) -> str:
    return f"no {name} left" if not left else _cooldown(wait)


def _movement(me: FighterScene, foe: FighterScene, distance: int) -> dict[str, str]:
    held = f"frozen for {me.frozen_ticks} tick{'s' * (me.frozen_ticks > 1)}" if me.frozen_ticks else ""
    held = held or ("" if "attack" in me.waits else "not while you can attack")
    found = dict.fromkeys(_MOVES, held or "you are there")
    found["move_under_target"] = held or ("you are there" if distance == 0 else "only under a frozen opponent")
    return found | dict.fromkeys(_FARCASTS, held or "you are there")


def _prayer(me: FighterScene, later: str) -> dict[str, str]:
    empty = "" if me.prayer else "no prayer points left"
    found = dict.fromkeys(_PRAYERS, empty or later or "not needed: it cannot attack like that")
    found["smite_prayer"] = (
        empty or ("" if "attack" not in me.waits else "only when you can attack") or "against the rules"
    )
    supplied = "you have food or brews left" if me.food or me.potions.get("brew") else ""
    return found | {"redemption_prayer": empty or supplied or later or "against the rules"}
