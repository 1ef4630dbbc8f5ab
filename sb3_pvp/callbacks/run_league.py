"""The league of a training run, which its callbacks share, and where the run has its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.rollouts import trained_rollouts
from sb3_pvp.selfplay import LEARNER, League, MatchMaker, Player
from sb3_pvp.selfplay.league import LEAGUE


@dataclass
class RunLeague:
    """A league, and who takes care of it.

    Attributes:
        league: the league itself.
        is_recorded: whether a `LeagueCallback` adds snapshots and matches.
    """

    league: League
    is_recorded: bool = False

    def set_anchors(self, anchors: Mapping[Player, float]) -> None:
        """Gives the league these anchors besides those that it has; what it had computed is computed again."""
        if any(self.league.anchors.get(player) != rating for player, rating in anchors.items()):
            self.league.add_anchors(anchors)


_OF_MODELS: WeakKeyDictionary[BaseAlgorithm, dict[Path, RunLeague]] = WeakKeyDictionary()


def run_folder(model: BaseAlgorithm) -> Path:
    """The folder of the run: the model's attribute ``run_folder`` if it is set, else that of its logger.

    Raises `ValueError` if there is neither: a logger that nobody has set up has no folder of its own.
    """
    folder = getattr(model, "run_folder", None) or _logger_folder(model)
    if not folder:
        raise ValueError(
            "where are the files of this run? Give the callback a directory, or set model.run_folder before learn()"
        )
    return Path(folder)


def league_folder(model: BaseAlgorithm, directory: str | Path | None) -> Path:
    """The directory, or else the folder `LEAGUE` of the run."""
    return run_folder(model) / LEAGUE if directory is None else Path(directory)


def shared_league(model: BaseAlgorithm, directory: str | Path | None) -> RunLeague:
    """The league in that folder (`league_folder`): the same object for all callbacks of a model."""
    folder = league_folder(model, directory).absolute()
    leagues = _OF_MODELS.setdefault(model, {})
    if folder not in leagues:
        leagues[folder] = RunLeague(League(folder))
    return leagues[folder]


def use_match_maker(run: RunLeague, model: BaseAlgorithm, match_maker: MatchMaker) -> None:
    """Lets the match maker choose in the league, with what it learned there before, unless the run begins anew.

    Raises `ValueError` if another kind of match maker was in use.
    """
    if trained_rollouts(model) > 0:
        run.league = League(run.league.folder, match_maker)
    else:  # what an attempt that was killed early has learned will be learned again
        run.league.match_maker = match_maker


def learner(model: BaseAlgorithm) -> Player:
    """The learner as a player; at the start of a roll-out, the one who plays it."""
    return Player(LEARNER, int(model.num_timesteps))


def refuse_another_run(model: BaseAlgorithm, kept: Path, steps: int) -> None:
    """Raises `ValueError` if the model begins a run where another one, which came so far, has kept something.

    Their players and files would have the same names.
    """
    goes_on = model.num_timesteps > 0 or getattr(model, "training_state", None) is not None
    if steps > 0 and not goes_on:
        raise ValueError(
            f"{kept} is of another run, which came as far as {steps} steps: go on with that one, from its checkpoint "
            "or with learn(..., reset_num_timesteps=False), or give the new one a folder of its own"
        )


def register(model: BaseAlgorithm, name: str, part: Any) -> None:
    """Lets the model save and resume the state of a callback, if it is a model that can (`PvpPPO`)."""
    parts = getattr(model, "resumable_parts", None)
    if parts is not None:
        parts[name] = part


def _logger_folder(model: BaseAlgorithm) -> str | None:
    # Without these two SB3 logs into a folder for temporary files.
    chosen = getattr(model, "_custom_logger", False) or model.tensorboard_log is not None
    return model.logger.get_dir() if chosen else None
