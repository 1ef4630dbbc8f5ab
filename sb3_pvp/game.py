"""The seam, and the first file to read: the plug-in knows no game, and a game knows no trainer; they meet here.

A *world* runs F fights of two seats in arrays. A *game* makes worlds, and says what their reports are worth, what to
log of them, how they look and who plays without having learned; `sb3_pvp.simple_game` has parts for most games.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel

from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.names import loadable, unknown_name
from sb3_pvp.contract import Contract, add_contract_source, load_contract

if TYPE_CHECKING:
    from sb3_pvp.contract.actions import Turn
    from sb3_pvp.simple_game import Metric

NUM_SEATS = 2


class WorldError(RuntimeError):
    """A world cannot go on, or not well enough; the message says what to do."""


class Outcome(IntEnum):
    """How a fight ended, from one seat's point of view; from `TARGET_LOST` on it broke off, and says nothing."""

    RUNNING = 0
    WON = 1
    LOST = 2
    TIED = 3
    TARGET_LOST = 4
    DESYNC = 5


class DesyncReason(IntEnum):
    """Why an `Outcome.DESYNC` was given."""

    NONE = 0
    TICK = 1  # the world played ticks without this seat's actions
    TIME = 2  # the actions came too late
    CONNECTION = 3  # the server closed the connection, most likely because it is gone
    IDLE = 4  # nobody had played for so long that the agents logged out, to hold up nobody else


class World(Protocol):
    """F fights of two seats. Its arrays stay the same objects: `reset` and `step` overwrite them in place.

    A fight that is over keeps its outcome until it is reset. Some worlds can do more: `Resumable`, `Leavable`,
    `Grouped`. Or they have ``desync_reason``, `DesyncReason` numbers ``(F, 2)``; ``bot_name`` of the bot that plays in
    the world itself, if not "baseline"; ``empty_heads``, true: masks may leave a head nothing but its first action.
    """

    contract: Contract
    num_fights: int
    obs: NDArray[np.float32]  #: What each seat sees, ``(F, 2, num_observations)``.
    #: Flat action masks ``(F, 2, num_flat_actions)``; a seat whose turn it is not has exactly one legal action.
    masks: NDArray[np.bool_]
    outcome: NDArray[np.uint8]  #: `Outcome` numbers ``(F, 2)``.
    ticks: NDArray[Any]  #: Ticks since the last reset, ints ``(F,)``.
    report: NDArray[np.void]  #: The game's own record of the tick ``(F, 2)``; may be empty. Only the game reads it.

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Starts new episodes in these fights (all if ``None``); `ValueError`, and nothing changed, for wrong options.

        ``options`` are shared, or one mapping for each: ``seed`` (a shared one seeds the k-th of these fights with
        ``seed + k``), ``reset_params`` of both seats or ``seat_reset_params`` (a pair), ``bots`` (a pair, not ``None``
        where the world itself plays), and what else the world knows.
        """

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays a tick: ``actions`` are ints ``(F, 2, heads)``, or a row for each of ``fights``; else `ValueError`."""

    def close(self) -> None:
        """Releases whatever the world holds."""


@runtime_checkable
class Resumable(Protocol):
    """A world that can be put back to any moment; without this environments cannot be resumed exactly."""

    def get_state(self) -> dict[str, Any]:
        """All that its future depends on: copies, plain values and arrays."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to that moment; `ValueError`, and nothing changed, for a state of something else."""


@runtime_checkable
class Leavable(Protocol):
    """A world in which others would wait for whoever does not play."""

    def leave(self, fights: ArrayLike) -> None:
        """Nobody plays in these fights before their next reset."""


@runtime_checkable
class Grouped(Protocol):
    """A world whose fights are of several kinds, of which figures are told apart."""

    def build_name(self, fight: int) -> str:
        """The kind of the present fight."""


@dataclass(frozen=True)
class Transition:
    """What happened to N seats in one tick; copies, which stay as they are when the world goes on."""

    report: NDArray[np.void]  #: The records ``(N,)`` of the seats, see `World.report`.
    previous: NDArray[np.void]  #: Those of the tick before.
    has_previous: NDArray[np.bool_]  #: False in an episode's first tick: what `previous` holds there means nothing.
    outcome: NDArray[np.uint8]  #: `Outcome` numbers ``(N,)``.

    @classmethod
    def nothing(cls, count: int, dtype: np.dtype[np.void]) -> Transition:
        """The tick before the first one."""
        return cls(*(np.zeros(count, each) for each in (dtype, dtype, bool, np.uint8)))


