"""What the two agents of each scenario do, tick by tick. Names, phases and orders are those of the recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.games.osrs.faithfulness.stage import STEP_BESIDE, WAIT, Order, Over, Stage, farcast

ICE: Order = ("mage_attack", "use_ice_spell")
SHOOT: Order = ("ranged_attack", "basic_ranged_attack")
MELEE: Order = ("melee_attack", "basic_melee_attack")
MELEE_SPECIAL: Order = ("melee_attack", "melee_special_attack")
BREW, RESTORE, COMBAT, RANGING = (
    (f"use_{potion}",) for potion in ("brew", "restore_potion", "combat_potion", "ranged_potion")
)
EAT: Order = ("eat_primary_food",)
VENGEANCE: Order = ("use_veng",)
PRAY_MAGIC, PRAY_RANGED, PRAY_MELEE, PRAY_SMITE, PRAY_REDEMPTION = (
    (f"{name}_prayer",) for name in ("mage", "ranged", "melee", "smite", "redemption")
)
PLACES: dict[str, Order] = {
    "next": STEP_BESIDE,
    "diag": ("move_diagonal_to_target",),
    "under": ("move_under_target",),
    "far1": ("move_to_farcast_tile",),
    **{f"far{tiles}": farcast(tiles) for tiles in range(2, 8)},
}


@dataclass(frozen=True)
class Script:
    """A scenario, and which of the recorded builds and cases are played here, how often."""

    play: Callable[[Stage, str], None]
    builds: tuple[str, ...]
    cases: tuple[str, ...] = ("None",)
    repeats: int = 1


def ice_distance(stage: Stage, case: str) -> None:
    """Hit delay, freeze and immunity timers by distance."""
    stage.walk_to_distance(int(case))
    stage.phase("cast")
    stage.tick(ICE)
    stage.wait(12)


def freeze_end(stage: Stage, case: str) -> None:
    """B is frozen, is ordered to hit A, and comes in the tick in which the freeze ends."""
    stage.walk_to_distance(4)
    stage.phase("freeze")
    for _ in stage.until(lambda: stage.sees(0, "target_frozen_ticks") > 28, limit=40):
        stage.tick(ICE if stage.sees(0, "attack_cycle_ticks") == 0 else WAIT, PRAY_MAGIC)
    stage.phase("wait")
    for _ in range(38):
        stage.tick(WAIT, MELEE)


def eat_cooldown(stage: Stage, case: str) -> None:
    """Food delays the next attack by how long ago the last one was; -1: none yet."""
    stage.walk_to_distance(3)
    stage.shoot_until_hurt(0.8, "hurt")
    stage.tick(WAIT, farcast(4))
    stage.wait(8)
    stage.phase("eat")
    if int(case) > 0:
        stage.tick(ICE)
        stage.wait(int(case) - 1)
    stage.tick(EAT)
    stage.wait(9)


def combat_potions(stage: Stage, case: str) -> None:
    """Levels, doses and the potion timer."""
    stage.phase("pot")
    for potion in (COMBAT, COMBAT, RANGING, RANGING, RANGING, RANGING, WAIT):
        stage.tick(potion)
    for potion in (*[BREW] * 7, *[RESTORE] * 7, COMBAT, WAIT, WAIT, RANGING):
        stage.tick(potion)
    stage.wait(3)


def prayer_switch(stage: Stage, case: str) -> None:
    """Overheads exclude each other; the same one again changes nothing."""
    stage.phase("pray")
    first = (PRAY_MAGIC, PRAY_RANGED, PRAY_MELEE, PRAY_SMITE, PRAY_REDEMPTION, PRAY_REDEMPTION)
    for prayer in (*first, PRAY_MAGIC, PRAY_MAGIC, WAIT, PRAY_MELEE, WAIT, PRAY_RANGED):
        stage.tick(prayer)


def prayer_drain(stage: Stage, case: str) -> None:
    """The exact ticks in which an overhead takes prayer points."""
    stage.phase("drain")
    stage.tick({"magic": PRAY_MAGIC, "smite": PRAY_SMITE, "redemption": PRAY_REDEMPTION}[case])
    stage.wait(125)


def move_once(stage: Stage, case: str) -> None:
    """A walk that was ordered once goes on to its end."""
    start, place = case.split(">")
    stage.walk_to_distance(int(start))
    stage.phase("move")
    stage.tick(PLACES[place])
    stage.wait(5)


def pid_ranged(stage: Stage, case: str) -> None:
    """Both shoot in the same tick: who has PID lands first."""
    stage.walk_to_distance(int(case))
    stage.phase("hit")
    stage.tick(SHOOT, SHOOT)
    stage.wait(11)


def drink_drops_target(stage: Stage, case: str) -> None:
    """A potion ends the attack that goes on by itself, food and prayers do not."""
    stage.walk_to_distance(4)
    stage.phase("q")
    stage.tick(SHOOT)
    stage.wait(1)
    orders = {"drink": COMBAT, "drink+attack": COMBAT + SHOOT, "food": EAT, "pray": PRAY_MAGIC}
    stage.tick(orders[case])
    stage.wait(13)


def vengeance(stage: Stage, case: str) -> None:
    """Lunar gear: the cast, its cooldown, and what the opponent sees."""
    stage.walk_to_distance(4)
    stage.phase("veng")
    stage.tick(VENGEANCE)
    stage.wait(2)
    stage.tick(VENGEANCE, SHOOT)
    stage.wait(20)
    stage.tick(WAIT, farcast(5))
    stage.wait(22)
    for _ in range(8):
        stage.tick(VENGEANCE)
    stage.tick(ICE)
    stage.wait(3)
    stage.tick(SHOOT)
    stage.wait(6)


def maul_special(stage: Stage, case: str) -> None:
    """Randomised gear with a granite maul: two hits in one press, without a wait."""
    stage.shoot_until_hurt(0.9, "free_slot", limit=40)
    stage.tick(EAT)
    stage.wait(10)
    stage.walk_to_distance(1)
    stage.phase("basic")
    stage.tick(MELEE, EAT)
    stage.wait(8)
    stage.phase("spec")
    for _ in range(3):
        stage.tick(MELEE_SPECIAL, EAT)
        stage.wait(3)
        stage.tick(WAIT, EAT)
        stage.wait(6)
    stage.phase("tail")
    stage.wait(8)


def death(stage: Stage, case: str) -> None:
    """A kill, the terminal replies, and a second fight of the same logins."""
    stage.walk_to_distance(4)
    stage.phase("kill")
    try:
        for _ in range(400):
            stage.tick(SHOOT)
    except Over:
        pass
    stage.phase("second")
    stage.reset()
    stage.walk_to_distance(4)
    stage.phase("second")
    stage.tick(SHOOT)
    stage.wait(20)


SCRIPTS = {
    "ice_distance": Script(ice_distance, ("MED", "LMS_MED"), ("1", "2", "4", "7")),
    "freeze_end": Script(freeze_end, ("MED", "LMS_MED"), repeats=2),
    "eat_cooldown": Script(eat_cooldown, ("MED",), ("-1", "1", "3", "5", "8")),
    "combat_potions": Script(combat_potions, ("MED", "PURE"), repeats=4),
    "prayer_switch": Script(prayer_switch, ("MED", "LMS_MED"), repeats=4),
    "prayer_drain": Script(prayer_drain, ("PURE", "LMS_MED"), ("magic", "smite")),
    "move_once": Script(move_once, ("MED",), tuple(f"{start}>{place}" for start in (1, 4) for place in PLACES)),
    "pid_ranged": Script(pid_ranged, ("MED", "LMS_MED"), ("3", "4"), repeats=3),
    "drink_drops_target": Script(drink_drops_target, ("MED",), ("drink", "drink+attack", "food", "pray")),
    "vengeance": Script(vengeance, ("MED", "ZERKER")),
    "spec_gmaul_lms_zerker": Script(maul_special, ("LMS_ZERKER",), repeats=4),
    "death": Script(death, ("MED", "PURE"), repeats=2),
}
