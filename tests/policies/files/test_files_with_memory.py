"""Fighters with memory in files: zips, fighter files and graphs play alike, tick after tick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp import load
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies.files.fighter_files import export_fighter, export_graph
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.policies.files.reading import read
from tests.policies.remembering import ONE_KIND, remembering_model, rollouts

ROWS, TICKS = 5, 40


def played(opponent: Any, deterministic: bool) -> np.ndarray:
    """The actions of an opponent that plays itself in the first seat, in fights of at most 20 ticks."""
    env = NhVecEnv(ROWS, opponent="baseline", seed=5, max_episode_ticks=20)
    seen, state, starts, chosen = env.reset(), opponent.initial_state(range(ROWS)), np.ones(ROWS, bool), []
    for _ in range(TICKS):
        actions, state = opponent.predict(seen["observation"], state, starts, deterministic, env.action_masks())
        chosen.append(actions)
        seen, _, starts, _ = env.step(actions)
    return np.array(chosen)


@pytest.mark.parametrize("deterministic", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ONE_KIND)
def test_all_files_of_a_fighter_play_alike(kind: str, deterministic: bool, tmp_path: Path) -> None:
    model = rollouts(remembering_model(kind, learning_rate=0.01), 3)
    model.save(tmp_path / "model.zip")
    export_fighter(model, tmp_path / "model.fighter")
    export_graph(model, tmp_path / "model.onnx")
    expected = played(model_opponent(model), deterministic)
    for name in ("model.zip", "model.fighter", "model.onnx"):
        opponent = load_opponent(tmp_path / name, safe=name != "model.zip")
        opponent.check(model.env.get_attr("contract", indices=[0])[0])  # type: ignore[union-attr]
        np.testing.assert_array_equal(played(opponent, deterministic), expected, name)
    about = read(tmp_path / "model.fighter").description
    assert about.memory is not None and about.memory.kind == kind
    safe = load(tmp_path / "model.fighter")
    assert safe.policy.memory.settings == model.policy.memory.settings  # type: ignore[union-attr]
    env, state, starts = NhVecEnv(ROWS, opponent="baseline", seed=5, max_episode_ticks=20), None, np.ones(ROWS, bool)
    seen = env.reset()
    for tick in range(TICKS if deterministic else 0):
        actions, state = safe.predict(seen, state, starts, deterministic=True)
        np.testing.assert_array_equal(actions, expected[tick])
        seen, _, starts, _ = env.step(actions)


def test_a_description_that_needs_more_weights_than_the_file_has_is_refused(tmp_path: Path) -> None:
    model = remembering_model("gru")
    export_fighter(model, tmp_path / "model.fighter", onnx=False)
    about = read(tmp_path / "model.fighter").description
    size = sum(part.numel() for part in model.policy.parameters()) * 4
    about.check(size * 2)
    large = about.model_copy(update={"memory": about.memory.model_copy(update={"size": 4096})})  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="needs more weights"):
        large.check(size * 2)


def test_a_graph_with_memory_has_one_more_input_and_output(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export_graph(remembering_model("lstm"), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    inputs = {each.name: each.shape for each in session.get_inputs()}
    assert inputs["memory"] == ["batch", 32]
    assert [each.name for each in session.get_outputs()][-1] == "next_memory"
