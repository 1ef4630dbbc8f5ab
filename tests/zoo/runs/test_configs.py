"""`--configs`: what is merged in which order, patterns, options with dots, and one file that makes the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp import zoo
from sb3_pvp.common.plain_yaml import read_ordered_dict
from sb3_pvp.zoo.configs import Resolved, flat, merge, read_options, resolve

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


def test_options() -> None:
    words = ["--run.train_ratio", "32", "--policy_kwargs.size=large", "--net", "[8, 8]"]
    assert [*read_options(words)] == [("run.train_ratio", 32), ("policy_kwargs.size", "large"), ("net", [8, 8])]
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
    ):
        with pytest.raises(ValueError, match=message):
            resolve(*wrong)  # type: ignore[arg-type]


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


def test_the_resolved_file_takes_the_place_of_no_other(tmp_path: Path) -> None:
    one, other = (Resolved("ppo", "CartPole-v1", {"n_steps": steps}) for steps in (8, 16))
    path = tmp_path / "runs/mine.yml"
    assert one.write(path, "train a") == path == one.write(path, "train b")
    before = path.read_text()
    beside = other.write(path, "train c")
    assert beside != path and beside == other.write(path, "train d")
    assert path.read_text() == before and yaml.safe_load(beside.read_text())["CartPole-v1"]["n_steps"] == 16
