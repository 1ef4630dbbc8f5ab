"""ONNX files as opponents: they act like the policy that they were made of, and hostile ones lose nothing."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import SubprocVecEnv

import sb3_pvp
from sb3_pvp.callbacks.exploiters.best_response import can_start_warm
from sb3_pvp.cli import main
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction, load_contract
from sb3_pvp.matches.rating import check_players, play_matches
from sb3_pvp.matches.replay import load_fight
from sb3_pvp.players.league import League, Player
from sb3_pvp.players.opponents import opponent_name
from sb3_pvp.policies.export.onnx_graph import actor_graph
from sb3_pvp.policies.files import reading
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.policies.files.registry import algorithm_names
from tests.envs.test_env_state import play
from tests.players.opponent_models import plain_model, random_model
from tests.policies.export.hostile_graphs import READING, SECRET
from tests.policies.files.small_graphs import exported, with_ages, written

CONTRACT = load_contract("NhEnv")
NOBODY = np.zeros(0, bool)


@pytest.fixture(scope="module")
def fighter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The actor of a fighter that ships."""
    graph = actor_graph(sb3_pvp.load("generalist").policy)
    return written(graph, tmp_path_factory.mktemp("fighters"), "generalist")


def situations(count: int, frames: int = 1) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    rng = np.random.default_rng(count)
    masks = rng.random((count, CONTRACT.num_flat_actions)) < 0.5
    masks[:, CONTRACT.head_offsets[:-1]] |= rng.random((count, CONTRACT.num_heads)) < 0.9
    return 3 * rng.standard_normal((count, frames, CONTRACT.num_observations), np.float32), masks


def ready(path: str | Path, contract: Contract = CONTRACT) -> Any:
    opponent = load_opponent(path)
    opponent.check(contract)
    return opponent


@pytest.mark.parametrize("deterministic", [True, False])
def test_it_acts_like_the_policy(fighter: str, deterministic: bool) -> None:
    seen, masks = situations(10_000)
    graph, model = ready(fighter), load_opponent("generalist")
    states = graph.initial_state(range(len(seen)))
    given = states, np.ones(len(seen), bool), deterministic, masks
    actions, following = graph.predict(seen, *given)
    expected, then = model.predict(seen, *given)
    # Rounding may decide between two entries that are equally likely.
    assert (actions != expected).any(axis=1).sum() <= 2
    assert np.array_equal(following, then)
    assert len(np.unique(actions, axis=0)) > 1000


def test_policies_of_sb3_contrib_and_frames_in_the_metadata(tmp_path: Path) -> None:
    plain, stacking = plain_model(4), random_model(3, frame_ages=(0, 3))
    stack = actor_graph(stacking.policy)
    for model, graph, ages in (
        (plain, actor_graph(plain.policy), (0,)),
        (stacking, with_ages(stack, "[0, 3]"), (0, 3)),
        (stacking, stack, (0, 1)),
    ):
        opponent, seen = ready(written(graph, tmp_path)), situations(300, len(ages))
        assert opponent.frame_ages == ages
        given = opponent.initial_state(range(300)), np.ones(300, bool), True, seen[1]
        assert np.array_equal(opponent.predict(seen[0], *given)[0], model_opponent(model).predict(seen[0], *given)[0])


def test_rows_are_independent_and_each_may_be_deterministic(fighter: str) -> None:
    opponent, (seen, masks) = ready(fighter), situations(64)
    states, starts, flags = opponent.initial_state(range(64)), np.ones(64, bool), np.arange(64) % 3 == 0
    together, following = opponent.predict(seen, states, starts, flags, masks)
    for row in range(64):
        own = slice(row, row + 1)
        alone, then = opponent.predict(seen[own], states[own], starts[own], bool(flags[row]), masks[own])
        assert np.array_equal(alone, together[own]) and np.array_equal(then, following[own])
    assert not np.array_equal(together, opponent.predict(seen, states, starts, ~flags, masks)[0])


def test_equal_bytes_have_equal_hashes(fighter: str, tmp_path: Path) -> None:
    copied = written(Path(fighter).read_bytes(), tmp_path, "copied")
    assert load_opponent(copied).content_hash == load_opponent(fighter).content_hash
    assert load_opponent(written(exported(), tmp_path)).content_hash != load_opponent(fighter).content_hash
    assert opponent_name(fighter) == "generalist"


def test_it_fights_in_environments_as_path_and_as_object(fighter: str) -> None:
    envs = [NhVecEnv(4, seed=3, opponent=each) for each in (fighter, ready(fighter), "generalist")]
    seen = []
    for env in envs:
        env.reset()
        play(env, 40)
        seen.append(env.fights.observation()["observation"])
    assert envs[0].reset_infos[0]["opponent"] == "generalist"
    assert np.array_equal(seen[0], seen[1]) and np.array_equal(seen[0], seen[2])


