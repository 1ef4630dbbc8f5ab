"""Games by name, by entry point and by module: the registry of `sb3_pvp.game`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import pytest
from pydantic import BaseModel, Field

from sb3_pvp import PvpPPO, load, register_game
from sb3_pvp.envs import NhEnv, NhVecEnv, PvpEnv, PvpVecEnv
from sb3_pvp.envs.measures import summarize
from sb3_pvp.game import Game, Outcome, Transition, find_game, make_world
from sb3_pvp.game import game as registry
from sb3_pvp.game.arrays import ArrayWorld, OutcomeRewards
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction, load_contract
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import DATA, ROOT

CONTRACT = Contract(
    "Higher", (Head("card", "A card.", (SubAction("low", "1."), SubAction("high", "2."))),), (Observation("one", "1."),)
)


class HigherWorld(ArrayWorld):
    def play_fight(self, fight: int, actions: Any) -> None:
        self.end(fight, *actions[:, 0].tolist())


class Higher(Game):
    name = CONTRACT.name
    contract = CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Any) -> HigherWorld:
        return HigherWorld(self.contract, num_fights, seed)


#: Prefixes of modules that are only imported when they are needed.
GAMES, RULES = ("sb3_pvp.games",), ("numba", "sb3_pvp.games.osrs.sim")
SOCKETS, TRAINERS = ("asyncio", "sb3_pvp.games.osrs.remote"), ("torch", "stable_baselines3", "sb3_contrib", "rl_zoo3")
DHAROK = ("sb3_pvp.games.osrs.sim.dharok",)


@pytest.mark.parametrize(
    ("code", "not_imported"),
    [
        ("import sb3_pvp, sb3_pvp.envs", (*GAMES, *RULES, *SOCKETS, *TRAINERS)),
        ("from sb3_pvp.game import game_names; assert len(game_names()) > 1", (*GAMES, *RULES, *SOCKETS, *TRAINERS)),
        ("import gymnasium, sb3_pvp; gymnasium.spec('DharokEnv')", (*GAMES, *RULES, *SOCKETS, *TRAINERS)),
        ("from sb3_pvp.game.contract import load_contract; load_contract('NhEnv')", (*RULES, *SOCKETS, *TRAINERS)),
        ("import gymnasium, sb3_pvp; gymnasium.make('NhEnv').reset()", (*SOCKETS, *TRAINERS, *DHAROK)),
    ],
)
def test_nothing_is_imported_before_it_is_needed(code: str, not_imported: tuple[str, ...]) -> None:
    code += f"; import sys; print([each for each in sys.modules if each.startswith({not_imported})])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["NhEnv", "DharokEnv"])
def test_every_way_to_name_a_game_of_the_package(name: str) -> None:
    game = find_game(name)
    assert find_game(game) is game and pickle.loads(pickle.dumps(game)) is game
    assert game.contract is load_contract(name)
    for env in (NhEnv(game=name), NhEnv(contract=name), NhEnv(game=game), NhVecEnv(2, game=name)):
        assert env.fights.settings.game is game and env.fights.contract is game.contract
        env.close()


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown game 'NhENV' \(did you mean 'NhEnv'\?\)"):
        find_game("NhENV")
    for wrong in ("no_such_module:Game", "sb3_pvp.games.osrs:Nothing", "numpy:"):
        with pytest.raises(ValueError, match="(unknown|cannot load) game .*module:object"):
            find_game(wrong)


@pytest.mark.parametrize("wrong", [3, None, ["NhEnv"], {}])
def test_other_values_are_refused_in_one_line(wrong: Any) -> None:
    with pytest.raises(ValueError, match="cannot load game .*expected a name or module:object") as error:
        find_game(wrong)
    assert "\n" not in str(error.value)


def test_a_game_by_module_and_object_is_made_once() -> None:
    game = find_game(f"{__name__}:Higher")
    assert game is find_game(f"{__name__}:Higher") and game.contract is CONTRACT
    world = make_world(f"{__name__}:Higher", "sim", 3)
    world.reset()
    world.step(np.array([[[1], [0]], [[0], [1]], [[1], [1]]]))
    assert world.outcome.tolist() == [[Outcome.WON, Outcome.LOST], [Outcome.LOST, Outcome.WON], [Outcome.TIED] * 2]


def test_a_registered_game_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_games", dict(registry._games))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.registry)
    game = register_game(Higher())
    try:
        assert find_game("Higher") is game and register_game(game) is game
        assert load_contract("Higher") is CONTRACT
        assert gymnasium.spec("Higher").kwargs == {"game": "Higher"}
        for taken in ("Higher", "NhEnv"):
            other = Higher()
            other.name = taken
            with pytest.raises(ValueError, match="there is already a game"):
                register_game(other)
    finally:
        del gymnasium.registry["Higher"]


def test_a_world_with_another_contract_is_refused() -> None:
    with pytest.raises(ValueError, match="plays Higher, but the contract is 'DharokEnv'"):
        make_world("DharokEnv", lambda **options: HigherWorld(CONTRACT, 1), 1)


class StartingHand(BaseModel):
    cards: Annotated[int, Field(alias="numCards", ge=1)] = 3


def test_a_game_says_how_its_fights_may_start() -> None:
    class Cards(Higher):
        params = StartingHand

    assert make_world(Cards(), "sim", 1, reset_params={"numCards": 2}).num_fights == 1
    with pytest.raises(ValueError, match="unknown reset parameter 'cards' .did you mean 'numCards'"):
        make_world(Cards(), "sim", 1, reset_params={"cards": 2})
    with pytest.raises(ValueError, match="reset parameter numCards .*greater than or equal to 1, got 0"):
        make_world(Cards(), "sim", 1, reset_params={"numCards": 0})
    with pytest.raises(ValueError, match="unknown reset parameter 'acountBuild' .did you mean 'accountBuild'"):
        PvpEnv(game="NhEnv", reset_params={"acountBuild": "MED"})


def test_outcomes_are_worth_what_the_weights_say() -> None:
    rewards = OutcomeRewards()
    outcome = np.array([Outcome.WON, Outcome.LOST, Outcome.TIED, Outcome.RUNNING, Outcome.DESYNC], np.uint8)
    tick = Transition(*(np.zeros(5, []) for _ in range(2)), np.zeros(5, bool), outcome)
    weights = rewards.weights(
        {"tie": {"type": "linear", "initial_value": 0.5, "final_value": 0.0, "change_over_time_steps": 10}, "win": 2}
    )
    parts = rewards.compute(tick, rewards.at(weights, 0))
    assert parts.sum(axis=0).tolist() == [2.0, -1.0, 0.5, 0.0, 0.0] and parts.shape == (len(rewards.terms), 5)
    assert rewards.figures(weights, 0) == {"win_reward": 2.0, "lose_reward": -1.0, "tie_reward": 0.5}
    assert rewards.weights(weights) == weights
    with pytest.raises(ValueError, match="did you mean 'win'"):
        rewards.weights({"wins": 1.0})


def test_a_game_without_anything_of_the_fights_is_played_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    for opponent in ("baseline", "self", "noop"):
        env = PvpVecEnv(8, game="rock_paper_scissors:RockPaperScissors", opponent=opponent, episode_statistics=True)
        env.env_method("enable_metrics")
        env.reset()
        for choice in range(3):
            _, rewards, dones, infos = env.step(np.full((8, 1), choice))
            assert dones.all() and set(rewards) <= {-1.0, 0.0, 1.0}
            assert {info["episode_ticks"] for info in infos} == {1}
        summary = summarize(env.env_method("pop_metrics")[0], env.env_method("measures")[0])
        assert summary["terminal/terminal_state_count"] == 24
        assert env.env_method("reward_weights")[0] == {"win_reward": 1.0, "lose_reward": -1.0, "tie_reward": 0.0}
        env.close()
    drawn = PvpEnv(game="rock_paper_scissors:RockPaperScissors", render_mode="ansi")
    drawn.reset(seed=0)
    assert str(drawn.render()).startswith("tick 0, learner against ")
    pictured = PvpEnv(game="rock_paper_scissors:RockPaperScissors", render_mode="rgb_array")
    pictured.reset(seed=0)
    with pytest.raises(ValueError, match="no viewer"):
        pictured.render()


def test_a_game_is_required() -> None:
    for env in (PvpEnv, PvpVecEnv):
        with pytest.raises(ValueError, match="which game is played"):
            env()


BROKEN_GAMES = """[sb3_pvp.games]
Missing = no_such_module_anywhere:GAME
Raising = broken_games_raising:GAME
Nothing = broken_games:FIVE
Refusing = broken_games:refusing
not a name = broken_games:FIVE
NhEnv = broken_games:FIVE
"""
#: Whoever does not name them is not bothered by them, and those who search are warned once.
AMONG_BROKEN_GAMES = """
import warnings
import gymnasium, sb3_pvp
from sb3_contrib import MaskablePPO
from sb3_pvp.game.contract import load_contract
from sb3_pvp.game import find_game, game_names
from sb3_pvp.policies import AutoregressivePolicy

