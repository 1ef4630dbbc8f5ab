"""How fighters of NhEnv are drawn."""

from __future__ import annotations

from sb3_pvp.envs.render.fighter import STYLE_COLORS, STYLE_NAMES, Fighter, Look, Paint
from sb3_pvp.world import Style

_OVERHEADS = ("melee", "ranged", "magic", "smite", "redemption")
_SPELLINGS = {"defence": "defense"}


def _base_level(fighter: Fighter, skill: str) -> float:
    return fighter.see(f"absolute_{_SPELLINGS.get(skill, skill)}_level")


def _stance(fighter: Fighter, paint: Paint) -> str:
    """Wielded style and overhead prayer."""
    style = Style(int(fighter.meta["player_attack_style_type"]))
    weapon = STYLE_NAMES[style] + ("*" if fighter.see("player_spec_equipped") else "")
    overheads = [name for name in _OVERHEADS if fighter.see(f"player_{name}_prayer")]
    overhead = overheads[0] if overheads else "none"
    protected = {STYLE_NAMES[key]: color for key, color in STYLE_COLORS.items()}
    return f"wields {paint(weapon, STYLE_COLORS.get(style))}, prays {paint(overhead, protected.get(overhead))}"


def _conditions(fighter: Fighter, paint: Paint) -> list[str]:
    parts = []
    if frozen := int(fighter.meta["player_frozen_ticks"]):
        parts.append(paint(f"frozen {frozen}", "blue"))
    elif immune := int(fighter.see("player_frozen_immunity_ticks")):
        parts.append(f"immune {immune}")
    if fighter.see("is_veng_active"):
        parts.append(paint("vengeance", "yellow"))
    wait = int(fighter.see("attack_cycle_ticks"))
    return [*parts, f"attacks in {wait}" if wait else paint("ready", "cyan")]


LOOK = Look(
    base_level=_base_level,
    special_energy=lambda fighter: fighter.see("special_energy_percent") / 100,
    stance=_stance,
    conditions=_conditions,
    can_melee=lambda fighter: fighter.see("player_location_can_melee") > 0,
    potions=(
        ("brew_doses", "brew"),
        ("super_restore_doses", "restore"),
        ("combat_potion_doses", "combat"),
        ("range_potion_doses", "range"),
    ),
)
