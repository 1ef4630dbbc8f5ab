"""``randomizeGear``: a script per build, run with the server's own random numbers (nh-actions.md §B.3).

The scripts are text (``data/gear_randomisation.txt``). They are compiled here into rows of integers, which a small
interpreter runs for every reset. Which draws a statement makes is part of its meaning: all later ones depend on it.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.sim import items
from sb3_pvp.sim.builds import BUILD_NAMES
from sb3_pvp.sim.compile import rule
from sb3_pvp.sim.items import BREW, DATA, POTION_DOSES, RESTORE, SLOT, TWO_HANDED
from sb3_pvp.sim.java_random import Generator, draw, seeded
from sb3_pvp.sim.state import MAGE_SET, MELEE_SET, NO_ITEM, RANGED_SET, SET_SIZE, SHIELD, SPEC_SET, Seat

#: Items of a bag that are no gear, NO_ITEM where there is none, ``(builds.SUPPLIES_SIZE,)``.
Supplies = NDArray[np.int64]

# Operations: a row is the operation and up to four operands.
(
    _END,
    _CHANCE,  # bound, lowest and highest draw that succeeds, rows to skip after a failure
    _JUMP,  # rows to skip
    _PUT,  # set, item
    _REPLACE,  # first set, last set, old, new
    _COUNT,  # supply, how many
    _FEWER_DOSES,  # kind of potion
    _KARAMBWANS,
    _BREWS,
    _LMS_BREWS,
    _FILL,  # food
    _LUNAR,
    _NO_MAGE,
) = range(13)
_ROW_SIZE = 5
_Row = list[int]

_SETS = {"mage": MAGE_SET, "ranged": RANGED_SET, "melee": MELEE_SET, "spec": SPEC_SET}
_EVERY_SET = "ranged+melee+mage+spec"
_POTIONS = {"SUPER_COMBAT": items.COMBAT, "RANGING_POTION": items.RANGING}
_WORDS = {"karambwans": _KARAMBWANS, "brews": _BREWS, "LMS brews": _LMS_BREWS, "lunar": _LUNAR, "no mage": _NO_MAGE}


# -- from text to rows --------------------------------------------------------------------------------------------


def _statement(text: str) -> list[_Row]:
    """The rows of one statement; `ValueError` for one that the head of the data file does not explain."""
    if text in _WORDS:
        return [[_WORDS[text]]]
    if match := re.fullmatch(r"([a-z+]+) := (\w+)", text):
        sets = _EVERY_SET if match[1] == "every" else match[1]
        return [[_PUT, _SETS[name], items.item_named(match[2])] for name in sets.split("+")]
    if match := re.fullmatch(r"replace (\w+) by (\w+)(?: in (\w+))?", text):
        first, last = (_SETS[match[3]],) * 2 if match[3] else (MAGE_SET, SPEC_SET)
        return [[_REPLACE, first, last, items.item_named(match[1]), items.item_named(match[2])]]
    if match := re.fullmatch(r"no (\w+)", text):
        return [[_COUNT, items.item_named(match[1]), 0]]
    if match := re.fullmatch(r"fewer doses of (\w+)", text):
        return [[_FEWER_DOSES, _POTIONS[match[1]]]]
    if match := re.fullmatch(r"fill with (\w+)", text):
        return [[_FILL, items.item_named(match[1])]]
    raise ValueError(f"unknown statement in gear_randomisation.txt: {text!r}")


def _chain(branches: list[list[str]]) -> list[_Row]:
    """The rows of a chain of branches, each the line with its chance and the "and" lines below it."""
    if not branches:
        return []
    (line, *and_lines), *later = branches
    chance, statements = line.split(maxsplit=1)
    hits, bound = (int(number) for number in chance.split("/"))
    lowest, highest = (1, 1) if hits == 1 else (0, hits - 1)
    body = [row for statement in statements.split("; ") for row in _statement(statement)]
    if and_lines:
        body += _chain([and_lines])
    rest = _chain(later)
    if rest:
        body.append([_JUMP, len(rest)])
    return [[_CHANCE, bound, lowest, highest, len(body)], *body, *rest]


def _script(lines: list[str]) -> list[_Row]:
    """The rows of the lines of one build."""
    chains: list[list[list[str]]] = []
    for line in lines:
        if line.startswith("else "):
            chains[-1].append([line.removeprefix("else ")])
        elif line.startswith("  and "):
            chains[-1][-1].append(line.removeprefix("  and "))
        else:
            chains.append([[line]])
    return [row for chain in chains for row in _chain(chain)] + [[_END]]


def _compile(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of all builds, ``(n, 5)``, and the first row of each build, ``(7,)``."""
    scripts: dict[str, list[str]] = {name: [] for name in BUILD_NAMES}
    lines = scripts[BUILD_NAMES[0]]
    for line in text.splitlines():
        if line.startswith("["):
            lines = scripts[line.strip("[]")]
        elif line and not line.startswith("#"):
            lines.append(line)
    rows: list[_Row] = []
    starts = []
    for build in scripts.values():
        starts.append(len(rows))
        rows += _script(build)
    padded = [row + [0] * (_ROW_SIZE - len(row)) for row in rows]
    return np.array(padded, np.int64), np.array(starts, np.int64)