assert {"NhEnv", "Missing", "Raising", "Nothing", "Refusing"} <= {*game_names()}
env = gymnasium.make("NhEnv", opponent="noop")
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for _ in range(2):
        model = MaskablePPO(AutoregressivePolicy, env, policy_kwargs={"contract": "auto"}, n_steps=2, batch_size=2)
        assert model.policy.contract == load_contract("NhEnv")
    MaskablePPO.load(NH_ZIP)
texts = [str(each.message) for each in warned]
for name in ("Missing", "Raising", "Nothing", "Refusing"):
    assert len([text for text in texts if f"{name!r} is left out" in text]) == 1, (name, texts)
    for load in (find_game, load_contract, lambda name: gymnasium.make(name)):
        try:
            load(name)
        except ValueError as error:
            assert f"cannot load game {name!r}" in str(error) and "\\n" not in str(error), error
        else:
            raise AssertionError(name)
print("fine")
"""


@pytest.mark.slow
def test_broken_installed_games_are_skipped_until_they_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "broken_games-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-games\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(BROKEN_GAMES)
    (tmp_path / "broken_games.py").write_text("FIVE = 5\ndef refusing(): raise OSError('two\\nlines')\n")
    (tmp_path / "broken_games_raising.py").write_text("raise RuntimeError('not today')\n")
    nh_zip = DATA / "first_edition" / "nh.zip"
    code = AMONG_BROKEN_GAMES.replace("NH_ZIP", repr(str(nh_zip)))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "fine", done.stderr


STALE = """
from importlib.metadata import PathDistribution
from pathlib import Path

