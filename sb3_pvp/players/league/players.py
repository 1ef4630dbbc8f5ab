"""Players, which ratings refer to. A player never changes: after each rollout, the learner is a new player."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from pathlib import Path

import numpy as np

LEARNER = "main"  #: Name of a run's learner and its snapshots.

_NAME = re.compile(r"\w[\w.+-]*(\?[\w.+=&-]+)?")
_TEXT = re.compile(r"([^@]*)(?:@([0-9]+))?")
_CHECKPOINT = re.compile(r"(?P<name>.+)_(?P<step>\d+)_steps")  # file names of SB3's ``CheckpointCallback``


@total_ordering
@dataclass(frozen=True)
class Player:
    """A model at a training step, such as ``main@1048576``, or a player without steps, such as ``baseline``.

    Players are ordered by name, then by step; those without a step come first. Raises `ValueError` for names with other
    characters than letters, digits and ``_.+-``, or the ending of a checkpoint (``_1024_steps``), and negative steps.
    Parameters of a script may follow, such as ``?elo=1350&nodes=1000``.
    """

    name: str
    step: int | None = None  #: Agent steps of training; ``None`` for bots, plug-ins and models of unknown age.

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or _CHECKPOINT.fullmatch(self.name):
            allowed = "letters, digits and _ . + - (such as main or main-exploiter-0), without a step"
            raise ValueError(f"a player's name must be {allowed}; got {self.name!r}")
        if self.step is not None and not 0 <= self.step < 2**63:
            raise ValueError(f"a player's step must be at least 0 and below 2**63, got {self.step}")

    @staticmethod
    @lru_cache(maxsize=10_000)
    def parse(text: str) -> Player:
        """Returns the player with this ``str()``; raises `ValueError` for any other text."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f"a player is a name, or a name@step such as main@1048576; got {text!r}")
        return Player(match[1], None if match[2] is None else int(match[2]))

    @property
    def age(self) -> int:
        """The step; -1 without one."""
        return -1 if self.step is None else self.step

    def __lt__(self, other: Player) -> bool:
        return (self.name, self.age) < (other.name, other.age)

    def __str__(self) -> str:
        return self.name if self.step is None else f"{self.name}@{self.step}"


def file_name(player: Player) -> str:
    """Returns the name of a player's model file: ``main_1048576_steps.zip``, or ``baseline.zip`` without a step."""
    return f"{player.name}.zip" if player.step is None else f"{player.name}_{player.step}_steps.zip"


def player_of_file(path: str | Path) -> Player:
    """Returns the player of a model file, from its name; raises `ValueError` if that is no player's name."""
    stem = Path(path).stem
    match = _CHECKPOINT.fullmatch(stem)
    return Player(match["name"], int(match["step"])) if match else Player(stem)


def predecessor(player: Player, known: Collection[Player]) -> Player | None:
    """Returns the player whose rating a new snapshot of the learner starts with, if any (self-play.md §6).

    That is ``main`` without a step, the present model, if it is ``known``, else the newest snapshot before it.
    """
    earlier = [each for each in known if player.name == each.name == LEARNER and each < player]
    present = Player(LEARNER)
    return present if present in earlier else max(earlier, default=None)


def evenly_spread(players: Sequence[Player], count: int) -> list[Player]:
    """Returns at most ``count`` players at even distances, including the first and, from two on, the last."""
    indices = np.linspace(0, len(players) - 1, min(count, len(players)))
    return [players[index] for index in indices.round().astype(int).tolist()]
