"""What players of the lanes see, and what not; bad tables and decks; text, pictures, pages and controls."""

from __future__ import annotations

import json
import pickle
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import controls_of
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.lanes import LANES, LANES_PIXELS, LanesGame, lanes_pixels, read_cards
from sb3_pvp.games.lanes.cards import NUM_TOWERS, own_cards
from sb3_pvp.games.lanes.layout import vector_contract
from sb3_pvp.games.lanes.params import STANDARD
from sb3_pvp.games.lanes.rules import X, Y
from sb3_pvp.games.lanes.viewer import LanesViewer
from tests.games.lanes.battles import action, give, new_world, random_actions
from tests.matches.replay.browser import chromium

TABLE = (Path(__file__).parents[3] / "sb3_pvp/games/lanes/data/cards.tsv").read_text("utf-8")


@pytest.mark.parametrize("game", [LANES, LANES_PIXELS, lanes_pixels(96)], ids=str)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 1))
def test_the_other_hand_and_elixir_are_in_no_observation(game: LanesGame, seed: int, seat: int) -> None:
    world, rng = new_world(2, seed, game, deck="random"), np.random.default_rng(seed)
    for _ in range(rng.integers(80)):
        world.step(random_actions(world, rng))
    own, other = world.obs[:, seat].tobytes(), world.obs[:, 1 - seat].tobytes()
    masks, scene = world.masks[:, seat].tobytes(), LANES.viewer.seen(world, 0, ("a", "b"), seat)
    world.elixir[:, 1 - seat] = (world.elixir[:, 1 - seat] + 140) % 281
    world.decks[:, 1 - seat] = (world.decks[:, 1 - seat] + 7) % len(world.table.cards)
    world._show(np.arange(2))
    assert world.obs[:, seat].tobytes() == own and world.masks[:, seat].tobytes() == masks
    assert LANES.viewer.seen(world, 0, ("a", "b"), seat) == scene
    assert world.obs[:, 1 - seat].tobytes() != other  # who has them sees them


def test_numbers_say_what_is_there() -> None:
    world = new_world()
    give(world, 0, "ogre", "gunner", "gnats", "meteor")
    give(world, 1, "duellist", "gunner", "gnats", "meteor")
    world.step([[action(world, "ogre", 3, 5), action(world, "duellist", 3, 14)]])
    turns = [Turn(world.contract, world.obs[:, seat], world.masks[:, seat], np.zeros(1)) for seat in range(2)]
    own, its = (turns[0].see(f"{side}_0_health")[0] for side in ("own", "its"))
    assert (own, its) == (4.0, np.float32(1.3)) and turns[1].see("its_0_health")[0] == 4.0
    assert turns[0].see("its_0_x")[0] == pytest.approx(5500 / 9000) and turns[1].see("own_0_x")[0] == pytest.approx(
        -5500 / 9000
    )
    assert turns[0].see("own_left_1_ground")[0] == 4.0 and turns[0].see("played_duellist")[0] == 0.125
    assert turns[0].see("hand_ogre")[0] == 0.0 and turns[0].see("elixir")[0] == pytest.approx(145 / 280)


def test_games_of_other_cards_and_pictures_are_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "cards.tsv").write_text(TABLE.replace("footman\ttroop\t3", "footman\ttroop\t2"), "utf-8")
    table = read_cards(tmp_path / "cards.tsv")
    mine, large = LanesGame(table, vector_contract(table, "Mine")), lanes_pixels(128)
    assert pickle.loads(pickle.dumps((LANES, LANES_PIXELS))) == (LANES, LANES_PIXELS)
    for game in (mine, large):
        again = pickle.loads(pickle.dumps(game))
        assert (again.name, again.contract) == (game.name, game.contract)
        np.testing.assert_array_equal(again.table.figures, game.table.figures)
        again.make_world("sim", 1, 0, {}).set_state(game.make_world("sim", 1, 0, {}).get_state())


