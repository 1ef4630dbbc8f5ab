"""Whom a learner fights and how that one plays: bots, scripts, models and leagues, by name, file or object."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.common.arguments import Flag, Kind, OptionalMapping, Share, checked
from sb3_pvp.common.names import require_known
from sb3_pvp.common.random_words import uniform, uniforms, words_from_seeds
from sb3_pvp.contract import Contract
from sb3_pvp.contract.actions import ContractError, Turn
from sb3_pvp.contract.model import loadable_contracts
from sb3_pvp.game import Game, game_and_contract

# Environments that nothing learns in do without torch, which takes seconds to import: who needs it here imports it.
if TYPE_CHECKING:
    from sb3_pvp.policies.actors import Actor
    from sb3_pvp.policies.model_files import PolicyFile
    from sb3_pvp.selfplay.league import League

WORLD_BOT = "baseline"  #: The opponent that the world itself plays; it is no agent and obeys no masks.
SELF_PLAY = "self"  #: The learner itself, in both seats of a fight; only `PvpVecEnv` has them.
LEAGUE_OF = "league:"  #: Before the folder of a league, or of a run with one: each episode has another player of it.
CACHED_MODELS = 64  #: So many models in files stay in memory although nobody fights them just now.
_UNSEATED = ("bot", "self")  #: Kinds of opponents that need no actions.
_NAME = Kind[str | None](Annotated[str, Field(min_length=1)] | None, "a text or None")

Frames = NDArray[np.float32]
Flags = NDArray[np.bool_]
#: Actions, ints ``(N, heads)``, and the next state, if there is such.
Decision = tuple[NDArray[np.int64], NDArray[Any] | None]


@runtime_checkable
class Opponent(Protocol):
    """Acts for N fights at once, with the signature of SB3's ``predict``."""

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """The state before the first tick, one row ``(N, ...)`` for the seed of each fight."""

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Chooses actions, ints ``(N, heads)``, and returns them with the next state.

        Args:
            observation: what the opponent's seat sees, ``(N, D)``; or, of an opponent with an attribute ``frame_ages``
                (ascending, in ticks before the newest one), these frames, ``(N, frames, D)``.
            state: from `initial_state` or the last call; an opponent must treat every row on its own.
            episode_start: ``(N,)``, true in the first tick of a fight.
            deterministic: choose without chance.
            action_masks: flat masks ``(N, A)``.
        """


#: What ``opponent=`` accepts: one of `known_opponents`, in `PvpVecEnv` also `SELF_PLAY`, the path of a model's zip
#: file, `LEAGUE_OF` with a folder, an `Opponent`, or a model of MaskablePPO.
OpponentLike = Any
OpponentKind = Literal["bot", "self", "script", "file", "league", "object"]


@dataclass(frozen=True)
class OpponentChoice:
    """An opponent for the next episode of a row, see `PvpEnv.set_opponent`. Raises `ValueError` for impossible values.

    What says how one acts is not for the world's bot and ``"self"``, which have no seat of an opponent's own.

    Attributes:
        opponent: what ``opponent=`` of `PvpEnv` takes; in `PvpVecEnv` also ``"self"``: the learner plays its pair's
            other seat as well.
        name: what it is called in ``info``; ``None``: the name, or that of the file.
        deterministic: it chooses without chance.
        delay_chance: probability in each tick that it does nothing, like a human who is late, and makes its next
            decision by what it saw then; action masks are those of that later tick (self-play.md §3).
        reset_params: changes to the reset parameters of its seat.
        noise: noise on its own observations, as that of `PvpEnv`; schedules stay at their first value.
        action_mask_override: what it may not do, as in `PvpEnv`; schedules stay at their first value.
    """

    opponent: OpponentLike
    name: Annotated[str | None, _NAME] = None
    deterministic: Flag = False
    delay_chance: Share = 0.0
    reset_params: OptionalMapping = None
    noise: OptionalMapping = None
    action_mask_override: Any = None

    def __post_init__(self) -> None:
        for name in ("deterministic", "delay_chance", "noise", "action_mask_override"):
            if self.kind in _UNSEATED and getattr(self, name):
                raise ValueError(f"{name} is for opponents that act through actions, not for {self.opponent!r}")
        if self.kind == "self" and self.reset_params is not None:
            raise ValueError("in self-play both seats have the reset_params of the environment")

    @cached_property
    def kind(self) -> OpponentKind:
        """What the opponent is given as."""
        return kind_of(self.opponent)

    @property
    def label(self) -> str:
        """What the opponent is called."""
        return opponent_name(self.opponent) if self.name is None else self.name


OpponentChoice.__init__ = checked(OpponentChoice.__init__)  # type: ignore[method-assign]


def as_choice(opponent: OpponentLike | OpponentChoice) -> OpponentChoice:
    """The choice itself, or a plain one of this opponent."""
    return opponent if isinstance(opponent, OpponentChoice) else OpponentChoice(opponent)


def known_opponents(contract: Contract | None = None, game: Game | None = None) -> tuple[str, ...]:
    """The bots and scripts that ``opponent=`` accepts by name, in a game or in the one with this contract."""
    return (WORLD_BOT, *_scripts_of(contract, game))


def make_opponent(opponent: OpponentLike, contract: Contract, game: Game | None = None) -> Opponent | None:
    """The opponent that is meant, of a league the first player; ``None`` for the world's own bot and `SELF_PLAY`.

    Raises `ValueError` for what cannot play this contract, and `FileNotFoundError` for a file that does not exist.
    """
    kind = kind_of(opponent)
    if kind in _UNSEATED:
        return None
    if kind == "script":
        require_known("opponent", opponent, (*known_opponents(contract, game), SELF_PLAY))
        return ScriptedOpponent(opponent, contract, game)
    if isinstance(opponent, Opponent):
        return opponent
    if kind == "league":
        opponent = next(iter(league_players(opponent).values()))
    made = model_opponent(opponent) if kind == "object" else load_opponent(opponent)
    made.check(contract)
    return made


def kind_of(opponent: OpponentLike) -> OpponentKind:
    """What the opponent is given as."""
    if not isinstance(opponent, str):
        return "file" if isinstance(opponent, PurePath) else "object"
    if opponent in (WORLD_BOT, SELF_PLAY):
        return "bot" if opponent == WORLD_BOT else "self"
    if opponent.startswith(LEAGUE_OF):
        return "league"
    return "file" if opponent.endswith(".zip") or "/" in opponent or os.sep in opponent else "script"


def is_path(opponent: OpponentLike) -> bool:
    """Whether it is the path of a model's file."""
    return kind_of(opponent) == "file"


