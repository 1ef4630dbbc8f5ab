"""One tick of a fight: a headline, the ground, and a column for each fighter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.checks import require_known
from sb3_pvp.envs.render import dharok, nh
from sb3_pvp.envs.render.fighter import COLORS, RESET, STYLE_COLORS, STYLE_NAMES, Fighter, Look, Paint
from sb3_pvp.world import NUM_SEATS, Outcome, Style, World

COLUMN = 38
GAP = "  "
BAR = 16

_FOOD = (("food_count", "angler"), ("karambwan_count", "karam"))
_LEVELS = {"attack": "att", "strength": "str", "defence": "def", "ranged": "rng", "magic": "mag"}
LOOKS = {"NhEnv": nh.LOOK, "DharokEnv": dharok.LOOK}


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

    Raises:
        ValueError: for a contract whose fighters nobody knows how to draw.
    """
    fighters = [
        Fighter(names[seat], world.contract, world.obs[fight, seat], world.meta[fight, seat], actions[seat])
        for seat in range(NUM_SEATS)
    ]
    outcome = Outcome(int(world.outcome[fight, 0]))
    return render_fighters(fighters, outcome, color)


def render_fighters(fighters: Sequence[Fighter], outcome: Outcome = Outcome.RUNNING, color: bool = True) -> str:
    """See `render_world`; ``outcome`` is that of the first fighter."""
    paint, contract = Paint(color), fighters[0].contract.name
    require_known("contract to draw", contract, LOOKS)
    look = LOOKS[contract]
    columns = [_column(seat, fighter, look, paint) for seat, fighter in enumerate(fighters)]
    lines = [_headline(fighters[0], outcome, paint), _ground(fighters[0], look, paint)]
    lines += [GAP.join(_pad(line) for line in row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join(lines)


def _width(text: str) -> int:
    """The number of characters on screen."""
    for escape in (*COLORS.values(), RESET):
        text = text.replace(escape, "")
    return len(text)


def _pad(text: str) -> str:
    return text + " " * max(COLUMN - _width(text), 0)


def _headline(fighter: Fighter, outcome: Outcome, paint: Paint) -> str:
    title = f" tick {int(fighter.meta['episode_ticks'])} "
    if outcome != Outcome.RUNNING:
        color = {Outcome.WON: "green", Outcome.LOST: "red"}.get(outcome, "yellow")
        title += paint(f"* {_fit(fighter.name)} {outcome.name.replace('_', ' ').lower()} * ", color)
    return "-- " + title.strip() + " " + "-" * max(2 * COLUMN + len(GAP) - _width(title.strip()) - 4, 0)


def _ground(fighter: Fighter, look: Look, paint: Paint) -> str:
    """The distance between the fighters, drawn in tiles, and who has the initiative."""
    distance = int(fighter.meta["distance"])
    if distance == 0:
        picture = "[01] on the same tile"
    else:
        reach = ", in melee reach" if look.can_melee(fighter) else ""
        tiles = "tile" if distance == 1 else "tiles"
        picture = "[0]" + " ." * min(distance - 1, 12) + f" [1]  {distance} {tiles}{reach}"
    pid = "0" if fighter.see("player_has_pid") else "1"
    return f"   {picture}   pid: {paint(pid, 'cyan')}"


def _column(seat: int, fighter: Fighter, look: Look, paint: Paint) -> list[str]:
    return [
        _fit(f"[{seat}] {fighter.name}"),
        _hitpoints(fighter, look, paint),
        _prayer(fighter, look, paint),
        _special(look.special_energy(fighter), paint),
        "  " + look.stance(fighter, paint),
        _levels(fighter, look, paint),
        _food(fighter),
        "  " + (_counts(fighter, look.potions).replace(",", "") or "no potions"),
        _conditions(fighter, look, paint),
        _hits(fighter, look, paint),
        *_choices(fighter),
    ]


def _bar(fraction: float, color: str, paint: Paint) -> str:
    filled = round(min(max(fraction, 0.0), 1.0) * BAR)
    if fraction > 0:
        filled = max(filled, 1)
    return "[" + paint("#" * filled, color) + "." * (BAR - filled) + "]"


def _hitpoints(fighter: Fighter, look: Look, paint: Paint) -> str:
    fraction = float(fighter.meta["current_health_percent"])
    base = look.base_level(fighter, "hitpoints")
    color = "green" if fraction > 0.6 else "yellow" if fraction > 0.3 else "red"
    return f"  hp      {_bar(fraction, color, paint)} {round(fraction * base):3d}/{base:.0f}"


def _prayer(fighter: Fighter, look: Look, paint: Paint) -> str:
    fraction = float(fighter.meta["current_prayer_percent"])
    base = look.base_level(fighter, "prayer")
    return f"  prayer  {_bar(fraction, 'cyan', paint)} {round(fraction * base):3d}/{base:.0f}"


def _special(energy: float, paint: Paint) -> str:
    return f"  special {_bar(energy, 'yellow', paint)} {100 * energy:3.0f} %"


def _levels(fighter: Fighter, look: Look, paint: Paint) -> str:
    """How far levels are from their base, where they are."""
    parts = []
    for skill, short in _LEVELS.items():
        change = round((float(fighter.meta[f"{skill}_level_scale"]) - 1.0) * look.base_level(fighter, skill))
        if change:
            parts.append(paint(f"{short}{change:+d}", "green" if change > 0 else "red"))
    return "  " + (" ".join(parts) or "levels normal")


def _food(fighter: Fighter) -> str:
    """Food in health bars; what is neither anglerfish nor karambwan (sharks) shows in the bars only."""
    bars = float(fighter.meta["remaining_food_scale"])
    counts = _counts(fighter, _FOOD)
    return f"  food {bars:.1f} bars" + (f" ({counts})" if counts else "")


def _counts(fighter: Fighter, supplies: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{fighter.see(name):.0f} {short}" for name, short in supplies if fighter.see(name))


def _conditions(fighter: Fighter, look: Look, paint: Paint) -> str:
    if fighter.meta["current_health_percent"] <= 0:
        return "  " + paint("dead", "red")
    return "  " + ", ".join(look.conditions(fighter, paint))


def _hits(fighter: Fighter, look: Look, paint: Paint) -> str:
    """The attack calculated in this tick, and the damage that was shown."""
    base = look.base_level(fighter, "hitpoints")
    parts = []
    if fighter.meta["hit_present"]:
        style = Style(int(fighter.meta["attack_type_hit"]))
        damage = round(float(fighter.meta["damage_generated_on_target_scale"]) * base)
        prayer = "" if fighter.meta["hit_off_prayer"] else " (prayed)"
        parts.append(paint(f"hits {STYLE_NAMES[style]} {damage}{prayer}", STYLE_COLORS.get(style)))
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
