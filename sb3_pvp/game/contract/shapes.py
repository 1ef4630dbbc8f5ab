"""Observations that are an array, such as planes of a board or the pixels of a picture."""

from __future__ import annotations

from itertools import product
from math import prod

from sb3_pvp.game.contract.parts import Observation
from sb3_pvp.game.contract.rules import ContractError

AXES = 3  #: Of every array: planes of a board, or channels of an image.


def cells_of(shape: tuple[int, ...]) -> tuple[Observation, ...]:
    """Returns observations for all numbers of an array, in C order, with their place in it as id."""
    places = ("_".join(map(str, place)) for place in product(*map(range, shape)))
    return tuple(Observation(f"cell_{place}", f"The number at {place.replace('_', ', ')}.") for place in places)


def check_shape(shape: tuple[int, ...], pixels: bool, num_observations: int) -> None:
    """Raises `ContractError` unless this is the shape of an array of so many numbers, and of an image if of pixels."""
    if len(shape) != AXES or min(shape) < 1:
        raise ContractError(f"the shape of observations has {AXES} axes of at least 1, such as (8, 8, 12), got {shape}")
    if prod(shape) != num_observations:
        raise ContractError(
            f"the shape {shape} has {prod(shape)} numbers, but there are {num_observations} observations"
        )
    if pixels and shape[0] != min(shape):  # else SB3 would transpose them, for the learner only
        raise ContractError(f"pixels have their channels on the first axis, as PyTorch takes them, got {shape}")
