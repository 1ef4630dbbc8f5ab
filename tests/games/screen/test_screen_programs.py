"""Programs that no one here wrote, play that is recorded, and the commands."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sb3_pvp import load_demonstrations
from sb3_pvp.games.screen import ScreenEnv
from sb3_pvp.games.screen.cli.recorder import fingerprint_of_screen, record_play
from sb3_pvp.games.screen.display import VirtualDisplay
from sb3_pvp.games.screen.game_file import PictureReader, ScreenInput
from sb3_pvp.games.screen.readers import load_picture
from tests.games.screen.screens import need_display, of_display, painter, written
from tests.paths import ROOT


def test_xgalaga_is_played_by_its_screen() -> None:
    need_display("xgalaga")
    env = ScreenEnv("xgalaga", {"tick": 0.05})
    folder = env.display.folder
    try:
        observation, info = env.reset(seed=0)
        assert observation.shape == (84, 84, 4) and info["readings"]["over"] == 0
        total = 0.0
        for tick in range(1000):
            observation, reward, *_, info = env.step(np.int64(4 + tick // 8 % 2))
            total += reward
            if total:
                break
        assert total == pytest.approx(info["readings"]["score"] * 0.01) and total > 0
        assert (info["frames"], info["unread"]) == (tick + 1, 0)
        # The ship moves between the frames of an observation.
        assert (observation[70:, :, 0] != observation[70:, :, 3]).any()
    finally:
        env.close()
    assert not of_display(folder)


@pytest.mark.slow
def test_the_end_of_xgalaga_is_seen_whatever_flies_behind_its_title() -> None:
    need_display("xgalaga")
    env = ScreenEnv("xgalaga", {"end": []})
    reader = env.game.readers["over"]
    assert isinstance(reader, PictureReader)
    title = load_picture(env.game.folder / reader.file).astype(int)
    letters, seen = title.max(axis=-1) > 0, []
    try:
        env.reset(seed=0)
        for _ in range(2000):  # whoever does nothing loses all ships soon
            *_, info = env.step(np.int64(0))
            shown = env.display.frame(reader.region).astype(int)
            is_there = bool((np.abs(shown - title)[letters] < 8).all())
            seen.append((is_there, info["readings"]["over"] == 1, np.abs(shown - title).mean() > 16))
            if sum(hides for is_there, _, hides in seen if is_there) > 10:
                break
    finally:
        env.close()
    *before, last = seen
    assert last[0] and not before[0][0]
    # The frame that was read is a little older than the one that was looked at.
    assert sum(there != said for there, said, _ in seen) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "preset"), [("maskable_ppo", "ScreenGalaga"), ("dreamerv3", "ScreenGalagaDreamer")])
def test_presets_train_on_several_displays(algo: str, preset: str, tmp_path: Path) -> None:
    need_display("xgalaga")
    words = f"train --algo {algo} --env Screen-v0 --preset {preset} --vec-env subproc --n-timesteps 600 -f {tmp_path}"
    done = subprocess.run(
        [sys.executable, "-m", "sb3_pvp.cli", *words.split()], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / algo / "Screen-v0_1"
    assert (run / "Screen-v0.zip").is_file() and not (run / "evaluations.npz").exists()
    for monitor in run.glob("*.monitor.csv"):
        assert monitor.read_text().splitlines()[1] == "r,l,t,frames,late,dropped"


@pytest.mark.slow
def test_chess_is_played_on_xboard_by_pixels_and_mouse() -> None:
    need_display("xboard", "fairymax")
    from benchmarks.screen import chess_by_mouse

    row = chess_by_mouse(moves=12, seed=3)
    assert row["moves"] == 12
    assert row["frames"] + row["dropped"] == pytest.approx(row["ticks"], abs=row["games"])


@pytest.mark.slow
def test_recorded_play_is_a_demonstration(tmp_path: Path) -> None:
    need_display()
    env = ScreenEnv(written(tmp_path, painter(tick=0.3)))
    person, said = VirtualDisplay((200, 100), env.display.name), list[str]()

    def play() -> None:
        while not said:
            time.sleep(0.02)
        time.sleep(0.5)
        person.do(ScreenInput(hold=("Right",)))
        time.sleep(0.7)
        person.do(ScreenInput())
        time.sleep(0.5)
        person.do(ScreenInput(drag=((14, 48), (149, 88))))

    player = threading.Thread(target=play)
    player.start()
    try:
        files = record_play(env, tmp_path / "play", 1, said.append, most_ticks=12)
        player.join()
    finally:
        person.close()
        env.close()
    (found,) = load_demonstrations(tmp_path / "play")
    assert files == [*(tmp_path / "play").iterdir()]
    assert (found.contract, found.fingerprint) == ("Screen-v0/painter", fingerprint_of_screen(env.game))
    assert found.observations.shape == (12, 20, 40, 1) and found.masks.all() and found.masks.shape == (12, 7)
    actions = [env.action_names[number] for number in found.actions[:, 0]]
    # Right while it was down, a drag near that of the file; nothing else.
    assert actions.count("right") >= 1 and actions.count("drag") == 1 and {*actions} == {"wait", "right", "drag"}
    assert actions.index("right") < actions.index("drag")
    assert said[0] == f"play on {env.display.name}" and "12 ticks" in said[-1]


def test_the_fingerprint_is_that_of_what_is_seen_and_done(tmp_path: Path) -> None:
    from sb3_pvp.games.screen import read_screen_game

    path = written(tmp_path, painter())
    same = [fingerprint_of_screen(read_screen_game(path, each)) for each in ({}, {"limit": 5}, {"patience": 3.0})]
    others = [fingerprint_of_screen(read_screen_game(path, each)) for each in ({"stack": 2}, {"scale": [20, 20]})]
    assert len({*same}) == 1 and len({*same, *others}) == 3


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sb3_pvp.cli", "screen", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_check_says_what_is_read(tmp_path: Path) -> None:
    need_display()
    content = painter(limit=6)
    content["actions"].pop()  # which ends the program
    path = written(tmp_path, content)
    done = run("check", path, "--ticks", 20, "--json", "-o", tmp_path / "frame.png")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["game"], found["actions"]) == ("painter", 6) and found["episodes"] >= 3
    assert found["frames"] == 20 and (tmp_path / "frame.png").exists()
    for words, message in (
        (("check", "nothing"), "unknown game behind a screen 'nothing'"),
        (("check", path, "--changes", '{"ticks": 1}'), "unknown field 'ticks' (did you mean 'tick'?)"),
        (("check", path, "--changes", "3"), "--changes must be a JSON object"),
        (("check", path, "--changes", "{"), "--changes is not valid JSON"),
        (("check", written(tmp_path, painter(code=7), "dies.yaml"), "--ticks", 200), "has ended with code 7: down q"),
        (("record", path, "-o", tmp_path / "play", "--display", ":9876"), "the display :9876 cannot be opened"),
    ):
        done = run(*words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and message in done.stderr
