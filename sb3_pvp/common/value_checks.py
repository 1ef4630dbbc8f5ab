"""Checks of seeds, frame ages and action masks, which are more than plain numbers (`sb3_pvp.common.arguments`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sb3_pvp.common.arguments import COUNT, SEED


def check_seed(seed: object) -> int | None:
    """Returns the seed as a Python integer or ``None``; raises `ValueError` if it is anything else or negative."""
    return SEED.read("a seed", seed)


def check_frame_ages(frame_ages: int | Iterable[Any]) -> tuple[int, ...]:
    """Returns the ages in ascending order; a number n means the n newest frames (training.md §11).

    Raises `ValueError` unless they are distinct non-negative integers, at least one.
    """
    given = range(COUNT.read("", frame_ages)) if COUNT.fits(frame_ages) else frame_ages
    ages = tuple(given) if isinstance(given, Iterable) else ()
    if not ages or not all(map(COUNT.fits, ages)) or len(set(ages)) != len(ages):
        raise ValueError(
            "frame_ages must be distinct non-negative integers such as (0, 1, 2), where 0 is the newest frame, "
            f"or a positive number of frames, got {frame_ages!r}"
        )
    return tuple(sorted(int(age) for age in ages))


def check_mask(mask: Any) -> None:
    """Raises `ValueError` for an action mask with other values than 0 and 1."""
    values = np.asarray(mask)
    if values.itemsize == 1:  # as environments have them: comparing arrays would take 5 % of the time of a `predict`
        given = values.tobytes()
        if given.count(0) + given.count(1) == len(given):
            return
    if (wrong := values[values != values.astype(np.bool_)]).size:
        raise ValueError(
            f"an action mask is 0 or 1, but this one has {wrong[0]:.3g}: some wrapper rescales it, such as "
            "VecNormalize, which must leave observations alone (norm_obs=False)"
        )
