"""What a player of the lanes sees and may choose, from its own side: vectors, or pictures of 64 to 448 pixels.

The own keep is at the bottom; columns count from the own left, rows from the own end. A row beyond the river has two
entries: one for spells, and for the four rows behind a guard that has fallen one for troops and buildings.
"""

from __future__ import annotations

from collections.abc import Iterator

from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.games.lanes.cards import CardTable

NAME, PIXELS_NAME = "LaneClash-v0", "LaneClashPixels-v0"
COLUMNS, ROWS = 18, 32
OWN_ROWS = 15  #: Rows on which a side may always place; the river has the two behind them.
POCKET = range(17, 21)  #: Rows beyond the river that open on the left or right when the guard there falls.
SMALLEST, LARGEST = 64, 448  #: Pixels of a side of a picture.

#: What is seen of the other side's and of one's own troops: bands of four rows on each lane, and the foremost ones.
BANDS, FOREMOST = 8, 8
MAP_FACTS = {
    "ground": "health of what walks or stands, in thousands",
    "air": "health of what flies, in thousands",
    "power": "damage a second to what walks, in hundreds",
    "raid": "damage a second of those that see nothing but buildings, in hundreds",
}
UNIT_FACTS = {
    "here": "1 if there is one",
    "x": "across, from -1 to 1",
    "y": "ahead, from -1 to 1",
    "health": "health in thousands",
    "power": "damage a second, in hundreds",
    "range": "range in tiles, tenths",
    "speed": "tiles a second",
    "flies": "1 if it flies",
    "raids": "1 if it sees nothing but buildings",
    "reaches_air": "1 if it can hit what flies",
    "splash": "tiles around what it hits that suffer too",
    "still": "seconds until it does anything",
}
SIDES, LANES = ("own", "its"), ("left", "right")


def columns_head() -> Head:
    """Returns the head of columns; only the first one goes with waiting."""
    rest = {"require_none": ("wait",)}
    columns = [SubAction(f"column_{each}", f"Column {each}.", **({} if each == 0 else rest)) for each in range(COLUMNS)]
    return Head("column", "The column, from the own left.", tuple(columns))


def rows_head(table: CardTable) -> Head:
    """Returns the head of rows: troops and buildings on the own half and where a guard has fallen, spells anywhere."""
    spells = tuple(card.name for card in table.cards if card.kind == "spell")
    half = COLUMNS // 2
    lanes = {
        lane: tuple(f"column_{each}" for each in range(number * half, (number + 1) * half))
        for number, lane in enumerate(LANES)
    }
    rows = [SubAction("row_0", "Row 0, the own end.")]
    rows += [SubAction(f"row_{each}", f"Row {each}.", require_none=("wait",)) for each in range(1, OWN_ROWS)]
    rows += [SubAction(f"row_{each}", f"Row {each}, a spell.", require_any=spells) for each in range(OWN_ROWS, ROWS)]
    for lane, columns in lanes.items():
        about = f"where the other guard on the own {lane} has fallen."
        rule = {"require_any": columns, "require_none": (*spells, "wait")}
        rows += [SubAction(f"{lane}_row_{each}", f"Row {each}, {about}", **rule) for each in POCKET]
    return Head("row", "The row, from the own end.", tuple(rows))


def _heads(table: CardTable) -> tuple[Head, ...]:
    cards = [SubAction("wait", "Play no card.")]
    cards += [SubAction(card.name, f"{card.about} Cost {card.cost}.") for card in table.cards]
    return Head("card", "The card to play.", tuple(cards)), columns_head(), rows_head(table)


def _observations(table: CardTable) -> Iterator[Observation]:
    yield Observation("time", "Share of the battle that is over, sudden death included.")
    yield Observation("double", "1 while elixir comes twice as fast.")
    yield Observation("sudden", "1 in sudden death.")
    yield Observation("elixir", "Own elixir, in tens.", partial=True)
    for card in table.names:
        yield Observation(f"hand_{card}", f"1 if {card} is in the own hand.", partial=True)
    for card in table.names:
        yield Observation(f"next_{card}", f"1 if {card} comes to the own hand next.", partial=True)
    for card in table.names:
        yield Observation(f"played_{card}", f"How long ago the other side played {card}: eighths of cards; 0: never.")
    for side in SIDES:
        for tower in ("left_guard", "right_guard", "keep"):
            yield Observation(f"{side}_{tower}", "Health that is left, as a share; left is the own left.")
        yield Observation(f"{side}_awake", "1 if the keep shoots.")
    for side in SIDES:
        for lane in LANES:
            for band in range(BANDS):
                for fact, about in MAP_FACTS.items():
                    yield Observation(f"{side}_{lane}_{band}_{fact}", f"{side}, {lane}, band {band}: {about}.")
    for side in SIDES:
        for number in range(FOREMOST):
            for fact, about in UNIT_FACTS.items():
                yield Observation(f"{side}_{number}_{fact}", f"{side}, number {number} of the foremost: {about}.")


def vector_contract(table: CardTable, name: str = NAME) -> Contract:
    """Returns the contract of players who see numbers."""
    return Contract(name, _heads(table), tuple(_observations(table)))


def pixels_contract(table: CardTable, size: int = SMALLEST, name: str = PIXELS_NAME) -> Contract:
    """Returns the contract of players who see a picture of ``size`` pixels a side; `ValueError` if it is too small."""
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"pictures of the lanes have {SMALLEST} to {LARGEST} pixels a side, not {size}")
    return Contract(name, _heads(table), shape=(3, size, size), pixels=True)
