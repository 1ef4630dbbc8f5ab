"""Runs that go on: in their own folder as if they had not been stopped, or as a new run that begins with their model.

A run is the folder ``ENV_3`` that rl-zoo3 makes for it. It goes on from its newest checkpoint: of a
`MaskableCheckpointCallback`, or of rl-zoo3's ``--save-freq``. A new one (``-i model.zip``) keeps the model's count of
steps and rollouts, since its snapshots are called by these; episodes and random numbers are new.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from filelock import FileLock, Timeout
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback

from sb3_pvp.callbacks.base import learner, trained_rollouts
from sb3_pvp.callbacks.checkpoint import CHECKPOINTS
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.policies import model_files as weights
from sb3_pvp.presets.presets import renamed
from sb3_pvp.selfplay import LEARNER, League, MatchRecord, Player
from sb3_pvp.selfplay.league import LEAGUE, SETTINGS

#: What `--resume` without a folder means.
NEWEST = "newest"
#: The file in the folder of a run with the model as it was before the first step.
INITIAL_MODEL = "initial_model.zip"
#: The file in the folder of a run that is locked as long as a process trains there.
LOCK = ".running"

_CHECKPOINT = re.compile(r"(?:main|rl_model)_(\d+)_steps")
#: How `LeagueCallback` calls the matches of a rollout.
_ROLLOUT = re.compile(rf"{LEARNER}/rollout-(\d+)/")


class ResumeError(Refusal):
    """The run that was asked for cannot go on; the message says why, and what to do."""


@dataclass(frozen=True)
class StoppedRun:
    """A run with a checkpoint, and for how many steps that, and the model with which it began, were trained."""

    folder: Path
    checkpoint: Path
    steps: int
    begun_at: int = 0

    @property
    def finished(self) -> int:
        """The steps of the run itself."""
        return self.steps - self.begun_at


def choose_run(
    wanted: str, log_path: Path, env_name: str, config: str, n_timesteps: int, begun_with: str = ""
) -> StoppedRun | None:
    """The run to go on with: in the folder ``wanted``, or the `NEWEST` one in ``log_path``, ``None`` if it has no runs.

    That is one that began with the same model (``-i``; empty for none), has a checkpoint, the same hyperparameters
    (``config``: what rl-zoo3 writes down of them) and less than ``n_timesteps`` steps, without those of the model with
    which it began, and that no process trains, whatever its seed.

    Raises `ResumeError`, which says what is there, if there are runs of this environment and none can go on.
    """
    if wanted != NEWEST:
        return _run_in(Path(wanted), env_name, config, n_timesteps)
    name = re.compile(rf"{re.escape(env_name)}_(\d+)(?:_[0-9a-f-]{{36}})?")
    numbered = [(int(match[1]), path) for path in log_path.glob("*") if (match := name.fullmatch(path.name))]
    reasons = []
    for _, folder in sorted(numbered, reverse=True):
        if not (folder / env_name / "config.yml").is_file():
            continue  # its training was refused before it began
        try:
            if not _began_with(folder, env_name, begun_with):
                raise ResumeError(f"the run in {folder} began with another model, or none (-i)")
            return _run_in(folder, env_name, config, n_timesteps)
        except ResumeError as error:
            reasons.append(str(error))
    if reasons:
        older = f"; and {len(reasons) - 5} older ones" if len(reasons) > 5 else ""
        raise ResumeError(f"no run can be resumed: {'; '.join(reasons[:5])}{older}. Without --resume a new one begins")
    return None


def stopped_run(folder: Path) -> StoppedRun | None:
    """The run in that folder, or ``None`` if it has no checkpoint that can be read."""
    found = checkpoints_in(folder)
    steps = next((steps for steps in sorted(found, reverse=True) if is_whole(found[steps])), None)
    if steps is None:
        return None
    initial = folder / INITIAL_MODEL
    return StoppedRun(folder, found[steps], steps, begun_at=steps_of(initial) if initial.is_file() else 0)


def checkpoints_in(folder: Path) -> dict[int, Path]:
    """The checkpoints of the run in that folder, by the steps that they were trained for."""
    files = (*folder.glob("*.zip"), *(folder / CHECKPOINTS).glob("*.zip"))
    return {int(match[1]): path for path in files if (match := _CHECKPOINT.fullmatch(path.stem))}


def is_whole(path: Path) -> bool:
    """Whether a zip file has all that was written to it."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False


