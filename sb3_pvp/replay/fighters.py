"""Those who fight in a recording: how they act, and what models think."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.contract import Contract
from sb3_pvp.envs.observations import Observation
from sb3_pvp.game import Game
from sb3_pvp.opponents.opponents import Opponent, OpponentLike, is_path, make_opponent, opponent_name
from sb3_pvp.policies.model_files import find_model, load
from sb3_pvp.policies.probabilities import head_probabilities, state_values
from sb3_pvp.replay.recording import Decision, HeadChoices, Outlook, Player, decision_of, per_head

#: What is less likely is left out.
NEXT_TO_NOTHING = 5e-5


@dataclass
class Fighter:
    """A player with all that it stands for, and what it saw, might do and did in every tick.

    Attributes:
        player: what the recording says of it.
        opponent: who acts; ``None`` for the world's bot, of whom nothing is known.
        model: who thinks, if it is a model.
        rewards: of every tick.
    """

    player: Player
    opponent: Opponent | None
    model: MaskablePPO | None
    rewards: list[float] = field(default_factory=list)
    _state: Any = None
    _seen: list[Observation] = field(default_factory=list)
    _masks: list[NDArray[np.bool_]] = field(default_factory=list)
    _actions: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def frame_ages(self) -> tuple[int, ...]:
        """The frames that it sees."""
        return tuple(getattr(self.opponent, "frame_ages", (0,)))

    def act(self, seen: Observation, mask: NDArray[np.bool_], deterministic: bool, seed: int) -> NDArray[np.int64]:
        """Its actions ``(heads,)`` for what it sees in its own frames; ``seed`` is that of its random numbers."""
        assert self.opponent is not None
        starts = np.array([not self._actions])
        if starts[0]:
            self._state = self.opponent.initial_state([seed])
        frames = seen["observation"] if hasattr(self.opponent, "frame_ages") else seen["observation"][0]
        actions, self._state = self.opponent.predict(
            frames[np.newaxis], self._state, starts, deterministic, mask[np.newaxis]
        )
        self._seen.append(seen)
        self._masks.append(mask)
        self._actions.append(actions[0])
        return self._actions[-1]

    def told(self, heads: Sequence[HeadChoices], ticks: int) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """The `Moment`'s decisions, outlooks and rewards of this player, from the start to tick ``ticks``."""
        nothing = [None] * (ticks + 1)
        if self.opponent is None:
            return nothing, nothing, nothing
        rewards, actions, masks = [None, *self.rewards], np.stack(self._actions), np.stack(self._masks)
        if self.model is None:
            return [None, *_decisions(heads, actions, masks, nothing[1:])], nothing, rewards
        observations = {key: np.stack([each[key] for each in self._seen]) for key in self._seen[0]}
        drawn = head_probabilities(self.model.policy, observations, actions, masks)
        values = state_values(self.model.policy, observations).tolist()
        predictor = getattr(self.model, "outcome_predictor", None)
        wins = nothing[1:] if predictor is None else predictor.predict(observations)["WIN"].tolist()
        decisions = _decisions(heads, actions, masks, [_likely(heads, row) for row in drawn])
        return [None, *decisions], [*map(Outlook, values, wins), None], rewards


def model_of(player: OpponentLike) -> MaskablePPO | None:
    """The model, read if it is in a file; ``None`` for others. Raises `ValueError`, or `FileNotFoundError`."""
    if isinstance(player, BaseAlgorithm):
        return player  # type: ignore[return-value]
    return load(find_model(player)) if is_path(player) else None


def make_fighters(
    players: Sequence[OpponentLike], models: Sequence[MaskablePPO | None], contract: Contract, game: Game
) -> list[Fighter]:
    """Both fighters; raises `ValueError` for names that nobody knows, and for models of another game."""
    opponents = [make_opponent(player, contract, game) for player in players]
    if opponents[0] is None:
        raise ValueError("the world's bot can only sit in the second seat: let it be the opponent")
    names = [_name_of(player, game) for player in players]
    if names[0] == names[1]:
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    fighters = []
    for name, opponent, model in zip(names, opponents, models, strict=True):
        kind: Any = "model" if model is not None else "bot" if opponent is None else "script"
        fighters.append(Fighter(Player(name, kind, getattr(opponent, "content_hash", "")), opponent, model))
    return fighters


def _decisions(heads: Sequence[HeadChoices], *columns: Any) -> list[Decision]:
    return [decision_of(heads, chosen.tolist(), *rest) for chosen, *rest in zip(*columns, strict=True)]


def _likely(heads: Sequence[HeadChoices], probabilities: NDArray[np.float32]) -> tuple[dict[str, float], ...]:
    shares = zip(heads, per_head(probabilities.tolist(), heads), strict=True)
    pairs = (zip(head.choices, own, strict=True) for head, own in shares)
    return tuple({choice.id: each for choice, each in part if each >= NEXT_TO_NOTHING} for part in pairs)


def _name_of(player: OpponentLike, game: Game) -> str:
    if isinstance(player, BaseAlgorithm):
        return type(player).__name__
    name = opponent_name(player)
    # rl-zoo3 calls the last model of every run like the game; its folder says more.
    return Path(str(player)).absolute().parent.name if is_path(player) and name == game.name else name
