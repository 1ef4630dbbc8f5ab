"""The recording of a fight that is on, as plain values for a page."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import orjson

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.matches.replay.page import end_event, short_labels
from sb3_pvp.matches.replay.recording import MAX_SIZE, Recording


class GrowingRecording:
    """A recording to which each tick of a fight is added when it has been played.

    Args:
        recording: of the fight, without a moment.
        viewer: what reads its scenes.

    Attributes:
        header: the recording without its moments.
        last: the newest moment; empty before the start, and after `put_away`.
        tick: the number of the last one.
        events: what has happened, see `sb3_pvp.game.Viewer.events`.
    """

    def __init__(self, recording: Recording, viewer: Any) -> None:
        self.header, self.viewer = dict(to_plain(recording)), viewer
        self.last: dict[str, Any] = {}
        self._texts: list[bytes] = []  # of the moments before, packed: dicts would be many for the garbage collector
        self.events: list[dict[str, Any]] = []
        self.tick, self._packed = -1, b""
        self._scenes: deque[Any] = deque(maxlen=2)  # as the viewer reads them

    @property
    def names(self) -> list[str]:
        """The names of both players."""
        return [each["name"] for each in self.header["players"]]

    def grow(self, moment: dict[str, Any], outcomes: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Adds a moment, at the end of the fight with the outcomes of both players; returns the events that it adds."""
        if self.last:
            self._texts.append(zlib.compress(orjson.dumps(self.last), 1))
        self.last = moment
        self.tick += 1
        self._scenes.append(self.viewer.read_scene(moment["scene"]))
        # They follow from this scene and the one before.
        last, now = len(self._scenes) - 1, self.tick
        found = [{**each, "tick": now} for each in self.viewer.events([*self._scenes]) if each["tick"] == last]
        if outcomes is not None:
            self.header["outcomes"] = [*outcomes]
            if not found or found[-1]["kind"] != "end":
                found.append(end_event(self.names, outcomes, now))
        self.events += found
        return found

    def forfeit(self, seat: int, why: str) -> None:
        """Ends the fight, which a seat has lost; -1: neither of them."""
        self.header["outcomes"] = ["lost", "won"] if seat == 0 else ["won", "lost"] if seat == 1 else ["tied", "tied"]
        self.events.append({"tick": self.tick, "kind": "end", "seat": max(seat, 0), "text": why})

    def put_away(self, moments: bytes | None = None) -> None:
        """Packs the moments of a fight that is over, or takes others in their place, JSON that zlib has packed."""
        self._packed = zlib.compress(self.moments_text(0), 1) if moments is None else moments
        self._texts, self.last = [], {}

    def moments_from(self, first: int) -> list[dict[str, Any]]:
        """Returns the moments from a number on, also if they are put away."""
        return list(orjson.loads(self.moments_text(first)))

    def moments_text(self, first: int) -> bytes:
        """Returns `moments_from` as JSON."""
        if self._packed:
            # It may come from a process with strangers' players, and could be a bomb.
            every = zlib.decompressobj().decompress(self._packed, MAX_SIZE)
            return orjson.dumps(orjson.loads(every)[first:]) if first else every
        texts = [*map(zlib.decompress, self._texts[first:])]
        if self.last and first <= self.tick:
            texts.append(orjson.dumps(self.last))
        return b"[" + b",".join(texts) + b"]"

    def content(self, hidden: Collection[str] = ()) -> dict[str, Any]:
        """Returns what a page needs, see `sb3_pvp.matches.replay.page.content_of`, without some parts of the header."""
        header = {name: value for name, value in self.header.items() if name not in hidden}
        heads = [([choice["id"] for choice in head["choices"]], head["id"]) for head in self.header["heads"]]
        labels = [short_labels(*head) for head in heads]
        return {"recording": {**header, "moments": self.moments_from(0)}, "events": self.events, "labels": labels}
