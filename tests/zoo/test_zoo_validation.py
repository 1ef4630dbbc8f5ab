"""What is misspelled or impossible is one line with exit code 2, and leaves no folder behind."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rl_zoo3 import exp_manager

from sb3_pvp import zoo
from sb3_pvp.algorithms.hyperparameters import NAMES_IN_TEXTS
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.presets import with_nested
from sb3_pvp.envs import NhVecEnv, PvpVecEnv
from sb3_pvp.envs.fights import Fights
from sb3_pvp.policies import AutoregressivePolicy
from tests.disks import files_below

NH = ["--algo", "maskable_ppo", "--env", "NhEnv", "-n", "64", "--verbose", "0"]
CALLBACKS = "sb3_pvp.callbacks."


@pytest.fixture(scope="module", autouse=True)
def compiled_games() -> None:
    """Compiles the rules, which on a fresh machine prints a line, before tests count lines."""
    for game in ("NhEnv", "DharokEnv"):
        env = PvpVecEnv(1, game=game)
        env.reset()
        env.step(np.zeros((1, *env.action_space.shape), np.int64))
        env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-params", "gama:0.9"], "unknown hyperparameter 'gama' (did you mean 'gamma'?)"),
        (["-params", "seed:3"], "unknown hyperparameter 'seed'"),
        (["-params", "gamma:2"], "gamma must be a number from 0 to 1"),
        (["-params", "learning_rate:'fast'"], "learning_rate must be a number of at least 0"),
        (["-params", "ent_coef:{'type': 'lineer'}"], "unknown schedule type 'lineer'"),
        (["-params", "n_steps:0"], "n_steps must be a positive integer, got 0"),
        (["-params", "gamma"], "take NAME:VALUE with a Python VALUE"),
        (
            ["-params", "n_timesteps:'1e6'"],
            "n_timesteps must be a number of at least 1, got '1e6' (in YAML, !!float 1e6)",
        ),
        (["-params", "frame_stack:2"], "env_kwargs.frame_ages"),
        (["-params", "normalize:True"], "normalize would show this model other observations"),
        (["-params", "normalize:'dict(norm_obs_keys=[\"observation\"])'"], "normalize would show this model other"),
        (["-params", "normalize:{'gamma': 0.9}"], "or take norm_obs=False"),
        (["-params", "normalize:'dict('"], "normalize must be arguments of VecNormalize, or Python for them"),
        (["-params", "policy_kwargs.net_arc:[8]"], "'net_arc' (did you mean 'net_arch'?)"),
        (["-params", "policy:'sb3_pvp.policies.AutoregressivPolicy'"], "unknown policy"),
        (["-params", "policy:'MlpPolicy'"], "unknown policy 'MlpPolicy' (did you mean 'MultiInputPolicy'?)"),
        (["-params", "policy_kwargs.activation:'rellu'"], "unknown activation 'rellu' (did you mean 'relu'?)"),
        (
            ["-params", "policy_kwargs.net_arch:'abc'"],
            "an architecture is a list of sizes, or {'layers': [...]}, got 'abc'",
        ),
        (["-params", "policy_kwargs.head_arch:5"], "an architecture is a list of sizes, or {'layers': [...]}, got 5"),
        (["-params", "policy_kwargs:'dict(net_arc=[8])'"], "'net_arc' (did you mean 'net_arch'?)"),
        (["-params", "policy_kwargs:'dict(net_arch='"], "policy_kwargs must be a mapping, or Python for one"),
        (["-params", "env_wrapper:'gymnasium.wrappers.TimeLimitt'"], "'gymnasium.wrappers' has no attribute 'TimeLim"),
        (["-params", "env_wrapper:'gymnasium.wrappers.TimeLimit'"], "missing 1 required positional argument"),
        (["-params", "env_wrapper:'gymnasium.wrappers.FlattenObservation'"], "cannot apply the wrapper FlattenObs"),
        (["-params", "vec_env_wrapper:'no.such'"], "No module named 'no'"),
        (["-params", "gamma.x:1"], "cannot set gamma.x: gamma is not a mapping, but 0.99"),
        (["-params", "env_kwargs.rewards.winn:3"], "unknown reward 'winn' (did you mean 'win'?)"),
        (["-params", "env_kwargs.reset_params.acountBuild:'MED'"], "'acountBuild' (did you mean 'accountBuild'?)"),
        (["--env-kwargs", "oponent:'noop'"], "unknown argument of NhEnv 'oponent' (did you mean 'opponent'?)"),
        (["--env-kwargs", "render_mode:'foo'"], "unknown render_mode 'foo'"),
        (["--env-kwargs", "opponent:noop"], "take NAME:VALUE with a Python VALUE"),
        (["--env-kwargs", "opponent:'lost.zip'"], "lost.zip"),
        (["--eval-env-kwargs", "opponent:'nop'"], "unknown opponent 'nop' (did you mean 'noop'?)"),
        (
            ["-params", "callback:'LeagueCallback'"],
            f"unknown callback 'LeagueCallback' (did you mean '{CALLBACKS}",
        ),
        (["-params", f"callback:'{CALLBACKS}LeagueCalback'"], f"(did you mean '{CALLBACKS}LeagueCallback'?)"),
        (["-params", "callback:'my.own.Callback'"], "unknown callback 'my.own.Callback' (No module named 'my')"),
        (["-params", f"callback:[{{'{CALLBACKS}LeagueCallback': {{'directry': 1}}}}]"], "(did you mean 'directory'?)"),
        (["-params", f"callback:{{'{CALLBACKS}LeagueCallback': {{'snapshot_every': 0}}}}"], "snapshot_every must be"),
        (["-params", f"callback:{{'{CALLBACKS}LeagueCallback': 3}}"], "must be a mapping, got 3"),
        (
            ["-params", f"callback:{{'{CALLBACKS}SelfPlayCallback': {{'opponent_options': {{'past': 3}}}}}}"],
            "opponent_options.past should be a valid dictionary, got 3",
        ),
        (
            ["-params", f"callback:{{'{CALLBACKS}ExploiterCallback': {{'preset': {{'callback': 'foo.Bar'}}}}}}"],
            "unknown callback 'foo.Bar'",
        ),
        (["--vec-env", "subproc", "--env-kwargs", "opponent:'nobody'"], "unknown opponent 'nobody'"),
        (["--vec-env", "subproc", "-params", "env_wrapper:'gymnasium.wrappers.TimeLimit'"], "missing 1 required"),
        (["-optimize", "--env-kwargs", "opponent:'nobody'"], "unknown opponent 'nobody'"),
        (["-conf", "lost.yml"], "lost.yml"),
        (["-conf", "nosuchpackage"], "-conf takes a yaml file, or a Python module with hyperparams"),
        (["-conf", "json"], "-conf takes a yaml file, or a Python module with hyperparams"),
        (["--device", "nodev"], "--device nodev cannot be used"),
        (["--device", "meta"], "--device meta cannot be used"),
        (["--device", "cuda:77"], "--device cuda:77 cannot be used"),
        (["--preset", ""], "unknown preset ''"),
        (["--gym-packages", "nosuch"], "--gym-packages takes names of Python packages"),
        (["-i", "lost.zip"], "There is no model file lost.zip"),
        (["-i", __file__], "-i takes a model's zip, a fighter file or the name"),
        (["--env", "NhEnw"], "unknown environment 'NhEnw' (did you mean 'NhEnv'?)"),
        (["--preset", "Coer"], "unknown preset 'Coer' (did you mean 'Core'?)"),
        (["-n", "0"], "-n must be a positive number of steps, or -1 for that of the preset, got 0"),
        (["--n-timesteps=-5"], "-n must be a positive number of steps, or -1 for that of the preset, got -5"),
        (["-n", "many"], "argument -n/--n-timesteps: invalid int value: 'many'"),
        (["--eval-episodes", "0"], "--eval-episodes must be at least 1, got 0"),
        (["--n-eval-envs", "0"], "--n-eval-envs must be at least 1, got 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_usage(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(SystemExit) as raised:
        zoo.train([*NH, "-f", str(runs), *arguments])
    error = capsys.readouterr().err.splitlines()[-1]
    assert raised.value.code == 2
    assert error.startswith("train: error: ") and message in error
    assert not runs.exists()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"batch_sise": 64}, "unknown hyperparameter 'batch_sise' (did you mean 'batch_size'?)"),
        ({"env_kwargs": {"rewards": {"damage_delt": 1}}}, "'damage_delt' (did you mean 'damage_dealt'?)"),
        ({"env_kwargs": ["opponent"]}, "env_kwargs must be a mapping, got ['opponent']"),
        (
            {"n_timesteps": None},
            "the hyperparameters for NhEnv have no n_timesteps: begin with import: NhEnv",
        ),
        ({"import": [], "n_timesteps": 64}, "have no policy"),
        ({"import": ["Coer"]}, "unknown preset 'Coer' (did you mean 'Core'?)"),
        ({"callback": [{f"{CALLBACKS}LeagueCallback": None, "x": 1}]}, "one name with its arguments"),
    ],
)
def test_files_are_checked_as_well(
    block: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump({"NhEnv": {"import": ["NhEnv"], **block}}))
    with pytest.raises(SystemExit):
        zoo.train([*NH, "-conf", str(path), "-f", str(tmp_path / "runs")])
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out.count("\n") < 6, (
        "the error is not lost among hyperparameters"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.yml", b"NhEnv:\n  gamma: [0.9\n  n_envs: 3\n", "mine.yml is not YAML: while parsing a flow sequence"),
        ("mine.yml", b"\xff\xfe\x00\x88", "mine.yml is not YAML: 'utf-8' codec can't decode"),
        ("mine.yml", b"NhEnv: {import: NhEnv, when: 2024-99-99}", "mine.yml is not YAML: month must be in 1..12"),
        ("mine.yml", b"NhEnv: {import: NhEnv, 1: 2}", "the hyperparameters for NhEnv must map names to values"),
        ("mine.yml", b"NhEnv: 3", "the hyperparameters for NhEnv must map names to values, got 3"),
        ("mine.yml", b"", "mine.yml must map environments to their hyperparameters"),
        ("mine.yml", None, "mine.yml is not YAML: it is a folder, a device or a pipe"),
        ("folder", None, "-conf takes a yaml file, or a Python module with hyperparams"),
        ("mine.py", b"def (", "-conf takes a yaml file, or a Python module with hyperparams: SyntaxError"),
        ("mine.py", b"hyperparams = 3", "mine.py must map environments to their hyperparameters"),
    ],
)
def test_what_holds_no_hyperparameters_is_one_line(
    name: str, content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(SystemExit):
        zoo.train([*NH, "-conf", str(path), "-f", str(tmp_path / "runs")])
    error = capsys.readouterr().err
    assert message in error and error.startswith("train: error: ") and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


TINY = ["n_envs:4", "n_steps:16", "batch_size:64", "policy_kwargs:dict(net_arch=[8])"]


def begin(folder: Path, callback: dict[str, object]) -> None:
    """Trains with this callback."""
    zoo.train([*NH, "--eval-freq", "-1", "-f", str(folder), "-params", *TINY, f"callback:{callback!r}"])


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ({f"{CALLBACKS}SelfPlayCallback": {"target": 1.0}}, "a share of target opponents needs targets"),
        ({f"{CALLBACKS}SelfPlayCallback": {"target": 1.0, "targets": ["/no/such.zip"]}}, "no model file /no/such.zip"),
        ({f"{CALLBACKS}SelfPlayCallback": {"self_play": 0.25}}, "self-play needs an even number of rows"),
        ({"raising.Raising": {"error": "ValueError", "at": "init"}}, "wrong at init"),
        ({"raising.Raising": {"error": "FileNotFoundError", "at": "rollout"}}, "wrong at rollout"),
    ],
)
def test_what_shows_at_the_start_of_training_is_one_line(
    callback: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        begin(tmp_path, callback)
    (line,) = capsys.readouterr().err.splitlines()
    assert raised.value.code == 2
    assert line.startswith("train: error: ") and message in line
    assert not (tmp_path / "maskable_ppo/NhEnv_1/interrupted_model.zip").exists(), "nothing was learned"


def test_a_full_disk_is_one_line_and_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, step = tmp_path / "maskable_ppo/NhEnv_1", Fights.step
    options = [*NH, "-n", "192", "--eval-freq", "-1", "-f", str(tmp_path), "--resume", "-params", *TINY]
    with ExitStack() as disk, monkeypatch.context() as patch, pytest.raises(SystemExit) as raised:

        def fill(fights: Fights, actions: Any) -> None:
            if (run / "checkpoints/main_64_steps.zip").exists():
                disk.enter_context(files_below(20_000))
            step(fights, actions)

        patch.setattr(Fights, "step", fill)
        zoo.train(options)
    (line,) = capsys.readouterr().err.splitlines()
    assert raised.value.code == 1 and line.startswith("train: error: [Errno ") and ".zip'" in line and "room" in line
    zoo.train(options)
    assert PvpPPO.load(run / "NhEnv.zip").num_timesteps == 192 and not run.with_name("NhEnv_2").exists()


def test_what_shows_later_and_mistakes_in_programs_keep_their_tracebacks(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="at init"):
        begin(tmp_path, {"raising.Raising": {"error": "TypeError", "at": "init"}})
    with pytest.raises(ValueError, match="at step") as raised:
        begin(tmp_path, {"raising.Raising": {"error": "ValueError", "at": "step"}})
    assert raised.traceback[-1].name == "reach"
    assert (tmp_path / "maskable_ppo/NhEnv_2/interrupted_model.zip").is_file()


def test_a_model_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.zip"
    path.write_text("no zip")
    with pytest.raises(SystemExit):
        zoo.train([*NH, "-i", str(path), "-f", str(tmp_path / "runs")])
    assert f"{path} is not a saved model" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_model_of_another_game_or_with_other_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = NhVecEnv(1)
    path = tmp_path / "model.zip"
    PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=8, policy_kwargs={"net_arch": [8]}).save(path)
    for others in (["--env", "DharokEnv"], ["-params", "env_kwargs.frame_ages:2"]):
        with pytest.raises(SystemExit):
            zoo.train([*NH, *others, "-i", str(path), "-f", str(tmp_path / "runs")])
        assert "model.zip is of another game, a team of another size, or sees other" in capsys.readouterr().err
        assert not (tmp_path / "runs").exists()


def test_arguments_of_the_preset_are_not_dropped_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*NH, "--env", "DharokEnv", "--eval-freq", "-1", "-f", str(tmp_path), "-params", *TINY]
    zoo.train([*options, "--env-kwargs", "death_match:False"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: --env-kwargs replaces all env_kwargs of the preset, and drops its rewards; ")
    zoo.train([*options, "env_kwargs.death_match:False"])
    assert capsys.readouterr().err == ""


def test_environments_of_others_are_their_own_business(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--algo", "ppo", "--env", "CartPole-v1", "-n", "32", "-f", str(tmp_path / "logs"), "-params"]
    with pytest.raises(TypeError):
        zoo.train([*words, "batch_size:'x'"])
    with pytest.raises(SystemExit, match="2"):  # but for what is surely a typo
        zoo.train([*words, "gama:0.9"])
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "error" in each]
    assert "unexpected keyword argument 'gama'" in line and not (tmp_path / "logs").exists()


def test_nested_names_change_a_copy() -> None:
    hyperparams = {"a": 1, "b": {"c": 2, "d": 3}, "b.c": 4, "e.f.g": 5}
    assert with_nested(hyperparams) == {"a": 1, "b": {"c": 4, "d": 3}, "e": {"f": {"g": 5}}}
    assert hyperparams["b"] == {"c": 2, "d": 3}


def test_a_text_of_policy_kwargs_means_what_it_means_to_rl_zoo3() -> None:
    for name, value in NAMES_IN_TEXTS.items():
        assert getattr(exp_manager, name) is value