# Before anything else asks: what was installed before this package had games.
import importlib.metadata
importlib.metadata.distribution = lambda name: PathDistribution(Path(FOLDER))
importlib.metadata.entry_points = lambda group: ()
import sb3_pvp
from sb3_pvp.cli import main
from sb3_pvp.game import find_game

for name in ("NhEnv", "no_such_game"):
    try:
        find_game(name)
    except ValueError as error:
        print(error)
try:
    main(["sim-server", "--help"])
except SystemExit as error:
    print(error.code)
"""


def test_games_of_a_checkout_that_are_not_installed_are_named_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "sb3_pvp-0.0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sb3-pvp\nVersion: 0.0.1\n")
    (folder / "entry_points.txt").write_text("[console_scripts]\nsb3-pvp = sb3_pvp.cli:main\n")
    code = STALE.replace("FOLDER", repr(str(folder)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    again = "is in the checkout, but not in what is installed of sb3-pvp: pip install --editable . again"
    assert done.stdout.splitlines() == [
        f"'NhEnv' {again}",
        "unknown game 'no_such_game'. Known: none, or module:object",
        "2",
    ]
    assert done.stderr == f"sb3-pvp: error: 'sim-server' {again}\n"


RULES_CONTRACT = Contract(
    "shots",
    (
        Head("deed", "What.", (SubAction("load", "1."), SubAction("shoot", "2."))),
        Head("side", "Where.", (SubAction("nowhere", "1.", ("load",)), SubAction("ahead", "2.", ("shoot",)))),
    ),
    (Observation("one", "1."),),
)


class Shots(Game):
    name = "shots"
    contract = RULES_CONTRACT

    def make_world(self, where: str, num_fights: int, seed: int, params: Any) -> HigherWorld:
        return HigherWorld(self.contract, num_fights, seed)


def illegal_actions(model: Any) -> int:
    """Of 64 that are drawn, how many break the rules between heads."""
    seen = {"observation": np.zeros((64, 1, 1), np.float32), "action_mask": np.ones((64, 4), np.int8)}
    return int(np.ptp(model.predict(seen, deterministic=False)[0], axis=1).sum())


def test_rules_between_heads_hold_without_a_word_and_travel_with_the_model(tmp_path: Path) -> None:
    for given in ({}, {"contract": "auto"}):
        model = PvpPPO(AutoregressivePolicy, PvpVecEnv(4, game=Shots()), n_steps=4, policy_kwargs=given, seed=0)
        assert model.policy.contract == RULES_CONTRACT and illegal_actions(model) == 0
        model.save(tmp_path / "model.zip")
        for loaded in (PvpPPO.load(tmp_path / "model.zip"), load(tmp_path / "model.zip")):
            assert loaded.policy.contract == RULES_CONTRACT and illegal_actions(loaded) == 0
    lawless = PvpPPO(AutoregressivePolicy, PvpVecEnv(4, game=Shots()), n_steps=4, policy_kwargs={"contract": None})
    assert lawless.policy.contract is None and illegal_actions(lawless) > 0


def test_models_of_installed_games_name_no_contract() -> None:
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2), n_steps=4)
    assert model.policy_kwargs == {} and model.policy.contract is load_contract("NhEnv")


def test_a_class_stands_for_its_game() -> None:
    assert isinstance(find_game(Shots), Shots) and find_game(Shots) is find_game(Shots)
    env = PvpVecEnv(2, game=Shots)
    assert env.fights.contract == RULES_CONTRACT and env.fights.settings.match_settings == {
        "game": f"{__name__}:Shots",
        "reset_params": {},
    }

    class NeedsMore(Shots):
        def __init__(self, size: int) -> None:
            self.size = size

    with pytest.raises(ValueError, match="cannot load game .*NeedsMore.*size"):
        find_game(NeedsMore)


def test_an_unknown_name_tells_of_modules() -> None:
    with pytest.raises(ValueError, match="unknown game 'nim'.*, or module:object"):
        find_game("nim")


class Counting(ArrayWorld):
    """Has arrays of its own, draws by chance, and has something called like a part of its base."""

    _starts = 3

    def __init__(self, seed: int = 0, num_fights: int = 3) -> None:
        super().__init__(CONTRACT, num_fights, seed, [("sum", int)])
        self.totals = np.zeros((num_fights, 2), int)

    def begin(self, fight: int, options: Any) -> None:
        self.totals[fight] = options.get("reset_params", {}).get("start", 0)

    def play_fight(self, fight: int, actions: Any) -> None:
        self.totals[fight] += actions[:, 0] + self.random[fight].integers(9)
        self.report["sum"][fight] = self.totals[fight]
        self.obs[fight, :, 0] = self.totals[fight]
        if self.ticks[fight] == 7:
            self.end(fight, *self.totals[fight])


def test_an_own_world_goes_on_from_a_snapshot_bit_for_bit() -> None:
    world, other = Counting(), Counting(9)
    check_world(world)
    for each in (world, other):
        each.reset()
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=(8, 3, 2, 1))
    for each in actions[:4]:
        world.step(each)
    state = pickle.loads(pickle.dumps(world.get_state()))
    arrays = (other.obs, other.report, other.totals)
    other.set_state(state)
    for each in actions[4:]:
        world.step(each)
        other.step(each)
    for mine, yours in zip((world.obs, world.report, world.totals), arrays, strict=True):
        np.testing.assert_array_equal(mine, yours)
    assert world.outcome.tolist() == other.outcome.tolist() and world.outcome.any()
    for wrong, message in ((Counting(0, 4), "num_fights"), (HigherWorld(CONTRACT, 3), "no snapshot of HigherWorld")):
        with pytest.raises(ValueError, match=message):
            wrong.set_state(state)


def test_unsupported_reset_options_are_refused() -> None:
    world = Counting()
    world.reset(options={"reset_params": {"start": 4}})
    assert (world.totals == 4).all()
    world.step(np.ones((3, 2, 1), int))
    before = world.ticks.tolist()
    for name in ("seat_reset_params", "death_match"):
        with pytest.raises(ValueError, match=f"unknown reset option '{name}'.*reset_params"):
            world.reset(options={name: ({}, {})})
    assert world.ticks.tolist() == before

    class PerSeat(Counting):
        reset_options = (*Counting.reset_options, "seat_reset_params")

        def begin(self, fight: int, options: Any) -> None:
            self.totals[fight] = [params["start"] for params in options["seat_reset_params"]]

    other = PerSeat()
    other.reset(options={"seat_reset_params": ({"start": 1}, {"start": 2})})
    assert other.totals.tolist() == [[1, 2]] * 3


class Late(Counting):
    """Finds out too late that parameters are wrong."""

    def begin(self, fight: int, options: Any) -> None:
        if {*(given := options.get("reset_params", {}))} - {"start"}:
            raise ValueError(f"unknown parameters {given}")
        super().begin(fight, options)


class InTime(Late):
    """Finds it out in time."""

    def check_options(self, options: Any) -> None:
        if {*options.get("reset_params", {})} - {"start"}:
            raise ValueError("unknown parameters")


def test_wrong_parameters_are_refused_before_a_fight_is_changed() -> None:
    check_world(InTime())
    with pytest.raises(AssertionError, match="refused input must not change"):
        check_world(Late())


def test_what_the_bot_plays_is_not_written_into_the_caller_s_actions() -> None:
    world, actions = Counting(), np.zeros((3, 2, 1), np.int64)
    world.reset(options={"bots": (None, "baseline"), "seed": 1})
    for _ in range(6):
        world.step(actions)
    assert not actions.any() and (world.totals[:, 0] != world.totals[:, 1]).any()


@pytest.mark.parametrize("bots", [(None,), (None,) * 3, "ab", "baseline", 5])
def test_bots_are_a_pair(bots: Any) -> None:
    world = Counting()
    world.reset(options={"bots": (None, "baseline")})
    with pytest.raises(ValueError, match="bots must be a pair"):
        world.reset(options=[{}, {}, {"bots": bots}])
    assert world.bots.tolist() == [[False, True]] * 3


@pytest.mark.parametrize("fights", [[0.5], [True, False], [True] * 4, [[True, False, True]], "ab", [None]])
def test_fights_that_are_neither_numbers_nor_a_flag_for_each_are_refused(fights: Any) -> None:
    with pytest.raises(ValueError, match="fights must be numbers from 0 to 2, or a bool for each"):
        Counting().reset(fights)
