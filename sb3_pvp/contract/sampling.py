"""Choosing an action head by head under a mask and the rules between heads (contract.md §2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.contract.errors import ContractError

if TYPE_CHECKING:
    from sb3_pvp.contract.model import Contract


def split_mask(contract: Contract, flat_mask: ArrayLike) -> list[NDArray[np.bool_]]:
    """The part of each head in a flat mask ``(..., num_flat_actions)``: bool ``(..., size of the head)`` each."""
    return np.split(_checked_mask(contract, flat_mask), contract.head_offsets[1:-1], axis=-1)


def conditional_mask(contract: Contract, flat_mask: ArrayLike, chosen: ArrayLike) -> NDArray[np.bool_]:
    """What head h may choose once the heads before it chose: bool ``(..., size of head h)``, never all false.

    ``flat_mask`` is ``(..., num_flat_actions)``; ``chosen`` ints ``(..., h)``. If the mask and the rules leave
    nothing, entry 0 becomes legal. Wrong shapes and choices outside a head raise `ContractError`.
    """
    mask, earlier = _checked_mask(contract, flat_mask), _checked_choices(contract, chosen)
    head = earlier.shape[-1]
    if head == contract.num_heads:
        raise ContractError(f"all {head} heads have chosen already; there is no next head")
    begin, end = contract.head_offsets[head : head + 2]
    allowed = (mask & contract.dependencies.satisfied(_chosen_entries(contract, earlier)))[..., begin:end]
    allowed[..., 0] |= ~allowed.any(axis=-1)
    return allowed


def random_action(contract: Contract, flat_mask: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """A random legal action for each mask ``(..., num_flat_actions)``: int64 ``(..., num_heads)``.

    Every head chooses uniformly among what `conditional_mask` leaves it.
    """
    mask = _checked_mask(contract, flat_mask)
    action = np.zeros((*mask.shape[:-1], contract.num_heads), dtype=np.int64)
    for head in range(contract.num_heads):
        allowed = conditional_mask(contract, mask, action[..., :head])
        # `random` may return 0.0, and a forbidden entry must never win against that.
        action[..., head] = np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=-1)
    return action


def _checked_mask(contract: Contract, flat_mask: ArrayLike) -> NDArray[np.bool_]:
    mask = np.asarray(flat_mask)
    if mask.ndim == 0 or mask.shape[-1] != contract.num_flat_actions:
        raise ContractError(f"a flat mask of {contract.name} ends in {contract.num_flat_actions}, not {mask.shape}")
    return mask.astype(np.bool_)


def _checked_choices(contract: Contract, chosen: ArrayLike) -> NDArray[np.int64]:
    choices = np.asarray(chosen)
    if choices.ndim == 0 or choices.shape[-1] > contract.num_heads:
        raise ContractError(f"choices of {contract.name} end in at most {contract.num_heads}, not {choices.shape}")
    if choices.size and not np.issubdtype(choices.dtype, np.integer):
        raise ContractError(f"choices of {contract.name} must be integers, not {choices.dtype}")
    if np.any((choices < 0) | (choices >= np.array(contract.head_sizes[: choices.shape[-1]]))):
        raise ContractError(f"a choice lies outside its head; {contract.name} has heads of {contract.head_sizes}")
    return choices.astype(np.int64)


def _chosen_entries(contract: Contract, choices: NDArray[np.int64]) -> NDArray[np.bool_]:
    entries = np.zeros((*choices.shape[:-1], contract.num_flat_actions), dtype=np.bool_)
    np.put_along_axis(entries, choices + contract.head_offsets[: choices.shape[-1]], True, axis=-1)
    return entries