def opponent_name(opponent: OpponentLike) -> str:
    """How the opponent is called in ``info`` and in ratings; a file by its name without ``.zip``."""
    if is_path(opponent):
        return PurePath(opponent).name.removesuffix(".zip")
    return opponent if isinstance(opponent, str) else str(getattr(opponent, "name", type(opponent).__name__))


def league_players(opponent: str) -> dict[str, str]:
    """The players of a league (`LEAGUE_OF`), one at least: paths of their models by name, in order of their steps."""
    league = _league(opponent.removeprefix(LEAGUE_OF))
    players = {str(player): str(league.path(player)) for player in league.players()}
    if not players:
        raise ValueError(f"the league in {league.folder} has no players")
    return players


@cache
def _league(folder: str) -> League:
    from sb3_pvp.selfplay.league import League  # here, because it imports what rates players

    return League.existing(folder)


class ScriptedOpponent:
    """An opponent that follows a script of a game (``None``: that with this contract).

    Raises `ValueError` if the contract has not all ids that the script uses.
    """

    def __init__(self, name: str, contract: Contract, game: Game | None = None) -> None:
        self._script, self.name, self.contract = _scripts_of(contract, game)[name], name, contract
        self.initial_state = partial(words_from_seeds, stream=1)  #: Random numbers, one word for each fight.
        try:  # a turn touches all ids, whatever it sees
            masks = np.ones((1, contract.num_flat_actions), bool)
            self._script(Turn(contract, np.zeros((1, contract.num_observations), np.float32), masks, np.zeros(1)))
        except ContractError as error:
            raise ValueError(f"the opponent {name!r} cannot play {contract.name}; 'baseline' and 'noop' can") from error

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """See `Opponent.predict`."""
        chance, state = uniform(state)
        turn = Turn(self.contract, observation, action_masks, np.zeros_like(chance) if deterministic else chance)
        self._script(turn)
        return turn.actions(), state


