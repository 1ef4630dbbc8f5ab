"""Laws of the pitch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.soccer import SOCCER_TWOS, STRIKERS_VS_GOALIE, SoccerGame
from sb3_pvp.games.soccer.physics import _MOST, _move, collide
from sb3_pvp.games.soccer.pitch import AGENT_MASS, BALL_MASS, BOXES, GOAL_LINE, KICK, ROLLING, STEPS_PER_DECISION, solid
from sb3_pvp.games.soccer.world import SoccerWorld

GAMES = [SOCCER_TWOS, STRIKERS_VS_GOALIE]
MASSES = np.array([AGENT_MASS] * 4 + [BALL_MASS])
#: What moves the ball must also turn it: with that, it resists and has energy like 7/5 of its mass.
ROLLING_MASSES = np.array([AGENT_MASS] * 4 + [BALL_MASS / ROLLING])
#: Blue and purple change places.
MIRRORED = [2, 3, 0, 1, 4]


def new_world(game: SoccerGame = SOCCER_TWOS, fights: int = 1, seed: int = 0, **params: Any) -> SoccerWorld:
    world = game.make_world("sim", fights, seed, params)
    world.reset()
    return world


def random_actions(world: SoccerWorld, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(0, 3, (world.num_fights, 2, world.contract.num_heads))


def energy(speeds: NDArray[np.float64], masses: NDArray[np.float64] = MASSES) -> float:
    return float((masses * (speeds**2).sum(axis=-1)).sum())


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_the_worlds_keep_the_rules_of_worlds(game: SoccerGame) -> None:
    check_world(game.make_world("sim", 3, 0, {}))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_nobody_leaves_the_walls(game: SoccerGame) -> None:
    world, rng = new_world(game, 64), np.random.default_rng(1)
    for _ in range(300):
        world.step(random_actions(world, rng))
        x, z = np.abs(world.places[..., 0]), np.abs(world.places[..., 1])
        # Within the sides, the corners, and the nets.
        assert z.max() <= 7.508 - 0.5 + 0.02 and x.max() <= 17.373 - 0.5 + 0.02
        corner = 0.866 * (x - 14.46) + 0.5 * (z - 6.41) + 0.23035 + 0.5
        assert corner[z > 4.5].max(initial=0.0) <= 0.05
        world.reset(np.flatnonzero(world.outcome[:, 0]))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_a_state_resumes_exactly(game: SoccerGame) -> None:
    world, rng = new_world(game, 8), np.random.default_rng(1)
    for _ in range(7):
        world.step(random_actions(world, rng))
    state, actions = world.get_state(), [random_actions(world, rng) for _ in range(40)]
    courses = []
    for _ in range(2):
        other = game.make_world("sim", 8, 99, {})
        other.set_state(state)
        seen = []
        for each in actions:
            other.step(each)
            seen.append((other.obs.tobytes(), other.report.tobytes(), other.outcome.tobytes()))
            other.reset(np.flatnonzero(other.outcome[:, 0]))
        courses.append(seen)
    assert courses[0] == courses[1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_mirrored_pitch_mirrors(seed: int) -> None:
    """Turned by half a circle, with the teams' colours changed, everything comes out turned."""
    world, other = new_world(fights=1, seed=seed), new_world(fights=1)
    rng = np.random.default_rng(seed)
    world.places[0, :, 0] = rng.uniform(-12, 12, 5)
    world.places[0, :, 1] = rng.uniform(-6, 6, 5)
    world.speeds[0] = rng.normal(0, 8, (5, 2))
    other.places[0], other.speeds[0] = -world.places[0, MIRRORED], -world.speeds[0, MIRRORED]
    other.yaws[0] = world.yaws[0, MIRRORED[:4]] + 180
    for each in (world, other):
        each.obs[:] = 0.0
    for _ in range(3):
        actions = random_actions(world, rng)
        world.step(actions)
        other.step(actions[:, ::-1])
        if np.abs(world.places[..., 0]).max() > 14.5:
            return  # where a net may be met: these are no mirrors, see below
        np.testing.assert_allclose(other.places[0], -world.places[0, MIRRORED], atol=1e-6)
        np.testing.assert_allclose(other.speeds[0], -world.speeds[0, MIRRORED], atol=1e-5)
        if world.outcome.any():
            break
    np.testing.assert_allclose(other.obs[:, ::-1], world.obs, atol=1e-4)
    assert np.array_equal(other.outcome[:, ::-1], world.outcome)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_without_actions_and_kicks_energy_does_not_grow(seed: int) -> None:
    world, rng = new_world(), np.random.default_rng(seed)
    world.places[0, :, 0] = rng.uniform(-12, 12, 5)
    world.places[0, :, 1] = rng.uniform(-6, 6, 5)
    world.speeds[0] = rng.normal(0, 10, (5, 2))
    before = energy(world.speeds[0], ROLLING_MASSES)
    for _ in range(50):
        world.step(np.zeros((1, 2, 6), np.int64))
        after = energy(world.speeds[0], ROLLING_MASSES)
        assert after <= before * (1 + 1e-12)
        before = after


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_floor_takes_two_sevenths_of_what_the_ball_gets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places, speeds = rng.uniform(-1.5, 1.5, (5, 2)), rng.normal(0, 10, (5, 2))
    before = speeds.copy()
    contacts = np.empty((_MOST, 2), np.int64), np.empty((_MOST, 2)), np.empty(_MOST)
    _move(places, speeds, solid(BOXES), contacts)
    np.testing.assert_allclose(ROLLING_MASSES @ speeds, ROLLING_MASSES @ before, atol=1e-9)
    assert energy(speeds, ROLLING_MASSES) <= energy(before, ROLLING_MASSES) * (1 + 1e-12)


