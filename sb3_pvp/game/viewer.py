"""Viewers: what one sees of a fight, and what a human may do in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.world import NUM_SEATS, Outcome, World


@dataclass(frozen=True)
class Control:
    """Something that a human may do: a choice of a head, by the id of the sub-action."""

    action: str
    label: str
    key: str = ""  #: Default key, as browsers name it, such as ``"1"``, ``"F1"`` or ``"Escape"``; empty: none.


@dataclass(frozen=True)
class ControlGroup:
    """Controls that belong together, in the order in which they are shown."""

    label: str
    controls: tuple[Control, ...]
    shape: Literal["row", "grid"] = "row"
    columns: int = 0  #: Of a grid, whose controls are given row by row.


#: By seat, ``None`` if unknown: the actions of a tick, ints ``(heads,)``, and the masks that applied to them, bool
#: ``(num_flat_actions,)``.
SeatActions = Sequence[NDArray[np.int64] | None]
SeatMasks = Sequence[NDArray[np.bool_] | None]
_NONE = (None,) * NUM_SEATS


class Viewer(Protocol):
    """Shows fights of a game, and says what a human may do in them.

    A *scene* is one moment of a fight: a frozen dataclass of plain values, defined by the viewer, with a field
    ``outcome``. `text` serves ``render_mode="ansi"``, `picture` the other render modes.

    To record and replay fights (`sb3_pvp.matches.replay`), a viewer also needs ``read_scene(plain)``,
    ``events(scenes)`` and ``page()``. With ``recordings`` (endings of file names) and ``read_recording(path, number)``
    it reads recordings in a format of the game as well.

    It may also have ``controls()``, which returns `ControlGroup`s: what a human does with which key or button. For a
    viewer without, `controls_of` makes them from the contract; for games without a viewer there is `PlainViewer`. What
    a page gets in every tick is the scene as plain values, see `live_scene`.
    """

    def scene(
        self, world: World, fight: int, names: Sequence[str], actions: SeatActions = _NONE, masks: SeatMasks = _NONE
    ) -> Any:
        """Returns the scene after the last tick of a fight between two players with these names."""

    def text(self, scene: Any, color: bool = True) -> str:
        """Returns a scene as text for a terminal, with or without ANSI colors."""

    def picture(self, scene: Any) -> NDArray[np.uint8]:
        """Returns a scene as an RGB image, uint8 ``(height, width, 3)``."""


#: Keys that `controls_of` gives the choices of a contract, in their order; further ones have none.
_KEYS = "1234567890qwertyuiopasdfghjklzxcvbnm"


@dataclass(frozen=True)
class PlainScene:
    """A moment of a fight in a game without a viewer. Pairs are by seat, ``None`` for what is not shown."""

    tick: int
    names: tuple[str, ...]
    outcome: str  #: Of the first seat, in lower case as in `Outcome`.
    seen: tuple[dict[str, float] | None, ...]  #: Observations by id.
    legal: tuple[tuple[str, ...] | None, ...]  #: The ids of the sub-actions that are not masked.
    chosen: tuple[tuple[str, ...] | None, ...]  #: The ids of the sub-actions that led to this moment.


class PlainViewer:
    """The viewer of games that have none: shows what the contract names.

    ``seats`` are those whose observations and choices are shown: for a human, only the own one.
    """

    def __init__(self, contract: Contract, seats: Sequence[int] = range(NUM_SEATS)) -> None:
        self.contract, self.seats = contract, tuple(seats)

    def scene(
        self, world: World, fight: int, names: Sequence[str], actions: SeatActions = _NONE, masks: SeatMasks = _NONE
    ) -> PlainScene:
        """See `Viewer.scene`; ``masks`` are not shown, but those of the next tick."""
        ids = np.array([action.id for head in self.contract.heads for action in head.actions])
        seen: list[dict[str, float] | None] = [None] * NUM_SEATS
        legal: list[tuple[str, ...] | None] = [None] * NUM_SEATS
        chosen: list[tuple[str, ...] | None] = [None] * NUM_SEATS
        for seat in self.seats:
            values = world.obs[fight, seat].tolist()
            seen[seat] = {each.id: value for each, value in zip(self.contract.observations, values, strict=True)}
            legal[seat] = tuple(ids[world.masks[fight, seat]].tolist())
            if (own := actions[seat]) is not None:
                both = zip(self.contract.heads, own.tolist(), strict=True)
                chosen[seat] = tuple(
                    f"{head.id} {choice:.3g}" if head.number else head.actions[int(choice)].id for head, choice in both
                )
        outcome = Outcome(int(world.outcome[fight, 0])).name.lower()
        return PlainScene(int(world.ticks[fight]), tuple(names), outcome, tuple(seen), tuple(legal), tuple(chosen))

    def text(self, scene: PlainScene, color: bool = True) -> str:
        """Returns a line for the fight, and for each seat that is shown its observations and choices."""
        lines = [f"tick {scene.tick}, {' against '.join(scene.names)}: {scene.outcome}"]
        for name, seen, chosen in zip(scene.names, scene.seen, scene.chosen, strict=True):
            if seen is not None:
                lines.append(f"{name} sees {', '.join(f'{each} {value:g}' for each, value in seen.items())}")
            if chosen is not None:
                lines.append(f"{name} has chosen {', '.join(chosen)}")
        return "\n".join(lines)

    def picture(self, scene: PlainScene) -> NDArray[np.uint8]:
        """Raises `ValueError`: a contract has no picture."""
        raise ValueError(f"{self.contract.name} has no pictures: its game has no viewer (`sb3_pvp.game.Viewer`)")


live_scene = to_plain  #: Returns a scene as plain JSON values, as it is sent to a page every tick.


def controls_of(viewer: Viewer | None, contract: Contract) -> tuple[ControlGroup, ...]:
    """Returns what a human may do in a game: what its viewer says, or else a group per head of the contract.

    Raises `ValueError` in one line if a control names a sub-action that the contract lacks, or a key is given twice.
    """
    given = getattr(viewer, "controls", None)
    groups = tuple(_from_contract(contract)) if given is None else tuple(given())
    controls = [control for group in groups for control in group.controls]
    keys = [control.key for control in controls if control.key]
    for control in controls:
        contract.flat_index(control.action)  # raises for an unknown one, with the nearest that there is
        if (times := keys.count(control.key)) > 1:
            raise ValueError(f"the key {control.key!r} is given to {times} controls of {contract.name}")
    for group in groups:
        if group.shape == "grid" and group.columns < 1:
            raise ValueError(f"the grid of controls {group.label!r} needs a number of columns")
    return groups


def _from_contract(contract: Contract) -> Iterator[ControlGroup]:
    keys = iter(_KEYS)
    for head in contract.heads:
        controls = tuple(Control(each.id, each.description or each.id, next(keys, "")) for each in head.actions)
        yield ControlGroup(head.description or head.id, controls)