class ModelOpponent:
    """A frozen policy that sits in the other seat; equal ones have the same ``content_hash``.

    ``frame_ages``: the frames that it sees. ``game``: what it was trained to play, if that is known.
    """

    def __init__(self, actor: Actor, content_hash: str, frame_ages: tuple[int, ...], game: str | None = None) -> None:
        self.actor, self.content_hash, self.frame_ages, self.game = actor, content_hash, frame_ages, game
        self.initial_state = partial(words_from_seeds, stream=3)  #: Random numbers, one word for each fight.

    def check(self, contract: Contract) -> None:
        """Raises `ValueError` unless the model was trained in that contract's fights."""
        own = self.actor.frame_shape[1], self.actor.head_sizes
        asked = contract.num_observations, contract.head_sizes
        if own != asked:
            fitting = [each.name for each in loadable_contracts() if (each.num_observations, each.head_sizes) == own]
            game = self.game or " or ".join(fitting) or "which nobody knows here"
            raise ValueError(
                f"the model was trained in another game, {game}: it sees {own[0]} features and has the heads {own[1]}, "
                f"but {contract.name} has {asked[0]} and {asked[1]}"
            )

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """See `Opponent.predict`."""
        flags = np.full(len(observation), deterministic)
        return self.predict_together([self], [observation], state, episode_start, flags, action_masks)

    @staticmethod
    def predict_together(
        opponents: Sequence[ModelOpponent],
        observations: Sequence[Frames],
        state: NDArray[np.uint64],
        episode_start: Flags,
        deterministic: Flags,
        action_masks: Flags,
    ) -> Decision:
        """`predict` of several models; observations are listed, the rest has the rows of one after the other."""
        import torch as th

        from sb3_pvp.policies.actors import act_batched

        actors = [opponent.actor for opponent in opponents]
        numbers, state = uniforms(state, len(actors[0].head_sizes))
        numbers[deterministic] = -1.0
        frames = [
            th.from_numpy(np.ascontiguousarray(seen, np.float32).reshape(-1, *actor.frame_shape))
            for actor, seen in zip(actors, observations, strict=True)
        ]
        masks = th.from_numpy(np.ascontiguousarray(action_masks))
        return act_batched(actors, frames, masks, th.from_numpy(numbers)).numpy(), state


#: Models that somebody uses, by their content: however many fights and files share one, it is there once.
_models: WeakValueDictionary[str, ModelOpponent] = WeakValueDictionary()


def load_opponent(path: str | Path) -> ModelOpponent:
    """The model in that file as an opponent; the global random generators are left alone.

    Files with the same policy share one copy; a file is read again only if it has changed. Raises `FileNotFoundError`,
    and `ValueError` if it is no model of MaskablePPO, or one that sees no frames of features.
    """
    from sb3_pvp.policies.model_files import find_model

    path = find_model(path)
    status = path.stat()
    return _read_opponent(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(CACHED_MODELS)
def _read_opponent(path: Path, *version: int) -> ModelOpponent:
    from sb3_pvp.policies.model_files import PolicyFile

    return _opponent_of(PolicyFile(path))


def model_opponent(model: Any) -> ModelOpponent:
    """A model of MaskablePPO as an opponent, as it is now: what it learns later changes nothing."""
    from stable_baselines3.common.base_class import BaseAlgorithm

    from sb3_pvp.policies.model_files import PolicyFile

    if not isinstance(model, BaseAlgorithm):
        raise ValueError(f"an opponent must be a name, a path, an Opponent or a model of MaskablePPO, got {model!r}")
    return _opponent_of(PolicyFile(model))


def _opponent_of(file: PolicyFile) -> ModelOpponent:
    known = _models.get(file.content_hash)
    if known is None:
        try:
            actor = file.actor()
            # A model of `PvpPPO` tells its frames; of another one it is assumed that it saw the newest ones.
            ages = tuple(range(actor.frame_shape[0])) if file.frame_ages is None else file.frame_ages
            if len(ages) != actor.frame_shape[0]:
                raise ValueError(f"the model sees {actor.frame_shape[0]} frames, but its frame_ages are {ages}")
        except ValueError as error:
            raise ValueError(f"{file.name} cannot be an opponent: {error}") from error
        known = _models[file.content_hash] = ModelOpponent(actor, file.content_hash, ages, file.game)
    return known


def _scripts_of(contract: Contract | None, game: Game | None) -> Mapping[str, Callable[[Turn], None]]:
    if game is None:
        game, _ = game_and_contract(None, None if contract is None else contract.name)
    return {"noop": lambda turn: None, **game.scripts}
