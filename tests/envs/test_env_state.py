"""Snapshots of environments: a restored environment resumes bit for bit."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.envs import NhEnv, NhVecEnv
from tests.envs.fake_world import FakeWorld
from tests.paths import ROOT

FIGHTS = 3
NOISE = {"adders": [{"indices": ["0:10"], "value": {"type": "expression", "expression": "normal(0, 0.1)"}}]}
OVERRIDE = {"type": "jump", "jumps": {0: {"forbid": ["use_brew"]}, 2: {"forbid": ["use_veng"]}}}
SETTINGS: dict[str, Any] = {
    "reset_params": {"randomizeGear": True, "randomizeBuild": True, "randomizeFightType": True},
    "rewards": {
        "no_prayer_tick": {"type": "linear", "initial_value": 0, "final_value": 1, "change_over_time_steps": 9}
    },
    "max_episode_ticks": 25,  # so that episodes end and begin
}
VARIANTS: list[dict[str, Any]] = [
    {"opponent": "baseline"},
    {"opponent": "scripted", "frame_ages": (0, 2)},
    {"opponent": "stayalive", "noise": NOISE, "action_mask_override": OVERRIDE},
    {"opponent": "scripted", "noise": NOISE, "frame_ages": 3},
]


def vec_env(variant: int, seed: int = 0) -> NhVecEnv:
    return NhVecEnv(FIGHTS, seed=seed, **SETTINGS, **VARIANTS[variant])


def play(env: NhVecEnv, ticks: int, seed: int = 0) -> str:
    """Returns a digest of all outputs of the environment."""
    rng, digest = np.random.default_rng(seed), hashlib.sha256()
    for _ in range(ticks):
        observation, rewards, dones, infos = env.step(env.fights.contract.random_action(env.action_masks(), rng))
        for info in infos:
            info.get("episode", {}).pop("t", None)  # wall-clock time
        digest.update(spelled_out((observation, rewards, dones, infos, env.reset_infos, env.action_masks())))
    return digest.hexdigest()


def spelled_out(value: Any) -> bytes:
    """Returns equal bytes for equal values; a pickle also depends on which objects are identical."""
    if isinstance(value, dict):
        value = [*value.items()]
    if isinstance(value, (list, tuple)):
        return b"(" + b",".join(map(spelled_out, value)) + b")"
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode()


@settings(deadline=None, max_examples=12)
@given(variant=st.sampled_from(range(len(VARIANTS))), before=st.integers(0, 60), rollouts=st.integers(0, 3))
def test_a_restored_vec_env_resumes_bit_for_bit(variant: int, before: int, rollouts: int) -> None:
    env = vec_env(variant)
    env.reset()
    env.set_trained_rollouts(rollouts)
    play(env, before, seed=1)
    state = pickle.loads(pickle.dumps(env.get_state()))
    shown = env.fights.observation()
    expected = play(env, 40)
    env.set_state(state)
    assert play(env, 40) == expected
    other = vec_env(variant, seed=99)  # never reset
    other.set_state(state)
    assert other.fights.trained_rollouts == rollouts
    assert all(np.array_equal(other.fights.observation()[key], shown[key]) for key in shown)
    assert play(other, 40) == expected


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_a_restored_single_env_resumes_bit_for_bit(variant: int) -> None:
    def go_on(env: NhEnv) -> bytes:
        outputs: list[Any] = []
        rng, running = np.random.default_rng(0), env._running
        for _ in range(60):
            if running:
                action = env.contract.random_action(env.action_masks(), rng)
                outputs.append(env.step(action))
                running = not (outputs[-1][2] or outputs[-1][3])
            else:
                outputs.append(env.reset())
                running = True
        return spelled_out(outputs)

    env, other = (NhEnv(**SETTINGS, **VARIANTS[variant]) for _ in range(2))
    state = env.get_state()  # before the first reset, which is seeded by chance
    expected = go_on(env)
    other.set_state(pickle.loads(pickle.dumps(state)))
    assert go_on(other) == expected
    state = env.get_state()
    expected = go_on(env)
    other.set_state(state)
    assert go_on(other) == expected


def test_seeds_and_options_of_the_next_reset_are_kept() -> None:
    env, other = vec_env(0, seed=5), vec_env(0, seed=6)
    env.set_options({"reset_params": {"accountBuild": "MED", "randomizeBuild": False}})
    other.set_state(env.get_state())
    first, second = env.reset(), other.reset()
    assert [info["build"] for info in other.reset_infos] == ["MED"] * FIGHTS
    assert all(np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.slow
def test_another_process_resumes_bit_for_bit(tmp_path: Path) -> None:
    env = vec_env(3)
    env.reset()
    play(env, 30)
    (tmp_path / "state.pickle").write_bytes(pickle.dumps(env.get_state()))
    program = """
import pickle, sys
from tests.envs.test_env_state import play, vec_env
env = vec_env(3, seed=1)
env.set_state(pickle.load(open(sys.argv[1], "rb")))
print(play(env, 50, seed=2))
"""
    run = [sys.executable, "-c", program, str(tmp_path / "state.pickle")]
    output = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert output.split() == [play(env, 50, seed=2)]


def test_a_snapshot_is_plain_data_and_a_copy() -> None:
    env = vec_env(3)
    env.reset()
    play(env, 5)
    state = env.get_state()
    assert_plain(state)
    kept = spelled_out(state)
    env.set_state(state)
    play(env, 30)
    assert spelled_out(state) == kept


def assert_plain(value: Any) -> None:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for part in value:
            assert_plain(part)
    else:
        assert value is None or type(value) in (bool, int, float, str) or isinstance(value, np.ndarray), type(value)
        assert not (isinstance(value, np.ndarray) and value.dtype.hasobject)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: NhVecEnv(FIGHTS + 1), "has num_fights 4, but this Fights has 3"),
        (lambda: NhVecEnv(FIGHTS, "noop"), "has opponent 'noop', but this Fights has 'baseline'"),
        (lambda: NhVecEnv(FIGHTS, frame_ages=2), r"has frame_ages \(0, 1\), but this Fights has \(0,\)"),
        (NhEnv, "no snapshot of NhVecEnv"),
    ],
)
def test_a_foreign_snapshot_is_refused_and_changes_nothing(other: Any, message: str) -> None:
    env = NhVecEnv(FIGHTS)
    env.reset()
    before = spelled_out(env.get_state())
    with pytest.raises(ValueError, match=message):
        env.set_state(other().get_state())
    assert spelled_out(env.get_state()) == before


def test_versions_and_missing_parts_are_refused() -> None:
    env = NhVecEnv(FIGHTS, noise=NOISE)
    state = env.get_state()
    for changed, message in (
        ({**state, "version": 0}, "has version 0"),
        ({**state, "fights": {**state["fights"], "contract": "DharokEnv"}}, "has contract 'DharokEnv'"),
        ({**state, "fights": {**state["fights"], "tick": {}}}, "'report' in the snapshot has another layout"),
        ({**state, "fights": NhVecEnv(FIGHTS).get_state()["fights"]}, "in the snapshot has another layout"),
    ):
        with pytest.raises(ValueError, match=message):
            env.set_state(changed)


def test_a_world_without_get_state_is_refused() -> None:
    env = NhVecEnv(FIGHTS, world=FakeWorld)
    env.reset()
    with pytest.raises(NotImplementedError, match=r"FakeWorld has no get_state\(\)"):
        env.get_state()
