"""Environments of other packages: found by their ids, trained by their presets, or refused with what to install."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from stable_baselines3.common.env_checker import check_env

from sb3_pvp import zoo
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.presets import hyperparams_in, presets
from sb3_pvp.callbacks.metric_lines import METRICS, SCORES
from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo import domains
from sb3_pvp.zoo.domains import DOMAINS, SmallPictures, register_domain

#: The preset of each extra.
PRESETS = {"atari": "Atari", "crafter": "Crafter", "dmc": "DmControl", "minigrid": "MiniGrid", "vizdoom": "VizDoom"}


@pytest.mark.slow
@pytest.mark.parametrize("extra", DOMAINS)
def test_the_preset_of_an_extra_learns(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not DOMAINS[extra].is_installed:
        pytest.skip(f'{" or ".join(DOMAINS[extra].packages)} is not installed: pip install "sb3-pvp[{extra}]"')
    monkeypatch.chdir(tmp_path)  # where VizDoom leaves a file
    preset, folder = PRESETS[extra], tmp_path / "run"
    options = ["--eval-freq", "-1", "--seed", "0", "--num-threads", "1", "--log-interval", "1", "--verbose", "0"]
    # Two thousand steps of each, with few updates: what a preset gets is a matter of hours.
    zoo.train(["--preset", preset, "-n", "2000", "--logdir", str(folder), *options, "-params", "train_ratio:4"])
    model = DreamerV3.load(folder / f"{presets()[preset].env_id.replace('/', '-')}.zip", device="cpu")
    assert model.num_timesteps >= 2000 and model.n_updates >= 4
    scores = [json.loads(line) for line in (folder / SCORES).read_text().splitlines()]
    if extra == "crafter":  # whose episodes may be longer
        lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
        assert any(
            "log_max/achievement_collect_sapling" in line or "log_max/achievement_wake_up" in line for line in lines
        )
    assert scores and all(np.isfinite(line["episode/score"]) for line in scores)


def test_a_python_that_is_too_new_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "find_spec", lambda name: None)
    monkeypatch.setitem(DOMAINS, "dmc", replace(DOMAINS["dmc"], below=(3, 1)))
    with pytest.raises(Refusal, match="needs Python below 3.1:"):
        register_domain("dm_control/cartpole-balance-v0")


@pytest.mark.parametrize("extra", DOMAINS)
def test_what_is_missing_is_one_line_with_the_command(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(domains, "find_spec", lambda name: None)
    monkeypatch.setitem(DOMAINS, extra, replace(DOMAINS[extra], below=(4, 0)))
    monkeypatch.setattr(gym, "registry", {id_: spec for id_, spec in gym.registry.items() if not of_domain(id_)})
    with pytest.raises(SystemExit) as ended:
        zoo.train(["--preset", PRESETS[extra], "-n", "10", "-f", str(tmp_path / "runs")])
    (line,) = capsys.readouterr().err.splitlines()
    names = " and ".join(DOMAINS[extra].packages)
    assert ended.value.code == 2 and not (tmp_path / "runs").exists()
    assert line == f'train: error: not installed here: {names}; pip install "sb3-pvp[{extra}]"'


def of_domain(env_id: str) -> bool:
    return any(env_id.startswith(domain.prefixes) for domain in DOMAINS.values())


def test_a_package_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_game.py").write_text("raise ImportError('libGL.so.1 is missing')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(DOMAINS, "broken", domains.Domain(("Broken/",), ("broken_game",), "broken_game"))
    with pytest.raises(Refusal, match="broken_game cannot be imported: libGL.so.1 is missing"):
        register_domain("Broken/Game-v0")
    register_domain("Other/Game-v0")  # of nobody: what is unknown is refused elsewhere


def test_each_extra_has_a_preset_for_its_ids() -> None:
    for extra, name in PRESETS.items():
        assert presets()[name].algo == "dreamerv3"
        assert presets()[name].env_id.startswith(DOMAINS[extra].prefixes)
        assert f"the extra `{extra}`" in presets()[name].path.read_text()
    assert PRESETS.keys() == DOMAINS.keys()


def test_environments_of_a_group_have_its_block_unless_they_are_named(tmp_path: Path) -> None:
    blocks = {"default": {"a": 1}, "atari": {"a": 2}, "ALE/Pong-v5": {"a": 3}}
    (path := tmp_path / "mine.yml").write_text(yaml.safe_dump(blocks))
    found = [hyperparams_in(str(path), env_id, "atari") for env_id in ("ALE/Pong-v5", "ALE/Boxing-v5")]
    assert [*found, hyperparams_in(str(path), "CartPole-v1")] == [{"a": 3}, {"a": 2}, {"a": 1}]


class Pictures(gym.Env[Any, Any]):
    """Shows a picture of 6 x 4 pixels whose upper half is white, alone or beside a number."""

    action_space = spaces.Discrete(2)

    def __init__(self, is_dict: bool) -> None:
        self.is_dict, picture = is_dict, spaces.Box(0, 255, (6, 4, 2), np.uint8)
        parts = spaces.Dict({"screen": picture, "ammo": spaces.Box(0, 9, (1,), np.float32)})
        self.observation_space = parts if is_dict else picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        picture = np.zeros((6, 4, 2), np.uint8)
        picture[:3] = 255
        return {"screen": picture, "ammo": np.array([5], np.float32)} if self.is_dict else picture, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.reset()[0], 0.0, True, False, {}


@pytest.mark.parametrize("is_dict", [True, False])
def test_pictures_become_small_and_all_else_stays(is_dict: bool) -> None:
    env = SmallPictures(Pictures(is_dict), 2)
    check_env(env, warn=False)
    seen, _ = env.reset()
    picture = seen["screen"] if is_dict else seen
    assert picture.tolist() == [[[255, 255]] * 2, [[0, 0]] * 2]
    assert not is_dict or seen["ammo"] == 5


def test_crafter_is_an_environment_whose_achievements_are_for_the_log() -> None:
    pytest.importorskip("crafter", reason='pip install "sb3-pvp[crafter]"')
    register_domain("Crafter-v1")
    env: Any = gym.make("Crafter-v1", length=30)
    check_env(env.unwrapped, warn=False)
    first, again = (env.reset(seed=3)[0]["image"] for _ in range(2))
    assert first.shape == (64, 64, 3) and np.array_equal(first, again) and first.std() > 0
    assert not np.array_equal(first, env.reset(seed=4)[0]["image"])
    for tick in range(1, 31):
        seen, _, terminated, truncated, info = env.step(0)
        assert (terminated, truncated) == (False, tick == 30)
    counts = {key: value for key, value in seen.items() if key.startswith("log_achievement_")}
    assert len(counts) == 22 and "inventory" in info
    from sb3_pvp.envs.log_keys import LogKeys

    assert list(LogKeys(env).observation_space.spaces) == ["image"]