def warn_of_losses(run: StoppedRun) -> None:
    """Warns if newer checkpoints of the run cannot be read, and if it cannot go on exactly from the one that can."""
    for path in _damaged(run.folder, after=run.steps):
        warnings.warn(f"{path} is skipped: it is damaged (no whole zip file)", RuntimeWarning, stacklevel=2)
    if not weights.has_training_state(run.checkpoint):
        optimizer = " and a new optimiser" if weights.is_stripped(run.checkpoint) else ""
        text = f"The run goes on with new episodes{optimizer}, not exactly: {run.checkpoint} has no training state"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def steps_of(model: Path) -> int:
    """How many steps a saved model was trained for; raises `Refusal` if it is no such file."""
    with refusals(zipfile.BadZipFile, KeyError, about=f"{model} is not a saved model"):
        return weights.steps_of(model)


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Keeps others from training in the folder of a run; the lock ends with the process, however that ends.

    Raises `ResumeError` if somebody does.
    """
    try:
        held = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise ResumeError(f"a process still trains in {folder}: end it first") from None
    with held:
        yield


def continue_counting(callbacks: list[BaseCallback], run: StoppedRun, n_envs: int) -> None:
    """Lets callbacks of SB3 count steps, and remember evaluations, from where the run stopped."""
    for callback in callbacks:
        callback.n_calls = run.steps // n_envs
        if isinstance(callback, EvalCallback):
            _remember_evaluations(callback, run)


class LastCallback(BaseCallback):
    """When its turn comes at the start of a rollout, all others have begun theirs; Ctrl-C waits for its next step."""

    #: Whether a rollout has begun, and whether Ctrl-C was pressed.
    was_tried = interrupted = False
    #: The steps at the start of the rollout that is being played; ``None`` while the model learns.
    rollout: int | None = None

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Lets Ctrl-C end the training between two steps, where it can be resumed, and at once the second time."""
        before = signal.getsignal(signal.SIGINT)
        if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: object) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            print("Stopping after this step; Ctrl-C again stops at once")

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _on_rollout_start(self) -> None:
        self.was_tried, self.rollout = True, self.model.num_timesteps

    def _on_step(self) -> bool:
        if self.interrupted:
            raise KeyboardInterrupt
        return True

    def _on_rollout_end(self) -> None:
        self.rollout = None


def league_of(model: Path) -> Path | None:
    """The folder of the league of the run whose file this model is: a final model, a checkpoint or a snapshot."""
    parents = model.resolve().parents
    candidates = [*(parent / LEAGUE for parent in parents[:2]), *parents[1:2]]
    return next((folder for folder in candidates if (folder / SETTINGS).is_file()), None)


def copy_league(source: Path, target: Path, model: BaseAlgorithm) -> None:
    """Copies a league as it was when the model was saved, to where none is: the new run makes what comes later anew."""
    old, new = League.existing(source), League(target)
    present, rollout = learner(model), trained_rollouts(model)

    def is_past(player: Player) -> bool:
        return player.name != LEARNER or player <= present

    def was_before(record: MatchRecord) -> bool:
        match = _ROLLOUT.match(record.key)
        is_later = match is not None and int(match[1]) >= rollout
        return not is_later and is_past(record.player_a) and is_past(record.player_b)

    for player in filter(is_past, old.players()):
        with replacing(new.path(player)) as partial:
            shutil.copyfile(old.path(player), partial)
    for records in old.log.appended():
        new.log.append([*filter(was_before, records)])
    settings = json.loads((source / SETTINGS).read_text(encoding="utf-8"))
    if maker := settings["match_maker"]:
        known = maker["players"].items()
        maker["players"] = {name: learned for name, learned in known if is_past(Player.parse(name))}
    write_atomically(target / SETTINGS, json.dumps(settings, indent=1) + "\n")


def _run_in(folder: Path, env_name: str, config: str, n_timesteps: int) -> StoppedRun:
    saved = folder / env_name / "config.yml"
    if saved.is_file():
        with running(folder):
            pass
    run = stopped_run(folder)
    if run is None:
        damaged = "".join(f" ({path} is damaged)" for path in _damaged(folder))
        hint = f"give the folder of a run, such as {env_name}_1"
        if (model := folder / f"{env_name}.zip").is_file():
            hint = f"a new run begins with its model with -i {model}"
        raise ResumeError(f"{folder} has no checkpoint to go on from{damaged}: {hint}")
    if not saved.is_file() or renamed(saved.read_text()) != config:
        raise ResumeError(
            f"the run in {folder} began with other hyperparameters ({folder / env_name}): give those, or "
            f"begin a new run with this model: -i {run.checkpoint}"
        )
    if run.finished >= n_timesteps:
        raise ResumeError(f"the run in {folder} has had its {run.finished} steps: ask for more with -n")
    return run


def _damaged(folder: Path, after: int = -1) -> list[Path]:
    """Checkpoints of the run in that folder, of more steps than these, that cannot be read."""
    return [path for steps, path in sorted(checkpoints_in(folder).items()) if steps > after and not is_whole(path)]


def _began_with(folder: Path, env_name: str, model: str) -> bool:
    """Whether the run began with this model file; rl-zoo3 writes its arguments down, as Python objects."""
    path = folder / env_name / "args.yml"
    if not path.is_file():
        return not model
    began_with = str(yaml.load(path.read_text(), Loader=yaml.UnsafeLoader).get("trained_agent", ""))
    return bool(began_with) == bool(model) and Path(began_with).resolve() == Path(model).resolve()


def _remember_evaluations(callback: EvalCallback, run: StoppedRun) -> None:
    """Puts back the evaluations before the checkpoint, which the next one would otherwise overwrite."""
    path = Path(f"{callback.log_path}.npz")
    if not path.is_file():
        return
    with np.load(path) as saved:
        before = saved["timesteps"] <= run.steps
        lists = {name: saved[name][before] for name in saved.files if len(saved[name]) == len(before)}
    callback.evaluations_timesteps = lists["timesteps"].tolist()
    callback.evaluations_results = lists["results"].tolist()
    callback.evaluations_length = lists["ep_lengths"].tolist()
    callback.evaluations_successes = lists["successes"].tolist() if "successes" in lists else []
    if callback.evaluations_results:
        callback.best_mean_reward = max(float(np.mean(each)) for each in callback.evaluations_results)
