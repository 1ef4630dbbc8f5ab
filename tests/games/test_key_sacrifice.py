"""KeySacrifice: who dies, who wins, and what the empty seat is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.envs import PvpVecEnv, parallel_env
from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.key_sacrifice import AGENTS, CONTRACT, MOVES, KeySacrifice, KeySacrificeWorld

STAY, LEFT, RIGHT, DOWN, UP = range(len(MOVES))


def new_world(fights: int = 1) -> KeySacrificeWorld:
    world = KeySacrificeWorld(fights, seed=0)
    world.reset()
    return world


def play(world: Any, *choices: int) -> float:
    """Plays a tick of the only match; returns the team's reward."""
    world.step([[choices, (0,) * AGENTS]])
    return float(world.report["reward"][0, 0])


def test_the_worlds_keep_the_rules_of_worlds() -> None:
    check_world(KeySacrificeWorld(3, seed=0))


def test_the_other_seat_is_empty_and_so_is_the_place_of_the_dead() -> None:
    world, contract, rng = new_world(32), CONTRACT, np.random.default_rng(0)
    died = 0
    for _ in range(50):
        world.step(contract.random_action(world.masks, rng))
        assert not world.obs[:, 1].any() and not world.report["reward"][:, 1].any()
        assert (world.masks[:, 1].sum(axis=1) == contract.num_heads).all()
        seen = world.obs[:, 0].reshape(32, AGENTS, -1)
        assert np.array_equal(contract.active_agents(world.obs[:, 0]), world.alive)
        assert not seen[~world.alive].any()
        legal = world.masks[:, 0].reshape(32, AGENTS, -1)
        assert legal[world.alive].all() and (legal[~world.alive].sum(axis=1) == 1).all()
        died += int((~world.alive).sum())
        world.reset(np.flatnonzero(world.outcome[:, 0]))
    assert died > 100


def placed(*cells: tuple[int, int]) -> KeySacrificeWorld:
    """A world with cells of the agents, the dragon and the door."""
    world = new_world()
    world.cells[0] = cells
    return world


def test_a_mate_takes_the_key_of_the_dragon_to_the_door() -> None:
    world = placed((0, 0), (2, 0), (3, 3), (1, 0), (1, 1))
    assert play(world, RIGHT, STAY, RIGHT) == 0.0
    assert world.alive[0].tolist() == [False, True, True] and not world.dragon[0]
    assert world.cells[0, 2].tolist() == [3, 3]  # nobody leaves the board
    assert play(world, STAY, LEFT, STAY) == 0.0 and world.keeper[0] == 1
    seen = dict(zip([each.id for each in CONTRACT.observations], world.obs[0, 0].tolist(), strict=True))
    assert [seen[f"agent{number}_has_key"] for number in range(AGENTS)] == [0, 1, 0]
    assert [seen[f"agent{number}_somebody_has_key"] for number in range(AGENTS)] == [0, 1, 1]
    assert [
        seen[f"agent2_{name}"] for name in ("own_x", "own_y", "mate0_lives", "mate1_lives", "door_x", "mate1_x")
    ] == (pytest.approx([1, 1, 0, 1, -2 / 3, -2 / 3]))
    assert play(world, STAY, UP, STAY) == 1.0
    assert world.outcome[0].tolist() == [Outcome.WON, Outcome.LOST]


def test_all_who_step_on_the_dragon_die() -> None:
    world = placed((0, 0), (2, 0), (1, 1), (1, 0), (3, 3))
    play(world, RIGHT, LEFT, DOWN)
    assert not world.alive[0].any()
    assert world.outcome[0].tolist() == [Outcome.LOST, Outcome.WON]


def toward(away: NDArray[np.float32]) -> int:
    """The move to something at this distance along x and y."""
    if away[0]:
        return RIGHT if away[0] > 0 else LEFT
    return (UP if away[1] > 0 else DOWN) if away[1] else STAY


def test_what_agents_see_is_enough_to_win() -> None:
    """The first one goes to the dragon, then the others to the key, and with it to the door."""
    world = new_world(100)
    places = [each.id for each in CONTRACT.observations][: world.obs.shape[2] // AGENTS]
    thing, door, key, dragon, somebody = (
        places.index(f"agent0_{name}")
        for name in ("dragon_or_key_x", "door_x", "has_key", "dragon_lives", "somebody_has_key")
    )
    for _ in range(20):
        actions = np.zeros((100, 2, AGENTS), np.int64)
        for fight, team in enumerate(world.obs[:, 0].reshape(100, AGENTS, -1)):
            for number, seen in enumerate(team):
                goes = number == 0 if seen[dragon] else seen[key] or not seen[somebody]
                target = door if seen[key] else thing
                actions[fight, 0, number] = toward(seen[target : target + 2]) if goes else STAY
        world.step(actions)
    assert (world.outcome[:, 0] == Outcome.WON).all()


def test_environments_pay_what_the_game_pays() -> None:
    env = PvpVecEnv(16, game=KeySacrifice, seed=0)
    env.reset()
    rng, paid, outcomes = np.random.default_rng(0), 0.0, []
    for _ in range(200):
        _, rewards, _, infos = env.step(CONTRACT.random_action(np.asarray(env.action_masks()), rng))
        outcomes += [info["outcome"] for info in infos if "outcome" in info]
        paid += float(rewards.sum())
    assert outcomes.count("won") == paid > 5
    assert set(outcomes) == {"won", "lost", "timeout"}


def test_the_agents_act_for_themselves_in_pettingzoo() -> None:
    env = parallel_env(game=KeySacrifice)
    env.reset(seed=1)
    assert env.agents == [f"team_0_agent{number}" for number in range(AGENTS)]
    _, rewards, *_ = env.step({agent: [STAY] for agent in env.agents})
    assert set(rewards.values()) == {0.0}


def test_it_has_no_parameters() -> None:
    with pytest.raises(ValueError, match="speed"):
        PvpVecEnv(1, game=KeySacrifice, reset_params={"speed": 2})
    with pytest.raises(ValueError, match="speed"):
        new_world().reset(options={"reset_params": {"speed": 2}})
