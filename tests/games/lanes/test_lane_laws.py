"""Laws of the lanes: elixir, hands, damage, and that no seat is the better one."""

from __future__ import annotations

import hashlib
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.lanes import LANES, LANES_PIXELS, LanesGame, rules
from sb3_pvp.games.lanes.cards import COST, DAMAGE, HEALTH, KIND, NUM_TOWERS, RADIUS, RANGE, SPELL, SPLASH
from sb3_pvp.games.lanes.rules import AGE, CARD, LEFT, STILL, X, Y
from tests.games.lanes.battles import action, give, mirrored, new_world, random_actions
from tests.paths import DATA

SEEDS = st.integers(0, 2**32 - 1)
WAIT = [0, 0, 0]
GOLDEN = DATA / "lanes" / "battles.json"


@pytest.mark.parametrize("game", [LANES, LANES_PIXELS], ids=str)
def test_the_worlds_keep_the_rules_of_worlds(game: LanesGame) -> None:
    check_world(game.make_world("sim", 3, 0, {"deck": "random"}))


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_elixir_comes_in_time_is_paid_and_never_more_than_ten(seed: int) -> None:
    world, rng = new_world(2, seed, deck="random", ticks=7), np.random.default_rng(seed)
    for _ in range(60):
        before, clock, decks = world.elixir.copy(), world.clocks.copy(), world.decks.copy()
        world.step(random_actions(world, rng))
        cost = np.where(world.last > 0, world.figures[world.last - 1, COST], 0) * rules.DROPS
        ticks = np.arange(1, 8)[:, None] + clock
        drops = np.where(ticks > rules.DOUBLE_FROM, 2, 1).sum(axis=0)[:, None]
        np.testing.assert_array_equal(world.elixir, np.minimum(before - cost + drops, rules.MOST_ELIXIR))
        assert (before >= cost).all()
        for fight, seat in np.argwhere(world.last > 0):
            card = world.last[fight, seat] - 1
            assert card in decks[fight, seat, :4] and world.decks[fight, seat, 7] == card
            assert world.decks[fight, seat, decks[fight, seat].tolist().index(card)] == decks[fight, seat, 4]
            assert sorted(world.decks[fight, seat]) == sorted(decks[fight, seat])


def test_a_card_comes_back_after_four_others() -> None:
    world = new_world()
    first = world.decks[0, 0].tolist()
    for card in first[:4]:
        world.elixir[:] = 280
        world._show(np.array([0]))
        world.step([[action(world, world.table.names[card], 3, 3) if card < 16 else [card + 1, 3, 3], WAIT]])
    assert {*world.decks[0, 0, :4]} == {*first[4:]} and world.decks[0, 0, 4:].tolist() == first[:4]


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_a_mirrored_battle_is_the_mirror_image_in_every_bit(seed: int) -> None:
    world, rng = new_world(8, seed, deck="random"), np.random.default_rng(seed)
    for _ in range(40):  # any moment may be the first one
        world.step(random_actions(world, rng))
    other = mirrored(world)
    for _ in range(60):
        actions = random_actions(world, rng)
        world.step(actions)
        other.step(np.ascontiguousarray(actions[:, ::-1]))
        again = mirrored(world)
        for name in ("units", "tops", "elixir", "decks", "played"):
            np.testing.assert_array_equal(getattr(other, name), getattr(again, name), name)
        assert other.obs.tobytes() == np.ascontiguousarray(world.obs[:, ::-1]).tobytes()
        assert other.masks.tobytes() == np.ascontiguousarray(world.masks[:, ::-1]).tobytes()
        np.testing.assert_array_equal(other.outcome, world.outcome[:, ::-1])


@settings(max_examples=6, deadline=None)
@given(SEEDS)
def test_nobody_is_hurt_from_out_of_range(seed: int) -> None:
    world, rng = new_world(1, seed, deck="random", ticks=1), np.random.default_rng(seed)
    figures = world.figures
    for _ in range(600):
        before = world.units[0].copy()
        world.step(random_actions(world, rng))
        after = world.units[0]
        for seat, slot in np.argwhere((before[..., LEFT] > after[..., LEFT]) & (before[..., LEFT] > 0)):
            one, others = before[seat, slot], before[1 - seat][before[1 - seat][:, LEFT] > 0]
            if figures[one[CARD], KIND] == SPELL or one[AGE] == 1:
                continue
            far = np.hypot(others[:, X] - one[X], others[:, Y] - one[Y])
            reach = figures[others[:, CARD], RANGE] + figures[others[:, CARD], RADIUS] + figures[one[CARD], RADIUS]
            # What splashes goes on from the one that is hit, which has a body too.
            reach = reach + np.where(figures[others[:, CARD], SPLASH] > 0, figures[others[:, CARD], SPLASH] + 2000, 0)
            strikers = (far <= reach + 1) & (others[:, STILL] <= 1)
            assert strikers.any(), (seat, slot)
            lost = int(before[seat, slot, LEFT] - after[seat, slot, LEFT])
            assert lost <= figures[others[strikers][:, CARD], DAMAGE].sum()
        if world.outcome.any():
            break


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_all_that_masks_and_rules_allow_is_legal_and_nothing_else_is(seed: int) -> None:
    world, rng = new_world(1, seed, deck="random"), np.random.default_rng(seed)
    for _ in range(40):
        world.step(random_actions(world, rng))
        if rng.random() < 0.1:  # so that pockets open
            world.units[0, rng.integers(2), rng.integers(2), LEFT] = 0
            world._show(np.array([0]))
        contract = world.contract
        for seat in range(2):
            mask = world.masks[0, seat]
            for card, column in [(int(rng.integers(1, 21)), int(rng.integers(18))) for _ in range(8)]:
                open_rows = contract.conditional_mask(mask, [card, column]) & mask[card]
                for row in range(contract.head_sizes[2]):
                    facts = world.figures, world.units[0], world.tops[0], world.elixir[0, seat], world.decks[0]
                    legal = rules.is_legal(card - 1, np.array([card, column, row]), *facts, seat)
                    assert legal == open_rows[row], (card, column, row)


