"""Games: their protocol, viewers, and how games are found by name, registered and given worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from importlib.metadata import EntryPoint
from typing import Any, Protocol

import gymnasium
from pydantic import BaseModel

from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.errors import installed, is_own, loadable, missing, shown, unknown_name
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.game.contract import Contract, add_contract_source, load_contract
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.game.metrics import Metrics
from sb3_pvp.game.viewer import Viewer
from sb3_pvp.game.world import Rewards, World


class Game(Protocol):
    """A game for two seats, each of which may be a team. Subclass it; `name`, `contract` and `make_world` are required.

    A game is referred to as ``module:object``, or by its `name` once it is registered (`register_game`) or installed
    (entry-point group ``sb3_pvp.games``).
    """

    name: str  #: Also the id of its Gymnasium environment.
    contract: Contract
    rewards: Rewards | None = None  #: By default `sb3_pvp.game.arrays.OutcomeRewards`.
    metrics: Metrics | None = None
    viewer: Viewer | None = None
    #: Scripted opponents by name, see `contract.turn.Turn`. It may have more than it lists, with parameters for one.
    scripts: Mapping[str, Callable[[Turn], None]] = {}
    params: type[BaseModel] | None = None  #: The reset parameters, by alias. ``None``: only the world checks them.
    max_episode_ticks: int | None = None  #: Ticks after which environments truncate a fight, unless told otherwise.
    #: Whether players move in turns and both see all there is: only then may a search look ahead in copies of a world.
    perfect_information: bool = False
    #: Measurements of a fight that tell players apart, by what they are of, from the contract, what one player saw
    #: ``(T, *shape)``, and what it did ``(T, heads)``; see `sb3_pvp.algorithms.imitation.likeness`.
    habits: Callable[..., Mapping[str, Any]] | None = None
    build_param: str | None = None  #: The reset parameter that selects the kind of a fight (`Grouped`), if any.
    builds: Sequence[str] = ()  #: What this parameter may be.

    def check_place(self, where: str) -> None:
        """Raises `ValueError` if ``where`` is not a valid place for a world. Must be fast: it creates nothing."""
        if where != "sim":
            raise ValueError(f"{self.name} is played in 'sim' only, not in {where!r}")

    def start_in_words(self, params: Mapping[str, Any]) -> str:
        """Says with what fights of these reset parameters start, for people to read."""
        return ", ".join(f"{name} {shown(value)}" for name, value in params.items()) or "the default start"

    def check_sharing(self, where: str) -> None:
        """Called before several processes each make a world at this place; warns if these may hold each other up."""
        return

    def place_for_results(self, where: str) -> str:
        """Returns where to play fights of which only the results count, by default ``where``.

        For places at which a fight may leave something to the next one, unless they are told not to.
        """
        return where

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> World:
        """Returns a new world of F fights, fight ``i`` seeded with ``seed + i``.

        ``where`` is ``"sim"``, in this process, or the address of a server; ``params`` are the reset parameters.
        """
        raise NotImplementedError(f"{type(self).__name__} needs make_world(where, num_fights, seed, params)")


ENTRY_POINTS = "sb3_pvp.games"  #: Entry-point group of installed games; a name is also the Gymnasium id.
ENVIRONMENTS = "sb3_pvp.environments"  #: That of environments for Gymnasium that are no fights of two seats.
HOME_GAME = "NhEnv"  #: The default game of environments and commands.

GameLike = str | type[Game] | Game  #: What `find_game` accepts.
WorldFactory = Callable[..., World]  #: Makes worlds, see `make_world`; may have an attribute ``contract``.


def game_and_contract(game: GameLike | None, contract: str | Contract | None) -> tuple[Game, str | Contract]:
    """Returns the game and its contract, given one of the two or both.

    A contract with the name of a game selects that game. Any other contract is the one of a world factory.
    """
    names = game_names()
    if isinstance(contract, str) and contract in names:
        game = contract
    found = find_game(HOME_GAME if game is None else game)
    if contract is None:  # by name if it has one: factories such as `SimWorld` take names only
        contract = found.name if found.name in names else found.contract
    return found, contract


def contract_of(world: str | WorldFactory, contract: str | Contract) -> Contract:
    """Returns the factory's own contract if it has one, else the given one; `ValueError` for an unknown name."""
    return load_contract(getattr(world, "contract", contract))


