"""Opponents that were chosen, ready to play."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from os import fspath
from pathlib import PurePath
from typing import Any

import numpy as np

from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.game import Game, World
from sb3_pvp.opponents.choice import OpponentChoice
from sb3_pvp.opponents.mask_override import ActionMaskOverride
from sb3_pvp.opponents.noise import ObservationNoise
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, Opponent, is_path, make_opponent


@dataclass(frozen=True, eq=False)
class Rival:
    """An `OpponentChoice` with all that it stands for.

    Attributes:
        choice: what was chosen.
        name: what it is called in ``info``.
        opponent: who acts; ``None`` for the world's bot and in self-play.
        noise: on what it sees.
        override: of its masks.
    """

    choice: OpponentChoice
    name: str
    opponent: Opponent | None
    noise: ObservationNoise | None
    override: ActionMaskOverride | None

    @property
    def is_self(self) -> bool:
        """Whether the learner has the other seat, too."""
        return isinstance(self.choice.opponent, str) and self.choice.opponent == SELF_PLAY

    @property
    def is_bot(self) -> bool:
        """Whether the world itself plays."""
        return self.opponent is None and not self.is_self

    @property
    def frame_ages(self) -> tuple[int, ...]:
        """The frames that it sees."""
        return tuple(getattr(self.opponent, "frame_ages", (0,)))

    def get_state(self) -> Snapshot:
        """What `RivalMaker.restored` needs, plain values; an object among opponents is only told by its name."""
        plain: Snapshot = {field.name: getattr(self.choice, field.name) for field in fields(OpponentChoice)}
        opponent = self.choice.opponent
        plain["opponent"] = fspath(opponent) if isinstance(opponent, (str, PurePath)) else None
        return {**plain, "label": self.choice.label, "content_hash": getattr(self.opponent, "content_hash", None)}


class RivalMaker:
    """Makes rivals that share what is equal, so that they can be asked together.

    Args:
        world: where they play.
        game: what.
        noise_words: uint64 ``(N,)``, random numbers of the noise in each fight.
    """

    def __init__(
        self, world: World, game: Game | None, noise_words: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
    ) -> None:
        self._contract, self._game = world.contract, game
        self._bot_name = getattr(world, "bot_name", WORLD_BOT)
        self._noise_words = noise_words
        self._made: dict[tuple[str, str], Any] = {}

    def make(self, choice: OpponentChoice) -> Rival:
        """Raises `ValueError`, or `FileNotFoundError`, if such a rival is not possible."""
        noise, override = choice.noise, choice.action_mask_override
        rival = Rival(
            choice,
            choice.label,
            self._opponent(choice.opponent),
            None if noise is None else self._shared("noise", noise, lambda: self._noise(noise)),
            None if override is None else self._shared("mask", override, lambda: self._override(override)),
        )
        return replace(rival, name=self._bot_name) if rival.is_bot and choice.name is None else rival

    def restored(self, state: Snapshot, present: Iterable[Rival]) -> Rival:
        """The rival whose state it is; an object must be that of somebody who is present.

        Raises `ValueError` if that is not possible.
        """
        given = {field.name: state[field.name] for field in fields(OpponentChoice)}
        if given["opponent"] is None:
            objects = [each.choice.opponent for each in present if each.get_state()["opponent"] is None]
            named = [each for each in objects if OpponentChoice(each, given["name"]).label == state["label"]]
            if not named:
                raise ValueError(f"the snapshot has the opponent {state['label']!r}, an object that is not here")
            given["opponent"] = named[0]
        try:
            rival = self.make(OpponentChoice(**given))
        except OSError as error:
            raise ValueError(f"an opponent of the snapshot is gone: {error}") from error
        if getattr(rival.opponent, "content_hash", None) != state["content_hash"]:
            raise ValueError(f"the opponent {state['label']!r} is not what it was when the snapshot was taken")
        return rival

    def _opponent(self, opponent: Any) -> Opponent | None:
        make = partial(make_opponent, opponent, self._contract, self._game)
        if isinstance(opponent, str) and not is_path(opponent):
            return self._shared("name", opponent, make)  # type: ignore[no-any-return]
        return make()  # models have a cache of their own, which knows when files have changed

    def _noise(self, config: Any) -> ObservationNoise:
        noise = ObservationNoise(config, self._contract, len(self._noise_words))
        noise.words = self._noise_words
        return noise

    def _override(self, config: Any) -> ActionMaskOverride:
        return ActionMaskOverride(config, self._contract)

    def _shared(self, kind: str, config: Any, make: Callable[[], Any]) -> Any:
        key = (kind, repr(config))
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
