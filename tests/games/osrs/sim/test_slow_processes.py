"""Processes without orders: levels, special energy, poison (mechanics.md §11), recoil and vengeance (§12)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import NEVER, Arena, one, pending

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    DEFENCE,
    HITPOINTS,
    MAGIC_LEVEL,
    NO_ITEM,
    PRAYER,
    RANGED_LEVEL,
    RING,
    STAT_TIMER,
    STRENGTH,
    VENGEANCE_TIMER,
)


class TestLevels:
    """§11.1."""

    def test_lowered_levels_rise_and_boosted_ones_fall_every_hundred_ticks(self) -> None:
        arena = Arena()
        start = {ATTACK: 118, STRENGTH: 100, DEFENCE: 50, RANGED_LEVEL: 98, MAGIC_LEVEL: 99, PRAYER: 40, HITPOINTS: 60}
        for skill, level in start.items():
            arena.a["level"][:, skill] = level

        def levels() -> dict[int, int]:
            return {skill: one(arena.a["level"][:, skill]) for skill in start}

        arena.tick(times=99)
        assert levels() == start
        arena.tick()
        once = start | {ATTACK: 117, STRENGTH: 99, DEFENCE: 51, RANGED_LEVEL: 99, HITPOINTS: 61}
        assert levels() == once
        arena.tick(times=99)
        assert levels() == once
        arena.tick()
        assert levels() == once | {ATTACK: 116, DEFENCE: 52, HITPOINTS: 62}

    def test_overhealed_hitpoints_fall_too(self) -> None:
        arena = Arena()
        arena.a["level"][:, HITPOINTS] = 121
        arena.tick(times=100)
        assert arena.hitpoints(arena.a) == 120

    def test_the_ticks_are_those_of_the_episode_clock(self) -> None:
        """[seen live]: episodeTicks 100, 200, ...; against a bot the agent's clock is one tick ahead."""
        arena = Arena(bots=(None, "baseline"))
        arena.world.state["level"][:, :, RANGED_LEVEL] = 200  # the bot will not drink
        arena.world.state["inventory"] = -1
        assert arena.world.meta["episode_ticks"][0].tolist() == [1, 0]
        arena.tick(times=99)
        assert arena.world.state["level"][0, :, RANGED_LEVEL].tolist() == [199, 200]
        arena.tick()
        assert arena.world.state["level"][0, :, RANGED_LEVEL].tolist() == [199, 199]


class TestSpecialEnergy:
    """§11.2: +10 every 50 ticks, counted from the first spend."""

    @staticmethod
    def spender(weapon: str) -> Arena:
        arena = Arena()
        arena.wear(arena.a, weapon)
        arena.make_hopeless()
        return arena

    @staticmethod
    def spend(arena: Arena) -> None:
        arena.strike(special=True)
        arena.a["targeting"] = 0

    def test_it_comes_back_in_steps_of_ten(self) -> None:
        arena = self.spender("DRAGON_DAGGER")
        self.spend(arena)
        energies = []
        for _ in range(4):
            arena.tick(times=49)
            energies.append(one(arena.a["energy"]))
            arena.tick()
            energies.append(one(arena.a["energy"]))
        assert energies == [75, 85, 85, 95, 95, 100, 100, 100]

    def test_later_spends_keep_the_phase(self) -> None:
        arena = self.spender("ARMADYL_GODSWORD")
        self.spend(arena)
        arena.tick(times=19)
        self.spend(arena)
        arena.tick(times=29)
        assert one(arena.a["energy"]) == 0
        arena.tick()
        assert one(arena.a["energy"]) == 10

    def test_a_full_bar_ends_the_phase(self) -> None:
        arena = self.spender("DRAGON_DAGGER")
        self.spend(arena)
        arena.tick(times=150 + 7)
        assert one(arena.a["energy"]) == 100
        self.spend(arena)
        arena.tick(times=49)
        assert one(arena.a["energy"]) == 75
        arena.tick()
        assert one(arena.a["energy"]) == 85


