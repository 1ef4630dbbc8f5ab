"""`ScreenEnv` on Xvfb, with a small program of ours: its laws, what may go wrong, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp.games.screen import ScreenEnv, ScreenError
from sb3_pvp.games.screen.display import VirtualDisplay
from tests.games.screen.screens import need_display, of_display, painter, started_by, written
from tests.paths import ROOT

WAIT, LEFT, RIGHT, HOLD, CLICK, DRAG, END = range(7)
#: What no reader is needed for.
SILENT: dict[str, Any] = {"rewards": [], "reset": [{"start": True}]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test ends with the processes with which it began."""
    need_display()
    before = started_by(os.getpid())
    yield
    assert started_by(os.getpid()) <= before


def made(folder: Path, **changes: Any) -> ScreenEnv:
    return ScreenEnv(written(folder, painter(**changes)), render_mode="rgb_array")


def square(env: ScreenEnv) -> int:
    """Where the left side of the white square is."""
    shown = env.render()
    assert shown is not None
    return int(np.flatnonzero((shown[70] == 255).all(axis=-1))[0])


def said(env: ScreenEnv, words: str) -> str:
    """What the program has printed, once these words are in it: it may be slow."""
    for _ in range(500):
        if words in (text := env.display.output.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{words!r} is not in {text!r}")


def test_what_an_action_does_is_seen_and_rewarded(tmp_path: Path) -> None:
    env = made(tmp_path, stack=3, tick=0.3)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation) and observation.shape == (20, 40, 3)
    assert (observation[..., 0] == observation[..., 2]).all() and info["readings"] == {"score": 0}
    assert square(env) == 90
    rewards = []
    for action in (RIGHT, RIGHT, LEFT, RIGHT, WAIT, WAIT):
        observation, reward, *over, info = env.step(np.int64(action))
        rewards.append(reward)
        assert over == [False, False]
    assert square(env) == 110 and sum(rewards) == info["readings"]["score"] == 20
    assert observation[15, 22:26].min() > 200 and observation[15, :20].max() == 0
    env.close()
    env.close()


def test_every_frame_is_accounted_for(tmp_path: Path) -> None:
    env = made(tmp_path, limit=25)
    earliest = time.monotonic()
    env.reset()
    latest = time.monotonic()
    for step in range(1, 40):
        if step % 5 == 0:
            time.sleep(0.18)  # a slow agent
        asked = time.monotonic()
        *_, truncated, info = env.step(np.int64(WAIT))
        assert info["frames"] == step
        ticks = info["frames"] + info["dropped"]
        assert (asked - latest) / 0.05 - 1 <= ticks <= (time.monotonic() - earliest) / 0.05
        assert truncated == (ticks >= 25)
    assert info["dropped"] >= 14
    env.close()


@pytest.mark.slow
def test_a_frozen_program_stands_still_while_nobody_plays(tmp_path: Path) -> None:
    env = made(tmp_path, freeze=True, tick=0.3)
    env.reset()
    (program,) = [each for each in of_display(env.display.folder) if "painter.py" in " ".join(each.cmdline())][-1:]
    for _ in range(3):
        time.sleep(0.9)
        for _ in range(500):  # a signal takes its time
            if program.status() == psutil.STATUS_STOPPED:
                break
            time.sleep(0.02)
        assert program.status() == psutil.STATUS_STOPPED
        *_, info = env.step(np.int64(RIGHT))
    assert info["frames"] == 3 and info["dropped"] < 9  # so many ticks have passed between the steps
    env.reset()
    env.close()


def test_keys_are_held_until_they_are_not_and_the_mouse_drags(tmp_path: Path) -> None:
    env = made(tmp_path)
    env.reset()
    for action in (HOLD, HOLD, WAIT, CLICK, DRAG):
        env.step(np.int64(action))
    text = said(env, "release 1 150 90").splitlines()
    assert [line for line in text if line.split()[-1] == "a"] == ["down a", "up a"]
    mouse = [line for line in text if line.startswith(("press", "release"))]
    assert mouse == ["press 1 30 40", "release 1 30 40", "press 1 10 50", "release 1 150 90"]
    env.close()


