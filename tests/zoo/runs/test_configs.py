"""`--configs`: what is merged in which order, patterns, options with dots, and one file that makes the same run."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import yaml
from gymnasium.envs.registration import EnvSpec
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp import zoo
from sb3_pvp.algorithms.presets import presets
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.plain_yaml import read_ordered_dict
from sb3_pvp.zoo.configs import Resolved, flat, merge, read_options, resolve, resolved_file

NAMES = st.text("abc", min_size=1, max_size=2)
MAPPINGS: Any = st.recursive(
    st.dictionaries(NAMES, st.booleans(), min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | st.booleans(), min_size=1, max_size=3),
    max_leaves=6,
)


@given(MAPPINGS, MAPPINGS)
def test_what_comes_later_wins_and_the_rest_stays(before: dict[str, Any], now: dict[str, Any]) -> None:
    merged = dict(flat(merge(before, now)))
    assert merged.items() >= dict(flat(now)).items()
    for name, value in flat(before):
        others = [each for each, _ in flat(now)]
        replaced = any(f"{name}.".startswith(f"{each}.") or each.startswith(f"{name}.") for each in others)
        assert replaced or merged[name] == value


def test_patterns_begin_where_keys_begin_and_keep_the_kind_of_number() -> None:
    block = {"net": {"units": 8, "head": {"units": 4}}, "units": 2, "rate": 0.5, "flag": True}
    assert merge(block, {r".*\.units": 512}) == block | {"net": {"units": 512, "head": {"units": 512}}}
    assert merge(block, {"net.(head|x)": 1})["net"] == {"units": 8, "head": {"units": 1}}
    assert merge(block, {"rat[e]": 1})["rate"] == 1.0 and type(merge(block, {"rate": 1})["rate"]) is float
    assert merge(block, {"flag": 0})["flag"] == 0 and merge(block, {"net.depth": 3})["net"]["depth"] == 3
    assert block["net"] == {"units": 8, "head": {"units": 4}}
    with pytest.raises(ValueError, match=r"the key '\.\*unit' matches none of: a"):
        merge({"a": 1}, {".*unit": 1})
    with pytest.raises(ValueError, match="no regular expression"):
        merge({"a": 1}, {"(": 1})


def test_names_of_classes_are_no_paths() -> None:
    block = {"callback": {"a.B": {"x": 1, "y": 2}}}
    assert merge(block, {"callback": {"a.B": {"y": 3}}}) == {"callback": {"a.B": {"x": 1, "y": 3}}}
    assert merge(block, {"callback.a.B.y": 3}) == merge(block, {".*y": 3}) == {"callback": {"a.B": {"x": 1, "y": 3}}}
    assert merge(block, {"callback": {"a.C": {}}}) == {"callback": {"a.C": {}}}, "one class, as rl-zoo3 has it"


def test_what_is_python_changes_as_a_whole() -> None:
    text = "dict(log_std_init=-3.67, net_arch=[64, 64])"
    with pytest.raises(ValueError, match="policy_kwargs is Python here, 'dict.log_std_init.*give all of it as a text"):
        merge({"policy_kwargs": text}, {"policy_kwargs.net_arch": [32]})
    assert merge({"policy_kwargs": text}, {"policy_kwargs": "dict()"}) == {"policy_kwargs": "dict()"}
    assert merge({"rate": "lin_1e-3"}, {"rate": {"type": "linear"}}) == {"rate": {"type": "linear"}}


def test_options() -> None:
    words = ["--run.train_ratio", "32", "--policy_kwargs.size=large", "--net", "[8, 8]", "--n", "1.1e6"]
    read = [("run.train_ratio", 32), ("policy_kwargs.size", "large"), ("net", [8, 8]), ("n", 1_100_000.0)]
    assert [*read_options(words)] == read
    for wrong in (["--alone"], ["word", "1"]):
        with pytest.raises(ValueError, match="no option with a value"):
            [*read_options(wrong)]


def test_order_from_left_to_right(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("train_ratio: 16\npolicy_kwargs: {size: debug}\n")
    zoo.install()
    whole = resolve(["debug", str(mine), "large"], "dreamerv3", "CartPole-v1", None, ["--.*warmup", "5"])
    assert whole.hyperparams["policy_kwargs"] == {"size": "large", "optimizer_kwargs": {"warmup": 5}}
    assert whole.hyperparams["train_ratio"] == 16 and whole.hyperparams["buffer_size"] == 100_000
    sized = resolve(["large", str(mine)], "dreamerv3", "CartPole-v1", None, [])
    assert sized.hyperparams["policy_kwargs"]["size"] == "debug"
    preset = resolve(["pureselfplay"], None, None, None, ["--gamma", "0.5"])
    assert (preset.algo, preset.env_id, preset.hyperparams["gamma"]) == ("maskable_ppo", "NhEnv", 0.5)
    for wrong, message in (
        ((["lrge"], "dreamerv3", "CartPole-v1", None, []), r"unknown configuration 'lrge' \(did you mean 'large'"),
        ((["large"], "dreamerv3", "CartPole-v1", None, ["--batch_sise", "2"]), "did you mean '--batch_size'"),
        ((["large"], None, "CartPole-v1", None, []), "name no algorithm: add --algo"),
        ((["large"], "dreamerv3", None, None, []), "name no environment: add --env"),
        ((["PastSelfPlay", "large"], "dqn", None, None, []), "unknown hyperparameter"),
        (
            (["large"], "dreamerv3", "CartPole-v1", None, ["--policy_kwargs.sise", "2"]),
            "unknown hyperparameter 'policy_kwargs.sise' .did you mean 'policy_kwargs.size'",
        ),
        (
            (["debug"], "dreamerv3", "CartPole-v1", None, ["--policy_kwargs.optimizer_kwargs.warmpu", "2"]),
            "did you mean 'policy_kwargs.optimizer_kwargs.warmup'",
        ),
        (
            ([str(mine)], "ppo", "CartPole-v1", None, []),
            "unknown hyperparameter 'train_ratio'",
        ),
        ((["large"], "dreamerv3", "CartPole-v1", None, ["--buffer_size", "1.5"]), "buffer_size is a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve(*wrong)  # type: ignore[arg-type]


def test_policies_of_stock_algorithms_have_names_too(tmp_path: Path) -> None:
    zoo.install()
    (flat_file := tmp_path / "flat.yml").write_text("n_steps: 64\n")
    stock = [str(flat_file)], "ppo", "CartPole-v1", None
    for name, wrong in (("net_arhc", "net_arch"), ("optimizer_kwargs.esp", "optimizer_kwargs.eps")):
        with pytest.raises(ValueError, match=f"did you mean 'policy_kwargs.{wrong}'"):
            resolve(*stock, [f"--policy_kwargs.{name}", "[8]"])
    assert resolve(*stock, ["--policy_kwargs.net_arch", "[8]"]).hyperparams["policy_kwargs"] == {"net_arch": [8]}
    for name, preset in presets().items():  # nothing in what ships is taken for a typo, or changed
        assert dict(flat(resolve([name], None, None, None, []).hyperparams)) == dict(flat(preset.hyperparams()))


def test_whole_numbers_are_whole_however_they_are_written(tmp_path: Path) -> None:
    zoo.install()
    (flat_file := tmp_path / "flat.yml").write_text("n_envs: 2.0\ngamma: 1\n")
    dqn = resolve([str(flat_file)], "dqn", "CartPole-v1", None, ["--buffer_size=1e5", "--train_freq", "16.0"])
    found = [dqn.hyperparams[name] for name in ("n_envs", "buffer_size", "train_freq")]
    assert found == [2, 100_000, 16] and all(type(each) is int for each in found)
    ppo = resolve([str(flat_file)], "ppo", "CartPole-v1", None, ["--gamma", "0.5"])
    assert ppo.hyperparams["gamma"] == 0.5, "what happens to be whole may be any number"


def test_games_of_a_group_have_its_usual_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo.install()
    (flat_file := tmp_path / "flat.yml").write_text("n_steps: 64\n")
    monkeypatch.setitem(gymnasium.registry, "ALE/Pong-v5", EnvSpec("ALE/Pong-v5", "ale_py.env:AtariEnv"))
    pong = resolve([str(flat_file)], "ppo", "ALE/Pong-v5", None, []).hyperparams
    assert (pong["policy"], pong["frame_stack"], pong["n_steps"]) == ("CnnPolicy", 4, 64)


def test_files_with_blocks_for_environments(tmp_path: Path) -> None:
    zoo.install()
    (mine := tmp_path / "mine.yml").write_text("Crafter-v1: {train_ratio: 8}\n")
    crafter = resolve(["Crafter", str(mine)], None, None, None, [])
    assert (crafter.algo, crafter.env_id, crafter.hyperparams["train_ratio"]) == ("dreamerv3", "Crafter-v1", 8)
    assert crafter.hyperparams["batch_length"] == 32
    (two := tmp_path / "two.yml").write_text("CartPole-v1: {n_steps: 8}\nPendulum-v1: {n_steps: 16}\n")
    pendulum = resolve([str(two)], "ppo", "Pendulum-v1", None, [])
    assert pendulum.hyperparams["n_steps"] == 16 and pendulum.hyperparams["gamma"] == 0.9, "over the usual ones"
    with pytest.raises(ValueError, match=r"two.yml is for CartPole-v1, Pendulum-v1: add --env with one of them"):
        resolve([str(two)], "ppo", "Acrobot-v1", None, [])
    (own := tmp_path / "own.yml").write_text("NhEnv: {import: Core}\n")
    assert resolve([str(own)], None, None, None, []).algo == "maskable_ppo", "as with --preset"


@pytest.mark.parametrize(
    "words, differ",
    [
        ("Crafter size200m original --train_ratio 512 --n_timesteps 1.1e6", ("size200m", 1, 512, 1.1e6)),
        ("Atari size200m original --train_ratio 256 --n_timesteps 1.1e5", ("size200m", 1, 256, 1.1e5)),
        ("DmControl size1m original --n_envs 16 --train_ratio 1024 --n_timesteps 1.1e6", ("size1m", 16, 1024, 1.1e6)),
    ],
)
def test_as_the_original_is_as_the_original(words: str, differ: tuple[Any, ...]) -> None:
    zoo.install()
    names, *options = words.split(" --")
    (preset, *_), given = names.split(), [word for each in options for word in f"--{each}".split()]
    found = resolve(names.split(), None, None, None, given).hyperparams
    assert (found["policy_kwargs"]["size"], found["n_envs"], found["train_ratio"], found["n_timesteps"]) == differ
    # dreamer.md, sections 4.1 and 5.
    original = {"learning_rate": 4e-5, "batch_size": 16, "batch_length": 64, "ent_coef": 3e-4, "imag_last": 0}
    assert found.items() >= (original | {"buffer_size": 5_000_000}).items()
    assert found["policy_kwargs"]["optimizer_kwargs"] == {"warmup": 1000}
    comment = "".join(line[1:] for line in presets()[preset].path.read_text().splitlines() if line.startswith("#"))
    assert f"--configs {words}" in comment, "what is said is what is tested"


def test_the_resolved_file_makes_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = ["--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--num-threads", "1", "-n", "64"]
    words = [
        "--configs",
        "debug",
        "--algo",
        "dreamerv3",
        "--env",
        "CartPole-v1",
        "--run.train_ratio",
        "8",
        "--n_envs=2",
    ]
    zoo.train([*words, *usual, "--logdir", str(tmp_path / "one")])
    written = yaml.safe_load((tmp_path / "one.yml").read_text())
    assert written["CartPole-v1"]["train_ratio"] == 8 and "train_ratio: 8" in capsys.readouterr().out
    for number, again in enumerate((["--preset", str(tmp_path / "one.yml")], ["--configs", str(tmp_path / "one.yml")])):
        zoo.train([*again, *usual, "--logdir", str(tmp_path / f"again{number}")])
        configs = [read_ordered_dict(tmp_path / name / "CartPole-v1/config.yml") for name in ("one", f"again{number}")]
        assert configs[0] == configs[1]
        lines = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("one", f"again{number}")]
        assert lines[0] == lines[1]
    with pytest.raises(SystemExit, match="2"):
        zoo.train([*words, *usual, "--preset", "NhEnv"])
    assert "--configs take the place of --preset" in capsys.readouterr().err


def test_the_resolved_file_has_what_all_options_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = ["--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--num-threads", "1"]
    (flat_file := tmp_path / "flat.yml").write_text("n_steps: 16\nn_envs: 2\n")
    words = ["--configs", str(flat_file), "--algo", "ppo", "--env", "CartPole-v1", "--batch_size=32", *usual]
    more = ["-params", "gamma:0.5", "policy_kwargs.net_arch:[8]", "--env-kwargs", "sutton_barto_reward:True", "-n"]
    zoo.train([*words, *more, "64", "--logdir", str(tmp_path / "one")])
    block = yaml.safe_load((tmp_path / "one.yml").read_text())["CartPole-v1"]
    expected = {"batch_size": 32, "gamma": 0.5, "n_timesteps": 64, "policy_kwargs": {"net_arch": [8]}}
    assert block.items() >= (expected | {"env_kwargs": {"sutton_barto_reward": True}}).items()
    zoo.train(["--preset", str(tmp_path / "one.yml"), *usual, "--logdir", str(tmp_path / "again")])
    configs = [read_ordered_dict(tmp_path / name / "CartPole-v1/config.yml") for name in ("one", "again")]
    assert configs[0] == configs[1]
    lines = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("one", "again")]
    assert lines[0] == lines[1]
    zoo.train([*words, *more, "128", "--logdir", str(tmp_path / "one")])  # further, which is the same run
    assert "Resuming" in capsys.readouterr().out
    assert yaml.safe_load((tmp_path / "one.yml").read_text())["CartPole-v1"] == block


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["-params", "gama:0.5"], "unexpected keyword argument 'gama'"),
        (["-n", "-5"], "-n must be a positive number"),
        (["-params", "policy_kwargs:dict(activation_fn=th.nn.Tanh)"], "give them as texts, such as"),
    ],
)
def test_no_file_stays_where_nothing_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: list[str], message: str
) -> None:
    (flat_file := tmp_path / "flat.yml").write_text("n_steps: 16\n")
    words = ["--configs", str(flat_file), "--algo", "ppo", "--env", "CartPole-v1", *wrong]
    with pytest.raises(SystemExit, match="2"):
        zoo.train([*words, "--logdir", str(tmp_path / "runs/one")])
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "error: " in each]
    assert message in line and [*tmp_path.iterdir()] == [flat_file]


def test_hyperparameters_are_options_of_configs_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        zoo.train(["--preset", "Core", "--batch_size", "16"])
    assert "--batch_size 16; --configs takes hyperparameters as options, and -params" in capsys.readouterr().err


def test_a_challenge_is_for_what_the_configurations_are_for(tmp_path: Path) -> None:
    given = Namespace(algo="maskable_ppo", env="DharokEnv", logdir=str(tmp_path / "run"))
    beside = resolved_file(Resolved("maskable_ppo", "NhEnv", {}), given, [])
    with pytest.raises(Refusal, match="this is maskable_ppo in DharokEnv: add --algo maskable_ppo --env"), beside:
        pass


def test_the_resolved_file_takes_the_place_of_no_other(tmp_path: Path) -> None:
    one, other = (Resolved("ppo", "CartPole-v1", {"n_steps": steps}) for steps in (8, 16))
    path = tmp_path / "runs/mine.yml"
    assert (one.write(path, "train a"), one.write(path, "train b")) == ((path, True), (path, False))
    before = path.read_text()
    beside, is_new = other.write(path, "train c")
    assert beside != path and is_new and other.write(path, "train d") == (beside, False)
    assert path.read_text() == before and yaml.safe_load(beside.read_text())["CartPole-v1"]["n_steps"] == 16
    path.write_text("")  # as a kill leaves it
    assert one.write(path, "train a")[0] == path and path.read_text() == before


def test_a_resolved_file_may_be_of_any_algorithm_of_the_zoo(tmp_path: Path) -> None:
    from rl_zoo3 import ALGOS

    zoo.install()
    for algo in ALGOS:
        path, _ = Resolved(algo, "CartPole-v1", {"policy": "MlpPolicy"}).write(tmp_path / f"{algo}.yml", "train")
        assert zoo.find_preset(str(path)).algo == algo
