"""Reach, following, paths, ordered walks, run energy (mechanics.md §4.4 and §13, nh-actions.md §5.10)."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from arena import ICE_ORDER, NEVER, Arena, one

from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.spells import ICE_BARRAGE
from sb3_pvp.games.osrs.sim.state import FREEZE_TIMER

#: Offsets of A from B: every tile up to six away, one fight for each.
OFFSETS = np.array([(dx, dy) for dx in range(-6, 7) for dy in range(-6, 7)])
REACHES = {
    "ABYSSAL_WHIP": 1, "ELDER_MAUL": 1, "KODAI_WAND": 1, "DRAGON_KNIFE": 4, "MORRIGANS_JAVELIN": 5,
    "RUNE_CROSSBOW": 7, "HEAVY_BALLISTA": 7, "DARK_BOW": 9,
}  # fmt: skip


def offset_arena(weapon: str = "ABYSSAL_WHIP", offsets: np.ndarray = OFFSETS) -> Arena:
    arena = Arena(len(offsets))
    arena.wear(arena.a, weapon)
    arena.make_hopeless()
    arena.put(arena.a, 3060 + offsets[:, 0], 3540 + offsets[:, 1])
    arena.put(arena.b, 3060, 3540)
    arena.a["last_x"], arena.a["last_y"] = 3060, 3540
    return arena


def places(arena: Arena) -> np.ndarray:
    """A's tiles seen from B's old one."""
    return np.stack([arena.a["x"] - 3060, arena.a["y"] - 3540], axis=1)


def freeze(seat: np.ndarray) -> None:
    seat["timer"][:, FREEZE_TIMER] = NEVER


@pytest.mark.parametrize(("weapon", "reach"), [*REACHES.items(), ("spell", 10)])
def test_reach(weapon: str, reach: int) -> None:
    """Chebyshev distance, not from the same tile, and melee not diagonally."""
    offsets = np.array([(dx, dy) for dx in range(-12, 13) for dy in range(-12, 13)])
    arena = offset_arena("KODAI_WAND" if weapon == "spell" else weapon, offsets)
    freeze(arena.a)
    arena.strike(spell=ICE_BARRAGE if weapon == "spell" else 0)
    away = np.abs(offsets).max(axis=1)
    diagonal = (np.abs(offsets) == 1).all(axis=1)
    expected = (away > 0) & (away <= reach) & ~(diagonal & (reach == 1))
    assert ((arena.a["hits_dealt"] > 0) == expected).all()


def test_a_moving_target_can_be_hit_diagonally() -> None:
    for moving, hits in ((0, 0), (1, 1)):
        arena = offset_arena(offsets=np.array([(1, 1)]))
        freeze(arena.a)
        arena.b["moving"] = moving
        arena.strike()
        assert one(arena.a["hits_dealt"]) == hits


@pytest.mark.parametrize(("distance", "moving", "hits"), [(4, 1, 1), (4, 0, 0), (5, 1, 0), (2, 1, 1)])
def test_melee_reaches_one_tile_farther_while_both_move(distance: int, moving: int, hits: int) -> None:
    arena = offset_arena(offsets=np.array([(-distance, 0)]))
    arena.b["moving"] = moving  # its flag of the last tick, as A goes first
    arena.strike()
    assert one(arena.a["hits_dealt"]) == hits


def test_a_frozen_fighter_does_not_reach_farther() -> None:
    arena = offset_arena(offsets=np.array([(-2, 0)]))
    freeze(arena.a)
    arena.b["moving"] = 1
    arena.strike()
    assert one(arena.a["hits_dealt"]) == 0


def best_neighbour(dx: int, dy: int) -> tuple[int, int]:
    """§13.2: nearest to A; ties prefer A's row or column, then the last aligned (or first other) of S, N, W, E."""
    tiles = [(0, -1), (0, 1), (-1, 0), (1, 0)]
    away = [max(abs(dx - x), abs(dy - y)) for x, y in tiles]
    nearest = [tile for tile, distance in zip(tiles, away, strict=True) if distance == min(away)]
    aligned = [(x, y) for x, y in nearest if x == dx or y == dy]
    return aligned[-1] if aligned else nearest[0]


