"""What pictures of fights show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pygame = pytest.importorskip("pygame")

from sb3_pvp.games.osrs.rendering.picture import brush, palette  # noqa: E402
from sb3_pvp.games.osrs.rendering.picture.choices import short_name  # noqa: E402
from sb3_pvp.games.osrs.rendering.picture.drawing import scene_array  # noqa: E402
from sb3_pvp.games.osrs.rendering.picture.headline import verdict  # noqa: E402
from sb3_pvp.games.osrs.rendering.scene import (  # noqa: E402
    AttackScene,
    FighterScene,
    HeadScene,
    ProjectileScene,
    Scene,
)

STYLES = st.sampled_from(["none", "melee", "ranged", "magic"])
OVERHEADS = st.sampled_from([None, "none", "melee", "ranged", "magic", "smite", "redemption"])
NAMES = st.text(max_size=60)
COUNTS = st.integers(0, 150)
HEAD = HeadScene("potion", ("no_potion", "use_brew", "use_restore_potion"), 1, (True, True, False))


def supplies(*names: str) -> Any:
    return st.dictionaries(st.sampled_from(names), COUNTS)


FIGHTERS = st.builds(
    FighterScene,
    name=NAMES,
    hitpoints=COUNTS,
    max_hitpoints=COUNTS,
    prayer=COUNTS,
    max_prayer=COUNTS,
    special_energy=st.floats(-1, 2),
    style=STYLES,
    weapon=NAMES,
    overhead=OVERHEADS,
    frozen_ticks=st.integers(0, 32),
    freeze_immunity_ticks=st.integers(0, 37),
    tile=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
    food_bars=st.floats(0, 5),
    brew_bars=st.floats(0, 5),
    levels=supplies("attack", "magic"),
    gear=st.dictionaries(st.sampled_from(["weapon", "head", "body", "legs", "shield"]), NAMES.filter(bool)),
    food=supplies("anglerfish", "shark", "karambwan"),
    potions=supplies("brew", "restore", "combat", "ranging"),
    waits=supplies("attack", "food", "karambwan", "potion", "vengeance"),
    hitsplats=st.lists(COUNTS, max_size=2).map(tuple),
    attack=st.none() | st.builds(AttackScene, STYLES, COUNTS, st.booleans()),
    incoming=st.lists(st.builds(ProjectileScene, STYLES, st.integers(1, 6)), max_size=4).map(tuple),
    heads=st.just((HEAD,)) | st.just(()),
)
SCENES = st.builds(
    Scene,
    contract=st.sampled_from(["NhEnv", "DharokEnv"]),
    tick=COUNTS,
    outcome=st.sampled_from(["running", "won", "lost", "tied", "timeout", "target_lost", "desync"]),
    distance=st.integers(0, 60),
    fighters=st.tuples(FIGHTERS, FIGHTERS),
)


def fighter(**changes: Any) -> FighterScene:
    plain: dict[str, Any] = {
        **dict.fromkeys(("hitpoints", "max_hitpoints", "prayer", "max_prayer"), 99),
        **dict.fromkeys(("special_weapon", "armor_off", "vengeance", "moving", "first"), False),
        **dict.fromkeys(("frozen_ticks", "freeze_immunity_ticks"), 0),
        "name": "alice",
        "special_energy": 1.0,
        "style": "magic",
        "weapon": "",
        "overhead": "none",
        "tile": (0, 0),
        "can_melee": True,
        "food_bars": 1.0,
        "brew_bars": 0.0,
        "heads": (HEAD,),
    }
    return FighterScene(**{**plain, **changes})


def scene(first: dict[str, Any] | None = None, second: dict[str, Any] | None = None, **changes: Any) -> Scene:
    fighters = (fighter(**(first or {})), fighter(**{"name": "bob", "tile": (3, 0), **(second or {})}))
    return replace(Scene("NhEnv", 7, "running", 3, fighters), **changes)


def part(picture: NDArray[np.uint8], box: palette.Box) -> NDArray[np.uint8]:
    left, top, width, height = box
    return picture[top : top + height, left : left + width]


@settings(max_examples=30, deadline=None)
@given(SCENES)
def test_any_scene_can_be_drawn(any_scene: Scene) -> None:
    picture = scene_array(any_scene)
    assert picture.shape == (palette.HEIGHT, palette.WIDTH, 3)
    assert picture.flags.writeable
    assert picture.flags.c_contiguous


def test_the_same_scene_gives_the_same_pixels() -> None:
    before = scene_array(scene())
    pygame.quit()  # as other environments do when they are closed: it takes all fonts with it
    for cached in (brush._written, brush.fitted):
        cached.cache_clear()
    assert np.array_equal(before, scene_array(scene()))
    pygame.quit()
    pygame.font.init()
    assert np.array_equal(before, scene_array(scene(tick=7)))
    assert not np.array_equal(before, scene_array(scene(tick=8)))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"hitpoints": 50}, (palette.STATUS[0], palette.ARENA)),
        ({"prayer": 50}, (palette.STATUS[0],)),
        ({"special_energy": 0.5}, (palette.STATUS[0],)),
        ({"style": "ranged"}, (palette.STATUS[0], palette.ARENA)),
        ({"gear": {"weapon": "Dark bow"}}, (palette.STATUS[0],)),
        ({"overhead": "magic"}, (palette.STATUS[0], palette.ARENA)),
        ({"frozen_ticks": 5}, (palette.STATUS[0], palette.ARENA)),
        ({"vengeance": True}, (palette.STATUS[0], palette.ARENA)),
        ({"hitsplats": (12,)}, (palette.ARENA,)),
        ({"incoming": (ProjectileScene("magic", 2),)}, (palette.ARENA,)),
        ({"attack": AttackScene("magic", 20)}, (palette.STATUS[0], palette.ARENA)),
        ({"food": {"shark": 3}}, (palette.STATUS[0],)),
        ({"potions": {"brew": 3}}, (palette.STATUS[0],)),
        ({"waits": {"attack": 3}}, (palette.STATUS[0],)),
        ({"first": True}, (palette.STATUS[0],)),
        ({"moving": True}, (palette.ARENA,)),
        ({"heads": (replace(HEAD, chosen=2),)}, (palette.CHOICES[0],)),
        ({"heads": (replace(HEAD, open=(True, False, False)),)}, (palette.CHOICES[0],)),
        ({"heads": (replace(HEAD, chosen=None),)}, (palette.CHOICES[0],)),
    ],
)
def test_everything_is_seen_where_it_belongs(changes: dict[str, Any], where: tuple[palette.Box, ...]) -> None:
    plain, changed = scene_array(scene()), scene_array(scene(changes))
    boxes = (palette.ARENA, *palette.STATUS, *palette.CHOICES)
    different = [box for box in boxes if not np.array_equal(part(plain, box), part(changed, box))]
    assert sorted(different) == sorted(where)


def has(picture: NDArray[np.uint8], color: palette.Color) -> bool:
    return bool((picture == np.array(color)).all(axis=-1).any())


def test_damage_is_red_and_a_miss_is_blue() -> None:
    for amount, shown, other in ((20, palette.DAMAGE, palette.NO_DAMAGE), (0, palette.NO_DAMAGE, palette.DAMAGE)):
        arena = part(scene_array(scene({"hitsplats": (amount,)})), palette.ARENA)
        assert has(arena, shown)
        assert not has(arena, other)


@pytest.mark.parametrize(
    ("any_scene", "words", "color"),
    [
        (scene({"hitpoints": 70}), "bob is ahead: +29 hp", palette.SEATS[1]),
        (
            scene({"hitpoints": 70, "food_bars": 2.0}),
            "alice is ahead: -29 hp, supplies +1.0 x full health",
            palette.SEATS[0],
        ),
        (scene({"hitpoints": 97}), "the fight is level", palette.TEXT),
        (scene(outcome="won"), "alice wins", palette.SEATS[0]),
        (scene(outcome="lost"), "bob wins", palette.SEATS[1]),
        (scene(outcome="timeout"), "the time is up", palette.TEXT),
        (scene(second={"name": "alice"}, outcome="lost"), "alice (right) wins", palette.SEATS[1]),
    ],
)
def test_it_says_who_is_ahead(any_scene: Scene, words: str, color: palette.Color) -> None:
    assert verdict(any_scene) == (words, color)


@given(st.text(min_size=1, max_size=80), st.integers(20, 200))
def test_texts_are_shortened_in_their_middle(text: str, width: int) -> None:
    brush.prepare_fonts()
    fitted = brush.fitted(text, 15, width)
    assert brush.text_width(fitted, 15) <= width or fitted == brush.ELLIPSIS
    assert fitted == text or brush.text_width(text, 15) > width


def test_entries_lose_the_words_that_their_head_says() -> None:
    short = {
        ("use_ice_spell", "mage_attack_type"): "ice spell",
        ("basic_melee_attack", "melee_attack_type"): "basic",
        ("move_to_farcast_tile", "movement"): "farcast",
        ("farcast_7_tiles", "farcast_distance"): "7",
        ("dont_eat_food", "food"): "-",
        ("use_veng", "veng"): "use veng",
    }
    assert {key: short_name(*key) for key in short} == short