def test_ends_by_what_a_log_says_and_by_the_end_of_the_program(tmp_path: Path) -> None:
    readers = {"left": {"kind": "log", "pattern": "down Left"}, "gone": {"kind": "exit"}}
    reset = [{"start": True, "wait": 0.5}]
    env = made(
        tmp_path, readers=readers, end=["left", "gone"], rewards=[{"reader": "left", "of": "value"}], reset=reset
    )
    for action, reward in ((LEFT, 1.0), (END, 0.0)):
        env.reset()
        found = env.step(np.int64(action))
        for _ in range(200):  # it may be slow
            if found[2]:
                break
            found = env.step(np.int64(WAIT))
        assert found[1:3] == (reward, True)
    env.reset()
    env.close()


def test_a_program_that_has_ended_is_started_also_without_a_step_that_says_so(tmp_path: Path) -> None:
    readers, reset = {"gone": {"kind": "exit"}}, [{"tap": ["a"]}]
    env = made(tmp_path, readers=readers, end=["gone"], rewards=[], reset=reset)
    env.reset()
    is_over = env.step(np.int64(END))[2]
    for _ in range(200):  # it may be slow
        if is_over:
            break
        is_over = env.step(np.int64(WAIT))[2]
    env.reset()
    assert is_over and env.display.find_window("painter") is not None
    env.close()


def test_what_a_program_prints_is_read_from_its_beginning_at_each_start(tmp_path: Path) -> None:
    program = ["sh", "-c", 'echo READY; exec "$@"', "sh", *painter()["program"]]
    readers = {"ready": {"kind": "log", "pattern": "READY"}}
    reset = [{"start": True, "until": "ready", "seconds": 2.0}]
    env = made(tmp_path, program=program, readers=readers, rewards=[], reset=reset)
    for _ in range(2):
        env.reset()
    env.close()


LINES = (["score 100"], [], ["score 110"], ["score", "hit"], ["score 90", "hit"], ["hit", "hit"], [])
SCORE = r"score(?: (\d+))?"


@pytest.mark.parametrize(
    ("pattern", "of", "rewards", "until"),
    [
        (SCORE, "rise", [60, 0, 10, 0, 0, 0, 0], {"until": "it"}),
        (SCORE, "change", [60, 0, 10, 0, -20, 0, 0], {}),
        ("hit", "value", [0, 0, 0, 1, 1, 2, 0], {}),
        pytest.param(SCORE, "rise", [60, 0, 10, 0, 0, 0, 0], {}, marks=pytest.mark.slow),
        pytest.param(SCORE, "value", [100, 0, 110, 0, 90, 0, 0], {}, marks=pytest.mark.slow),
        pytest.param("hit", "rise", [0, 0, 0, 1, 1, 2, 0], {}, marks=pytest.mark.slow),
        pytest.param("hit", "change", [0, 0, 0, 1, 1, 2, 0], {}, marks=pytest.mark.slow),
    ],
)
def test_lines_of_a_log_are_worth_what_is_new_in_them(
    pattern: str, of: str, rewards: list[float], until: dict[str, str], tmp_path: Path
) -> None:
    readers = {"it": {"kind": "log", "file": "log", "pattern": pattern}}
    env = made(tmp_path, readers=readers, rewards=[{"reader": "it", "of": of}], reset=[{"start": True, **until}])
    log = env.display.folder / "log"
    for before in ("score 70\nhit\nscore 40\n", "score 40\n"):
        log.write_text(before)
        env.reset()
        found = []
        for lines in LINES:
            with log.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)
            found.append(env.step(np.int64(WAIT))[1])
        assert found == rewards
    env.close()


def test_a_window_may_be_closed_while_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from Xlib import display
    from Xlib.xobject.drawable import Window

    ours, get_name = VirtualDisplay((200, 100)), Window.get_wm_name
    try:
        other = display.Display(ours.name)
        shown = other.screen().root.create_window(0, 0, 50, 50, 0, other.screen().root_depth)
        shown.map()
        other.sync()

        def get_name_and_close(window: Window) -> Any:
            found = get_name(window)
            shown.destroy()
            other.sync()
            return found

        monkeypatch.setattr(Window, "get_wm_name", get_name_and_close)
        assert ours.find_window("painter") is None
        other.close()
    finally:
        ours.close()


