"""The page of an arena in a real browser: what moves, what a keyboard reaches, and what axe finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page import uploads
from sb3_pvp.policies.files.shipped import shipped_file
from tests.arena.page.browser import PATIENCE, chromium, opened
from tests.arena.page.pages import served

sync_api = pytest.importorskip("playwright.sync_api")
#: A folder for screenshots to look at, if it is set.
SHOTS = os.environ.get("SB3_PVP_SHOTS")


@pytest.fixture(scope="module")
def address(arena: Arena) -> Iterator[str]:
    with served(arena) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    with sync_api.sync_playwright() as playwright:
        # Debian's Chromium cannot make a sandbox for root, as whom tests run in containers.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with opened(browser, refused="the server responded with a status of 4") as page:
        yield page


def shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


def names(page: Any) -> list[str]:
    return [row.get_attribute("data-player") for row in page.locator("#table tbody tr:visible").all()]


def test_the_table_sorts_and_filters(page: Any, address: str) -> None:
    page.goto(address)
    assert names(page) == ["level-8", "level-5", "level-2"]
    shot(page, "leaderboard")
    page.get_by_role("button", name="Player").click()
    assert names(page) == ["level-2", "level-5", "level-8"]
    page.get_by_role("button", name="Player").press("Enter")
    assert names(page) == ["level-8", "level-5", "level-2"]
    assert page.locator("th[aria-sort=descending]").inner_text() == "Player"
    page.get_by_role("button", name="Rating").click()
    assert names(page) == ["level-8", "level-5", "level-2"]
    page.get_by_label("Search").fill("5")
    assert names(page) == ["level-5"]
    assert page.get_by_text("1 of 3 players").is_visible()


def test_a_live_fight_moves_and_ends_for_all_viewers(page: Any, browser: Any, address: str) -> None:
    page.goto(f"{address}/live")
    page.get_by_label("First").select_option("level-8")
    page.get_by_label("Second").select_option("level-2")
    page.get_by_label("wait until I say go").press(" ")
    page.get_by_role("button", name="Fight").press("Enter")
    page.wait_for_url("**/live/*")
    page.wait_for_selector("html[data-state=paused]")
    paused = page.evaluate("lastTick")
    other = browser.new_context().new_page()
    other.set_default_timeout(PATIENCE)
    other.goto(page.url)
    other.wait_for_selector("html[data-state=paused]")
    assert other.evaluate("lastTick") == paused and not other.get_by_role("button", name="Go on").is_visible()
    page.get_by_role("button", name="One tick", exact=True).click()
    for each in (page, other):
        each.wait_for_selector(f"html[data-tick='{paused + 1}']")
    shot(page, "live")
    page.locator("#pace").select_option("8.0")
    page.get_by_role("button", name="Go on").click()
    for each in (page, other):
        each.wait_for_selector("html[data-state=over]")
        assert each.evaluate("document.documentElement.dataset.errors") == "0"
        assert each.evaluate("current === lastTick && lastTick === 6")
        assert "fter 6 ticks" in each.locator("#summary").inner_text()
    page.get_by_text("The fight as text").click()
    assert page.locator("#lines p").count() == 7 and "Tick 6" in page.locator("#lines p").last.inner_text()
    other.context.close()


def test_a_match_leads_to_its_replay(page: Any, address: str) -> None:
    page.goto(f"{address}/players/level-8")
    shot(page, "player")
    page.locator("a[href^='/matches/']").first.click()
    shot(page, "match")
    page.get_by_role("link", name="watch").first.click()
    page.wait_for_url("**/replays/**")
    assert page.evaluate("[document.documentElement.dataset.errors, lastTick, current]") == ["0", 6, 0]
    page.keyboard.press("End")
    assert page.evaluate("current") == 6
    shot(page, "replay")


def test_players_are_sent_with_a_token(page: Any, address: str, arena: Arena) -> None:
    path = shipped_file("generalist")
    assert path is not None
    page.goto(f"{address}/challenge")
    page.get_by_label("Token").fill("wrong")
    page.get_by_label("File").set_input_files(path)
    page.get_by_role("button", name="Send").click()
    page.get_by_text("a token of the owner of this arena is needed").wait_for()
    page.get_by_label("Token").fill(uploads.add_token(arena, "ann"))
    page.get_by_role("button", name="Send").click()
    page.get_by_text("NhEnv").wait_for()  # it is a fighter of another game


def test_everything_is_reached_by_keyboard(page: Any, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"Rank", "Rating", "level-8", "level-2"} <= reached


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(browser: Any, address: str, scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # The checker is a script of another place, which the policy of the pages forbids.
    size = {"width": width, "height": 844}
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    api = context.request
    fight = api.post(f"{address}/api/live", data={"first": "level-8", "second": "level-5"}).json()
    key = api.get(f"{address}/api/matches").json()[0]["key"]
    replay = api.get(f"{address}/api/matches/{key}").json()["fights"][0]["key"]
    places = ["", "players/level-8", f"matches/{key}", f"replays/{replay}", "challenge", "live", f"live/{fight['id']}"]
    for place in [*places, "nowhere"]:
        page.goto(f"{address}/{place}")
        found = [each for each in axe.run(page).response["violations"] if each["impact"] in ("serious", "critical")]
        serious = [(each["id"], each["nodes"][0]["html"][:200]) for each in found]
        assert not serious, place
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} is too wide"
        letters = page.evaluate(
            "[...document.querySelectorAll('.chart-wide text')].map(it => it.getBoundingClientRect().height)"
        )
        assert min(letters, default=14) >= 11, f"letters in the charts of {place} are too small to read"
        shot(page, f"{place.split('/')[0] or 'leaderboard'}-{scheme}-{width}")
    context.close()
