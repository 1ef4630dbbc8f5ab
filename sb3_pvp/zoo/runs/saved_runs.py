"""Models and environments of saved runs, for rl-zoo3's ``enjoy``, its video commands and its ``push_to_hub``."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_sb3 import EnvironmentName, ModelName
from rl_zoo3 import utils
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.presets import ALGO, is_ours
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.zoo.patches import replaced
from sb3_pvp.zoo.runs.resume import checkpoints_in, is_whole, steps_of
from sb3_pvp.zoo.validation import checked_env

_USAGE = """
## This fighter needs sb3-pvp

With it installed, the commands above are `python -m sb3_pvp.zoo enjoy ...` and the like. Without rl-zoo3:

```python
import gymnasium as gym

from sb3_pvp import load

fighter = load("{file}")
env = gym.make("{env_id}", opponent="baseline")
observation, info = env.reset(seed=1)
action, _ = fighter.predict(observation)  # obeys the masks in the observation
```
"""
# rl-zoo3's own functions: this module is imported before `sb3_pvp.zoo.install` replaces them.
_stock_model_path: Any = utils.get_model_path
_stock_test_env: Any = utils.create_test_env


def get_model_path(
    exp_id: int, folder: str, algo: str, env_name: EnvironmentName, *which: Any, **keywords: Any
) -> tuple[str, str, str]:
    """Replaces `rl_zoo3.utils.get_model_path` to also find the checkpoints of `MaskableCheckpointCallback`.

    Returns a name for videos, the path of the model and the run folder. For environments of this package, raises
    `Refusal` if there is no such model or if it is damaged.
    """
    if not is_ours(env_name.gym_id):
        found: tuple[str, str, str] = _stock_model_path(exp_id, folder, algo, env_name, *which, **keywords)
        return found
    names = ("load_best", "load_checkpoint", "load_last_checkpoint")
    load_best, load_checkpoint, load_last = map({**dict(zip(names, which, strict=False)), **keywords}.get, names)
    run = run_folder(exp_id, folder, algo, env_name)
    saved = checkpoints_in(run)
    kind, model = "final-model", run / f"{env_name}.zip"
    if load_best:
        kind, model = "best-model", run / "best_model.zip"
    elif load_checkpoint is not None or load_last:
        steps = max(saved, default=None) if load_checkpoint is None else load_checkpoint
        if steps not in saved:
            kept = ", ".join(map(str, sorted(saved))) or "none"
            raise Refusal(f"{run} has no such checkpoint; available ones, by steps: {kept}")
        kind, model = f"checkpoint-{steps}", saved[steps]
    if not model.is_file():
        others = "; use --load-last-checkpoint for the newest checkpoint" if saved else ""
        raise Refusal(f"there is no {model.name} in {run}: the run has not saved it yet{others}")
    steps_of(model)  # raises if this is not a model
    if not is_whole(model):
        raise Refusal(f"{model} is damaged: its content does not match its checksums")
    return f"{kind}-{ModelName(algo, env_name)}", str(model), str(run)


def run_folder(exp_id: int, folder: str, algo: str, env_name: EnvironmentName) -> Path:
    """Returns the run folder with this number in rl-zoo3's log folder; raises `Refusal` if there is none.

    ``exp_id`` 0 is the newest run; with a negative one, the algorithm's folder itself is the run folder.
    """
    runs = Path(folder) / algo
    number = exp_id or utils.get_latest_run_id(str(runs), env_name)
    run = runs / f"{env_name}_{number}" if number > 0 else runs
    if not run.is_dir() or (number == 0 and not (run / f"{env_name}.zip").is_file()):
        raise Refusal(
            f"there is no run of {algo} on {env_name.gym_id} in {run}: set the log folder with -f (train writes to "
            "logs by default), and the number of the run with --exp-id"
        )
    return run


def create_test_env(
    env_id: str,
    *arguments: Any,
    hyperparams: dict[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    **keywords: Any,
) -> VecEnv:
    """Replaces `rl_zoo3.utils.create_test_env` to create our environments as in training, as a `PvpVecEnv`.

    rl-zoo3 itself ignores the ``env_kwargs`` of a yaml file for videos and the hub. Raises `Refusal` for invalid
    ``env_kwargs``.
    """
    if is_ours(env_id):
        from sb3_pvp.envs import PvpVecEnv

        env_kwargs = {**(hyperparams or {}).get("env_kwargs", {}), **(env_kwargs or {})}
        with refusals():
            checked_env(env_id, env_kwargs)
        vec_env_cls = vec_env_cls or PvpVecEnv
    env: VecEnv = _stock_test_env(
        env_id, *arguments, hyperparams=hyperparams, env_kwargs=env_kwargs, vec_env_cls=vec_env_cls, **keywords
    )
    return env


def record_training(arguments: list[str], record_video: Callable[[list[str]], None]) -> None:
    """Records one video of a run, with the model at each checkpoint, at the end of training, and at its best.

    The video is ``training.mp4``, and ``training.gif`` with ``-g``, in the folder ``-o``, by default ``videos`` in the
    run folder. ``record_video`` is the command of that name, which records one model and receives all other options.
    Raises `Refusal` if the run or its models are missing.

    This replaces rl-zoo3's script, which starts subprocesses without this package, finds its own checkpoints only,
    needs an ``ffmpeg`` with fonts, and first deletes the output folder.
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
        raise Refusal(f"there is no model in {run}: the run has no checkpoint and is not finished")
    options = ["--env", given.env.gym_id, "--algo", given.algo, "-f", given.folder, "--exp-id", str(given.exp_id)]
    with tempfile.TemporaryDirectory() as folder:
        videos = []
        for number, (caption, choice) in enumerate(models):
            video = Path(folder) / str(number)
            # --no-render: frames are rendered for the video only, not for a window as well.
            record_video([*options, *others, "-o", str(video), "--no-render", *choice])
            videos.append((caption, next(video.glob("*.mp4"))))
        _join(videos, Path(given.output_folder or run / "videos"), given.gif)