@pytest.mark.slow
def test_displays_side_by_side(tmp_path: Path) -> None:
    path = written(tmp_path, painter(tick=0.2))
    env = SubprocVecEnv([lambda: ScreenEnv(path)] * 3)
    try:
        env.reset()
        env.step(np.array([LEFT, RIGHT, WAIT]))
        for _ in range(5):
            observations = env.step(np.array([WAIT] * 3))[0]
        assert [int(np.flatnonzero(each[15, :, 0] > 200)[0]) for each in observations] == [16, 20, 18]
    finally:
        env.close()


def test_it_is_an_environment_of_gymnasium(tmp_path: Path) -> None:
    env = gymnasium.make("Screen-v0", game=written(tmp_path, painter()))
    assert env.unwrapped.action_names == ("wait", "left", "right", "hold", "click", "drag", "end")  # type: ignore[attr-defined]
    env.reset()
    env.close()


FAULTS = [
    ({"program": ["no-such-program"]}, "there is no program no-such-program: apt-get install no-such-program"),
    ({"program": ["sh", "-c", "echo it is broken; exit 3"]}, "the program sh has ended with code 3: it is broken"),
    ({"delay": 60.0, "patience": 1.0}, "python.* showed no window called 'painter' in 1 seconds: it said nothing"),
    ({"title": "paynter", "patience": 1.0}, "showed no window called 'paynter' in 1 seconds"),
    (
        {
            "readers": {"score": {**painter()["readers"]["score"], "region": [100, 0, 60, 13]}},
            "reset": [{"start": True}],
        },
        r"the reader score of painter finds nothing in \[100, 0, 60, 13\] for 51 ticks$",
    ),
    (
        {
            "readers": {"score": {**painter()["readers"]["score"], "region": [100, 0, 60, 13]}},
            "reset": [{"start": True, "until": "score", "seconds": 1.0}],
        },
        r"the reader score of painter finds nothing in \[100, 0, 60, 13\], for which the reset waited 1 seconds",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), [*FAULTS[:3], *(pytest.param(*each, marks=pytest.mark.slow) for each in FAULTS[3:])]
)
def test_what_fails_at_the_start_is_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ScreenError, match=message) as failed:
        made(tmp_path, **changes).reset()
    assert "\n" not in str(failed.value)


