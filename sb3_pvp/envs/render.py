"""A fight as text: one frame per tick, two fighters side by side.

It reads observations and meta records only, so it shows fights of every world, embedded or remote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.world import NUM_SEATS, Outcome, Style, World

COLUMN = 38
GAP = "  "
BAR = 16

_RESET = "\033[0m"
_COLORS = {"red": "\033[31m", "green": "\033[32m", "yellow": "\033[33m", "blue": "\033[34m", "cyan": "\033[36m"}
_STYLE_COLORS = {Style.MELEE: "red", Style.RANGED: "green", Style.MAGIC: "blue"}
_STYLE_NAMES = {Style.NONE: "none", Style.MELEE: "melee", Style.RANGED: "ranged", Style.MAGIC: "magic"}

_FOOD = (("food_count", "angler"), ("karambwan_count", "karam"))
_POTIONS = (
    ("brew_doses", "brew"),
    ("super_restore_doses", "restore"),
    ("combat_potion_doses", "combat"),
    ("range_potion_doses", "range"),
)
_OVERHEADS = ("melee", "ranged", "magic", "smite", "redemption")
_LEVELS = (
    ("attack", "absolute_attack_level", "att"),
    ("strength", "absolute_strength_level", "str"),
    ("defence", "absolute_defense_level", "def"),
    ("ranged", "absolute_ranged_level", "rng"),
    ("magic", "absolute_magic_level", "mag"),
)


@dataclass(frozen=True)
class Fighter:
    """One seat in one tick.

    Attributes:
        name: shown above its column.
        observation: float32 ``(D,)``, by the ids of ``contract``.
        meta: one `sb3_pvp.world.META_DTYPE` record.
        actions: ints ``(heads,)``, what it chose; ``None`` if that is unknown (the world's bot, or no tick played yet).
    """

    name: str
    contract: Contract
    observation: NDArray[np.float32]
    meta: np.void
    actions: NDArray[np.int64] | None = None

    def see(self, observation: str) -> float:
        """The value of an observation by id."""
        return float(self.observation[self.contract.observation_index(observation)])


def render_world(
    world: World,
    fight: int,
    names: Sequence[str],
    actions: Sequence[NDArray[np.int64] | None] = (None, None),
    color: bool = True,
) -> str:
    """One tick of a fight, as lines of at most 80 characters.

    Args:
        world: where the fight takes place.
        fight: its number.
        names: of the two fighters.
        actions: what they chose in this tick, ints ``(heads,)`` each.
        color: use ANSI escape sequences.
    """
    fighters = [
        Fighter(names[seat], world.contract, world.obs[fight, seat], world.meta[fight, seat], actions[seat])
        for seat in range(NUM_SEATS)
    ]
    outcome = Outcome(int(world.outcome[fight, 0]))
    return render_fighters(fighters, outcome, color)


def render_fighters(fighters: Sequence[Fighter], outcome: Outcome = Outcome.RUNNING, color: bool = True) -> str:
    """See `render_world`; ``outcome`` is that of the first fighter."""
    paint = _Paint(color)
    columns = [_column(seat, fighter, paint) for seat, fighter in enumerate(fighters)]
    lines = [_headline(fighters[0], outcome, paint), _ground(fighters[0], paint)]
    lines += [GAP.join(_pad(line) for line in row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join(lines)


class _Paint:
    """Colours text, or leaves it alone."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, color: str | None) -> str:
        return f"{_COLORS[color]}{text}{_RESET}" if self._color and color and text else text


def _width(text: str) -> int:
    """The number of characters on screen."""
    for escape in (*_COLORS.values(), _RESET):
        text = text.replace(escape, "")
    return len(text)


def _pad(text: str) -> str:
    return text + " " * max(COLUMN - _width(text), 0)


def _headline(fighter: Fighter, outcome: Outcome, paint: _Paint) -> str:
    title = f" tick {int(fighter.meta['episode_ticks'])} "
    if outcome != Outcome.RUNNING:
        color = {Outcome.WON: "green", Outcome.LOST: "red"}.get(outcome, "yellow")
        title += paint(f"* {_fit(fighter.name)} {outcome.name.replace('_', ' ').lower()} * ", color)
    return "-- " + title.strip() + " " + "-" * max(2 * COLUMN + len(GAP) - _width(title.strip()) - 4, 0)


def _ground(fighter: Fighter, paint: _Paint) -> str:
    """The distance between the fighters, drawn in tiles, and who has the initiative."""
    distance = int(fighter.meta["distance"])
    if distance == 0:
        picture = "[01] on the same tile"
    else:
        reach = ", in melee reach" if fighter.see("player_location_can_melee") else ""
        tiles = "tile" if distance == 1 else "tiles"
        picture = "[0]" + " ." * min(distance - 1, 12) + f" [1]  {distance} {tiles}{reach}"
    pid = "0" if fighter.see("player_has_pid") else "1"
    return f"   {picture}   pid: {paint(pid, 'cyan')}"


def _column(seat: int, fighter: Fighter, paint: _Paint) -> list[str]:
    return [
        _fit(f"[{seat}] {fighter.name}"),
        _hitpoints(fighter, paint),
        _prayer(fighter, paint),
        _special(fighter, paint),
        _stance(fighter, paint),
        _levels(fighter, paint),
        _food(fighter),
        _potions(fighter),
        _conditions(fighter, paint),
        _hits(fighter, paint),
        *_choices(fighter),
    ]


def _bar(fraction: float, color: str, paint: _Paint) -> str:
    filled = round(min(max(fraction, 0.0), 1.0) * BAR)
    if fraction > 0:
        filled = max(filled, 1)
    return "[" + paint("#" * filled, color) + "." * (BAR - filled) + "]"


def _hitpoints(fighter: Fighter, paint: _Paint) -> str:
    fraction = float(fighter.meta["current_health_percent"])
    base = fighter.see("absolute_hitpoints_level")
    color = "green" if fraction > 0.6 else "yellow" if fraction > 0.3 else "red"
    return f"  hp      {_bar(fraction, color, paint)} {round(fraction * base):3d}/{base:.0f}"


def _prayer(fighter: Fighter, paint: _Paint) -> str:
    fraction = float(fighter.meta["current_prayer_percent"])
    base = fighter.see("absolute_prayer_level")
    return f"  prayer  {_bar(fraction, 'cyan', paint)} {round(fraction * base):3d}/{base:.0f}"


def _special(fighter: Fighter, paint: _Paint) -> str:
    percent = fighter.see("special_energy_percent")
    return f"  special {_bar(percent / 100, 'yellow', paint)} {percent:3.0f} %"


def _stance(fighter: Fighter, paint: _Paint) -> str:
    """Wielded style and overhead prayer."""
    style = Style(int(fighter.meta["player_attack_style_type"]))
    weapon = _STYLE_NAMES[style] + ("*" if fighter.see("player_spec_equipped") else "")
    overheads = [name for name in _OVERHEADS if fighter.see(f"player_{name}_prayer")]
    overhead = overheads[0] if overheads else "none"
    protected = {_STYLE_NAMES[key]: color for key, color in _STYLE_COLORS.items()}
    return f"  wields {paint(weapon, _STYLE_COLORS.get(style))}, prays {paint(overhead, protected.get(overhead))}"


def _levels(fighter: Fighter, paint: _Paint) -> str:
    """How far levels are from their base, where they are."""
    parts = []
    for skill, observation, short in _LEVELS:
        change = round((float(fighter.meta[f"{skill}_level_scale"]) - 1.0) * fighter.see(observation))
        if change:
            parts.append(paint(f"{short}{change:+d}", "green" if change > 0 else "red"))
    return "  " + (" ".join(parts) or "levels normal")


def _food(fighter: Fighter) -> str:
    """Food in health bars; what is neither anglerfish nor karambwan (sharks) shows in the bars only."""
    bars = float(fighter.meta["remaining_food_scale"])
    counts = _counts(fighter, _FOOD)
    return f"  food {bars:.1f} bars" + (f" ({counts})" if counts else "")


def _potions(fighter: Fighter) -> str:
    return "  " + (_counts(fighter, _POTIONS).replace(",", "") or "no potions")


def _counts(fighter: Fighter, supplies: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{fighter.see(name):.0f} {short}" for name, short in supplies if fighter.see(name))


def _conditions(fighter: Fighter, paint: _Paint) -> str:
    if fighter.meta["current_health_percent"] <= 0:
        return "  " + paint("dead", "red")
    parts = []
    if frozen := int(fighter.meta["player_frozen_ticks"]):
        parts.append(paint(f"frozen {frozen}", "blue"))
    elif immune := int(fighter.see("player_frozen_immunity_ticks")):
        parts.append(f"immune {immune}")
    if fighter.see("is_veng_active"):
        parts.append(paint("vengeance", "yellow"))
    if wait := int(fighter.see("attack_cycle_ticks")):
        parts.append(f"attacks in {wait}")
    else:
        parts.append(paint("ready", "cyan"))
    return "  " + ", ".join(parts)


def _hits(fighter: Fighter, paint: _Paint) -> str:
    """The attack calculated in this tick, and the damage that was shown."""
    base = fighter.see("absolute_hitpoints_level")
    parts = []
    if fighter.meta["hit_present"]:
        style = Style(int(fighter.meta["attack_type_hit"]))
        damage = round(float(fighter.meta["damage_generated_on_target_scale"]) * base)
        prayer = "" if fighter.meta["hit_off_prayer"] else " (prayed)"
        parts.append(paint(f"hits {_STYLE_NAMES[style]} {damage}{prayer}", _STYLE_COLORS.get(style)))
    if (shown := fighter.see("damage_on_player_tick")) > 0:
        parts.append(paint(f"takes {round(shown * base)}", "red"))
    return "  " + (", ".join(parts) if parts else "-")


def _choices(fighter: Fighter) -> tuple[str, str]:
    """What it chose, without the heads that did nothing, on two lines."""
    if fighter.actions is None:
        return "", ""
    chosen = [
        head.actions[entry].id for head, entry in zip(fighter.contract.heads, fighter.actions, strict=True) if entry
    ]
    first, second = _wrap(chosen or ["does nothing"])
    return f"  > {first}", f"    {second}" if second else ""


def _wrap(words: Iterable[str]) -> tuple[str, str]:
    """Fills two lines of a column; what does not fit ends in an ellipsis."""
    lines = [""]
    for word in words:
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) > COLUMN - 4 and len(lines) == 1:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines[0], (_fit(lines[1], COLUMN - 4) if len(lines) > 1 else "")


def _fit(text: str, width: int = COLUMN) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"