def test_what_is_not_legal_plays_no_card() -> None:
    world = new_world()
    give(world, 0, "ogre", "gunner", "gnats", "meteor", elixir=100)
    for wrong in (
        action(world, "ogre", 3, 5),
        action(world, "gunner", 3, "row_20"),
        action(world, "gnats", 3, "left_row_18"),
        [5, 3, 3],
    ):
        world.step([[wrong, WAIT]])
        assert world.last[0, 0] == 0 and world.tops[0, 0] == NUM_TOWERS


def test_behind_a_fallen_guard_troops_may_be_placed() -> None:
    world = new_world()
    world.units[0, 1, 1, LEFT] = 0  # the other side's right guard is on the own left
    give(world, 0, "gunner", "gnats", "duellist", "meteor")
    entries = world.contract.action_index("left_row_17")[1], world.contract.action_index("right_row_17")[1]
    mask = world.contract.split_mask(world.masks[0, 0])[2]
    assert mask[entries[0]] and not mask[entries[1]]
    world.step([[action(world, "gunner", 3, "left_row_18"), WAIT]])
    assert world.last[0, 0] and world.units[0, 0, 3, [X, Y]].tolist() == [-5500, 2500]


@pytest.mark.parametrize("script", [None, "guardian"])
@pytest.mark.slow
def test_identical_players_win_as_often_on_both_seats(script: str | None) -> None:
    world, rng = new_world(2600, 5, ticks=20), np.random.default_rng(5)
    while (running := np.flatnonzero(world.outcome[:, 0] == Outcome.RUNNING)).size:
        if script is None:
            actions = world.contract.random_action(world.masks[running], rng)
        else:
            seats = [
                Turn(world.contract, world.obs[running, seat], world.masks[running, seat], rng.random(len(running)))
                for seat in range(2)
            ]
            for turn in seats:
                LANES.scripts[script](turn)
            actions = np.stack([turn.actions() for turn in seats], axis=1)
        world.step(actions, running)
    battles, won = world.num_fights, world.outcome[:, 0] == Outcome.WON
    points = (won.sum() + (world.outcome[:, 0] == Outcome.TIED).sum() / 2) / battles
    assert abs(points - 0.5) < 0.03  # three standard deviations of so many battles


def test_a_state_resumes_exactly() -> None:
    world, rng = new_world(8, deck="random", bot="tactician"), np.random.default_rng(1)
    for _ in range(30):
        world.step(random_actions(world, rng))
    state, actions = world.get_state(), [random_actions(world, rng) for _ in range(80)]
    courses = []
    for _ in range(2):
        other = LANES.make_world("sim", 8, 99, {"deck": "random"})
        other.set_state(state)
        seen = []
        for each in actions:
            other.step(each)
            seen.append((other.obs.tobytes(), other.masks.tobytes(), other.report.tobytes(), other.outcome.tobytes()))
            other.reset(np.flatnonzero(other.outcome[:, 0]))
        courses.append(seen)
    assert courses[0] == courses[1]


def test_what_is_refused_changes_nothing() -> None:
    world = new_world(2)
    for _ in range(20):
        world.step([[WAIT, WAIT]] * 2)
    before = pickle.dumps(world.get_state())
    for wrong in ({"reset_params": {"deck": ["x"]}}, {"seat_reset_params": ({"ticks": 3}, {})}):
        with pytest.raises(ValueError, match="unknown card|same ticks"):
            world.reset(options=[{"seed": 9}, {"seed": 9, **wrong}])
        assert pickle.dumps(world.get_state()) == before


@pytest.mark.parametrize("seat", [0, 1])
def test_each_side_has_the_bot_of_its_own_parameters(seat: int) -> None:
    world, own, other = new_world(2), {"bot": "tactician"}, {"bot": "random"}
    bots = ("baseline", None) if seat == 0 else (None, "baseline")
    world.reset([0], {"seed": 3, "bots": bots, "seat_reset_params": (own, other) if seat == 0 else (other, own)})
    world.reset([1], {"seed": 3, "bots": bots, "reset_params": own})
    played = []
    for _ in range(60):
        world.step([[WAIT, WAIT]] * 2)
        played.append(world.last[:, seat].tolist())
    assert all(one == same for one, same in played) and len({one for one, _ in played}) > 3


