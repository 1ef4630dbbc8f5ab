"""A recorded fight as a video: as many pictures as there are moments, with the choices of both sides."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.cli import main
from sb3_pvp.common.errors import Refusal
from sb3_pvp.game import PlainViewer, Viewer
from sb3_pvp.game.viewer import PlainScene
from sb3_pvp.matches.replay import record_fight, save_fight, write_video
from tests.game.aiming_game import AimForTwo
from tests.game.team_game import CoinsForTwo
from tests.games.chess.engine_programs import need


def test_every_moment_is_a_picture_with_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("ffmpeg")
    fight = record_fight("scripted", "noop", max_episode_ticks=5)
    save_fight(fight, tmp_path / "fight.json.gz")
    with pytest.raises(SystemExit):
        main(["replay", str(tmp_path / "fight.json.gz"), "-o", str(tmp_path / "fight.mp4")])
    assert f"{tmp_path / 'fight.mp4'}: 6 pictures" in capsys.readouterr().out
    read = ["ffmpeg", "-v", "error", "-i", tmp_path / "fight.mp4", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    frames = np.frombuffer(subprocess.run(read, check=True, capture_output=True).stdout, np.uint8).reshape(
        6, 640, 960, 3
    )
    # The panels of both sides, below, have more in them than the line that choices are unknown.
    panels = frames[:, 420:].reshape(6, 220, 2, 480, 3)
    assert (panels[3].std((0, 2, 3)) > 1.5 * panels[0].std((0, 2, 3))).all()


def test_games_whose_recordings_are_texts_are_refused(tmp_path: Path) -> None:
    need("ffmpeg")
    fight = record_fight("half", "half", game=AimForTwo(), max_episode_ticks=2)
    with pytest.raises(Refusal, match="have no pictures, only texts"):
        write_video(fight, tmp_path / "fight.mp4")
    assert [*tmp_path.iterdir()] == []


def test_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fight = record_fight("scripted", "noop", max_episode_ticks=2)
    with pytest.raises(Refusal, match="videos need ffmpeg"):
        write_video(fight, tmp_path / "fight.mp4")
    assert [*tmp_path.iterdir()] == []


def test_an_ffmpeg_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\nexit 8\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fight = record_fight("scripted", "noop", max_episode_ticks=2)
    with pytest.raises(Refusal, match="ffmpeg ended with 8: videos need one with libx264"):
        write_video(fight, tmp_path / "fight.mp4")
    assert [*tmp_path.iterdir()] == [program]


class Drawless(Viewer):
    """Has a page of its own, but draws nothing."""

    def scene(self, world: Any, *given: Any) -> PlainScene:
        return PlainViewer(world.contract).scene(world, *given)

    def page(self) -> dict[str, str]:
        return {}


class CoinsOnAPage(CoinsForTwo):
    viewer = Drawless()


def test_games_whose_viewer_draws_nothing_are_refused(tmp_path: Path) -> None:
    need("ffmpeg")
    fight = record_fight("noop", "noop", game=CoinsOnAPage())
    with pytest.raises(Refusal, match="have no pictures, only texts"):
        write_video(fight, tmp_path / "fight.mp4")
