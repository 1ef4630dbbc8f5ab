"""How fighters of DharokEnv are drawn (contract.md §6)."""

from __future__ import annotations

from sb3_pvp.envs.render.fighter import Fighter, Look, Paint

#: Of every skill of both fighters (loadouts.md §6).
BASE_LEVEL = 99
#: What tells which weapon is wielded, what it is called and its colour.
_WEAPONS = (
    ("player_using_whip", "tentacle", "red"),
    ("player_using_axe", "greataxe", "yellow"),
    ("player_using_maul", "maul", "green"),
)
#: Observed timers, the ticks that 1 stands for in them, and what they hold up (contract.md §6.4).
_WAITS = (
    ("attack_cycle_ticks", 6, "attack"),
    ("food_cycle_ticks", 2, "food"),
    ("karambwan_cycle_ticks", 2, "karam"),
    ("potion_cycle_ticks", 2, "potion"),
)


def _stance(fighter: Fighter, paint: Paint) -> str:
    """Wielded weapon, whether the armour is off, and whether vengeance waits for a hit."""
    weapons = [paint(name, color) for observation, name, color in _WEAPONS if fighter.see(observation)]
    armor = ", no armour" if fighter.see("player_armor_unequipped") else ""
    veng = ", " + paint("veng", "yellow") if fighter.see("player_has_veng_cast") else ""
    return f"wields {weapons[0] if weapons else 'nothing'}{armor}{veng}"


def _conditions(fighter: Fighter, paint: Paint) -> list[str]:
    """Ticks until the next attack and until the next bite of each kind."""
    waits = [(name, round(fighter.see(observation) * scale)) for observation, scale, name in _WAITS]
    running = [f"{name} {ticks}" for name, ticks in waits if ticks]
    return running if waits[0][1] else [paint("ready", "cyan"), *running]


LOOK = Look(
    base_level=lambda fighter, skill: BASE_LEVEL,
    special_energy=lambda fighter: fighter.see("special_energy_percent"),
    stance=_stance,
    conditions=_conditions,
    can_melee=lambda fighter: False,
    potions=(("brew_doses", "brew"), ("super_restore_doses", "restore"), ("combat_potion_doses", "combat")),
)
