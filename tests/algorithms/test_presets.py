from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rl_zoo3 import ALGOS
from rl_zoo3.utils import get_class_by_name

from sb3_pvp import former, zoo
from sb3_pvp.algorithms import presets as hyperparams
from sb3_pvp.algorithms.mapoca import MAPOCA
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.presets import is_ours
from sb3_pvp.common.schedules import parse_schedule
from sb3_pvp.games.osrs.rewards import RewardWeights
from sb3_pvp.matches.evaluation import EvaluationFights
from tests.paths import ROOT

MODELS: dict[str, type[PvpPPO]] = {"maskable_ppo": PvpPPO, "mapoca": MAPOCA}
# As short as training goes, with everything else as in the preset.
ROLLOUTS, STEPS, ENVS = 3, 8, 20  # environments that all shares of opponents divide
TINY = ["-n", str(ROLLOUTS * ENVS * STEPS), "--eval-freq", "-1", "--seed", "1"]
TINY += ["-params", f"n_envs:{ENVS}", f"n_steps:{STEPS}", "batch_size:64"]


#: Presets of fights; what is behind a screen is played by programs, see tests/games/screen.
OF_FIGHTS = sorted(name for name, each in zoo.presets().items() if each.algo in MODELS and is_ours(each.env_id))


def test_presets_may_name_every_algorithm_of_the_zoo() -> None:
    zoo.install()
    ours = {hyperparams.ALGO, *hyperparams.OTHER_ALGOS, *hyperparams.installed(hyperparams.ALGORITHMS)}
    assert {*ALGOS} == {*ours, *hyperparams.STOCK_ALGOS}


def trained(folder: Path, *arguments: str, env_id: str = "NhEnv", algo: str = "maskable_ppo") -> Any:
    zoo.train([*arguments, "-f", str(folder), *TINY])
    return MODELS[algo].load(folder / f"{algo}/{env_id}_1/{env_id}.zip")


@pytest.fixture
def short_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    play = EvaluationFights.play
    monkeypatch.setattr(
        EvaluationFights, "play", lambda self, model, choices, *more: play(self, model, choices[:2], *more)
    )


#: Presets whose smallest training takes many seconds, or is like that of another one.
LONG = (
    "AdversaryPastSelfPlay",
    "Chess",
    "ChessSearch",
    "ConnectFourSearch",
    "CorePastSelfPlay",
    "DharokPastSelfPlay",
    "HumanRegularisedSelfPlay",
    "Imitation",
    "LaneClash-v0",
    "Lanes",
    "LanesPixels",
    "SoccerGhosts",
    "SoccerSelfPlay",
    "SoccerTwos",
    "SoccerTwos-v0",
    "StrikersVsGoalie",
    "mapoca-SoccerTwos-v0",
    "mapoca-StrikersVsGoalie-v0",
)


@pytest.mark.usefixtures("short_evaluations")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in OF_FIGHTS]
)
def test_every_preset_trains(name: str, tmp_path: Path) -> None:
    preset = zoo.find_preset(name)
    model = trained(tmp_path, "--preset", name, env_id=preset.env_id, algo=preset.algo)
    assert model.trained_rollouts == ROLLOUTS
    assert model.policy.contract.name == preset.env_id
    initial: Any = MODELS[preset.algo].load(tmp_path / f"{preset.algo}/{preset.env_id}_1/initial_model.zip")
    changed = [
        not np.array_equal(*(each.detach().numpy() for each in pair))
        for pair in zip(initial.policy.parameters(), model.policy.parameters(), strict=True)
    ]
    # Expert iteration learns when its games end, which takes longer.
    assert any(changed) or preset.hyperparams().get("n_epochs") == 0, "it has learned nothing"
    assert model.schedules.keys() == {key for key, value in preset.hyperparams().items() if is_schedule(value)}


