"""Checkpoints: which files are kept, what they contain, and resuming from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chosen_duel import chosen_duels
from hypothesis import given
from hypothesis import strategies as st
from logged import remember
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import MaskableCheckpointCallback
from sb3_pvp.callbacks.checkpoint import checkpoints, spread
from sb3_pvp.callbacks.training_status import STATUS, BehaviorStatus, SavedCheckpoint, read_status
from sb3_pvp.players.league import Player, file_name
from sb3_pvp.policies.files.model_files import is_stripped

ROLLOUT = 4 * 16


def new_model(folder: Path, algorithm: type[MaskablePPO] = PvpPPO) -> MaskablePPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = algorithm("MultiInputPolicy", chosen_duels(4), device="cpu", seed=1, **settings)
    model.run_folder = folder  # type: ignore[attr-defined]
    remember(model)
    return model


def saved_rollouts(folder: Path) -> list[int]:
    return [player.age // ROLLOUT for player in checkpoints(folder / "checkpoints")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"save_freq": 3}, [0, 3, 6, 8]),
        ({"keep": 2}, [7, 8]),
        ({"keep": 1}, [8]),
        ({"keep": 2, "keep_spaced": 2}, [0, 4, 7, 8]),
        ({"save_freq": {"type": "jump", "jumps": {"0": 1, "4": 2}}}, [0, 1, 2, 3, 5, 7, 8]),
    ],
)
def test_which_files_stay(tmp_path: Path, arguments: dict[str, Any], expected: list[int]) -> None:
    new_model(tmp_path).learn(8 * ROLLOUT, callback=MaskableCheckpointCallback(**arguments))
    assert saved_rollouts(tmp_path) == expected


def test_old_files_can_act_and_the_newest_resumes_exactly(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    model.learn(3 * ROLLOUT, callback=MaskableCheckpointCallback())
    paths = [tmp_path / "checkpoints" / file_name(player) for player in checkpoints(tmp_path / "checkpoints")]
    assert [is_stripped(path) for path in paths] == [True, True, True, False]
    assert PvpPPO.load(paths[1]).trained_rollouts == 1
    model.learn(2 * ROLLOUT, reset_num_timesteps=False)
    resumed = PvpPPO.load(paths[3], env=chosen_duels(4))
    remember(resumed)
    resumed.learn(2 * ROLLOUT, reset_num_timesteps=False)
    pairs = zip(model.policy.state_dict().values(), resumed.policy.state_dict().values(), strict=True)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs)
    assert PvpPPO.load(paths[1], env=chosen_duels(4)).policy.optimizer.state_dict()["state"] == {}


def test_all_files_may_keep_what_training_needs(tmp_path: Path) -> None:
    new_model(tmp_path).learn(ROLLOUT, callback=MaskableCheckpointCallback(strip_optimizer=False))
    assert [is_stripped(path) for path in (tmp_path / "checkpoints").glob("*.zip")] == [False, False]


def test_a_stock_algorithm_is_saved_as_well(tmp_path: Path) -> None:
    new_model(tmp_path, MaskablePPO).learn(
        2 * ROLLOUT, callback=MaskableCheckpointCallback(directory=tmp_path / "here")
    )
    names = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert names == ["main_0_steps.zip", "main_128_steps.zip", "main_64_steps.zip"]
    assert MaskablePPO.load(tmp_path / "here/main_64_steps.zip").policy.optimizer.state_dict()["state"] == {}


class Interruption(BaseCallback):
    """Ends the training in the middle of the third rollout."""

    def _on_step(self) -> bool:
        return self.num_timesteps < 2.5 * ROLLOUT


def test_an_interrupted_roll_out_is_saved_as_it_began(tmp_path: Path) -> None:
    callbacks = [MaskableCheckpointCallback(save_freq=10), Interruption()]
    new_model(tmp_path).learn(5 * ROLLOUT, callback=callbacks)
    assert saved_rollouts(tmp_path) == [0, 2]
    resumed = PvpPPO.load(tmp_path / "checkpoints/main_128_steps.zip", env=chosen_duels(4))
    resumed.learn(2 * ROLLOUT, reset_num_timesteps=False, callback=(seen := Counting()))
    assert seen.first == 2 * ROLLOUT


class Counting(BaseCallback):
    """Remembers the steps at the first rollout's start."""

    first: int | None = None

    def _on_rollout_start(self) -> None:
        self.first = self.model.num_timesteps if self.first is None else self.first

    def _on_step(self) -> bool:
        return True


@given(st.integers(1, 6), st.integers(1, 80))
def test_what_is_spread_stays_spread(count: int, number: int) -> None:
    kept: list[Player] = []
    for step in range(number):  # one after the other, as in training
        kept = spread([*kept, Player("main", 10 * step)], count)
    steps = [player.age for player in kept]
    assert len(kept) <= count and (steps[0] == 0) and steps == sorted(steps)
    if len(steps) > 1 and number > count:
        assert np.diff(steps).max() * (count - 1) <= 2 * steps[-1], "twice what is possible, at most"
    assert number < count or 2 * len(kept) >= min(count, number)


