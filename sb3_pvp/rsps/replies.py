"""What a fight looks like on the wire: the reply of a `reset` or `step` (``protocol.md`` §2.5 and §4).

Both seats are encoded once per tick, because what one seat sees is also its opponent's ``targetObs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.world import META_DTYPE, NUM_SEATS, OPTIONAL_FIELDS, STYLE_FIELDS, STYLE_NAMES, Style, World, camel_case

#: Masks repeat a lot, so their text is kept.
MASK_CACHE_SIZE = 8192


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Both seats of one fight after a tick, as JSON texts."""

    obs: Sequence[bytes]
    masks: Sequence[bytes]
    meta: Sequence[bytes]

    def reply(self, seat: int, with_target: bool, obs: bytes | None = None, terminal_state: str | None = None) -> bytes:
        """The reply line of a seat; ``obs`` replaces the seat's own observation, ``with_target`` adds the opponent's
        view to `meta`."""
        terminal = b"" if terminal_state is None else b',"terminalState":"%b"' % terminal_state.encode()
        other = 1 - seat
        target = b""
        if with_target:
            target = b',"targetObs":%b,"targetActionMasks":%b' % (self.obs[other], self.masks[other])
        return b'{"body":{"obs":%b,"actionMasks":%b%b,"meta":%b%b}}}\n' % (
            self.obs[seat] if obs is None else obs,
            self.masks[seat],
            terminal,
            self.meta[seat][:-1],  # without its closing brace
            target,
        )


class ReplyEncoder:
    """Encodes the arrays of a world with one contract."""

    def __init__(self, contract: Contract) -> None:
        integers = [observation.kind == "int" for observation in contract.observations]
        self._integer_runs = _runs_of_true(integers)
        bounds = list(accumulate(contract.head_sizes, initial=0))
        self._head_bounds = list(pairwise(bounds))
        self._mask_text = lru_cache(MASK_CACHE_SIZE)(self._encode_mask)
        self._meta = MetaEncoder()

    def snapshots(self, world: World, fights: NDArray[np.int64]) -> list[Snapshot]:
        """The state of these fights, in their order."""
        obs = self.observations(world.obs[fights].reshape(-1, world.obs.shape[-1]))
        masks = [self._mask_text(mask.tobytes()) for mask in world.masks[fights].reshape(-1, world.masks.shape[-1])]
        meta = self._meta.encode(world.meta[fights].reshape(-1))
        rows = [slice(first, first + NUM_SEATS) for first in range(0, len(obs), NUM_SEATS)]
        return [Snapshot(obs[row], masks[row], meta[row]) for row in rows]

    def observations(self, obs: NDArray[np.float32]) -> list[bytes]:
        """JSON arrays of ``(n, num_observations)``: integers where the contract has integers, floats elsewhere."""
        integers = obs.astype(np.int64).tolist()
        rows: list[list[float]] = obs.tolist()
        for row, integer_row in zip(rows, integers, strict=True):
            for run in self._integer_runs:
                row[run] = integer_row[run]
        return [orjson.dumps(row) for row in rows]

    def _encode_mask(self, mask: bytes) -> bytes:
        bits = np.frombuffer(mask, np.bool_).tolist()
        return orjson.dumps([bits[start:end] for start, end in self._head_bounds])


class MetaEncoder:
    """Encodes `META_DTYPE` records."""

    def __init__(self) -> None:
        names = META_DTYPE.names or ()
        position = {name: index for index, name in enumerate(names)}
        optional = {name for group in OPTIONAL_FIELDS.values() for name in group}
        always = [name for name in names if name not in optional and name not in OPTIONAL_FIELDS]
        self._always_names = [camel_case(name) for name in always]
        self._always_values = itemgetter(*(position[name] for name in always))
        self._styles = [(camel_case(name), position[name]) for name in always if name in STYLE_FIELDS]
        self._groups = [
            (position[present], [(camel_case(name), position[name], name in STYLE_FIELDS) for name in group])
            for present, group in OPTIONAL_FIELDS.items()
        ]

    def encode(self, records: NDArray[np.void]) -> list[bytes]:
        """One JSON object per record, without what is not present."""
        return [orjson.dumps(self._fields(row)) for row in records.tolist()]

    def _fields(self, row: tuple[Any, ...]) -> dict[str, Any]:
        fields = dict(zip(self._always_names, self._always_values(row), strict=True))
        for name, position in self._styles:
            fields[name] = STYLE_NAMES[row[position]]
        for present, group in self._groups:
            if row[present]:
                self._add_group(fields, group, row)
        return fields

    def _add_group(self, fields: dict[str, Any], group: list[tuple[str, int, bool]], row: tuple[Any, ...]) -> None:
        for name, position, is_style in group:
            value = row[position]
            if not is_style:
                fields[name] = value
            elif value != Style.NONE:
                fields[name] = STYLE_NAMES[value]


def _runs_of_true(flags: list[bool]) -> list[slice]:
    """The slices of consecutive true entries."""
    runs, start = [], 0
    for value, group in groupby(flags):
        end = start + len(list(group))
        if value:
            runs.append(slice(start, end))
        start = end
    return runs
