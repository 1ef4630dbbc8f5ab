"""What callbacks have in common: where a training stands, its files and league, and how opponents are called."""

from __future__ import annotations

import contextlib
import copy
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.common.arguments import Kind
from sb3_pvp.opponents.opponents import is_path
from sb3_pvp.schedules import parse_schedule
from sb3_pvp.selfplay import LEARNER, League, MatchRecord, Player, player_of_file
from sb3_pvp.selfplay.league import LEAGUE

#: Outputs of a logger with a line or column for each tag, where hundreds of tags are in the way.
TABLES = ("stdout", "log", "csv")
#: Those who cannot show histograms and pictures.
ALL_BUT_TENSORBOARD = (*TABLES, "json")
#: Leagues to which a `LeagueCallback` adds snapshots and matches.
RECORDED: WeakSet[League] = WeakSet()
_OF_MODELS: WeakKeyDictionary[BaseAlgorithm, dict[Path, League]] = WeakKeyDictionary()


class PvpCallback(BaseCallback):
    """A callback that never ends the training, is told of every episode that does, and can be resumed with the run."""

    def _resume_with_model(self, name: str, *attributes: str) -> None:
        """Lets the model save and resume these attributes under this name, if it is a model that can (`PvpPPO`)."""
        self._resumed = attributes
        parts = getattr(self.model, "resumable_parts", None)
        if parts is not None:
            parts[name] = self

    def get_state(self) -> dict[str, Any]:
        """Where it stands between two rollouts."""
        return {name.removeprefix("_"): copy.deepcopy(getattr(self, name)) for name in self._resumed}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Goes back to the moment of `get_state`."""
        for name in self._resumed:
            setattr(self, name, copy.deepcopy(state[name.removeprefix("_")]))

    def _on_step(self) -> bool:
        for row in np.flatnonzero(self.locals["dones"]).tolist():
            self._on_episode(row, self.locals["infos"][row])
        return True

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        """An episode of environment ``row`` has ended, with this ``info``."""

    def _told(self, info: dict[str, Any], name: str) -> str:
        """What the environment says at the end of an episode; raises `ValueError` if it says nothing."""
        if name not in info:
            raise ValueError(
                f"{type(self).__name__} needs info[{name!r}] at the end of an episode; the training environment does "
                "not give it"
            )
        return str(info[name])


class Scheduled:
    """A number or a schedule over trained rollouts; `ValueError` at once, and when asked, for others."""

    def __init__(self, what: str, value: Any, kind: Kind[float]) -> None:
        self._what, self._schedule, self._kind = what, parse_schedule(value), kind
        self(0)

    def __call__(self, t: int) -> float:
        return self._kind.read(self._what, self._schedule(t), f" after {t} rollouts")

    def is_due(self, last: int | None, now: int) -> bool:
        """Whether to do again what is done every so many rollouts, and was done last after so many, or never."""
        return last is None or now - last >= self(now)


def trained_rollouts(model: BaseAlgorithm) -> int:
    """How many rollouts the model was trained on: what schedules count."""
    # Stock algorithms count epochs, also over save and load.
    epochs = getattr(model, "_n_updates", 0) // getattr(model, "n_epochs", 1)
    return int(getattr(model, "trained_rollouts", epochs))


def path_in_run(model: BaseAlgorithm, given: str | os.PathLike[str] | None, name: str) -> Path:
    """The path that was given, or else the file or folder of that name in the folder of the run.

    That is the model's attribute ``run_folder`` if it is set, else the folder of its logger. Raises `ValueError` if
    there is neither: a logger that nobody has set up has no folder of its own.
    """
    if given is not None:
        return Path(given)
    folder = getattr(model, "run_folder", None)
    # Without these two SB3 logs into a folder for temporary files.
    if not folder and (getattr(model, "_custom_logger", False) or model.tensorboard_log is not None):
        folder = model.logger.get_dir()
    if not folder:
        raise ValueError(
            "where are the files of this run? Give the callback a directory, or set model.run_folder before learn()"
        )
    return Path(folder) / name


def shared_league(model: BaseAlgorithm, directory: str | os.PathLike[str] | None) -> League:
    """The league in the directory, or in the folder of the run: the same object for all callbacks of a model."""
    folder = path_in_run(model, directory, LEAGUE).absolute()
    leagues = _OF_MODELS.setdefault(model, {})
    if folder not in leagues:
        leagues[folder] = League(folder)
    return leagues[folder]


def learner(model: BaseAlgorithm) -> Player:
    """The learner as a player; at the start of a rollout, the one who plays it."""
    return Player(LEARNER, int(model.num_timesteps))


def goes_on(model: BaseAlgorithm) -> bool:
    """Whether the model goes on with a run, and does not begin one."""
    return model.num_timesteps > 0 or getattr(model, "training_state", None) is not None


def refuse_another_run(model: BaseAlgorithm, kept: Path, steps: Iterable[int]) -> None:
    """Raises `ValueError` if the model begins a run where another one has kept players or files of the same names."""
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


def named(player: Player, label: str) -> str:
    """What a player is called here: players of other runs have the run's name before their own."""
    return str(Player(f"{label}.{player.name}", player.step) if label else player)


def run_name(folder: Path) -> str:
    """A name for the run whose folder, league or players these are."""
    folder = folder.absolute()
    folder = folder.parent if folder.name == "players" and folder.parent.name == "league" else folder
    return clean_name(folder.parent.name if folder.name == "league" else folder.name)


def clean_name(text: str) -> str:
    """The text without what must not be in the name of a `Player`."""
    return re.sub(r"[^\w.+-]|^[^\w]+", "_", text, flags=re.ASCII) or "_"


def player_of_opponent(name: str) -> Player:
    """The player whom environments call by this name: a player's name, or that of a model's file."""
    with contextlib.suppress(ValueError):
        return Player.parse(name)
    with contextlib.suppress(ValueError):
        return player_of_file(f"{name}.zip")
    return Player(clean_name(name))


def told_apart(targets: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The names of opponents, those that files share with the names of their folders before them.

    One may be listed twice, to be met more often. Raises `ValueError` if two opponents have one name even so: what
    happens to one would count for the other.
    """
    told = dict(zip(map(str, targets), names, strict=True))
    shared = Counter(told.values())
    for target, name in zip(targets, names, strict=True):
        if shared[name] > 1 and is_path(target):
            told[str(target)] = f"{run_name(Path(target).parent)}.{name}"
    name, number = max(Counter(told.values()).items(), key=lambda each: each[1], default=("", 0))
    if number > 1:
        raise ValueError(f"two opponents are called {name}: rename one of the files, or its folder")
    return [told[str(target)] for target in targets]
