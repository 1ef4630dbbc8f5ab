"""The referee of an arena's fights: what players may do, how long they may take, and what is kept of each fight."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import one_line
from sb3_pvp.game import NUM_SEATS, World
from sb3_pvp.matches.play import PlayedFight, Referee
from sb3_pvp.players.pool import Members
from sb3_pvp.policies.acting import Decision

NOBODY, SEVERAL = -1, -2  #: What is marked while no player's code runs, or that of several in one call.
_ACTIONS = np.dtype("<i2")  #: Of the stored actions.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no observation is lost from a digest
_STEPS = 4  #: Ranges of decision times for each factor of two.
_RANGES = 160  #: Of `decision_range`: the last one begins at about 12 days.


class ArenaReferee(Referee):
    """Ends fights of players that crash, answer nonsense, or are late or illegal too often; keeps what was done.

    Args:
        players: for each fight, the numbers of the players in its two seats.
        matches: for each fight, the number of its match, in which strikes add up.
        seconds: for one decision.
        strikes: at so many late or illegal decisions the match is lost.
        match_seconds: that a player may use in a match.
        masked: numbers of the players for which masked choices are strikes.
        alone: ask each opponent by itself, so that it is always known whose code runs.
        mark: called with the number of the player whose code is about to run, `NOBODY` or `SEVERAL`.
    """

    def __init__(
        self,
        players: Sequence[tuple[int, int]],
        matches: Sequence[int],
        seconds: float,
        strikes: int,
        match_seconds: float,
        masked: Sequence[int],
        alone: bool,
        mark: Callable[[int], object],
    ) -> None:
        self._players, self._matches = np.array(players), np.array(matches)
        self._seconds, self._most_strikes, self._match_seconds = seconds, strikes, match_seconds
        self._alone, self._mark = alone, mark
        self._before: Mapping[int, bytes] = {}
        size = self._matches.max() + 1, self._players.max() + 1
        self._masked = np.isin(np.arange(size[1]), masked)
        self._late, self._illegal, self._used = np.zeros(size, int), np.zeros(size, int), np.zeros(size)

    def repeat(self, before: Mapping[int, bytes]) -> None:
        """Lets the actions of fights that were played before happen again; what players decide is only compared."""
        self._before = before

    def watch(self, world: World) -> None:
        """Implements `Referee.watch`."""
        self._world, count = world, world.num_fights
        self._sizes = np.array(world.contract.head_sizes)
        self._offsets = np.asarray(world.contract.head_offsets)[: len(self._sizes)]
        self._numbers = np.zeros(count, int)
        self._faults: dict[tuple[int, int], str] = {}  # by row and seat
        self._times = np.zeros((count, NUM_SEATS, _RANGES), np.uint32)
        self._ticks = np.zeros(count, int)
        self._history = np.zeros((count, 64, NUM_SEATS, len(self._sizes)), _ACTIONS)
        self._digests = Digests(world)
        self._again = np.zeros((count, 2), int)  # decisions that were taken again, and all

    def begin(self, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Implements `Referee.begin`."""
        self._numbers[rows], self._ticks[rows], self._times[rows] = numbers, 0, 0
        self._digests.begin(rows)
        self._faults = {place: cause for place, cause in self._faults.items() if place[0] not in set(rows.tolist())}

    def ask(self, seat: int, predict: Callable[..., Decision], members: Members, *seen: Any) -> Decision:
        """Lets players decide; for one at fault the actions are 0, and the fight `ends`."""
        frames, states, starts, deterministic, masks = seen
        if len(members) == 1 or not self._alone:
            try:
                return self._answers(seat, predict, members, frames, states, starts, deterministic, masks)
            except Exception as error:
                if len(members) == 1:
                    self._blame(seat, members[0][1], f"crashed: {type(error).__name__}: {one_line(error):.200}")
                    return np.zeros((len(masks), len(self._sizes)), np.int64), states
        # One after another, to find out who is at fault.
        parts, start = [], 0
        for number, (member, (_, fights)) in enumerate(zip(members, members, strict=True)):
            part = slice(start, start := start + len(fights))
            given = states[part], starts[part], deterministic[part], masks[part]
            parts.append(self.ask(seat, predict, [member], [frames[number]], *given))
        return np.concatenate([each for each, _ in parts]), np.concatenate([np.asarray(state) for _, state in parts])

    def _answers(self, seat: int, predict: Callable[..., Decision], members: Members, *seen: Any) -> Decision:
        """Asks in one call, and checks the answer; raises whatever the players do, and `ValueError` for nonsense."""
        rows, masks = np.concatenate([fights for _, fights in members]), seen[-1]
        players = self._players[self._numbers[rows], seat]
        is_one = bool((players == players[0]).all())
        self._mark(int(players[0]) if is_one else SEVERAL)
        began = perf_counter()
        try:
            actions, following = predict([opponent for opponent, _ in members], *seen)
        finally:
            self._mark(NOBODY)
        seconds = (perf_counter() - began) / len(rows)
        actions, states = np.asarray(actions), seen[1]
        if actions.shape != (len(rows), len(self._sizes)) or actions.dtype.kind not in "iu":
            raise ValueError(f"its actions are {actions.dtype} of shape {actions.shape}, not one integer per head")
        if ((actions < 0) | (actions >= self._sizes)).any():
            raise ValueError(f"it chose an action that does not exist: {actions.min()} or {actions.max()}")
        following = states if following is None else np.asarray(following)
        if following.shape != states.shape or following.dtype != states.dtype:
            raise ValueError(f"its state has changed its form, to {following.dtype} of shape {following.shape}")
        self._times[rows, seat, decision_range(seconds)] += 1
        matches = self._matches[self._numbers[rows]]
        if is_one or seconds <= self._seconds:
            np.add.at(self._used, (matches, players), seconds)
            np.add.at(self._late, (matches, players), int(seconds > self._seconds))
        else:
            self._alone = True  # it may have been one of them: from now on each is measured by itself
        legal = self._are_legal(actions, masks) | ~self._masked[players]
        if not legal.all():
            np.add.at(self._illegal, (matches[~legal], players[~legal]), 1)
        self._check_limits(seat, rows, matches, players)
        return self._repeated(seat, rows, actions), following

    def _repeated(self, seat: int, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns what happens: these actions, or in a fight that is repeated those of then."""
        happens = actions.copy() if self._before else actions
        for number, row in enumerate(rows.tolist() if self._before else ()):
            then = unpacked(self._before[int(self._numbers[row])], len(self._sizes))
            if self._ticks[row] < len(then):
                happens[number] = then[self._ticks[row], seat]
                self._again[row] += (actions[number] == happens[number]).all(), 1
        return happens

    def _are_legal(self, actions: NDArray[np.int64], masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns which rows have open choices in all heads; the first one of a head without any is one."""
        chosen = masks[np.arange(len(masks))[:, None], actions + self._offsets]
        if getattr(self._world, "empty_heads", False):
            chosen |= (actions == 0) & ~np.logical_or.reduceat(masks, self._offsets, axis=1)
        return np.asarray(chosen.all(axis=1))

    def _check_limits(self, seat: int, rows: NDArray[Any], matches: NDArray[Any], players: NDArray[Any]) -> None:
        late, illegal = self._late[matches, players], self._illegal[matches, players]
        used = self._used[matches, players]
        for number in np.flatnonzero((late + illegal >= self._most_strikes) | (used > self._match_seconds)).tolist():
            slow, wrong = int(late[number]), int(illegal[number])
            if slow + wrong < self._most_strikes:
                cause = f"too slow: more than {self._match_seconds:g} s in one match"
            elif slow >= wrong:
                cause = f"too slow: {slow} decisions of more than {self._seconds:g} s"
            else:
                cause = f"illegal actions: {wrong} decisions"
            self._blame(seat, rows[number : number + 1], cause)

    def _blame(self, seat: int, rows: NDArray[np.int64], cause: str) -> None:
        for row in rows.tolist():
            self._faults.setdefault((row, seat), cause)

    def see(self, rows: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Implements `Referee.see`."""
        if self._ticks[rows].max() >= self._history.shape[1]:
            self._history = np.concatenate([self._history, np.zeros_like(self._history)], axis=1)
        self._history[rows, self._ticks[rows]] = actions[rows]
        self._ticks[rows] += 1
        self._digests.add(rows)

    def ends(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Implements `Referee.ends`."""
        ended = np.zeros(self._world.num_fights, bool)
        ended[[row for row, _ in self._faults]] = True
        return ended[rows]

    def result(self, row: int, fight: PlayedFight) -> dict[str, Any]:
        """Returns plain values: those of the fight, ``faults`` of both seats, ``times``, ``digest`` and ``actions``."""
        counts = self._times[row]
        times = [" ".join(f"{n}:{own[n]}" for n in np.flatnonzero(own).tolist()) for own in counts]
        return {
            "outcome": fight.outcome,
            "ticks": fight.ticks,
            "build": fight.build,
            "faults": [self._faults.get((row, seat)) for seat in range(NUM_SEATS)],
            "times": times,
            "digest": self._digests.of(row),
            "actions": packed(self._history[row, : self._ticks[row]]),
            "agreement": self._again[row, 0] / max(self._again[row, 1], 1) if self._before else None,
        }


class Digests:
    """A number for all observations of a fight so far, of both seats, bit for bit."""

    def __init__(self, world: World) -> None:
        self._world, width = world, int(np.prod(world.obs.shape[1:]))
        self._weights = np.random.default_rng(0).integers(0, 1 << 63, width, np.uint64) | np.uint64(1)
        self._sums = np.zeros(world.num_fights, np.uint64)

    def begin(self, rows: NDArray[np.int64]) -> None:
        """Forgets what was before the fights in these rows."""
        self._sums[rows] = 0

    def add(self, rows: NDArray[np.int64]) -> None:
        """Adds the present observations of these rows."""
        bits = self._world.obs[rows].reshape(len(rows), -1).view(np.uint32).astype(np.uint64)
        self._sums[rows] = self._sums[rows] * _FACTOR + bits @ self._weights

    def of(self, row: int) -> int:
        """Returns the number of a row, with the observations after the last tick; from 0 to 2**63 - 1."""
        self.add(np.array([row]))
        return int(self._sums[row] >> np.uint64(1))


def packed(actions: NDArray[Any]) -> bytes:
    """Returns actions ``(ticks, 2, heads)`` in a few bytes."""
    return zlib.compress(np.ascontiguousarray(actions, _ACTIONS).tobytes(), 6)


def unpacked(content: bytes, num_heads: int) -> NDArray[np.int64]:
    """Returns the actions ``(ticks, 2, heads)`` in the bytes of `packed`; raises `ValueError` if they are damaged."""
    try:
        flat = np.frombuffer(zlib.decompress(content), _ACTIONS)
        return flat.reshape(-1, NUM_SEATS, num_heads).astype(np.int64)
    except (zlib.error, ValueError) as error:
        raise ValueError(f"its actions are damaged: {error}") from error


def decision_range(seconds: float) -> int:
    """Returns the number of the range of decision times that this one is in, four for each factor of two."""
    return int(np.clip(np.log2(max(seconds, 1e-9) * 1e6) * _STEPS, 0, _RANGES - 1))


def read_times(texts: Sequence[str]) -> Counter[int]:
    """Returns how many decisions were in each range, of the texts in a log; what is none is left out."""
    counts: Counter[int] = Counter()
    for text in texts:
        for part in text.split():
            number, _, count = part.partition(":")
            if number.isdigit() and count.isdigit():
                counts[min(int(number), _RANGES - 1)] += int(count)
    return counts


def time_percentile(counts: Counter[int], share: float) -> float | None:
    """Returns the seconds that this share of the decisions took at most, 19 % too long at worst; ``None`` of none."""
    left = share * counts.total()
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return float(2 ** ((number + 1) / _STEPS) / 1e6)
    return None