_ROWS, _STARTS = _compile((DATA / "gear_randomisation.txt").read_text(encoding="utf-8"))

# -- running the rows ---------------------------------------------------------------------------------------------


@rule
def _find_slot(seat: Seat, gear_set: int, slot: int) -> int:
    """Position of the first item of a set that is worn in this slot, -1 if there is none."""
    for i in range(seat.set_length[gear_set]):
        if SLOT[seat.gear_set[gear_set, i]] == slot:
            return i
    return -1


@rule
def _put(seat: Seat, generator: Generator, gear_set: int, item: int) -> None:
    """Puts an item into its slot of a set; replacing or removing another one costs a draw, adding does not."""
    found = _find_slot(seat, gear_set, SLOT[item])
    if found >= 0:
        draw(generator, 1)
        seat.gear_set[gear_set, found] = item
    else:
        seat.gear_set[gear_set, seat.set_length[gear_set]] = item
        seat.set_length[gear_set] += 1
    shield = _find_slot(seat, gear_set, SHIELD) if TWO_HANDED[item] else -1
    if shield >= 0:
        draw(generator, 1)
        seat.set_length[gear_set] -= 1
        for i in range(shield, seat.set_length[gear_set]):
            seat.gear_set[gear_set, i] = seat.gear_set[gear_set, i + 1]
        seat.gear_set[gear_set, seat.set_length[gear_set]] = NO_ITEM


@rule
def _replace(seat: Seat, first: int, last: int, old: int, new: int) -> None:
    for gear_set in range(first, last + 1):
        for i in range(seat.set_length[gear_set]):
            if seat.gear_set[gear_set, i] == old:
                seat.gear_set[gear_set, i] = new


@rule
def _count(supplies: Supplies, item: int, wanted: int) -> None:
    """Leaves ``wanted`` pieces of a supply; missing ones go to the end."""
    end = 0
    for i in range(len(supplies)):
        if supplies[i] == item:
            wanted -= 1
            if wanted < 0:
                supplies[i] = NO_ITEM
        if supplies[i] != NO_ITEM:
            end = i + 1
    for i in range(end, end + wanted):
        supplies[i] = item


@rule
def _fewer_doses(supplies: Supplies, generator: Generator, kind: int) -> None:
    doses = 4 - draw(generator, 4)
    draw(generator, 1)
    for i in range(len(supplies)):
        if supplies[i] == POTION_DOSES[kind, 3]:
            supplies[i] = POTION_DOSES[kind, doses - 1]


@rule
def _brews(supplies: Supplies, generator: Generator, is_lms: bool) -> None:
    brews = draw(generator, 3 if is_lms else 9)
    restores = (brews + 1) // 2 + draw(generator, 2) if is_lms else max(2, brews // 2 + 1)
    _count(supplies, POTION_DOSES[BREW, 3], brews)
    _count(supplies, POTION_DOSES[RESTORE, 3], restores)


@rule
def _empty_mage_set(seat: Seat) -> None:
    """Takes the mage set out of a loadout."""
    seat.set_length[MAGE_SET] = 0
    for i in range(SET_SIZE):
        seat.gear_set[MAGE_SET, i] = NO_ITEM


@rule
def randomise(seat: Seat, supplies: Supplies, filler: int, build: int, seed: int) -> int:
    """Runs the script of a build on ``seat.gear_set``, ``set_length`` and ``lunar`` and on ``supplies``.

    ``seed`` is the `java_string_hash` of the episode id. Returns the food that fills the inventory.
    """
    generator = seeded(seed)
    at = _STARTS[build]
    while _ROWS[at, 0] != _END:
        operation, a, b, c, d = _ROWS[at, 0], _ROWS[at, 1], _ROWS[at, 2], _ROWS[at, 3], _ROWS[at, 4]
        at += 1
        if operation == _CHANCE:
            if not b <= draw(generator, a) <= c:
                at += d
        elif operation == _JUMP:
            at += a
        elif operation == _PUT:
            _put(seat, generator, a, b)
        elif operation == _REPLACE:
            draw(generator, 1)
            _replace(seat, a, b, c, d)
        elif operation == _COUNT:
            _count(supplies, a, b)
        elif operation == _FEWER_DOSES:
            _fewer_doses(supplies, generator, a)
        elif operation == _KARAMBWANS:
            _count(supplies, items.KARAMBWAN, draw(generator, 4))
        elif operation == _BREWS or operation == _LMS_BREWS:
            _brews(supplies, generator, operation == _LMS_BREWS)
        elif operation == _FILL:
            filler = a
        else:
            if operation == _LUNAR:
                seat.lunar = 1
            _empty_mage_set(seat)
    return filler