class Rewards(Protocol):
    """What a tick is worth, in named terms, for a whole batch at once."""

    @property
    def terms(self) -> Mapping[str, str]:
        """What each term is for, in one sentence; in the order of the rows of `compute`."""

    @property
    def tags(self) -> Mapping[str, str]:
        """The name of the weight behind each of the `figures`."""

    def weights(self, changes: Any = None) -> Any:
        """The defaults with these numbers or schedules in place of some, which can be compared and pickled.

        Weights that it has made stay as they are. `ValueError` for unknown names and impossible values.
        """

    def at(self, weights: Any, trained_rollouts: int) -> Any:
        """What `compute` takes after so many rollouts; it is asked for when the time of schedules moves."""

    def figures(self, weights: Any, trained_rollouts: int) -> Mapping[str, float]:
        """The weights as numbers, for the log."""

    def compute(self, transition: Transition, weights: Any) -> NDArray[np.float32]:
        """The terms of a tick, a new float32 ``(terms, N)``, 0 where a fight broke off; ``weights`` come from `at`."""


class Metrics(Protocol):
    """What is logged of a game's reports, besides outcomes, rewards and durations, which the plug-in logs itself."""

    table: Sequence[Metric]
    #: Fields of which ``info["episode_statistics"]`` tells, and flags: the fields that only count where these are set.
    values: Sequence[str]
    optional: Mapping[str, Sequence[str]]


class Viewer(Protocol):
    """How a game looks. A *scene* is a frozen dataclass of plain values, of the viewer's own kind, with ``outcome``.

    For recordings (`sb3_pvp.replay`) it also has ``read_scene(plain)``, ``events(scenes)`` and ``page()``, and may have
    ``recordings`` and ``read_recording(path, number)``.
    """

    def scene(
        self,
        world: World,
        fight: int,
        names: Sequence[str],
        actions: Sequence[NDArray[np.int64] | None] = (None, None),
        masks: Sequence[NDArray[np.bool_] | None] = (None, None),
    ) -> Any:
        """The last tick of a fight; what was chosen, and from what, is ``None`` where nobody knows."""

    def text(self, scene: Any, color: bool = True) -> str:
        """For a terminal."""

    def picture(self, scene: Any) -> NDArray[np.uint8]:
        """Uint8 ``(height, width, 3)``."""


class Game(Protocol):
    """A game. Yours is a subclass, named ``module:object`` or, after `register_game`, by its name."""

    name: str
    contract: Contract
    rewards: Rewards | None = None  #: ``None``: `sb3_pvp.simple_game.OutcomeRewards`.
    metrics: Metrics | None = None
    viewer: Viewer | None = None
    scripts: Mapping[str, Callable[[Turn], None]] = {}  #: Scripted players by name, besides `sb3_pvp.opponents`' own.
    #: How fights start: the fields, by their aliases, are the reset parameters. ``None``: the worlds know.
    params: type[BaseModel] | None = None
    build_param: str | None = None  #: The reset parameter that says of which kind fights are (`Grouped`), if any.

    def check_place(self, where: str) -> None:
        """Raises `ValueError` unless fights can take place there; unlike `make_world` it must not take long."""
        if where != "sim":
            raise ValueError(f"{self.name} is played in 'sim' only, not in {where!r}")

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> World:
        """A world of so many fights, fight ``i`` seeded with ``seed + i``; ``where`` is ``"sim"`` or an address."""
        raise NotImplementedError(f"{type(self).__name__} needs make_world(where, num_fights, seed, params)")


ENTRY_POINTS = "sb3_pvp.games"  #: By the names of installed games, which are those of their Gymnasium environments.
#: As in pyproject.toml, with their commands: a checkout has the metadata of when it was installed, which may lack them.
_OWN_GAMES = {"NhEnv": "sb3_pvp.games.osrs:NH", "DharokEnv": "sb3_pvp.games.osrs:DHAROK"}
OWN_COMMANDS = {
    "rsps": "sb3_pvp.games.osrs.cli.rsps:rsps",
    "sim-server": "sb3_pvp.games.osrs.cli.sim_server:sim_server",
}
HOME_GAME = "NhEnv"  #: What is played where nobody says: by `NhEnv`, and by commands.

GameLike = str | type[Game] | Game  #: What `find_game` takes.
WorldFactory = Callable[..., World]  #: Makes worlds, see `make_world`; may have an attribute ``contract``.


def game_and_contract(game: GameLike | None, contract: str | Contract | None) -> tuple[Game, str | Contract]:
    """What is played, and with what contract, where one of the two may be left out.

    The name of a game's contract stands for the game; any other contract is one for the worlds of a factory.
    """
    names = game_names()
    if isinstance(contract, str) and contract in names:
        game = contract
    found = find_game(HOME_GAME if game is None else game)
    if contract is None:  # factories are told names, where there are some
        contract = found.name if found.name in names else found.contract
    return found, contract


