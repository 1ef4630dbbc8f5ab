"""One video of a run: what the learner could do after each checkpoint, at the end, and at its best.

rl-zoo3's script of that name starts itself again in processes that do not know this package, knows only its own
checkpoints, needs ``ffmpeg`` with fonts, and deletes the output folder first. This one has the same options.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_sb3 import EnvironmentName

from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.resume import checkpoints_in
from sb3_pvp.zoo.saved_runs import run_folder

_CAPTION_HEIGHT = 24


def record_training(record_video: Callable[[list[str]], None]) -> None:
    """Records every model of a run, and joins the videos to ``training.mp4``, with ``-g`` to ``training.gif`` as well.

    They are in ``-o``, or in the folder ``videos`` of the run. ``record_video`` is the command of that name, for one
    model. Raises `Refusal` if there is no such run, or no model.
    """
    given = _parser().parse_args()
    run = run_folder(given.exp_id, given.folder, given.algo, given.env)
    output = Path(given.output_folder) if given.output_folder else run / "videos"
    models = _models(run, given.env)
    if not models:
        raise Refusal(f"there is no model in {run}: the run has neither a checkpoint nor come to its end")
    with tempfile.TemporaryDirectory() as folder:
        videos = [
            (caption, _record(given, choice, Path(folder) / str(number), record_video))
            for number, (caption, choice) in enumerate(models)
        ]
        _join(videos, output, given.gif)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="record_training")
    parser.add_argument("--env", help="Environment ID", type=EnvironmentName, required=True)
    parser.add_argument("-f", "--folder", help="Log folder", default="logs")
    parser.add_argument("-o", "--output-folder", help="Output folder")
    parser.add_argument("--algo", help="RL Algorithm", default="maskable_ppo")
    parser.add_argument("-n", "--n-timesteps", help="Number of timesteps of each model", default=1000, type=int)
    parser.add_argument("--n-envs", help="Number of environments", default=1, type=int)
    parser.add_argument("--deterministic", action="store_true", help="Use deterministic actions (the default)")
    parser.add_argument("--stochastic", action="store_true", help="Use stochastic actions")
    parser.add_argument("-g", "--gif", action="store_true", help="Also make an animated GIF")
    parser.add_argument("--seed", help="Random generator seed", type=int, default=0)
    parser.add_argument("--exp-id", help="Experiment ID (0: the latest, -1: no exp folder)", default=0, type=int)
    return parser


def _models(run: Path, env_name: str) -> list[tuple[str, list[str]]]:
    """Captions and options of all models: the first checkpoint first, the best model last."""
    models = [(f"after {steps:,} steps", ["--load-checkpoint", str(steps)]) for steps in sorted(checkpoints_in(run))]
    if (run / f"{env_name}.zip").is_file():
        models.append(("at the end", []))
    if (run / "best_model.zip").is_file():
        models.append(("at its best", ["--load-best"]))
    return models


def _record(
    given: argparse.Namespace, choice: list[str], folder: Path, record_video: Callable[[list[str]], None]
) -> Path:
    """The video of one model."""
    options = ["--env", given.env.gym_id, "--algo", given.algo, "-f", given.folder, "--exp-id", str(given.exp_id)]
    options += ["-n", str(given.n_timesteps), "--n-envs", str(given.n_envs), "--seed", str(given.seed)]
    options += ["-o", str(folder), *(["--stochastic"] if given.stochastic else [])]
    record_video([*options, "--no-render", *choice])  # drawn once, for the video
    return next(folder.glob("*.mp4"))


def _join(videos: list[tuple[str, Path]], output: Path, gif: bool) -> None:
    from moviepy import VideoFileClip, concatenate_videoclips

    output.mkdir(parents=True, exist_ok=True)
    clips = [VideoFileClip(str(path)) for _, path in videos]
    captioned = [clip.image_transform(_captioned(text)) for clip, (text, _) in zip(clips, videos, strict=True)]
    video = output / "training.mp4"
    concatenate_videoclips(captioned).write_videofile(str(video), logger=None)
    print(f"Saving video to {video}")
    if gif:
        from imageio_ffmpeg import get_ffmpeg_exe

        colours = "split[all][same];[all]palettegen[palette];[same][palette]paletteuse"
        command = [get_ffmpeg_exe(), "-y", "-loglevel", "error", "-i", str(video), "-vf", colours]
        subprocess.run([*command, str(video.with_suffix(".gif"))], check=True)
        print(f"Saving gif to {video.with_suffix('.gif')}")
    for clip in clips:
        clip.close()


def _captioned(text: str) -> Callable[[Any], Any]:
    """Writes a text above frames, uint8 ``(height, width, 3)``."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=_CAPTION_HEIGHT * 2 // 3)

    def caption(frame: Any) -> Any:
        bar = Image.new("RGB", (frame.shape[1], _CAPTION_HEIGHT))
        ImageDraw.Draw(bar).text((frame.shape[1] // 2, _CAPTION_HEIGHT // 2), text, font=font, anchor="mm")
        return np.concatenate([np.asarray(bar), frame])

    return caption