def test_core_is_what_the_original_system_calls_core() -> None:
    core = zoo.find_preset("Core").hyperparams()
    plain = {"n_envs": 100, "n_steps": 1024, "batch_size": 2048, "n_epochs": 1, "gamma": 0.995, "learning_rate": 3e-4}
    assert {key: core[key] for key in plain} == plain
    assert core["policy_kwargs"] == {"net_arch": {"pi": [512, 512], "vf": [512, 512]}, "head_arch": [128, 128]}
    entropy = parse_schedule(core["ent_coef"])
    assert [entropy(t) for t in (0, 500, 1000, 2000)] == pytest.approx([0.01, 0.0055, 0.001, 0.001])
    weights = RewardWeights(**core["env_kwargs"]["rewards"])
    frozen = parse_schedule(weights.target_frozen_tick)
    assert [frozen(t) for t in (0, 300, 400)] == pytest.approx([0.004, 0.003, 0.003])
    multiplier = parse_schedule(weights.player_died_with_food_multiplier)
    assert [multiplier(0), multiplier(0, scale=1.0)] == pytest.approx([1.2**1.5, 2.2**1.5])
    callbacks = [next(iter(each)) if isinstance(each, dict) else each for each in core["callback"]]
    names = [name.rsplit(".")[-1] for name in callbacks]
    own = ["NoveltyRewardCallback", "OutcomePredictorCallback", "FightMetricsCallback"]
    assert names == ["MaskableCheckpointCallback", "SelfPlayCallback", *own]


def test_dharok_core_is_what_the_original_system_calls_so() -> None:
    core = zoo.find_preset("DharokCore").hyperparams()
    plain = {"n_envs": 100, "n_steps": 1024, "batch_size": 1024, "n_epochs": 1, "gamma": 0.995, "learning_rate": 3e-4}
    assert {key: core[key] for key in plain} == plain
    assert core["policy_kwargs"] == {"net_arch": {"pi": [256, 256], "vf": [256, 256]}, "head_arch": [64, 64]}
    entropy = parse_schedule(core["ent_coef"])
    assert [entropy(t) for t in (0, 100, 200, 300)] == pytest.approx([0.005, 0.00275, 0.0005, 0.0005])
    assert core["env_kwargs"]["death_match"] is False
    rewards = {"win": 1, "lose": -1, "tie": -0.2, "damage_dealt": 0.05, "damage_received": -0.05}
    assert core["env_kwargs"]["rewards"] == rewards


def test_the_stock_spelling_and_the_command_line_come_to_the_same(tmp_path: Path) -> None:
    stock = ["--algo", "maskable_ppo", "--env", "NhEnv", "-conf", str(ROOT / "hyperparams/Core.yml")]
    models = [trained(tmp_path / "stock", *stock), trained(tmp_path / "preset", "--preset=Core")]
    first, second = ([tensor.detach().numpy() for tensor in model.policy.parameters()] for model in models)
    assert all(map(np.array_equal, first, second))


def test_options_beside_a_preset_replace_its_own(tmp_path: Path) -> None:
    zoo.train(["--preset", "NhEnv", "-f", str(tmp_path), *TINY, "gamma:0.5", "--env-kwargs", "opponent:'noop'"])
    folder = tmp_path / "maskable_ppo/NhEnv_1"
    assert PvpPPO.load(folder / "NhEnv.zip").gamma == 0.5
    config = dict(yaml.load((folder / "NhEnv/args.yml").read_text(), Loader=yaml.UnsafeLoader))
    assert config["env_kwargs"] == {"opponent": "noop"}


@pytest.mark.parametrize(
    "command",
    [pytest.param(["scripts/train.py"], marks=pytest.mark.slow), ["-m", "sb3_pvp.zoo", "train"]],
    ids=["script", "module"],
)
def test_an_unknown_preset_is_one_line_and_exit_code_2(command: list[str]) -> None:
    run = subprocess.run([sys.executable, *command, "--preset", "Cor"], cwd=ROOT, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    known = ", ".join(zoo.presets())
    assert run.stderr == f"train: error: unknown preset 'Cor' (did you mean 'Core'?). Known: {known}\n"


def test_a_preset_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("NhEnv: {n_envs: 2}")
    preset = zoo.find_preset(str(path))
    assert (preset.name, preset.path, preset.env_id) == ("mine", path, "NhEnv")
    assert preset.hyperparams() == {"n_envs": 2}


def write_presets(folder: Path, **blocks: dict[str, Any]) -> None:
    for name, block in blocks.items():
        (folder / f"{name}.yml").write_text(yaml.safe_dump({"NhEnv": block}))


def test_presets_import_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperparams, "_FOLDERS", (tmp_path,))
    nested = {"rewards": {"win": 2}}
    write_presets(tmp_path, Base={"a": 1, "b": 1, "c": 1, "d": 1, "env_kwargs": {"rewards": {"lose": -1}}})
    write_presets(tmp_path, Left={"import": ["Base"], "b": 2, "c": 2}, Right={"import": "Base", "c": 3, "d": 3})
    write_presets(tmp_path, Diamond={"import": ["Left", "Right"], "env_kwargs": nested, "targets": ["x", "y"]})
    # Own values, then all of the first import, with what that imports, then those of the second.
    expected = {"a": 1, "b": 2, "c": 2, "d": 1, "env_kwargs": nested, "targets": ["x", "y"]}
    for _ in range(2):  # resolving changes nothing
        assert zoo.find_preset("Diamond").hyperparams() == expected
    assert zoo.find_preset("Right").hyperparams()["d"] == 3
    assert hyperparams.hyperparams_in(str(tmp_path / "Diamond.yml"), "NhEnv") == expected


