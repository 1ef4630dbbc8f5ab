from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sb3_pvp.game import game as games
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.replay import Recording, load_fight, save_fight, show_fight, write_replay_page
from sb3_pvp.matches.replay.page import events_of, replay_page, short_labels
from sb3_pvp.matches.replay.recording import (
    Choice,
    Decision,
    Future,
    HeadChoices,
    Moment,
    Outlook,
    RecordedPlayer,
    recording_to_plain,
)
from tests.matches.replay.browser import Tab, chromium
from tests.paths import ROOT

EVIL = "</script><img src=x onerror=\"document.title='broken'\"><!--<script>&amp;\u2028'\""


def named(recording: Recording, name: str) -> Recording:
    """The same fight with another name of the first player."""
    first, second = recording.players
    return replace(recording, players=(replace(first, name=name), second))


class Parts(html.parser.HTMLParser):
    """What a browser would find in a page: tags, attributes, and the text of the first element of each kind."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1] if self.tags else "", data)


def test_the_page_needs_nothing_else(fight: Recording) -> None:
    page = replay_page(fight)
    parts = Parts(page)
    assert {"link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(parts.tags)
    assert {"src", "href", "srcset", "action", "data", "style"}.isdisjoint(name for name, _ in parts.attributes)
    addresses = set(re.findall(r"\w+://[^\s\"'`<]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a namespace, which is never requested
    assert "url(" not in page and "@import" not in page and "import(" not in page and "fetch(" not in page
    policy = dict(parts.attributes)["content"]
    assert "default-src 'none'" in page and "unsafe" not in page and policy is not None


def test_the_page_holds_the_recording(fight: Recording) -> None:
    assert json.loads(Parts(replay_page(fight)).texts["script"])["recording"] == recording_to_plain(fight)


def test_names_cannot_become_markup(fight: Recording) -> None:
    parts = Parts(replay_page(named(fight, EVIL)))
    assert parts.tags.count("script") == 2 and "img" not in parts.tags
    assert json.loads(parts.texts["script"])["recording"]["players"][0]["name"] == EVIL


def test_labels_are_short_and_unique() -> None:
    for contract in map(load_contract, ("NhEnv", "DharokEnv")):
        for head in contract.heads:
            labels = short_labels([action.id for action in head.actions], head.id)
            assert len(set(labels)) == len(labels) and max(map(len, labels)) <= 12
    assert short_labels(["no_op_attack", "mage_attack", "ranged_attack"], "attack") == ["none", "mage", "ranged"]


def fighters_say(recording: Recording, tick: int, seat: int, **changes: Any) -> Recording:
    """The same fight with something else in one tick."""
    moments = list(recording.moments)
    scene = moments[tick].scene
    fighters = list(scene.fighters)
    fighters[seat] = replace(fighters[seat], **changes)
    moments[tick] = replace(moments[tick], scene=replace(scene, fighters=tuple(fighters)))
    return replace(recording, moments=tuple(moments))


def test_events_describe_the_fight(fight: Recording) -> None:
    before = fight.moments[4].scene.fighters[0]
    calm = {"attack": None, "special_energy": before.special_energy, "food": {"shark": 2}, "hitsplats": ()}
    still = replace(fighters_say(fight, 4, 0, **calm), moments=fighters_say(fight, 4, 0, **calm).moments[:5])
    quiet = replace(still, moments=(still.moments[4], still.moments[4]))
    end = {"tick": 1, "kind": "end", "seat": None}
    assert events_of(quiet) == [{**end, "text": "the time is up, without a winner"}]
    hurt = {"food": {"shark": 1}, "hitsplats": (3, 0), "frozen_ticks": before.frozen_ticks + 9, "hitpoints": 0}
    found = events_of(fighters_say(quiet, 1, 0, **hurt))
    assert [(each["kind"], each["seat"], each.get("amount", 0)) for each in found] == [
        ("damage", 0, 3),
        ("freeze", 0, before.frozen_ticks + 9),
        ("death", 0, 0),
        ("food", 0, 1),
        ("end", None, 0),
    ]
    assert found[0]["text"] == "takes 3 + 0, 0 left" and found[3]["text"] == "eats shark (1 left)"
    won = replace(quiet, outcomes=("lost", "won"))
    assert events_of(won)[-1]["text"] == f"{fight.players[1].name} wins"
    start, last = quiet.moments
    tied = replace(quiet, moments=(start, replace(last, scene=replace(last.scene, outcome="tied"))))
    (ending,) = events_of(tied)
    assert ending["text"] == "the fight is tied: both fighters died, or one has no food left"


def test_attacks_and_damage_are_counted_once(fight: Recording) -> None:
    events = events_of(fight)
    scenes = [moment.scene for moment in fight.moments]
    launched = sum(fighter.attack is not None for scene in scenes[1:] for fighter in scene.fighters)
    assert sum(bool(event.get("style")) for event in events) == launched > 0
    shown = sum(sum(fighter.hitsplats) for scene in scenes[1:] for fighter in scene.fighters)
    assert sum(event["amount"] for event in events if event["kind"] == "damage") == shown > 0


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture
def page(fight: Recording, tmp_path: Path) -> Path:
    write_replay_page(fight, tmp_path / "fight.html")
    return tmp_path / "fight.html"


#: What the page shows of one fighter, as plain values.
SHOWN = """(seat => {
  const panel = document.getElementById("fighter" + seat);
  const heads = [...panel.querySelectorAll(".head")];
  return {
    numbers: [...panel.querySelectorAll(".bar .number")].map(each => each.textContent),
    hitpoints: parseFloat(panel.querySelector(".hp .fill").style.width),
    weights: heads.map(head => Object.fromEntries([...head.querySelectorAll(".cell")].map(
      cell => [cell.dataset.entry, parseFloat(cell.querySelector(".weight").style.width)]))),
    chosen: heads.map(head => [...head.querySelectorAll(".cell")].map(each => each.classList.contains("chosen"))),
    masked: heads.map(head => [...head.querySelectorAll(".cell")].map(each => each.classList.contains("masked"))),
  };
})"""


def errors(tab: Tab) -> Any:
    return tab.value("[document.documentElement.dataset.errors, document.documentElement.dataset.error]")


def tick(tab: Tab) -> int:
    return int(tab.value("document.documentElement.dataset.tick"))


def test_the_browser_shows_the_recording(tab: Tab, page: Path, fight: Recording) -> None:
    for shown_tick in (1, 20, len(fight.moments) - 1):
        tab.open(page, f"tick={shown_tick}")
        assert tick(tab) == shown_tick and errors(tab) == ["0", None]
        for seat, fighter in enumerate(fight.moments[shown_tick].scene.fighters):
            shown, decision = tab.value(f"{SHOWN}({seat})"), fight.moments[shown_tick].decisions[seat]
            assert decision is not None and decision.open is not None and decision.probabilities is not None
            assert shown["numbers"][0] == f"{fighter.hitpoints}/{fighter.max_hitpoints}"
            assert shown["numbers"][1] == f"{fighter.prayer}/{fighter.max_prayer}"
            assert shown["hitpoints"] == pytest.approx(min(100 * fighter.hitpoints / fighter.max_hitpoints, 100), 1e-3)
            for number, head in enumerate(fight.heads):
                likely = decision.probabilities[number]
                expected = {choice.id: 100 * likely.get(choice.id, 0) for choice in head.choices}
                assert shown["weights"][number] == pytest.approx(expected, abs=0.006)
                assert [bit == "0" for bit in decision.open[number]] == shown["masked"][number]
                assert shown["chosen"][number].index(True) == decision.chosen[number]


def test_what_a_world_model_expects_is_beside_what_came(tab: Tab, fight: Recording, tmp_path: Path) -> None:
    future = Future((0.5,) * 10, tuple(0.9**step for step in range(1, 11)), {"some_number": (*map(float, range(11)),)})
    seen = [replace(moment, outlooks=(Outlook(1.0, None, future), None)) for moment in fight.moments]
    write_replay_page(replace(fight, moments=tuple(seen)), tmp_path / "future.html")
    last = len(fight.moments) - 1
    for shown_tick, came in ((5, 11), (last - 4, 5), (last, 1)):
        tab.open(tmp_path / "future.html", f"tick={shown_tick}")
        assert errors(tab) == ["0", None] and not tab.value("document.querySelector('#fighter1 .future')")
        rows = tab.value(
            "[...document.querySelectorAll('#fighter0 .expectation')].map(row => "
            "[row.firstChild.textContent, ...[...row.querySelectorAll('path')].map(path => path.getAttribute('d'))])"
        )
        assert [row[0] for row in rows] == ["reward", "still on", "some number"]
        # Eleven points of what is expected, as many of what came as the recording has.
        assert [len(re.findall("[ML]", part)) for part in rows[2][1:]] == [came, 11]
        assert [len(re.findall("[ML]", part)) for part in rows[0][1:]] == [came - 1, 10]


@pytest.mark.parametrize("width", [1280, 1000, 700, 400])
def test_no_label_is_cut(tab: Tab, page: Path, width: int) -> None:
    tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    tab.open(page, "tick=20")
    labels = "[...document.querySelectorAll('.cell span')]"
    assert tab.value(f"{labels}.length") > 100
    assert (
        tab.value(f"{labels}.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)") == []
    )
    assert tab.value("document.documentElement.scrollWidth") <= width
    tab.ask("Emulation.clearDeviceMetricsOverride")


def test_a_notebook_shows_the_page_inside_its_own(tab: Tab, fight: Recording, tmp_path: Path) -> None:
    notebook = tmp_path / "notebook.html"
    found = show_fight(fight, height=500)
    assert len(repr(found)) < 50, "a notebook keeps this beside the page"
    shown = found._repr_html_()
    told = "<script>document.documentElement.dataset.tick = 'none'</script>"  # which the tab waits for
    notebook.write_text(f"<!doctype html><meta charset=utf-8><body>{told}{shown}</body>", encoding="utf-8")
    tab.open(notebook)
    assert tab.value("document.querySelector('iframe').getBoundingClientRect().height") == 500
    assert tab.value("document.querySelector('iframe').srcdoc") == replay_page(fight)


def test_what_the_script_of_a_game_may_set_is_documented() -> None:
    source = (ROOT / "sb3_pvp/matches/replay/data/fight.js").read_text(encoding="utf-8").partition("const scene = {")[2]
    names = re.findall(r"^  (\w+):", source, re.MULTILINE)
    assert len(names) == 9
    text = (ROOT / "docs/replay.md").read_text(encoding="utf-8")
    assert all(f"| `scene.{name} = " in text for name in names)


def test_controls_and_keys(tab: Tab, page: Path, fight: Recording) -> None:
    last = len(fight.moments) - 1
    tab.open(page, "tick=10&speed=16")
    steps = {"forward": 11, "last": last, "back": last - 1, "first": 0}
    for button, expected in steps.items():
        tab.value(f"document.getElementById('{button}').click()")
        assert tick(tab) == expected
    for key, expected in (("End", last), ("ArrowLeft", last - 1), ("Home", 0), ("ArrowRight", 1)):
        tab.press(key)
        tab.wait_for(f"document.documentElement.dataset.tick === '{expected}'")
    tab.press(" ")
    tab.wait_for("Number(document.documentElement.dataset.tick) > 3")
    assert tab.value("document.getElementById('play').getAttribute('aria-label')") == "Pause"
    tab.press(" ")
    tab.wait_for("document.documentElement.dataset.playing === 'false'")
    tab.value("document.getElementById('play').click()")
    tab.wait_for(f"document.documentElement.dataset.tick === '{last}'")
    tab.wait_for("document.documentElement.dataset.playing === 'false'")
    tab.value("scrubber.value = 5; scrubber.dispatchEvent(new Event('input'))")
    assert tick(tab) == 5 and tab.value("clock.textContent") == f"tick 5 / {last}"
    tab.value("location.hash = '#tick=7'")
    tab.wait_for("document.documentElement.dataset.tick === '7'")
    unnamed = "[...document.querySelectorAll('button, input, select')].filter(each => !each.getAttribute('aria-label'))"
    assert tab.value(f"{unnamed}.length") == 0
    assert errors(tab) == ["0", None]


def test_the_browser_takes_names_as_text(tab: Tab, fight: Recording, tmp_path: Path) -> None:
    write_replay_page(named(fight, EVIL), tmp_path / "evil.html")
    tab.open(tmp_path / "evil.html", "tick=30")
    assert tab.value("document.querySelector('#fighter0 h2 span').textContent") == EVIL
    assert tab.value("document.querySelectorAll('img').length") == 0
    assert tab.value("document.title").startswith("</script>")
    assert errors(tab) == ["0", None]


@dataclass(frozen=True)
class Score:
    """A scene of another game."""

    points: int


class ScoreViewer:
    """The least that a viewer has."""

    def read_scene(self, plain: Any) -> Score:
        return Score(plain["points"])

    def events(self, scenes: list[Score]) -> list[dict[str, Any]]:
        return [{"tick": 1, "kind": "point", "seat": 0, "text": f"has {scenes[1].points}"}]

    def page(self) -> dict[str, str]:
        return {"script": "", "style": ""}


def test_another_game_needs_no_script(tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(games._games, "Coins", SimpleNamespace(name="Coins", viewer=ScoreViewer()))
    heads = (HeadChoices("side", "of a coin", (Choice("up", "heads"), Choice("down", "tails"))),)
    moments = Moment(Score(0)), Moment(Score(1), (Decision((1,)), None))
    players = RecordedPlayer("ann", "agent"), RecordedPlayer("bob", "bot")
    save_fight(Recording("Coins", heads, players, ("tied", "tied"), moments), tmp_path / "coins.json.gz")
    write_replay_page(load_fight(tmp_path / "coins.json.gz"), tmp_path / "coins.html")
    tab.open(tmp_path / "coins.html", "tick=1")
    assert tab.value("summary.textContent") == "After 1 ticks the fight is tied."
    assert tab.value("log.innerText.split('\\n').filter(Boolean).join('; ')") == "1ann has 1; 1the fight is tied"
    assert tab.value("document.querySelector('#fighter0 .chosen').dataset.entry") == "down"
    assert errors(tab) == ["0", None]


def test_the_policy_of_the_page_is_in_force(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.value(
        "document.body.append(Object.assign(document.createElement('img'), {src: 'data:image/gif;base64,R0lGOD'}))"
    )
    tab.wait_for("document.documentElement.dataset.errors === '1'")
    assert "img-src" in errors(tab)[1]