class TestPoison:
    """§11.4."""

    @pytest.mark.parametrize(
        ("weapon", "value"),
        [("DRAGON_DAGGER_POISONED", 6), ("ABYSSAL_TENTACLE", 12), ("DRAGON_DAGGER", 0), ("ABYSSAL_WHIP", 0)],
    )
    def test_six_of_twenty_one_wounds_are_poisoned(self, weapon: str, value: int) -> None:
        arena = Arena(8000)
        arena.wear(arena.a, weapon)
        arena.wear(arena.b)
        arena.make_certain()
        arena.strike()
        wounded = arena.b["level"][:, HITPOINTS] < 99
        poison = arena.b["poison"]
        assert one(poison[~wounded]) == 0
        assert set(np.unique(poison)) == {0, value}
        assert (poison[wounded] > 0).mean() == pytest.approx(6 / 21 if value else 0, abs=0.021)

    def test_the_weapon_worn_at_landing_counts_and_only_the_first_poison(self) -> None:
        arena = Arena(300)
        arena.wear(arena.a, "ABYSSAL_TENTACLE")
        arena.wear(arena.b)
        arena.make_certain()
        arena.pid(first=1)
        arena.strike()
        arena.wear(arena.a, "DRAGON_DAGGER_POISONED")
        arena.tick()
        assert set(np.unique(arena.b["poison"])) == {0, 6}
        arena.b["poison"] = 3
        for _ in range(8):
            arena.make_certain()
            arena.make_ready()
            arena.b["level"][:, HITPOINTS] = 99
            arena.strike()
        assert one(arena.b["poison"]) == 3

    def test_it_hurts_every_thirty_ticks_and_fades(self) -> None:
        arena = Arena(400)
        arena.wear(arena.a, "DRAGON_DAGGER_POISONED")
        arena.wear(arena.b)
        arena.make_certain()
        arena.strike()
        fight = int(np.flatnonzero(arena.b["poison"] == 6)[0])
        arena.a["targeting"] = 0
        arena.b["timer"][:, STAT_TIMER] = NEVER
        damages = []
        for _ in range(26 * 30):
            arena.b["level"][:, HITPOINTS] = 99
            arena.tick()
            damages.append(99 - int(arena.b["level"][fight, HITPOINTS]))
        hurts = [(tick + 1, damage) for tick, damage in enumerate(damages) if damage > 0]
        assert [tick for tick, _ in hurts] == [30 * k for k in range(1, 26)]
        assert [damage for _, damage in hurts][:10] == [6, 6, 6, 6, 5, 5, 5, 5, 5, 4]
        assert hurts[-1][1] == 1


