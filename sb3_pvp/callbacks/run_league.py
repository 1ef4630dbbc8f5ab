"""The league of a training run, which its callbacks share, and where the run has its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.selfplay import LEARNER, League, MatchRecord, Player
from sb3_pvp.selfplay.league import LEAGUE

#: Leagues to which a `LeagueCallback` adds snapshots and matches.
RECORDED: WeakSet[League] = WeakSet()
_OF_MODELS: WeakKeyDictionary[BaseAlgorithm, dict[Path, League]] = WeakKeyDictionary()


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


def path_in_run(model: BaseAlgorithm, given: str | Path | None, name: str) -> Path:
    """The path that was given, or else the file or folder of that name in the folder of the run."""
    return run_folder(model) / name if given is None else Path(given)


def shared_league(model: BaseAlgorithm, directory: str | Path | None) -> League:
    """The league in the directory, or in the folder of the run: the same object for all callbacks of a model."""
    folder = path_in_run(model, directory, LEAGUE).absolute()
    leagues = _OF_MODELS.setdefault(model, {})
    if folder not in leagues:
        leagues[folder] = League(folder)
    return leagues[folder]


def learner(model: BaseAlgorithm) -> Player:
    """The learner as a player; at the start of a roll-out, the one who plays it."""
    return Player(LEARNER, int(model.num_timesteps))


def goes_on(model: BaseAlgorithm) -> bool:
    """Whether the model goes on with a run, and does not begin one."""
    return model.num_timesteps > 0 or getattr(model, "training_state", None) is not None


def refuse_another_run(model: BaseAlgorithm, kept: Path, steps: Iterable[int]) -> None:
    """Raises `ValueError` if the model begins a run where another one has kept something after so many ``steps``.

    Their players and files would have the same names.
    """
    furthest = max(steps, default=0)
    if furthest > 0 and not goes_on(model):
        raise ValueError(
            f"{kept} is of another run, which came as far as {furthest} steps: go on with that one, from its "
            "checkpoint or with learn(..., reset_num_timesteps=False), or give the new one a folder of its own"
        )


def match_record(learning: Player, opponent: Player, info: Mapping[str, Any], key: str) -> MatchRecord:
    """The match that has ended with this ``info`` of an environment."""
    seed, ticks = info.get("seed"), info.get("episode_ticks", info.get("episode", {}).get("l", 0))
    seed = None if seed is None else int(seed) % 2**63
    return MatchRecord.of(learning, opponent, str(info["outcome"]), ticks, key, seed, info.get("build"))


def _logger_folder(model: BaseAlgorithm) -> str | None:
    # Without these two SB3 logs into a folder for temporary files.
    chosen = getattr(model, "_custom_logger", False) or model.tensorboard_log is not None
    return model.logger.get_dir() if chosen else None
