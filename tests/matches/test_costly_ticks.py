"""The costliest ticks of a player: games in which the cost of a blunder is known, and a fight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pettingzoo.classic import connect_four_v3

from sb3_pvp.common.random_words import words_from_seeds
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Game, find_game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.pettingzoo import PettingZooGame
from sb3_pvp.matches.costly_ticks import CostlyTick, costly_ticks
from sb3_pvp.matches.replay.record import second_opinion
from sb3_pvp.policies.files.model_files import load_opponent
from tests.game.aiming_game import AimForTwo

PLAY, SLIP, BLUNDER, FIDGET = range(4)
TICKS, HARM = 6, np.array([0.0, 0.1, 0.4, 0.0])
HEAD = Head("way", "How to play.", tuple(SubAction(each, f"{each}.") for each in ("play", "slip", "blunder", "fidget")))
CONTRACT = Contract("nerves", (HEAD,), (Observation("tick", "The tick."),))


class NervesWorld(ArrayWorld):
    """The first seat wins with 0.5, less what its mistakes cost, and more by the other's; to fidget takes a draw."""

    def __init__(self, num_fights: int, seed: int, ticks: int = TICKS) -> None:
        super().__init__(CONTRACT, num_fights, seed)
        self.chance, self.length = np.zeros(num_fights), ticks

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.chance[fight], self.obs[fight] = 0.5, 0.0

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        self.random[fight].random((actions == FIDGET).sum())
        self.chance[fight] += HARM[actions[1, 0]] - HARM[actions[0, 0]]
        self.obs[fight] = self.ticks[fight]
        if self.ticks[fight] == self.length:
            self.end(fight, *((1, 0) if self.random[fight].random() < self.chance[fight] else (0, 1)))


def _sound(turn: Turn) -> None:
    """Plays; makes no mistake but by chance."""


def _moody(turn: Turn) -> None:
    turn.choose("fidget", turn.chance > 0.5)  # without chance it just plays


class Nerves(Game):
    name, contract = CONTRACT.name, CONTRACT
    scripts: Mapping[str, Any] = {"sound": _sound, "moody": _moody}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> NervesWorld:
        return NervesWorld(num_fights, seed, **params)


class Watcher:
    """Plays, and fails if it does not see what it should have seen; remembers how many ticks that were, if asked to."""

    frame_ages = (0, 2)

    def __init__(self, remembers: bool) -> None:
        self.remembers, self.seeds = remembers, list[int]()
        self.told: Any = None

    def watch(self, world: Any, fights: Any, seat: int) -> None:
        self.told = world, fights, seat

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        self.seeds += seeds
        return np.zeros((len(seeds), 1)) if self.remembers else np.zeros(len(seeds), np.uint64)

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool, action_masks: Any) -> Any:
        now, before = observation[:, 0, 0], observation[:, 1, 0]
        (world, fights, seat), self.told = self.told, None
        assert (world.obs[fights, seat, 0] == now).all()
        runs = (now > 0) & (now < TICKS)  # the others may be over, or not have begun
        assert (before == np.maximum(now - 2, 0))[runs].all()
        if self.remembers:
            assert (state[:, 0] == now)[runs].all()
            state = state + 1
        return np.full((len(now), 1), PLAY), state


NERVES = FightSettings(game=Nerves())


def played(first: Sequence[int], second: Sequence[int] = (PLAY,) * TICKS) -> NDArray[np.int64]:
    """Actions ``(T, 2, 1)`` of both seats."""
    return np.stack([first, second], axis=1)[..., np.newaxis]


def covers(found: CostlyTick, cost: float) -> bool:
    return found.low <= cost <= found.high and found.low < found.cost < found.high


