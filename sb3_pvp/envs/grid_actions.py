"""`GridActionWrapper`: a game on a coarser grid, so that there are fewer places to choose between."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.game import Game, GameLike, find_game
from sb3_pvp.game.contract import Contract, Head, SubAction
from sb3_pvp.game.contract.turn import fight_numbers, joint_actions

_PLACE = re.compile(r"(.*?)(\d+)$")


@dataclass(frozen=True)
class _Cells:
    """The cells of a position head: their entries in the head, the nearest to the middle first."""

    ids: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]


class GridActionWrapper(Game):
    """Plays a game with two position heads, such as columns and rows, in cells of ``tile`` x ``tile`` of its tiles.

    A position head is one whose choices all end in their place, such as ``row_12``; what stands before the number must
    be the same for all that a cell takes together. A cell stands for the legal tile of it that is nearest to its
    middle, and is legal if it has one. All else is the game's: observations, rewards, and the world's own bot, which
    plays on the fine grid; scripts and viewer, who name tiles, are left out.

    Args:
        game: the game, as for `sb3_pvp.game.find_game`.
        tile: tiles of a side of a cell.

    Raises `ValueError` for a game without two position heads, and for one of teams or that asks for numbers.
    """

    def __init__(self, game: GameLike, tile: int) -> None:
        self.fine, self.tile = find_game(game), POSITIVE.read("tile", tile)
        inner = self.fine.contract
        self.positions = [number for number, head in enumerate(inner.heads) if _is_position(head)]
        if len(self.positions) != 2:
            raise ValueError(
                f"a grid needs two heads whose choices end in their place, such as row_12: {inner.name} has "
                f"{len(self.positions)}"
            )
        if inner.agents or inner.numbers.size:
            raise ValueError(f"a grid is for single fighters who choose, not for the teams or numbers of {inner.name}")
        self.name = f"{self.fine.name}-tile{tile}"
        self.cells = {number: _cells(inner.heads[number], tile) for number in self.positions}
        self.contract = self._coarse()
        for each in ("rewards", "metrics", "params", "max_episode_ticks", "build_param", "builds"):
            setattr(self, each, getattr(self.fine, each))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return GridActionWrapper, (self.fine, self.tile)

    def check_place(self, where: str) -> None:
        """See `sb3_pvp.game.Game.check_place`."""
        self.fine.check_place(where)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> GridWorld:
        """See `sb3_pvp.game.Game.make_world`."""
        return GridWorld(self, self.fine.make_world(where, num_fights, seed, params))

    @cached_property
    def counts(self) -> dict[str, float]:
        """How many cells and joint actions there are, and how far a tile is from that of its cell, in tiles."""
        sizes = [len({_place(each)[1] for each in self.contract.heads[head].actions}) for head in self.positions]
        others = [len(head.actions) for head in self.contract.heads if head not in self._heads()]
        away = []
        for head in self.positions:
            numbers = [_place(each)[1] for each in self.fine.contract.heads[head].actions]
            for members in self.cells[head].members:
                away += [abs(numbers[each] - numbers[members[0]]) for each in members]
        joint = (int(np.prod(others)) - 1) * sizes[0] * sizes[1] + 1
        return {"cells": sizes[0] * sizes[1], "joint_actions": joint, "tiles_away": float(np.mean(away))}

    def _heads(self) -> list[Head]:
        return [self.contract.heads[number] for number in self.positions]

    def _coarse(self) -> Contract:
        inner = self.fine.contract
        names = {each.id: each.id for head in inner.heads for each in head.actions}
        whole: dict[str, set[str]] = {}
        for number, cells in self.cells.items():
            for name, members in zip(cells.ids, cells.members, strict=True):
                whole[name] = {inner.heads[number].actions[each].id for each in members}
                names |= dict.fromkeys(whole[name], name)
        heads = []
        for number, head in enumerate(inner.heads):
            entries = [[each] for each in head.actions]
            if number in self.cells:
                entries = [[head.actions[each] for each in members] for members in self.cells[number].members]
            heads.append(Head(head.id, head.description, tuple(_joined(each, names, whole) for each in entries)))
        return Contract(self.name, tuple(heads), inner.observations, shape=inner.shape, pixels=inner.pixels)


class GridWorld:
    """The world of a `GridActionWrapper`: another one, of which it shares all arrays but the masks."""

    def __init__(self, game: GridActionWrapper, inner: Any) -> None:
        self.inner, self.contract, self._game = inner, game.contract, game
        self.num_fights = inner.num_fights
        self.obs, self.outcome, self.ticks, self.report = inner.obs, inner.outcome, inner.ticks, inner.report
        self.masks = np.ones((*inner.masks.shape[:2], self.contract.num_flat_actions), np.bool_)
        order: list[int] = []
        starts: list[int] = []
        for number, head in enumerate(inner.contract.heads):
            first, cells = int(inner.contract.head_offsets[number]), game.cells.get(number)
            for members in cells.members if cells else [(each,) for each in range(len(head.actions))]:
                starts.append(len(order))
                order += [first + each for each in members]
        self._order, self._starts = np.array(order), np.array(starts)
        self._look()

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while it is copied, nothing is there yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def reset(self, fights: ArrayLike | None = None, options: Any = None) -> None:
        """See `sb3_pvp.game.World.reset`."""
        self.inner.reset(fights, options)
        self._look()

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """See `sb3_pvp.game.World.step`."""
        which = fight_numbers(fights, self.num_fights)
        coarse = joint_actions(actions, len(which), self.contract)
        masks = self.inner.masks[which].reshape(2 * len(which), -1)
        self.inner.step(self.tiles(coarse.reshape(len(masks), -1), masks).reshape(coarse.shape), which)
        self._look()

    def tiles(self, coarse: NDArray[np.int64], masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Returns the actions of the inner game ``(N, heads)`` by its masks, with the first legal tile of each cell."""
        fine, contract = coarse.copy(), self.inner.contract
        first, second = self._game.positions
        found = np.zeros(len(coarse), np.bool_)
        nearest = [self._nearest(head, coarse[:, head]) for head in (first, second)]
        rows = np.arange(len(coarse))
        for rank in range(nearest[0].shape[1]):
            tried = fine.copy()
            tried[:, first] = np.maximum(nearest[0][:, rank], 0)
            allowed = contract.conditional_mask(masks, tried[:, :first])[rows, tried[:, first]]
            allowed &= nearest[0][:, rank] >= 0
            legal = contract.conditional_mask(masks, tried[:, :second])
            choices = np.maximum(nearest[1], 0)
            open_rows = legal[rows[:, None], choices] & (nearest[1] >= 0)
            tried[:, second] = choices[rows, open_rows.argmax(axis=1)]
            better = allowed & open_rows.any(axis=1) & ~found
            if rank == 0:  # where nothing is legal, the middle of the cell: the world decides what that does
                fine[:, first], fine[:, second] = tried[:, first], choices[:, 0]
            fine[better] = tried[better]
            found |= better
        return fine

    def get_state(self) -> dict[str, Any]:
        """See `sb3_pvp.game.Resumable`."""
        state: dict[str, Any] = self.inner.get_state()
        return {**state, "tile": self._game.tile}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """See `sb3_pvp.game.Resumable`."""
        if state.get("tile") != self._game.tile:
            raise ValueError(f"this is a state of cells of {state.get('tile')} tiles, not of {self._game.tile}")
        self.inner.set_state({key: value for key, value in state.items() if key != "tile"})
        self._look()

    def _nearest(self, head: int, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the entries of cells, -1 where a cell has no more, ``(N, tile)``."""
        members = self._game.cells[head].members
        table = np.full((len(members), max(map(len, members))), -1)
        for row, each in zip(table, members, strict=True):
            row[: len(each)] = each
        return table[cells]

    def _look(self) -> None:
        self.masks[:] = np.logical_or.reduceat(self.inner.masks[..., self._order], self._starts, axis=-1)


def _place(action: SubAction) -> tuple[str, int]:
    found = _PLACE.match(action.id)
    return (found.group(1), int(found.group(2))) if found else (action.id, -1)


def _is_position(head: Head) -> bool:
    places = [_place(each)[1] for each in head.actions]
    return min(places) >= 0 and len({*places}) > 1 and not head.number


def _cells(head: Head, tile: int) -> _Cells:
    groups: dict[str, list[int]] = {}
    for number, each in enumerate(head.actions):
        kind, place = _place(each)
        groups.setdefault(f"{kind}{place // tile}", []).append(number)
    places = [_place(each)[1] for each in head.actions]
    members = []
    for group in groups.values():
        middle = (places[group[0]] // tile + 0.5) * tile - 0.5
        members.append(tuple(sorted(group, key=lambda each: (abs(places[each] - middle), each))))
    return _Cells(tuple(groups), tuple(members))


def _joined(members: Sequence[SubAction], names: Mapping[str, str], whole: Mapping[str, set[str]]) -> SubAction:
    """Returns one choice for several: legal where at least one of them is."""
    every = {*members[0].require_all}.intersection(*(each.require_all for each in members))
    none = {*members[0].require_none}.intersection(*(each.require_none for each in members))
    # What asks for nothing is legal for all; else any of what is asked for is enough.
    asked = [name for each in members for name in each.require_any] if all(each.require_any for each in members) else []
    none = {name for name in none if whole.get(names[name], {name}) <= none}
    about = (
        members[0].description if len(members) == 1 else f"{members[0].description[:-1]}, and {len(members) - 1} more."
    )
    rules = (tuple(sorted({names[name] for name in each})) for each in (every, asked, none))
    return SubAction(names[members[0].id], about, *rules)