def test_it_fights_in_processes_of_their_own(fighter: str) -> None:
    opponents = [fighter, pickle.loads(pickle.dumps(ready(fighter)))]
    workers = SubprocVecEnv([lambda each=each: NhEnv(opponent=each) for each in opponents])
    try:
        workers.seed(3)
        rows = workers.reset()["observation"]  # type: ignore[call-overload,index]
        for _ in range(8):
            rows = workers.step(np.zeros((2, CONTRACT.num_heads), np.int64))[0]["observation"]  # type: ignore[call-overload]
    finally:
        workers.close()
    alone = NhEnv(opponent=fighter)
    alone.reset(seed=3)
    for _ in range(8):
        last = alone.step(np.zeros(CONTRACT.num_heads, np.int64))[0]["observation"]
    assert np.array_equal(rows[0], last)


def test_it_is_evaluated_and_in_leagues(fighter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["evaluate", "fast", "--safe", "--opponent", fighter, "--episodes", "4", "--jobs", "1"])
    assert exit_info.value.code == 0
    assert f"fast against {fighter}: win rate" in capsys.readouterr().out
    league = League(tmp_path / "league")
    league.set_fights("NhEnv", {})
    league.add(Player("main", 64), random_model(0).save)
    (league.folder / "players" / "stranger.onnx").write_bytes(Path(fighter).read_bytes())
    (league.folder / "players" / "notes.txt").touch()
    stranger = Player("stranger")
    assert league.players() == [stranger, Player("main", 64)]
    check_players(league, league.players())
    records = play_matches(league, {(stranger, Player("main", 64)): 4}, 0, FightSettings(game="NhEnv"))
    assert len(league.log) == len(records) == 4
    env = NhVecEnv(16, opponent=f"league:{league.folder}")
    env.reset()
    assert {info["opponent"] for info in env.reset_infos} == {"stranger", "main@64"}


def refused(path: str, contract: Contract = CONTRACT) -> str:
    """The error of a file, which is one line."""
    with pytest.raises(ValueError) as error:
        ready(path, contract)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("where", READING)
def test_a_graph_that_reads_other_files_is_refused(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(SECRET).write_bytes(b"sixteen letters!")
    assert "stranger.onnx cannot be an opponent" in (error := refused(written(READING[where], tmp_path)))
    assert "other files of this machine" in error


def test_what_is_no_such_graph_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    long = "action = Thing(uniform)  log_prob = ReduceSum<keepdims=0>(uniform, axes)"
    for content, words in (
        (b"", "cannot be an opponent: its graph cannot be used: "),
        (b"PK\x03\x04 this is a zip", "cannot be an opponent: its graph cannot be used: "),
        (exported()[:-40], "its graph cannot be used"),
        (exported(long.replace("Thing", "strange.Thing")), "Thing"),
        (exported(frames="batch,176"), "its input 'observation' must have any batch and 2 fixed sizes"),
        (
            exported(frames="1,1,176"),
            "its input 'observation' must have any batch and 2 fixed sizes, but it is [1, 1, 176]",
        ),
        (exported(frames="batch,1,features"), "its input 'observation' must have any batch and 2 fixed sizes"),
        (exported(entries=0), "its input 'action_mask' must have any batch and 1 fixed sizes"),
        (exported(frames="batch,4194304,176"), "it sees more than 4194304 numbers"),
        (exported(frames="batch,1000,176"), "frame_ages must be"),
        (with_ages(exported(), "[1, 1]"), "frame_ages must be"),
        (with_ages(exported(), "[0, 1]"), "the model sees 1 frames, but its frame_ages are (0, 1)"),
        (with_ages(exported(), "[" * 100_000), "its graph cannot be used"),
        (exported().replace(b"uniform", b"uniFORM"), "observation, action_mask, uniFORM and outputs action, log_prob"),
    ):
        assert words in refused(written(content, tmp_path))
    assert capfd.readouterr().err == ""


def test_another_game_is_refused(fighter: str, tmp_path: Path) -> None:
    words = "generalist.onnx sees 176 features, and chooses among 45 entries of all heads, but DharokEnv has "
    assert words in refused(fighter, load_contract("DharokEnv"))
    assert "chooses among 44 entries" in refused(written(exported(entries=44), tmp_path))
    assert "sees 176 features" in refused(written(exported(heads=11), tmp_path))
    with pytest.raises(ValueError, match="sees 3 features"):
        NhVecEnv(1, opponent=written(exported(frames="batch,1,3"), tmp_path))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MAX_GRAPH", len(exported()))
    load_opponent(written(exported(), tmp_path, "small"))
    assert "has more than" in refused(written(exported() + b" ", tmp_path))


SEEN = "frames = ReduceSum<keepdims=0>(observation, axes)  seen = ReduceSum<keepdims=1>(frames, axes)"
PLAIN = "action = Cast<to=7>(wide)  log_prob = ReduceSum<keepdims=0>(logs, axes)"


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("wide = Add(calm, seen)  logs = Identity(calm)", r"it chose 176, which no head of the sizes \(4, 3, "),
        ("wide = Sub(calm, seen)  logs = Identity(calm)", r"it chose -176, which no head"),
        ("wide = Identity(calm)  less = Sub(calm, seen)  logs = Sqrt(less)", "it computes NaN, so no action"),
        ("wide = Identity(calm)  place = Cast<to=7>(seen)  logs = Gather(axes, place)", "Gather"),
    ],
)
def test_nonsense_while_it_plays_is_an_error_that_names_it(nodes: str, words: str, tmp_path: Path) -> None:
    nodes = nodes.replace("logs = Gather(axes, place)", "found = Gather(axes, place)  logs = Cast<to=1>(found)")
    opponent = ready(written(exported(f"calm = Mul(uniform, zero)  {SEEN}  {nodes}  {PLAIN}"), tmp_path))
    masks = np.ones((3, CONTRACT.num_flat_actions), bool)
    given = opponent.initial_state(range(3)), np.ones(3, bool), True, masks
    seen = np.zeros((3, 1, 176), np.float32)
    assert not opponent.predict(seen, *given)[0].any()
    seen[1] = 1.0
    with pytest.raises(ValueError, match=f"^stranger.onnx cannot act: .*{words}") as error:
        opponent.predict(seen, *given)
    assert "\n" not in str(error.value)