@pytest.mark.parametrize("fighter", ["sound", "moody", Watcher(True), Watcher(False)])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_blunder_costs_what_it_does_by_the_rules(seat: int, fighter: Any) -> None:
    own, shares = [PLAY, SLIP, FIDGET, BLUNDER, PLAY, PLAY], list[float]()
    actions = played(*[own, [FIDGET] * TICKS][:: 1 - 2 * seat])
    blunder, slip, nothing = costly_ticks(NERVES, 3, actions, seat, fighter, continuations=256, progress=shares.append)
    assert (blunder.tick, slip.tick, nothing.tick) == (4, 2, 3)
    assert covers(blunder, 0.4) and covers(slip, 0.1) and covers(nothing, 0.0)
    assert slip.low > 0 and blunder.low > 0.3  # equal dice for both: else 256 pairs would not tell a slip so well
    assert (blunder.taken, blunder.instead) == ((BLUNDER,), (PLAY,))
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_among_many_ticks_the_worst_is_found() -> None:
    settings, own = FightSettings(game=Nerves(), reset_params={"ticks": 24}), [FIDGET] * 24
    own[11] = BLUNDER
    found, *others = costly_ticks(settings, 1, played(own, [PLAY] * 24), 0, "sound", continuations=32)
    assert found.tick == 12 and covers(found, 0.4) and len(others) == 2 and others[0].cost < found.low


def test_without_mistakes_no_cost_is_above_noise() -> None:
    actions = played([FIDGET] * TICKS)
    fights = [costly_ticks(NERVES, seed, actions, 0, fighter) for seed in range(5) for fighter in ("sound", "moody")]
    found = [each for fight in fights for each in fight]
    # 2.5 % of the intervals are above the truth.
    assert len(found) == 30 and sum(each.low > 0 for each in found) <= 2
    assert costly_ticks(NERVES, 1, played([PLAY] * TICKS), 0, "sound") == []
    assert costly_ticks(NERVES, 1, actions[:0], 0, "sound") == []


def test_a_wrong_guess_is_no_mistake() -> None:
    """Both slip in one tick, which only costs if the other one does: nobody could know."""

    class Guesses(NervesWorld):
        def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
            super().play_fight(fight, np.where((actions == SLIP).all(), [[BLUNDER], [PLAY]], PLAY))

    settings = FightSettings(game=Nerves(), world=lambda num_fights, **_: Guesses(num_fights, 0), contract=CONTRACT)
    slips = [PLAY, PLAY, SLIP, PLAY, PLAY, PLAY]
    (found,) = costly_ticks(settings, 1, played(slips, slips), 0, "sound")
    assert found.tick == 3 and found.cost == 0.0


def test_futures_of_a_pair_share_the_random_numbers_of_both_players() -> None:
    fighter = Watcher(False)
    costly_ticks(NERVES, 1, played([SLIP, *[PLAY] * 5]), 0, fighter, continuations=8)
    shared = [seed for seed, count in Counter(fighter.seeds).items() if seed and count == 2]
    assert len(shared) == 16  # eight pairs, two seats


@pytest.mark.slow
def test_the_interval_covers_the_cost_as_often_as_it_says() -> None:
    """Costs of 0.1 with dice of their own for each future, in 60 fights."""
    own = [SLIP, *[PLAY] * (TICKS - 1)]
    found = [costly_ticks(NERVES, seed, played(own), 0, "moody", continuations=24)[0] for seed in range(60)]
    assert 54 <= sum(covers(each, 0.1) for each in found) <= 60
    assert np.mean([each.cost for each in found]) == pytest.approx(0.1, abs=0.04)


@pytest.mark.slow
def test_the_costs_of_the_chosen_are_not_those_they_were_chosen_by() -> None:
    """Of six ticks that cost nothing, the one that looks costliest costs nothing on average."""
    fights = [
        costly_ticks(NERVES, seed, played([FIDGET] * TICKS), 0, "sound", most=1, continuations=16) for seed in range(60)
    ]
    assert abs(np.mean([found.cost for (found,) in fights])) < 0.07


