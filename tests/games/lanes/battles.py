"""Battles for tests: random legal play, and the mirror image of a world."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.lanes import LANES, LanesGame
from sb3_pvp.games.lanes.rules import X, Y
from sb3_pvp.games.lanes.world import LanesWorld


def new_world(fights: int = 1, seed: int = 0, game: LanesGame = LANES, **params: Any) -> LanesWorld:
    world = game.make_world("sim", fights, seed, params)
    world.reset()
    return world


def random_actions(world: LanesWorld, rng: np.random.Generator) -> NDArray[np.int64]:
    return world.contract.random_action(world.masks, rng)


def action(world: LanesWorld, card: str, column: int, row: int | str) -> list[int]:
    """Returns the action of a card on a tile."""
    contract = world.contract
    names = card, f"column_{column}", row if isinstance(row, str) else f"row_{row}"
    return [contract.action_index(name)[1] for name in names]


def give(world: LanesWorld, seat: int, *cards: str, elixir: int = 280) -> None:
    """Puts cards into the hand of a seat of the first battle, and lets it pay them."""
    deck = world.decks[0, seat].tolist()
    wanted = [world.table.names.index(card) for card in cards]
    world.decks[0, seat] = (wanted + [card for card in deck if card not in wanted])[: len(deck)]
    world.elixir[0, seat] = elixir
    world._show(np.array([0]))


def mirrored(world: LanesWorld) -> LanesWorld:
    """Returns a copy in which both seats have changed places."""
    other = LANES.make_world("sim", world.num_fights, 0, {})
    other.set_state(world.get_state())
    for name in ("units", "tops", "elixir", "decks", "played", "masks", "last"):
        getattr(other, name)[:] = getattr(world, name)[:, ::-1]
    other.units[..., [X, Y]] *= -1
    return other
