"""Saves checkpoints during training; a run resumes exactly from the newest one."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import (
    PvpCallback,
    Scheduled,
    check_same_run,
    learner,
    path_in_run,
    resumes_exactly,
    trained_rollouts,
)
from sb3_pvp.callbacks.replay_and_statistics import off_policy, remove_beside, save_beside
from sb3_pvp.common.arguments import AT_LEAST_1, Flag, NonNegativeInt, OptionalPath, Positive, PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.game.contract import agents_per_seat
from sb3_pvp.players.league import LEARNER, Player, file_name, player_of_file
from sb3_pvp.policies.files.model_files import strip

#: The folder for checkpoints in the run folder.
CHECKPOINTS = "checkpoints"
#: Seconds that saving may take at each rollout of an algorithm that resumes exactly, whose rollouts are long.
_SHORT = 1.0


class MaskableCheckpointCallback(PvpCallback):
    """Saves the model at the start of every ``save_freq``-th rollout, and at the end of training.

    Files are named ``main_STEPS_steps.zip``, like those of SB3's ``CheckpointCallback`` (self-play.md §10 #2), and
    written atomically. `PvpPPO` resumes exactly from the newest one, while older ones are only needed to act. List this
    callback first, so that a checkpoint holds the state in which the others start the rollout. Beside the file of an
    algorithm of SB3 are its statistics of ``VecNormalize``, and beside the newest one its replay.

    Args:
        save_freq: rollouts between checkpoints, a number or a schedule.
        keep: number of newest files to keep; ``None``: all.
        keep_spaced: number of older files to keep as well, about evenly spaced over the steps.
        strip_optimizer: remove what only training needs from older files: the optimiser state, the replay, and more.
        directory: for the files; default: ``checkpoints`` in the run folder.
        verbose: 1: print each saved file.
        interval: steps between checkpoints, in place of ``save_freq``: saves at the first rollout behind each multiple.
        even: sets ``interval`` so that ``keep`` checkpoints divide the run evenly.
        onnx: `finish` also writes what acts as ONNX graphs.
        behavior: also keep ``run_logs/training_status.json`` in the run folder, as Unity's ML-Agents does, with this
            name for the learner; see `sb3_pvp.callbacks.training_status`.
        max_share: in place of ``save_freq``: saves as often as takes at most this share of the time, such as 0.05; but
            at every rollout of an algorithm that resumes exactly, as long as that takes less than a second.
    """

    @checked
    def __init__(
        self,
        save_freq: Any = 1,
        keep: PositiveInt | None = None,
        keep_spaced: NonNegativeInt = 0,
        strip_optimizer: Flag = True,
        directory: OptionalPath = None,
        verbose: bool | int = 0,
        interval: PositiveInt | None = None,
        even: Flag = False,
        onnx: Flag = False,
        behavior: str | None = None,
        max_share: Positive | None = None,
    ) -> None:
        super().__init__(verbose)
        if even and keep is None:
            raise ValueError("even divides a run by the number of checkpoints: set keep as well")
        if (even or interval is not None or max_share is not None) and save_freq != 1:
            raise ValueError("interval, even and max_share stand in place of save_freq: leave that out")
        if max_share is not None and (even or interval is not None):
            raise ValueError("max_share stands in place of interval and even: leave one of them out")
        self._interval, self._even, self._onnx, self._behavior = interval, even, onnx, behavior
        self._max_share, self._waits_until = max_share, 0.0
        self._save_freq = Scheduled("save_freq", save_freq, AT_LEAST_1)
        self._keep, self._keep_spaced = keep, keep_spaced
        self._strip_optimizer, self._directory = strip_optimizer, directory

    def _init_callback(self) -> None:
        self._folder = path_in_run(self.model, self._directory, CHECKPOINTS)
        check_same_run(self.model, self._folder, (each.age for each in checkpoints(self._folder)))
        contract = self.training_env.get_attr("contract", [0])[0] if self.training_env.has_attr("contract") else None
        self._agents = 1.0 if contract is None else agents_per_seat(contract.agents)
        if self._even and self._keep:
            self._interval = max(self.model._total_timesteps // self._keep, 1)
        self._last_saved: int | None = None
        self._last_steps = int(self.model.num_timesteps)
        self._rollout, self._is_sampling = trained_rollouts(self.model), False

    def _on_rollout_start(self) -> None:
        self._rollout, self._learner, self._is_sampling = trained_rollouts(self.model), learner(self.model), True
        if self._is_due():
            self._save()

    def _on_step(self) -> bool:
        return True  # episodes do not matter, of which ARS says nothing

    def _is_due(self) -> bool:
        if self._max_share is not None:
            return time.monotonic() >= self._waits_until
        if self._interval is None:
            return self._save_freq.is_due(self._last_saved, self._rollout)
        return self._learner.age // self._interval > self._last_steps // self._interval

    def _on_rollout_end(self) -> None:
        self._is_sampling = False

    def _on_training_end(self) -> None:
        # Also called after an interruption, and possibly twice: by SB3 and by the experiment manager's cleanup.
        finished = trained_rollouts(self.model)
        if finished != self._rollout or (not resumes_exactly(self.model) and off_policy(self.model) is not None):
            self._rollout, self._learner = finished, learner(self.model)
        elif not self._is_sampling:
            return  # interrupted between two gradient steps: training cannot be resumed from such a model
        if (self._last_saved, self._last_steps) != (self._rollout, self._learner.age):
            self._save()

    def _save(self) -> None:
        path, began = self._folder / file_name(self._learner), time.monotonic()
        if not resumes_exactly(self.model):
            save_beside(self.model, path)
        with replacing(path) as partial:
            self.model.save(partial)
        self._last_saved, self._last_steps = self._rollout, self._learner.age
        if self.verbose:
            print(f"Saved {path}")
        # Files with more steps were left by an attempt that was killed; this run will overwrite them.
        old = [player for player in checkpoints(self._folder) if player.age < self._learner.age]
        newest = len(old) if self._keep is None else self._keep - 1
        recent, older = (old[-newest:], old[:-newest]) if newest else ([], old)
        kept = {*recent, *spread(older, self._keep_spaced)}
        for player in old:
            path = self._folder / file_name(player)
            if player not in kept:
                path.unlink(missing_ok=True)
            elif self._strip_optimizer and player == old[-1]:  # the newest until now; earlier ones are stripped already
                with contextlib.suppress(FileNotFoundError):  # it may be deleted at any time
                    strip(path)
        if not resumes_exactly(self.model):
            remove_beside(self._folder / file_name(self._learner), keep_replays=not self._strip_optimizer)
        took = (now := time.monotonic()) - began
        if self._max_share is not None and (took > _SHORT or not resumes_exactly(self.model)):
            self._waits_until = now + took / self._max_share
        if self._behavior is not None:
            self._write_status(self._behavior)

    def finish(self, model: BaseAlgorithm, stem: Path) -> None:
        """Writes graphs and the status beside a final model, which has been saved as ``stem`` with the ending .zip.

        Warns, in one line, of a model that cannot become a graph.
        """
        graphs: list[Path] = []
        if self._onnx:
            from sb3_pvp.policies.files.fighter_files import export_final

            try:
                graphs = export_final(model, stem)
            except ValueError as error:
                warnings.warn(f"There is no ONNX file of the model: {error}", stacklevel=2)
        if self._behavior is not None:
            self._write_status(self._behavior, [*graphs, stem.with_name(f"{stem.name}.zip")])

    def _write_status(self, behavior: str, final: Sequence[Path] = ()) -> None:
        """Writes the status, with the files of the final model if there is one, the first of which stands for it."""
        from sb3_pvp.callbacks.training_status import STATUS, BehaviorStatus, SavedCheckpoint, read_status, write_status

        run, known = self._folder.parent, dict[int, SavedCheckpoint]()
        with contextlib.suppress(FileNotFoundError, KeyError, ValueError):
            known = {each.steps: each for each in read_status(run / STATUS)[behavior].checkpoints}
        rewards = [each["r"] for each in self.model.ep_info_buffer or ()]
        reward = float(np.mean(rewards)) if rewards else None

        def saved(steps: int, *files: Path) -> SavedCheckpoint:
            first, *others = (str(file.relative_to(run) if file.is_relative_to(run) else file) for file in files)
            return SavedCheckpoint(
                steps=round(steps * self._agents),
                file_path=first,
                reward=reward,
                creation_time=time.time(),
                auxillary_file_paths=others,
            )

        made = [saved(player.age, self._folder / file_name(player)) for player in checkpoints(self._folder)]
        elo = getattr(getattr(self.model, "resumable_parts", {}).get("ghost_self_play"), "elo", None)
        last = saved(int(self.model.num_timesteps), *final) if final else None
        status = BehaviorStatus([known.get(each.steps, each) for each in made], last, elo)
        write_status(run / STATUS, behavior, status)


def checkpoints(folder: Path) -> list[Player]:
    """Returns the learner at each checkpoint in the folder, sorted by steps; other files are ignored."""
    found = []
    for path in folder.glob(f"{LEARNER}_*.zip"):
        with contextlib.suppress(ValueError):
            found.append(player_of_file(path))
    return sorted((player for player in found if player.name == LEARNER), key=lambda player: player.age)


def spread(players: Sequence[Player], count: int) -> list[Player]:
    """Returns at most ``count`` of the players, sorted by age, about evenly spaced over their steps.

    The first player is always among them. The spacing is the greatest common divisor of all gaps times a power of two,
    so that each choice is a subset of the earlier, denser ones: no file is needed that has been deleted before.
    """
    if not count or len(players) <= count:
        return list(players[:count])
    steps = np.array([player.age for player in players])
    spacing = max(int(np.gcd.reduce(np.diff(steps))), 1)
    while True:
        slots = (steps - steps[0]) // spacing
        _, first = np.unique(slots, return_index=True)  # one player per slot of this width
        if len(first) <= count:
            return [players[index] for index in first.tolist()]
        spacing *= 2
