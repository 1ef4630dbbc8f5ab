"""Opponents: bots, scripts, models and leagues, given by name, file or object."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path, PurePath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import require_known
from sb3_pvp.common.random_words import uniform, words_from_seeds
from sb3_pvp.game import HOME_GAME, Game, find_game, game_and_contract
from sb3_pvp.game.contract import Contract, ContractError
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.players.search.search_settings import SEARCH_OF, parameters_of, read_search
from sb3_pvp.players.teams import TeamOpponent
from sb3_pvp.policies.acting import Decision, Flags, Frames, Opponent
from sb3_pvp.policies.files.shipped import MODEL_SUFFIXES, shipped_file, shipped_names

WORLD_BOT = "baseline"  #: The bot that the world itself plays; it has no agent and obeys no masks.
SELF_PLAY = "self"  #: The learner in both seats of a fight; only in `PvpVecEnv`.
LEAGUE_OF = "league:"  #: Prefix of the folder of a league, or of a run with one: a player is sampled per episode.
TEAM_OF = "team:"  #: Prefix of opponents, separated by commas, that each play an agent of the team.
TEAM_SUFFIX = ".team"  #: Of a text file with such opponents, one a line; paths are those from its folder.
_KINDS_WITHOUT_ACTIONS = ("bot", "self")

#: Values of ``opponent=``: one of `opponent_names`, `SELF_PLAY` (in `PvpVecEnv`), the path of a model file,
#: `LEAGUE_OF` and a folder, `SEARCH_OF` and a model file, `TEAM_OF` and one opponent per agent, a file of them, an
#: `Opponent`, or a model of MaskablePPO.
OpponentLike = Any
OpponentKind = Literal["bot", "self", "script", "file", "league", "search", "team", "object"]


@dataclass(frozen=True)
class OpponentChoice:
    """An opponent and how it plays, for the next episode of a row; see `PvpEnv.set_opponent`.

    Attributes:
        opponent: as in `PvpEnv`; in `PvpVecEnv` also ``"self"``, the learner in both seats of a pair's fight.
        name: its name in ``info``; by default its own name, or that of its file.
        deterministic: it acts without chance.
        delay_chance: probability per tick that it does nothing, like a late human. Its next decision is based on the
            observation from the start of the delay, under the present action masks (self-play.md §3).
        reset_params: changes to the reset parameters of its seat.
        fight_params: reset parameters of both seats in its fights, instead of the environment's.
        noise: noise on its observations, as in `PvpEnv`; schedules stay at their first value.
        action_mask_override: actions that are forbidden to it, as in `PvpEnv`; schedules stay at their first value.

    Raises:
        ValueError: for a value out of range; or if ``deterministic``, ``delay_chance``, ``noise`` or
            ``action_mask_override`` are given for the world's bot or ``"self"``, which do not act by themselves, or
            one of the last three for one that searches.
    """

    opponent: OpponentLike
    name: str | None = None
    deterministic: bool = False
    delay_chance: float = 0.0
    reset_params: Mapping[str, Any] | None = None
    noise: Mapping[str, Any] | None = None
    action_mask_override: Any = None
    fight_params: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        # Plain tests, as thousands of choices are made in every rollout; `OpponentPool` checks the rest.
        is_number = isinstance(self.delay_chance, int | float | np.number) and self.delay_chance is not True
        for name, kind, is_right in (
            ("name", "a text or None", self.name is None or (isinstance(self.name, str) and self.name)),
            ("deterministic", "true or false", isinstance(self.deterministic, bool | np.bool_)),
            ("delay_chance", "a number from 0 to 1", is_number and 0 <= self.delay_chance <= 1),
            ("reset_params", "a mapping", isinstance(self.reset_params, Mapping | None)),
            ("fight_params", "a mapping", isinstance(self.fight_params, Mapping | None)),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {kind}, got {getattr(self, name)!r}")
        # NumPy's numbers are no plain values, as snapshots have; a frozen dataclass does not allow assignments.
        vars(self).update(deterministic=bool(self.deterministic), delay_chance=float(self.delay_chance))
        for name in ("deterministic", "delay_chance", "noise", "action_mask_override"):
            if self.kind in _KINDS_WITHOUT_ACTIONS and getattr(self, name):
                raise ValueError(f"{name} is for opponents that act through actions, not for {self.opponent!r}")
        for name in ("delay_chance", "noise", "action_mask_override"):
            if self.kind == "search" and getattr(self, name):
                raise ValueError(f"{name} cannot be given for {self.opponent!r}: a search looks at the world itself")
        if self.kind == "self" and not (self.reset_params is self.fight_params is None):
            raise ValueError("in self-play both seats have the reset_params of the environment")

    @cached_property
    def kind(self) -> OpponentKind:
        """The kind of the opponent, see `kind_of`."""
        return kind_of(self.opponent)

    @property
    def label(self) -> str:
        """The name of the opponent in ``info`` and in ratings."""
        return opponent_name(self.opponent) if self.name is None else self.name


def as_choice(opponent: OpponentLike | OpponentChoice) -> OpponentChoice:
    """Returns a choice as it is, and any other opponent as a choice with default settings."""
    return opponent if isinstance(opponent, OpponentChoice) else OpponentChoice(opponent)


def playing_like(
    opponent: OpponentLike, deterministic: bool, given: bool | None = None, game: Game | None = None
) -> OpponentChoice:
    """Returns an opponent that acts like the learner, or as it is ``given``, if it is a model; others act as always.

    A model that takes its most likely actions usually beats itself when that samples, which says nothing about either.
    Raises `ValueError` if it is given for one that is not a model. ``game`` is the one whose scripts are known by name.
    """
    choice: OpponentChoice = as_choice(opponent)
    if kind_of(choice.opponent, game) in ("file", "league", "search", "team", "object"):
        return replace(choice, deterministic=deterministic if given is None else given)
    if given is not None:
        raise ValueError(f"{choice.label} is no model, which could act deterministically or not")
    return choice


def known_opponents(game: Game | None = None) -> tuple[str, ...]:
    """Returns the bots and scripts that ``opponent=`` accepts by name in a game (by default the home game)."""
    return (WORLD_BOT, *_scripts_of(game or find_game(HOME_GAME)))


def opponent_names(game: Game | None = None) -> tuple[str, ...]:
    """Returns `known_opponents` and the fighters that ship for the game: all names that ``opponent=`` accepts."""
    game = game or find_game(HOME_GAME)
    return tuple(dict.fromkeys((*known_opponents(game), *shipped_names(game.name))))


def make_opponent(opponent: OpponentLike, contract: Contract, game: Game | None = None) -> Opponent | None:
    """Builds an opponent; of a league its first player. Returns ``None`` for the world's bot and `SELF_PLAY`.

    ``game`` is by default that of the contract. Raises `ValueError` if it cannot play with this contract, and
    `FileNotFoundError` if there is no such file.
    """
    game = game or game_and_contract(None, contract.name)[0]
    # By what was given, not by what is in a file: environments without models must not import torch.
    kind = kind_of(opponent, game)
    if kind in _KINDS_WITHOUT_ACTIONS:
        return None
    if kind == "team":
        names = _team_members(opponent)
        if wrong := [each for each in names if kind_of(each, game) in ("league", "search", "team")]:
            raise ValueError(f"a team consists of fighters, which {wrong[0]!r} is not")
        members = [make_opponent(each, contract, game) for each in names]
        playing = [each for each in members if each is not None]
        if len(playing) < len(members):
            raise ValueError(f"the fighters of a team act through actions, unlike {WORLD_BOT!r} and {SELF_PLAY!r}")
        return TeamOpponent(opponent_name(opponent), playing, contract)
    if kind == "script":
        if opponent not in game.scripts:  # some games have more than they list
            require_known("opponent", opponent, (*opponent_names(game), SELF_PLAY))
        return ScriptedOpponent(opponent, contract, game)
    if isinstance(opponent, Opponent):
        return opponent
    # Here, because it imports torch, which takes seconds and is not needed by environments without model opponents.
    from sb3_pvp.policies.files.model_files import load_opponent, model_opponent

    if kind == "search":
        from sb3_pvp.players.search.opponent import load_searching

        return load_searching(opponent, game)
    if kind == "league":
        opponent = next(iter(league_players(opponent).values()))
    made = model_opponent(opponent) if kind == "object" else load_opponent(opponent)
    made.check(contract)
    return made


def kind_of(opponent: OpponentLike, game: Game | None = None) -> OpponentKind:
    """Returns how an opponent is given; other names than those of files, leagues, bot and self are scripts.

    The names of fighters that ship are files, unless they are among the scripts of the ``game``, if it is given.
    """
    if isinstance(opponent, PurePath):
        return "team" if opponent.suffix == TEAM_SUFFIX else "file"
    if not isinstance(opponent, str):
        return "object"
    if opponent in (WORLD_BOT, SELF_PLAY):
        return "bot" if opponent == WORLD_BOT else "self"
    if opponent.startswith(LEAGUE_OF):
        return "league"
    if opponent.startswith(SEARCH_OF):
        return "search"
    if opponent.startswith(TEAM_OF) or opponent.endswith(TEAM_SUFFIX):
        return "team"
    if opponent.endswith(MODEL_SUFFIXES) or "/" in opponent or os.sep in opponent:
        return "file"
    is_script = game is not None and opponent in game.scripts
    return "script" if is_script or shipped_file(opponent) is None else "file"


def is_path(opponent: OpponentLike, game: Game | None = None) -> bool:
    """Whether an opponent is given as a model file, by its path or as a fighter that ships; see `kind_of`."""
    return kind_of(opponent, game) == "file"


def opponent_name(opponent: OpponentLike) -> str:
    """Returns the name of an opponent in ``info`` and in ratings; that of a file is without its suffix."""
    if kind_of(opponent) == "team":
        if (path := PurePath(opponent)).suffix == TEAM_SUFFIX:
            return path.stem
        return "+".join(map(opponent_name, _team_members(opponent)))
    if kind_of(opponent) == "search":
        fighter, settings = read_search(opponent)
        return f"{opponent_name(fighter)}?{parameters_of(settings)}"
    if is_path(opponent):
        path = PurePath(opponent)
        return path.stem if path.suffix in MODEL_SUFFIXES else path.name
    return opponent if isinstance(opponent, str) else str(getattr(opponent, "name", type(opponent).__name__))


def _team_members(opponent: str | PurePath) -> list[str]:
    """Returns the opponents that a team consists of; `FileNotFoundError` if it is a file that is not there."""
    if isinstance(opponent, str) and opponent.startswith(TEAM_OF) and not opponent.endswith(TEAM_SUFFIX):
        return [each.strip() for each in opponent.removeprefix(TEAM_OF).split(",")]
    path = Path(opponent)
    if not path.is_file():
        raise FileNotFoundError(f"There is no team file {path}")
    names = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [str(path.parent / name) if (path.parent / name).is_file() else name for name in names]


def league_players(opponent: str) -> dict[str, str]:
    """Returns model paths of a league's players by name, in order of steps; raises `ValueError` if there are none."""
    league = _league(opponent.removeprefix(LEAGUE_OF))
    players = {str(player): str(league.path(player)) for player in league.players()}
    if not players:
        raise ValueError(f"the league in {league.folder} has no players")
    return players


