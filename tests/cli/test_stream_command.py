"""``sb3-pvp stream``: videos in a folder and to an address, which go on after a kill."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from sb3_pvp.cli import main
from sb3_pvp.games.screen import ScreenEnv
from sb3_pvp.matches.stream import PLAYLIST, Broadcast, Shown, display_shows, drawn, env_shows, probabilities
from tests.games.chess.engine_programs import need
from tests.games.screen.screens import need_display, painter, written
from tests.paths import ROOT
from tests.waiting import wait_until

SIZE, RED, BLUE = (320, 180), (200, 30, 40), (30, 40, 200)


class Paint(gymnasium.Env[np.ndarray, np.int64]):
    """Draws its step in a color."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)

    def __init__(self, color: Any = RED, render_mode: str | None = None) -> None:
        self.color, self.render_mode = color, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.number = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: np.int64) -> Any:
        self.number += 1
        return np.zeros(2, np.float32), 1.5, self.number == 4, False, {"lives": 3, "words": "left out"}

    def render(self) -> Any:
        return np.full((90, 120, 3), self.color, np.uint8)


def pictures(count: int, color: Any = RED) -> Iterator[Shown]:
    for number in range(count):
        yield Shown(np.full((90, 120, 3), color, np.uint8), {"step": number})
        time.sleep(0.02)


def probed(file: Path | str, *options: str) -> dict[str, Any]:
    line = ["ffprobe", "-loglevel", "error", "-count_frames", "-show_streams", "-of", "json", *options, str(file)]
    return dict(json.loads(subprocess.run(line, capture_output=True, check=True, text=True, timeout=60).stdout))


def kinds_in(file: Path) -> list[str]:
    return sorted(each["codec_name"] for each in probed(file)["streams"])


def whole(folder: Path) -> Path:
    """The playlist with an end: without one, who reads it waits for more."""
    (folder / "whole.m3u8").write_text((folder / PLAYLIST).read_text() + "#EXT-X-ENDLIST\n")
    return folder / "whole.m3u8"


def frame_of(video: Path, folder: Path) -> Any:
    picture = folder / "frame.png"
    line = ["ffmpeg", "-loglevel", "error", "-y", "-i", str(video), "-frames:v", "1", str(picture)]
    subprocess.run(line, check=True)
    return np.asarray(Image.open(picture).convert("RGB")).astype(int)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "sb3_pvp.cli", "stream", *map(str, words)]


def test_figures_are_beside_the_picture() -> None:
    shown = Shown(np.full((90, 120, 3), RED, np.uint8), {"reward": 1.5, "nothing": float("nan")}, {"left": 0.75})
    pixels = np.frombuffer(drawn(shown, SIZE, {"rating": "1534"}), np.uint8).reshape(180, 320, 3)
    assert (pixels[90, 10:230] == RED).all()
    panel = pixels[:, 240:].astype(int)
    lines = [panel[16 + 26 * line : 34 + 26 * line].max() > 150 for line in range(5)]
    assert lines == [True, True, True, True, False]
    bar = (np.abs(panel[16 + 26 * 3 + 1] - (40, 90, 150)).max(axis=-1) == 0).sum()
    assert bar == pytest.approx(0.75 * (80 - 24), abs=2)
    text = np.frombuffer(drawn(Shown("nobody fights"), SIZE, {}), np.uint8)
    assert len(text) == 320 * 180 * 3 and text.max() > 200


def test_an_environment_is_played_with_figures() -> None:
    shows = env_shows(Paint(render_mode="rgb_array"), None, False, 0)
    seen = [next(shows).figures for _ in range(6)]
    assert [each["step"] for each in seen] == [1, 2, 3, 4, 1, 2]
    assert seen[3] == {"episode": 1, "step": 4, "reward": 6.0, "lives": 3}
    assert seen[5] == {"episode": 2, "step": 2, "reward": 3.0, "mean reward": 6.0, "lives": 3}


def test_a_display_is_shown_and_that_it_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_display()
    monkeypatch.setattr("sb3_pvp.matches.stream._AGAIN", 0.01)
    env = ScreenEnv(written(tmp_path, painter()))
    try:
        env.reset()
        shows = display_shows(env.display.name, 50)
        first = next(shows).picture
        assert (first.shape, first[70, 89].max(), first[70, 91].min(), first[70, 111].max()) == (
            (100, 200, 3),
            0,
            255,
            0,
        )
        env.step(np.int64(2))
        wait_until(lambda: next(shows).picture[70, 111].min() == 255)  # the square goes to the right
    finally:
        env.close()
    wait_until(lambda: isinstance(next(shows).picture, str))
    assert next(shows).picture == f"the display {env.display.name} is gone, trying again"
    shows.close()


