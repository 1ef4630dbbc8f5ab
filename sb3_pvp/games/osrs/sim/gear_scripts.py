"""The scripts of ``randomizeGear``: from text (``data/gear_randomisation.txt``) to rows of integers.

`gear_randomisation` runs the rows: compiled rules cannot parse text. The head of the data file explains its lines,
nh-actions.md §B.3 is their source.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.items import DATA
from sb3_pvp.games.osrs.sim.state import MAGE_SET, MELEE_SET, RANGED_SET, SPEC_SET

# The operations. A row is an operation and up to four operands, 0 padded.
(
    END,
    CHANCE,  # bound, lowest and highest draw that succeeds, rows to skip after a failure
    JUMP,  # rows to skip
    PUT,  # set, item
    REPLACE,  # first set, last set, old, new
    COUNT,  # supply, how many
    FEWER_DOSES,  # kind of potion
    KARAMBWANS,
    BREWS,
    LMS_BREWS,
    FILL,  # food
    LUNAR,
    NO_MAGE,
) = range(13)
_ROW_SIZE = 5
_Row = list[int]

_SETS = {"mage": MAGE_SET, "ranged": RANGED_SET, "melee": MELEE_SET, "spec": SPEC_SET}
_EVERY_SET = "ranged+melee+mage+spec"
_POTIONS = {"SUPER_COMBAT": items.COMBAT, "RANGING_POTION": items.RANGING}
_WORDS = {"karambwans": KARAMBWANS, "brews": BREWS, "LMS brews": LMS_BREWS, "lunar": LUNAR, "no mage": NO_MAGE}


def _parse_statement(text: str) -> list[_Row]:
    """Returns the rows of one statement; raises `ValueError` if the head of the data file does not explain it."""
    if text in _WORDS:
        return [[_WORDS[text]]]
    if match := re.fullmatch(r"([a-z+]+) := (\w+)", text):
        sets = _EVERY_SET if match[1] == "every" else match[1]
        return [[PUT, _SETS[name], items.item_named(match[2])] for name in sets.split("+")]
    if match := re.fullmatch(r"replace (\w+) by (\w+)(?: in (\w+))?", text):
        first, last = (_SETS[match[3]],) * 2 if match[3] else (MAGE_SET, SPEC_SET)
        return [[REPLACE, first, last, items.item_named(match[1]), items.item_named(match[2])]]
    if match := re.fullmatch(r"no (\w+)", text):
        return [[COUNT, items.item_named(match[1]), 0]]
    if match := re.fullmatch(r"fewer doses of (\w+)", text):
        return [[FEWER_DOSES, _POTIONS[match[1]]]]
    if match := re.fullmatch(r"fill with (\w+)", text):
        return [[FILL, items.item_named(match[1])]]
    raise ValueError(f"unknown statement {text!r} in gear_randomisation.txt: its first lines list all kinds")


def _parse_chain(branches: list[list[str]]) -> list[_Row]:
    """Returns the rows of a chain of branches, each a line with its chance and the "and" lines below it."""
    if not branches:
        return []
    (line, *and_lines), *later = branches
    chance, statements = line.split(maxsplit=1)
    hits, bound = (int(number) for number in chance.split("/"))
    # A single chance succeeds with a draw of 1, not of 0: the server compares so (nh-actions.md §B.3).
    lowest, highest = (1, 1) if hits == 1 else (0, hits - 1)
    body = [row for statement in statements.split("; ") for row in _parse_statement(statement)]
    if and_lines:
        body += _parse_chain([and_lines])
    rest = _parse_chain(later)
    if rest:
        body.append([JUMP, len(rest)])  # a branch that succeeded skips those after it
    return [[CHANCE, bound, lowest, highest, len(body)], *body, *rest]


def _parse_script(lines: list[str]) -> list[_Row]:
    """Returns the rows of the lines of one build."""
    chains: list[list[list[str]]] = []
    for line in lines:
        if line.startswith("else "):
            chains[-1].append([line.removeprefix("else ")])
        elif line.startswith("  and "):
            chains[-1][-1].append(line.removeprefix("  and "))
        else:
            chains.append([[line]])
    return [row for chain in chains for row in _parse_chain(chain)] + [[END]]


def compile_scripts(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the rows of all builds, int64 ``(n, 5)``, and the first row of each build, ``(7,)``.

    Raises `ValueError` for an unknown statement or item.
    """
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
        rows += _parse_script(build)
    padded = [row + [0] * (_ROW_SIZE - len(row)) for row in rows]
    return np.array(padded, np.int64), np.array(starts, np.int64)


#: Compiled scripts: int64 ``(n, 5)``, and the first row of each build, ``(7,)``.
ROWS, STARTS = compile_scripts((DATA / "gear_randomisation.txt").read_text(encoding="utf-8"))
