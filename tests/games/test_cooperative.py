"""Games for a team alone: the rules of the gate and of the key, and what the empty seat is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.envs import PvpVecEnv, parallel_env
from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.cooperative import AGENTS, GATE, KEY_SACRIFICE, MOVES, KeySacrificeWorld, TeamGame

GAMES = [GATE, KEY_SACRIFICE]
WAIT, PRESS, EXIT = range(3)
STAY, LEFT, RIGHT, DOWN, UP = range(len(MOVES))


def new_world(game: TeamGame, fights: int = 1, seed: int = 0) -> Any:
    world = game.make_world("sim", fights, seed, {})
    world.reset()
    return world


def play(world: Any, *choices: int) -> float:
    """Plays a tick of the only match; returns the team's reward."""
    world.step([[choices, (0,) * AGENTS]])
    return float(world.report["reward"][0, 0])


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_the_worlds_keep_the_rules_of_worlds(game: TeamGame) -> None:
    check_world(game.make_world("sim", 3, 0, {}))


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_the_other_seat_is_empty_and_so_is_the_place_of_the_dead(game: TeamGame) -> None:
    world, contract, rng = new_world(game, 32), game.contract, np.random.default_rng(0)
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


def test_whoever_presses_dies_and_opens_the_gate_for_a_tick() -> None:
    world = new_world(GATE)
    assert play(world, EXIT, EXIT, PRESS) == pytest.approx(-0.2)
    assert world.alive[0].tolist() == [True, True, False]
    assert world.obs[0, 0].tolist() == pytest.approx([1, 0.2, 1, 1, 0.2, 1, 0, 0, 0])
    assert play(world, WAIT, WAIT, EXIT) == 0.0 and not world.outcome.any()  # the dead do not exit
    assert play(world, EXIT, EXIT, WAIT) == 0.0 and not world.outcome.any()  # it is shut again
    assert play(world, PRESS, WAIT, WAIT) == pytest.approx(-0.2)
    assert play(world, WAIT, EXIT, WAIT) == 1.0
    assert world.outcome[0].tolist() == [Outcome.WON, Outcome.LOST]


def test_a_gate_that_nobody_passes_is_lost() -> None:
    world = new_world(GATE)
    for _ in range(5):
        assert not world.outcome.any()
        play(world, WAIT, EXIT, WAIT)
    assert world.outcome[0].tolist() == [Outcome.LOST, Outcome.WON]
    world.reset()
    assert play(world, PRESS, PRESS, PRESS) == pytest.approx(-0.6)
    assert world.outcome[0, 0] == Outcome.LOST


def placed(*cells: tuple[int, int]) -> KeySacrificeWorld:
    """A world with cells of the agents, the dragon and the door."""
    world: KeySacrificeWorld = new_world(KEY_SACRIFICE)
    world.cells[0] = cells
    return world


def test_a_mate_takes_the_key_of_the_dragon_to_the_door() -> None:
    world = placed((0, 0), (2, 0), (3, 3), (1, 0), (1, 1))
    assert play(world, RIGHT, STAY, RIGHT) == 0.0
    assert world.alive[0].tolist() == [False, True, True] and not world.dragon[0]
    assert world.cells[0, 2].tolist() == [3, 3]  # nobody leaves the board
    assert play(world, STAY, LEFT, STAY) == 0.0 and world.keeper[0] == 1
    seen = dict(zip([each.id for each in KEY_SACRIFICE.contract.observations], world.obs[0, 0].tolist(), strict=True))
    assert [seen[f"agent{number}_has_key"] for number in range(AGENTS)] == [0, 1, 0]
    assert [seen[f"agent{number}_somebody_has_key"] for number in range(AGENTS)] == [0, 1, 1]
    assert [seen[f"agent2_{name}"] for name in ("x", "y", "mate0_lives", "mate1_lives", "door_x", "mate1_x")] == (
        pytest.approx([1, 1, 0, 1, -2 / 3, -2 / 3])
    )
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
    world = new_world(KEY_SACRIFICE, 100)
    places = [each.id for each in KEY_SACRIFICE.contract.observations][: world.obs.shape[2] // AGENTS]
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
                aside = seen[thing : thing + 2] if goes else np.zeros(2)
                actions[fight, 0, number] = toward(seen[target : target + 2] if goes else aside)
        world.step(actions)
    assert (world.outcome[:, 0] == Outcome.WON).all()


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_environments_pay_what_the_game_pays(game: TeamGame) -> None:
    env = PvpVecEnv(16, game=game, seed=0)
    env.reset()
    rng, paid, won = np.random.default_rng(0), set(), 0
    for _ in range(150):
        actions = game.contract.random_action(np.asarray(env.action_masks()), rng)
        _, rewards, _, infos = env.step(actions)
        won += sum(info.get("outcome") == "win" for info in infos)
        paid |= set(np.round(rewards.astype(float), 3).tolist())
    assert won > 5
    assert paid <= ({0.0, 1.0} if game is KEY_SACRIFICE else {0.0, -0.2, -0.4, -0.6, 0.8, 0.6, 1.0})
    assert 1.0 in paid


def test_the_agents_act_for_themselves_in_pettingzoo() -> None:
    env = parallel_env(game=GATE)
    env.reset(seed=1)
    assert env.agents == [f"team_0_agent{number}" for number in range(AGENTS)]
    _, rewards, *_ = env.step(dict(zip(env.agents, (PRESS, WAIT, WAIT), strict=True)))
    assert set(np.round(list(rewards.values()), 3)) == {-0.2}


def test_they_have_no_parameters() -> None:
    with pytest.raises(ValueError, match="speed"):
        PvpVecEnv(1, game=GATE, reset_params={"speed": 2}).reset()
    with pytest.raises(ValueError, match="speed"):
        new_world(GATE).reset(options={"reset_params": {"speed": 2}})
