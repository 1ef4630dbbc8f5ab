"""Open-loop videos show what happened, what the model sees in the first half and imagines in the second."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from PIL import Image, ImageSequence
from stable_baselines3.common.logger import configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.callbacks import OpenLoopVideoCallback
from sb3_pvp.callbacks.open_loop_video import IMAGINED, SEEN, open_loop_frames

TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, bins=41)
SIDE, BORDER = 48, 2


class Flashing(gym.Env[Any, Any]):
    """Pixels of one brightness, another one at every step."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        return self.step(0)[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.full((SIDE, SIDE, 1), self.np_random.integers(256), np.uint8), 0.0, False, False, {}


def learner(env: Any = None, **options: Any) -> DreamerV3:
    settings: dict[str, Any] = {"batch_size": 2, "batch_length": 6, "train_ratio": 4, "imagined_steps": 2}
    settings |= {"policy_kwargs": {"size": TINY}, "buffer_size": 500, "device": "cpu", "seed": 0}
    return DreamerV3("MlpPolicy", env or Flashing(), **settings | options)


@pytest.fixture(scope="module")
def model() -> DreamerV3:
    return learner().learn(40)


def batch_of(model: DreamerV3, **changes: Any) -> Any:
    callback = OpenLoopVideoCallback("unused", sequences=2)
    callback.init_callback(model)
    return callback._batch()._replace(**changes)


def test_the_three_are_one_below_the_other(model: DreamerV3) -> None:
    batch = batch_of(model)
    frames = open_loop_frames(model, batch)
    width, height = SIDE + 2 * BORDER, 3 * SIDE + 2 * BORDER
    assert frames.shape == (6, height, 2 * width, 3)
    for time, frame in enumerate(frames):
        assert tuple(frame[0, 0]) == (SEEN if time < 3 else IMAGINED)
        true, ours, error = (frame[BORDER + i * SIDE : BORDER + (i + 1) * SIDE] for i in range(3))
        inner = np.s_[:, width + BORDER : 2 * width - BORDER]
        assert np.array_equal(true[inner][..., :1], batch.observations["observation"][1, time].numpy())
        expected = (ours[inner].astype(float) - true[inner] + 255) / 2
        assert np.allclose(error[inner], expected, atol=1.5)


def test_the_model_sees_the_first_half_only(model: DreamerV3) -> None:
    batch = batch_of(model)
    shown = open_loop_frames(model, batch)[:, BORDER + SIDE : BORDER + 2 * SIDE]
    for change, same in ((np.s_[:, 3:], True), (np.s_[:, :3], False)):
        pixels = batch.observations["observation"].clone()
        pixels[change] = 255 - pixels[change]
        other = open_loop_frames(model, batch._replace(observations={"observation": pixels}))
        assert np.array_equal(shown, other[:, BORDER + SIDE : BORDER + 2 * SIDE]) == same


def test_videos_are_files_and_in_tensorboard(tmp_path: Path) -> None:
    model = learner()
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    model.learn(45, callback=OpenLoopVideoCallback(str(tmp_path / "videos"), every=20, sequences=3))
    files = sorted((tmp_path / "videos").iterdir())
    assert [file.name for file in files] == ["open_loop_20.gif", "open_loop_40.gif"]
    with Image.open(files[1]) as video:
        assert len([*ImageSequence.Iterator(video)]) == 6
    events = EventAccumulator(str(tmp_path)).Reload().Images("train/open_loop")
    assert [event.step for event in events] == [20, 40]
    assert Image.open(BytesIO(events[1].encoded_image_string)).size == (3 * (SIDE + 4), 3 * SIDE + 4)


@pytest.mark.slow
def test_training_is_the_same_with_it(tmp_path: Path) -> None:
    plain, filmed = (
        learner().learn(40, callback=callback) for callback in (None, OpenLoopVideoCallback(str(tmp_path), every=10))
    )
    assert len([*tmp_path.iterdir()]) > 1
    for name, weights in plain.policy.state_dict().items():
        assert th.equal(weights, filmed.policy.state_dict()[name]), name


def test_without_pixels_it_is_refused() -> None:
    size = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, bins=41)
    model = learner(gym.make("CartPole-v1"), policy_kwargs={"size": size})
    with pytest.raises(ValueError, match="for a DreamerV3 that sees pixels"):
        model.learn(10, callback=OpenLoopVideoCallback("unused"))