def test_pictures_show_a_unit_where_it_is_and_the_elixir() -> None:
    world = new_world(game=lanes_pixels(128))
    before = world.obs[0, 0].reshape(3, 128, 128).copy()
    give(world, 0, "ogre", "gunner", "gnats", "meteor")
    world.step([[action(world, "ogre", 9, 8), [0, 0, 0]]])
    after, other = (world.obs[0, seat].reshape(3, 128, 128) for seat in range(2))
    x, y = world.units[0, 0, NUM_TOWERS, [X, Y]]
    row, column = int((16000 - y) * 128 / 32000), int((x + 9000) * 128 / 32000)
    assert (after[:, row, column] != before[:, row, column]).any()
    assert (other[:, 127 - row, 71 - column] != before[:, 127 - row, 71 - column]).any()
    bars = [int((picture[0, :, 80] == 0xC8).sum()) for picture in (before, after)]
    assert bars == [64, 66]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("1500\t170", "1500\t"), r"line 2 \(footman\): damage is missing"),
        (("1500\t170", "-5\t170"), r"line 2 \(footman\): health"),
        (("1500\t170\t1.2", "1500\t170\t1.25"), r"line 2 \(footman\):.*hit_seconds must be a number of ticks"),
        (("1500\t170\t1.2", "1500\t170\tsoon"), r"line 2 \(footman\): hit_seconds"),
        (("archers\ttroop", "archers\tarmy"), r"line 3 \(archers\): kind"),
        (("spell\t3\t1\t0", "spell\t3\t1\t90"), r"\(volley\):.*health cannot be 90 for a spell"),
        (("archers", "footman"), r"line 3 \(footman\): there is another card of this name"),
        (("guard\ttower", "gate\ttower"), "a table has two towers, guard and keep"),
    ],
)
def test_a_wrong_row_is_refused_in_a_line_that_names_it(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "cards.tsv"
    path.write_text(TABLE.replace(*change, 1), "utf-8")
    with pytest.raises(ValueError, match=said) as caught:
        read_cards(path)
    assert "\n" not in str(caught.value) and "cards.tsv" in str(caught.value)


@pytest.mark.parametrize(
    ("deck", "said"),
    [
        (STANDARD[:7], "a deck has 8 cards, not 7: footman"),
        ((*STANDARD[:7], "footman"), "this one has footman twice"),
        ((*STANDARD[:7], "ogres"), "ogres.*ogre"),
        ("best", "deck"),
    ],
)
def test_a_wrong_deck_is_refused_in_a_line(deck: object, said: str) -> None:
    deck = list(deck) if isinstance(deck, tuple) else deck
    with pytest.raises(ValueError, match=said) as caught:
        LANES.make_world("sim", 1, 0, {"deck": deck})
    assert "\n" not in str(caught.value)


def test_a_table_of_one_s_own_is_a_game(tmp_path: Path) -> None:
    path = tmp_path / "cards.tsv"
    path.write_text("\n".join(line for line in TABLE.splitlines() if not line.startswith("horde")), "utf-8")
    table = read_cards(path)
    game = LanesGame(table, vector_contract(table, "Mine"))
    assert len(table.cards) == len(own_cards().cards) - 1 and game.contract.head_sizes[0] == 20
    world = new_world(2, game=game)
    world.step(random_actions(world, np.random.default_rng(0)))


def test_pictures_have_64_to_448_pixels() -> None:
    for size in (63, 449):
        with pytest.raises(ValueError, match=f"64 to 448 pixels a side, not {size}"):
            lanes_pixels(size)


def test_scenes_are_text_and_pictures_and_can_be_read_again() -> None:
    world, viewer = new_world(), LANES.viewer
    give(world, 0, "ogre", "gunner", "gnats", "meteor")
    before = viewer.scene(world, 0, ("Ann", "Ben"))
    world.step([[action(world, "ogre", 3, 12), [0, 0, 0]]])
    scene = viewer.scene(world, 0, ("Ann", "Ben"))
    lines = viewer.text(scene, color=False).split("\n")
    assert lines[0] == "0.5 s, Ann against Ben: running" and lines[33 - 12][3] == "O" and len(lines) == 35
    assert viewer.events([before, scene]) == [{"tick": 1, "kind": "card", "seat": 0, "text": "plays ogre"}]
    picture = viewer.picture(scene)
    pixels = lanes_pixels(448).make_world("sim", 1, 0, {})
    pixels.reset()
    for name in ("units", "tops", "elixir", "decks", "clocks"):
        getattr(pixels, name)[:] = getattr(world, name)
    pixels._show(np.array([0]))
    assert (picture == pixels.obs[0, 0].reshape(3, 448, 448).transpose(1, 2, 0)).all()
    from sb3_pvp.common.arguments import to_plain

    assert viewer.read_scene(json.loads(json.dumps(to_plain(scene)))) == scene
    assert viewer.why_not(scene, 0)["ogre"] == "it is not in your hand"
    assert len(controls_of(viewer, LANES.contract)[0].controls) == 78


#: What the script of the page needs of the page around it.
_PAGE = """<script>
const sent = [], queue = [], scene = { press: (action) => sent.push(action), allows: () => true }, redraw = () => {};
</script>
"""


def test_the_page_puts_a_card_where_it_has_told_before_and_knows_how_healthy_towers_are(tmp_path: Path) -> None:
    path = tmp_path / "cards.tsv"
    path.write_text(re.sub(r"(?m)^(keep(?:\t[^\t]*){3})\t4400", r"\1\t9900", TABLE), "utf-8")
    (tmp_path / "page.html").write_text(f"{_PAGE}<script>{LanesViewer(read_cards(path)).page()['script']}</script>")
    with chromium(tmp_path / "browser") as tab:
        tab.open(tmp_path / "page.html")
        # Each press is a message, and a tick may be played between two of them: a card alone falls into a corner.
        sent = tab.value("picked = 'meteor'; putCard(3, 4); sent.join()")
        assert sent.split(",")[-1] == "meteor" and {*sent.split(",")} == {"meteor", "column_3", "row_4"}
        assert tab.value("scene.charts[0][1]") == 2 * 2600 + 9900


def test_scripts_play_where_observations_are_pictures() -> None:
    env = PvpVecEnv(2, game="LaneClashPixels-v0", opponent="baseline", reset_params={"bot": "tactician"})
    env.reset()
    played = 0
    for _ in range(30):
        env.step(np.zeros((2, 3), np.int64))
        played += int(env.fights.world.last[:, 1].any())
    assert played > 0
    env.close()


def test_each_script_beats_the_next_weaker() -> None:
    names = [*LANES.scripts]
    for weaker, stronger in pairwise(names):
        world, rng = new_world(100, 7), np.random.default_rng(7)
        while (running := np.flatnonzero(world.outcome[:, 0] == 0)).size:
            actions = np.zeros((len(running), 2, 3), np.int64)
            for number, name in enumerate((weaker, stronger)):
                seats = (running + number) % 2
                turn = Turn(
                    world.contract, world.obs[running, seats], world.masks[running, seats], rng.random(len(running))
                )
                LANES.scripts[name](turn)
                actions[np.arange(len(running)), seats] = turn.actions()
            world.step(actions, running)
        won = world.outcome[np.arange(100), (np.arange(100) + 1) % 2] == 1
        assert won.mean() >= 0.68  # 80 %, less three standard deviations
