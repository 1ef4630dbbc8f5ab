"""Layout and colours of the picture. Red, green and blue always mean melee, ranged and magic."""

from __future__ import annotations

from typing import TypeAlias

Color: TypeAlias = tuple[int, int, int]
Point: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[int, int, int, int]  # left, top, width, height

WIDTH, HEIGHT = 960, 640  # even, as video encoders require
_SIDE, _HEADLINE, _BOTTOM = 232, 52, 226
_MIDDLE = HEIGHT - _HEADLINE - _BOTTOM

HEADLINE: Box = (0, 0, WIDTH, _HEADLINE)
ARENA: Box = (_SIDE, _HEADLINE, WIDTH - 2 * _SIDE, _MIDDLE)
#: The status panels by seat.
STATUS: tuple[Box, Box] = ((0, _HEADLINE, _SIDE, _MIDDLE), (WIDTH - _SIDE, _HEADLINE, _SIDE, _MIDDLE))
#: The panels with choices by seat.
CHOICES: tuple[Box, Box] = (
    (0, HEIGHT - _BOTTOM, WIDTH // 2, _BOTTOM),
    (WIDTH // 2, HEIGHT - _BOTTOM, WIDTH // 2, _BOTTOM),
)

BACKGROUND: Color = (20, 23, 29)
PANEL: Color = (29, 33, 41)
LINE: Color = (52, 58, 70)
TEXT: Color = (228, 231, 236)
FAINT: Color = (140, 148, 160)
MASKED: Color = (82, 88, 99)
GROUND: tuple[Color, Color] = ((57, 66, 58), (63, 72, 63))
#: Fighters by seat.
SEATS: tuple[Color, Color] = ((246, 226, 184), (190, 138, 240))

STYLES: dict[str, Color] = {
    "melee": (226, 76, 70),
    "ranged": (74, 178, 88),
    "magic": (82, 146, 250),
    "none": (168, 172, 180),
}
OVERHEADS: dict[str, Color] = {**STYLES, "smite": (236, 200, 74), "redemption": (240, 132, 178)}
#: Of health bars: above 60 %, above 30 %, and below.
HEALTH: tuple[Color, Color, Color] = ((72, 186, 92), (228, 180, 60), (220, 66, 60))
LOST_HEALTH: Color = (92, 34, 34)
PRAYER: Color = (88, 196, 214)
ENERGY: Color = (236, 190, 70)
ICE: Color = (150, 220, 255)
VENGEANCE: Color = (255, 208, 64)
DAMAGE: Color = (198, 40, 40)
NO_DAMAGE: Color = (52, 104, 200)
DEAD: Color = (110, 110, 116)
SUPPLIES: dict[str, Color] = {
    "anglerfish": (110, 176, 190),
    "shark": (150, 160, 175),
    "karambwan": (196, 140, 104),
    "brew": (236, 214, 92),
    "restore": (226, 120, 170),
    "combat": (90, 170, 90),
    "ranging": (110, 190, 230),
}


def health_color(hitpoints: int, full: int) -> Color:
    """Returns the colour of a health bar."""
    share = hitpoints / max(full, 1)
    return HEALTH[0] if share > 0.6 else HEALTH[1] if share > 0.3 else HEALTH[2]


def mixed(color: Color, other: Color, share: float) -> Color:
    """Returns a mixture with this ``share`` (0 to 1) of the other colour."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(color, other, strict=True))
    return red, green, blue