def test_equal_arguments_give_equal_results() -> None:
    actions = played([FIDGET, SLIP, BLUNDER, *[FIDGET] * 3])
    first, second = (costly_ticks(NERVES, 7, actions, 0, "moody", continuations=20) for _ in range(2))
    assert first == second != costly_ticks(NERVES, 8, actions, 0, "moody", continuations=20)


def test_a_fight_that_does_not_end_is_given_up_as_a_tie() -> None:
    (found,) = costly_ticks(NERVES, 1, played([BLUNDER, *[PLAY] * 5]), 0, "sound", max_ticks=TICKS - 1)
    assert found.cost == 0.0 and found.low < 0 < found.high


def test_the_bot_of_the_world_plays_on() -> None:
    """It moves at random, so both seats lose as much by mistakes, but for the blunder."""
    world, done = NERVES.make_world(1), 0
    world.reset([0], [{"bots": (None, "baseline"), "seed": 5}])
    actions = played([PLAY, BLUNDER, PLAY, PLAY, PLAY, PLAY])
    while not world.outcome.any():
        world.step(actions[done][np.newaxis])
        done += 1
    (found,) = costly_ticks(NERVES, 5, actions[:done], 0, "sound", bots=(None, "baseline"))
    assert found.tick == 2 and 0.1 < found.cost < 0.6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seat": 2}, "a player's seat, 0 or 1, is needed"),
        ({"bots": ("baseline", None)}, "a bot in none but the second"),
        ({"bots": (None, "baseline"), "seat": 1}, "a player's seat, 0 or 1, is needed"),
        ({"most": 0}, "most must be a positive integer"),
        ({"continuations": 0}, "continuations must be a positive integer"),
        ({"max_ticks": 0}, "max_ticks must be a positive integer"),
        ({"actions": played([PLAY] * 7, [PLAY] * 7)}, "the fight is over after 6 of 7 ticks"),
        ({"actions": [[[9], [0]]]}, "head 'way' has the actions 0 to 3"),
        ({"actions": 3}, "actions must have shape"),
        ({"fighter": "baseline"}, "the world's bot can only play the second seat"),
        ({"fighter": "nobody"}, "unknown opponent 'nobody'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"actions": played([SLIP] * TICKS), "seat": 0, "fighter": "sound"} | changes
    with pytest.raises(ValueError, match=message) as refused:
        costly_ticks(NERVES, 1, given.pop("actions"), given.pop("seat"), given.pop("fighter"), **given)
    assert "\n" not in str(refused.value)


def test_a_game_that_asks_for_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="costly ticks are choices, but aim_for_two asks for numbers"):
        costly_ticks(FightSettings(game=AimForTwo()), 1, np.zeros((1, 2, 4)), 0, "half")


def test_a_world_that_cannot_be_reseeded_is_refused() -> None:
    class Server(NervesWorld):
        reseed = None  # type: ignore[assignment]

    settings = FightSettings(game=Nerves(), world=lambda num_fights, **_: Server(num_fights, 0), contract=CONTRACT)
    with pytest.raises(ValueError, match="Server has no reseed"):
        costly_ticks(settings, 1, played([SLIP] * TICKS), 0, "sound")


class Stacker:
    """Drops its pieces into the middle of a board of connect four, or else as far to the left as it can."""

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        return np.zeros(len(seeds), np.uint64)

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool, action_masks: Any) -> Any:
        return np.where(action_masks[:, 4], 4, action_masks.argmax(axis=1))[:, np.newaxis], None


def test_a_win_that_was_overlooked_in_connect_four() -> None:
    settings = FightSettings(game=PettingZooGame(connect_four_v3.raw_env, shuffle_agents=False))
    columns = [0, 0, 1, 1, 2, 2, 6, 3, 3]  # three in a row, but then it goes far away, and the other one closes it
    actions = np.zeros((len(columns), 2, 1), np.int64)
    actions[np.arange(len(columns)), np.arange(len(columns)) % 2, 0] = np.array(columns) + 1
    found = {each.tick: each for each in costly_ticks(settings, 1, actions, 0, Stacker(), most=5, continuations=4)}
    assert (found[7].taken, found[7].instead) == ((7,), (4,))
    assert found[7].cost == 1.0 and found[7].high == 1.0 and found[7].low > 0.3


