"""A person plays on the lanes in a real browser: drags a card to a tile, by mouse, touch and keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.arena.page.browser import opened
from tests.arena.page.test_page_browser import browser, shot
from tests.arena.page.test_play_browser import OVER, arena_of, begin, fast, until

__all__ = ["browser", "fast"]  # fixtures


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with arena_of("LaneClash-v0", tmp_path_factory.mktemp("arena"), "spender") as address:
        yield address


@contextmanager
def playing(browser: Any, address: str, width: int = 1280, **options: Any) -> Iterator[Any]:
    with opened(browser, width, **options) as page:
        begin(page, address, "spender")
        until(page, "lastTick > 0")
        yield page


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Iterator[Any]:
    with playing(browser, address) as page:
        yield page


def tile(page: Any, column: int, row: int) -> tuple[float, float]:
    """Returns where a tile is on the screen."""
    # By the page itself: it draws anew all the time, so that an element may be gone.
    point = "(at) => { const to = new DOMPoint(...at).matrixTransform(MATRIX); return [to.x, to.y]; }"
    matrix = "byId('arena').querySelector('svg.lanes').getScreenCTM()"
    x, y = page.evaluate(point.replace("MATRIX", matrix), [column + 0.5, 31.5 - row])
    return x, y


def middle(page: Any, card: str) -> tuple[float, float]:
    """Returns where a card of the hand is on the screen; by the page itself, as `tile`."""
    found = "(card) => document.querySelector(`[data-card=${card}]`).getBoundingClientRect().toJSON()"
    box = page.evaluate(found, card)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def payable(page: Any) -> str:
    """Waits for a troop that can be paid, and returns its name."""
    wanted = "sceneOf(lastTick).hands[0].slice(0, 4).find((card) => scene.allows(card) && CARDS[card].kind === 'troop')"
    until(page, f"Boolean({wanted})")
    return str(page.evaluate(wanted))


PLACED = "moments[lastTick].scene.units.filter((unit) => unit.seat === 0 && unit.card === '{}').length > 0"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_card_is_dragged_to_a_tile(browser: Any, address: str, scheme: str) -> None:
    with playing(browser, address, color_scheme=scheme) as page:
        card = payable(page)
        page.mouse.move(*middle(page, card))
        page.mouse.down()
        page.mouse.move(*tile(page, 3, 10), steps=4)
        assert page.locator(".ghost").count() == 1 and page.locator(".open").count() == 30
        page.mouse.up()
        until(page, PLACED.format(card))
        until(page, "moments[lastTick].scene.units.some((unit) => unit.seat && CARDS[unit.card].kind === 'troop')")
        shot(page, f"lanes-1280-{scheme}")
        assert page.evaluate("moments[lastTick].scene.hands[1]") is None


def test_beyond_the_river_no_troop_is_placed_and_keys_do_it_too(browser: Any, address: str) -> None:
    with playing(browser, address, 390) as page:
        assert page.evaluate("document.querySelector('.lanes .grass').getBoundingClientRect().width") >= 330
        card = payable(page)
        number = page.evaluate("(card) => sceneOf(lastTick).hands[0].indexOf(card)", card) + 1
        # What is said is written down, since a later tick may have news before it is read here.
        written = "window.heard = []; new MutationObserver(() => heard.push(byId('said').textContent))"
        page.evaluate(f"() => {{ {written}.observe(byId('said'), {{ childList: true }}); }}")
        page.keyboard.press(str(number))
        page.mouse.click(*tile(page, 3, 25))
        until(page, "heard.some((words) => words.includes('cannot be placed on column 3, row 25'))")
        page.keyboard.press("ArrowLeft")
        for _ in range(15):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        until(page, PLACED.format(card))
        shot(page, "lanes-390")


@pytest.mark.slow
def test_a_card_is_placed_by_touch(browser: Any, address: str) -> None:
    touch = {"has_touch": True, "is_mobile": True, "color_scheme": "dark"}
    with playing(browser, address, 390, **touch) as page:
        card = payable(page)
        page.locator(f"[data-card={card}]").tap()
        page.touchscreen.tap(*tile(page, 14, 12))
        until(page, PLACED.format(card))
        shot(page, "lanes-390-dark")
        page.get_by_role("button", name="Give up").click()
        until(page, OVER)
        assert page.locator("#result").inner_text().startswith("You have lost.")
        shot(page, "lanes-after-390-dark")


@pytest.mark.parametrize(
    ("until_when", "played", "left"),
    [("Infinity", "[]", "'no'"), ("0", "[]", "''"), ("Infinity", "[CONTROLS[0].action]", "CONTROLS[0].label")],
)
def test_words_stand_until_they_are_read_or_there_is_news(page: Any, until_when: str, played: str, left: str) -> None:
    tick = f"readUntil = {until_when}; queue = []; moments[lastTick].played = {played}; drawControls({{}});"
    assert page.evaluate(f"() => {{ say('no'); {tick} return byId('said').textContent === {left}; }}")
