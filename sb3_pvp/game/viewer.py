"""Viewers: what one sees of a fight, and what a human may do in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.world import NUM_SEATS, Outcome, World


@dataclass(frozen=True)
class Control:
    """Something that a human may do: a choice of a head, by the id of the sub-action."""

    action: str
    label: str
    key: str = ""  #: Default key, as browsers name it, such as ``"1"``, ``"F1"`` or ``"Escape"``; empty: none.
    also: tuple[str, ...] = ()  #: Sub-actions of other heads that go with it. Controls with a head in common exclude.


@dataclass(frozen=True)
class ControlGroup:
    """Controls that belong together, in the order in which they are shown."""

    label: str
    controls: tuple[Control, ...]
    #: Those of a ``picture`` have no buttons: the page of the game presses them, where one clicks on what it draws.
    shape: Literal["row", "grid", "picture"] = "row"
    columns: int = 0  #: Of a grid, whose controls are given row by row.


@dataclass(frozen=True)
class Verdict:
    """What a drill says about a tick in which there was something to do: whether it was done, and why not."""

    tick: int
    hit: bool
    reason: str  #: A sentence.


@dataclass(frozen=True)
class Drill:
    """An exercise against a scripted opponent, judged tick by tick; the score is the share of hits.

    Attributes:
        id: in addresses and files.
        label, about: a title, and a sentence on what to do.
        opponent: a script of the game, or ``"baseline"`` and the like.
        reset_params: of the game, by their names on the wire.
        ticks: how long it lasts; if the fight ends before, so does the drill.
        judge: takes the full scenes from the start on, the player's actions in each tick after it (ints ``(heads,)``,
            one fewer than scenes), and the player's seat; returns the verdicts in the order of time.
    """

    id: str
    label: str
    about: str
    opponent: str
    reset_params: Mapping[str, Any]
    ticks: int
    judge: Callable[[Sequence[Any], Sequence[NDArray[np.int64]], int], list[Verdict]]


@dataclass(frozen=True, eq=False)
class SeenFight:
    """A fight as one of its players has seen and fought it, ``T`` ticks."""

    player: str
    opponent: str
    outcome: str  #: The name of the player's `sb3_pvp.game.Outcome`, in lower case.
    observations: NDArray[np.float32]  #: Before each tick, ``(T, *shape)``.
    masks: NDArray[np.bool_]  #: ``(T, choices of all heads)``
    actions: NDArray[np.int64]  #: ``(T, heads)``


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
    it reads recordings in a format of the game as well, and with ``read_seen(path)`` what was seen in all fights of
    one, as `SeenFight`s.

    It may also have ``controls()``, which returns `ControlGroup`s: what a human does with which key or button. For a
    viewer without, `controls_of` makes them from the contract; for games without a viewer there is `PlainViewer`. What
    a page gets in every tick is the scene as plain values, see `live_scene`.

    For humans who play there is more, all of it optional:

    * ``seen(world, fight, names, seat, actions, masks)`` returns a scene as the player of one seat may see it: made of
      what the contract shows to the seat, and of its own. A viewer without it shows the observations
      (`viewer_for_players`).
    * ``why_not(scene, seat)`` says why sub-actions are impossible, by id, as far as a seen scene tells. Masks say
      whether they are.
    * ``at_will(scene, seat)`` returns sub-actions that a human may do although they are masked: masks may hold fighters
      to what matters, while the world plays them as it does all others.
    * ``idle(scene, seat)`` returns the sub-actions that keep things as they are in heads whose first entry does not.
    * ``at_offset(east, north)`` returns the action of a control for a click on a place that many tiles from the
      opponent's, or ``None``.
    * ``fight_figures(scenes, seat)`` returns pairs of a label and a text: how the player of a seat has fought, from
      full scenes.
    * ``drills()`` returns `Drill`s.
    * ``with_choices(scene, chosen, masks)`` returns a recorded scene with what both seats chose and could choose, by
      head, for the pictures of a video.
    * ``real_time``: whether ticks go on when a player does nothing. In games without it a page waits for a choice.
    """

    def scene(
        self, world: World, fight: int, names: Sequence[str], actions: SeatActions = _NONE, masks: SeatMasks = _NONE
    ) -> Any:
        """Returns the scene after the last tick of a fight between two players with these names."""

    def text(self, scene: Any, color: bool = True) -> str:
        """Returns a scene as text for a terminal, with or without ANSI colors."""

    def picture(self, scene: Any) -> NDArray[np.uint8]:
        """Returns a scene as an RGB image, uint8 ``(height, width, 3)``; `ValueError` if the viewer draws none."""
        raise ValueError(
            f"{type(self).__name__} draws no pictures: give it picture(), or use render_mode='ansi' for text"
        )