class Shield:
    """Shoots in every tick of an NH fight, and keeps the protection that it has; its first one is the right one."""

    def __init__(self) -> None:
        self.contract = find_game("NhEnv").contract

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        return words_from_seeds(seeds, stream=1)

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool, action_masks: Any) -> Any:
        turn = Turn(self.contract, observation, action_masks, np.zeros(len(observation)))
        kinds = ("melee", "ranged", "magic")
        prays = np.any([turn.see(f"player_{kind}_prayer") > 0 for kind in kinds], axis=0)
        turn.choose("ranged_prayer", ~prays & turn.can("ranged_prayer"))
        turn.choose("ranged_attack", turn.can("ranged_attack") & turn.can("basic_ranged_attack"))
        turn.choose("basic_ranged_attack", turn.can("ranged_attack") & turn.can("basic_ranged_attack"))
        return turn.actions(), state


def test_a_blunder_in_an_nh_fight_is_among_the_three() -> None:
    """In the tenth tick it prays against magic, though the other one shoots; in many others it does nothing."""
    settings, seed, shield = FightSettings(game="NhEnv"), 2, Shield()
    contract, rng = settings.world_contract, np.random.default_rng(0)
    world, actions = settings.make_world(1), list[NDArray[np.int64]]()
    world.reset([0], {"seed": seed})
    prayer = [head.id for head in contract.heads].index("prayer")
    while not world.outcome.any():
        pair = np.concatenate([shield.predict(world.obs[:, k], None, None, True, world.masks[:, k])[0] for k in (0, 1)])
        pair[0, :3] *= rng.random() > 0.3
        pair[0, prayer] = 1 if len(actions) == 9 else pair[0, prayer]
        actions.append(pair)
        world.step(pair[np.newaxis])
    found = costly_ticks(settings, seed, actions, 0, shield, continuations=32)
    assert len(actions) > 30 and found[0].tick == 10 and found[0].low > 0
    assert all(each.low <= 0 for each in found[1:])


def test_a_fighter_that_ships_is_asked_what_it_would_have_seen() -> None:
    settings, fighter = FightSettings(game="NhEnv", max_episode_ticks=20), load_opponent("generalist")
    world, seen, decided = settings.make_world(1), list[Any](), list[Any]()
    world.reset([0], {"seed": 4})
    actions = np.zeros((8, 2, world.contract.num_heads), np.int64)
    for each in actions:
        seen.insert(0, world.obs[0, 1].copy())
        frames = np.array([seen[age] if age < len(seen) else seen[0] * 0 for age in fighter.frame_ages])
        state, start = fighter.initial_state([0]), np.array([len(seen) == 1])
        choice, _ = fighter.predict(frames[np.newaxis], state, start, True, world.masks[:, 1])
        decided.append(tuple(choice[0].tolist()))
        world.step(each[np.newaxis])
    opinions, outlooks = second_opinion(settings, 4, actions, 1, "generalist").thoughts(world.contract)
    assert [each.chosen for each in opinions] == decided
    for tick, (opinion, outlook) in enumerate(zip(opinions, outlooks, strict=True)):
        for head, chosen, shares in zip(world.contract.heads, decided[tick], opinion.probabilities, strict=True):
            assert shares[head.actions[chosen].id] == max(shares.values())
        assert np.isfinite(outlook.value)
    found = costly_ticks(settings, 4, actions, 1, "generalist", continuations=4, most=8)
    assert [(each.tick, each.instead) for each in sorted(found, key=lambda each: each.tick)] == [
        (tick + 1, choice) for tick, choice in enumerate(decided) if any(choice)
    ]
    assert found and all(-1 <= each.low <= each.cost <= each.high <= 1 for each in found)
