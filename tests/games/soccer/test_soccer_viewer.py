"""Matches as text, pictures and pages, and what a human may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import controls_of
from sb3_pvp.games.soccer import SOCCER_TWOS, STRIKERS_VS_GOALIE
from sb3_pvp.games.soccer.viewer import SoccerScene, SoccerViewer
from sb3_pvp.matches.replay import Recording, load_fight, record_fight, save_fight, write_replay_page
from sb3_pvp.matches.replay.page import events_of
from tests.games.soccer.test_soccer_world import new_world
from tests.matches.replay.browser import Tab, chromium

NAMES = ("Ann", "Ben")


@pytest.fixture(scope="module", params=["SoccerTwos-v0", "StrikersVsGoalie-v0"])
def match(request: pytest.FixtureRequest) -> Recording:
    return record_fight("positional", "striker", game=request.param, seed=11)


def scene_of_a_start() -> tuple[Any, SoccerScene]:
    world = new_world()
    world.places[0] = [(-8, 1), (-8, -1), (8, 1), (8, -1), (0, 0)]
    world.yaws[0] = [90, 0, 270, 180]
    world.speeds[0, 4] = (3, 0)
    world.look(np.array([0]))
    return world, SOCCER_TWOS.viewer.scene(world, 0, NAMES)  # type: ignore[return-value]


def test_a_scene_says_where_everybody_is_and_what_they_see() -> None:
    world, scene = scene_of_a_start()
    assert [(each.x, each.z, each.yaw) for each in scene.agents] == [
        (-8, 1, 90),
        (-8, -1, 0),
        (8, 1, 270),
        (8, -1, 180),
    ]
    assert (scene.ball, scene.ball_speed, scene.outcome, scene.names) == ((0, 0), (3, 0), "running", NAMES)
    front = scene.agents[0]
    assert front.met[0] == "b" and front.met[11] == "h"  # ahead: the ball; behind: the own goal
    np.testing.assert_allclose(front.reach, world.rays(0, 0)[:, -1] * 20, atol=0.051)
    assert scene.agents[1].met[11] == "w" and "t" in scene.agents[1].met


def test_a_match_begins_without_touches_of_the_last_one() -> None:
    world, _ = scene_of_a_start()
    world.places[0, 4] = (-7, 1)
    world.step(np.zeros((1, 2, 6), np.int64))
    assert any(each.touches for each in SOCCER_TWOS.viewer.scene(world, 0, NAMES).agents)  # type: ignore[attr-defined]
    world.reset()
    assert not any(each.touches for each in SOCCER_TWOS.viewer.scene(world, 0, NAMES).agents)  # type: ignore[attr-defined]


def test_text_shows_the_pitch() -> None:
    viewer, (_, scene) = SoccerViewer(SOCCER_TWOS.layout), scene_of_a_start()
    lines = viewer.text(scene, color=False).split("\n")
    assert lines[0] == "0.0 s, Ann against Ben: running"
    assert lines[9].index("o") == 35 and lines[8].index("1") == 19 and lines[10].index("4") == 51
    assert "1→" in lines[8] and "2↑" in lines[10] and "3←" in lines[8] and "4↓" in lines[10]
    colored = viewer.text(scene)
    assert "\x1b[94m1\x1b[0m" in colored and colored.count("\x1b[95m") == 5


def test_a_picture_shows_ball_and_teams() -> None:
    pytest.importorskip("pygame")
    viewer, (_, scene) = SoccerViewer(SOCCER_TWOS.layout), scene_of_a_start()
    picture = viewer.picture(scene)
    assert picture.shape == (450, 925, 3) and picture.dtype == np.uint8

    def pixel(x: float, z: float) -> tuple[int, ...]:
        return tuple(picture[round((8.5 - z) * 25), round((x + 18.5) * 25)].tolist())

    assert pixel(0, 0) == (250, 250, 250) and pixel(4, 4) == (46, 94, 58) and pixel(-17.9, 6) == (24, 28, 32)
    assert pixel(-7.4, 1) == (70, 140, 255)  # the nose of the first agent
    assert pixel(7.4, 1) == (190, 90, 235)
    assert np.array_equal(picture, viewer.picture(scene))
    goalie = SoccerViewer(STRIKERS_VS_GOALIE.layout).picture(scene)
    assert tuple(goalie[212, round((18.5 - 15.5) * 25)]) == (222, 230, 222)  # the wall before the goal


def test_a_recording_is_loaded_as_it_was(match: Recording, tmp_path: Path) -> None:
    save_fight(match, tmp_path / "match.fight")
    loaded = load_fight(tmp_path / "match.fight")
    assert [each.scene for each in loaded.moments] == [each.scene for each in match.moments]
    assert loaded.outcomes == match.outcomes and match.moments[-1].scene.outcome == match.outcomes[0]
    with pytest.raises(ValueError, match="ball"):
        SoccerViewer(SOCCER_TWOS.layout).read_scene({**vars(match.moments[0].scene), "ball": "here"})


def test_events_are_touches_and_the_end(match: Recording) -> None:
    *touches, end = events_of(match)
    assert touches and {each["kind"] for each in touches} == {"touch"}
    for each in touches:
        agents = {agent.name: agent for agent in match.moments[each["tick"]].scene.agents if agent.seat == each["seat"]}
        assert agents[each["text"].split()[-1]].touches
    assert end["text"] == "positional wins"


def test_a_human_plays_one_agent() -> None:
    controls = controls_of(SOCCER_TWOS.viewer, SOCCER_TWOS.contract)
    assert [group.label for group in controls] == ["run", "strafe", "turn"]
    keys = {each.key: each.action for group in controls for each in group.controls if each.key}
    assert keys == {
        "w": "agent0_forward", "s": "agent0_backward", "q": "agent0_left", "e": "agent0_right",
        "a": "agent0_turn_left", "d": "agent0_turn_right",
    }  # fmt: skip
    for group in SoccerViewer(STRIKERS_VS_GOALIE.layout).controls("goalie"):
        for each in group.controls:
            assert STRIKERS_VS_GOALIE.contract.action_index(each.action)[0] >= 6


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_the_page_draws_the_pitch(match: Recording, tab: Tab, tmp_path: Path) -> None:
    write_replay_page(match, tmp_path / "page.html")
    tab.open(tmp_path / "page.html", "tick=3")
    assert tab.value("document.documentElement.dataset.errors") == "0"
    agents = len(match.moments[0].scene.agents)
    assert tab.value("document.querySelectorAll('.pitch .agent').length") == agents
    assert tab.value("document.querySelectorAll('.pitch .trail').length") == 3
    assert tab.value("document.querySelectorAll('.pitch .ray').length") == 0
    tab.value("document.querySelector('#fighter1 .rays input').click()")
    rays = sum(len(each.reach) for each in match.moments[3].scene.agents if each.seat == 1)
    assert tab.value("document.querySelectorAll('.pitch .ray').length") == rays


def test_the_page_knows_the_angles_of_all_rays() -> None:
    script = SoccerViewer(STRIKERS_VS_GOALIE.layout).page()["script"]
    angles = json.loads(script.split("\n")[0].removeprefix("const ANGLES = ").removesuffix(";"))
    assert {position: len(each) for position, each in angles.items()} == {"striker": 14, "goalie": 41}