def course(match: dict[str, Any]) -> dict[str, Any]:
    """Plays a golden battle; returns how it ends, and a hash of all that changed in each decision."""
    world = LANES.make_world("sim", 1, match["seed"], match["params"])
    world.reset(options={"seed": match["seed"], "bots": ("baseline", "baseline"), "reset_params": match["params"]})
    seen = []
    while not world.outcome.any():
        world.step([[WAIT, WAIT]])
        kept = b"".join(each.tobytes() for each in (world.units[:, :, : world.tops.max()], world.elixir, world.decks))
        seen.append(hashlib.blake2b(kept, digest_size=3).hexdigest())
    left = world.units[0, :, :NUM_TOWERS, LEFT].tolist()
    return {"outcome": world.outcome[0].tolist(), "ticks": int(world.clocks[0]), "left": left, "seen": "".join(seen)}


@pytest.mark.parametrize("match", json.loads(GOLDEN.read_text("utf-8")), ids=lambda match: str(match["params"]))
def test_golden_battles(match: dict[str, Any]) -> None:
    """All is whole numbers, the same on all machines; ``python -m tests.games.lanes.test_lane_laws`` writes them."""
    assert course(match) == {name: match[name] for name in ("outcome", "ticks", "left", "seen")}


def test_towers_decide_and_the_weakest_breaks_a_tie() -> None:
    world = new_world(4)
    world.clocks[:] = [1799, 1799, 2399, 2399]
    world.units[0, 0, 0, LEFT] = 0  # a guard less: lost when the time is up
    world.units[2, 1, 1, LEFT] -= 1
    world.units[3, :, 0, LEFT] -= 5
    world.step(np.zeros((4, 2, 3), np.int64))
    assert world.outcome[:, 0].tolist() == [Outcome.LOST, Outcome.RUNNING, Outcome.WON, Outcome.TIED]
    assert world.outcome[:, 1].tolist() == [Outcome.WON, Outcome.RUNNING, Outcome.LOST, Outcome.TIED]


def test_the_keep_sleeps_until_it_is_hurt_or_a_guard_falls() -> None:
    world = new_world(3)
    world.units[1, 0, 2, LEFT] -= 1
    world.units[2, 0, 1, LEFT] = 0
    world.step(np.zeros((3, 2, 3), np.int64))
    assert (world.units[:, 0, 2, STILL] == rules.ASLEEP).tolist() == [True, False, False]


def test_whoever_loses_the_keep_has_lost() -> None:
    world = new_world()
    world.units[0, 1, 2, LEFT] = 0
    world.step([[WAIT, WAIT]])
    assert world.outcome[0].tolist() == [Outcome.WON, Outcome.LOST]


def test_walkers_cross_on_bridges_and_reach_the_other_side() -> None:
    world, rng = new_world(16, deck="random", ticks=1), np.random.default_rng(3)
    crossed = 0
    for _ in range(900):
        world.step(random_actions(world, rng))
        units = world.units[..., NUM_TOWERS:, :]
        alive = (units[..., LEFT] > 0) & (world.figures[units[..., CARD], KIND] != SPELL)
        walks = alive & (world.figures[units[..., CARD], 9] == 0)
        x, y = np.abs(units[..., X]), np.abs(units[..., Y])
        assert x[alive].max(initial=0) <= 9000 and y[alive].max(initial=0) <= 16000
        in_river = walks & (y < 1000)
        assert (np.abs(x - 5500)[in_river] <= 1000).all()
        crossed += int((walks[:, 0] & (units[:, 0, :, Y] > 2000)).sum())
        world.reset(np.flatnonzero(world.outcome[:, 0]))
    assert crossed > 0


def test_reports_are_what_towers_lose() -> None:
    world, rng = new_world(8), np.random.default_rng(2)
    for _ in range(150):
        before = world.units[:, :, :NUM_TOWERS, LEFT].copy()
        world.step(random_actions(world, rng))
        lost = (before - world.units[:, :, :NUM_TOWERS, LEFT]) / world.figures[[20, 20, 21], HEALTH]
        shares = lost.sum(axis=2)
        np.testing.assert_allclose(world.report["damage"], shares[:, ::-1] - shares, atol=1e-6)
        world.reset(np.flatnonzero(world.outcome[:, 0]))


if __name__ == "__main__":
    bots = ("tactician", {}), ("guardian", {"deck": "random"}), ("spender", {"ticks": 10}), ("tactician", {"ticks": 3})
    matches = [{"seed": seed, "params": {"bot": bot, **more}} for seed, (bot, more) in enumerate(bots)]
    lines = [json.dumps({**match, **course(match)}) for match in matches]
    GOLDEN.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
