"""What a league knows of a fight: who fought, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sb3_pvp.common.errors import require_known
from sb3_pvp.players.league.players import Player

#: Outcomes of decided fights as the first player sees them, and its score; in the order of `Counts`.
SCORES = {"won": 1.0, "tied": 0.5, "lost": 0.0}
BROKEN = ("timeout", "target_lost", "desync")  #: Outcomes of fights that broke off: recorded, but never counted.


@dataclass(frozen=True)
class MatchDetails:
    """What an arena keeps of a fight besides its result, so that it can be played again."""

    match: str  #: Unique name of the match that the fight belongs to.
    round: int  #: Number of the arena's round, from 1; 0 for matches outside of rounds.
    challenge: str  #: Fingerprint of the challenge, which says how the fight began.
    seat: int  #: The seat of ``player_a``, 0 or 1.
    cause: str | None  #: Why a player lost other than by the rules of the game, such as ``crashed``.
    at_fault: str | None  #: That player.
    version_a: str  #: Hash of the file of ``player_a``; of what has no file, its name.
    version_b: str  #: The same of ``player_b``.
    times_a: str  #: Decision times of ``player_a``: how many in which range.
    times_b: str  #: The same of ``player_b``.
    digest: int  #: Of all observations of both seats.
    actions: bytes = b""  #: Of both seats, compressed; only `MatchLog.fight` reads them.


@dataclass(frozen=True)
class MatchRecord:
    """One fight between two different players; raises `ValueError` if a value is impossible."""

    player_a: Player  #: The player from whose side the outcome is seen.
    player_b: Player  #: The opponent, another player.
    outcome: str  #: ``won``, ``lost`` or ``tied``, as ``player_a`` sees it; or one of `BROKEN`.
    seed: int | None  #: Seed of the fight, if known; from 0 to 2**63 - 1.
    build: str | None  #: Build of the fighters, in games that have several.
    ticks: int  #: Length of the fight, in ticks.
    counted: bool  #: Whether the fight is rated; always false for `BROKEN`.
    finished_at: float  #: Unix time in seconds.
    key: str  #: Unique name of the fight, such as ``main/rollout-17/row-3/episode-2``.
    details: MatchDetails | None = None  #: Of fights in an arena.

    def __post_init__(self) -> None:
        require_known("outcome", self.outcome, [*SCORES, *BROKEN])
        if self.counted and self.outcome in BROKEN:
            raise ValueError(f"a fight that ended with {self.outcome!r} cannot be counted: pass counted=False")
        if self.player_a == self.player_b:
            raise ValueError(f"a match needs two different players, got {self.player_a} twice")
        if self.seed is not None and not 0 <= self.seed < 2**63:  # SQLite's integers are signed
            raise ValueError(f"the seed of a match must be at least 0 and below 2**63, got {self.seed}")
        if not isinstance(self.key, str) or not self.key:
            raise ValueError(f"a match needs a unique text as its key, got {self.key!r}")

    @classmethod
    def of(
        cls, a: Player, b: Player, outcome: str, ticks: int, key: str, seed: int | None = None, build: str | None = None
    ) -> MatchRecord:
        """Returns the record of a fight that has just ended; an unknown outcome is recorded as ``timeout``."""
        word = outcome if outcome in (*SCORES, *BROKEN) else "timeout"
        return cls(a, b, word, seed, build, int(ticks), outcome in SCORES, time.time(), key)

    @property
    def score(self) -> float:
        """The score of ``player_a``: 1 for a win, 0.5 for a tie, 0 for a loss."""
        return SCORES[self.outcome]