@pytest.mark.parametrize(
    "arguments", [{"save_freq": 0}, {"keep": 0}, {"keep": True}, {"keep_spaced": -1}, {"save_freq": "often"}]
)
def test_refuses_impossible_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        MaskableCheckpointCallback(**arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"interval": 3 * ROLLOUT}, [3, 6, 8]),
        ({"interval": 2 * ROLLOUT + 1}, [3, 5, 7, 8]),  # at the first rollout behind each multiple
        ({"interval": 10**6}, [8]),
        ({"even": True, "keep": 4}, [2, 4, 6, 8]),
        ({"even": True, "keep": 3}, [3, 6, 8]),
    ],
)
def test_files_after_so_many_steps(tmp_path: Path, arguments: dict[str, Any], expected: list[int]) -> None:
    new_model(tmp_path).learn(8 * ROLLOUT, callback=MaskableCheckpointCallback(**arguments))
    assert saved_rollouts(tmp_path) == expected


def test_the_interval_goes_on_when_a_run_is_resumed(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    model.learn(2 * ROLLOUT, callback=MaskableCheckpointCallback(interval=3 * ROLLOUT))
    model.learn(5 * ROLLOUT, callback=MaskableCheckpointCallback(interval=3 * ROLLOUT), reset_num_timesteps=False)
    assert saved_rollouts(tmp_path) == [2, 3, 6, 7]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"even": True}, "set keep as well"),
        ({"interval": 4, "save_freq": 2}, "leave that out"),
        ({"interval": 0}, "interval must be a positive integer"),
        ({"interval": 4, "max_share": 0.1}, "in place of interval and even"),
        ({"save_freq": 4, "max_share": 0.1}, "leave that out"),
        ({"max_share": 0}, "max_share must be"),
    ],
)
def test_impossible_intervals_are_refused(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        MaskableCheckpointCallback(**arguments)


@pytest.mark.parametrize(
    ("algorithm", "seconds", "expected"),
    [
        (DQN, 2, [0, 20, 40, 60]),  # of 0 to 60, one step a second: every 20 s after the end of the last one
        (DQN, 0.01, [*range(61)]),
        (PvpPPO, 0.5, [0, 1, 2, 3, 4]),
        (PvpPPO, 2, [0, 2, 4]),
    ],
)
def test_saving_takes_a_share_of_the_time(
    algorithm: Any, seconds: float, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any
    now, save = 0.0, algorithm.save

    class Clock(BaseCallback):
        def _on_step(self) -> bool:
            nonlocal now
            now += 1
            return True

    def slowly(*arguments: Any, **keywords: Any) -> None:
        nonlocal now
        now += seconds
        save(*arguments, **keywords)

    monkeypatch.setattr(algorithm, "save", slowly)
    monkeypatch.setattr("time.monotonic", lambda: now)
    if algorithm is DQN:
        # It learns after each step, from the tenth on.
        model = DQN("MlpPolicy", "CartPole-v1", learning_starts=10, train_freq=1, buffer_size=100, device="cpu")
        model.run_folder = tmp_path
    else:
        model = new_model(tmp_path)
    steps = 60 if algorithm is DQN else 4 * ROLLOUT
    model.learn(steps, callback=[MaskableCheckpointCallback(max_share=0.1), Clock()])
    saved = [player.age for player in checkpoints(tmp_path / "checkpoints")]
    assert saved == ([each * ROLLOUT for each in expected] if algorithm is PvpPPO else expected)


def test_graph_and_status_of_a_model_without_agents(tmp_path: Path) -> None:
    callback = MaskableCheckpointCallback(interval=ROLLOUT, keep=2, onnx=True, behavior="duel")
    model = new_model(tmp_path)
    model.learn(3 * ROLLOUT, callback=callback)
    first = read_status(tmp_path / STATUS)["duel"]
    assert [each.steps for each in first.checkpoints] == [2 * ROLLOUT, 3 * ROLLOUT] and first.final is None
    model.save(tmp_path / "end.zip")
    callback.finish(model, tmp_path / "end")
    last = read_status(tmp_path / STATUS)["duel"]
    assert last.checkpoints == first.checkpoints  # with the times when they were made
    assert last.final is not None and last.final.file_path == "end.onnx" and last.steps == 3 * ROLLOUT
    assert last.newest_file(tmp_path) == tmp_path / "end.onnx"


def test_a_run_may_go_on_as_another_behavior(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    model.learn(ROLLOUT, callback=MaskableCheckpointCallback(behavior="duel"))
    callback = MaskableCheckpointCallback(behavior="other")
    model.learn(ROLLOUT, callback=callback, reset_num_timesteps=False)
    assert [each.steps for each in read_status(tmp_path / STATUS)["other"].checkpoints][-1] == 2 * ROLLOUT


def test_a_model_without_a_graph_ends_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object) -> None:
        raise ValueError("it has no graph")

    callback = MaskableCheckpointCallback(onnx=True, behavior="duel")
    model = new_model(tmp_path)
    model.learn(ROLLOUT, callback=callback)
    monkeypatch.setattr("sb3_pvp.policies.files.fighter_files.export_final", refused)
    with pytest.warns(UserWarning, match="There is no ONNX file of the model: it has no graph"):
        callback.finish(model, tmp_path / "end")
    final = read_status(tmp_path / STATUS)["duel"].final
    assert final is not None and final.file_path == "end.zip"


def test_a_status_leads_to_no_file_outside_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "secret.onnx").write_bytes(b"")
    (tmp_path / "run").mkdir()
    for path in ("../secret.onnx", str(tmp_path / "secret.onnx"), "..\\secret.onnx"):
        status = BehaviorStatus([SavedCheckpoint(steps=1, file_path=path)])
        assert status.newest_file(tmp_path / "run") is None