@cache
def _league(folder: str) -> Any:
    from sb3_pvp.players.league.league import League  # imports openskill, which few environments need

    return League.existing(folder)


class ScriptedOpponent:
    """An opponent that follows a script of a game (by default that of the contract).

    Raises `ValueError` if the contract lacks an id that the script uses.
    """

    def __init__(self, name: str, contract: Contract, game: Game | None = None) -> None:
        game = game or game_and_contract(None, contract.name)[0]
        script = game.scripts[name] if name in game.scripts else _scripts_of(game)[name]
        self._script, self.name, self.contract = script, name, contract
        self.initial_state = partial(words_from_seeds, stream=1)  #: Returns random words, uint64 ``(N,)``.
        try:  # scripts are branch-free array code, so one trial turn looks up every id they use
            masks = np.ones((1, contract.num_flat_actions), bool)
            self._script(Turn(contract, np.zeros((1, contract.num_observations), np.float32), masks, np.zeros(1)))
        except ContractError as error:
            raise ValueError(
                f"the opponent {name!r} cannot play {contract.name}, 'baseline' and 'noop' can: {error}"
            ) from error

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`."""
        # A fresh number in every tick, used or not: the stream depends on the fight's seed alone.
        chance, state = uniform(state)
        turn = Turn(self.contract, observation, action_masks, np.zeros_like(chance) if deterministic else chance)
        self._script(turn)
        return turn.actions(), state


def _scripts_of(game: Game) -> Mapping[str, Callable[[Turn], None]]:
    return {"noop": lambda turn: None, **game.scripts}
