"""A stranger's algorithm, that of docs/own-algorithm.md as an installed package, in all commands."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import TRPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp import PvpPPO, load, zoo
from sb3_pvp.cli import main
from sb3_pvp.common.errors import installed
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import find_game
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.matches.replay import load_fight
from sb3_pvp.players.league import League, Player
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent, steps_of
from sb3_pvp.policies.files.reading import read
from sb3_pvp.policies.files.registry import Algorithm, algorithm_names, algorithm_of, find_algorithm, register_algorithm
from sb3_pvp.serving import Client, PredictionError
from tests.paths import ROOT
from tests.serving.served import serving

PAGE = ROOT / "docs" / "own-algorithm.md"
GAME = "benchmarks.matrix_games:WITH_A_WELL"  # rock, paper, scissors, well in ten rounds


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path of this process and of all it starts, in which the package is installed."""
    folder = tmp_path_factory.mktemp("package")
    files = re.findall(r"^```python\n(# payoff_table\.py.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (folder / "payoff_table.py").write_text("".join(files), encoding="utf-8")
    info = folder / "payoff_table-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: payoff-table\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sb3_pvp.algorithms]\npayoff_table = payoff_table:PAYOFF_TABLES\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(filter(None, (str(folder), str(ROOT), os.environ.get("PYTHONPATH"))))
        )
        installed.cache_clear()
        yield folder
    installed.cache_clear()
    sys.modules.pop("payoff_table", None)
    importlib.import_module("rl_zoo3").ALGOS.pop("payoff_table", None)  # where the commands registered it


