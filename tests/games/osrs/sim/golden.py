"""Golden fights: one recorded fight for each build and a few special ones, in ``tests/games/osrs/golden/*.json``.

A file holds the seed, the orders of both seats for every tick (one digit per head), what became of the fighters in
that tick, and a digest of everything that a world replies. When a rule is changed on purpose, record them again with

    python tests/games/osrs/sim/golden.py [NAME ...]

and look at the difference: the first changed row is the tick in which the new rule made itself felt.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.state import HITPOINTS, PRAYER

FOLDER = Path(__file__).parent.parent / "golden"
TICKS = 100
ALLOW_ALL = {"onlySwitchPrayerWhenAboutToAttack": False, "onlySwitchGearWhenAttackSoon": False}
NO_BOTS, BOT = (None, None), (None, "baseline")
#: name: contract, seed, reset parameters, bots
FIGHTS: dict[str, tuple[str, int, dict[str, Any], tuple[str | None, str | None]]] = {
    **{build.lower(): ("NhEnv", seed, {"accountBuild": build}, NO_BOTS) for seed, build in enumerate(BUILD_NAMES)},
    "allow_all": ("NhEnv", 100, {"accountBuild": "MED", "allowMovingIfCanAttack": True, **ALLOW_ALL}, NO_BOTS),
    "random_gear": (
        "NhEnv",
        101,
        {"accountBuild": "LMS_MED", "randomizeGear": True, "randomizeFightType": True},
        NO_BOTS,
    ),
    "baseline": ("NhEnv", 102, {"accountBuild": "MED"}, BOT),
    "dharok": ("DharokEnv", 103, {}, NO_BOTS),
    "dharok_baseline": ("DharokEnv", 104, {}, BOT),
}


def _row(world: SimWorld) -> list[int]:
    """HP, prayer points, special energy, tile, and the number of hits dealt, of both seats."""
    seats = world.state[0]
    columns = (seats["level"][:, HITPOINTS], seats["level"][:, PRAYER])
    columns += tuple(seats[name] for name in ("energy", "x", "y", "hits_dealt"))
    return [int(value) for value in np.stack(columns, axis=1).ravel()]


def _digits(actions: np.ndarray) -> list[str]:
    return ["".join(map(str, seat)) for seat in actions[0].tolist()]


def _actions(digits: list[str]) -> np.ndarray:
    return np.array([[[int(digit) for digit in seat] for seat in digits]])


def replay(name: str, orders: list[list[str]] | None = None) -> dict[str, Any]:
    """Plays a golden fight by these orders, or by random legal ones, and returns its record."""
    contract, seed, reset_params, bots = FIGHTS[name]
    world = SimWorld(1, seed, reset_params, contract)
    world.reset(options={"bots": bots})
    digest = hashlib.sha256()
    rows: list[list[Any]] = []
    for tick in range(TICKS if orders is None else len(orders)):
        actions = world.random_actions() if orders is None else _actions(orders[tick])
        world.step(actions)
        for array in (world.obs, world.masks, world.meta, world.outcome):
            digest.update(array.tobytes())
        rows.append([*_digits(actions), _row(world)])
    return {"seed": seed, "outcome": world.outcome[0].tolist(), "replies_sha256": digest.hexdigest(), "ticks": rows}


def write(name: str) -> None:
    """Records a golden fight again: one line for each tick."""
    fight = replay(name)
    lines = [json.dumps(row) for row in fight.pop("ticks")]
    head = json.dumps(fight)[:-1]
    (FOLDER / f"{name}.json").write_text(head + ', "ticks": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or FIGHTS:
        write(name)
