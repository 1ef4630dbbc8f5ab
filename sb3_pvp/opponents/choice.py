"""Whom a learner fights, and how that one plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentLike, opponent_name


@dataclass(frozen=True)
class OpponentChoice:
    """An opponent for the next episode of a row, see `NhEnv.set_opponent`. Raises `ValueError` for impossible values.

    The world's bot and ``"self"`` have no seat of an opponent's own: what describes how one acts is not for them.

    Attributes:
        opponent: what ``opponent=`` of `NhEnv` takes; in `NhVecEnv` also ``"self"``: the learner plays its pair's other
            seat as well.
        name: what it is called in ``info``; ``None``: the name, or that of the file.
        deterministic: it chooses without chance.
        delay_chance: probability in each tick that it does nothing, like a human who is late, and makes its next
            decision by what it saw then; action masks are those of that later tick (self-play.md §3).
        reset_params: changes to the reset parameters of its seat.
        noise: noise on its own observations, as that of `NhEnv`; schedules stay at their first value.
        action_mask_override: what it may not do, as in `NhEnv`; schedules stay at their first value.
    """

    opponent: OpponentLike
    name: str | None = None
    deterministic: bool = False
    delay_chance: float = 0.0
    reset_params: Mapping[str, Any] | None = None
    noise: Mapping[str, Any] | None = None
    action_mask_override: Any = None

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise ValueError(f"the name of an opponent must be a text or None, got {self.name!r}")
        if not isinstance(self.deterministic, bool):
            raise ValueError(f"deterministic must be True or False, got {self.deterministic!r}")
        chance = self.delay_chance
        if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 <= chance <= 1:
            raise ValueError(f"delay_chance must be a probability, got {chance!r}")
        if self.reset_params is not None and not isinstance(self.reset_params, Mapping):
            raise ValueError(f"reset_params must be a mapping, got {self.reset_params!r}")
        if isinstance(self.opponent, str) and self.opponent in (SELF_PLAY, WORLD_BOT):
            self._check_plain()

    @property
    def label(self) -> str:
        """What the opponent is called."""
        return opponent_name(self.opponent) if self.name is None else self.name

    def _check_plain(self) -> None:
        for name in ("deterministic", "delay_chance", "noise", "action_mask_override"):
            if getattr(self, name):
                raise ValueError(f"{name} is for opponents that act through actions, not for {self.opponent!r}")
        if self.opponent == SELF_PLAY and self.reset_params is not None:
            raise ValueError("in self-play both seats have the reset_params of the environment")


def as_choice(opponent: OpponentLike | OpponentChoice) -> OpponentChoice:
    """The choice itself, or a plain one of this opponent."""
    return opponent if isinstance(opponent, OpponentChoice) else OpponentChoice(opponent)
