"""Shared by all callbacks: the progress of a training run, its files and league, and the names of opponents."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.schedules import parse_schedule
from sb3_pvp.players.league import LEARNER, League, MatchRecord, Player, player_of_file
from sb3_pvp.players.league.league import LEAGUE
from sb3_pvp.players.opponents import is_path
from sb3_pvp.policies.features import ACTION_MASK, map_parts

#: Logger outputs with one line or column per tag, which hundreds of tags would make unreadable.
TABLES = ("stdout", "log", "csv")
#: Logger outputs that cannot show histograms and figures.
ALL_BUT_TENSORBOARD = (*TABLES, "json")
# By model, because several models may train in one process; weak, so that this table keeps no model alive.
_LEAGUES: WeakKeyDictionary[BaseAlgorithm, dict[Path, League]] = WeakKeyDictionary()


class PvpCallback(BaseCallback):
    """Base class with a hook for the end of each episode, whose state can be saved and resumed with the model."""

    def _resume_with_model(self, name: str, *attributes: str) -> None:
        """Lets the model save and restore these attributes under ``name``, if it supports that (`PvpPPO` does).

        A second callback of the same name in a training gets a number.
        """
        self._resumed = attributes
        parts = getattr(self.model, "resumable_parts", None)
        if parts is not None:
            number = sum(each == name or each.startswith(f"{name}-") for each in parts)
            parts[f"{name}-{number + 1}" if number else name] = self

    def get_state(self) -> dict[str, Any]:
        """Returns a copy of the resumable attributes, by name without the leading underscore."""
        return {name.removeprefix("_"): copy.deepcopy(getattr(self, name)) for name in self._resumed}

    def set_state(self, state: dict[str, Any], same_episodes: bool) -> None:
        """Restores what `get_state` returned; ``same_episodes``: the environments continue their running episodes."""
        for name in self._resumed:
            setattr(self, name, copy.deepcopy(state[name.removeprefix("_")]))

    def _on_step(self) -> bool:
        """Calls `_on_episode` for each environment that is done; never stops the training."""
        for row in np.flatnonzero(self.locals["dones"]).tolist():
            self._on_episode(row, self.locals["infos"][row])
        return True

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        """Handles the end of an episode in environment ``row``; ``info`` is that of its last step."""

    def _required_info(self, info: dict[str, Any], name: str) -> str:
        """Returns ``info[name]`` of a finished episode; raises `ValueError` if the environment does not report it."""
        if name not in info:
            raise ValueError(
                f"{type(self).__name__} needs info[{name!r}] at the end of an episode, which the training environment "
                "does not report"
            )
        return str(info[name])


class KeptRollout(NamedTuple):
    """What was seen, chosen and legal in a rollout, ``(steps, envs, …)`` each, by the names of SB3's buffers."""

    observations: Any
    actions: NDArray[Any]
    action_masks: NDArray[Any] | None


class RolloutCallback(PvpCallback):
    """Base class for a look at a whole rollout: it keeps that of an algorithm that learns from replay itself."""

    def _on_rollout_start(self) -> None:
        self._kept: list[tuple[Any, Any]] = []

    def _on_step(self) -> bool:
        """Keeps what was seen and chosen in this step; its `_on_episode` is called after that."""
        if not hasattr(self.model, "rollout_buffer"):
            # SB3 updates _last_obs only after this hook: it still holds the observations that were acted on.
            self._kept.append((map_parts(self.model._last_obs, np.copy), self.locals["actions"]))
        return super()._on_step()

    def on_rollout_end(self) -> None:
        """Leaves out a rollout that a file of its last step was resumed in: nothing of it is left to look at."""
        if self._kept or hasattr(self.model, "rollout_buffer"):
            super().on_rollout_end()

    def _rollout(self, whole: bool = False) -> Any:
        """Returns SB3's buffer, or a `KeptRollout`; ``whole``: also the rows of actors that were lost."""
        if hasattr(self.model, "rollout_buffer"):
            return self.locals["rollout_buffer"] if whole else self.model.rollout_buffer
        seen, chosen = zip(*self._kept, strict=True)
        parts = {key: np.stack([each[key] for each in seen]) for key in seen[0]} if isinstance(seen[0], dict) else {}
        return KeptRollout(parts or np.stack(seen), np.stack(chosen), parts.get(ACTION_MASK))


class Scheduled:
    """A number or a schedule over trained rollouts, whose values must be of a kind; raises `ValueError` if not."""

    def __init__(self, what: str, value: Any, kind: Kind[float]) -> None:
        self._what, self._schedule, self._kind = what, parse_schedule(value), kind
        self(0)  # fail now rather than at the first rollout

    def __call__(self, t: int) -> float:
        """Returns the value after ``t`` rollouts."""
        return self._kind.read(self._what, self._schedule(t), f" after {t} rollouts")

    def is_due(self, last: int | None, now: int) -> bool:
        """Whether this many rollouts have passed from ``last`` to ``now``; always true if ``last`` is ``None``."""
        return last is None or now - last >= self(now)


