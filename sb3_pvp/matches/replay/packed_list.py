"""A list whose items take little memory."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


#: Items that are kept as they are: those that are read in each tick, and all of a short fight.
PLAIN = 64


class PackedList(Sequence[T]):
    """A list that keeps all but its `PLAIN` newest items packed; what is read of these is a copy.

    A fight of a person may have thousands of ticks, and all of them are needed when it is over.
    """

    def __init__(self) -> None:
        self._older, self._newest = list[bytes](), list[T]()

    def append(self, item: T) -> None:
        """Adds an item, which can be pickled."""
        self._newest.append(item)
        if len(self._newest) > PLAIN:
            self._older.append(zlib.compress(pickle.dumps(self._newest.pop(0)), 1))

    def __len__(self) -> int:
        return len(self._older) + len(self._newest)

    @overload
    def __getitem__(self, where: int) -> T: ...
    @overload
    def __getitem__(self, where: slice) -> list[T]: ...
    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            return [self[number] for number in range(len(self))[where]]
        number = range(len(self))[where]
        if number >= len(self._older):
            return self._newest[number - len(self._older)]
        return pickle.loads(zlib.decompress(self._older[number]))  # which never left this process

    def keep(self, count: int) -> None:
        """Drops all but so many of the newest items, at least one."""
        del self._older[: max(len(self) - count, 0)]
        del self._newest[:-count]
