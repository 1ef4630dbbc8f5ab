"""Scripted opponents, who play through the agents' own actions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.names import require_known
from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.contract import Contract
from sb3_pvp.contract.errors import ContractError
from sb3_pvp.contract.turn import Turn
from sb3_pvp.game import Game, game_and_contract

Script = Callable[[Turn], None]

_STREAM = 1  # of a fight's seed; the world itself draws from another generator


def _noop(turn: Turn) -> None:
    """Never acts."""


def scripts_of(contract: Contract | None = None, game: Game | None = None) -> Mapping[str, Script]:
    """The scripts of a game, by name; if ``None``, of the game with this contract."""
    if game is None:
        game, _ = game_and_contract(None, None if contract is None else contract.name)
    return {"noop": _noop, **game.scripts}


def check_script(name: str, contract: Contract, script: Script) -> None:
    """Raises `ValueError` unless the contract has all observations and sub-actions that the script uses."""
    observation = np.zeros((1, contract.num_observations), np.float32)
    masks = np.ones((1, contract.num_flat_actions), bool)
    try:
        script(Turn(contract, observation, masks, np.zeros(1)))  # a turn touches all ids, whatever it sees
    except ContractError as error:
        raise ValueError(f"the opponent {name!r} cannot play {contract.name}; 'baseline' and 'noop' can") from error


class ScriptedOpponent:
    """An opponent that follows a script; it remembers nothing but its random numbers.

    Args:
        name: of the script, see `scripts_of`.
        contract: the ids that the script uses.
        mask_bug: true: every entry but the first of a head looks available, as in the original plug-ins, which mistake
            an entry's number for its mask (scripted-bots.md, part B).
        game: whose script; ``None``: that with this contract.
    """

    def __init__(self, name: str, contract: Contract, mask_bug: bool = False, game: Game | None = None) -> None:
        scripts = scripts_of(contract, game)
        require_known("script", name, scripts)
        self._script = scripts[name]
        self.name = name
        self.contract = contract
        self.mask_bug = mask_bug
        self._looks_available = np.concatenate([np.arange(size) > 0 for size in contract.head_sizes])

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        """Random state, uint64 ``(N,)``, one word for the seed of each fight."""
        return words_from_seeds(seeds, _STREAM)

    def predict(
        self,
        observation: NDArray[np.float32],
        state: NDArray[Any] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """See `sb3_pvp.opponents.opponents.Opponent.predict`; without masks all looks available, as in ``mask_bug``."""
        if state is None:
            state = self.initial_state([secrets.randbits(64) for _ in observation])
        chance, state = uniform(state)
        if deterministic:
            chance = np.zeros_like(chance)
        masks = action_masks
        if masks is None or self.mask_bug:
            masks = np.broadcast_to(self._looks_available, (len(observation), len(self._looks_available)))
        turn = Turn(self.contract, observation, masks, chance)
        self._script(turn)
        return turn.actions(), state
