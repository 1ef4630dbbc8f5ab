"""A run that is saved, loaded and continued equals one that was never interrupted."""

import random
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from ppo_games import GuessingGame
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor, VecNormalize

from sb3_pvp import PvpPPO, load
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

ROLLOUT = 4 * 16
SETTINGS: dict[str, Any] = {
    "n_steps": 16,
    "batch_size": 24,
    "n_epochs": 2,
    "gradient_accumulation_steps": 2,
    "normalize_reward": True,
    "eps_greedy": 0.3,
    "ent_coef": {"type": "linear", "initial_value": 0.1, "final_value": 0.0, "change_over_time_steps": 5},
    "seed": 3,
    "device": "cpu",
}


def new_model(env: Any, policy: Any = "MultiInputPolicy", **kwargs: Any) -> PvpPPO:
    return PvpPPO(policy, env, **(SETTINGS | kwargs))


def assert_same_learner(one: PvpPPO, other: PvpPPO) -> None:
    mine, yours = one.policy.state_dict(), other.policy.state_dict()
    assert mine.keys() == yours.keys()
    assert all(th.equal(mine[name], yours[name]) for name in mine)
    names = ("num_timesteps", "trained_rollouts", "num_updates", "reward_normalizer", "ent_coef", "_n_updates")
    assert {name: getattr(one, name) for name in names} == {name: getattr(other, name) for name in names}


def assert_same_run(one: PvpPPO, other: PvpPPO) -> None:
    assert_same_learner(one, other)
    assert list(one.ep_info_buffer or ()) == list(other.ep_info_buffer or ())


def bare(seed: int = 0) -> PvpPPO:
    return new_model(GuessingGame(seed=seed))


def wrapped(seed: int = 0) -> PvpPPO:
    env = VecMonitor(VecFrameStack(GuessingGame(seed=seed), 2))
    return new_model(VecNormalize(env, norm_obs_keys=["observation"]))


def fights(seed: int = 0) -> PvpPPO:
    """Real fights against the bot, in random gear, with a policy that has statistics."""
    env = NhVecEnv(4, seed=seed, reset_params={"randomizeGear": True}, frame_ages=(0, 1))
    return new_model(env, policy=AutoregressivePolicy)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns files of runs saved after two rollouts, or in the third, and continued in another process."""
    folder = tmp_path_factory.mktemp("runs")
    for make in (bare, wrapped, fights):
        callback = CheckpointCallback(2 * 16 + 5, str(folder), name_prefix=make.__name__)
        make().learn(6 * ROLLOUT, callback=callback).save(folder / f"{make.__name__}_whole")
        make().learn(2 * ROLLOUT).save(folder / f"{make.__name__}_half")
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_exact_resume as here
for make in (here.bare, here.wrapped, here.fights):
    for name in ("half", "148_steps"):
        path = {str(folder)!r} + f"/{{make.__name__}}_{{name}}"
        model = here.PvpPPO.load(path, env=make(seed=99).env, device="cpu")
        model.learn(6 * here.ROLLOUT - model.num_timesteps, reset_num_timesteps=False).save(path)
"""
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", script], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("make", ["bare", "wrapped", "fights"])
@pytest.mark.parametrize("name", ["half", "148_steps"])
def test_continues_in_another_process(runs: Path, make: str, name: str) -> None:
    whole, continued = (PvpPPO.load(runs / f"{make}_{which}") for which in ("whole", name))
    assert (whole.trained_rollouts, whole.num_timesteps) == (6, 6 * ROLLOUT)
    assert_same_learner(whole, continued)


def resume(path: Path, steps: int, env: Any = None, **kwargs: Any) -> PvpPPO:
    model = PvpPPO.load(path, env=env or GuessingGame(seed=99), device="cpu", **kwargs)
    return model.learn(steps, reset_num_timesteps=False)