def shortest_path(dx: int, dy: int) -> list[tuple[int, int]]:
    """§13.3: breadth first with neighbour order W, E, S, N, SW, SE, NW, NE; the tiles from (0, 0) to the offset."""
    steps = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)]
    parents: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, 0)}
    queue = deque([(0, 0)])
    while (dx, dy) not in parents:
        x, y = queue.popleft()
        for sx, sy in steps:
            tile = (x + sx, y + sy)
            if tile not in parents:
                parents[tile] = (x, y)
                queue.append(tile)
    path = [(dx, dy)]
    while path[-1] != (0, 0):
        path.append(parents[path[-1]])
    return path[::-1]


def test_a_follower_takes_two_steps_towards_the_best_neighbour() -> None:
    arena = offset_arena()
    arena.strike()
    for (dx, dy), place in zip(OFFSETS.tolist(), places(arena).tolist(), strict=True):
        if abs(dx) + abs(dy) == 1:
            expected = (dx, dy)
        else:
            goal = best_neighbour(dx, dy)
            path = shortest_path(goal[0] - dx, goal[1] - dy)
            step = path[min(2, len(path) - 1)]
            expected = (dx + step[0], dy + step[1])
        assert tuple(place) == expected, f"from {dx, dy}"


@pytest.mark.parametrize(
    ("start", "end"), [((0, 0), (1, 0)), ((1, 1), (1, 0)), ((-1, 1), (-1, 0)), ((1, -1), (1, 0)), ((-1, -1), (-1, 0))]
)
def test_from_under_the_target_east_and_from_a_diagonal_vertically(
    start: tuple[int, int], end: tuple[int, int]
) -> None:
    arena = offset_arena(offsets=np.array([start]))
    arena.strike()
    assert tuple(places(arena)[0]) == end
    assert one(arena.a["hits_dealt"]) == 1  # and it attacks from there in the same tick


def test_a_walk_follows_the_shortest_path() -> None:
    arena = offset_arena()
    arena.a["goal_x"], arena.a["goal_y"] = 3060, 3540
    arena.a["walking"] = np.abs(OFFSETS).max(axis=1) > 0
    paths = [shortest_path(-dx, -dy) for dx, dy in OFFSETS.tolist()]
    for tick in range(1, 4):
        arena.tick()
        expected = OFFSETS + np.array([path[min(2 * tick, len(path) - 1)] for path in paths])
        assert (places(arena) == expected).all()
    assert one(arena.a["walking"]) == 0


@pytest.mark.parametrize(
    ("weapon", "stops"), [("RUNE_CROSSBOW", [(-10, -4), (-8, -4), (-7, -4)]), ("DARK_BOW", [(-10, -4), (-9, -4)])]
)
def test_a_shooter_stops_as_soon_as_it_reaches(weapon: str, stops: list[tuple[int, int]]) -> None:
    arena = offset_arena(weapon, np.array([(-12, -4)]))
    for stop in [*stops, stops[-1]]:
        arena.strike()
        assert tuple(places(arena)[0]) == stop
    assert one(arena.a["hits_dealt"]) == (2 if weapon == "DARK_BOW" else 1)


@pytest.mark.parametrize(("offset", "kept"), [((15, 0), 1), ((15, 15), 1), ((16, 0), 0), ((0, -16), 0)])
def test_a_follower_gives_up_beyond_fifteen_tiles(offset: tuple[int, int], kept: int) -> None:
    arena = offset_arena(offsets=np.array([offset]))
    arena.strike()
    assert one(arena.a["targeting"]) == kept
    assert (tuple(places(arena)[0]) != offset) == kept


def test_the_frozen_stay_where_they_are() -> None:
    arena = offset_arena()
    freeze(arena.a)
    arena.tick(a=["move_next_to_target"])
    assert (places(arena) == OFFSETS).all()
    assert one(arena.a["walking"]) == 0
    arena.strike()
    assert (places(arena) == OFFSETS).all()


def test_running_lasts_for_a_hundred_and_two_moving_ticks() -> None:
    """[seen live]: two tiles a tick, one tile from moving tick 103 on, also in the next fight of the same login."""
    arena = Arena()
    arena.a["goal_x"], arena.a["walking"] = 10_000, 1
    x = [one(arena.a["x"])]
    for _ in range(105):
        arena.tick()
        x.append(one(arena.a["x"]))
    assert np.diff(x).tolist() == [2] * 102 + [1] * 3
    arena.world.reset(options={"logins": (arena.world.login(0, 0), None), "training": False})
    arena.a["goal_x"], arena.a["walking"] = 10_000, 1
    x = one(arena.a["x"])
    arena.tick()
    assert one(arena.a["x"]) == x + 1