def test_old_names_of_callbacks_mean_those_of_today(tmp_path: Path) -> None:
    exploiters, elo = "sb3_pvp.exploiters.ExploiterCallback: {preset: {n_envs: 2}}", "sb3_pvp.callbacks.EloCallback"
    (path := tmp_path / "old.yml").write_text(f"NhEnv: {{callback: [{exploiters}, {elo}]}}")
    today = [{"sb3_pvp.callbacks.ExploiterCallback": {"preset": {"n_envs": 2}}}]
    assert zoo.find_preset(str(path)).hyperparams() == {"callback": today}
    for each in former.CALLBACKS:
        now = hyperparams.with_current_names({"callback": [each]})
        assert hyperparams.with_current_names(now) == now == {"callback": [former.CALLBACKS[each]]}
        assert get_class_by_name(each) is get_class_by_name(former.CALLBACKS[each])


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    (path := tmp_path / "mine.yml").write_text("NhEnv: {n_envs: 2}")
    hyperparams.hyperparams_in(str(path), "NhEnv")["n_envs"] = 5
    assert hyperparams.hyperparams_in(str(path), "NhEnv") == {"n_envs": 2}
    path.write_text("NhEnv: {n_envs: 3}")
    os.utime(path, (0, 0))
    assert hyperparams.hyperparams_in(str(path), "NhEnv") == {"n_envs": 3}


def test_impossible_imports_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperparams, "_FOLDERS", (tmp_path,))
    write_presets(tmp_path, One={"import": ["Two"]}, Two={"import": ["One"]}, Far={"import": ["Tow"]})
    write_presets(tmp_path, Odd={"import": {"One": 1}}, Foreign={"import": ["Other"]})
    (tmp_path / "Other.yml").write_text("DharokEnv: {n_envs: 1}")
    for name, message in (
        ("One", "presets import one another: One -> Two -> One"),
        ("Far", "unknown preset 'Tow' .did you mean 'Two'"),
        ("Odd", "import must be a preset's name or a list of them"),
        ("Foreign", "for NhEnv cannot import Other, a preset for DharokEnv"),
    ):
        with pytest.raises(ValueError, match=message):
            zoo.find_preset(name).hyperparams()


