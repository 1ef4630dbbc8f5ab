"""The fights of Old School RuneScape: the games NhEnv and DharokEnv.

Compiled rules, sockets and pictures are imported on first use: to load a model takes no more than the contract.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_pvp.common.errors import require_known, shown
from sb3_pvp.game import Metrics, Rewards, Viewer, World
from sb3_pvp.game.contract import Contract, read_contract
from sb3_pvp.games.named import NamedGame

if TYPE_CHECKING:
    from pydantic import BaseModel

    from sb3_pvp.game.contract.turn import Turn
    from sb3_pvp.games.osrs.sim import SimWorld

__all__ = ["DHAROK", "NH", "SimWorld"]

EMBEDDED = "sim"  #: The place of worlds in this process.


class OsrsGame(NamedGame):
    """A fight of two players, with the rules of one of the contracts.

    Args:
        name: name of the game and of its contract; the wire calls it the type of agent.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def contract(self) -> Contract:  # type: ignore[override]
        """The observations and actions (contract.md)."""
        return read_contract(Path(__file__).parent / "contracts" / f"{self.name}.json")

    @cached_property
    def params(self) -> type[BaseModel]:  # type: ignore[override]
        """The settings of how fights start (protocol.md §3)."""
        from sb3_pvp.games.osrs.params import DharokParams, NhParams

        return DharokParams if self.name == "DharokEnv" else NhParams

    @cached_property
    def build_param(self) -> str | None:  # type: ignore[override]
        """The setting that selects the build, in the game that has builds."""
        return "accountBuild" if "account_build" in self.params.model_fields else None

    @cached_property
    def builds(self) -> tuple[str, ...]:  # type: ignore[override]
        """All builds (protocol.md §3)."""
        from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES

        return BUILD_NAMES if self.build_param else ()

    @cached_property
    def rewards(self) -> Rewards:  # type: ignore[override]
        """The rewards of rewards.md §4."""
        from sb3_pvp.games.osrs.rewards import OsrsRewards

        return OsrsRewards()

    @cached_property
    def metrics(self) -> Metrics:  # type: ignore[override]
        """The metrics of self-play.md §11.6."""
        from sb3_pvp.games.osrs.metrics.table import OSRS_METRICS

        return OSRS_METRICS

    @property
    def habits(self) -> Callable[..., Mapping[str, Any]] | None:  # type: ignore[override]
        """What is measured of how somebody prays and eats, in the game with both."""
        from sb3_pvp.games.osrs.habits import habits

        return habits if self.name == "NhEnv" else None

    @cached_property
    def viewer(self) -> Viewer:  # type: ignore[override]
        """The pictures of a fight: fighters, their supplies and their choices."""
        from sb3_pvp.games.osrs.viewer import OsrsViewer

        return OsrsViewer(self.name)

    @cached_property
    def scripts(self) -> Mapping[str, Callable[[Turn], None]]:  # type: ignore[override]
        """The scripted fighters of scripted-bots.md, part B."""
        from sb3_pvp.games.osrs.scripted import SCRIPTS

        return SCRIPTS

    def check_place(self, where: str) -> None:
        """Raises `ValueError` unless ``where`` is ``"sim"`` or the address of a server."""
        check_world_name(where)

    def start_in_words(self, params: Mapping[str, Any]) -> str:
        """Says with what fights of these settings start: builds, gear, and what else is not the default."""
        if self.build_param is None:
            return super().start_in_words(params)
        from sb3_pvp.games.osrs.sim.parameters import DEFAULT_BUILD_OPTIONS

        given: Any = self.params.model_validate(params)
        builds, yes = [*dict.fromkeys(given.random_build_options or DEFAULT_BUILD_OPTIONS)], (True, "true")
        few = f"the builds {', '.join(builds)}" if len(builds) <= 3 else f"{len(builds)} builds"
        words = [f"one of {few}" if given.randomize_build in yes else f"the build {given.account_build}"]
        words += ["random gear"] if given.randomize_gear in yes else []
        words += ["a random fight type"] if given.randomize_fight_type in yes else []
        told = {name for name in self.params.model_fields if "random" in name} | {"account_build", "fight_type"}
        others = given.model_dump(by_alias=True, exclude_defaults=True, exclude=told)
        words += [f"{name} {shown(value)}" for name, value in others.items()]
        return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]

    def check_sharing(self, where: str) -> None:
        """Warns of a server that is not started by each world itself."""
        warn_of_sharing(where)

    def place_for_results(self, where: str) -> str:
        """Returns the address of a server with a login for each fight, unless it says which logins it wants."""
        check_world_name(where)
        if where == EMBEDDED:
            return where
        from sb3_pvp.games.osrs.remote.address import with_fresh_logins

        return with_fresh_logins(where)

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> World:
        """Returns the embedded world for ``"sim"``, a `RemoteWorld` for the address of a server.

        ``params`` say how fights start, by their names on the wire (protocol.md §3).
        """
        options: dict[str, Any] = {
            "num_fights": num_fights,
            "seed": seed,
            "reset_params": params,
            "contract": self.name,
        }
        check_world_name(where)
        if where == EMBEDDED:
            from sb3_pvp.games.osrs.sim import SimWorld  # here, because it imports Numba

            return SimWorld(**options)
        from sb3_pvp.games.osrs.remote import RemoteWorld

        return RemoteWorld(where, **options)


def check_world_name(world: str) -> None:
    """Raises `ValueError` unless ``world`` is the embedded one or the address of a server."""
    if world == EMBEDDED:
        return
    from sb3_pvp.games.osrs.remote.address import is_address, parse_address  # here, because the client is large

    if not is_address(world):
        require_known("world", world, (EMBEDDED, "rsps://host:port", "rsps://?launch=COMMAND"))
    parse_address(world)


def warn_of_sharing(world: str) -> None:
    """Warns if worlds of this name in several processes would play on the same server."""
    from sb3_pvp.games.osrs.remote.address import is_address, parse_address

    if is_address(world) and not (settings := parse_address(world)).launch:
        warnings.warn(
            f"all actors play on the server at {settings.host_port}. In its synchronous mode a server waits for all of "
            'them before each tick: let each start its own (world="rsps://?launch=COMMAND"), or use no actors',
            stacklevel=2,
        )


NH = OsrsGame("NhEnv")
DHAROK = OsrsGame("DharokEnv")


def __getattr__(name: str) -> Any:
    if name != "SimWorld":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sb3_pvp.games.osrs.sim import SimWorld  # here, because it imports Numba

    return SimWorld