def _join(videos: list[tuple[str, Path]], output: Path, gif: bool) -> None:
    """Concatenates videos, each under its caption, and saves the result in the folder ``output``."""
    from moviepy import TextClip, VideoFileClip, clips_array, concatenate_videoclips

    output.mkdir(parents=True, exist_ok=True)
    captioned = []
    for text, path in videos:
        clip = VideoFileClip(str(path))
        bar = {"font_size": 16, "color": "white", "bg_color": "black", "size": (clip.w, 24), "duration": clip.duration}
        captioned.append(clips_array([[TextClip(text=text, **bar)], [clip]]))
    whole = concatenate_videoclips(captioned)
    whole.write_videofile(str(output / "training.mp4"), logger=None)
    if gif:
        whole.write_gif(str(output / "training.gif"), logger=None)
    print(f"Saved to {output}")
    whole.close()


@contextmanager
def patched_push_to_hub() -> Iterator[None]:
    """Makes ``rl_zoo3.push_to_hub`` work with its current dependencies, and adds our usage to the model card.

    Raises `Refusal` if the hub rejects the upload.
    """
    from huggingface_hub.errors import HfHubHTTPError

    # rl-zoo3 imports generate_metadata, which is private by now, and passes its result where a dict is needed.
    integration = importlib.import_module("huggingface_sb3.push_to_hub")
    cards = importlib.import_module("huggingface_hub.repocard")
    make_metadata = getattr(integration, "generate_metadata", None) or integration._generate_metadata
    save_metadata = cards.metadata_save

    def metadata_save(path: Path, metadata: Any) -> None:
        """Replaces ``metadata_save`` to append how to use the model next to the card, if it is one of ours."""
        for model in Path(path).parent.glob(f"{ALGO}-*.zip"):
            with Path(path).open("a", encoding="utf-8") as card:
                card.write(_USAGE.format(file=model.name, env_id=model.stem.removeprefix(f"{ALGO}-")))
        save_metadata(path, metadata if isinstance(metadata, dict) else metadata.to_dict())

    with (
        _ffmpeg_on_path(),
        replaced(integration, generate_metadata=make_metadata),
        replaced(cards, metadata_save=metadata_save),
    ):
        try:
            yield
        except HfHubHTTPError as error:
            raise Refusal(f"the hub rejected the upload: {error}") from error


@contextmanager
def _ffmpeg_on_path() -> Iterator[None]:
    """Puts an ``ffmpeg`` on the ``PATH``: if the system has none, that of the extra ``render``, if installed."""
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("ffmpeg") is None and find_spec("imageio_ffmpeg"):
            program = Path(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
            (Path(folder) / f"ffmpeg{program.suffix if os.name == 'nt' else ''}").symlink_to(program)
        before = os.environ.get("PATH", os.defpath)
        os.environ["PATH"] = os.pathsep.join([folder, before])
        try:
            yield
        finally:
            os.environ["PATH"] = before