def make_world(
    game: GameLike,
    world: str | WorldFactory,
    num_fights: int,
    seed: int = 0,
    reset_params: Mapping[str, Any] | None = None,
    contract: str | Contract | None = None,
) -> World:
    """Creates a world: ``world`` is a place for `Game.make_world`, or a factory that takes the arguments behind it.

    ``contract`` is that of the factory's worlds, if the factory has no attribute ``contract``. Raises `ValueError` for
    invalid arguments, and if the world's contract is a different one.
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


_VERSION = "-v0"
_games: dict[str | type[Game], Game] = {}  #: Registered games by name, and what `find_game` has loaded by its argument.


def game_names() -> tuple[str, ...]:
    """Returns the names of all installed and registered games, the home game first, without loading any."""
    registered = (each for each in _games if isinstance(each, str) and ":" not in each)
    return tuple(dict.fromkeys((*sorted(installed(ENTRY_POINTS), key=HOME_GAME.__ne__), *registered)))


def find_game(game: GameLike) -> Game:
    """Returns a game, given by name, as ``module:object`` or itself; `ValueError` if it cannot be loaded.

    Classes, and functions without arguments, are called to make the game. A name or class always gives the same object.
    """
    game = unversioned(game) if isinstance(game, str) else game
    if isinstance(game, str | type) and game in _games:
        return _games[game]
    if isinstance(game, str) and game not in installed(ENTRY_POINTS) and ":" not in game:
        raise ValueError(missing(ENTRY_POINTS, game) or f"{unknown_name('game', game, game_names())}, or module:object")
    try:
        found: Any = game
        if isinstance(game, str):
            with importing_here() if ":" in game else nullcontext():
                found = installed(ENTRY_POINTS).get(game, EntryPoint(game, game, ENTRY_POINTS)).load()
        made: Game = found() if isinstance(found, type) or not hasattr(found, "contract") else found
        if not (isinstance(made.name, str) and isinstance(made.contract, Contract) and callable(made.make_world)):
            raise TypeError(f"{made!r} is not a sb3_pvp.game.Game")
    except Exception as error:  # a user's module may raise anything when it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"cannot load game {game!r}: {reason} (expected a name or module:object)") from error
    if isinstance(game, str | type):
        _games[game] = made
    return made


def unversioned(name: str) -> str:
    """Returns the name of a game without the version that its id may have, see `register_environments`."""
    plain = name.removesuffix(_VERSION)
    return plain if plain in installed(ENTRY_POINTS) else name


def is_installed(contract: Contract) -> bool:
    """Returns whether this is the contract of an installed game, so that any process finds it by name."""
    return contract.name in installed(ENTRY_POINTS) and find_game(contract.name).contract == contract


def game_reference(game: Game) -> str:
    """Returns the name that files store: what `find_game` accepts in any process, or else the game's own name."""
    for name, known in _games.items():
        if known is game and isinstance(name, str) and (":" in name or name in installed(ENTRY_POINTS)):
            return name
    reference = f"{type(game).__module__}:{type(game).__qualname__}"
    # Its class is a reference too, unless it is local to a function, needs arguments, or makes a different game.
    with suppress(ValueError):
        if not reference.startswith("__main__:") and find_game(reference).contract == game.contract:
            return reference
    return game.name


def register_game(game: type[Game] | Game) -> Game:
    """Registers a game under its name, also with Gymnasium, and returns it; `ValueError` if the name is taken."""
    game = find_game(game)
    if game.name in game_names() and _games.get(game.name) is not game:
        raise ValueError(f"there is already a game {game.name!r}: choose another name")
    _register_environment(game.name)
    _games[game.name] = game
    return game


def register_environments() -> None:
    """Registers all installed games and environments with Gymnasium; warns about names that it refuses.

    Our own games have a second id with the version of their rules, such as ``NhEnv-v0``. It changes when the same
    actions no longer lead to the same fight.
    """
    list(loadable("game", installed(ENTRY_POINTS), _register_environment))
    list(
        loadable(
            "environment", installed(ENVIRONMENTS), lambda name: _register(name, installed(ENVIRONMENTS)[name].value)
        )
    )


def _register_environment(name: str) -> None:
    point = installed(ENTRY_POINTS).get(name)
    kind = "NhEnv" if point is not None and is_own(point) else "PvpEnv"
    _register(name, f"sb3_pvp.envs:{kind}", "sb3_pvp.envs.vector_env:PvpVectorEnv", game=name)
    if kind == "NhEnv" and not name.endswith(_VERSION):
        spec = copy(gymnasium.spec(name))
        # As a name without a version: Gymnasium refuses both, and would warn at each use of the one without.
        spec.id = spec.name = name + _VERSION
        gymnasium.registry[spec.id] = spec


def _register(name: str, entry_point: str, batched: str | None = None, **kwargs: str) -> None:
    try:
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point, vector_entry_point=batched, kwargs=kwargs)
    except gymnasium.error.Error as error:
        raise ValueError(f"Gymnasium refuses it as the id of an environment: {error}") from error


add_contract_source(game_names, lambda name: find_game(name).contract)