@pytest.mark.parametrize("step", [1, 9, 15, 16])
def test_continues_from_the_middle_of_a_roll_out(tmp_path: Path, step: int) -> None:
    callback = CheckpointCallback(save_freq=16 + step, save_path=str(tmp_path))
    whole = new_model(GuessingGame()).learn(4 * ROLLOUT, callback=callback)
    checkpoint = tmp_path / f"rl_model_{4 * (16 + step)}_steps.zip"
    assert_same_run(whole, resume(checkpoint, 4 * ROLLOUT - 4 * (16 + step)))


class SaveAtRolloutEnd(BaseCallback):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.model.save(self.path / str(self.num_timesteps))


def test_continues_from_before_the_learning_phase(tmp_path: Path) -> None:
    whole = new_model(GuessingGame()).learn(4 * ROLLOUT, callback=SaveAtRolloutEnd(tmp_path))
    assert_same_run(whole, resume(tmp_path / str(2 * ROLLOUT), 2 * ROLLOUT))


def test_saving_changes_nothing(tmp_path: Path) -> None:
    plain = new_model(GuessingGame()).learn(3 * ROLLOUT)
    saved = new_model(GuessingGame()).learn(3 * ROLLOUT, callback=CheckpointCallback(5, str(tmp_path)))
    assert_same_run(plain, saved)
    assert not list(tmp_path.glob(".*.zip"))


def test_a_copy_of_a_copy_continues_as_well(tmp_path: Path) -> None:
    whole = new_model(GuessingGame()).learn(4 * ROLLOUT)
    new_model(GuessingGame()).learn(3 * ROLLOUT).save(tmp_path / "first")
    PvpPPO.load(tmp_path / "first").save(tmp_path / "second")
    assert_same_run(whole, resume(tmp_path / "second", ROLLOUT))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (GuessingGame(num_envs=3), "had 4 environments, now there are 3"),
        (VecMonitor(GuessingGame()), "has other wrappers"),
    ],
)
def test_warns_once_where_it_cannot_continue_exactly(tmp_path: Path, env: Any, message: str) -> None:
    new_model(GuessingGame()).learn(ROLLOUT).save(tmp_path / "model")
    with pytest.warns(UserWarning, match=message) as caught:
        model = resume(tmp_path / "model", 2 * ROLLOUT, env=env)
    assert len(caught) == 1
    assert model.trained_rollouts >= 3
    assert model.num_timesteps >= 3 * ROLLOUT


