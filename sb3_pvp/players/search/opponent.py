"""`SearchingOpponent`, ``mcts:FIGHTER?simulations=100``: a fighter that looks ahead before each move."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.game import Game, World
from sb3_pvp.players.search.search import Floats, Network, Search, SearchSettings
from sb3_pvp.policies.acting import Decision, Flags, Frames

_STREAM = 8  #: Of a fight's seed.


class SearchingOpponent:
    """An opponent that searches the positions that it is asked about; see `sb3_pvp.policies.acting.Opponent`.

    Who asks it says before, by `watch`, what they are positions of.

    Args:
        name: of it.
        game: that is played.
        network: of the fighter.
        settings: of the search.

    Raises `ValueError` if the game cannot be searched.
    """

    def __init__(self, name: str, game: Game, network: Network, settings: SearchSettings) -> None:
        self.name, self._search, self.contract = name, Search(game, network, settings), game.contract
        self.initial_state = partial(words_from_seeds, stream=_STREAM)  #: Returns random words, uint64 ``(N,)``.
        self._watched: tuple[World, NDArray[np.int64], int] | None = None

    def watch(self, world: World, fights: NDArray[np.int64], seat: int) -> None:
        """Says that the next call of `predict` is about these fights ``(N,)``."""
        self._watched = world, fights, seat

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`: the best moves, or, with chance, moves by how often they were looked at."""
        if self._watched is None:
            raise ValueError(f"{self.name} can only play where it may copy the world, not from observations alone")
        (world, fights, seat), self._watched = self._watched, None
        words, (chance, state) = state, uniform(state)
        actions = action_masks.argmax(1)[:, np.newaxis]
        rows = np.flatnonzero(action_masks.sum(1) > 1)
        if rows.size:
            random = [None if deterministic else np.random.default_rng(int(word)) for word in words[rows]]
            found = self._search.look(world, fights[rows], np.full(rows.size, seat), random)
            is_sampled = not deterministic and self._search.settings.selection == "puct"
            actions[rows, 0] = sampled(found.policy, chance[rows]) if is_sampled else found.best
        return actions, state


def sampled(policy: Floats, chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns actions ``(B,)`` drawn from ``policy (B, A)`` with the numbers ``chance (B,)`` from 0 to 1."""
    sums = policy.cumsum(1)
    # Not beyond the last action that has any weight, whatever the sums were rounded to.
    drawn: NDArray[np.int64] = (sums <= (chance * sums[:, -1])[:, np.newaxis]).sum(1)
    return np.minimum(drawn, policy.shape[1] - 1 - (policy[:, ::-1] > 0).argmax(1))


def network_of(model: Any) -> Network:
    """Returns the network of a model of MaskablePPO; `ValueError` if it sees more than the newest observation."""
    from sb3_pvp.policies.autoregressive import probabilities_and_values
    from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION

    policy = model.policy

    def ask(observations: Floats, masks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        nothing = np.zeros((len(masks), 1), np.int64)
        return probabilities_and_values(policy, {OBSERVATION: observations, ACTION_MASK: masks}, nothing, masks)

    return ask


def load_searching(text: str, game: Game) -> SearchingOpponent:
    """Returns the opponent that ``FIGHTER?simulations=100&selection=gumbel`` names; raises `ValueError`."""
    raise NotImplementedError
