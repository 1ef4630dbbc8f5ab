"""The page of a fight as one of the players sees it, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sb3_pvp.game import find_game, seen_scene
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.matches.replay import Recording, write_replay_page
from sb3_pvp.matches.replay.recording import Moment, RecordedPlayer, heads_of
from tests.matches.replay.browser import Tab, chromium

#: What only the other player knows.
UNKNOWN = ("prayer", "heals", "brew", "restore", "karambwan", "anglerfish", "levels", "Wears")


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    with chromium(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("name", ["NhEnv", "DharokEnv"])
def test_the_page_leaves_out_what_the_player_does_not_see(name: str, tab: Tab, tmp_path: Path) -> None:
    game, world, names = find_game(name), SimWorld(1, seed=4, contract=name), ("me", "it")
    world.reset()
    scenes = [seen_scene(game.viewer, world, 0, names, 0)]
    while len(scenes) < 40:
        world.step(world.random_actions())
        scenes.append(seen_scene(game.viewer, world, 0, names, 0))
    players = RecordedPlayer("me", "agent"), RecordedPlayer("it", "agent")
    moments = tuple(map(Moment, scenes))
    write_replay_page(
        Recording(name, heads_of(game.contract), players, ("tied", "tied"), moments), tmp_path / "seen.html"
    )
    launched = [tick for tick, scene in enumerate(scenes) if scene.fighters[1].attack]
    for tick in (0, launched[0], 39):
        tab.open(tmp_path / "seen.html", f"tick={tick}")
        mine, its = (tab.value(f"document.getElementById('fighter{seat}').innerText") for seat in (0, 1))
        assert "heals" in mine and "prayer" in mine and "special" in its
        assert [word for word in UNKNOWN if word in its.replace("no overhead prayer", "")] == []
        assert "dead" not in its and "0/" not in its
        said = tab.value("[...document.querySelectorAll('#arena .said')].map(each => each.textContent).join()")
        assert ("attacks" in said) == (tick == launched[0] or bool(scenes[tick].fighters[1].attack))
        assert tab.value("document.documentElement.dataset.errors") == "0"
