"""How a fight of the Dharok game starts (contract.md §6.3, loadouts.md §6)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from arena import carried_names, one, worn_names
from dharok_arena import DharokArena

from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.state import NORMAL

WORN = {
    *("DHAROKS_HELM", "DHAROKS_PLATEBODY", "DHAROKS_PLATELEGS", "AMULET_OF_STRENGTH", "DRAGON_BOOTS", "FIRE_CAPE"),
    *("ABYSSAL_TENTACLE", "DRAGON_DEFENDER", "RING_OF_RECOIL", "BARROWS_GLOVES"),
}
GEAR = ["DHAROKS_GREATAXE", "GRANITE_MAUL"]
RUNES = ["DEATH_RUNE", "ASTRAL_RUNE", "EARTH_RUNE"]


def test_an_agent() -> None:
    arena = DharokArena()
    potions = ["SUPER_COMBAT_4", *["SARADOMIN_BREW_4"] * 2, *["SUPER_RESTORE_4"] * 3]
    assert worn_names(arena.a) == WORN
    assert carried_names(arena.a) == [*GEAR, *potions, *["KARAMBWAN"] * 3, *["ANGLERFISH"] * 14, *RUNES]
    assert (arena.a["level"] == 99).all()
    assert (arena.a["base"] == 99).all()
    assert (one(arena.a["lunar"]), one(arena.a["energy"]), one(arena.a["prayers"])) == (1, 100, 0)
    assert one(arena.world.fights["fight_type"]) == NORMAL


def test_a_bot_has_fish_for_brews_and_the_third_restore() -> None:
    arena = DharokArena(bots=(None, "baseline"))
    assert worn_names(arena.b) == WORN
    carried = Counter(carried_names(arena.b))
    assert (carried["ANGLERFISH"], carried["SUPER_RESTORE_4"], carried["SARADOMIN_BREW_4"]) == (17, 2, 0)
    assert carried.total() == 28


def test_a_build_has_a_name() -> None:
    assert DharokArena().world.build_name(0) == "DHAROK"


@pytest.mark.parametrize("bots", [(None, "baseline"), ("baseline", None), ("baseline", "baseline")])
def test_bots_may_have_any_seat(bots: tuple[str | None, str | None]) -> None:
    arena = DharokArena(20, bots=bots)
    for _ in range(50):
        arena.world.step(arena.world.random_actions())
    assert arena.world.state["ticks"].min() >= 50


def test_parameters_of_the_wire_have_no_effect() -> None:
    plain, named = (SimWorld(8, 3, params, contract="DharokEnv") for params in ({}, {"episodeId": "x", "agent": "1"}))
    for world in (plain, named):
        world.reset()
    assert plain.state.tobytes() == named.state.tobytes()


def test_parameters_of_the_other_game_are_refused() -> None:
    known = "Known: episodeId, agent, target"
    with pytest.raises(ValueError, match=f"unknown reset parameter 'accountBuild'.*{known}"):
        SimWorld(contract="DharokEnv", reset_params={"accountBuild": "MED"})
    world = SimWorld(contract="DharokEnv")
    with pytest.raises(ValueError, match="unknown reset parameter 'allowSmite'"):
        world.reset(options={"reset_params": {"allowSmite": True}})


def test_a_contract_without_a_game_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'DharokEnv'"):
        SimWorld(contract="DharockEnv")


def test_fights_start_near_each_other() -> None:
    world = SimWorld(2000, contract="DharokEnv")
    world.reset()
    apart = np.abs(world.state["x"][:, 0] - world.state["x"][:, 1])
    assert apart.max() == 5
    assert world.obs.shape == (2000, 2, 40)
    assert world.masks.shape == (2000, 2, 17)


def test_a_login_keeps_its_place_in_the_order() -> None:
    world = SimWorld(1, contract="DharokEnv")
    world.reset()
    login = world.login(0, 0)
    world.reset(options={"logins": (login, None)})
    assert world.state["pid"][0, 0] == login["pid"]


def test_no_fight_outlives_its_snapshot() -> None:
    world, other = (SimWorld(16, seed, contract="DharokEnv") for seed in (0, 5))
    world.reset()
    for _ in range(30):
        world.step(world.random_actions())
    other.set_state(world.get_state())
    for _ in range(30):
        orders = world.random_actions()
        assert (other.random_actions() == orders).all()
        world.step(orders)
        other.step(orders)
    assert world.obs.tobytes() == other.obs.tobytes()
    nh = SimWorld(16)
    with pytest.raises(ValueError, match="contract"):
        nh.set_state(world.get_state())
