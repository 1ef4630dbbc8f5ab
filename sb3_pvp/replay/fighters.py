"""Those who fight in a recording: how they act, and what models think."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.contract import Contract
from sb3_pvp.opponents.opponents import WORLD_BOT, Opponent, OpponentLike, is_path, make_opponent, opponent_name
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.contracts import AUTO, find_contract
from sb3_pvp.policies.loading import load
from sb3_pvp.policies.policy_files import find_model
from sb3_pvp.policies.probabilities import head_probabilities, state_values
from sb3_pvp.replay.recording import Decision, HeadChoices, Outlook, Player, decision_of, per_head

#: Of one fighter in all ticks: ``(ticks, frames, ...)`` each.
Observations = Mapping[str, NDArray[Any]]
#: What is less likely is left out.
NEXT_TO_NOTHING = 5e-5


@dataclass(frozen=True)
class Fighter:
    """A player with all that it stands for.

    Attributes:
        player: what the recording says of it.
        opponent: who acts; ``None`` for the world's bot.
        model: who thinks, if it is a model.
        frame_ages: the frames that it sees.
    """

    player: Player
    opponent: Opponent | None
    model: MaskablePPO | None
    frame_ages: tuple[int, ...]

    def act(
        self, observation: NDArray[np.float32], state: Any, is_first: bool, deterministic: bool, mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Any]:
        """Its actions ``(heads,)`` for its frames ``(frames, D)``, and its next state."""
        assert self.opponent is not None
        seen = observation if hasattr(self.opponent, "frame_ages") else observation[0]
        starts = np.array([is_first])
        actions, state = self.opponent.predict(seen[np.newaxis], state, starts, deterministic, mask[np.newaxis])
        return actions[0], state


def make_models(players: Sequence[OpponentLike]) -> list[MaskablePPO | None]:
    """The models among the players; files are read. Raises `ValueError`, or `FileNotFoundError`, for other files."""
    return [_model_of(player) for player in players]


def game_of(models: Sequence[MaskablePPO | None]) -> str | None:
    """The contract that the first model, if any, was trained in; raises `ValueError` if nobody knows."""
    for policy in (model.policy for model in models if model is not None):
        if not isinstance(policy, AutoregressivePolicy):
            raise ValueError(f"a {type(policy).__name__} does not tell what it plays: say which contract")
        contract = policy.contract or find_contract(AUTO, policy.head_sizes, policy.features)
        if contract is None:
            raise ValueError("the model plays no registered contract: say which contract")
        return contract.name
    return None


def make_fighters(
    players: Sequence[OpponentLike], models: Sequence[MaskablePPO | None], contract: Contract
) -> tuple[Fighter, Fighter]:
    """Both fighters; raises `ValueError` for names that nobody knows, and for models of another contract."""
    opponents = [make_opponent(player, contract) for player in players]
    if opponents[0] is None:
        raise ValueError("the world's bot can only sit in the second seat: let it be the opponent")
    names = _distinct([_name_of(player, contract) for player in players])
    fighters = [
        Fighter(
            Player(name, _kind(player, model), getattr(opponent, "content_hash", "")), opponent, model, _ages(opponent)
        )
        for name, player, model, opponent in zip(names, players, models, opponents, strict=True)
    ]
    return fighters[0], fighters[1]


def decisions(
    model: MaskablePPO | None,
    heads: Sequence[HeadChoices],
    observations: Observations,
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_],
) -> list[Decision]:
    """What an agent chose in T ticks, and, if it is a model, from what probabilities.

    Args:
        model: as it was in the fight, or ``None``.
        heads: of the contract.
        observations: before each tick, ``(T, ...)`` each.
        actions: ints ``(T, heads)``.
        masks: bool ``(T, A)``.
    """
    drawn: Sequence[Any] = [None] * len(actions)
    if model is not None:
        drawn = [_likely(heads, row) for row in head_probabilities(model.policy, observations, actions, masks)]
    return [decision_of(heads, *each) for each in zip(actions.tolist(), masks, drawn, strict=True)]


def outlooks(model: MaskablePPO, observations: Observations) -> list[Outlook]:
    """What a model expected when it saw these, ``(T, ...)`` each."""
    values = state_values(model.policy, observations).tolist()
    predictor = getattr(model, "outcome_predictor", None)
    wins = [None] * len(values) if predictor is None else predictor.predict(observations)["WIN"].tolist()
    return [Outlook(*each) for each in zip(values, wins, strict=True)]


def _likely(heads: Sequence[HeadChoices], probabilities: NDArray[np.float32]) -> tuple[dict[str, float], ...]:
    parts = [
        zip(head.choices, own, strict=True)
        for head, own in zip(heads, per_head(probabilities.tolist(), heads), strict=True)
    ]
    return tuple({choice.id: each for choice, each in part if each >= NEXT_TO_NOTHING} for part in parts)


def _model_of(player: OpponentLike) -> MaskablePPO | None:
    if isinstance(player, BaseAlgorithm):
        return player  # type: ignore[return-value]
    return load(find_model(player)) if is_path(player) else None


def _name_of(player: OpponentLike, contract: Contract) -> str:
    if isinstance(player, BaseAlgorithm):
        return type(player).__name__
    name = opponent_name(player)
    # rl-zoo3 calls the last model of every run like the game; its folder says more.
    is_last_of_run = is_path(player) and name == contract.name
    return Path(str(player)).absolute().parent.name if is_last_of_run else name


def _kind(player: OpponentLike, model: MaskablePPO | None) -> Any:
    if model is not None:
        return "model"
    return "bot" if isinstance(player, str) and player == WORLD_BOT else "script"


def _ages(opponent: Opponent | None) -> tuple[int, ...]:
    return tuple(getattr(opponent, "frame_ages", (0,)))


def _distinct(names: list[str]) -> list[str]:
    return names if names[0] != names[1] else [f"{name} ({number})" for number, name in enumerate(names, 1)]
