"""Fights of people in a real browser: by keyboard alone, by mouse, by touch, and in games of all kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.page import live_fight
from sb3_pvp.arena.store import Entrant
from tests.arena.page.browser import PATIENCE, opened
from tests.arena.page.pages import served
from tests.arena.page.test_page_browser import browser, shot

sync_api = pytest.importorskip("playwright.sync_api")
__all__ = ["browser"]  # a fixture
SECONDS = 0.15  #: Of a tick here.


@pytest.fixture(scope="module", autouse=True)
def fast() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_fight, "TICK", SECONDS)
        patch.setattr(live_fight, "COUNTDOWN", SECONDS)
        yield


@contextmanager
def arena_of(game: str, folder: Path, *scripts: str, **facts: Any) -> Iterator[str]:
    """Yields the address of an arena of a game."""
    with closing(Arena.create(folder / "arena", Challenge(name="here", game=game, **facts))) as arena:
        for script in scripts:
            arena.store.add(Entrant(script, "script", script, script, script, "the game"))
        with served(arena, guarded=False) as address:
            yield address


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with arena_of("NhEnv", tmp_path_factory.mktemp("nh"), "noop", "scripted") as address:
        yield address


def until(page: Any, said: str, act: Callable[[], object] = lambda: None, patience: int = PATIENCE) -> None:
    """Acts again and again until an expression is true; the page's policy forbids Playwright's own waiting."""
    deadline, is_true = time.monotonic() + patience / 1000, False
    while not is_true:
        assert time.monotonic() < deadline, said
        with suppress(sync_api.Error):  # the page is loading again, since the fight is over
            is_true = page.evaluate(said)
            if not is_true:
                act()
        time.sleep(0.03)


def begin(page: Any, address: str, opponent: str, **choices: str) -> None:
    page.goto(f"{address}/play")
    page.get_by_label("Opponent").select_option(opponent)
    for label, value in choices.items():
        page.get_by_label(label.replace("_", " ")).select_option(value)
    page.get_by_role("button", name="Fight", exact=True).click()
    page.wait_for_url("**/live/*")
    page.wait_for_selector("html[data-plays=true]")


OVER = "typeof after !== 'undefined' && Boolean(after) && Boolean(byId('result').textContent)"


def test_a_fight_by_keyboard_alone(browser: Any, address: str) -> None:
    with opened(browser) as page:
        page.goto(f"{address}/play")
        until(page, "document.activeElement.name === 'second'", lambda: page.keyboard.press("Tab"))
        page.keyboard.type("noop")
        until(page, "document.activeElement.name === 'name'", lambda: page.keyboard.press("Tab"))
        page.keyboard.type("Key Board")
        until(page, "document.activeElement.textContent === 'Fight'", lambda: page.keyboard.press("Tab"))
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-plays=true]")
        page.keyboard.press("F2")
        assert page.evaluate("document.activeElement.dataset.action") == "mage_prayer"
        page.keyboard.press("3")
        page.keyboard.press("1")  # the last one of a kind counts
        until(
            page,
            "lastTick > 1 && moments.some((each) => (each.played || []).includes('mage_prayer'))",
            lambda: page.keyboard.press("1"),
        )
        page.keyboard.press("1")
        page.keyboard.press("Escape")
        assert page.locator("#queue button").count() == 0

        def attack() -> None:
            for key in ("e", "r", "q"):
                page.keyboard.press(key)

        until(page, OVER, attack)
        assert page.locator("#result").inner_text().startswith("You have won.")
        assert page.locator("#figures dt").count() > 3
        shot(page, "after-1280")
        page.goto(f"{address}/play")
        assert "Key Board" in page.locator("table").inner_text()
        shot(page, "play-1280")


def click_at_the_left(page: Any) -> None:
    """Clicks on the map, unless it is being drawn again just now."""
    box = page.locator("#arena svg").bounding_box()
    if box is not None:
        page.mouse.click(box["x"] + 12, box["y"] + box["height"] / 2)


@pytest.mark.slow
def test_a_fight_by_mouse_with_a_reload_and_the_costliest_ticks(browser: Any, address: str) -> None:
    with opened(browser) as page:
        begin(page, address, "noop")  # by another one a person who does nothing is soon frozen, and dead
        button = page.locator("button[data-action=mage_prayer]")
        button.click()
        until(page, "moments.some((each) => (each.played || []).includes('mage_prayer'))", lambda: button.click())
        tick = page.evaluate("lastTick")
        page.reload()
        page.wait_for_selector("html[data-plays=true]")
        until(page, f"lastTick > {tick}")
        # A place on the map, beside the opponent, is a step there.
        until(
            page,
            "moments.some((each) => (each.played || []).some((one) => one.startsWith('farcast')))",
            lambda: click_at_the_left(page),
        )
        shot(page, "playing-1280")
        page.get_by_role("button", name="Give up").click()
        until(page, OVER)
        assert page.locator("#result").inner_text().startswith("You have lost.")
        # They are played on thousands of times: half a minute of a core.
        until(page, "/^(What cost|You always)/.test(byId('costly-said').textContent)", patience=5 * PATIENCE)
        page.get_by_role("link", name="Another opponent").click()
        page.wait_for_url("**/play")


@pytest.mark.slow
def test_a_drill_by_touch_on_a_phone(browser: Any, address: str) -> None:
    with opened(browser, 390, has_touch=True, is_mobile=True, color_scheme="dark") as page:
        page.goto(f"{address}/play")
        shot(page, "play-390")
        page.get_by_role("button", name="Prayer switching").tap()
        page.wait_for_selector("html[data-plays=true]")
        page.get_by_role("button", name="Prayer").tap()
        button = page.locator("button[data-action=ranged_prayer]")
        until(page, "moments.some((each) => (each.played || []).includes('ranged_prayer'))", lambda: button.tap())
        shot(page, "playing-390")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is too wide"
        until(page, OVER)
        assert "Prayer switching:" in page.locator("#result").inner_text()
        first = page.locator("#verdicts li").first
        assert "Tick" in first.inner_text()
        first.get_by_role("link").tap()
        until(page, "current > 0")
        shot(page, "after-390")


def test_keys_are_chosen_and_kept(browser: Any, address: str) -> None:
    with opened(browser) as page:
        begin(page, address, "noop")
        page.get_by_role("button", name="Keys").click()
        page.get_by_label("Key of Smite").press("p")
        page.get_by_label("Key of Food").press("4")  # it was that of smite
        shot(page, "keys")
        page.get_by_role("button", name="Done").click()
        assert page.evaluate("[keys.smite_prayer, keys.eat_primary_food]") == ["p", "4"]
        until(
            page,
            "moments.some((each) => (each.played || []).includes('smite_prayer'))",
            lambda: page.keyboard.press("p"),
        )
        page.reload()
        page.wait_for_selector("html[data-plays=true]")
        assert page.evaluate("[keys.smite_prayer, keys.eat_primary_food]") == ["p", "4"]
        page.get_by_role("button", name="Keys").click()
        page.get_by_role("button", name="As they were").click()
        assert page.evaluate("keys.eat_primary_food") == "a"


@pytest.mark.slow
def test_best_of_three_in_a_game_that_waits(browser: Any, tmp_path: Path) -> None:
    with (
        arena_of("examples.rock_paper_scissors:RockPaperScissors", tmp_path, "noop") as address,
        opened(browser) as page,
    ):
        begin(page, address, "noop", Best_of="3")
        time.sleep(5 * SECONDS)
        assert page.evaluate("lastTick") == 0 and page.locator("#goes").inner_text() == "It is your turn."
        page.keyboard.press("2")  # paper beats rock
        until(page, OVER)
        assert "Best of 3: 1 to 0" in page.locator("#result").inner_text()
        page.get_by_role("button", name="Next fight").click()
        page.wait_for_selector("html[data-plays=true]")
        page.get_by_role("button", name="paper").click()
        until(page, OVER)
        assert "Best of 3: 2 to 0" in page.locator("#result").inner_text()
        assert page.get_by_role("button", name="Again").is_visible()


@pytest.mark.slow
def test_connect_four_is_played_to_its_end_with_its_buttons(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("pettingzoo.classic")
    with arena_of("examples.connect_four:CONNECT_FOUR", tmp_path, "noop") as address, opened(browser) as page:
        begin(page, address, "noop")  # it always takes the first column, and wins if it is the one to begin
        column = page.locator("#pads .pad button").nth(3)

        def move() -> None:  # pressed twice it would be taken back
            if page.locator("#goes").inner_text() and not page.locator("#queue button").count():
                column.click()

        until(page, OVER, move)
        assert page.locator("#result").inner_text().startswith("You have ")
        shot(page, "connect-four")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(browser: Any, address: str, scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"color_scheme": scheme, "bypass_csp": True, "reduced_motion": "reduce"}
    # Where axe takes long, the fight may be over before it is given up.
    with opened(browser, width, "409 (Conflict)", **options) as page:

        def check(name: str) -> None:
            found = [each for each in axe.run(page).response["violations"] if each["impact"] in ("serious", "critical")]
            assert not [(each["id"], each["nodes"][0]["html"][:200]) for each in found], name
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is too wide"
            shot(page, f"{name}-{scheme}-{width}")

        page.goto(f"{address}/play")
        check("play")
        begin(page, address, "scripted")
        until(page, "lastTick > 2", lambda: page.keyboard.press("1"))
        check("playing")
        page.get_by_role("button", name="Give up").click()
        until(page, OVER)
        check("after")
