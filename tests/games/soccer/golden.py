"""Where the numbers of Unity's own network and rays are, and recorded games.

``python -m tests.games.soccer.golden`` plays the recorded games again and writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.game import find_game
from sb3_pvp.players.opponents import make_opponent
from tests.paths import DATA

GAMES = DATA / "team-play" / "soccer-games.json"


def golden_file(name: str) -> Path:
    """Returns a file of the folder that the environment variable SB3_PVP_GOLDEN names, or else our own copy."""
    given = Path(os.environ.get("SB3_PVP_GOLDEN") or DATA / "team-play") / name
    return given if given.is_file() else DATA / "team-play" / name


def course(match: dict[str, Any]) -> dict[str, Any]:
    """Plays a match of two scripts; returns its outcome, and a hash of what everybody sees in each tick."""
    game = find_game(match["game"])
    world = game.make_world("sim", 1, match["seed"], match["params"])
    world.reset()
    players = [make_opponent(each, game.contract, game) for each in match["players"]]
    states = [each.initial_state([match["seed"]]) for each in players if each is not None]
    seen = []
    while not world.outcome.any() and world.ticks[0] < match["ticks"]:
        # In thousandths: the last digits may depend on the processor.
        numbers = np.round(world.obs[0] * 1000.0).astype(np.int16)
        seen.append(hashlib.blake2b(numbers.tobytes(), digest_size=4).hexdigest())
        actions = []
        for seat, each in enumerate(players):
            assert each is not None
            given = world.obs[:, seat], states[seat], np.zeros(1, bool), False, world.masks[:, seat]
            action, following = each.predict(*given)
            states[seat] = states[seat] if following is None else following
            actions.append(action[0])
        world.step(np.array([actions]))
    return {"seen": seen, "outcome": world.outcome[0].tolist(), "steps": int(world.ticks[0])}  # type: ignore[index]


if __name__ == "__main__":
    lines = [json.dumps({**match, **course(match)}) for match in json.loads(GAMES.read_text("utf-8"))]
    GAMES.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
