"""Files of games behind a screen, the readers of one, and the ticks: no display is needed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.games.screen.clock import TickClock
from sb3_pvp.games.screen.display import ScreenError
from sb3_pvp.games.screen.game_file import (
    LogReader,
    NumberReader,
    PictureReader,
    PixelReader,
    ScreenGrid,
    read_screen_game,
)
from sb3_pvp.games.screen.readers import (
    glyphs,
    ink_of,
    load_picture,
    log_reading,
    number_reading,
    picture_reading,
    pixel_reading,
)
from tests.games.screen.screens import DIGITS, painter, written

YELLOW = (255, 255, 0)
SCORE = NumberReader(kind="number", region=(0, 0, 80, 14), digits="", color=YELLOW)


def line(number: str, left: int, top: int) -> Any:
    """A frame with a number in it, written with the digits that ship."""
    frame, digits = np.zeros((20, 100, 3), np.uint8), load_picture(DIGITS)
    for place, digit in enumerate(number):
        frame[top : top + 11, left + 6 * place : left + 6 * place + 6] = digits[
            2:13, 7 * int(digit) : 7 * int(digit) + 6
        ]
    return frame


@pytest.mark.parametrize("name", ["xboard", "xgalaga"])
def test_what_ships_can_be_read(name: str) -> None:
    game = read_screen_game(name)
    assert game.name == name and len(game.inputs()) == {"xboard": 1 + 64 * 63, "xgalaga": 6}[name]


GRID = {"do": "click", "region": [0, 0, 40, 20], "columns": 2, "rows": 1}
WRONG = [
    ({"program": []}, "program"),
    ({"programm": ["x"]}, r"has an unknown field 'programm' \(did you mean 'program'\?\)"),
    ({"tick": 0}, "tick should be greater than or equal to 0.005, got 0"),
    ({"region": [0, 0, 900, 10]}, r"region: \[0, 0, 900, 10\] is not within the display of \[200, 100\]"),
    ({"end": ["scor"]}, r"unknown reader 'scor' \(did you mean 'score'\?\)"),
    ({"rewards": [{"reader": "points"}]}, "unknown reader 'points'"),
    ({"actions": [{"name": "a"}, {"name": "a"}]}, "each needs a name of its own"),
    ({"actions": [{"name": "a", "click": [1]}]}, "actions"),
    ({"readers": {"score": {"kind": "numbre"}}}, "readers.score"),
    ({"scale": [4000000, 8]}, "scale"),
    ({"reset": []}, "reset .*at least 1 item"),
    (
        {"readers": {"it": {"kind": "pixel", "at": [300, 50], "color": [0, 0, 0]}}, "rewards": [], "reset": [{}]},
        r"it: \[300, 50\] is not within the display of \[200, 100\]",
    ),
    ({"actions": [{"name": "a", "click": [0, 100]}]}, r"a: \[0, 100\] is not within"),
    ({"actions": [{"name": "a", "drag": [[0, 0], [200, 0]]}]}, r"a: \[200, 0\] is not within"),
    ({"reset": [{"move": [200, 0]}]}, r"reset: \[200, 0\] is not within"),
    (
        {"actions": [{"name": "a", "hold": ["x"], "click": [1, 1], "grid": GRID}]},
        r"actions\[0\] .*click, hold cannot be beside a grid: give it an action of its own",
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_bad_file_is_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path, {**painter(), **changes})
    with pytest.raises(ValueError, match=message) as refused:
        read_screen_game(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_what_is_no_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown game behind a screen 'xgalagga' \(did you mean 'xgalaga'\?\)"):
        read_screen_game("xgalagga")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"list\.yaml: it must map names"):
        read_screen_game(tmp_path / "list.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ValueError, match=r"broken\.yaml: "):
        read_screen_game(tmp_path / "broken.yaml")


def test_changes_take_the_place_of_values() -> None:
    game = read_screen_game("xgalaga", {"scale": [64, 48], "stack": 1})
    assert (game.scale, game.stack, game.tick) == ((64, 48), 1, 0.1)


@given(st.integers(1, 8), st.integers(1, 8))
def test_cells_of_a_grid_are_within_it_and_in_order(columns: int, rows: int) -> None:
    grid = ScreenGrid(region=(10, 20, 160, 240), columns=columns, rows=rows, do="click")
    places = [each.click for _, each in grid.inputs()]
    assert len({*places}) == columns * rows
    assert all(at and 10 <= at[0] < 170 and 20 <= at[1] < 260 for at in places)
    assert places == sorted(places, key=lambda at: at and (at[1], at[0]))
    pairs = ScreenGrid(region=(10, 20, 160, 240), columns=columns, rows=rows, do="drag").inputs()
    assert len({name for name, _ in pairs}) == len(pairs) == len(places) * (len(places) - 1)


def test_a_grid_has_the_button_of_its_action(tmp_path: Path) -> None:
    actions = [{"name": do, "button": 3, "grid": {**GRID, "do": do}} for do in ("click", "drag")]
    game = read_screen_game(written(tmp_path, painter(actions=actions)))
    assert [each.button for _, each in game.inputs()] == [3] * 4


@pytest.mark.parametrize(("pattern", "value"), [(r"score(?: (\d+))?", None), (r"level (\S+)", None), ("score", 1.0)])
def test_a_number_that_a_line_lacks_is_none(pattern: str, value: float | None, tmp_path: Path) -> None:
    assert log_read(tmp_path, pattern, "score\n") == value


@pytest.mark.parametrize("text", ["high", "nan", "-inf", ""])
def test_what_is_no_number_in_a_log_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(ScreenError, match=rf"'score \(\.\*\)' finds '{text}', which is no number") as failed:
        log_read(tmp_path, "score (.*)", f"score {text}\n")
    assert "\n" not in str(failed.value)


def log_read(folder: Path, pattern: str, content: str) -> float | None:
    """What a reader finds in a log with this content."""
    (folder / "log").write_text(content)
    display: Any = SimpleNamespace(folder=folder, output=folder / "output", starts=1)
    return log_reading(LogReader(kind="log", file="log", pattern=pattern), display)(np.zeros((1, 1, 3), np.uint8))


@given(st.integers(0, 99_999_999), st.integers(0, 20), st.integers(0, 3))
def test_a_number_is_read_wherever_it_is(number: int, left: int, top: int) -> None:
    read = number_reading(SCORE, load_picture(DIGITS))
    assert read(line(f"{number:07}", left, top)) == number


@given(st.integers(0, 6), st.data())
def test_what_is_no_digit_is_not_read(place: int, data: st.DataObject) -> None:
    frame, read = line("1234567", 2, 0), number_reading(SCORE, load_picture(DIGITS))
    frame[1:13, 2 + 6 * place : 8 + 6 * place] = YELLOW
    assert read(frame) is None
    assert read(np.zeros_like(frame)) is None


def test_digits_of_another_color_are_refused() -> None:
    with pytest.raises(ValueError, match=r"has 0 digits in the color \[0, 0, 255\], not 10"):
        number_reading(SCORE.model_copy(update={"color": (0, 0, 255)}), load_picture(DIGITS))
    assert len(glyphs(ink_of(load_picture(DIGITS), SCORE))) == 10


@given(st.integers(0, 30), st.integers(0, 12))
def test_a_picture_is_found_in_its_region_and_nowhere_else(x: int, y: int) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (6, 8, 3)).astype(np.uint8)
    read = picture_reading(PictureReader(kind="picture", region=(5, 5, 20, 10), file="", tolerance=8), picture)
    frame = np.zeros((30, 60, 3), np.uint8)
    frame[y : y + 6, x : x + 8] = picture
    assert read(frame) == float(5 <= x <= 17 and 5 <= y <= 9)


def test_a_picture_that_is_too_large_is_refused() -> None:
    reader = PictureReader(kind="picture", region=(0, 0, 10, 10), file="")
    with pytest.raises(ValueError, match="11 x 5 pixels are too many for 10 x 10"):
        picture_reading(reader, np.zeros((5, 11, 3), np.uint8))


def test_the_color_of_a_pixel() -> None:
    read, frame = (
        pixel_reading(PixelReader(kind="pixel", at=(3, 1), color=(10, 20, 250))),
        np.zeros((4, 5, 3), np.uint8),
    )
    assert read(frame) == 0
    frame[1, 3] = (20, 4, 255)
    assert read(frame) == 1
    frame[1, 3, 1] = 3
    assert read(frame) == 0


@given(st.lists(st.tuples(st.floats(0, 0.7), st.booleans()), max_size=60))
def test_every_tick_has_a_frame_or_is_counted_as_dropped(work: list[tuple[float, bool]]) -> None:
    now, slept = 100.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal now, slept
        now, slept = now + seconds, slept + seconds

    clock = TickClock(0.25, now=lambda: now, sleep=sleep)
    frozen = 0.0
    for seconds, is_frozen in work:
        if is_frozen:
            clock.pause()
            frozen += seconds
            now += seconds
            clock.go_on()
        else:
            now += seconds
        clock.wait()
        played = now - 100 - frozen
        assert clock.frames + clock.dropped == pytest.approx((played - clock.lag) / 0.25)
        assert 0 <= clock.lag < 0.25 + 1e-9 and clock.late <= clock.frames
    assert clock.frames == len(work)
    if all(is_frozen for _, is_frozen in work):
        assert clock.dropped == clock.late == 0
