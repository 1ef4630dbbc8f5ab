"""One video of a run: what the learner could do after each checkpoint, at the end, and at its best.

rl-zoo3's script of that name starts itself again in processes that do not know this package, knows only its own
checkpoints, needs ``ffmpeg`` with fonts, and deletes the output folder first. This one has the same options.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from huggingface_sb3 import EnvironmentName

from sb3_pvp.common.errors import Refusal
from sb3_pvp.presets.presets import ALGO
from sb3_pvp.zoo.resume import checkpoints_in
from sb3_pvp.zoo.saved_runs import run_folder


def record_training(arguments: list[str], record_video: Callable[[list[str]], None]) -> None:
    """Records every model of a run, and joins the videos to ``training.mp4``, with ``-g`` to ``training.gif`` as well.

    They are in ``-o``, or in the folder ``videos`` of the run. ``record_video`` is the command of that name, for one
    model, which reads all other options. Raises `Refusal` if there is no such run, or no model.
    """
    parser = argparse.ArgumentParser("record_training", epilog="All other options are those of record_video.")
    parser.add_argument("--env", help="Environment ID", type=EnvironmentName, default="")
    parser.add_argument("--algo", help="RL Algorithm", default=ALGO)
    parser.add_argument("-f", "--folder", help="Log folder", default="logs")
    parser.add_argument("--exp-id", help="Experiment ID (0: the latest, -1: no exp folder)", default=0, type=int)
    parser.add_argument("-o", "--output-folder", help="Output folder")
    parser.add_argument("-g", "--gif", action="store_true", help="Also make an animated GIF")
    given, others = parser.parse_known_args(arguments)
    run = run_folder(given.exp_id, given.folder, given.algo, given.env)
    models = [(f"after {steps:,} steps", ["--load-checkpoint", str(steps)]) for steps in sorted(checkpoints_in(run))]
    models += [("at the end", [])] if (run / f"{given.env}.zip").is_file() else []
    models += [("at its best", ["--load-best"])] if (run / "best_model.zip").is_file() else []
    if not models:
        raise Refusal(f"there is no model in {run}: the run has neither a checkpoint nor come to its end")
    options = ["--env", given.env.gym_id, "--algo", given.algo, "-f", given.folder, "--exp-id", str(given.exp_id)]
    with tempfile.TemporaryDirectory() as folder:
        videos = []
        for number, (caption, choice) in enumerate(models):
            video = Path(folder) / str(number)
            record_video([*options, *others, "-o", str(video), "--no-render", *choice])  # drawn once, for the video
            videos.append((caption, next(video.glob("*.mp4"))))
        _join(videos, Path(given.output_folder) if given.output_folder else run / "videos", given.gif)


def _join(videos: list[tuple[str, Path]], output: Path, gif: bool) -> None:
    from moviepy import TextClip, VideoFileClip, clips_array, concatenate_videoclips

    output.mkdir(parents=True, exist_ok=True)
    captioned = []
    for text, path in videos:
        clip = VideoFileClip(str(path))
        bar = {"font_size": 16, "color": "white", "bg_color": "black", "size": (clip.w, 24), "duration": clip.duration}
        captioned.append(clips_array([[TextClip(text=text, **bar)], [clip]]))
    whole = concatenate_videoclips(captioned)
    whole.write_videofile(str(output / "training.mp4"), logger=None)
    print(f"Saving video to {output / 'training.mp4'}")
    if gif:
        whole.write_gif(str(output / "training.gif"), logger=None)
        print(f"Saving gif to {output / 'training.gif'}")
    whole.close()
