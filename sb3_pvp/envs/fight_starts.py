"""How the fights of an environment's rows begin in their world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.envs.observations import Seats
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import World
from sb3_pvp.opponents.opponents import WORLD_BOT
from sb3_pvp.opponents.pool import OpponentPool, Rival

#: What ``reset(options=...)`` must not tell a world: the environment does.
_OWN_OPTIONS = ("seed", "bots")


class FightStarts:
    """Starts fights between the rows of an environment and their opponents, or the partners of a pair.

    The seats of the rows change with their opponents.
    """

    def __init__(self, world: World, settings: FightSettings, seats: Seats, opponents: OpponentPool) -> None:
        self._world, self._settings, self._seats, self._opponents = world, settings, seats, opponents
        self._seeds: list[int | None] = [None] * world.num_fights
        #: Seeds for fights that nobody has started since.
        self._unused: dict[int, int] = {}
        self._joining = np.zeros(0, np.int64)
        self._is_reviewed = False
        self._pair()

    def start(self, rows: NDArray[np.int64], seeds: Sequence[int | None], options: Sequence[Mapping[str, Any]]) -> None:
        """Starts the fights of these rows, with a seed and the world's options for each.

        A common fight has the seed and the options of the first row of the pair. Raises `ValueError` for options that
        the world does not know and for half a pair; nothing has changed then.
        """
        self.review()
        for given in options:
            for name in given:
                if name in _OWN_OPTIONS:
                    raise ValueError(f"unknown reset option {name!r}: the environment says that itself")
        rivals = self._opponents.expected(rows.tolist())
        seated = [not (rival.is_self and row & 1) for row, rival in zip(rows.tolist(), rivals, strict=True)]
        given_seeds = [self._unused.get(row) if seed is None else seed for row, seed in zip(rows, seeds, strict=True)]
        starting = [
            self._options(rival, seed, given)
            for rival, seed, given, has_seat in zip(rivals, given_seeds, options, seated, strict=True)
            if has_seat
        ]
        idle = np.setdiff1d(rows[~np.array(seated)], self._seats.paired)
        leave = getattr(self._world, "leave", None)
        if idle.size and leave is not None:  # in some worlds others would wait for them
            leave(idle)
        alike = all(each == starting[0] and "seed" not in each for each in starting)
        self._world.reset(rows[seated], starting[0] if alike else starting)
        for row, seed, given_seed, has_seat in zip(rows.tolist(), seeds, given_seeds, seated, strict=True):
            if has_seat:
                self._seeds[row] = given_seed
                self._unused.pop(row, None)
            elif seed is not None:
                self._unused[row] = seed  # for when its fight is fought
        if self._opponents.change(rows, seeds):
            self._pair()
            self.review()

    def review(self) -> None:
        """Looks at the choices of opponents since the last time; raises `ValueError` for half a pair."""
        if self._is_reviewed:
            return
        wants = np.array([rival.is_self for rival in self._opponents.expected(range(self._world.num_fights))])
        alone = np.flatnonzero(wants != np.append(wants, False)[np.arange(len(wants)) ^ 1])
        if alone.size:
            row = int(alone[0])
            raise ValueError(
                f'rows {row & ~1} and {row | 1} play each other or neither of them does: "self" is for both rows of a '
                f"pair in a PvpVecEnv, and this environment has {len(wants)}"
            )
        self._joining = np.setdiff1d(np.flatnonzero(wants), self._seats.paired)
        self._is_reviewed = True

    def opponents_changed(self) -> None:
        """Somebody was chosen for a later episode."""
        self._is_reviewed = False

    def cut_short(self, over: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Rows whose fights must end although they are not over, because their partner is free to fight them."""
        joining = self._joining
        cut: NDArray[np.int64] = joining[over[joining ^ 1] & ~over[joining]]
        return cut

    def seed(self, row: int) -> int | None:
        """The seed of the row's fight, unless it goes on with the random numbers of the one before."""
        return self._seeds[int(self._seats.fight[row])]

    def get_state(self) -> Snapshot:
        """A snapshot, plain values."""
        return {"seeds": list(self._seeds), "unused": dict(self._unused)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`, when the opponents are back already."""
        self._seeds, self._unused = list(state["seeds"]), dict(state["unused"])
        self._pair()
        self.review()

    def _options(self, rival: Rival, seed: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"bots": (None, WORLD_BOT if rival.is_bot else None)}
        if not self._settings.death_match:  # worlds that know nothing of it need not
            options["death_match"] = False
        changes = rival.choice.reset_params
        if changes:
            shared = given.get("reset_params", self._settings.reset_params)
            first, second = given.get("seat_reset_params") or (shared, shared)
            given = {**given, "seat_reset_params": (first, {**second, **changes})}
        return {**options, **given, **({} if seed is None else {"seed": seed})}

    def _pair(self) -> None:
        self._seats.pair(np.array([rival.is_self for rival in self._opponents.current]))
        self._is_reviewed = False