#: Keys that choices without better ones get, in their order; further choices have none.
KEYS = "1234567890qwertyuiopasdfghjklzxcvbnm"


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

    def seen(
        self,
        world: World,
        fight: int,
        names: Sequence[str],
        seat: int,
        actions: SeatActions = _NONE,
        masks: SeatMasks = _NONE,
    ) -> PlainScene:
        """Returns the scene with the observations and choices of this seat only."""
        own = copy(self)
        own.seats = (seat,)
        return own.scene(world, fight, names, actions, masks)

    def picture(self, scene: PlainScene) -> NDArray[np.uint8]:
        """Raises `ValueError`: a contract has no picture."""
        raise ValueError(f"{self.contract.name} has no pictures: its game has no viewer (`sb3_pvp.game.Viewer`)")


def draws_pictures(viewer: Any) -> bool:
    """Returns whether a viewer has a `Viewer.picture` of its own."""
    return getattr(type(viewer), "picture", Viewer.picture) not in (Viewer.picture, PlainViewer.picture)


live_scene = to_plain  #: Returns a scene as plain JSON values, as it is sent to a page every tick.


def viewer_for_players(viewer: Viewer | None, contract: Contract) -> Any:
    """Returns a viewer with ``seen``: the game's own, or else one that shows what the contract names."""
    return viewer if hasattr(viewer, "seen") else PlainViewer(contract)


def seen_scene(
    viewer: Viewer | None,
    world: World,
    fight: int,
    names: Sequence[str],
    seat: int,
    actions: SeatActions = _NONE,
    masks: SeatMasks = _NONE,
) -> Any:
    """Returns what the player of a seat may see after the last tick, a scene of `viewer_for_players`.

    Nothing in it depends on what the contract hides from the seat. ``actions`` and ``masks`` are as in `Viewer.scene`;
    the other seat's are not shown.
    """
    return viewer_for_players(viewer, world.contract).seen(world, fight, names, seat, actions, masks)


def controls_of(viewer: Viewer | None, contract: Contract) -> tuple[ControlGroup, ...]:
    """Returns what a human may do in a game: what its viewer says, or else a group per head of the contract.

    Raises `ValueError` in one line if a control names a sub-action that the contract lacks or two of one head, or a key
    is given twice.
    """
    given = getattr(viewer, "controls", None)
    groups = tuple(_from_contract(contract)) if given is None else tuple(given())
    controls = [control for group in groups for control in group.controls]
    keys = [control.key for control in controls if control.key]
    for control in controls:
        # Raises for an unknown one, with the nearest that there is.
        heads = [contract.action_index(each)[0] for each in _ids(control)]
        if len({*heads}) < len(heads):
            raise ValueError(f"the control {control.label!r} makes two choices in one head of {contract.name}")
        if (times := keys.count(control.key)) > 1:
            raise ValueError(f"the key {control.key!r} is given to {times} controls of {contract.name}")
    for group in groups:
        if group.shape == "grid" and group.columns < 1:
            raise ValueError(f"the grid of controls {group.label!r} needs a number of columns")
    return groups


def pressed_actions(
    contract: Contract, mask: NDArray[np.bool_], pressed: Sequence[Control], idle: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Returns what a human plays who has pressed these controls, the last one last: int64 ``(heads,)``.

    Controls that the flat ``mask`` forbids do not count, and of those with a head in common only the last one. Where
    nothing is pressed, things are kept as they are: by ``idle`` (see `Viewer`) if that is not masked, else by the
    head's first entry, even if it is masked. In a turn-based game that is to wait: ask the player before.
    """
    wanted: dict[int, int] = {}
    for control in reversed(pressed):
        parts = dict(map(contract.action_index, _ids(control)))
        if not wanted.keys() & parts.keys() and all(mask[contract.flat_index(each)] for each in _ids(control)):
            wanted |= parts
    kept, chosen = dict(map(contract.action_index, idle)), list[int]()
    for head, begin in enumerate(contract.head_offsets[:-1]):
        legal = contract.conditional_mask(mask, chosen)
        # To do nothing breaks no rule: those between heads say what an agent may combine.
        tries = [wanted[head]] if head in wanted and legal[wanted[head]] else []
        tries += [kept[head]] if head in kept and mask[begin + kept[head]] else []
        # The first entry is not played against the rules of the contract, such as "an attack needs a kind of attack".
        rest = 0 if legal[0] or not mask[begin] else int(legal.argmax())
        chosen.append([*tries, rest][0])
    return np.array(chosen)


def made_controls(contract: Contract, action: ArrayLike, controls: Sequence[Control]) -> list[Control]:
    """Returns which of these controls an action, ints ``(heads,)``, makes, with all that goes with them."""
    made = {head.actions[choice].id for head, choice in zip(contract.heads, np.asarray(action).tolist(), strict=True)}
    return [control for control in controls if {*_ids(control)} <= made]


def _ids(control: Control) -> tuple[str, ...]:
    return (control.action, *control.also)


def _from_contract(contract: Contract) -> Iterator[ControlGroup]:
    keys = iter(KEYS)
    for head in contract.heads:
        controls = tuple(Control(each.id, each.description or each.id, next(keys, "")) for each in head.actions)
        yield ControlGroup(head.description or head.id, controls)
