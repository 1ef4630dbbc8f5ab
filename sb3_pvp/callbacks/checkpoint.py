"""Models saved during training, from the newest of which a run goes on exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.callbacks.base import PvpCallback, Scheduled, learner, path_in_run, refuse_another_run, trained_rollouts
from sb3_pvp.common.arguments import AT_LEAST_1, Flag, NonNegativeInt, OptionalPath, PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.policies.model_files import strip
from sb3_pvp.selfplay import LEARNER, Player, file_name, player_of_file

#: The folder of a run's checkpoints inside the folder of the run.
CHECKPOINTS = "checkpoints"


class MaskableCheckpointCallback(PvpCallback):
    """Saves the model at the start of every ``save_freq``-th rollout, and at the end of training.

    Files are called ``main_STEPS_steps.zip``, as those of SB3's ``CheckpointCallback`` (self-play.md §10 #2), and are
    whole or not there. From the newest one `PvpPPO` goes on as if it had never stopped; list this callback first. The
    older ones only need to be able to act.

    Args:
        save_freq: rollouts between checkpoints, a number or a schedule.
        keep: how many of the newest files stay; ``None``: all.
        keep_spaced: so many of the older ones stay besides, as evenly spaced over the steps as they come.
        strip_optimizer: all files but the newest lose the optimiser's memory and whatever else only training needs.
        directory: for the files; ``None``: ``checkpoints`` in the folder of the run.
        verbose: 1: tells about every file.
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
    ) -> None:
        super().__init__(verbose)
        self._save_freq = Scheduled("save_freq", save_freq, AT_LEAST_1)
        self._keep, self._keep_spaced = keep, keep_spaced
        self._strip_optimizer, self._directory = strip_optimizer, directory

    def _init_callback(self) -> None:
        self._folder = path_in_run(self.model, self._directory, CHECKPOINTS)
        refuse_another_run(self.model, self._folder, (each.age for each in checkpoints(self._folder)))
        for left_by_a_kill in self._folder.glob(f".*.{LEARNER}_*_steps.zip"):
            left_by_a_kill.unlink()
        self._last_saved: int | None = None
        self._rollout, self._samples = trained_rollouts(self.model), False

    def _on_rollout_start(self) -> None:
        self._rollout, self._learner, self._samples = trained_rollouts(self.model), learner(self.model), True
        if self._save_freq.is_due(self._last_saved, self._rollout):
            self._save()

    def _on_rollout_end(self) -> None:
        self._samples = False

    def _on_training_end(self) -> None:
        # Called by whoever cleans up as well, and also when training is interrupted.
        finished = trained_rollouts(self.model)
        if finished != self._rollout:
            self._rollout, self._learner = finished, learner(self.model)
        elif not self._samples:
            return  # in the midst of learning, a state from which there is no way on
        if self._last_saved != self._rollout:
            self._save()

    def _save(self) -> None:
        path = self._folder / file_name(self._learner)
        with replacing(path) as partial:
            self.model.save(partial)
        self._last_saved = self._rollout
        if self.verbose:
            print(f"Saved {path}")
        # Files of steps to come are what is left of an attempt that was killed: they will be written again.
        old = [player for player in checkpoints(self._folder) if player.age < self._learner.age]
        newest = len(old) if self._keep is None else self._keep - 1
        recent, older = (old[-newest:], old[:-newest]) if newest else ([], old)
        kept = {*recent, *spread(older, self._keep_spaced)}
        for player in old:
            path = self._folder / file_name(player)
            if player not in kept:
                path.unlink(missing_ok=True)
            elif self._strip_optimizer and player == old[-1]:  # which was the newest until now
                with contextlib.suppress(FileNotFoundError):  # somebody else tidies up
                    strip(path)


def checkpoints(folder: Path) -> list[Player]:
    """The learners of whom there are files in the folder, by steps; other files are left alone."""
    found = []
    for path in folder.glob(f"{LEARNER}_*.zip"):
        with contextlib.suppress(ValueError):
            found.append(player_of_file(path))
    return sorted((player for player in found if player.name == LEARNER), key=lambda player: player.age)


def spread(players: Sequence[Player], count: int) -> list[Player]:
    """Those ``count`` of the players who are nearest to evenly spaced over their steps, the first one among them.

    The spacing is a power of two times what all gaps are multiples of: whoever was left out is not missed later.
    """
    if not count or len(players) <= count:
        return list(players[:count])
    steps = np.array([player.age for player in players])
    spacing = max(int(np.gcd.reduce(np.diff(steps))), 1)
    while True:
        slots = (steps - steps[0]) // spacing
        _, first = np.unique(slots, return_index=True)
        if len(first) <= count:
            return [players[index] for index in first.tolist()]
        spacing *= 2
