"""Encodes the replies to a `reset` or `step` (``protocol.md`` §2.5 and §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import World
from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, camel_case

if TYPE_CHECKING:
    from sb3_pvp.games.osrs.remote.json_kernel import Arrays


class Views(NamedTuple):
    """What seats see after a tick, as JSON texts by *row*: twice the fight's number plus the seat, so that the
    opponent's row differs in the last bit. ``meta`` lacks its closing brace, since a reply may add to it."""

    obs: Mapping[int, bytes]
    masks: Mapping[int, bytes]
    meta: Mapping[int, bytes]

    def reply(self, row: int, with_target: bool, obs: bytes | None = None, outcome: str | None = None) -> bytes:
        """Returns the reply line of a row. ``obs`` replaces its own observation, ``with_target`` adds the opponent's
        view to ``meta``, and ``outcome`` is given only if the fight is over."""
        terminal = b"" if outcome is None else b',"terminalState":"%b"' % outcome.encode()
        target = b""
        if with_target:
            target = b',"targetObs":%b,"targetActionMasks":%b' % (self.obs[row ^ 1], self.masks[row ^ 1])
        return b'{"body":{"obs":%b,"actionMasks":%b%b,"meta":%b%b}}}\n' % (
            self.obs[row] if obs is None else obs,
            self.masks[row],
            terminal,
            self.meta[row],
            target,
        )


class ReplyEncoder:
    """Encodes the arrays of worlds of one contract: integers where this has integers, fractions elsewhere."""

    def __init__(self, contract: Contract) -> None:
        # Imported here, so that importing this package does not load Numba.
        from sb3_pvp.games.osrs.remote import json_kernel

        fields, names = _record_table()
        head_ends = np.array(contract.head_offsets[1:], np.int64)
        is_int: NDArray[np.bool_] = np.array([observation.kind == "int" for observation in contract.observations])
        tables = is_int, head_ends, fields, names
        self._write: Callable[..., None] = partial(json_kernel.write, *tables)
        self._write_from: dict[World, Callable[..., None]] = {}
        self._num_flat_actions = contract.num_flat_actions
        self._max_row_size = json_kernel.max_row_size(tables)
        self._out = np.empty(0, np.uint8)
        # Compiles the kernel now, so that the first client does not wait for it.
        self.observation(np.zeros(contract.num_observations, np.float32))

    def views(self, world: World, rows: Sequence[int], others: Sequence[int] = ()) -> Views:
        """Encodes the views of these rows; of ``others`` only observations and masks."""
        # Worlds write into the same arrays in every tick, so their flattened views are made once.
        if world not in self._write_from:
            self._write_from[world] = partial(self._write, *_by_row(world.obs, world.masks, world.report))
        all_rows = [*rows, *others]
        texts = self._texts(self._write_from[world], all_rows, len(rows))
        count = len(all_rows)
        return Views(
            obs=dict(zip(all_rows, texts[:count], strict=True)),
            masks=dict(zip(all_rows, texts[count : 2 * count], strict=True)),
            meta=dict(zip(rows, texts[2 * count :], strict=True)),
        )

    def observation(self, obs: NDArray[np.float32]) -> bytes:
        """Returns an observation ``(num_observations,)`` as a JSON array."""
        arrays = _by_row(obs, np.zeros(self._num_flat_actions, np.bool_), np.zeros(1, META_DTYPE))
        return self._texts(partial(self._write, *arrays), [0], 0)[0]

    def _texts(self, write: Callable[..., None], all_rows: list[int], num_records: int) -> list[bytes]:
        if self._out.size < len(all_rows) * self._max_row_size:
            self._out = np.empty(2 * len(all_rows) * self._max_row_size, np.uint8)  # Twice: grows seldom.
        ends = np.empty(2 * len(all_rows) + num_records, np.int64)
        write(np.array(all_rows), num_records, self._out, ends)
        whole = self._out[: ends[-1]].tobytes()  # A copy, since the buffer is reused.
        return [whole[start:end] for start, end in pairwise([0, *ends.tolist()])]


def _by_row(obs: NDArray[np.float32], masks: NDArray[np.bool_], meta: NDArray[np.void]) -> Arrays:
    records = meta.reshape(-1).view(np.uint8).reshape(-1, META_DTYPE.itemsize)
    return obs.reshape(-1, obs.shape[-1]), masks.reshape(-1, masks.shape[-1]), records


def _record_table() -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Returns the table of the fields of `META_DTYPE` and their names, see `json_kernel.Tables`."""
    from sb3_pvp.games.osrs.remote import json_kernel

    flags = {name: flag for flag, group in OPTIONAL_FIELDS.items() for name in group}
    offsets = {name: META_DTYPE.fields[name][1] for name in META_DTYPE.names or ()}  # type: ignore[index]
    table, names = [], b""
    for name in META_DTYPE.names or ():
        if name not in OPTIONAL_FIELDS:
            start, names = len(names), names + b',"%b":' % camel_case(name).encode()
            kind = json_kernel.STYLE if name in STYLE_FIELDS else json_kernel.KINDS[META_DTYPE[name].str[1:]]
            flag = offsets[flags[name]] if name in flags else json_kernel.ALWAYS
            table.append((start, len(names), offsets[name], kind, flag))
    return np.array(table, np.int64), np.frombuffer(bytearray(names), np.uint8)