def test_says_if_fights_start_otherwise_than_before(tmp_path: Path) -> None:
    fights().learn(ROLLOUT).save(tmp_path / "model")
    with pytest.warns(UserWarning, match="before with {'randomizeGear': True}: to go on"):
        resume(tmp_path / "model", ROLLOUT, env=NhVecEnv(4, frame_ages=(0, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resume(tmp_path / "model", ROLLOUT, env=fights().env)


def test_leaves_out_the_training_state_on_request(tmp_path: Path) -> None:
    model = new_model(GuessingGame()).learn(ROLLOUT)
    model.save(tmp_path / "whole")
    model.save(tmp_path / "fighter", exclude=["training_state"])
    assert (tmp_path / "fighter.zip").stat().st_size < (tmp_path / "whole.zip").stat().st_size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resume(tmp_path / "fighter", ROLLOUT).num_timesteps == 2 * ROLLOUT
    assert model.training_state is None


def test_a_new_run_starts_afresh(tmp_path: Path) -> None:
    new_model(GuessingGame()).learn(ROLLOUT).save(tmp_path / "model")
    model = PvpPPO.load(tmp_path / "model", env=GuessingGame(num_envs=2), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(2 * 16)
    assert model.num_timesteps == 2 * 16
    assert model.trained_rollouts == 2


@pytest.mark.parametrize("load_to_act", [PvpPPO.load, load])
def test_loading_to_act_leaves_the_random_generators_alone(
    tmp_path: Path, load_to_act: Callable[[Path], MaskablePPO]
) -> None:
    new_model(GuessingGame(), policy=AutoregressivePolicy).learn(ROLLOUT).save(tmp_path / "model.zip")
    drawn = []
    for action in (None, load_to_act):
        set_random_seed(1)
        if action is not None:
            action(tmp_path / "model.zip")
        drawn.append((th.rand(2).tolist(), np.random.random(), random.random()))  # noqa: NPY002
    assert drawn[0] == drawn[1]


def test_stock_sb3_loads_the_file_without_this_package_being_imported(tmp_path: Path) -> None:
    model = new_model(GuessingGame(), learning_rate={"type": "constant", "value": 1e-3}).learn(ROLLOUT)
    model.save(tmp_path / "model")
    script = f"""
import sys, numpy as np
from sb3_contrib import MaskablePPO
assert not any(name.startswith("sb3_pvp") for name in sys.modules)
model = MaskablePPO.load({str(tmp_path / "model")!r}, device="cpu")
assert "rl_zoo3" not in sys.modules and type(model) is MaskablePPO
seen = {{"observation": np.ones((5, 4), np.float32)}}
print(model.predict(seen, deterministic=True, action_masks=np.ones((5, 5)))[0].tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    seen = {"observation": np.ones((5, 4), np.float32)}
    expected, _ = model.predict(seen, deterministic=True, action_masks=np.ones((5, 5)))
    assert done.stdout.strip() == str(expected.tolist())
    assert issubclass(PvpPPO, MaskablePPO)


def test_unknown_arguments_are_refused(tmp_path: Path) -> None:
    new_model(GuessingGame()).save(tmp_path / "model")
    with pytest.raises(
        ValueError, match=r"unknown argument of PvpPPO.load 'learnin_rate' \(did you mean 'learning_rate'"
    ):
        PvpPPO.load(tmp_path / "model", learnin_rate=1.0)
    of_sb3 = {"custom_objects": {}, "print_system_info": False, "force_reset": False}
    loaded = PvpPPO.load(tmp_path / "model", GuessingGame(), "cpu", learning_rate=0.5, eps_greedy=0.25, **of_sb3)
    assert (loaded.learning_rate, loaded.eps_greedy) == (0.5, 0.25)


@pytest.mark.parametrize("load_to_act", [PvpPPO.load, load])
def test_files_that_are_no_models_are_one_line(tmp_path: Path, load_to_act: Callable[[Path], MaskablePPO]) -> None:
    new_model(GuessingGame()).save(tmp_path / "model.zip")
    whole = (tmp_path / "model.zip").read_bytes()
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "damaged.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.zip").write_text("no model")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("readme", "no model")
    for name, error in {
        "missing.zip": "There is no model file .*missing.zip$",
        "folder.zip": "There is no model file .*folder.zip, which is a folder$",
        "damaged.zip": "damaged.zip",
        "text.zip": "text.zip",
        "other.zip": "other.zip",
    }.items():
        with pytest.raises((FileNotFoundError, ValueError), match=error) as raised:
            load_to_act(tmp_path / name)
        assert len(str(raised.value).splitlines()) == 1
    (tmp_path / "model.zip").rename(tmp_path / "fighter.zip")
    assert load_to_act(tmp_path / "fighter").num_timesteps == 0


def test_subclasses_bring_their_own_arguments(tmp_path: Path) -> None:
    class Curious(PvpPPO):
        def __init__(self, *args: Any, curiosity: float = 0.0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.curiosity = curiosity

    Curious("MultiInputPolicy", GuessingGame(), **SETTINGS).save(tmp_path / "model")
    assert Curious.load(tmp_path / "model", curiosity=0.5).curiosity == 0.5
    with pytest.raises(ValueError, match="did you mean 'curiosity'"):
        Curious.load(tmp_path / "model", curiosty=0.5)