def test_files_that_import_the_next_one_again_and_again_are_read_once(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{number}.yml") for number in range(19)]
    for file, following in pairwise(files):
        again = f"{tmp_path}/./{Path(following).name}"
        Path(file).write_text(f"NhEnv: {{import: [{following}, {again}, {following}], n_envs: 4}}")
    Path(files[-1]).write_text("NhEnv: {n_steps: 8}")
    start = time.process_time()
    assert hyperparams.hyperparams_in(files[0], "NhEnv") == {"n_steps": 8, "n_envs": 4}
    assert time.process_time() - start < 5
    for text in (f"import: [{files[0]}]", f"import: [{tmp_path}/./18.yml, {tmp_path}/././18.yml]"):
        Path(files[-1]).write_text(f"NhEnv: {{{text}}}")
        with pytest.raises(ValueError, match="presets import one another"):
            hyperparams.hyperparams_in(files[0], "NhEnv")


def test_only_the_hyperparameters_that_are_used_are_resolved(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("default: {import: Core, n_envs: 4}\nOther-v0:\nDharokEnv: {import: Coer}")
    expected = zoo.find_preset("Core").hyperparams() | {"n_envs": 4}
    assert hyperparams.hyperparams_in(str(path), "NhEnv") == expected
    with pytest.raises(ValueError, match="unknown preset 'Coer'"):
        hyperparams.hyperparams_in(str(path), "DharokEnv")


def test_a_default_is_a_preset_for_the_environment_that_is_named(tmp_path: Path) -> None:
    for name, env_id in (("Core", "NhEnv"), ("DharokCore", "DharokEnv")):
        path = tmp_path / f"{env_id}.yml"
        path.write_text(f"default: {{import: {name}, callback: []}}")
        model = trained(tmp_path / env_id, "--preset", str(path), "--env", env_id, env_id=env_id)
        assert model.policy.contract.name == env_id
    assert zoo.find_preset(str(tmp_path / "NhEnv.yml")).hyperparams()["n_steps"] == 1024


@pytest.mark.parametrize("text", ["", "- a", "5: {}", "NhEnv: 5", "NhEnv:", "a: [b"])
def test_a_file_that_is_no_preset(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.yml"
    path.write_text(text)
    for arguments in (["--preset", str(path)], ["--algo", "maskable_ppo", "--env", "NhEnv", "-conf", str(path)]):
        with pytest.raises(SystemExit) as raised:
            zoo.train([*arguments, "-f", str(tmp_path / "runs")])
        (line,) = capsys.readouterr().err.splitlines()
        assert raised.value.code == 2 and line.startswith("train: error: ") and str(path) in line
    with pytest.raises(ValueError, match=re.escape(str(path))):
        zoo.find_preset(str(path)).hyperparams()


SCHEDULE = {"type": "linear", "initial_value": 0.4, "final_value": 0.2, "change_over_time_steps": 2}


def test_schedules_in_a_yaml_file_reach_the_algorithm(tmp_path: Path) -> None:
    names = ["learning_rate", "clip_range", "ent_coef", "gamma", "vf_coef", "max_grad_norm"]
    model = trained_with(tmp_path, dict.fromkeys(names, SCHEDULE))
    assert model.schedules == dict.fromkeys(names, parse_schedule(SCHEDULE))
    for name in names:  # the last rollout was the third, at time 2
        value = getattr(model, name)
        assert (value(1) if callable(value) else value) == pytest.approx(0.2), name


def test_linear_values_of_rl_zoo3_follow_the_remaining_progress(tmp_path: Path) -> None:
    model = trained_with(tmp_path, {"learning_rate": "lin_3e-4", "clip_range": "lin_0.2"})
    assert model.schedules == {}
    assert [model.lr_schedule(progress) for progress in (1, 0.5)] == pytest.approx([3e-4, 1.5e-4])
    assert model.clip_range(0.5) == pytest.approx(0.1)  # type: ignore[operator]


def test_policy_kwargs_may_be_a_mapping_or_python(tmp_path: Path) -> None:
    for folder, value in (("mapping", {"net_arch": [8], "activation": "tanh"}), ("python", "dict(net_arch=[4 + 4])")):
        (tmp_path / folder).mkdir()
        model = trained_with(tmp_path / folder, {"policy_kwargs": value})
        assert model.policy_kwargs["net_arch"] == [8]


def is_schedule(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value


def trained_with(folder: Path, changes: dict[str, Any]) -> PvpPPO:
    preset = zoo.find_preset("NhEnv")
    path = folder / "mine.yml"
    plain = {key: value for key, value in preset.hyperparams().items() if not isinstance(value, dict)}
    path.write_text(yaml.safe_dump({"NhEnv": plain | {"policy_kwargs": {"net_arch": [8]}} | changes}))
    return trained(folder, "--preset", str(path))


@pytest.mark.slow
def test_a_training_reads_each_file_of_hyperparameters_once(tmp_path: Path) -> None:
    # What is read once by a process is not read again, so this is one of its own.
    folder, options = str(ROOT / "hyperparams"), [*TINY, "policy_kwargs.net_arch:[8]"]
    code = "\n".join(
        (
            "import collections, sys",
            "from sb3_pvp import zoo",
            "opened = collections.Counter()",
            f"ours = lambda event, what: event == 'open' and str(what[0]).startswith({folder!r})",
            "sys.addaudithook(lambda event, what: opened.update([str(what[0])]) if ours(event, what) else None)",
            f"zoo.train([*{{}}, '-f', {str(tmp_path)!r}, *{options!r}])",
            "print(max(opened.values()), [name for name in opened if name.endswith('Core.yml')])",
        )
    )
    for which, reads_core in ((["--algo", "maskable_ppo", "--env", "NhEnv"], False), (["--preset", "Core"], True)):
        command = [sys.executable, "-c", code.replace("{}", repr(which))]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        most, core = run.stdout.splitlines()[-1].split(maxsplit=1)
        assert most == "1" and ("/Core.yml" in core) == reads_core
