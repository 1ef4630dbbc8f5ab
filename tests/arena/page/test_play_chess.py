"""A person plays chess in a real browser: by mouse, touch and keyboard, with either color, and promotes a pawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.arena.page.browser import opened
from tests.arena.page.test_page_browser import browser, shot
from tests.arena.page.test_play_browser import OVER, arena_of, begin, fast, until

__all__ = ["browser", "fast"]  # fixtures

FEN = "moments[lastTick].scene.fen.split(' ')[0]"
TURN = "byId('goes').textContent === 'It is your turn.'"


@contextmanager
def playing(browser: Any, folder: Path, width: int = 1280, options: Any = None, **params: Any) -> Iterator[Any]:
    """Yields the page of a game against random moves."""
    with (
        arena_of("ChessPvP-v0", folder, "random", reset_params=params) as address,
        opened(browser, width, **options or {}) as page,
    ):
        begin(page, address, "random")
        until(page, TURN)
        yield page


def square(page: Any, name: str) -> Any:
    return page.locator(f"[data-square={name}]")


def test_by_mouse_only_legal_moves_are_made(browser: Any, tmp_path: Path) -> None:
    with playing(browser, tmp_path, white="first") as page:
        square(page, "e4").click()
        assert page.locator("#said").inner_text() == "Nothing of yours can move from e4."
        square(page, "e2").click()
        assert page.locator(".target").count() == 2 and "From e2" in page.locator("#said").inner_text()
        shot(page, "chess-1280")
        square(page, "e5").click()  # where the pawn cannot go
        assert page.locator(".target").count() == 0 and page.evaluate("lastTick") == 0
        square(page, "g1").click()
        square(page, "e2").click()  # another piece
        square(page, "e4").click()
        until(page, f"lastTick > 1 && {TURN}")
        assert page.evaluate("moments[1].scene.move") == "e2e4" and page.evaluate("moments[1].played") == ["e2e4"]
        assert "e2-e4" in page.locator("#log").text_content()


@pytest.mark.slow
def test_black_plays_by_keyboard_on_a_turned_board(browser: Any, tmp_path: Path) -> None:
    with playing(browser, tmp_path, white="second") as page:
        assert page.evaluate("lastTick") == 1
        first = page.locator("[data-square]").first
        assert first.get_attribute("data-square") == "h1"
        page.keyboard.type("e7e")
        assert page.locator("#said").inner_text() == "e7e…" and page.locator(".target").count() == 2
        page.keyboard.press("Escape")
        assert page.locator(".target").count() == 0
        page.keyboard.type("e7e5")
        until(page, f"lastTick > 2 && {TURN}")
        assert page.evaluate("[moments[2].scene.move, moments[2].played]") == ["e7e5", ["e2e4"]]
        shot(page, "chess-black-1280")
        page.get_by_role("button", name="Give up").click()
        until(page, OVER)
        assert page.locator("#result").inner_text().startswith("You have lost.")
        shot(page, "chess-after-1280")


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["queen", "knight"])
def test_a_pawn_becomes_what_is_chosen_on_a_phone(browser: Any, tmp_path: Path, piece: str) -> None:
    touch = {"has_touch": True, "is_mobile": True, "color_scheme": "dark"}
    start = "7k/P7/8/8/8/8/p6P/7K w - - 0 1"
    with playing(browser, tmp_path, 390, touch, fen=start, white="first") as page:
        square(page, "a7").tap()
        square(page, "a8").tap()
        assert page.locator("[data-piece]").count() == 4 and page.evaluate("lastTick") == 0
        shot(page, "chess-promotion-390")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is too wide"
        if piece == "queen":
            page.keyboard.press("q")
        else:
            page.locator("[data-piece=n]").tap()
        until(page, "lastTick > 0")
        letter = {"queen": "Q", "knight": "N"}[piece]
        assert page.evaluate("moments[1].scene.fen").startswith(f"{letter}6k/8/")
        assert f"a7-a8={letter}" in page.locator("#log").text_content()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.slow), (390, "dark")])
def test_axe_finds_nothing_serious(browser: Any, tmp_path: Path, scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"color_scheme": scheme, "bypass_csp": True}
    with playing(browser, tmp_path, width, options, white="first") as page:
        page.keyboard.type("g1")
        found = [each for each in axe.run(page).response["violations"] if each["impact"] in ("serious", "critical")]
        assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is too wide"
        shot(page, f"chess-{scheme}-{width}")