def contract_of(world: str | WorldFactory, contract: str | Contract) -> Contract:
    """The factory's own contract if it has one, else the given one; `ValueError` for an unknown name."""
    return load_contract(getattr(world, "contract", contract))


def make_world(
    game: GameLike,
    world: str | WorldFactory,
    num_fights: int,
    seed: int = 0,
    reset_params: Mapping[str, Any] | None = None,
    contract: str | Contract | None = None,
) -> World:
    """A world as `Game.make_world` makes it, or a factory, ``world``, which gets the arguments from ``num_fights`` on.

    ``contract`` is that of the factory's worlds, unless it has one itself; `ValueError` if the world has another one.
    """
    (game, contract), params = game_and_contract(game, contract), dict(reset_params or {})
    if callable(world):
        made = world(num_fights=num_fights, seed=seed, reset_params=params, contract=contract)
    else:
        if game.params is not None:
            read_model(game.params, params, "reset parameter")
        made = game.make_world(world, num_fights, seed, params)
    if made.contract != (expected := contract_of(world, contract)):
        made.close()
        raise ValueError(f"the world that was made plays {made.contract.name}, but the contract is {expected.name!r}")
    return made


_games: dict[str | type[Game], Game] = {}  #: Those that are registered, or that somebody has asked for.


@cache
def _installed() -> dict[str, EntryPoint]:
    own = {name: EntryPoint(name, place, ENTRY_POINTS) for name, place in _OWN_GAMES.items()}
    return own | {each.name: each for each in entry_points(group=ENTRY_POINTS)} | own


def game_names() -> tuple[str, ...]:
    """The names of all installed and registered games; none of them is loaded."""
    registered = (each for each in _games if isinstance(each, str) and ":" not in each)
    return tuple(dict.fromkeys((*_installed(), *registered)))


def find_game(game: GameLike) -> Game:
    """The game of that name, or ``module:object`` (a game, or a class or function that makes one).

    A game stands for itself, a class for the one that it makes. `ValueError` for anything else.
    """
    if isinstance(game, str | type) and game in _games:
        return _games[game]
    if isinstance(game, str) and game not in _installed() and ":" not in game:
        raise ValueError(f"{unknown_name('game', game, game_names())}, or module:object")
    try:
        found: Any = game
        if isinstance(game, str):
            found = _installed().get(game, EntryPoint(game, game, ENTRY_POINTS)).load()
        made: Game = found() if isinstance(found, type) or not hasattr(found, "contract") else found
        if not (isinstance(made.name, str) and isinstance(made.contract, Contract) and callable(made.make_world)):
            raise TypeError(f"{made!r} is no sb3_pvp.game.Game")
    except Exception as error:  # whatever the modules of others come up with
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"there is no game {game!r}: {reason} (say a name or module:object)") from error
    if isinstance(game, str | type):
        _games[game] = made
    return made


def is_installed(contract: Contract) -> bool:
    """Whether this is the contract of an installed game, which any process knows by its name."""
    return contract.name in _installed() and find_game(contract.name).contract == contract


def game_reference(game: Game) -> str:
    """How files name a game: what `find_game` takes in any process; its own name if there is no such thing."""
    for name, known in _games.items():
        if known is game and isinstance(name, str) and (":" in name or name in _installed()):
            return name
    reference = f"{type(game).__module__}:{type(game).__qualname__}"
    with suppress(ValueError):  # made in a function, or not to be made without arguments
        if not reference.startswith("__main__:") and find_game(reference).contract == game.contract:
            return reference
    return game.name


def register_game(game: type[Game] | Game) -> Game:
    """Makes a game known by its name, to Gymnasium as well; gives it back. `ValueError` if the name is taken."""
    game = find_game(game)
    if game.name in game_names() and _games.get(game.name) is not game:
        raise ValueError(f"there is a game {game.name!r} already: choose another name")
    _register_environment(game.name)
    _games[game.name] = game
    return game


def register_environments() -> None:
    """Tells Gymnasium of all installed games, but for those whose name it does not take."""
    list(loadable("game", _installed(), _register_environment))


def _register_environment(name: str) -> None:
    kind = "NhEnv" if name in _OWN_GAMES else "PvpEnv"
    try:
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"sb3_pvp.envs:{kind}", kwargs={"game": name})
    except gymnasium.error.Error as error:
        raise ValueError(f"no name for an environment: {error}") from error


add_contract_source(game_names, lambda name: find_game(name).contract)
