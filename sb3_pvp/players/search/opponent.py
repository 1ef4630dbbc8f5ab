"""`SearchingOpponent`, ``mcts:FIGHTER?simulations=100``: a fighter that looks ahead before each move."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.game import Game, World
from sb3_pvp.players.search.search import Floats, Network, Search
from sb3_pvp.players.search.search_settings import SearchSettings, parameters_of, read_search
from sb3_pvp.policies.acting import Decision, Flags, Frames

_STREAM = 9  #: Of a fight's seed, see `sb3_pvp.players.seats`.
_CACHED = 4  #: Opponents that stay in memory while no fight uses them, with worlds for their searches.


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
        self.content_hash: str | None = None  #: Of the fighter, if it is that of a file.
        self._watched: tuple[World, NDArray[np.int64], NDArray[np.int64]] | None = None

    def watch(self, world: World, fights: NDArray[np.int64], seats: int | NDArray[np.int64]) -> None:
        """Says that the next call of `predict` is about these fights ``(N,)``, and for one seat or one in each."""
        self._watched = world, fights, np.broadcast_to(seats, fights.shape)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`: the best moves, or, with chance, moves by how often they were looked at."""
        if self._watched is None:
            raise ValueError(f"{self.name} can only play where it may copy the world, not from observations alone")
        (world, fights, seats), self._watched = self._watched, None
        words, (chance, state) = state, uniform(state)
        actions = action_masks.argmax(1)[:, np.newaxis]
        rows = np.flatnonzero(action_masks.sum(1) > 1)
        if rows.size:
            random = [None if deterministic else np.random.default_rng(int(word)) for word in words[rows]]
            found = self._search.look(world, fights[rows], seats[rows], random)
            is_sampled = not deterministic and self._search.settings.selection == "puct"
            actions[rows, 0] = found.sampled(chance[rows]) if is_sampled else found.best
        return actions, state


def network_of(model: Any) -> Network:
    """Returns the network of a model of MaskablePPO, whose values are on the scale of rewards.

    Raises `ValueError` for a model of another algorithm, and for one that sees more than the newest observation.
    """
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

    from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION
    from sb3_pvp.policies.judging import probabilities_and_values
    from sb3_pvp.policies.memory import NOT_CARRIED

    policy = model.policy
    if not isinstance(policy, MaskableActorCriticPolicy):
        raise ValueError(f"a search needs moves and values of a MaskablePPO, not of a {type(model).__name__}")
    if getattr(policy, "memory", None) is not None:
        raise ValueError(NOT_CARRIED.format(what="a search", instead="search with a fighter that has none"))
    if tuple(getattr(model, "frame_ages", None) or (0,)) != (0,):
        raise ValueError("a search looks at positions, but the model sees several frames")
    scale = np.float32(model.reward_normalizer.std if getattr(model, "normalize_reward", False) else 1)

    def ask(observations: Floats, masks: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        nothing = np.zeros((len(masks), 1), np.int64)
        seen = {OBSERVATION: observations, ACTION_MASK: masks}
        chances, values = probabilities_and_values(policy, seen, nothing, masks)
        return chances, values * scale

    return ask


def load_searching(text: str, game: Game, safe: bool = False) -> SearchingOpponent:
    """Returns the opponent that ``mcts:FIGHTER?simulations=100&selection=gumbel`` names.

    With ``safe`` nothing is unpickled. Raises `FileNotFoundError`, and `ValueError` if the fighter has no values, or
    the game cannot be searched.
    """
    from sb3_pvp.policies.files.model_files import load_opponent

    fighter, settings = read_search(text)
    # Equal for equal files, and another one when the file has changed.
    acting = load_opponent(fighter, safe)
    acting.check(game.contract)
    found = _searching(acting, fighter, game, settings, safe)  # type: ignore[arg-type]
    found.content_hash = acting.content_hash
    return found


@lru_cache(_CACHED)
def _searching(acting: Any, fighter: str, game: Game, settings: SearchSettings, safe: bool) -> SearchingOpponent:
    from sb3_pvp.policies.files.model_files import load

    name = f"{PurePath(fighter).stem}?{parameters_of(settings)}"
    return SearchingOpponent(name, game, network_of(load(fighter, safe=safe)), settings)
