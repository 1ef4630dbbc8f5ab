"""What a reset does not end, in the next fight of the same login: against recordings of the original server.

The recordings are those of one login with six fights of 100 ticks each; a fight was broken off by the next reset.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from recordings import FOLDER, read

from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.hits import POISON_PERIOD
from sb3_pvp.games.osrs.sim.state import HITPOINTS
from sb3_pvp.policies.files.model_files import load_opponent

BOT = (None, "baseline")
HP = 99


@cache
def health(number: str) -> list[list[int]]:
    """The hitpoints in each reply, by fight."""
    episodes = read(FOLDER / f"logins/dharok-login-{number}.jsonl.gz")
    return [[round(HP * reply.meta["currentHealthPercent"]) for reply in each.replies] for each in episodes]


def lost(number: str, fight: int, tick: int) -> int:
    """Hitpoints lost in a tick of a recorded fight, of which the first reply shows tick 1."""
    seen = health(number)[fight - 1]
    return seen[tick - 2] - seen[tick - 1]


def poisoned(fired: int, damage: int, end: int, times: int = 1) -> SimWorld:
    """A fight that ends in tick ``end``, the last poison of which came in tick ``fired``, for the ``times``-th time."""
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"bots": BOT})
    seat = world.state[0, 0]
    seat["poison"], seat["poison_count"] = damage, times
    seat["poison_countdown"] = POISON_PERIOD - (end - fired) % POISON_PERIOD
    return world


def next_fight(world: SimWorld) -> None:
    world.reset(options={"bots": BOT, "logins": (world.login(0, 0), None)})


def ticks_of_poison(world: SimWorld, until: int) -> list[int]:
    """Ticks of this fight in which poison is queued, with nobody fighting."""
    found = []
    for tick in range(2, until + 1):
        world.state["targeting"] = 0
        world.state["level"][:, :, HITPOINTS] = HP
        due = [world.state["poison_countdown"][0, 0] >> 8 * task & 255 == 1 for task in range(7)]
        if any(due) and world.state["poison"][0, 0]:
            found.append(tick)
        world.step(np.zeros((1, 2, world.contract.num_heads), np.int64))
    return found


@pytest.mark.parametrize(
    ("number", "fight", "fired", "again"),
    [("02", 4, 99, 27), ("05", 2, 99, 27), ("08", 2, 60, 18), ("08", 3, 98, 26), ("08", 4, 56, 14), ("09", 1, 94, 22)],
)
def test_a_poison_task_goes_on_in_its_old_phase_if_the_login_is_poisoned_again(
    number: str, fight: int, fired: int, again: int
) -> None:
    assert lost(number, fight, fired) >= 10 and lost(number, fight + 1, again) >= 10
    world = poisoned(fired, damage=12, end=len(health(number)[fight - 1]))
    next_fight(world)
    assert world.report["episode_ticks"][0, 0] == 1 and world.state["poison"][0, 0] == 0
    world.state["poison"][0, 0] = 12
    assert again in ticks_of_poison(world, again + POISON_PERIOD + 1)


@pytest.mark.parametrize(
    ("number", "fight", "fired", "damage"), [("01", 5, 72, 12), ("05", 5, 72, 12), ("08", 4, 72, 11)]
)
def test_poison_of_the_tick_of_the_reset_hits_in_the_next_fight(
    number: str, fight: int, fired: int, damage: int
) -> None:
    world = poisoned(fired, damage, end=len(health(number)[fight - 1]))
    next_fight(world)
    assert world.state["level"][0, 0, HITPOINTS] == health(number)[fight][0] < HP
    assert world.state["splat_damage"][0, 0, 0] == damage and world.obs[0, 0].max() > 0


def test_a_task_that_is_due_while_nobody_is_poisoned_ends() -> None:
    world = poisoned(fired=90, damage=12, end=101)
    next_fight(world)
    assert ticks_of_poison(world, 40) == [] and world.state["poison_countdown"][0, 0] == 0
    # And none comes with a new login, whatever was before.
    again = poisoned(fired=90, damage=12, end=101)
    again.reset(options={"bots": BOT})
    assert again.state["poison_countdown"][0, 0] == 0


def test_tasks_share_one_damage_and_the_end_of_one_ends_all() -> None:
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"bots": BOT})
    world.state["poison"][0, 0] = 3
    # Two tasks, due in 2 and 5 ticks, the 5th and the 4th time.
    world.state["poison_countdown"][0, 0], world.state["poison_count"][0, 0] = 2 | 5 << 8, 4 | 3 << 8
    assert ticks_of_poison(world, 100) == [3, 6, 33, 36], "each weakens it once, and 1 is the last"
    assert world.state["poison"][0, 0] == world.state["poison_countdown"][0, 0] == 0


def test_special_energy_comes_back_in_the_phase_of_the_last_fight() -> None:
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"bots": BOT})
    world.state["energy"][0, 0], world.state["energy_countdown"][0, 0] = 50, 20
    next_fight(world)
    assert (world.state["energy"][0, 0], world.state["energy_countdown"][0, 0]) == (100, 18)
    world.reset(options={"bots": BOT})
    assert world.state["energy_countdown"][0, 0] == 0


def test_after_the_end_of_a_fight_more_ticks_pass_than_after_a_break() -> None:
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"bots": BOT})
    assert world.login(0, 0)["wait"] == 1
    world.outcome[0] = 1, 2
    assert world.login(0, 0)["wait"] == 8


def test_later_fights_of_a_login_are_poisoned_as_early_as_on_the_original() -> None:
    """The smallest scenario that was measured there: whip when legal, anglerfish below 60 hitpoints, for 100 ticks."""
    world = SimWorld(120, seed=3, contract="DharokEnv")
    world.reset(options={"bots": BOT})
    first, early, below = 0, 0, 0
    for fight in range(8):
        if fight:
            logins = [{"bots": BOT, "logins": (world.login(row, 0), None)} for row in range(world.num_fights)]
            world.reset(np.arange(world.num_fights), logins)
            below += int((world.state["level"][:, 0, HITPOINTS] < HP).sum())
        hit = np.zeros(world.num_fights, bool)
        for tick in range(2, 102):
            due = [world.state["poison_countdown"][:, 0] >> 8 * task & 255 == 1 for task in range(7)]
            hit |= np.any(due, 0) & (world.state["poison"][:, 0] > 0) & (tick < 30)
            world.step(whip_or_eat(world))
        first, early = (int(hit.sum()), early) if fight == 0 else (first, early + int(hit.sum()))
    later = 7 * world.num_fights
    assert first == 0  # 0 of 60
    assert 0.105 < early / later < 0.185  # 60 of 420: 95 % are 11.2 to 18.0 %
    assert 0.05 < below / later < 0.14  # 41 of 420


def test_later_fights_of_a_login_are_those_of_the_original() -> None:
    """`dharok` against the bot, fights 2 to 12 of 60 logins; on the original 1,100 fights were measured."""
    world, fighter = SimWorld(60, seed=1, contract="DharokEnv"), load_opponent("dharok")
    rows = np.arange(world.num_fights)
    world.reset(options={"bots": BOT})
    state, starts = fighter.initial_state(rows.tolist()), np.ones(len(rows), bool)
    played, hits, early = np.zeros(len(rows), int), np.zeros(len(rows)), np.zeros(len(rows), bool)
    fights: list[tuple[float, bool, bool]] = []
    no_op = np.zeros((len(rows), 2, world.contract.num_heads), np.int64)
    while len(rows):
        actions = no_op.copy()
        actions[:, 0], state = fighter.predict(world.obs[:, 0], state, starts, False, world.masks[:, 0])
        due = sum((world.state["poison_countdown"][:, 0] >> 8 * task & 255 == 1).astype(int) for task in range(7))
        due = due * (world.state["poison"][:, 0] > 0)
        hits, early = hits + due, early | (due > 0) & (world.ticks + 1 < 30)
        starts[:] = False
        world.step(actions[rows], rows)
        over = rows[world.outcome[rows, 0] != 0]
        if len(over):
            world.step(no_op[over], over)  # the terminal reply
            fights += [(hits[row], early[row], world.outcome[row, 0] == 1) for row in over if played[row]]
            played[over] += 1
            rows = rows[played[rows] < 12]
            again = [row for row in over if row in rows]
            hits[again], early[again], starts[again] = 0, False, True
            world.reset(again, [{"bots": BOT, "logins": (world.login(row, 0), None)} for row in again])
    number, (hits_mean, early_mean, won_mean) = len(fights), np.mean(fights, axis=0)
    assert number == 60 * 11
    error = np.std([each[0] for each in fights]) / number**0.5
    assert abs(hits_mean - 5.7373) < 1.96 * np.hypot(error, 0.1458)
    for share, measured in ((early_mean, 116 / 1100), (won_mean, 1085 / 1100)):
        assert abs(share - measured) < 1.96 * (measured * (1 - measured) * (1 / number + 1 / 1100)) ** 0.5


def whip_or_eat(world: SimWorld) -> np.ndarray:  # type: ignore[type-arg]
    contract, masks = world.contract, world.masks[:, 0]
    actions = np.zeros((world.num_fights, 2, contract.num_heads), np.int64)
    starts = np.cumsum([0, *contract.head_sizes])
    for name, wanted in (("whip_attack", True), ("eat_primary_food", world.state["level"][:, 0, HITPOINTS] < 60)):
        index = contract.flat_index(name)
        head = int(np.searchsorted(starts, index, "right")) - 1
        actions[:, 0, head] = np.where(masks[:, index] & wanted, index - starts[head], 0)
    return actions