@pytest.fixture(scope="module")
def table(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a model that has learned a little."""
    module = importlib.import_module("payoff_table")
    model = module.PayoffTable(module.PayoffPolicy, PvpVecEnv(8, game="NhEnv", seed=0), seed=0)
    path = tmp_path_factory.mktemp("run") / "table.zip"
    model.learn(400).save(path)
    return path


def command(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    output = capsys.readouterr()
    assert ended.value.code == code, output.err
    assert code == 0 or output.err.count("\n") == 1, output.err
    return output.err if code else output.out


def counting(folder: Path, table: Path) -> Path:
    """A model that chooses the sub-action after its last one, in all heads but those with fewer."""
    model = load(table)
    sizes = model.action_space.nvec
    offsets = np.cumsum([0, *sizes[:-1]])
    model.policy.table.zero_()
    for last in range(sizes[0] + 1):
        for offset, size in zip(offsets, sizes, strict=True):
            model.policy.table[last, offset + min(last % sizes[0], size - 1)] = 1.0
    model.save(folder / "counting.zip")
    return folder / "counting.zip"


def test_it_is_in_the_registry_and_learns(package: Path, table: Path) -> None:
    assert {*algorithm_names()} >= {"maskable_ppo", "payoff_table"}
    model = load(table)
    assert type(model).__name__ == "PayoffTable" and steps_of(table) == 400
    assert model.policy.table.abs().sum() > 0
    module = importlib.import_module("payoff_table")
    env = PvpVecEnv(32, game=GAME, opponent="champion", seed=0)  # never plays rock
    learner = module.PayoffTable(module.PayoffPolicy, env, seed=0)
    before = evaluate_model(learner, env, 64).reward
    after = evaluate_model(learner.learn(20_000), env, 64).reward
    assert after > before + 10, "the table has not found what pays"


def test_trained_from_the_command_line(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "payoff.yml").write_text(
        "NhEnv:\n  n_envs: 4\n  n_timesteps: 64\n  policy: payoff_table.PayoffPolicy\n"
    )
    options = {"--algo": "payoff_table", "--env": "NhEnv", "-conf": "payoff.yml", "-f": "logs", "--seed": "0"}
    monkeypatch.chdir(tmp_path)
    zoo.train([word for option in options.items() for word in option])
    path = tmp_path / "logs" / "payoff_table" / "NhEnv_1" / "NhEnv.zip"
    assert steps_of(path) == 64 and load(path).game == "NhEnv"


def test_saved_and_loaded_it_decides_alike(table: Path, tmp_path: Path) -> None:
    first, second = load_opponent(table), load_opponent(table, safe=True)
    load(table).save(tmp_path / "again.zip")
    assert first.content_hash == load_opponent(shutil.copy(table, tmp_path / "copy.zip")).content_hash
    for safe in (False, True):  # its file, too, is opened once
        file = read(shutil.copy(table, tmp_path / "gone.zip"), safe)
        (tmp_path / "gone.zip").unlink()
        assert algorithm_of(file).opponent(file).content_hash == first.content_hash
    contract = find_game("NhEnv").contract
    rng = np.random.default_rng(0)
    seen = rng.random((1000, 1, contract.num_observations), np.float32)
    masks = rng.random((1000, contract.num_flat_actions)) < 0.6
    decided = []
    for each in (first, second, model_opponent(load(table)), load_opponent(tmp_path / "again.zip")):
        each.check(contract)
        state, starts = each.initial_state(range(1000)), np.ones(1000, bool)
        for _ in range(3):
            actions, state = each.predict(seen, state, starts, False, masks)
            starts[:] = False
        decided.append(actions)
    assert all(np.array_equal(decided[0], each) for each in decided[1:])


def test_rows_do_not_depend_on_each_other_in_an_environment(table: Path) -> None:
    """The pool keeps the state of each row, also from one fight to the next."""

    def results(rows: int) -> list[list[float]]:
        env = PvpVecEnv(rows, game="NhEnv", opponent=str(table), seed=3)
        env.reset()
        still = np.zeros((rows, env.action_space.shape[0]), np.int64)
        seen = [env.step(still)[0]["observation"][:2, 0].tolist() for _ in range(40)]
        env.close()
        return seen

    assert results(2) == results(5)


def test_its_state_lives_as_long_as_an_episode(table: Path, tmp_path: Path) -> None:
    opponent = load_opponent(counting(tmp_path, table))
    contract = find_game("NhEnv").contract
    masks = np.ones((2, contract.num_flat_actions), bool)
    seen, state = np.zeros((2, contract.num_observations), np.float32), opponent.initial_state([0, 1])
    chosen = []
    for tick in range(4):
        actions, state = opponent.predict(seen, state, np.array([tick == 0, tick in (0, 2)]), True, masks)
        chosen.append(actions[:, 0].tolist())
    sizes = contract.head_sizes
    assert chosen == [[0, 0], [1 % sizes[0], 1 % sizes[0]], [2 % sizes[0], 0], [3 % sizes[0], 1 % sizes[0]]]


@pytest.mark.parametrize("more", [[], ["--stochastic"], ["--safe"], ["--stochastic", "--jobs", "2"]])
@pytest.mark.usefixtures("one_worker")
def test_evaluate(table: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", table, "--episodes", 12, "--json", *more]
    found = json.loads(command(capsys, *given))
    assert found["episodes"] == 12 and found["game"] == "NhEnv"
    if "--jobs" in more:  # as many processes as one likes
        alone = json.loads(command(capsys, *given[:-1], "1"))
        assert found == alone


def test_it_is_evaluated_as_an_opponent(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(command(capsys, "evaluate", "fast", "--opponent", table, "--episodes", 8, "--json", "--safe"))
    assert found["opponent"] == str(table) and found["episodes"] == 8


def test_record_and_replay(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        command(capsys, "record", table, "--opponent", "fast", "-o", tmp_path / f"{number}.json.gz")
    first, second = (load_fight(tmp_path / f"{number}.json.gz") for number in range(2))
    assert first == second and first.players[0].kind == "model" and len(first.players[0].content_hash) == 64
    assert first.moments[1].decisions[0].probabilities is None  # it has none
    assert first.moments[1].decisions[1].probabilities is not None
    command(capsys, "replay", tmp_path / "0.json.gz")
    assert (tmp_path / "0.html").stat().st_size > 10_000


def test_in_a_league_beside_a_model_of_maskable_ppo(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    league = League(tmp_path)
    for player in ("payoff@400", "payoff@800"):
        path = league.path(Player.parse(player))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(table, path)
    options = ["--until", 1500, "--max-fights", 64, "--fights-per-round", 32, "--player", "fast"]
    for jobs in (1, 2):
        command(capsys, "league", "rate", tmp_path, *options, "--jobs", jobs, "--json")
    shown = json.loads(command(capsys, "league", "show", tmp_path, "--json"))
    assert {each["player"] for each in shown["players"]} >= {"payoff@400", "payoff@800", "fast"}
    played = json.loads(command(capsys, "league", "play", tmp_path, "payoff@400", "fast", "--fights", 8, "--json"))
    assert played["wins"] + played["losses"] + played["ties"] + played["not_counted"] == 8


@pytest.mark.slow
def test_exploit(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--seeds", 1, "--steps", 64, "--eval-freq", 1, "--eval-episodes", 4, "--episodes", 8]
    found = json.loads(command(capsys, "exploit", table, *small, "-f", tmp_path, "--json"))
    assert [each["start"] for each in found["responses"]] == ["scratch"]
    again = json.loads(command(capsys, "exploit", table, *small, "-f", tmp_path, "--json"))  # nothing is left to do
    assert again["lower_bound"] == found["lower_bound"]
    refused = command(capsys, "exploit", table, *small, "-f", tmp_path / "warm", "--start", "warm", code=2)
    assert "start from scratch" in refused


@pytest.mark.parametrize("workers", [{}, {"workers": 1}], ids=["inline", "process"])
def test_served_with_a_state_for_each_connection(workers: dict[str, Any], table: Path, tmp_path: Path) -> None:
    counting(tmp_path, table)
    contract = find_game("NhEnv").contract
    seen, masks = np.zeros(contract.num_observations), [np.ones(size, bool) for size in contract.head_sizes]
    size = contract.head_sizes[0]
    with serving(tmp_path, **workers) as server, Client(port=server.port) as one, Client(port=server.port) as other:

        def ask(client: Client, **more: Any) -> int:
            return client.predict("counting", seen, masks, deterministic=True, **more).action[0]

        assert [ask(one) for _ in range(size + 1)] == [*range(size), 0]
        assert [ask(other), ask(one), ask(other)] == [0, 1 % size, 1 % size]
        assert [ask(one, episode_start=True), ask(one)] == [0, 1 % size]
        with pytest.raises(PredictionError, match="only has actions"):
            ask(one, return_value=True)


def test_requests_that_are_sent_at_once_see_the_state_of_those_before(table: Path, tmp_path: Path) -> None:
    from sb3_pvp.serving.client import request_line
    from tests.serving.served import RawClient

    counting(tmp_path, table)
    contract = find_game("NhEnv").contract
    masks = [np.ones(size, bool) for size in contract.head_sizes]
    line = request_line("counting", np.zeros(contract.num_observations), masks, True).rstrip()
    with serving(tmp_path) as server, RawClient(server.port) as client:
        client.send(*[line] * 300)
        size = contract.head_sizes[0]
        assert [client.receive()["action"][0] for _ in range(300)] == [number % size for number in range(300)]


@pytest.mark.slow
def test_actors_play_against_it(table: Path) -> None:
    weights = []
    for actors in (0, 1):
        env = PvpVecEnv(2, game="NhEnv", opponent=str(table), seed=0)
        arguments: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "policy_kwargs": {"net_arch": [8]}, "seed": 0}
        model = PvpPPO(AutoregressivePolicy, env, actors=actors, synchronous=True, **arguments).learn(64)
        weights.append(model.policy.value_net.weight.detach().numpy().copy())
        env.close()
    assert np.array_equal(*weights)  # bit for bit as in one process, so its states are those of the same fights


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("payof_table", "unknown algorithm 'payof_table' (did you mean 'payoff_table'?)"),
        ("x" * 10, "unknown algorithm"),
    ],
)
def test_a_file_of_an_unknown_algorithm_is_one_line(
    name: str, words: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(table) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "data":
                content = json.dumps({**json.loads(content), "algorithm": name}).encode()
            new.writestr(entry, content)
    for arguments in (["evaluate", other], ["evaluate", "fast", "--opponent", other], ["record", other]):
        assert words in command(capsys, *arguments, code=2)
    for reader in (load, load_opponent, lambda path: load(path, safe=True)):
        with pytest.raises(ValueError, match=re.escape(words)):
            reader(other)


@pytest.mark.slow
def test_what_does_not_fit_is_refused_in_one_line(table: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trained in another game, NhEnv"):
        PvpVecEnv(2, game=GAME, opponent=str(table))
    with pytest.raises(ValueError, match="there is already an algorithm"):
        register_algorithm("maskable_ppo", find_algorithm("payoff_table"))
    with pytest.raises(ValueError, match="a TRPO has no attribute 'algorithm'"):
        model_opponent(TRPO("MlpPolicy", "CartPole-v1"))

    class Unsafe(Algorithm):
        model_class: type[BaseAlgorithm] = find_algorithm("payoff_table").model_class

    with pytest.raises(ValueError, match="cannot be read safely"):
        Unsafe().load(read(table, safe=True))
