"""Players: who is rated. A player never changes, so a learner is another player after every rollout."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from pathlib import Path

import numpy as np

LEARNER = "main"  #: The name under which a training run's own learner and its snapshots play.

_NAME = re.compile(r"\w[\w.+-]*")
_TEXT = re.compile(r"([^@]*)(?:@([0-9]+))?")
_CHECKPOINT = re.compile(r"(?P<name>.+)_(?P<step>\d+)_steps")  # as SB3's ``CheckpointCallback`` calls its files


@total_ordering
@dataclass(frozen=True)
class Player:
    """A model at a training step, such as ``main@1048576``, or somebody who has no steps, such as ``baseline``.

    Players are ordered by name, then by step, if any. Raises `ValueError` for a name that is none, or ends like the
    file of a checkpoint, and for a negative step.
    """

    name: str
    step: int | None = None  #: Agent steps of training; ``None`` for a bot, a plug-in or a model of unknown age.

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or _CHECKPOINT.fullmatch(self.name):
            allowed = "letters, digits and _ . + - (such as main or main-exploiter-0), without a step"
            raise ValueError(f"a player's name must be {allowed}; got {self.name!r}")
        if self.step is not None and self.step < 0:
            raise ValueError(f"a player's step must not be negative, got {self.step}")

    @staticmethod
    @lru_cache(maxsize=10_000)
    def parse(text: str) -> Player:
        """The player with this ``str()``; raises `ValueError` for any other text."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"a player is a name, or a name@step such as main@1048576; got {text!r}")
        return Player(match[1], None if match[2] is None else int(match[2]))

    @property
    def age(self) -> int:
        """The step; -1 if there is none."""
        return -1 if self.step is None else self.step

    def __lt__(self, other: Player) -> bool:
        return (self.name, self.age) < (other.name, other.age)

    def __str__(self) -> str:
        return self.name if self.step is None else f"{self.name}@{self.step}"


def file_name(player: Player) -> str:
    """The name of the player's model file: ``main_1048576_steps.zip``, or ``baseline.zip`` without a step."""
    return f"{player.name}.zip" if player.step is None else f"{player.name}_{player.step}_steps.zip"


def player_of_file(path: str | Path) -> Player:
    """The player whose model is in this file; raises `ValueError` if the file name is no player's name."""
    stem = Path(path).stem
    match = _CHECKPOINT.fullmatch(stem)
    return Player(match["name"], int(match["step"])) if match else Player(stem)


def predecessor(player: Player, known: Collection[Player]) -> Player | None:
    """Whose ratings a new snapshot of the learner starts with (self-play.md §6): the newest ``known`` one before it.

    One without a step, who is the present model, comes before all others. ``None`` for all other players.
    """
    own = [one for one in known if player.name == one.name == LEARNER and one < player]
    present = Player(LEARNER)
    return present if present in own else max(own, default=None)


def evenly_spread(players: Sequence[Player], count: int) -> list[Player]:
    """At most so many of these, in their order; the first and the last are among them if two may be."""
    places = np.linspace(0, len(players) - 1, min(count, len(players)))
    return [players[place] for place in places.round().astype(int).tolist()]
