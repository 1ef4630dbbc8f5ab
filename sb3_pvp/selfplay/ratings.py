"""Everything that is computed from a match log, and kept up to date with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.selfplay.bradley_terry import BradleyTerry, fit_bradley_terry
from sb3_pvp.selfplay.elo import Elo
from sb3_pvp.selfplay.match_log import MatchLog
from sb3_pvp.selfplay.open_skill import OpenSkill
from sb3_pvp.selfplay.payoff import Counts, Payoff
from sb3_pvp.selfplay.players import Player


class Ratings:
    """Elo, OpenSkill and the payoff, all of them functions of a match log.

    Reading the log roll-out by roll-out gives the same bits as reading it at once, in any process.

    Args:
        anchors: Elo ratings of players that are given, for Elo and Bradley-Terry alike.
        k: see `Elo`.
        initial: see `Elo`; Bradley-Terry ratings have this mean if there are no anchors.

    Attributes:
        elo, open_skill, payoff: what was computed.
        position: how many records of the log were read.
        broken: how many of them do not count.
        last_key: the key of the last one.
    """

    def __init__(self, anchors: Mapping[Player, float] | None = None, k: float = 16, initial: float = 1500) -> None:
        self.elo, self.open_skill, self.payoff = Elo(k, initial, anchors), OpenSkill(), Payoff()
        self.position, self.broken = 0, 0
        self.last_key: str | None = None

    def update(self, log: MatchLog) -> None:
        """Reads what the log has got since the last time."""
        for records in log.appended(self.position):
            for rating in (self.elo, self.open_skill, self.payoff):
                rating.update(records)
            self.position += len(records)
            self.broken += sum(not record.counted for record in records)
            self.last_key = records[-1].key

    def are_of(self, log: MatchLog) -> bool:
        """Whether what was read so far is the beginning of this log."""
        return self.position == 0 or (self.last_key is not None and log.key(self.position) == self.last_key)

    def bradley_terry(self, players: Collection[Player] = ()) -> BradleyTerry:
        """Fits all games anew; ``players`` are rated even if they have not played."""
        return fit_bradley_terry(self.payoff, players, self.elo.anchors, self.elo.initial)

    def get_state(self) -> Snapshot:
        """All that was computed, as values that JSON holds without loss."""
        return {
            **self.identity,
            "position": self.position,
            "broken": self.broken,
            "last_key": self.last_key,
            "elo": self.elo.get_state(),
            "open_skill": self.open_skill.get_state(),
            "payoff": [[str(a), str(b), *counts] for a, b, counts in self.payoff.pairs()],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from `get_state`; raises `ValueError`, and changes nothing, if it has other anchors or settings."""
        check_identity(state, self.identity)
        self.position, self.broken, self.last_key = state["position"], state["broken"], state["last_key"]
        self.elo.set_state(state["elo"])
        self.open_skill.set_state(state["open_skill"])
        self.payoff = Payoff()
        for a, b, *counts in state["payoff"]:
            self.payoff.add(Player.parse(a), Player.parse(b), Counts(*counts))

    @property
    def identity(self) -> dict[str, Any]:
        """What a state must have in common with these ratings, so that they can go on from it."""
        anchors = {str(player): float(rating) for player, rating in sorted(self.elo.anchors.items())}
        return {"kind": "ratings", "version": 1, "k": self.elo.k, "initial": self.elo.initial, "anchors": anchors}