def test_a_kick_moves_a_ball_that_rolls() -> None:
    """40 newton seconds on 3 kg are 13.3 metres a second, of which 9.5 stay; each step has the ball's drag."""
    world = new_world()
    world.kicks[0, 0] = KICK
    world.places[0] = [(-9, 5), (-9, -5), (9, 5), (9, -5), (0, 0)]
    world.step(np.zeros((1, 2, 6), np.int64))
    np.testing.assert_allclose(world.speeds[0, 4], (5 / 7 * 40 / 3 * 0.98**5, 0.0), rtol=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 10))
def test_contacts_between_bodies_keep_momentum(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    speeds = rng.normal(0, 10, (5, 2))
    pairs = [(one, other) for one in range(5) for other in range(one)]
    bodies = np.array([pairs[each] for each in rng.permutation(len(pairs))[:count]])
    angles = rng.uniform(0, 2 * np.pi, count)
    normals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    before = speeds.copy()
    collide(speeds, bodies, normals)
    np.testing.assert_allclose(MASSES @ speeds, MASSES @ before, atol=1e-9)
    assert energy(speeds) <= energy(before) * (1 + 1e-12)


def test_a_goal_fires_once_and_ends_the_match() -> None:
    for side, outcomes in ((1, (Outcome.WON, Outcome.LOST)), (-1, (Outcome.LOST, Outcome.WON))):
        world = new_world()
        world.places[0, 4], world.speeds[0, 4] = (side * 14.9, 0.0), (side * 20.0, 0.0)
        world.step(np.zeros((1, 2, 6), np.int64))
        assert tuple(world.outcome[0]) == outcomes
        assert world.report["goal"][0].tolist() == [side, -side]
        assert abs(world.places[0, 4, 0]) > GOAL_LINE
        assert 1 <= world.steps[0] <= STEPS_PER_DECISION
        terms = world_rewards(world)
        elapsed = np.float32(world.steps[0] / 5000)
        assert terms[:, 0 if side > 0 else 1].tolist() == [1 - elapsed, 0, 0, 0, 0]
        assert terms[:, 1 if side > 0 else 0].tolist() == [0, -1, 0, 0, 0]
        before = world.places.copy()
        world.step(np.ones((1, 2, 6), np.int64))
        assert np.array_equal(world.places, before)


def world_rewards(world: SoccerWorld, game: SoccerGame = SOCCER_TWOS, **weights: float) -> NDArray[np.float32]:
    """Returns the terms of both seats ``(terms, 2)``."""
    from sb3_pvp.game.world import Transition

    rewards, report = game.rewards, world.report[0]
    assert rewards is not None
    tick = Transition(report, report, np.ones(2, bool), world.outcome[0])
    return rewards.compute(tick, rewards.at(rewards.weights(weights), 0))


def test_the_way_of_the_ball_is_rewarded_if_asked_for() -> None:
    world = new_world()
    before = world.places[0, 4, 0]
    world.speeds[0, 4] = 3.0, 0.0
    world.step(np.zeros((1, 2, 6), np.int64))
    way = np.float32((world.places[0, 4, 0] - before) / GOAL_LINE)
    assert way > 0.0
    assert not world_rewards(world).any()
    assert world_rewards(world, advance=2.0).tolist() == [[0, 0]] * 4 + [[2 * way, -2 * way]]


def test_a_touch_is_rewarded_and_a_kick_only_when_contact_begins() -> None:
    world = new_world(ball_touch=1.0)
    world.places[0, 0], world.yaws[0, 0] = (-2.0, 0.0), 90.0
    world.places[0, 1:4] = [(-9, 5), (9, 5), (9, -5)]
    world.places[0, 4] = (-0.6, 0.0)
    forward = np.zeros((1, 2, 6), np.int64)
    forward[0, 0, 0] = 1
    speeds = []
    for _ in range(3):
        world.step(forward)
        speeds.append(world.speeds[0, 4, 0])
        if world.report["touches"][0, 0]:
            break
    assert world.report["touches"][0].tolist() == [np.float32(0.2), 0]
    assert world_rewards(world)[2, 0] == np.float32(0.2)
    assert max(speeds) > 8.0


@pytest.mark.parametrize(
    ("moves", "expected"),
    [((1, 0), (2.0, 0.0)), ((2, 0), (-2.0, 0.0)), ((0, 1), (0.0, -0.6)), ((1, 2), (0.0, 0.6)), ((0, 0), (0.0, 0.0))],
)
def test_running_sideways_replaces_running_ahead(moves: tuple[int, int], expected: tuple[float, float]) -> None:
    """An agent that looks along +x has its right at -z; five steps of v <- (v + 2 F) (1 - 3 / 50)."""
    world = new_world()
    world.yaws[0, 0], world.places[0, 0] = 90.0, (-9.0, 0.0)
    actions = np.zeros((1, 2, 6), np.int64)
    actions[0, 0, :2] = moves
    world.step(actions)
    gain = sum(0.94**step for step in range(1, 6))
    np.testing.assert_allclose(world.speeds[0, 0], np.array(expected) * gain, atol=1e-12)


def test_stacks_begin_with_zeros_and_grow_from_the_end() -> None:
    world = new_world()
    frames = world.obs.reshape(4, 336)[:, :264].reshape(4, 3, 88)
    assert not frames[:, :2].any() and frames[:, 2].any()
    newest = frames[:, 2].copy()
    world.step(np.zeros((1, 2, 6), np.int64))
    frames = world.obs.reshape(4, 336)[:, :264].reshape(4, 3, 88)
    assert not frames[:, 0].any() and np.array_equal(frames[:, 1], newest)


def test_the_goalie_plays_on_the_other_seat_only() -> None:
    world = new_world(STRIKERS_VS_GOALIE, 2)
    contract = world.contract
    assert contract.active_agents(world.obs[0]).tolist() == [[True, True, False], [False, False, True]]
    assert [end - begin for begin, end in (each.observations for each in contract.agents)] == [295, 295, 739]
    for seat, active in enumerate(contract.active_agents(world.obs[0])):
        for agent, entries in enumerate(contract.agent_entries):
            assert world.masks[0, seat, entries].sum() == (9 if active[agent] else 3)
    world.places[0, 3], world.speeds[0, 3] = (-14.3, 0.0), (-30.0, 0.0)
    for _ in range(5):
        world.step(np.zeros((2, 2, 9), np.int64))
    assert not world.outcome.any()  # the wall
    terms = world_rewards(world, STRIKERS_VS_GOALIE)
    np.testing.assert_allclose(terms[3], [-5 / 5000, 5 / 5000], rtol=1e-6)


@pytest.mark.parametrize("given_params", [{"ball_tuch": 1}, {"ball_touch": "much"}, {"ball_touch": float("nan")}])
def test_wrong_parameters_are_refused(given_params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ball_touch"):
        SOCCER_TWOS.make_world("sim", 1, 0, given_params)


def test_parameters_of_a_reset_are_for_its_match_only() -> None:
    world = SOCCER_TWOS.make_world("sim", 2, 0, {"ball_touch": 0.25})
    world.reset(options={"reset_params": {"ball_touch": 0.5}})
    assert world.ball_touch.tolist() == [0.5, 0.5]
    world.reset([1])
    assert world.ball_touch.tolist() == [0.5, 0.25]


def test_the_purple_net_is_nearer_than_the_blue_one() -> None:
    """Bodies meet Unity's nets, which are no perfect mirrors; rays see both at the same distance."""
    depths = {}
    for side in (-1, 1):
        world = new_world()
        world.places[0, :4] = [(side * 16.6, 2.0), (0, 4), (0, -4), (3, 0)]
        world.speeds[0, 0] = (side * 20.0, 0.0)
        world.step(np.zeros((1, 2, 6), np.int64))
        depths[side] = abs(world.places[0, 0, 0])
    assert depths[-1] == pytest.approx(17.373 - 0.5, abs=2e-3)
    assert depths[1] == pytest.approx(17.36 - 0.5, abs=2e-3)