def test_nonsense_in_the_trial_is_refused_before_any_fight(tmp_path: Path) -> None:
    calm = "calm = Mul(uniform, zero)  logs = Identity(calm)"
    for nodes, words in (
        (f"{calm}  wide = ReduceSum<keepdims=1>(calm, axes)", "its actions have the shape (2, 1), not (2, 12)"),
        (
            f"{calm}  more = Cos(calm)  one = Add(more, more)  wide = Add(one, one)",
            "it chose 4, which no head of the sizes",
        ),
        ("calm = Mul(uniform, zero)  wide = Identity(calm)  logs = Div(calm, calm)", "it computes NaN"),
    ):
        path = written(exported(f"{nodes}  {PLAIN}"), tmp_path)
        with pytest.raises(ValueError, match=re.escape(f"stranger.onnx cannot act: {words}")):
            NhVecEnv(1, opponent=path)


def test_it_needs_onnx_runtime(fighter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert 'pip install "sb3-pvp[onnx]"' in refused(written(Path(fighter).read_bytes(), tmp_path))


@pytest.mark.slow
def test_fights_with_it_are_recorded(fighter: str, tmp_path: Path) -> None:
    out = str(tmp_path / "fight.json")
    for players in (["fast", "--opponent", fighter], [fighter, "--opponent", "fast"]):
        with pytest.raises(SystemExit) as exit_info:
            main(["record", *players, "-o", out])
        assert exit_info.value.code == 0
        recorded = {each.name: each for each in load_fight(out).players}
        assert recorded.keys() == {"fast", "generalist"}
        assert (recorded["generalist"].kind, recorded["generalist"].content_hash) == (
            "model",
            load_opponent(fighter).content_hash,
        )


def test_it_is_no_algorithm_to_train(fighter: str) -> None:
    assert "onnx" not in algorithm_names() and not can_start_warm(Path(fighter))


def test_it_is_no_model_of_sb3(fighter: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="is an ONNX file, which can be an opponent or in a league"):
        sb3_pvp.load(fighter)
    train = ["train", "--algo", "maskable_ppo", "--env", "NhEnv", "-i", fighter]
    for command in (["evaluate", fighter], ["exploit", fighter], train):
        with pytest.raises(SystemExit) as exit_info:
            main(command)
        assert exit_info.value.code == 2
        assert "generalist.onnx is " in capsys.readouterr().err


def small_contract(name: str, *sizes: int) -> Contract:
    heads = (
        Head(f"head{head}", "", tuple(SubAction(f"choice{head}_{entry}", "") for entry in range(size)))
        for head, size in enumerate(sizes)
    )
    return Contract(name, tuple(heads), (Observation("a", ""), Observation("b", "")))


def test_a_game_with_as_many_numbers_but_other_heads_is_another_one(tmp_path: Path) -> None:
    opponent = ready(written(exported(frames="batch,1,2", entries=6, heads=2), tmp_path), small_contract("one", 2, 4))
    opponent.check(small_contract("again", 2, 4))
    with pytest.raises(ValueError, match="stranger.onnx is in a game with other heads"):
        opponent.check(small_contract("other", 3, 3))
    with pytest.raises(ValueError, match="stranger.onnx has not been checked for a game of 3 features"):
        opponent.predict(np.zeros((1, 3), np.float32), opponent.initial_state([0]), NOBODY, True, np.ones((1, 6), bool))
