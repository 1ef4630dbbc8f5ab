"""What a human may do in a game, and what one sees of it live, also in games without a viewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.matrix_games import ROCK_PAPER_SCISSORS
from sb3_pvp.common.arguments import from_plain
from sb3_pvp.envs import PvpEnv
from sb3_pvp.game import (
    Control,
    ControlGroup,
    PlainViewer,
    Viewer,
    controls_of,
    find_game,
    live_scene,
    made_controls,
    make_world,
    pressed_actions,
    seen_scene,
)
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.viewer import PlainScene, draws_pictures
from tests.game.contract.random_contracts import contracts
from tests.game.team_game import CONTRACT, CoinsForTwo

NAMES = ("Ann", "Ben")


class Buttons(Viewer):
    """The viewer of a stranger, with these controls."""

    def __init__(self, *groups: ControlGroup) -> None:
        self.groups = groups

    def controls(self) -> Sequence[ControlGroup]:
        return self.groups


def test_a_viewer_says_what_a_human_may_do() -> None:
    sides = ControlGroup(
        "Sides", (Control("first_tails", "Tails", "ArrowDown"), Control("first_heads", "Heads", "ArrowUp")), "grid", 1
    )
    assert controls_of(Buttons(sides), CONTRACT) == (sides,)
    assert live_scene(sides) == {
        "label": "Sides",
        "controls": [
            {"action": "first_tails", "label": "Tails", "key": "ArrowDown"},
            {"action": "first_heads", "label": "Heads", "key": "ArrowUp"},
        ],
        "shape": "grid",
        "columns": 1,
    }


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (
            ControlGroup("", (Control("frist_heads", "Heads"),)),
            "unknown sub-action 'frist_heads' .did you mean 'first_h",
        ),
        (
            ControlGroup("", (Control("first_heads", "Heads", "h"), Control("second_heads", "Heads", "h"))),
            "the key 'h' is given to 2 controls of coins_for_two",
        ),
        (
            ControlGroup("Board", (Control("first_heads", "Heads"),), "grid"),
            "the grid of controls 'Board' needs a number",
        ),
        (
            ControlGroup("", (Control("first_heads", "Heads", also=("frist_tails",)),)),
            "unknown sub-action 'frist_tails'",
        ),
        (
            ControlGroup("", (Control("first_heads", "Both", also=("first_tails",)),)),
            "the control 'Both' makes two choices in one head of coins_for_two",
        ),
    ],
)
def test_controls_that_do_not_fit_are_refused_in_one_line(group: ControlGroup, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        controls_of(Buttons(group), CONTRACT)
    assert "\n" not in str(raised.value)


@given(contracts())
def test_without_a_viewer_everything_in_the_contract_can_be_done(contract: Contract) -> None:
    for viewer in (None, PlainViewer(contract), Buttons.__new__(Viewer)):
        groups = controls_of(viewer, contract)
        assert [len(group.controls) for group in groups] == [*contract.head_sizes]
        controls = [control for group in groups for control in group.controls]
        assert [contract.flat_index(control.action) for control in controls] == [*range(contract.num_flat_actions)]
        keys = [control.key for control in controls if control.key]
        assert len({*keys}) == len(keys) == min(len(controls), 35)


def test_installed_games_can_be_played_by_a_human() -> None:
    for name in ("NhEnv", "DharokEnv"):
        game = find_game(name)
        assert controls_of(game.viewer, game.contract)[0].label == "Attack"


def test_a_game_without_a_viewer_is_shown_by_its_contract() -> None:
    world = make_world(CoinsForTwo, "sim", 2, seed=3)
    world.reset()
    viewer = PlainViewer(world.contract)
    start = viewer.scene(world, 1, NAMES)
    assert (start.tick, start.outcome, start.chosen) == (0, "running", (None, None))
    coins = ("first_coin", "first_plays", "second_coin", "second_plays")
    assert start.seen[0] == dict(zip(coins, world.obs[1, 0].tolist(), strict=True))
    actions = world.contract.random_action(world.masks, np.random.default_rng(0))
    world.step(actions)
    scene = viewer.scene(world, 1, NAMES, tuple(actions[1]))
    assert scene.outcome in ("won", "lost", "tied")
    assert scene.chosen[0] is not None and len(scene.chosen[0]) == 2
    sent = orjson.loads(orjson.dumps(live_scene(scene)))
    assert from_plain(PlainScene, sent) == scene
    text = viewer.text(scene)
    assert text.startswith("tick 1, Ann against Ben: ") and "Ben has chosen" in text
    with pytest.raises(ValueError, match="coins_for_two has no pictures"):
        viewer.picture(scene)


def test_a_human_is_shown_the_own_seat_only() -> None:
    world = make_world(CoinsForTwo, "sim", 1, seed=3)
    world.reset()
    actions = np.zeros((1, 2, 2), np.int64)
    world.step(actions)
    scene = PlainViewer(world.contract, seats=[0]).scene(world, 0, NAMES, tuple(actions[0]))
    for shown in (scene.seen, scene.legal, scene.chosen):
        assert shown[0] is not None and shown[1] is None
    assert "Ben sees" not in PlainViewer(world.contract).text(scene)
    for viewer in (None, PlainViewer(world.contract), Buttons.__new__(Viewer)):
        assert seen_scene(viewer, world, 0, NAMES, 0, tuple(actions[0])) == scene


def _pressed(mask: NDArray[np.bool_], *ids: str, idle: Sequence[str] = ()) -> list[int]:
    # Coins of the first head are thrown together with the second one's.
    both = {"both": Control("first_heads", "", also=("second_heads",))}
    return [*pressed_actions(CONTRACT, mask, [both.get(each, Control(each, "")) for each in ids], idle)]


def test_the_last_pressed_of_a_kind_is_played() -> None:
    mask = np.ones(CONTRACT.num_flat_actions, bool)
    assert _pressed(mask) == [0, 0]
    assert _pressed(mask, "both") == [1, 1]
    assert _pressed(mask, "first_tails", "both") == [1, 1]
    assert _pressed(mask, "both", "first_tails") == [0, 0]  # as a whole
    assert _pressed(mask, "second_heads", "first_heads") == [1, 1]
    mask[CONTRACT.flat_index("second_heads")] = False
    assert _pressed(mask, "first_heads", "both") == [1, 0]
    assert _pressed(mask, "first_heads", "second_heads", idle=["second_heads"]) == [1, 0]
    mask[:] = True
    assert _pressed(mask, "first_tails", idle=["first_heads", "second_heads"]) == [0, 1]
    mask[CONTRACT.flat_index("first_tails")] = False
    assert _pressed(mask) == [0, 0]  # masked, but nothing was pressed


@given(contracts(), st.data())
def test_what_is_pressed_breaks_no_rule(contract: Contract, data: st.DataObject) -> None:
    mask = np.ones(contract.num_flat_actions, bool)
    ids = [action.id for head in contract.heads for action in head.actions]
    pressed = data.draw(st.lists(st.sampled_from(ids), max_size=6))
    played = pressed_actions(contract, mask, [Control(each, "") for each in pressed])
    for head in range(contract.num_heads):
        assert contract.conditional_mask(mask, played[:head])[played[head]]


def test_a_control_is_made_with_all_that_goes_with_it() -> None:
    both, first = Control("first_heads", "", also=("second_heads",)), Control("first_heads", "")
    assert made_controls(CONTRACT, (1, 1), [both, first]) == [both, first]
    assert made_controls(CONTRACT, (1, 0), [both, first]) == [first]
    assert made_controls(CONTRACT, (0, 1), [both, first]) == []


def test_a_live_scene_of_our_fights_is_read_back() -> None:
    game = find_game("NhEnv")
    viewer: Any = game.viewer
    world = make_world(game, "sim", 1, seed=0)
    world.reset()
    for _ in range(5):
        actions = world.contract.random_action(world.masks, np.random.default_rng(0))
        world.step(actions)
        scene = viewer.scene(world, 0, NAMES)
        assert live_scene(viewer.read_scene(live_scene(scene))) == live_scene(scene)


def test_every_game_can_be_rendered_as_text() -> None:
    env = PvpEnv(game=ROCK_PAPER_SCISSORS, opponent="champion", render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    assert isinstance(text, str) and text.startswith("tick 0, learner against champion: running")
    env.step(np.zeros(1, np.int64))
    assert "learner has chosen" in str(env.render())


class Texts(Viewer):
    """As docs/own-game.md shows it: without pictures."""

    def scene(self, *given: Any) -> PlainScene:
        return PlainViewer(CONTRACT).scene(*given)

    def text(self, scene: PlainScene, color: bool = True) -> str:
        return scene.outcome


def test_a_viewer_without_pictures_says_so() -> None:
    pytest.importorskip("pygame")

    class Told(CoinsForTwo):
        viewer = Texts()

    assert not draws_pictures(Texts()) and draws_pictures(find_game("NhEnv").viewer) and not draws_pictures(None)
    assert not draws_pictures(PlainViewer(CONTRACT))
    for mode in ("rgb_array", "human"):
        env = PvpEnv(game=Told(), render_mode=mode)
        with pytest.raises(ValueError, match=r"Texts draws no pictures: give it picture\(\), or .*render_mode='ansi'"):
            env.reset()
            env.render()
