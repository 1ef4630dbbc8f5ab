"""A scene as text for a terminal: a headline, the distance, and a column for each fighter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sb3_pvp.games.osrs.rendering.scene import AttackScene, FighterScene, Scene

COLUMN = 38  # characters of a fighter's column: two of them and the gap fit into 80
GAP = "  "
BAR = 16  # characters of a bar
_MAX_TILES = 12  # dots that are drawn between the fighters

RESET = "\033[0m"
COLORS = {"red": "\033[31m", "green": "\033[32m", "yellow": "\033[33m", "blue": "\033[34m", "cyan": "\033[36m"}
STYLE_COLORS = {"melee": "red", "ranged": "green", "magic": "blue"}
_WEAPON_COLORS = {"tentacle": "red", "greataxe": "yellow", "maul": "green"}  # all melee: the style is not enough
_OUTCOME_COLORS = {"won": "green", "lost": "red"}
_LEVELS = {"attack": "att", "strength": "str", "defence": "def", "ranged": "rng", "magic": "mag"}
#: Other food (sharks) only counts in the health bars.
_FOOD = {"anglerfish": "angler", "karambwan": "karam"}
_POTIONS = {"brew": "brew", "restore": "restore", "combat": "combat", "ranging": "range"}
_WAITS = {"attack": "attack", "food": "food", "karambwan": "karam", "potion": "potion"}


class Paint:
    """Adds ANSI colours to text, or returns it unchanged."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, color: str | None) -> str:
        """Returns the text in a colour of `COLORS`; ``None``: the terminal's own."""
        return f"{COLORS[color]}{text}{RESET}" if self._color and color and text else text


def render_text(scene: Scene, color: bool = True) -> str:
    """Returns a scene as lines of at most 80 characters; the number of lines is always the same."""
    paint = Paint(color)
    columns = [_column(seat, fighter, paint) for seat, fighter in enumerate(scene.fighters)]
    lines = [_headline(scene, paint), _ground(scene, paint)]
    lines += [GAP.join(_pad(line) for line in row).rstrip() for row in zip(*columns, strict=True)]
    return "\n".join(lines)


def _width(text: str) -> int:
    """Returns the number of visible characters."""
    for escape in (*COLORS.values(), RESET):
        text = text.replace(escape, "")
    return len(text)


def _pad(text: str) -> str:
    return text + " " * max(COLUMN - _width(text), 0)


def _headline(scene: Scene, paint: Paint) -> str:
    title = f" tick {scene.tick} "
    if scene.outcome != "running":  # the first fighter's outcome
        result = f"{_fit(scene.fighters[0].name)} {scene.outcome.replace('_', ' ')}"
        result = "time is up" if scene.outcome == "timeout" else result
        title += paint(f"* {result} * ", _OUTCOME_COLORS.get(scene.outcome, "yellow"))
    return "-- " + title.strip() + " " + "-" * max(2 * COLUMN + len(GAP) - _width(title.strip()) - 4, 0)


def _ground(scene: Scene, paint: Paint) -> str:
    """Returns the distance, drawn in tiles, and which fighter is processed first (PID)."""
    first, distance = scene.fighters[0], scene.distance
    if distance == 0:
        picture = "[01] on the same tile"
    else:
        reach = ", in melee reach" if first.can_melee else ""
        tiles = "tile" if distance == 1 else "tiles"
        picture = "[0]" + " ." * min(distance - 1, _MAX_TILES) + f" [1]  {distance} {tiles}{reach}"
    pid = "0" if first.first else "1"
    return f"   {picture}   pid: {paint(pid, 'cyan')}"


def _column(seat: int, fighter: FighterScene, paint: Paint) -> list[str]:
    return [
        _fit(f"[{seat}] {fighter.name}"),
        _hitpoints(fighter, paint),
        f"  prayer  {_points_bar(fighter.prayer, fighter.max_prayer, 'cyan', paint)}",
        f"  special {_bar(fighter.special_energy, 'yellow', paint)} {100 * fighter.special_energy:3.0f} %",
        "  " + _stance(fighter, paint),
        _changed_levels(fighter, paint),
        _food(fighter),
        "  " + (_counts(fighter.potions, _POTIONS).replace(",", "") or "no potions"),
        _conditions(fighter, paint),
        _hits(fighter, paint),
        *_choices(fighter),
    ]


def _bar(fraction: float, color: str, paint: Paint) -> str:
    filled = round(min(max(fraction, 0.0), 1.0) * BAR)
    if fraction > 0:
        filled = max(filled, 1)  # an empty bar means none left
    return "[" + paint("#" * filled, color) + "." * (BAR - filled) + "]"


