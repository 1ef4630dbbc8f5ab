"""Fights as pictures and in windows: what `render` gives in every environment, and when."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecVideoRecorder

import sb3_pvp  # noqa: F401
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.envs import renderer as renderer_module
from sb3_pvp.envs.pettingzoo_env import PvpParallelEnv
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs import viewer as game_viewer
from sb3_pvp.games.osrs.rendering import Scene
from sb3_pvp.games.osrs.sim import SimWorld
from tests.envs.fake_world import FakeWorld, ending
from tests.games.osrs.remote.served import world_server

SHAPE = (640, 960, 3)
STAB = np.array([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


@pytest.fixture
def unseen_window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """pygame without a display, and without delay between ticks."""
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(renderer_module, "RENDER_FPS", 1000)
    pygame.display.quit()
    yield pygame
    pygame.display.quit()


def is_picture(frame: Any, shape: tuple[int, ...] = SHAPE) -> bool:
    return isinstance(frame, np.ndarray) and frame.shape == shape and frame.dtype == np.uint8 and frame.std() > 10


@pytest.mark.parametrize("contract", ["NhEnv", "DharokEnv"])
def test_a_single_fight_as_pictures(contract: str) -> None:
    env = gym.make(contract, render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    frames = [env.render()]
    for _ in range(3):
        mask = observation["action_mask"].astype(bool)
        observation, *_ = env.step(env.unwrapped.contract.random_action(mask, np.random.default_rng(0)))
        frames.append(env.render())
    assert all(map(is_picture, frames))
    assert len({frame.tobytes() for frame in frames}) == 4
    assert env.render().tobytes() == frames[-1].tobytes()
    env.close()


def test_an_ended_fight_is_seen_until_the_next_one_begins() -> None:
    env = NhEnv(opponent="noop", world=ending((Outcome.WON, Outcome.LOST), tick=1), render_mode="ansi")
    env.reset(seed=0)
    env.step(STAB)
    assert "learner won" in env.render()
    env.reset()
    assert "tick 0 -" in env.render()


def test_gymnasium_finds_nothing_to_complain_about(unseen_window: Any) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        check_env(gym.make("NhEnv", opponent="noop", world=FakeWorld, render_mode="rgb_array").unwrapped)
    assert not [each for each in warned if "render" in str(each.message).lower() or "close" in str(each.message)]
    metadata = NhEnv.metadata
    assert set(metadata["render_modes"]) == {"ansi", "human", "rgb_array"}
    assert metadata["render_fps"] > 0


def test_unknown_modes_are_refused_and_none_warns() -> None:
    with pytest.raises(TypeError, match="unknown render_mode 'video'"):
        NhEnv(world=FakeWorld, render_mode="video")
    env = NhEnv(world=FakeWorld)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="nothing to render"):
        assert env.render() is None


@pytest.mark.parametrize("make", [NhEnv, partial(NhVecEnv, 2)])
def test_there_is_nothing_to_render_before_the_first_fight(make: Any) -> None:
    with pytest.raises(ResetNeeded, match=r"reset\(\)"):
        make(world=FakeWorld, render_mode="rgb_array").render()


def test_many_fights_as_one_picture() -> None:
    env = NhVecEnv(3, opponent="noop", world=FakeWorld, render_mode="rgb_array")
    env.reset()
    env.step(np.tile(STAB, (3, 1)))
    assert env.render_mode == "rgb_array"
    assert is_picture(env.render(), (1280, 1920, 3))
    images = env.get_images()
    assert len(images) == 3
    assert all(map(is_picture, images))
    assert np.array_equal(env.env_method("render", indices=[2])[0], images[2])
    assert NhVecEnv(1, world=FakeWorld).get_images() == [None]


@pytest.mark.parametrize("vec_env_cls", [NhVecEnv, DummyVecEnv])
def test_every_tick_of_a_fight_is_seen(vec_env_cls: Any) -> None:
    """By a recorder, which renders after every step: fights that end are reset before it can."""
    make = partial(NhEnv, opponent="noop", world=ending((Outcome.WON, Outcome.LOST)), render_mode="ansi")
    env = vec_env_cls([make, make])
    env.reset()
    seen = [env.env_method("render", indices=0)[0].split("\n")[0]]
    for _ in range(7):
        env.step(np.tile(STAB, (2, 1)))
        seen.append(env.env_method("render", indices=0)[0].split("\n")[0])
        assert env.env_method("render", indices=0)[0].split("\n")[0] == seen[-1]
    ticks = [int(line.split("tick ")[1].split()[0]) for line in seen]
    assert ticks == [0, 1, 2, 3, 1, 2, 3, 1]
    assert [tick for tick, line in zip(ticks, seen, strict=True) if "learner won" in line] == [3, 3]


@pytest.mark.parametrize(("arguments", "tick"), [({}, 1), ({"seed": 3}, 0), ({"options": {"training": False}}, 0)])
def test_a_fight_with_a_seed_or_options_is_shown_at_once(arguments: dict[str, Any], tick: int) -> None:
    env = NhEnv(opponent="noop", world=ending((Outcome.WON, Outcome.LOST), tick=1), render_mode="ansi")
    env.reset(seed=0)
    env.render()
    env.step(STAB)
    env.reset(**arguments)
    assert f"tick {tick} " in env.render()


def scenes_of(env: Any, monkeypatch: pytest.MonkeyPatch, steps: int) -> list[Scene]:
    """What is drawn when the first fight is rendered after each of these steps."""
    scenes: list[Scene] = []
    monkeypatch.setattr(game_viewer, "render_text", lambda scene, color: str(scenes.append(scene)))
    env.reset()
    env.env_method("render", indices=0)
    for _ in range(steps):
        masks = env.env_method("action_masks")
        env.step(np.stack([env.fights.contract.random_action(mask, np.random.default_rng(0)) for mask in masks]))
        env.env_method("render", indices=0)
    return scenes


@pytest.mark.parametrize("opponent", ["baseline", "noop", "scripted", "self"])
def test_what_was_chosen_and_what_was_masked_is_seen(opponent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = NhVecEnv(2, opponent, render_mode="ansi", action_mask_override={"forbid": ["use_tank_gear"]})
    first, *scenes = scenes_of(env, monkeypatch, 4)
    assert [fighter.heads for fighter in first.fighters] == [(), ()]
    for scene in scenes:
        learner, rival = scene.fighters
        assert all(head.chosen is not None and head.open for head in learner.heads)
        assert all((head.chosen is None) == (opponent == "baseline") for head in rival.heads)
        gear = next(head for head in learner.heads if head.id == "gear")
        assert gear.open == (True, False)


def test_nothing_is_recorded_without_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    env = NhVecEnv(2, opponent="noop", world=ending((Outcome.WON, Outcome.LOST), tick=2), render_mode="rgb_array")
    env.reset()
    for owner, name in (
        (env.fights.renderer, "_scene_of"),
        (env.fights.renderer, "start_tick"),
    ):
        monkeypatch.setattr(owner, name, lambda *args: pytest.fail("called without rendering"))
    for _ in range(5):
        env.step(np.tile(STAB, (2, 1)))


def test_masks_are_recorded_only_after_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="ansi")
    env.reset(seed=0)
    env.render()
    for expected in (True, False, False):
        env.step(STAB)
        assert (env.fights._shown_masks is not None) == expected


def test_restored_fights_are_seen() -> None:
    env, other = (NhVecEnv(1, opponent="noop", render_mode="ansi") for _ in range(2))
    env.reset()
    env.step(STAB[np.newaxis])
    other.set_state(env.get_state())
    assert other.env_method("render") == env.env_method("render")


def test_both_agents_of_a_parallel_fight() -> None:
    env = PvpParallelEnv(world=FakeWorld, render_mode="rgb_array")
    env.reset(seed=0)
    start = env.render()
    env.step(dict.fromkeys(env.agents, STAB))
    assert is_picture(start)
    assert is_picture(env.render())
    env.close()


def test_a_fight_on_a_server_is_seen() -> None:
    with world_server(SimWorld) as port:
        env = NhEnv(opponent="baseline", world=f"rsps://127.0.0.1:{port}", render_mode="rgb_array")
        env.reset(seed=0)
        env.step(STAB)
        assert is_picture(env.render())
        env.close()


def test_pictures_need_no_torch() -> None:
    code = (
        "import sys, gymnasium, sb3_pvp; env = gymnasium.make('NhEnv', render_mode='rgb_array'); env.reset(); "
        "print('pygame' in sys.modules); env.render(); print('pygame' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "False"]


def test_missing_pygame_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    env = NhEnv(world=FakeWorld, render_mode="rgb_array")
    env.reset(seed=0)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(DependencyNotInstalled, match=r'pip install "sb3-pvp\[render\]"'):
        env.render()


def test_sb3s_workers_draw_as_well() -> None:
    make = partial(NhEnv, opponent="noop", world=FakeWorld, render_mode="rgb_array")
    for vec_env in (DummyVecEnv([make, make]), SubprocVecEnv([make, make], start_method="fork")):
        vec_env.reset()
        assert is_picture(vec_env.render(), (1280, 960, 3))
        vec_env.close()


@pytest.mark.parametrize("vec_env_cls", [NhVecEnv, DummyVecEnv])
def test_videos_of_sb3(vec_env_cls: Any, tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = make_vec_env("NhEnv", 1, seed=0, env_kwargs={"opponent": "noop"}, vec_env_cls=vec_env_cls)
    recorder = VecVideoRecorder(env, str(tmp_path), lambda step: step == 0, video_length=4)
    recorder.reset()
    for _ in range(5):
        recorder.step(STAB[np.newaxis])
    recorder.close()
    assert frames_of(tmp_path / "rl-video-step-0-to-step-4.mp4") == (5, (960, 640), NhEnv.metadata["render_fps"])


@pytest.mark.slow
def test_videos_of_gymnasium(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = RecordVideo(
        gym.make("NhEnv", opponent="noop", render_mode="rgb_array"), str(tmp_path / "videos"), disable_logger=True
    )
    env.reset(seed=0)
    for _ in range(3):
        env.step(STAB)
    env.close()
    assert frames_of(tmp_path / "videos" / "rl-video-episode-0.mp4") == (4, (960, 640), NhEnv.metadata["render_fps"])


def frames_of(path: Path) -> tuple[int, tuple[int, int], float]:
    """The number of frames, their width and height, and the frames per second of a video."""
    from moviepy import VideoFileClip

    with VideoFileClip(str(path)) as clip:
        return sum(1 for _ in clip.iter_frames()), tuple(clip.size), clip.fps


def shown(pygame: Any) -> np.ndarray[Any, Any]:
    return pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)


def test_a_window_shows_every_tick(unseen_window: Any) -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="human")
    assert not unseen_window.display.get_init()
    env.reset(seed=0)
    seen = [shown(unseen_window)]
    for _ in range(2):
        env.step(STAB)
        assert env.render() is None
        seen.append(shown(unseen_window))
    assert len({frame.tobytes() for frame in seen}) == 3
    still = NhEnv(opponent="noop", world=FakeWorld, render_mode="rgb_array")
    still.reset(seed=0)
    if seen[0].shape == SHAPE:  # not shrunk to a small screen
        assert np.array_equal(seen[0], still.render())
    env.close()
    assert not unseen_window.display.get_init()
    env.close()


def test_closing_the_window_ends_nothing_else(unseen_window: Any) -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="human")
    env.reset(seed=0)
    unseen_window.event.post(unseen_window.event.Event(unseen_window.QUIT))
    env.step(STAB)
    assert not unseen_window.display.get_init()
    env.step(STAB)
    assert not unseen_window.display.get_init()
    env.close()


def test_keys_set_the_pace(unseen_window: Any) -> None:
    from sb3_pvp.envs.window import Window

    def press(*keys: int) -> None:
        for key in keys:
            unseen_window.event.post(unseen_window.event.Event(unseen_window.KEYDOWN, key=key))

    window, image = Window("a fight", 1000), np.zeros((64, 96, 3), np.uint8)
    window.show(image)
    press(unseen_window.K_DOWN, unseen_window.K_DOWN, unseen_window.K_UP)
    window.show(image)
    assert window.pace == 256  # the fastest that there is
    press(unseen_window.K_SPACE, unseen_window.K_RIGHT)
    window.show(image)
    assert window.paused
    press(unseen_window.K_RIGHT)
    window.show(image)
    press(unseen_window.K_SPACE)
    window.show(image)
    assert not window.paused
    press(unseen_window.K_ESCAPE)
    window.show(image)
    assert window.closed


def test_many_fights_in_one_window(unseen_window: Any) -> None:
    for mode in ("human", "rgb_array"):
        env = NhVecEnv(2, opponent="noop", world=FakeWorld, render_mode=mode)
        env.reset()
        assert env.render("human") is None  # as `enjoy` calls it
        assert shown(unseen_window).std() > 10
        env.close()


def test_without_a_display_fights_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sb3_pvp.envs import window

    monkeypatch.setattr(window, "has_display", lambda: False)
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="human")
    with pytest.warns(UserWarning, match="no display") as warned:
        env.reset(seed=0)
        env.step(STAB)
        env.step(STAB)
        assert env.render() is None  # what `enjoy` calls after every step: it must not print the tick again
    assert len(warned) == 1
    printed = capsys.readouterr().out
    assert [printed.count(f"tick {tick} ") for tick in range(4)] == [1, 1, 1, 0]