def trained_rollouts(model: BaseAlgorithm) -> int:
    """Returns the number of rollouts that the model was trained on, which is the time of schedules."""
    stock: Any = model
    if hasattr(model, "trained_rollouts"):
        return int(stock.trained_rollouts)
    if getattr(model, "target_kl", None) is not None:  # ends epochs early, so that their number says nothing
        return int(model.num_timesteps // (stock.n_steps * stock.n_envs))
    # Stock SB3 algorithms add n_epochs to _n_updates for every rollout, and save this counter with the model.
    return int(getattr(model, "_n_updates", 0)) // max(getattr(model, "n_epochs", 1), 1)


def resumes_exactly(algorithm: BaseAlgorithm | type[BaseAlgorithm]) -> bool:
    """Whether files of an algorithm have all that training needs, also environments, statistics and the replay."""
    return hasattr(algorithm, "training_state")


def path_in_run(model: BaseAlgorithm, given: str | os.PathLike[str] | None, name: str) -> Path:
    """Returns ``given``, or by default the file or folder ``name`` in the run folder.

    The run folder is the model's attribute ``run_folder`` if it is set, else the folder of its logger. Raises
    `ValueError` if the model has neither.
    """
    if given is not None:
        return Path(given)
    folder = getattr(model, "run_folder", None)
    # With neither a custom logger nor tensorboard_log, SB3 logs to a temporary folder, which is lost after the run.
    if not folder and (getattr(model, "_custom_logger", False) or model.tensorboard_log is not None):
        folder = model.logger.get_dir()
    if not folder:
        raise ValueError(
            "this run has no folder: give the callback a directory, or set model.run_folder before learn()"
        )
    return Path(folder) / name


def shared_league(model: BaseAlgorithm, directory: str | os.PathLike[str] | None) -> League:
    """Returns the league in ``directory``, by default in the run folder; all callbacks of a model share one object."""
    folder = path_in_run(model, directory, LEAGUE).absolute()
    leagues = _LEAGUES.setdefault(model, {})
    if folder not in leagues:
        leagues[folder] = League(folder)
    return leagues[folder]


def averaged(model: BaseAlgorithm, wanted: bool) -> contextlib.AbstractContextManager[None]:
    """Within it, the model's policy is its averaged one, if that is wanted; raises `ValueError` if it has none."""
    average: Any = getattr(model, "average", None)
    if wanted and average is None:
        raise ValueError("there is no averaged policy to evaluate: train a PvpPPO with ema_decay, such as 0.999")
    return cast("contextlib.AbstractContextManager[None]", average.in_place()) if wanted else contextlib.nullcontext()


def learner(model: BaseAlgorithm) -> Player:
    """Returns the learner as a player at its current step; call this at the start of a rollout for who plays it."""
    return Player(LEARNER, int(model.num_timesteps))


def is_resuming(model: BaseAlgorithm) -> bool:
    """Whether the model continues a run, rather than starting a new one."""
    return model.num_timesteps > 0 or getattr(model, "training_state", None) is not None


def check_same_run(model: BaseAlgorithm, path: Path, steps: Iterable[int]) -> None:
    """Raises `ValueError` if the model starts a new run although ``path`` holds results of another one.

    ``steps`` are the training steps of these results. A new learner would overwrite files and reuse player names.
    """
    furthest = max(steps, default=0)
    if furthest > 0 and not is_resuming(model):
        raise ValueError(
            f"{path} belongs to another run, which reached {furthest} steps: resume that run from its checkpoint or "
            "with learn(..., reset_num_timesteps=False), or give the new run a separate folder"
        )


def set_aside(model: BaseAlgorithm, path: Path) -> None:
    """Renames what another run has left at ``path``, if the model starts a new run: ``metrics-1.jsonl``, ``-2``, ..."""
    if path.exists() and not is_resuming(model):
        places = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
        path.rename(next(place for place in places if not place.exists()))


def match_record(learning: Player, opponent: Player, info: Mapping[str, Any], key: str) -> MatchRecord:
    """Returns the record of a finished match from the last ``info`` of the environment."""
    seed, ticks = info.get("seed"), info.get("episode_ticks", info.get("episode", {}).get("l", 0))
    seed = None if seed is None else int(seed) % 2**63  # seeds in the match log are non-negative 64-bit integers
    return MatchRecord.of(learning, opponent, str(info["outcome"]), ticks, key, seed, info.get("build"))


def labelled_name(player: Player, label: str) -> str:
    """Returns the player's name, prefixed with ``label``, the name of its run, if that is not empty."""
    return str(Player(f"{label}.{player.name}", player.step) if label else player)


def run_name(folder: Path) -> str:
    """Returns a name for a run, given its folder, its ``league`` folder or its ``league/players`` folder."""
    folder = folder.absolute()
    folder = folder.parent if folder.name == "players" and folder.parent.name == "league" else folder
    return clean_name(folder.parent.name if folder.name == "league" else folder.name)


def clean_name(text: str) -> str:
    """Returns the text with each part that is not allowed in a `Player` name replaced by ``_``."""
    return re.sub(r"[^\w.+-]|^[^\w]+", "_", text, flags=re.ASCII) or "_"


def player_of_opponent(name: str) -> Player:
    """Returns the player for an opponent's name in ``info``: a player's name, or a model file's without ``.zip``."""
    with contextlib.suppress(ValueError):
        return Player.parse(name)
    with contextlib.suppress(ValueError):
        return player_of_file(f"{name}.zip")
    return Player(clean_name(name))


def unique_names(targets: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Returns the opponents' names; model files that share a name are prefixed with the names of their folders.

    The same opponent may be listed several times to be met more often. Raises `ValueError` if different opponents still
    share a name: their results could not be distinguished.
    """
    unique = dict(zip(map(str, targets), names, strict=True))
    shared = Counter(unique.values())
    for target, name in zip(targets, names, strict=True):
        if shared[name] > 1 and is_path(target):
            unique[str(target)] = f"{run_name(Path(target).parent)}.{name}"
    name, number = max(Counter(unique.values()).items(), key=lambda each: each[1], default=("", 0))
    if number > 1:
        raise ValueError(f"two opponents are called {name}: rename one of the files, or its folder")
    return [unique[str(target)] for target in targets]
