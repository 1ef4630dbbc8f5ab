"""Resuming stopped runs (``--resume``), and starting new runs from a trained model (``-i model.zip``).

A run is the folder, such as ``ENV_3``, that rl-zoo3 creates for it. It resumes from its newest checkpoint, whether of
`MaskableCheckpointCallback` or of rl-zoo3's ``--save-freq``. A new run with ``-i`` continues the model's count of steps
and rollouts, by which snapshots and matches are named, but with new episodes and random numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback

from sb3_pvp.algorithms.presets import ALGO, OTHER_ALGOS, with_current_names
from sb3_pvp.callbacks.base import learner, trained_rollouts
from sb3_pvp.callbacks.checkpoint import CHECKPOINTS, MaskableCheckpointCallback
from sb3_pvp.common.atomic_files import DamagedFile, reading, replacing, skipping_damage, write_atomically
from sb3_pvp.common.errors import Refusal, TrainingInterrupted, refusals
from sb3_pvp.common.stop_signals import deferring, drop_lost_outputs, only_by_ctrl_c, say, uninterrupted
from sb3_pvp.common.waiting import is_waiting
from sb3_pvp.game import WorldError
from sb3_pvp.matches.curves import read_arguments, read_evaluations
from sb3_pvp.players.league import LEARNER, League, MatchRecord, Player
from sb3_pvp.players.league.league import SETTINGS
from sb3_pvp.policies.files import model_files as weights
from sb3_pvp.zoo.runs.changes import Change, changes_between, changes_of_config, fixed_names
from sb3_pvp.zoo.worker_vec_env import ENDED

#: The value of `--resume` without a folder.
NEWEST = "newest"
#: The folder in the run folder with what `DreamerV3` replays.
REPLAY = "replay"
#: The file in the run folder with the model before its first step.
INITIAL_MODEL = "initial_model.zip"
#: The file in the run folder that is locked while a process trains there.
LOCK = ".running"
#: The file in the run folder that is there after the last step, until the model is saved and all has ended that
#: callbacks then wait for.
UNFINISHED = ".unfinished"
#: Reasons that an error lists for not resuming runs; a log folder may have hundreds of them.
_MAX_REASONS = 5
_IN_USE = "another process is training in {}: stop it first"

_CHECKPOINT = re.compile(r"(?:main|rl_model)_(\d+)_steps")
#: Beginning of the keys with which `LeagueCallback` records the matches of a rollout.
_ROLLOUT = re.compile(rf"{LEARNER}/rollout-(\d+)/")


class ResumeError(Refusal):
    """The requested run cannot be resumed; the message says why, and what to do."""


@dataclass(frozen=True)
class StoppedRun:
    """A run that has a checkpoint."""

    folder: Path
    checkpoint: Path
    steps: int  #: Training steps of the checkpoint.
    initial_steps: int = 0  #: Training steps of the model with which the run began.
    changes: tuple[Change, ...] = ()  #: Hyperparameters that it is to go on with.

    @property
    def finished(self) -> int:
        """Training steps of the run itself."""
        return self.steps - self.initial_steps


def choose_run(
    wanted: str,
    log_path: Path,
    env_name: str,
    config: str,
    n_timesteps: int,
    initial_model: str = "",
    may_differ: bool = False,
    algo: str = ALGO,
) -> StoppedRun | None:
    """Returns the run to resume: that in the folder ``wanted``, or the `NEWEST` one in ``log_path`` that qualifies.

    A run qualifies if it has a checkpoint, the same algorithm, the same hyperparameters (``config``: the text of
    rl-zoo3's ``config.yml``) or, if it ``may_differ``, other ones, the same initial model (given by its path) and less
    than ``n_timesteps`` own steps, or if it is not over, and is not being trained by another process. Its seed does not
    matter. Returns ``None`` if ``log_path`` has no run of this environment; raises `ResumeError`, with the reasons, if
    it has runs and none qualifies.
    """
    if wanted != NEWEST:
        return _resumable_run(Path(wanted), env_name, config, n_timesteps, may_differ, algo)
    name = re.compile(rf"{re.escape(env_name)}_(\d+)(?:_[0-9a-f-]{{36}})?")  # with a UUID after rl-zoo3's --uuid
    numbered = [(int(match[1]), path) for path in log_path.glob("*") if (match := name.fullmatch(path.name))]
    reasons = []
    for _, folder in sorted(numbered, reverse=True):
        if not (folder / env_name / "config.yml").is_file():
            continue  # its training failed before it started
        try:
            if not _has_initial_model(folder, env_name, initial_model):
                raise ResumeError(f"the run in {folder} began with another initial model (-i), or without one")
            return _resumable_run(folder, env_name, config, n_timesteps, may_differ, algo)
        except ResumeError as error:
            reasons.append(str(error))
    if reasons:
        older = f"; and {len(reasons) - _MAX_REASONS} older runs" if len(reasons) > _MAX_REASONS else ""
        reasons = reasons[:_MAX_REASONS]
        raise ResumeError(f"no run can be resumed: {'; '.join(reasons)}{older}. Omit --resume to start a new one")
    return None


def folder_to_resume(folder: Path, env_name: str) -> str | None:
    """Returns the folder of ``--logdir`` if its run is to be resumed, ``None`` if it is to begin there.

    A run that was killed before its first checkpoint begins anew. Raises `ResumeError` for a folder with other files,
    or with a model but no checkpoints, and while another process is training there.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    was_killed_early = (folder / LOCK).is_file() and not any(folder.glob("*/config.yml"))
    if not was_killed_early and not (folder / env_name / "config.yml").is_file():
        raise ResumeError(f"--logdir {folder} has other files, and no run of {env_name}: take another folder")
    if is_running(folder):
        raise ResumeError(_IN_USE.format(folder))
    if checkpoints_in(folder):
        return str(folder)
    if (model := folder / f"{env_name}.zip").is_file():
        again = f"begin a new run with it (-i {quote(str(model))}), in another folder"
        raise ResumeError(f"--logdir {folder} has a model, and no checkpoints from which its run could go on: {again}")
    shutil.rmtree(folder / REPLAY, ignore_errors=True)
    return None


def stopped_run(folder: Path) -> StoppedRun | None:
    """Returns the run in this folder with its newest intact checkpoint; ``None`` if there is no such checkpoint.

    Damaged files are skipped with a warning.
    """
    for steps, checkpoint in sorted(checkpoints_in(folder).items(), reverse=True):
        if is_whole(checkpoint):
            return StoppedRun(folder, checkpoint, steps, initial_steps=readable_steps(folder / INITIAL_MODEL))
        warnings.warn(f"Skipping {checkpoint}: it is damaged (not a complete zip file)", RuntimeWarning, stacklevel=2)
    return None


def model_of_run(wanted: str) -> str:
    """Returns the model in the folder of a run: its final one, else its newest checkpoint, or with @STEPS that one.

    What is no folder stays as it is, the name or file of a model. Raises `ResumeError` if there is none.
    """
    folder, _, steps = wanted.rpartition("@") if re.search(r"@\d+$", wanted) else (wanted, "", "")
    run = Path(folder)
    if not run.is_dir():
        return wanted
    saved = checkpoints_in(run)
    if steps and int(steps) not in saved:
        kept = ", ".join(map(str, sorted(saved))) or "none"
        raise ResumeError(f"{run} has no checkpoint after {steps} steps; it has {kept}")
    final = [run / f"{config.parent.name}.zip" for config in run.glob("*/config.yml")]
    found = [saved[int(steps)]] if steps else [*filter(Path.is_file, final), *([saved[max(saved)]] if saved else [])]
    if not found:
        raise ResumeError(f"{run} has no model: give the folder of a run, such as logs/mapoca/SoccerTwos-v0_1")
    return str(found[0])


def checkpoints_in(folder: Path) -> dict[int, Path]:
    """Returns the checkpoints of the run in this folder, by training steps."""
    files = (*folder.glob("*.zip"), *(folder / CHECKPOINTS).glob("*.zip"))
    return {int(match[1]): path for path in files if (match := _CHECKPOINT.fullmatch(path.stem))}


def is_whole(path: Path) -> bool:
    """Whether the zip file of a model is complete and matches its checksums."""
    try:
        with reading(path), zipfile.ZipFile(path) as file:
            # The weights inside are zip files too: in a file that is cut after them, theirs are found as the whole.
            weights.steps_of(path)
            return file.testzip() is None
    except (DamagedFile, FileNotFoundError):
        return False


def is_over(folder: Path, env_name: str, steps: int) -> bool:
    """Whether nothing is left to do for a run that was trained for so many steps: it may be killed before its end."""
    return not (folder / UNFINISHED).is_file() and readable_steps(folder / f"{env_name}.zip") >= steps


def warn_if_inexact(run: StoppedRun) -> None:
    """Warns if the run cannot be resumed exactly."""
    if not weights.has_training_state(run.checkpoint):
        optimizer = " and a new optimiser" if weights.is_stripped(run.checkpoint) else ""
        text = f"Resuming with new episodes{optimizer}, not exactly: {run.checkpoint} has no training state"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def steps_of(model: Path) -> int:
    """Returns the training steps of a saved model; raises `Refusal` if the file is not one."""
    with refusals(about=f"{model} is not a saved model"):
        return weights.steps_of(model)


def readable_steps(model: Path) -> int:
    """Returns the training steps of a saved model; 0 if there is none, or, with a warning, if it is damaged."""
    steps = 0
    with suppress(FileNotFoundError), skipping_damage(), reading(model):
        steps = weights.steps_of(model)
    return steps


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Locks the run folder while training in it; the operating system releases the lock if the process is killed.

    Raises `ResumeError` if another process is training there.
    """
    try:
        lock = FileLock(folder / LOCK, timeout=0).acquire()
    except Timeout:
        raise ResumeError(_IN_USE.format(folder)) from None
    with lock:
        yield


def is_running(folder: Path) -> bool:
    """Whether a process is training in this run folder, which may be one that this process may only read."""
    import fcntl  # Not on every system.

    with suppress(OSError), (folder / LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # FileLock would open the file for writing
        except BlockingIOError:
            return True
    return False


def continue_counting(callbacks: list[BaseCallback], run: StoppedRun, n_envs: int) -> None:
    """Restores the step counters of SB3's callbacks, and the results of earlier evaluations."""
    for callback in callbacks:
        callback.n_calls = run.steps // n_envs  # with which SB3's callbacks determine when they are due
        if isinstance(callback, EvalCallback):
            _restore_evaluations(callback, run)


class RunCallbacks(CallbackList):
    """The callbacks of a run, which knows from where it can be resumed, and ends at a signal between two steps.

    ``save`` is called at the end of training, before the callbacks, which may wait then.
    """

    #: Whether a rollout has started, in all callbacks as well.
    has_begun = False
    #: Whether there was a signal to stop.
    interrupted = False
    #: Whether there was a second Ctrl-C.
    at_once = False
    #: Whether the model is trained and saved: callbacks only finish their work.
    is_over = False
    #: Steps and rollouts of the model at the start of the rollout in progress, or at the end of training, from which
    #: the run can be resumed; ``None`` while the model learns.
    resumes_at: tuple[int, int] | None = None

    def __init__(self, callbacks: list[BaseCallback], save: Callable[[], object]) -> None:
        super().__init__(callbacks)
        self._save = save

    def deferring(self) -> AbstractContextManager[None]:
        """Lets the first signal end training between two steps, where it can be resumed, and a second Ctrl-C at once.

        Other signals may come several times: some programs send them to a process and then to its group. What is only
        waited for is ended by the first signal.
        """

        def stop(number: int, frame: object) -> None:
            if self.interrupted and number == signal.SIGINT:
                self.at_once = True
                raise KeyboardInterrupt
            if not self.interrupted:
                drop_lost_outputs()
                self.interrupted = True
                if self.is_over or is_waiting():
                    raise KeyboardInterrupt
                say("Stopping after this step; press Ctrl-C again to stop at once")

        return deferring(stop)

    def _on_rollout_start(self) -> None:
        self.resumes_at = self.model.num_timesteps, trained_rollouts(self.model)
        super()._on_rollout_start()
        self.has_begun = True

    def _on_step(self) -> bool:
        """Raises ``KeyboardInterrupt`` if there was a signal to stop."""
        goes_on = super()._on_step()
        if self.interrupted:
            raise KeyboardInterrupt
        return goes_on

    def _on_rollout_end(self) -> None:
        super()._on_rollout_end()
        self.resumes_at = None

    def _on_training_end(self) -> None:
        # Callbacks can also stop the training in the middle of a rollout, whose start is known already.
        self.resumes_at = self.resumes_at or (self.model.num_timesteps, trained_rollouts(self.model))
        with uninterrupted():
            self._save()
        self.is_over = True
        super()._on_training_end()


def save_after_error(model: BaseAlgorithm, folder: Path, error: Exception, has_begun: bool) -> Exception:
    """Saves the model of a run that an error has ended, once it ``has_begun`` or a server or a worker was lost.

    Returns the exception for the user: for other errors than those the same one.
    """
    reason = str(error) if isinstance(error, WorldError) else None
    if isinstance(error, (EOFError, ConnectionError)):  # from the pipes of a SubprocVecEnv
        reason = ENDED
    if has_begun or reason is not None:
        model.save(folder / "interrupted_model")
    if reason is None:
        return error
    lost = TrainingInterrupted(f"{reason}; the model so far was saved as {folder}/interrupted_model.zip")
    lost.__cause__ = error
    return lost


def finish_checkpoints(callbacks: Iterable[BaseCallback], model: BaseAlgorithm, stem: Path) -> None:
    """Lets callbacks write what belongs to a final model, which is saved already: Ctrl-C leaves it out."""
    with suppress(KeyboardInterrupt), only_by_ctrl_c():
        for callback in callbacks:
            if isinstance(callback, MaskableCheckpointCallback):
                callback.finish(model, stem)


def copy_league(source: Path, target: Path, model: BaseAlgorithm) -> None:
    """Copies a league, as it was when the model was saved, to ``target``, which must not be a league yet.

    Later snapshots and matches are left out: the new run will use their names and keys for its own.
    """
    old, new = League.existing(source), League(target)
    present, rollout = learner(model), trained_rollouts(model)

    def existed(player: Player) -> bool:
        return player.name != LEARNER or player <= present

    def was_played(record: MatchRecord) -> bool:
        match = _ROLLOUT.match(record.key)
        is_later = match is not None and int(match[1]) >= rollout
        return not is_later and existed(record.player_a) and existed(record.player_b)

    for player in filter(existed, old.players()):
        with replacing(new.path(player)) as partial:
            shutil.copyfile(old.path(player), partial)
    # In the same batches, because ratings are updated by batch.
    for records in old.log.appended():
        new.log.append([*filter(was_played, records)])
    settings = json.loads((source / SETTINGS).read_text(encoding="utf-8"))
    if maker := settings["match_maker"]:
        known = maker["players"].items()
        maker["players"] = {name: learned for name, learned in known if existed(Player.parse(name))}
    write_atomically(target / SETTINGS, json.dumps(settings, indent=1) + "\n")


def _resumable_run(
    folder: Path, env_name: str, config: str, n_timesteps: int, may_differ: bool, algo: str
) -> StoppedRun:
    """Returns the run in this folder if it can be resumed, see `choose_run`; raises `ResumeError` if not."""
    saved = folder / env_name / "config.yml"
    if saved.is_file() and is_running(folder):
        raise ResumeError(_IN_USE.format(folder))
    arguments = read_arguments(folder / env_name / "args.yml")
    if (trained_by := arguments.get("algo") or algo) != algo:
        raise ResumeError(
            f"the run in {folder} began with --algo {trained_by}, not {algo}: use that, or another folder"
        )
    run = stopped_run(folder)
    if run is None:
        damaged = "".join(f" ({path} is damaged)" for path in checkpoints_in(folder).values())
        hint = f"give the folder of a run, such as {env_name}_1"
        if (model := folder / f"{env_name}.zip").is_file():
            hint = f"start a new run from its model with -i {quote(str(model))}"
        raise ResumeError(f"{folder} has no checkpoint to resume from{damaged}: {hint}")
    began = with_current_names(saved.read_text("utf-8", "replace")) if saved.is_file() else ""
    changes = changes_of_config(began, config)
    # How far it goes is no other run; and --env-kwargs were only in args.yml before.
    same = changes_between({}, {"env_kwargs": arguments["env_kwargs"]} if arguments.get("env_kwargs") else {})
    differ = [each for each in changes if each not in same and each.name != "n_timesteps"]
    if began != config and (differ or not changes):
        if not may_differ or not changes:
            told = "".join(f", {change}" for change in changes[:_MAX_REASONS])
            raise ResumeError(
                f"the run in {folder} began with other hyperparameters ({folder / env_name}{told}): use those, "
                f"{_cure(run, changes, algo)}"
            )
        run = replace(run, changes=tuple(changes))
    if run.finished >= n_timesteps and is_over(folder, env_name, run.steps):
        raise ResumeError(f"the run in {folder} has finished its {run.finished} steps: set more with -n")
    return run


def _cure(run: StoppedRun, changes: Sequence[Change], algo: str) -> str:
    """Returns what can be done with a run whose hyperparameters have changed: only what works with these changes."""
    goes_on = algo in (ALGO, *OTHER_ALGOS) and changes and not fixed_names(changes)
    keeps_networks = not any(each.name in ("policy", "policy_kwargs") for each in changes)
    model = f" from its model with -i {quote(str(run.checkpoint))}," if keeps_networks else ""
    flag = "add --changed to go on with the new ones, " if goes_on else ""
    return f"{flag}or start a new run{model} without --resume and in another --logdir"


def _has_initial_model(folder: Path, env_name: str, model: str) -> bool:
    """Whether the run began with this model file, according to the arguments that rl-zoo3 has saved."""
    began_with = str(read_arguments(folder / env_name / "args.yml").get("trained_agent", ""))
    return bool(began_with) == bool(model) and Path(began_with).resolve() == Path(model).resolve()


def _restore_evaluations(callback: EvalCallback, run: StoppedRun) -> None:
    """Restores the evaluations before the checkpoint, which the next one would otherwise overwrite in the file."""
    saved: dict[str, np.ndarray[Any, Any]] = {}
    with suppress(FileNotFoundError), skipping_damage():
        saved = read_evaluations(Path(f"{callback.log_path}.npz"))
    if not saved:
        return
    before = saved["timesteps"] <= run.steps
    lists = {name: values[before] for name, values in saved.items() if len(values) == len(before)}
    callback.evaluations_timesteps = lists["timesteps"].tolist()
    callback.evaluations_results = lists["results"].tolist()
    callback.evaluations_length = lists["ep_lengths"].tolist()
    callback.evaluations_successes = lists["successes"].tolist() if "successes" in lists else []
    if callback.evaluations_results:
        callback.best_mean_reward = max(float(np.mean(each)) for each in callback.evaluations_results)