class TestVengeance:
    """§12 and nh-actions.md §5.11."""

    @staticmethod
    def lunar(build: str = "MAXED", fights: int = 1) -> Arena:
        arena = Arena(fights, build)
        arena.wear(arena.a, "DRAGON_SCIMITAR")
        arena.wear(arena.b)
        arena.b["lunar"] = 1
        return arena

    def test_three_quarters_come_back_once(self) -> None:
        arena = self.lunar(fights=500)
        arena.tick(b=["use_veng"])
        assert one(arena.b["vengeance"]) == 1
        assert one(arena.b["timer"][:, VENGEANCE_TIMER]) == 50
        arena.make_certain()
        arena.pid(first=1)
        arena.strike()
        totals = pending(arena.b, 1)[:, 0]
        arena.tick()  # B goes first: the hit lands and A takes the answer in the same tick
        lost = 99 - arena.a["level"][:, HITPOINTS]
        assert (lost == totals * 3 // 4).all()
        assert ((arena.b["vengeance"] == 0) == (totals > 1)).all()

    def test_the_attacker_that_goes_first_takes_it_one_tick_later(self) -> None:
        arena = self.lunar(fights=200)
        arena.b["vengeance"] = 1
        arena.make_certain()
        arena.strike()  # lands in this tick
        assert one(arena.a["level"][:, HITPOINTS]) == 99
        lost = 99 - arena.b["level"][:, HITPOINTS]
        arena.tick()
        assert (99 - arena.a["level"][:, HITPOINTS] == lost * 3 // 4).all()

    def test_claws_are_answered_as_a_whole(self) -> None:
        arena = self.lunar(fights=300)
        arena.wear(arena.a, "DRAGON_CLAWS")
        arena.b["vengeance"] = 1
        arena.make_certain()
        arena.pid(first=1)
        arena.strike(special=True)
        totals = pending(arena.b, 1)[:, 0]
        arena.tick()
        assert (99 - arena.a["level"][:, HITPOINTS] == totals * 3 // 4).all()

    def test_the_cooldown_is_fifty_ticks(self) -> None:
        arena = self.lunar()
        arena.tick(b=["use_veng"])
        arena.b["vengeance"] = 0
        arena.tick(times=48)
        arena.tick(b=["use_veng"])
        assert one(arena.b["vengeance"]) == 0
        arena.tick(b=["use_veng"])
        assert one(arena.b["vengeance"]) == 1

    @pytest.mark.parametrize(("field", "skill", "too_low"), [("level", MAGIC_LEVEL, 93), ("base", DEFENCE, 39)])
    def test_levels(self, field: str, skill: int, too_low: int) -> None:
        arena = self.lunar()
        arena.b[field][:, skill] = too_low
        arena.tick(b=["use_veng"])
        assert one(arena.b["vengeance"]) == 0
        arena.b[field][:, skill] = too_low + 1
        arena.tick(b=["use_veng"])
        assert one(arena.b["vengeance"]) == 1

    def test_another_spellbook_only_drops_spell_and_target(self) -> None:
        arena = self.lunar()
        arena.b["lunar"] = 0
        arena.b["spell"], arena.b["targeting"] = 4, 1
        arena.tick(b=["use_veng"])
        assert (one(arena.b["vengeance"]), one(arena.b["spell"]), one(arena.b["targeting"])) == (0, 0, 0)

    def test_it_delays_no_attack_and_keeps_the_target(self) -> None:
        arena = self.lunar()
        arena.b["targeting"] = 1
        arena.tick(b=["use_veng"])
        assert one(arena.a["num_hits"]) == 1


class TestRingOfRecoil:
    """§12; only the Dharok game has this ring."""

    @staticmethod
    def struck(fights: int = 500) -> tuple[Arena, np.ndarray]:
        arena = Arena(fights)
        arena.wear(arena.a, "ELDER_MAUL")
        arena.wear(arena.b, "RING_OF_RECOIL")
        arena.make_certain()
        arena.pid(first=1)
        arena.strike()
        totals = pending(arena.b, 1)[:, 0]
        arena.a["targeting"] = 0
        return arena, totals

    def test_a_tenth_and_one_come_back(self) -> None:
        arena, totals = self.struck()
        arena.tick()
        expected = np.where(totals > 0, totals // 10 + 1, 0)
        assert (99 - arena.a["level"][:, HITPOINTS] == expected).all()
        assert (arena.b["recoil_left"] == 40 - expected).all()

    def test_it_is_gone_after_forty_and_the_last_one_is_not_cut_off(self) -> None:
        """As recorded: 41 came back of one ring, and nothing more."""
        arena, totals = self.struck()
        arena.b["recoil_left"] = 2
        arena.tick()
        expected = np.where(totals > 0, totals // 10 + 1, 0)
        assert (99 - arena.a["level"][:, HITPOINTS] == expected).all()
        gone = arena.b["worn"][:, RING] == NO_ITEM
        assert (gone == (expected >= 2)).all()
        arena.make_ready()
        arena.strike()
        arena.a["level"][:, HITPOINTS] = 99
        arena.a["targeting"] = 0
        arena.tick()
        assert (arena.a["level"][gone, HITPOINTS] == 99).all()
        assert arena.a["level"][~gone, HITPOINTS].min() < 99


def test_blood_fury_heals_in_twenty_of_a_hundred_and_one() -> None:
    """§5, landing step 6: floor(0.30 · X), melee only, worn at landing."""
    arena = Arena(8000)
    arena.wear(arena.a, "ELDER_MAUL")
    arena.wear(arena.b)
    arena.make_certain()
    arena.pid(first=1)
    arena.a["level"][:, HITPOINTS] = 50
    arena.strike()
    totals = pending(arena.b, 1)[:, 0]
    arena.wear(arena.a, "ELDER_MAUL", "AMULET_OF_BLOOD_FURY")
    arena.a["targeting"] = 0
    arena.tick()
    gained = arena.a["level"][:, HITPOINTS] - 50
    large = totals >= 4
    assert set(np.unique(gained[large] - totals[large] * 3 // 10)) <= set(range(-11, 1))
    assert ((gained == 0) | (gained == totals * 3 // 10)).all()
    assert (gained[large] > 0).mean() == pytest.approx(20 / 101, abs=0.02)


def test_blood_fury_is_for_melee() -> None:
    arena = Arena(400)
    arena.wear(arena.a, "RUNE_CROSSBOW", "DIAMOND_BOLTS_E", "AMULET_OF_BLOOD_FURY")
    arena.wear(arena.b)
    arena.make_certain()
    arena.a["level"][:, HITPOINTS] = 50
    arena.strike()
    arena.tick(times=3)
    assert one(arena.a["level"][:, HITPOINTS]) == 50
    assert items.AMULET_OF_BLOOD_FURY in arena.a["worn"][0]