WALKS = {
    ("move_next_to_target",): [(1, 0), (-1, 0), (0, 1), (0, -1)],
    ("move_diagonal_to_target",): [(1, 1), (-1, 1), (1, -1), (-1, -1)],
    ("move_under_target",): [(0, 0)],
    ("move_to_farcast_tile",): [(x, y) for x, y in OFFSETS.tolist() if max(abs(x), abs(y)) == 1],  # [seen live]
    **{
        ("move_to_farcast_tile", f"farcast_{d}_tiles"): [
            (x, y) for x in range(-d, d + 1) for y in range(-d, d + 1) if max(abs(x), abs(y)) == d
        ]
        for d in range(2, 8)
    },
}


@pytest.mark.parametrize("order", WALKS, ids=" ".join)
def test_an_ordered_walk_goes_to_the_nearest_candidate(order: tuple[str, ...]) -> None:
    """§13.5: nearest to A by Chebyshev distance; who is there already keeps its target."""
    candidates = np.array(WALKS[order])
    arena = offset_arena(offsets=OFFSETS)
    arena.a["targeting"] = 1
    freeze(arena.b)
    arena.tick(a=order)
    goal = np.stack([arena.a["goal_x"] - 3060, arena.a["goal_y"] - 3540], axis=1)
    away = np.abs(OFFSETS[:, None] - candidates).max(axis=2)
    there = away.min(axis=1) == 0
    chosen = np.array([(goal[k] == candidates).all(axis=1) for k in range(len(goal))])
    walked = ~there | (order == ("move_under_target",))
    assert chosen[walked].any(axis=1).all()
    assert (away[walked][chosen[walked]] == away[walked].min(axis=1)).all()
    assert (arena.a["targeting"] == ~walked).all()


def test_ties_between_destinations_are_broken_at_random() -> None:
    arena = Arena(6000)
    arena.place(10, 0)
    arena.tick(a=["move_to_farcast_tile", "farcast_7_tiles"])
    goals, counts = np.unique(arena.a["goal_y"] - 3540, return_counts=True)
    assert goals.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert np.allclose(counts / 6000, 1 / 7, atol=0.02)


def test_an_ordered_walk_drops_spell_target_and_path_and_goes_on_for_several_ticks() -> None:
    arena = offset_arena(offsets=np.array([(9, 0)]))
    arena.tick(a=[*ICE_ORDER, "move_next_to_target"])  # the move wins
    assert (one(arena.a["spell"]), one(arena.a["targeting"]), one(arena.a["hits_dealt"])) == (0, 0, 0)
    arena.tick(times=3)
    assert tuple(places(arena)[0]) == (1, 0)


def test_two_on_one_tile_cannot_attack() -> None:
    arena = offset_arena(offsets=np.array([(0, 0)]))
    arena.wear(arena.b, "RUNE_CROSSBOW")
    for seat in (arena.a, arena.b):
        freeze(seat)
        seat["targeting"] = 1
    arena.tick(times=3)
    assert one(arena.world.state["hits_dealt"]) == 0


class TestStartPositions:
    """§13.6."""

    def test_training(self) -> None:
        world = SimWorld(20_000)
        world.reset()
        (ax, bx), (ay, by) = world.state["x"].T, world.state["y"].T
        assert (ax.min(), ax.max(), ay.min(), ay.max()) == (3041, 3101, 3530, 3557)
        assert (bx.min(), bx.max(), by.min(), by.max()) == (3041, 3101, 3530, 3557)
        inside = (ax >= 3046) & (ax <= 3097)
        assert np.unique(bx[inside] - ax[inside]).tolist() == list(range(-5, 5))
        inside = (ay >= 3535) & (ay <= 3553)
        assert np.unique(by[inside] - ay[inside]).tolist() == list(range(-5, 5))

    def test_otherwise(self) -> None:
        world = SimWorld()
        world.reset(options={"training": False})
        assert world.state["x"].tolist() == [[3096, 3096]]
        assert world.state["y"].tolist() == [[3530, 3530]]

    def test_a_bot_appears_one_tile_west(self) -> None:
        world = SimWorld(50)
        world.reset(options={"bots": (None, "baseline")})
        agent, bot = world.state.T
        assert (agent["x"] - bot["x"] == 1).all()
        assert (agent["y"] == bot["y"]).all()
