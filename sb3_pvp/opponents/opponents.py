"""Who sits in the other seat: opponents by name, and what every opponent can do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.names import require_known
from sb3_pvp.contract import Contract
from sb3_pvp.game import Game
from sb3_pvp.opponents.scripted import ScriptedOpponent, check_script, scripts_of

#: The opponent that the world itself plays; it is no agent and obeys no masks.
WORLD_BOT = "baseline"


@runtime_checkable
class Opponent(Protocol):
    """Acts for N fights at once, with the signature of SB3's ``predict``."""

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """The state before the first tick, one row ``(N, ...)`` for the seed of each fight."""

    def predict(
        self,
        observation: NDArray[np.float32],
        state: NDArray[Any] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[Any] | None]:
        """Chooses actions, ints ``(N, heads)``, and returns them with the next state.

        Args:
            observation: what the opponent's seat sees, ``(N, D)``; or, of an opponent with an attribute ``frame_ages``
                (ascending, in ticks before the newest one), these frames, ``(N, frames, D)``.
            state: from `initial_state` or the last call; an opponent must treat every row on its own.
            episode_start: ``(N,)``, true in the first tick of a fight.
            deterministic: choose without chance.
            action_masks: flat masks ``(N, A)``.
        """


#: The learner itself, in both seats of a fight; only `NhVecEnv` has them.
SELF_PLAY = "self"

#: What ``opponent=`` accepts: one of `known_opponents`, in `NhVecEnv` also `SELF_PLAY`, the path of a model's zip file,
#: an `Opponent`, or a model of MaskablePPO.
OpponentLike = Any


def known_opponents(contract: Contract | None = None, game: Game | None = None) -> tuple[str, ...]:
    """Names that ``opponent=`` accepts, see `scripts_of`."""
    return (WORLD_BOT, *scripts_of(contract, game))


def check_opponent(opponent: OpponentLike, contract: Contract, game: Game | None = None) -> None:
    """Raises `ValueError` unless ``opponent`` is one of those above and can play this contract.

    A file that does not exist is a `FileNotFoundError`.
    """
    make_opponent(opponent, contract, game)


def make_opponent(opponent: OpponentLike, contract: Contract, game: Game | None = None) -> Opponent | None:
    """The opponent that is meant; ``None`` for the world's own bot, which needs no actions, and for `SELF_PLAY`.

    Raises like `check_opponent`.
    """
    if isinstance(opponent, str) and not is_path(opponent):
        scripts = scripts_of(contract, game)
        require_known("opponent", opponent, (WORLD_BOT, *scripts, SELF_PLAY))
        if opponent in (WORLD_BOT, SELF_PLAY):
            return None
        check_script(opponent, contract, scripts[opponent])
        return ScriptedOpponent(opponent, contract, game=game)
    if isinstance(opponent, Opponent):
        return opponent
    from sb3_pvp.opponents import models as model_opponents  # here, because it imports torch

    load = model_opponents.load_opponent if is_path(opponent) else model_opponents.model_opponent
    made = load(opponent)
    made.check(contract)
    return made


def opponent_name(opponent: OpponentLike) -> str:
    """How the opponent is called in ``info`` and in ratings; a file by its name without ``.zip``."""
    if is_path(opponent):
        return PurePath(opponent).name.removesuffix(".zip")
    return opponent if isinstance(opponent, str) else str(getattr(opponent, "name", type(opponent).__name__))


def is_path(opponent: OpponentLike) -> bool:
    """Whether it is the path of a model's file."""
    if isinstance(opponent, str):
        return opponent.endswith(".zip") or "/" in opponent or os.sep in opponent
    return isinstance(opponent, PurePath)