@pytest.mark.filterwarnings("error")  # PyTorch's, of numbers that have a gradient
def test_probabilities_have_the_names_of_the_actions() -> None:
    from sb3_pvp import PvpPPO

    env = Paint()
    model = PvpPPO("MlpPolicy", env, n_steps=4, batch_size=4)
    env.action_names = ("wait", "left", "right")  # type: ignore[attr-defined]
    found = probabilities(env, model.policy, np.zeros(2, np.float32), {})
    assert [*found] == ["wait", "left", "right"] and sum(found.values()) == pytest.approx(1)
    assert probabilities(env, object(), None, {}) == {}


@pytest.mark.slow
def test_a_folder_has_a_playlist_that_goes_on_after_a_kill(tmp_path: Path) -> None:
    need("ffmpeg", "ffprobe")
    first = Broadcast(str(tmp_path), SIZE, 10, {})
    killed, text = False, drawn(Shown("lost"), SIZE, {})
    for shown in pictures(10**5):
        first.send(drawn(shown, SIZE, {}))
        if first._process is None:
            break
        if (tmp_path / "live00000000.ts").exists() and not killed:
            killed = True
            first._process.kill()
    first.send(text)
    assert killed and first.lost > 1
    again = Broadcast(str(tmp_path), SIZE, 10, {})
    again.send_all(pictures(10**6, BLUE), 4.5)
    playlist = (tmp_path / PLAYLIST).read_text()
    assert "#EXT-X-DISCONTINUITY\n" in playlist.partition("live00000000.ts")[2] and "ENDLIST" not in playlist
    (video,) = probed(whole(tmp_path))["streams"]
    assert (video["codec_name"], video["width"], video["height"]) == ("h264", *SIZE)
    assert int(video["nb_read_frames"]) >= 20 + 20
    segments = re.findall(r"^live.*ts$", playlist, re.M)
    assert segments == sorted({*segments}) and len(segments) >= 3
    for name, color in ((segments[0], RED), (segments[-2], BLUE)):  # the last one may be too short to be shown
        assert np.abs(frame_of(tmp_path / name, tmp_path)[90, 20:220] - color).max() < 30


def test_ffmpeg_that_ends_is_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("ffmpeg")
    sender = Broadcast(str(tmp_path), SIZE, 10, {})
    sender._wait = 0.05

    def shows() -> Iterator[Shown]:
        for number, shown in enumerate(pictures(100)):
            if number == 30 and sender._process is not None:
                sender._process.kill()
            yield shown

    sender.send_all(shows())
    assert sender.starts >= 2 and sender.lost >= 1 and sender.sent > sender.lost
    assert re.fullmatch(rf"({re.escape(str(tmp_path))}: it ended; again in [\d.]+ s\n)+", capsys.readouterr().err)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def receiver(address: str, file: Path) -> subprocess.Popen[bytes]:
    """Takes what one sender sends to an address, and writes it to a file."""
    options = f"-loglevel error -listen 1 -i {address} -c copy -flush_packets 1"
    line = ["ffmpeg", *options.split(), str(file)]
    return subprocess.Popen(line, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_an_address_gets_the_video_also_when_its_receiver_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need("ffmpeg", "ffprobe")
    address = f"rtmp://127.0.0.1:{free_port()}/app/secret"
    received = [tmp_path / f"{number}.flv" for number in range(2)]
    sender = Broadcast(address, SIZE, 10, {})
    running: list[subprocess.Popen[bytes]] = []

    def shows() -> Iterator[Shown]:
        for file in received:
            running.append(receiver(address, file))
            before = sender.sent
            for shown in pictures(10**5):
                yield shown
                if sender.sent > before + 30 and file.exists() and file.stat().st_size > 4000:
                    break
            running[-1].kill()  # asked to end, it would wait for a packet, which comes with the next picture
            running[-1].wait()

    try:
        sender.send_all(shows(), 90)
    finally:
        for each in running:
            each.kill()
    assert sender.starts >= 2
    for file in received:
        assert kinds_in(file) == ["aac", "h264"]
    errors = capsys.readouterr().err
    assert "rtmp://127.0.0.1: " in errors and "secret" not in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("NhEnv", "--to", "http://host/app"),
            "a stream goes to a folder or to rtmp://HOST/APP/KEY, not to http://host",
        ),
        (("NhEnv", "--to", "rtmp:///key"), "a stream goes to a folder or to rtmp"),
        (
            ("NhEnv", "--to", "video", "--size", "99x11"),
            "--size must be two even numbers such as 1280x720, not '99x11'",
        ),
        (("NoSuchEnv-v0", "--to", "video"), "cannot make NoSuchEnv-v0: "),
        (
            (":0", "--to", "video", "--model", "generalist", "--seed", "1"),
            ":0 is no environment: leave out --model and --seed",
        ),
        (
            ("http://127.0.0.1:1", "--to", "video", "--deterministic", "--env-kwargs", '{"seed": 1}'),
            "http://127.0.0.1:1 is no environment: leave out --env-kwargs and --deterministic",
        ),
        (("Screen-v0", "--to", "video", "--env-kwargs", '{"game": "xgalagga"}'), "did you mean 'xgalaga'"),
    ],
)
def test_bad_usage_is_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need("ffmpeg")
    with pytest.raises(SystemExit) as ended:
        main(["stream", *(str(tmp_path / word) if word == "video" else word for word in words)])
    output = capsys.readouterr()
    assert (ended.value.code, output.out, output.err.count("\n")) == (2, "", 1) and message in output.err


