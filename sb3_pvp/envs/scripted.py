"""Scripted opponents that play through the agents' own actions (scripted-bots.md, part B)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.contract.errors import ContractError
from sb3_pvp.envs.checks import require_known
from sb3_pvp.envs.random_words import uniform, words_from_seeds

Booleans = NDArray[np.bool_]

_STREAM = 1  # of a fight's seed; the world itself draws from another generator


class Turn:
    """One tick of N fights, as a script sees it: observations, availability and choices, all by id.

    Args:
        contract: the ids.
        observation: float32 ``(N, D)``.
        masks: flat masks, bool ``(N, A)``.
        chance: a number from [0, 1) per fight.
    """

    def __init__(
        self, contract: Contract, observation: NDArray[np.float32], masks: Booleans, chance: NDArray[np.float64]
    ) -> None:
        self._contract = contract
        self._observation = observation
        self._masks = masks
        self.chance = chance
        self._chosen = np.zeros((len(observation), contract.num_flat_actions), bool)

    def see(self, observation: str) -> NDArray[np.float32]:
        """The values of an observation, ``(N,)``."""
        return self._observation[:, self._contract.observation_index(observation)]

    def can(self, action: str) -> Booleans:
        """Where the sub-action is available, ``(N,)``."""
        return self._masks[:, self._contract.flat_index(action)]

    def choose(self, action: str, where: Booleans) -> None:
        """Selects the sub-action in the fights ``where``, bool ``(N,)``."""
        self._chosen[:, self._contract.flat_index(action)] |= where

    def actions(self) -> NDArray[np.int64]:
        """What was chosen, ints ``(N, heads)``; heads without a choice take entry 0."""
        borders = pairwise(self._contract.head_offsets)
        return np.stack([self._chosen[:, begin:end].argmax(axis=1) for begin, end in borders], axis=1)


def _noop(turn: Turn) -> None:
    """Never acts (B.1)."""


def _stayalive(turn: Turn) -> None:
    """Shoots, and eats below 60 % of its health (B.2)."""
    shoot = turn.can("ranged_attack") & turn.can("basic_ranged_attack")
    turn.choose("ranged_attack", shoot)
    turn.choose("basic_ranged_attack", shoot)
    turn.choose("eat_primary_food", (turn.see("player_health_percent") < 0.6) & turn.can("eat_primary_food"))


def _scripted(turn: Turn) -> None:
    """Eats, drinks, prays against the wielded weapon and attacks off-prayer at random (B.3)."""
    _eat(turn)
    _drink(turn)
    for style in ("mage", "ranged", "melee"):
        turn.choose(f"{style}_prayer", (turn.see(f"target_using_{style}") > 0) & turn.can(f"{style}_prayer"))
    _attack(turn)


def _eat(turn: Turn) -> None:
    health = turn.see("player_health_percent")
    primary = turn.can("eat_primary_food")
    turn.choose("eat_primary_food", (health < 0.6) & primary)
    hungry = (health < 0.4) | ((health < 0.6) & ~primary)
    turn.choose("eat_karambwan", hungry & turn.can("eat_karambwan"))


def _drink(turn: Turn) -> None:
    """The first potion that is needed and available."""
    undecided = np.ones(len(turn.chance), bool)
    for potion, level, threshold in (
        ("use_restore_potion", "prayer_points", 0.6),
        ("use_ranged_potion", "ranged_level", 0.95),
        ("use_combat_potion", "strength_level", 0.95),
    ):
        drink = undecided & (turn.see(level) < threshold) & turn.can(potion)
        turn.choose(potion, drink)
        undecided &= ~drink


_ATTACKS = (
    ("mage_attack", "use_ice_spell", "target_magic_prayer"),
    ("ranged_attack", "basic_ranged_attack", "target_ranged_prayer"),
    ("melee_attack", "basic_melee_attack", "target_melee_prayer"),
)


def _attack(turn: Turn) -> None:
    """A random style among those that are available and not protected against; ranged if that leaves none."""
    available = np.stack([turn.can(style) & turn.can(kind) for style, kind, _ in _ATTACKS], axis=1)
    unprotected = np.stack([turn.see(prayer) == 0 for *_, prayer in _ATTACKS], axis=1)
    candidates = available & unprotected
    candidates[:, 1] |= available[:, 1] & ~candidates.any(axis=1)
    count = candidates.sum(axis=1)
    wanted = np.floor(turn.chance * count) + 1
    position = candidates.cumsum(axis=1)
    for column, (style, kind, _) in enumerate(_ATTACKS):
        chosen = candidates[:, column] & (position[:, column] == wanted)
        turn.choose(style, chosen)
        turn.choose(kind, chosen)


SCRIPTS: dict[str, Callable[[Turn], None]] = {"noop": _noop, "stayalive": _stayalive, "scripted": _scripted}


def check_script(name: str, contract: Contract) -> None:
    """Raises `ValueError` unless the contract has all observations and sub-actions that the script uses."""
    observation = np.zeros((1, contract.num_observations), np.float32)
    masks = np.ones((1, contract.num_flat_actions), bool)
    try:
        SCRIPTS[name](Turn(contract, observation, masks, np.zeros(1)))  # a turn touches all ids, whatever it sees
    except ContractError as error:
        raise ValueError(f"the opponent {name!r} cannot play {contract.name}; 'baseline' and 'noop' can") from error


class ScriptedOpponent:
    """An opponent that follows one of `SCRIPTS`; it remembers nothing but its random numbers.

    Args:
        name: a key of `SCRIPTS`.
        contract: the ids that the script uses.
        mask_bug: true: every entry but the first of a head looks available, as in the original plug-ins, which mistake
            an entry's number for its mask (scripted-bots.md, part B).
    """

    def __init__(self, name: str, contract: Contract, mask_bug: bool = False) -> None:
        require_known("script", name, SCRIPTS)
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
        """See `sb3_pvp.envs.opponents.Opponent.predict`; without masks all looks available, as in ``mask_bug``."""
        if state is None:
            state = self.initial_state([secrets.randbits(64) for _ in observation])
        chance, state = uniform(state)
        if deterministic:
            chance = np.zeros_like(chance)
        masks = action_masks
        if masks is None or self.mask_bug:
            masks = np.broadcast_to(self._looks_available, (len(observation), len(self._looks_available)))
        turn = Turn(self.contract, observation, masks, chance)
        SCRIPTS[self.name](turn)
        return turn.actions(), state
