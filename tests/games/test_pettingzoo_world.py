"""Two-player games of PettingZoo as games."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo.classic import connect_four_v3
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp.envs import OpponentChoice, PvpEnv, PvpVecEnv
from sb3_pvp.game import Outcome, World, find_game, make_world
from sb3_pvp.games.pettingzoo import PettingZooGame
from tests.games.pettingzoo_games import AGENTS, Auction

CONNECT_FOUR = PettingZooGame(connect_four_v3.raw_env, shuffle_agents=False)
SHUFFLED = PettingZooGame(connect_four_v3.raw_env)
COLUMNS = 7


def world_of(game: PettingZooGame, num_fights: int = 1) -> Any:
    return make_world(game, "sim", num_fights)


def legal_actions(env: PvpVecEnv, rng: np.random.Generator) -> NDArray[np.int64]:
    return env.fights.contract.random_action(env.action_masks(), rng)


def play(env: PvpVecEnv, steps: int, seed: int = 0) -> list[Any]:
    """Observations, rewards and dones of random play."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        observation, rewards, dones, _ = env.step(legal_actions(env, rng))
        seen += [*observation.values(), rewards, dones]  # type: ignore[union-attr]
    return seen


def ended(env: PvpVecEnv, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    """The infos of the matches that end in so many steps of random play."""
    rng, infos = np.random.default_rng(seed), []
    for _ in range(steps):
        infos += [info for info in env.step(legal_actions(env, rng))[3] if info]
    return infos


def test_a_match_in_the_world_is_the_match_of_the_game() -> None:
    world, game = world_of(CONNECT_FOUR), connect_four_v3.raw_env()
    world.reset()
    game.reset()
    rng = np.random.default_rng(3)
    while world.outcome[0, 0] == Outcome.RUNNING:
        mover = AGENTS_OF_GAME.index(game.agent_selection)
        for seat, agent in enumerate(AGENTS_OF_GAME):
            board = game.observe(agent)["observation"].ravel()
            np.testing.assert_array_equal(world.obs[0, seat], [*board, seat, seat == mover])
        free = game.observe(game.agent_selection)["action_mask"].astype(bool)
        np.testing.assert_array_equal(world.masks[0, mover], [False, *free])
        np.testing.assert_array_equal(world.masks[0, 1 - mover], [True] + [False] * COLUMNS)
        column = int(rng.choice(np.flatnonzero(free)))
        joint = np.zeros((1, 2, 1), np.int64)
        joint[0, mover] = column + 1
        world.step(joint)
        game.step(column)
    rewards = [game.rewards[agent] for agent in AGENTS_OF_GAME]
    assert max(rewards) == 1
    assert list(world.outcome[0]) == [Outcome.WON if reward > 0 else Outcome.LOST for reward in rewards]


AGENTS_OF_GAME = ["player_0", "player_1"]


def test_what_is_not_possible_becomes_the_first_that_is() -> None:
    world = world_of(CONNECT_FOUR)
    world.reset()
    world.step([[[0], [5]]])  # the one to move waits, the other moves
    board = world.obs[0, 1, :-2].reshape(6, COLUMNS, 2)
    assert board[5, 0, 1] == 1  # the opponent's piece in the first column
    assert board.sum() == 1


def test_a_match_that_is_over_stays_as_it_is() -> None:
    world = world_of(PettingZooGame(Auction, shuffle_agents=False))
    world.reset()
    for _ in range(2):
        world.step([[[1, 0], [0, 1]]])
    before = world.obs.copy()
    assert list(world.outcome[0]) == [Outcome.WON, Outcome.LOST]
    world.step([[[0, 0], [1, 1]]])
    np.testing.assert_array_equal(world.obs, before)
    assert list(world.ticks) == [2]


def test_the_larger_sum_of_rewards_wins_and_equal_sums_tie() -> None:
    world = world_of(PettingZooGame(Auction, shuffle_agents=False), 2)
    world.reset()
    world.step([[[0, 0], [1, 0]], [[2, 0], [2, 0]]])
    assert (world.outcome == Outcome.RUNNING).all()
    world.step([[[0, 0], [0, 0]], [[1, 0], [1, 0]]])
    assert world.outcome.tolist() == [[Outcome.LOST, Outcome.WON], [Outcome.TIED, Outcome.TIED]]


@pytest.mark.parametrize("masks", ["observation", "info", "nowhere"])
def test_masks_are_found_in_all_places(masks: str) -> None:
    world = world_of(PettingZooGame(partial(Auction, masks), shuffle_agents=False))
    world.reset()
    world.step([[[3, 1], [0, 0]]])
    poor = [True, *[masks == "nowhere"] * 3, True, True]
    np.testing.assert_array_equal(world.masks[0], [poor, [True] * 6])


def test_matches_follow_from_their_seeds_alone() -> None:
    many, one = (PvpVecEnv(count, game=SHUFFLED, seed=seed) for count, seed in ((3, 5), (1, 7)))
    first, alone = many.reset(), one.reset()
    for _ in range(60):
        np.testing.assert_array_equal(first["observation"][2], alone["observation"][0])  # type: ignore[index]
        actions = np.array([[mask.argmax()] for mask in many.action_masks()])
        first, alone = many.step(actions)[0], one.step(actions[2:])[0]


def test_the_learner_is_either_agent_unless_told_otherwise() -> None:
    def share(game: PettingZooGame) -> float:
        return float(PvpVecEnv(200, game=game).reset()["observation"][:, 0, -2].mean())  # type: ignore[index]

    assert 0.35 < share(SHUFFLED) < 0.65
    assert share(CONNECT_FOUR) == 0


def test_fights_go_on_from_a_snapshot_bit_for_bit() -> None:
    for game in (SHUFFLED, PettingZooGame(Auction)):
        env, other = (PvpVecEnv(4, game=game, seed=seed) for seed in (1, 2))
        for each in (env, other):
            each.reset()
        play(env, 50)
        state = pickle.loads(pickle.dumps(env.get_state()))
        expected = play(env, 60, seed=9)
        other.set_state(state)
        for one, two in zip(play(other, 60, seed=9), expected, strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_snapshot_of_another_game_is_refused() -> None:
    with pytest.raises(ValueError, match="connect_four_v3"):
        world_of(CONNECT_FOUR).set_state(world_of(PettingZooGame(Auction)).get_state())


def test_the_bot_plays_at_random() -> None:
    env = PvpVecEnv(8, game=SHUFFLED)
    env.reset()
    infos = ended(env, 200)
    assert {info["opponent"] for info in infos} == {"baseline"}  # as in leagues
    assert {info["outcome"] for info in infos} >= {"won", "lost"}
    wins = [info["is_success"] for info in infos]
    assert 0.25 < np.mean(wins) < 0.75


def test_rows_of_a_pair_play_each_other() -> None:
    env = PvpVecEnv(4, "self", game=SHUFFLED)
    env.reset()
    rng, decided = np.random.default_rng(0), 0
    for _ in range(100):
        waits = env.action_masks()[:, 0]
        np.testing.assert_array_equal(waits[::2], ~waits[1::2])
        _, rewards, dones, _ = env.step(legal_actions(env, rng))
        np.testing.assert_array_equal(rewards[::2], -rewards[1::2])
        decided += int((dones & (rewards > 0)).sum())
    assert decided >= 4


def test_the_parameters_of_resets_are_the_options_of_the_game() -> None:
    env = PvpVecEnv(1, game=PettingZooGame(Auction), reset_params={"purse": 2})
    assert env.reset()["observation"][0, 0, 1] == 2  # type: ignore[index]
    with pytest.raises(ValueError, match="seat_reset_params"):
        PvpVecEnv(1, OpponentChoice("noop", reset_params={"purse": 1}), game=PettingZooGame(Auction)).reset()


class Spendthrift(Auction):
    """Changes the options that it is given."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        seen = super().reset(seed, options)
        if options:
            options["spent"].append(options.pop("purse"))
        return seen


def test_options_that_a_game_changes_are_saved_as_they_were_given() -> None:
    world: Any = world_of(PettingZooGame(Spendthrift))
    given: dict[str, Any] = {"purse": 2, "spent": []}
    for _ in range(2):
        world.reset(options={"reset_params": given})
        assert world.obs[0, 0, 1] == 2 and given == {"purse": 2, "spent": []}
    state = world.get_state()
    for _ in range(2):
        world.reset()
        world.set_state(state)
        assert world.obs[0, 0, 1] == 2


def test_only_a_critic_that_may_sees_what_the_opponent_sees() -> None:
    plain, open_handed = (PvpVecEnv(2, game=PettingZooGame(Auction, privileged=flag)) for flag in (False, True))
    assert set(plain.reset()) == set(plain.observation_space.spaces) == {"observation", "action_mask"}  # type: ignore[attr-defined]
    assert open_handed.observation_space["privileged"].shape == (1, 2)  # type: ignore[index]
    assert open_handed.reset()["privileged"].shape == (2, 1, 2)  # type: ignore[index]


def test_a_game_brings_its_contract_into_every_face() -> None:
    game = PettingZooGame(Auction)
    env = PvpEnv("noop", game=game)
    observation, _ = env.reset(seed=0)
    assert env.contract == game.contract
    assert env.contract.head_sizes == (4, 2)
    assert env.observation_space.contains(observation)
    workers = SubprocVecEnv([partial(PvpEnv, game=game)] * 2)
    try:
        workers.seed(0)
        assert workers.reset()["observation"].shape == (2, 1, 3)  # type: ignore[call-overload,index]
    finally:
        workers.close()


def test_a_game_is_named_by_module_and_object_and_can_be_pickled() -> None:
    name = f"{__name__}:SHUFFLED"
    assert find_game(name) is SHUFFLED
    assert SHUFFLED.name == "connect_four_v3"
    assert pickle.loads(pickle.dumps(SHUFFLED)).contract == SHUFFLED.contract
    workers = SubprocVecEnv([partial(PvpEnv, game=name)] * 2)
    try:
        assert workers.reset()["action_mask"].shape == (2, 1 + COLUMNS)  # type: ignore[call-overload]
    finally:
        workers.close()


def test_worlds_close_their_games() -> None:
    made: list[Auction] = []

    def make() -> Auction:
        made.append(Auction())
        return made[-1]

    PvpVecEnv(2, game=PettingZooGame(make)).close()
    assert len(made) == 3  # one to look at
    assert all(each.closed for each in made)


@pytest.mark.parametrize(
    ("make_env", "message"),
    [
        (partial(Auction, agents=[*AGENTS, "east"]), "two agents"),
        (partial(Auction, seen=spaces.Sequence(spaces.Discrete(2))), "observations need a fixed size"),
    ],
)
def test_games_that_cannot_be_played_are_refused(make_env: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PvpVecEnv(1, game=PettingZooGame(make_env))


def test_players_with_different_or_unbounded_actions_are_refused() -> None:
    class Odd(Auction):
        def action_space(self, agent: str) -> Any:
            return spaces.Discrete(2 + AGENTS.index(agent))

    class Unbounded(Auction):
        def action_space(self, agent: str) -> Any:
            return spaces.Tuple((spaces.Discrete(2), spaces.Box(0, np.inf, (1,))))

    with pytest.raises(ValueError, match="same action space"):
        PettingZooGame(Odd)
    with pytest.raises(ValueError, match="a bounded Box of floats, not Box"):
        PettingZooGame(Unbounded)


def test_bad_arguments_of_a_world_change_nothing() -> None:
    world: World = world_of(CONNECT_FOUR, 2)
    world.reset()
    before = world.obs.copy()
    for wrong in ({"sed": 1}, {"seed": -1}, [{}]):
        with pytest.raises(ValueError):
            world.reset(options=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has the actions 0 to 7"):
        world.step([[[8], [0]]] * 2)
    with pytest.raises(ValueError, match="num_fights"):
        world_of(CONNECT_FOUR, 0)
    np.testing.assert_array_equal(world.obs, before)


def test_a_mask_that_is_not_0_or_1_is_refused() -> None:
    class Rescaled(Auction):
        def _observe_all(self) -> Any:
            observations, infos = super()._observe_all()
            return {
                agent: {**seen, "action_mask": 0.5 * seen["action_mask"]} for agent, seen in observations.items()
            }, infos

    with pytest.raises(ValueError, match="an action mask is 0 or 1, but this one has 0.5"):
        world_of(PettingZooGame(Rescaled)).reset()
