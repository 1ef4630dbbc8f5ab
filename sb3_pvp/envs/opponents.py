"""Who sits in the other seat: opponents by name, and what every opponent can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.envs.checks import require_known
from sb3_pvp.envs.scripted import SCRIPTS, ScriptedOpponent, check_script

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
            observation: what the opponent's seat sees, ``(N, D)``.
            state: from `initial_state` or the last call; an opponent must treat every row on its own.
            episode_start: ``(N,)``, true in the first tick of a fight.
            deterministic: choose without chance.
            action_masks: flat masks ``(N, A)``.
        """


#: Names that ``opponent=`` accepts.
OPPONENTS = (WORLD_BOT, *SCRIPTS)


def check_opponent(opponent: str | Opponent, contract: Contract) -> None:
    """Raises `ValueError` unless ``opponent`` is an `Opponent`, or a known name of one who can play this contract."""
    if not isinstance(opponent, Opponent):
        require_known("opponent", opponent, OPPONENTS)
        if opponent in SCRIPTS:
            check_script(str(opponent), contract)


def make_opponent(opponent: str | Opponent, contract: Contract) -> Opponent | None:
    """The opponent with that name; ``None`` for the world's own bot, which needs no actions."""
    check_opponent(opponent, contract)
    if not isinstance(opponent, str):
        return opponent
    return None if opponent == WORLD_BOT else ScriptedOpponent(opponent, contract)


def opponent_name(opponent: str | Opponent) -> str:
    """How the opponent is called in ``info`` and in ratings."""
    return opponent if isinstance(opponent, str) else str(getattr(opponent, "name", type(opponent).__name__))
