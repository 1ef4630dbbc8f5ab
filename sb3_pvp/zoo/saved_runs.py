"""What enjoy, videos and the hub need of a run of this package: its models, its environment, a word on its use."""

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

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.presets.presets import ALGO, is_ours
from sb3_pvp.presets.validation import checked_env
from sb3_pvp.zoo.manager import replaced
from sb3_pvp.zoo.resume import checkpoints_in, is_whole, steps_of

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
# Before this package is installed into rl-zoo3 (`sb3_pvp.zoo.install`).
_stock_model_path: Any = utils.get_model_path
_stock_test_env: Any = utils.create_test_env


def get_model_path(
    exp_id: int, folder: str, algo: str, env_name: EnvironmentName, *which: Any, **keywords: Any
) -> tuple[str, str, str]:
    """`rl_zoo3.utils.get_model_path`, which finds the checkpoints of `MaskableCheckpointCallback` as well.

    Returns a name for videos, the file of the model and the folder of the run. Raises `Refusal` if there is no such
    model in a run of an environment of this package, or if it is damaged.
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
            kept = ", ".join(map(str, sorted(saved))) or "none at all"
            raise Refusal(f"{run} has no such checkpoint; it has, by steps: {kept}")
        kind, model = f"checkpoint-{steps}", saved[steps]
    if not model.is_file():
        others = "; --load-last-checkpoint takes the newest checkpoint" if saved else ""
        raise Refusal(f"there is no {model.name} in {run}: the run has not come so far{others}")
    steps_of(model)
    if not is_whole(model):
        raise Refusal(f"{model} is damaged: something in it has changed")
    return f"{kind}-{ModelName(algo, env_name)}", str(model), str(run)


def run_folder(exp_id: int, folder: str, algo: str, env_name: EnvironmentName) -> Path:
    """The folder of a run in rl-zoo3's log folder; 0: of the newest one; negative: the folder of the algorithm itself.

    Raises `Refusal` if there is none.
    """
    runs = Path(folder) / algo
    number = exp_id or utils.get_latest_run_id(str(runs), env_name)
    run = runs / f"{env_name}_{number}" if number > 0 else runs
    if not run.is_dir() or (number == 0 and not (run / f"{env_name}.zip").is_file()):
        raise Refusal(
            f"there is no run of {algo} on {env_name.gym_id} in {run}: give the folder of your runs with -f (train "
            "writes to logs), and the number of the run with --exp-id"
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
    """`rl_zoo3.utils.create_test_env`; environments of this package are as in training, and share one process.

    rl-zoo3 itself forgets the ``env_kwargs`` of a yaml file for videos and the hub. Raises `Refusal` for wrong
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
    """One video of a run: what the learner could do after each checkpoint, at the end, and at its best.

    It is ``training.mp4``, with ``-g`` also ``training.gif``, in ``-o`` or the folder ``videos`` of the run.
    ``record_video`` is the command of that name, for one model, which reads all other options. rl-zoo3's own script
    starts itself again in processes that do not know this package, knows only its own checkpoints, needs ``ffmpeg``
    with fonts, and deletes the output folder first. Raises `Refusal` if there is no such run, or no model.
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
        _join(videos, Path(given.output_folder or run / "videos"), given.gif)


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
    if gif:
        whole.write_gif(str(output / "training.gif"), logger=None)
    print(f"Saved to {output}")
    whole.close()


@contextmanager
def mended_hub() -> Iterator[None]:
    """Gives ``rl_zoo3.push_to_hub`` the older names that it imports, and completes the model card.

    Raises `Refusal` if the hub does.
    """
    from huggingface_hub.errors import HfHubHTTPError

    integration = importlib.import_module("huggingface_sb3.push_to_hub")
    cards = importlib.import_module("huggingface_hub.repocard")
    make_metadata = getattr(integration, "generate_metadata", None) or integration._generate_metadata
    save_metadata = cards.metadata_save

    def metadata_save(path: Path, metadata: Any) -> None:
        """Says first how to use the model beside the card, if it is a fighter of this package."""
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
            raise Refusal(f"the hub has refused: {error}") from error


@contextmanager
def _ffmpeg_on_path() -> Iterator[None]:
    """Lets commands find ``ffmpeg``: the system's, or else the one of the extra ``render``, if it is there."""
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
