"""What happened in a tick, for the variables of schedules."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class Facts(NamedTuple):
    """The records of a tick in N fights."""

    meta: Array  #: The reports, `sb3_pvp.games.osrs.meta_fields.META_DTYPE` ``(N,)``.
    amounts: Array  #: The amounts of all components, `components.AMOUNTS` ``(N,)``.