def test_without_ffmpeg_it_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["stream", "NhEnv", "--to", str(tmp_path)])
    assert capsys.readouterr().err == "sb3-pvp: error: streams need ffmpeg: apt-get install ffmpeg\n"


@pytest.mark.slow
def test_a_killed_command_leaves_nothing_and_goes_on(tmp_path: Path) -> None:
    import psutil

    need("ffmpeg", "ffprobe")
    words = ("NhEnv", "--to", tmp_path, "--size", "320x180", "--fps", 10, "--figure", "rating=1534")
    with subprocess.Popen(command(*words), cwd=ROOT, stderr=subprocess.PIPE) as process:
        while not (tmp_path / PLAYLIST).exists():
            assert process.poll() is None
            time.sleep(0.05)
        below = psutil.Process(process.pid).children(recursive=True)
        assert any(each.name() == "ffmpeg" for each in below)
        process.kill()
    gone, alive = psutil.wait_procs(below, 30)
    assert gone and not alive
    done = subprocess.run(command(*words, "--seconds", "5"), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and re.fullmatch(
        rf"{tmp_path}: \d+ pictures, 0 lost, ffmpeg started 1 times\n", done.stdout
    )
    (video,) = probed(whole(tmp_path))["streams"]
    assert int(video["nb_read_frames"]) >= 20 + 20


@pytest.mark.slow
def test_a_killed_command_goes_on_at_an_address(tmp_path: Path) -> None:
    import psutil

    need("ffmpeg", "ffprobe")
    address, files = f"rtmp://127.0.0.1:{free_port()}/app/secret", [tmp_path / f"{number}.flv" for number in range(2)]
    words = ("NhEnv", "--to", address, "--size", "320x180", "--fps", 10)
    receivers = [receiver(address, files[0])]
    try:
        with subprocess.Popen(command(*words), cwd=ROOT, stderr=subprocess.PIPE) as process:
            wait_until(lambda: process.poll() is not None or (files[0].exists() and files[0].stat().st_size > 4000))
            below = psutil.Process(process.pid).children(recursive=True)
            assert any(each.name() == "ffmpeg" for each in below)
            process.kill()
        assert not psutil.wait_procs(below, 30)[1]
        receivers[0].wait(30)  # for the sender is gone
        receivers.append(receiver(address, files[1]))
        done = subprocess.run(command(*words, "--seconds", "8"), capture_output=True, text=True, cwd=ROOT)
        receivers[1].wait(30)
    finally:
        for each in receivers:
            each.kill()
            each.wait()
    assert done.returncode == 0 and re.fullmatch(
        r"rtmp://127.0.0.1: \d+ pictures, \d+ lost, ffmpeg started \d+ times\n", done.stdout
    )
    assert "secret" not in done.stdout + done.stderr
    assert [kinds_in(file) for file in files] == [["aac", "h264"]] * 2


@pytest.mark.slow
def test_a_display_goes_to_a_folder(tmp_path: Path) -> None:
    need_display("ffmpeg", "ffprobe")
    env, video = ScreenEnv(written(tmp_path, painter())), tmp_path / "video"
    try:
        env.reset()
        words = (env.display.name, "--to", video, "--size", "320x180", "--fps", 10, "--seconds", "4")
        done = subprocess.run(command(*words), capture_output=True, text=True, cwd=ROOT)
    finally:
        env.close()
    assert done.returncode == 0, done.stderr
    # 200 x 100 pixels are 240 x 120 of 240 x 180, and the square is at 90 to 110 and 60 to 80.
    frame = frame_of(whole(video), video)
    assert frame[30 + 84, 120].min() > 200 and frame[30 + 84, 60].max() < 50
