"""What a player does as a video that goes on, by ffmpeg: HLS in a folder, or RTMP to an address."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import urlopen

import gymnasium as gym
import numpy as np

from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.processes import OwnedProcess
from sb3_pvp.game.viewer import draws_pictures

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_BACKGROUND, _TEXT, _DIM, _BAR = (20, 23, 29), (230, 233, 238), (140, 148, 160), (40, 90, 150)
_SHARE, _LINE, _MOST_BARS = 0.25, 26, 8  #: Width of the panel, height of a line, bars.
PLAYLIST = "live.m3u8"  #: Of HLS, in its folder.
#: Seconds of a segment, and segments in the playlist; seconds until ffmpeg is started again, at first and at most.
_SEGMENT, _KEPT, _FIRST, _MOST = 2, 10, 1.0, 30.0
_AGAIN, _PATIENCE = 2.0, 10.0  #: Seconds until a lost source is asked again, and for which one is waited.
_SILENT = 0.5  #: Seconds without news of a fight after which it is shown again: a video needs pictures to go on.


class Shown(NamedTuple):
    """One moment: a picture, uint8 ``(height, width, 3)``, or a text in its place; figures; probabilities as bars."""

    picture: Any
    figures: Mapping[str, str | float] = {}
    bars: Mapping[str, float] = {}


def drawn(shown: Shown, size: tuple[int, int], lines: Mapping[str, str]) -> bytes:
    """Returns the RGB pixels of a picture of this width and height; its panel has ``lines``, figures and bars."""
    from PIL import Image, ImageDraw, ImageFont

    width, height = size
    left, canvas, y = width - round(width * _SHARE), Image.new("RGB", size, _BACKGROUND), 16
    pen, font = ImageDraw.Draw(canvas), ImageFont.load_default(16)
    if isinstance(shown.picture, str):
        pen.multiline_text((16, 16), shown.picture, _TEXT, font)
    else:
        picture = Image.fromarray(np.ascontiguousarray(shown.picture))
        scale = min(left / picture.width, height / picture.height)
        fitted = picture.resize((max(int(picture.width * scale), 1), max(int(picture.height * scale), 1)))
        canvas.paste(fitted, ((left - fitted.width) // 2, (height - fitted.height) // 2))
    shares = sorted(shown.bars.items(), key=lambda each: -each[1])[:_MOST_BARS]
    for name, value in [*lines.items(), *shown.figures.items(), *shares]:
        if name in shown.bars:
            pen.rectangle((left + 12, y, left + 12 + (width - left - 24) * min(max(float(value), 0), 1), y + 22), _BAR)
        pen.text((left + 16, y), name[:24], _DIM, font)
        pen.text((width - 16, y), value if isinstance(value, str) else f"{value:,.6g}", _TEXT, font, anchor="ra")
        y += _LINE
    return canvas.tobytes()


class Broadcast:
    """Sends pictures to a folder, as HLS, or to an address such as ``rtmp://host/app/key``, whose key is never printed.

    ``lines`` are in the panel of each. ``sent`` counts pictures that ffmpeg took, ``lost`` those for which there was
    none, and ``starts`` how often it was started. Raises `Refusal` without ffmpeg, and for another target.
    """

    def __init__(self, target: str, size: tuple[int, int], fps: int, lines: Mapping[str, str]) -> None:
        self._target, self._size, self._fps, self._lines, parts = target, size, fps, lines, urlsplit(target)
        self.name = f"{parts.scheme}://{parts.hostname}" if "://" in target else target
        if (program := shutil.which("ffmpeg")) is None:
            raise Refusal("streams need ffmpeg: apt-get install ffmpeg")
        # Pictures come when there are some, and the last one is repeated until then.
        given = "-loglevel error -nostats -y -use_wallclock_as_timestamps 1 -f rawvideo -pix_fmt rgb24"
        given += f" -framerate {fps} -s {size[0]}x{size[1]} -i -"
        video = f"-vf fps={fps} -c:v libx264 -preset veryfast -tune zerolatency -pix_fmt yuv420p -g {_SEGMENT * fps}"
        ends = [target]
        if "://" not in target:
            Path(target).mkdir(parents=True, exist_ok=True)
            # What was there before goes on, after a mark of discontinuity.
            flags = "append_list+delete_segments+omit_endlist+temp_file+program_date_time"
            video += f" -f hls -hls_time {_SEGMENT} -hls_list_size {_KEPT} -hls_flags {flags} -hls_segment_filename"
            ends = [f"{target}/live%08d.ts", f"{target}/{PLAYLIST}"]
        elif parts.scheme in ("rtmp", "rtmps") and parts.hostname:
            # Services want sound; a receiver that takes nothing for so many microseconds is gone.
            given += " -f lavfi -i anullsrc=r=44100:cl=stereo"
            video += " -c:a aac -shortest -maxrate 3M -bufsize 6M -f flv -rw_timeout 10000000"
        else:
            raise Refusal(f"a stream goes to a folder or to rtmp://HOST/APP/KEY, not to {self.name}")
        self._command = [program, *given.split(), *video.split(), *ends]
        self.sent = self.lost = self.starts = 0
        self._process: OwnedProcess | None = None
        self._wait, self._again = _FIRST, 0.0

    def send(self, picture: bytes) -> None:
        """Sends RGB pixels; if ffmpeg has ended, they are lost until it is time to start it again."""
        self.lost += 1
        if self._process is None:
            if time.monotonic() < self._again:
                return
            self.starts, self._began, self._errors = self.starts + 1, time.monotonic(), tempfile.TemporaryFile()  # noqa: SIM115
            self._process = OwnedProcess(self._command, {}, stderr=self._errors, bufsize=0)
        try:
            assert self._process.stdin is not None
            left = memoryview(picture)
            while left:
                left = left[self._process.stdin.write(left) :]
            self.sent, self.lost = self.sent + 1, self.lost - 1
        except OSError:
            self._process.close()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").replace(self._target, self.name).strip() or "it ended"
            self._wait = _FIRST if time.monotonic() - self._began > _MOST else self._wait
            print(f"{self.name}: {said.splitlines()[-1]:.200}; again in {self._wait:g} s", file=sys.stderr, flush=True)
            self._process, self._again, self._wait = None, time.monotonic() + self._wait, min(2 * self._wait, _MOST)

    def close(self) -> None:
        """Ends ffmpeg, after it has written what it has."""
        if self._process is not None:
            self._process.request_stop()
            with suppress(subprocess.TimeoutExpired):  # it may wait for the network
                self._process.wait(5)
            self._process.close()

    def send_all(self, shows: Iterator[Shown], seconds: float | None = None) -> None:
        """Sends what is shown, at its own pace, until it ends or for so long; raises what it raises."""
        began, sent = time.monotonic(), 0.0
        try:
            for shown in shows:
                if (now := time.monotonic()) - sent >= 0.9 / self._fps:
                    sent = now
                    self.send(drawn(shown, self._size, self._lines))
                if seconds is not None and now - began >= seconds:
                    return
        finally:
            self.close()


def env_shows(env: gym.Env[Any, Any], model: Any, deterministic: bool, seed: int) -> Iterator[Shown]:
    """Yields each step of an environment, episode after episode, at its own pace; without a model actions are random.

    Beside it are the episode, its step and its reward, the mean of the episodes before, what ``info`` says in numbers,
    and the probabilities of the model.
    """
    pace, done = 1 / float(env.metadata.get("render_fps") or 25), list[float]()
    env.action_space.seed(seed)
    try:
        while True:
            observation, info = env.reset(seed=seed + len(done))
            step, total, state, is_over, bars = 0, 0.0, None, False, dict[str, float]()
            while not is_over:
                due, given, action = time.monotonic() + pace, dict[str, Any](), env.action_space.sample()
                if env.has_wrapper_attr("action_masks"):
                    given["action_masks"] = env.get_wrapper_attr("action_masks")()
                if model is not None:
                    start = np.array([step == 0])
                    action, state = model.predict(observation, state, start, deterministic, **given)
                    bars = probabilities(env, model.policy, observation, given)
                observation, reward, terminated, truncated, info = env.step(action)
                is_over, step, total = terminated or truncated, step + 1, total + float(reward)
                figures = {"episode": len(done) + 1, "step": step, "reward": total}
                figures |= {"mean reward": float(np.mean(done))} if done else {}
                figures |= {name: value for name, value in info.items() if isinstance(value, (int, float))}
                yield Shown(env.render(), figures, bars)
                time.sleep(max(due - time.monotonic(), 0.0))
            done.append(total)
    finally:
        env.close()


def probabilities(env: gym.Env[Any, Any], policy: Any, observation: Any, masks: dict[str, Any]) -> dict[str, float]:
    """Returns how likely a policy takes each choice, by name; empty if it does not say."""
    if not hasattr(policy, "get_distribution"):
        return {}
    found = policy.get_distribution(policy.obs_to_tensor(observation)[0], **masks)
    heads = getattr(found, "distributions", None) or [found.distribution]
    shares = [each for head in heads if hasattr(head, "probs") for each in head.probs.detach().flatten().tolist()]
    contract, own = (getattr(env.unwrapped, name, None) for name in ("contract", "action_names"))
    named = own or ([each.id for head in contract.heads for each in head.actions] if contract else map(str, range(999)))
    return dict(zip(named, shares, strict=False))


def display_shows(name: str, fps: int) -> Iterator[Shown]:
    """Yields what a display such as ``":0"`` shows; while it is gone, that it is."""
    import mss

    while True:
        with suppress(mss.ScreenShotError), mss.MSS(display=name) as camera:
            while True:
                due, shot = time.monotonic() + 1 / fps, camera.grab(camera.monitors[0])
                yield Shown(np.frombuffer(shot.raw, np.uint8).reshape(shot.height, shot.width, 4)[..., 2::-1])
                time.sleep(max(due - time.monotonic(), 0.0))
        yield Shown(f"the display {name} is gone, trying again")
        time.sleep(_AGAIN)


def live_shows(address: str) -> Iterator[Shown]:
    """Yields the ticks of the live fight with this address, or of the newest one of a page, one after another.

    While the page is gone, or nobody fights, that is shown.
    """
    parts = urlsplit(address)
    page, own = f"{parts.scheme}://{parts.netloc}", parts.path.rpartition("/live/")[2].strip("/")
    while True:
        why = "nobody fights now"
        try:
            fights = [
                each for each in _asked(f"{page}/api/live") if each["state"] != "over" and own in ("", each["id"])
            ]
            yield from _fight_shows(page, fights[0]["id"], fights[0]["players"]) if fights else ()
        except (OSError, ValueError, EOFError) as error:
            why = f"the page is gone: {' '.join(str(error).split())[:80]}"
        yield Shown(f"{why}, trying again")
        time.sleep(_AGAIN)


def _fight_shows(page: str, fight: str, names: list[str]) -> Iterator[Shown]:
    """Yields the ticks of a live fight until it is over, the last one again while nothing happens."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    from sb3_pvp.matches.replay.recording import viewer_of

    if ":" in (game := _asked(f"{page}/api/challenge")["game"]):  # importing a module runs its code
        raise Refusal(f"{page} is an arena of {game}: streams are of games that are installed")
    viewer = viewer_of(game)
    table = {each["player"]: float(each["rating"]) for each in _asked(f"{page}/api/leaderboard")}
    about: dict[str, str | float] = {"first": names[0], "second": names[1]}
    about |= {f"rating of {name}": table[name] for name in names if name in table}
    latest = Shown("nothing has happened yet")
    try:
        with connect(f"ws{page.removeprefix('http')}/api/live/{fight}/watch", max_size=None) as socket:
            for message in _messages(socket):
                if message is None:
                    yield latest
                    continue
                for tick, moment in enumerate(message.get("moments", ()), message.get("first", 0)):
                    scene = viewer.read_scene(moment["scene"])
                    picture = viewer.picture(scene) if draws_pictures(viewer) else _text_of(viewer, scene)
                    decided, expected = ((moment.get(each) or [None])[0] or {} for each in ("decisions", "outlooks"))
                    figures = {name: expected[name] for name in ("value", "win_probability") if expected.get(name)}
                    bars = {name: each for head in decided.get("probabilities") or () for name, each in head.items()}
                    yield (latest := Shown(picture, {**about, "tick": tick, **figures}, bars))
                if message.get("state") == "over":
                    return
    except WebSocketException as error:
        raise EOFError(str(error)) from error


def _text_of(viewer: Any, scene: Any) -> str:
    text: str = scene.text if hasattr(scene, "text") else viewer.text(scene, color=False)
    return text


def _messages(socket: ClientConnection) -> Iterator[Any]:
    """Yields what is sent, and ``None`` whenever nothing was for a while."""
    from websockets.exceptions import ConnectionClosedOK

    with suppress(ConnectionClosedOK):
        while True:
            try:
                message = json.loads(socket.recv(_SILENT))
            except TimeoutError:
                message = None
            yield message


def _asked(address: str) -> Any:
    with urlopen(address, timeout=_PATIENCE) as reply:
        return json.load(reply)
