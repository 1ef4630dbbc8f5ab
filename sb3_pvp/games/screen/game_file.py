"""A game behind a screen as a YAML file: program, picture, inputs, readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sb3_pvp.common.errors import first_error, unknown_name
from sb3_pvp.common.plain_yaml import read_yaml

MOST_ACTIONS = 1 << 14
#: Where a template may be in its region, times its pixels: what a reader compares in each tick.
MOST_COMPARED = 1 << 23

_Place = Annotated[int, Field(ge=0, le=8192)]
_Length = Annotated[int, Field(ge=1, le=8192)]
_Side = Annotated[int, Field(ge=8, le=4096)]
_Byte = Annotated[int, Field(ge=0, le=255)]
_Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, le=600)]
Region = tuple[_Place, _Place, _Length, _Length]  #: Left, top, width and height, in pixels of the display.
Point = tuple[_Place, _Place]
Size = tuple[_Side, _Side]
Color = tuple[_Byte, _Byte, _Byte]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScreenInput(_Part):
    """What is done with keys, by X's names (``Left``, ``space``, ``a``), and with the mouse, in pixels of the display.

    Attributes:
        hold: keys that are down until an action does not hold them.
        tap: keys that are pressed one after another, each with those before a ``+``, as in ``Control+n``.
        click, drag, move: where a button is clicked; from where to where something is dragged; where the mouse goes.
        button: 1 is the left one.
    """

    hold: tuple[str, ...] = ()
    tap: tuple[str, ...] = ()
    click: Point | None = None
    drag: tuple[Point, Point] | None = None
    move: Point | None = None
    button: Annotated[int, Field(ge=1, le=5)] = 1


class ScreenGrid(_Part):
    """Cells that can be clicked, an action each; or dragged to one another, an action for each pair."""

    region: Region
    columns: Annotated[int, Field(ge=1)]
    rows: Annotated[int, Field(ge=1)]
    do: Literal["click", "drag"]

    def inputs(self, button: int = 1) -> list[tuple[str, ScreenInput]]:
        """Returns names and inputs: of cells ``column,row`` from the top left, of pairs ``from>to``."""
        x, y, width, height = self.region
        across = [x + width * (2 * column + 1) // (2 * self.columns) for column in range(self.columns)]
        down = [y + height * (2 * row + 1) // (2 * self.rows) for row in range(self.rows)]
        cells = {f"{column},{row}": (at, below) for row, below in enumerate(down) for column, at in enumerate(across)}
        if self.do == "click":
            return [(name, ScreenInput(click=at, button=button)) for name, at in cells.items()]
        pairs = ((one, other) for one in cells for other in cells if one != other)
        return [(f"{one}>{other}", ScreenInput(drag=(cells[one], cells[other]), button=button)) for one, other in pairs]


class ScreenAction(ScreenInput):
    """A choice of the agent, or with a ``grid`` one for each of its cells or pairs, by the same ``button``."""

    name: str
    grid: ScreenGrid | None = None

    @model_validator(mode="after")
    def _does_one_thing(self) -> ScreenAction:
        if self.grid and (others := sorted(self.model_fields_set - {"name", "grid", "button"})):
            raise ValueError(f"{', '.join(others)} cannot be beside a grid: give it an action of its own")
        return self


class ScreenStep(ScreenInput):
    """A step of the script that begins an episode.

    Attributes:
        start: starts the program anew.
        wait: seconds.
        until: a reader that is to say yes, or of numbers to find one, within ``seconds``; meanwhile the input of the
            step is repeated, once each second.
    """

    start: bool = False
    wait: _Seconds = 0.0
    until: str | None = None
    seconds: _Seconds = 10.0


class PixelReader(_Part):
    """1 where a pixel has a color, else 0."""

    kind: Literal["pixel"]
    at: Point
    color: Color
    tolerance: _Byte = 16


class PictureReader(_Part):
    """1 where a picture, of a file, is somewhere in a region, else 0; ``tolerance`` is the mean difference, of 255."""

    kind: Literal["picture"]
    region: Region
    file: str
    tolerance: _Byte = 16


class NumberReader(_Part):
    """A number, digit by digit: runs of columns with ink, each the nearest of the ten in a picture of them.

    Attributes:
        digits: a file with 0 to 9 side by side, in the font and the size of the program.
        color: of the ink.
        tolerance: how much a color may differ; ``errors``: the share of a digit's pixels that may.
        patience: ticks for which none need be found, during which the number stays what it was.
    """

    kind: Literal["number"]
    region: Region
    digits: str
    color: Color
    tolerance: _Byte = 64
    errors: Annotated[float, Field(ge=0, le=0.5)] = 0.15
    patience: _Count = 50


class LogReader(_Part):
    """What a pattern finds in new lines of a file: the last number in its first group, without groups how many lines.

    It is 0 if there is nothing new. The ``rise`` and the ``change`` of a number are from the one found before in the
    episode, at first 0; those of lines are how many are new. A relative ``file`` is in the program's own folder;
    ``output`` is what it prints, from its start.
    """

    kind: Literal["log"]
    file: str = "output"
    pattern: str


class ExitReader(_Part):
    """1 when the program has ended, else 0; without it that is an error."""

    kind: Literal["exit"]


ScreenReader = Annotated[
    PixelReader | PictureReader | NumberReader | LogReader | ExitReader, Field(discriminator="kind")
]


class ScreenReward(_Part):
    """What a reader is worth: its ``change`` since the last tick, the ``rise`` alone, or its ``value``."""

    reader: str
    of: Literal["change", "rise", "value"] = "rise"
    weight: float = 1.0


class ScreenGame(_Part):
    """A game behind a screen.

    Attributes:
        program: with its arguments; ``{folder}`` is a folder of its own, also its working directory and home.
        environment: variables of it.
        display: pixels of the display, width and height.
        title: part of the title of its window; empty: any window.
        patience: seconds within which it has to show that.
        region: what the agent sees of the display, by default all of it: left, top, width, height.
        scale: to how many pixels, width and height.
        color: whether the agent sees colors.
        stack: frames that it sees at once, the newest last.
        tick: seconds from one frame to the next.
        freeze: whether the program is stopped while nobody plays, as while an agent learns.
        actions, readers, rewards: see there. An episode has ended when one of the readers ``end`` says yes.
        limit: ticks after which it is truncated.
        reset: the script that begins one.
    """

    name: str = ""
    folder: Path = Path()
    program: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: Mapping[str, str] = {}
    display: Size = (640, 480)
    title: str = ""
    patience: _Seconds = 20.0
    region: Region | None = None
    scale: Size = (84, 84)
    color: bool = False
    stack: Annotated[int, Field(ge=1, le=16)] = 1
    tick: Annotated[float, Field(ge=0.005, le=60)] = 0.1
    freeze: bool = False
    actions: Annotated[tuple[ScreenAction, ...], Field(min_length=1)]
    readers: Mapping[str, ScreenReader] = {}
    rewards: tuple[ScreenReward, ...] = ()
    end: tuple[str, ...] = ()
    limit: Annotated[int, Field(ge=1)] | None = None
    reset: Annotated[tuple[ScreenStep, ...], Field(min_length=1)] = (ScreenStep(start=True),)

    @model_validator(mode="after")
    def _belongs_together(self) -> ScreenGame:
        asked = {*self.end, *(each.reader for each in self.rewards), *(each.until for each in self.reset if each.until)}
        for name in sorted(asked - self.readers.keys()):
            raise unknown_name("reader", name, self.readers)
        for name, place in self._places():
            left, top, width, height = (*place, 1, 1)[:4]
            if left + width > self.display[0] or top + height > self.display[1]:
                raise ValueError(f"{name}: {list(place)} is not within the display of {list(self.display)}")
        names = [name for name, _ in self.inputs()]
        if len(names) > MOST_ACTIONS or len({*names}) < len(names):
            raise ValueError(f"of {len(names)} actions each needs a name of its own, and {MOST_ACTIONS} are the most")
        return self

    def _places(self) -> Iterator[tuple[str, Region | Point]]:
        """Yields the regions and points of the display, with the name of what they belong to."""
        parts: list[tuple[str, Any]] = [("region", self), *self.readers.items()]
        parts += [(each.name, each) for each in self.actions] + [("reset", each) for each in self.reset]
        parts += [(each.name, each.grid) for each in self.actions]
        for name, part in parts:
            places = [getattr(part, field, None) for field in ("region", "at", "click", "move")]
            yield from ((name, place) for place in (*places, *(getattr(part, "drag", None) or ())) if place)

    @property
    def seen(self) -> Region:
        """The region that the agent sees."""
        return self.region or (0, 0, *self.display)

    def inputs(self) -> list[tuple[str, ScreenInput]]:
        """Returns all actions by name, in order."""
        found: list[tuple[str, ScreenInput]] = []
        for each in self.actions:
            cells = each.grid.inputs(each.button) if each.grid else ()
            found += [(f"{each.name} {name}", one) for name, one in cells] or [(each.name, each)]
        return found


def read_screen_game(name: str | Path, changes: Mapping[str, Any] | None = None) -> ScreenGame:
    """Returns a game by the name of one that ships, or from a file, with some of its values changed.

    Raises `ValueError` in one line. Whoever can write the file can run programs here: it must be trusted.
    """
    shipped = {each.stem: each for each in (Path(__file__).parent / "data").glob("*.yaml")}
    path = shipped.get(str(name), Path(name))
    if not path.is_file():
        raise unknown_name("game behind a screen", name, shipped)
    try:
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ValueError("it must map names such as program to values")
        return ScreenGame.model_validate({"name": path.stem, "folder": path.parent, **content, **(changes or {})})
    except ValidationError as error:
        raise ValueError(f"{path}: {first_error(error, 'it', of=ScreenGame)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