WRONG = [
    ({"actions": [{"name": "a", "tap": ["Lefft"]}]}, "there is no key 'Lefft': X calls them such as Left"),
    ({"readers": {"it": {"kind": "picture", "region": [0, 0, 9, 9], "file": "none.png"}}, **SILENT},
     "the reader it of painter: .*No such file"),
    ({"readers": {"it": {"kind": "log", "pattern": "("}}, **SILENT}, "the reader it of painter: "),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_what_a_file_says_wrongly_is_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        made(tmp_path, **changes)


def test_no_display_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sb3_pvp.games.screen.display.PATH", str(tmp_path))
    with pytest.raises(ScreenError, match="^there is no program Xvfb: apt-get install xvfb$"):
        made(tmp_path)
    with pytest.raises(ScreenError, match="^the display :9876 cannot be opened: "):
        ScreenEnv(written(tmp_path, painter()), display=":9876")


def dies(env: ScreenEnv) -> tuple[Any, ...]:
    """Lets the program end in the middle, and returns the step that notices."""
    for action in [END] + [WAIT] * 200:  # it may be slow
        if (found := env.step(np.int64(action)))[3]:
            break
    return found


def test_a_program_that_dies_begins_anew_once(tmp_path: Path) -> None:
    env = made(tmp_path, code=7, limit=400)
    env.reset()
    for count in (1, 2):  # the first of an episode that comes after one that has come to its end
        observation, reward, terminated, truncated, info = dies(env)
        assert env.observation_space.contains(observation) and (reward, terminated, truncated) == (0, False, True)
        assert info["failed"] == f"the program {sys.executable} has ended with code 7: down q"
        assert env.reset()[1]["restarts"] == info["restarts"] == count
        if count == 1:
            env.step(np.int64(RIGHT))
            env.clock.dropped += 400  # as if so much time had passed
            *_, truncated, info = env.step(np.int64(WAIT))
            assert truncated and "failed" not in info
            env.reset()
    with pytest.raises(ScreenError, match="has ended with code 7: down q"):
        dies(env)


def test_a_reset_that_fails_is_tried_again_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    fails = 'if rm "$0" 2>/dev/null; then echo it is broken; exit 3; fi; exec "$@"'
    env = made(tmp_path, program=["sh", "-c", fails, str(broken), *painter()["program"]])
    broken.touch()
    for _ in range(2):
        assert env.reset()[1]["restarts"] == 1
    broken.touch()  # no episode has come to its end
    with pytest.raises(ScreenError, match="has ended with code 3: it is broken"):
        env.reset()


def test_a_display_that_is_gone_is_one_line(tmp_path: Path) -> None:
    env = made(tmp_path)
    env.reset()
    assert env.display._server is not None
    (server,) = psutil.Process(env.display._server.pid).children()
    server.kill()
    server.wait()
    with pytest.raises(ScreenError, match="^the display :[0-9]+ is gone$"):
        env.step(np.int64(WAIT))


def test_a_key_that_the_program_has_missed_is_pressed_again(tmp_path: Path) -> None:
    # Two presses take the square away from here; of the first one the program makes too little.
    readers = {**painter()["readers"], "there": {"kind": "pixel", "at": [105, 65], "color": [255, 255, 255]}}
    env = made(tmp_path, readers=readers, end=["there"], reset=[{"start": True, "until": "score"}, {"tap": ["Right"]}])
    assert env.reset()[1]["readings"] == {"score": 10, "there": 0} and square(env) == 110
    assert not env.step(np.int64(WAIT))[2]
    env.close()


def test_an_end_that_stays_is_one_line(tmp_path: Path) -> None:
    readers = {**painter()["readers"], "there": {"kind": "pixel", "at": [115, 65], "color": [255, 255, 255]}}
    env = made(tmp_path, readers=readers, end=["there"], reset=[{"tap": ["a"]}])
    env.reset()
    is_over = env.step(np.int64(RIGHT))[2]
    for _ in range(200):  # it may be slow
        is_over = is_over or env.step(np.int64(WAIT))[2]
    env.game, env._has_failed = env.game.model_copy(update={"patience": 0.5}), True  # once is enough
    with pytest.raises(ScreenError, match="the readers there of painter say after the reset that the episode is over"):
        env.reset()
    assert is_over


def test_a_number_may_be_unreadable_in_the_first_frames(tmp_path: Path) -> None:
    env = made(tmp_path)
    env.reset()
    read, asked = env._readings["score"], iter(range(9))
    env._readings["score"] = lambda frame: None if next(asked) in (1, 2) else read(frame)  # the script reads the first
    assert env.reset()[1]["readings"] == {"score": 0}
    assert env.step(np.int64(WAIT))[1] == 0
    env.close()


def test_a_number_that_is_gone_for_long_is_one_line(tmp_path: Path) -> None:
    reader = {**painter()["readers"]["score"], "patience": 3}
    env = made(tmp_path, readers={"score": reader})
    env.reset()
    env._readings["score"] = lambda frame: None
    for missed in range(1, 4):
        *_, info = env.step(np.int64(WAIT))
        assert info["unread"] == missed and info["readings"] == {"score": 0}
    *_, truncated, info = env.step(np.int64(WAIT))
    assert truncated and info["failed"] == "the reader score of painter finds nothing in [0, 0, 60, 13] for 4 ticks"
    with pytest.raises(ScreenError, match="finds nothing"):
        env.step(np.int64(WAIT))


PARENT = """
import sys, time
from sb3_pvp.games.screen import ScreenEnv
env = ScreenEnv(sys.argv[1])
env.reset()
print(env.display.folder, flush=True)
{end}
"""
ENDS = {
    "killed": "time.sleep(600)",
    "forgotten": "del env",
    "exits": "sys.exit()",
    "raises": "raise KeyError",
}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("freeze", [pytest.param(False, marks=pytest.mark.slow), True])
def test_nothing_outlives_the_parent(how: str, freeze: bool, tmp_path: Path) -> None:
    path = written(tmp_path, painter(freeze=freeze))
    command = [sys.executable, "-c", PARENT.format(end=ENDS[how]), str(path)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert parent.stdout is not None
    folder = Path(parent.stdout.readline().strip())
    if how == "killed":
        assert len(of_display(folder)) >= 2
        os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(1000):
        if not (left := of_display(folder)):
            break
        time.sleep(0.02)
    assert not left
    parent.stdout.close()