def _points_bar(points: int, full: int, color: str, paint: Paint) -> str:
    return f"{_bar(points / max(full, 1), color, paint)} {points:3d}/{full}"


def _hitpoints(fighter: FighterScene, paint: Paint) -> str:
    fraction = fighter.hitpoints / max(fighter.max_hitpoints, 1)
    color = "green" if fraction > 0.6 else "yellow" if fraction > 0.3 else "red"
    return f"  hp      {_points_bar(fighter.hitpoints, fighter.max_hitpoints, color, paint)}"


def _stance(fighter: FighterScene, paint: Paint) -> str:
    """Returns the weapon and the overhead prayer, or, in games without those, armour and vengeance."""
    if fighter.overhead is not None:
        weapon = paint(fighter.style + ("*" if fighter.special_weapon else ""), STYLE_COLORS.get(fighter.style))
        return f"wields {weapon}, prays {paint(fighter.overhead, STYLE_COLORS.get(fighter.overhead))}"
    weapon = paint(fighter.weapon, _WEAPON_COLORS.get(fighter.weapon)) or "nothing"
    armor = ", no armour" if fighter.armor_off else ""
    veng = ", " + paint("veng", "yellow") if fighter.vengeance else ""
    return f"wields {weapon}{armor}{veng}"


def _changed_levels(fighter: FighterScene, paint: Paint) -> str:
    parts = [
        paint(f"{_LEVELS[skill]}{change:+d}", "green" if change > 0 else "red")
        for skill, change in fighter.levels.items()
    ]
    return "  " + (" ".join(parts) or "levels normal")


def _food(fighter: FighterScene) -> str:
    """Returns the food in health bars, and the number of pieces."""
    counts = _counts(fighter.food, _FOOD)
    return f"  food {fighter.food_bars:.1f} bars" + (f" ({counts})" if counts else "")


def _counts(supplies: Mapping[str, int], words: Mapping[str, str]) -> str:
    return ", ".join(f"{supplies[name]} {short}" for name, short in words.items() if name in supplies)


def _conditions(fighter: FighterScene, paint: Paint) -> str:
    if fighter.hitpoints <= 0:
        return "  " + paint("dead", "red")
    parts = _waits(fighter, paint) if fighter.overhead is None else _afflictions(fighter, paint)
    return "  " + ", ".join(parts)


def _waits(fighter: FighterScene, paint: Paint) -> list[str]:
    """Returns the ticks until it can attack, eat and drink again."""
    running = [f"{short} {fighter.waits[name]}" for name, short in _WAITS.items() if name in fighter.waits]
    return running if "attack" in fighter.waits else [paint("ready", "cyan"), *running]


def _afflictions(fighter: FighterScene, paint: Paint) -> list[str]:
    """Returns freezes and vengeance, and the ticks until it can attack again."""
    parts = []
    if fighter.frozen_ticks:
        parts.append(paint(f"frozen {fighter.frozen_ticks}", "blue"))
    elif fighter.freeze_immunity_ticks:
        parts.append(f"immune {fighter.freeze_immunity_ticks}")
    if fighter.vengeance:
        parts.append(paint("vengeance", "yellow"))
    wait = fighter.waits.get("attack")
    return [*parts, f"attacks in {wait}" if wait else paint("ready", "cyan")]


def _hits(fighter: FighterScene, paint: Paint) -> str:
    """Returns the attack that was launched in this tick, and the damage that appeared."""
    parts = [_launched(fighter.attack, paint)] if fighter.attack else []
    if shown := sum(fighter.hitsplats):
        parts.append(paint(f"takes {shown}", "red"))
    return "  " + (", ".join(parts) if parts else "-")


def _launched(attack: AttackScene, paint: Paint) -> str:
    prayer = " (prayed)" if attack.prayed else ""
    done = f"attacks {attack.style}" if attack.damage is None else f"hits {attack.style} {attack.damage}"
    return paint(f"{done}{prayer}", STYLE_COLORS.get(attack.style))


def _choices(fighter: FighterScene) -> tuple[str, str]:
    """Returns two lines with its choices, without the heads that do nothing."""
    if all(head.chosen is None for head in fighter.heads):
        return "", ""
    chosen = [head.entries[head.chosen] for head in fighter.heads if head.chosen]  # neither None nor 0, doing nothing
    first, second = _wrap(chosen or ["does nothing"])
    return f"  > {first}", f"    {second}" if second else ""


def _wrap(words: Iterable[str]) -> tuple[str, str]:
    """Fills two lines of a column; text that does not fit is cut."""
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
