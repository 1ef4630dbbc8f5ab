"""The games that a server plays: one for each type of agent that has logged in."""

from __future__ import annotations

from collections.abc import Iterator

from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.games.osrs.remote.agents import Fight
from sb3_pvp.games.osrs.remote.fight_pool import FIRST_SIZE, FightPool, WorldFactory
from sb3_pvp.games.osrs.remote.messages import AGENT_TYPES
from sb3_pvp.games.osrs.remote.step_actions import ActionCheck
from sb3_pvp.games.osrs.remote.tick_player import TickPlayer
from sb3_pvp.games.osrs.remote.wire_errors import NO_SUCH_ELEMENT, WireRequestError


class ServedGame:
    """The fights of one type of agent, and the contract by which actions are read and replies written.

    Attributes:
        ready: fights whose agents have all sent their messages; a fight may be in it twice.
    """

    def __init__(self, contract: Contract, pool: FightPool) -> None:
        self.contract = contract
        self.pool = pool
        self.action_check = ActionCheck(contract)
        self.player = TickPlayer(contract, pool)
        self.ready: list[Fight] = []

    def play_ready(self) -> None:
        """Plays one tick of the fights that are ready."""
        # Without duplicates, in the order in which they became ready.
        ready, self.ready = dict.fromkeys(self.ready), []
        # All agents of a fight may have left since it was added.
        self.player.play([fight for fight in ready if fight.is_ready()])


class ServedGames:
    """The games by type of agent, each made at its first lookup. All worlds come from one factory."""

    def __init__(self, make_world: WorldFactory, seed: int = 0, first_size: int = FIRST_SIZE) -> None:
        self._make_world = make_world
        self._seed = seed
        self._first_size = first_size
        self._games: dict[str, ServedGame] = {}

    def __getitem__(self, agent_type: str) -> ServedGame:
        """Returns the game of a type; raises `WireRequestError` if the type or a world for it does not exist."""
        if agent_type not in AGENT_TYPES:
            known = " or ".join(AGENT_TYPES)
            raise WireRequestError(NO_SUCH_ELEMENT, f"No value present: agentType must be {known}, not {agent_type!r}")
        if agent_type not in self._games:
            self._games[agent_type] = self._make(agent_type)
        return self._games[agent_type]

    def _make(self, agent_type: str) -> ServedGame:
        try:
            pool = FightPool(self._make_world, self._seed, self._first_size, agent_type)
        except ValueError as error:
            raise WireRequestError(NO_SUCH_ELEMENT, f"No value present: {error}") from error
        return ServedGame(load_contract(agent_type), pool)

    def __iter__(self) -> Iterator[ServedGame]:
        """Iterates over the games made so far."""
        return iter(list(self._games.values()))

    @property
    def num_in_play(self) -> int:
        """Number of fights under way, over all games."""
        return sum(game.pool.num_in_use for game in self._games.values())

    def close(self) -> None:
        """Closes all worlds."""
        for game in self._games.values():
            game.pool.close()
