"""`PvpParallelEnv`: one fight as a PettingZoo ``ParallelEnv``, with an agent in each seat, or a team of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.common.arguments import check_seed
from sb3_pvp.common.errors import extra
from sb3_pvp.envs.env import FightInterface
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.renderer import Frame
from sb3_pvp.envs.settings import FightSettings, check_render_mode
from sb3_pvp.game import HOME_GAME, NUM_SEATS
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.turn import check_actions
from sb3_pvp.players.opponents import SELF_PLAY
from sb3_pvp.players.seats import Observation, observation_space

with extra("pettingzoo", "parallel environments"):
    from pettingzoo import ParallelEnv

AGENTS = ("fighter_0", "fighter_1")


class FlatMaskMultiDiscrete(spaces.MultiDiscrete):
    """A `MultiDiscrete` space that samples with one flat mask for all heads, as PettingZoo's tools pass it."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(np.array(contract.head_sizes))
        self._contract = contract

    def sample(self, mask: Any = None, *args: Any, **kwargs: Any) -> NDArray[np.int64]:
        """Samples an action; with a flat 0/1 ``mask`` ``(A,)``, it also obeys the rules between heads."""
        if isinstance(mask, np.ndarray):
            return self._contract.random_action(mask, self.np_random)
        return super().sample(mask, *args, **kwargs)


class FlatMaskBox(spaces.Box):
    """The same for contracts in which a head is a number."""

    def __init__(self, contract: Contract) -> None:
        space = contract.action_space
        assert isinstance(space, spaces.Box)
        super().__init__(space.low, space.high, dtype=np.float32)
        self._contract = contract

    def sample(self, mask: Any = None, *args: Any, **kwargs: Any) -> NDArray[Any]:
        """Samples an action, see `FlatMaskMultiDiscrete.sample`; choices are whole numbers."""
        mask = np.ones(self._contract.num_flat_actions, np.bool_) if mask is None else mask
        return self._contract.random_action(mask, self.np_random)


class _Player(NamedTuple):
    """Who acts: all of a seat, or one agent of a team."""

    name: str
    seat: int
    contract: Contract  #: Its own.
    number: int  #: Of the agent in its team.
    observations: slice
    heads: slice
    entries: slice  #: Of the flat mask.


def _players(contract: Contract) -> list[_Player]:
    everything = slice(None)
    if not contract.agents:
        return [_Player(name, seat, contract, 0, *[everything] * 3) for seat, name in enumerate(AGENTS)]
    players = []
    for seat in range(NUM_SEATS):
        for number, (agent, entries) in enumerate(zip(contract.agents, contract.agent_entries, strict=True)):
            if seat in agent.seats:
                own = contract.of_agent(agent), number, slice(*agent.observations), slice(*agent.heads), entries
                players.append(_Player(f"team_{seat}_{agent.id}", seat, *own))
    return players


class PvpParallelEnv(ParallelEnv[str, Observation, NDArray[np.int64]]):  # type: ignore[misc]
    """One fight between the agents ``"fighter_0"`` and ``"fighter_1"``, one step per game tick.

    Where a seat is a team, its agents act one by one: ``"team_0_ID"``, ``"team_1_ID"``, … with the ids of the contract.
    Each has its own part of observations, masks and actions, and the reward of its team; it takes part, and is in
    ``agents``, while it is in the game.

    Observations, actions, rewards and the keys of ``info`` are those of `PvpEnv`, for each agent; agents of a team have
    no ``"privileged"``. All are done in the tick in which the fight ends. Schedules stay at their first value. For
    ``render_mode`` see `PvpEnv`; ``settings`` are the fields of `FightSettings`, without ``opponent``.
    """

    metadata: ClassVar[dict[str, Any]] = {**FightInterface.metadata, "is_parallelizable": True}

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        if "opponent" in settings:
            raise ValueError("parallel_env has no opponent: both seats are agents")
        self.render_mode = check_render_mode(render_mode)
        self.settings = FightSettings.from_arguments(HOME_GAME, "render_mode", opponent=SELF_PLAY, **settings)
        self.fights = Fights(NUM_SEATS, self.settings)
        self.contract = self.fights.contract
        self.metadata = {**self.metadata, "name": self.settings.game.name}  # type: ignore[misc]
        self._players = {each.name: each for each in _players(self.contract)}
        self.possible_agents = list(self._players)
        self.agents: list[str] = []
        frames = len(self.settings.frame_ages)
        self.observation_spaces = {
            each.name: observation_space(each.contract, frames, not self.contract.agents)
            for each in self._players.values()
        }
        self.action_spaces: dict[str, FlatMaskMultiDiscrete | FlatMaskBox] = {
            each.name: (FlatMaskBox if each.contract.numbers.size else FlatMaskMultiDiscrete)(each.contract)
            for each in self._players.values()
        }
        self._seeded = False
        self.fights.player_names = AGENTS

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> FlatMaskMultiDiscrete | FlatMaskBox:
        """Returns the space of an agent's actions, which can sample with the flat mask of an observation."""
        return self.action_spaces[agent]

    def action_masks(self, agent: str) -> NDArray[np.bool_]:
        """Returns the flat action mask of an agent, bool ``(A,)``."""
        player = self._players[agent]
        return self.fights.action_masks(player.seat)[player.entries]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts a new fight; see `PvpEnv.reset` for ``seed``. ``options`` are ignored: PettingZoo's tests pass any."""
        seed = check_seed(seed)
        if seed is None and not self._seeded:
            seed = int(np.random.default_rng().integers(2**32))
        # The world takes the first; each seat has noise and aversions of its own.
        self.fights.reset(np.arange(NUM_SEATS), [seed, None if seed is None else seed + 1])
        self._seeded, self.agents = True, self._active()
        return self._show_and_observe(self.agents), {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Plays one tick with the action of each agent ``(heads,)``; returns empty dicts after the fight.

        Raises `ValueError`, and changes nothing, for missing or wrong actions.
        """
        acting = self.agents
        if not acting:
            return {}, {}, {}, {}, {}
        if set(actions) != set(acting):
            raise ValueError(f"step needs actions of {' and '.join(acting)}, got {sorted(actions)}")
        fights = self.fights
        fights.step(self._joint(actions))
        # All agents are done together, even if only one seat saw the fight break off.
        truncated = bool(fights.truncated.any())
        terminated = bool(fights.terminated.any()) and not truncated
        self.agents = [] if terminated or truncated else self._active()
        shown = list(dict.fromkeys([*acting, *self.agents]))  # also those that have just entered the game
        seats = {name: self._players[name].seat for name in shown}
        left = {name: not truncated and name not in self.agents for name in shown}
        return (
            self._show_and_observe(shown),
            {name: float(fights.reward[seat]) for name, seat in seats.items()},
            left,
            dict.fromkeys(shown, truncated),
            {name: fights.info(seat) for name, seat in seats.items()},
        )

    def render(self) -> Frame:
        """Returns the last tick as text or as an image, see ``render_mode``; ``None`` in mode ``"human"``."""
        return None if self.render_mode == "human" else self.fights.renderer.frame(0, self.render_mode)

    def close(self) -> None:
        """Closes the window and the world."""
        self.fights.close()

    def _joint(self, actions: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Returns the actions of both seats; whoever is out of the game does the one thing that it may."""
        legal = [mask.argmax(axis=-1) for mask in self.contract.split_mask(self.fights.action_masks())]
        joint = np.stack(legal, axis=-1).astype(self.contract.action_dtype)
        for name, action in actions.items():
            player = self._players[name]
            joint[player.seat, player.heads] = check_actions(action, player.contract)
        return joint

    def _active(self) -> list[str]:
        """Returns the names of all agents that are in the game now."""
        if not self.contract.agents:
            return list(AGENTS)
        plays = self.contract.active_agents(self.fights.world.obs[0])
        return [each.name for each in self._players.values() if plays[each.seat, each.number]]

    def _show_and_observe(self, agents: Sequence[str]) -> dict[str, Observation]:
        if self.render_mode == "human":
            self.fights.renderer.show([0])
        stacked, seen = self.fights.observation(), {}
        for player in map(self._players.__getitem__, agents):
            own = {key: value[player.seat] for key, value in stacked.items()}
            if self.contract.agents:
                columns = own["observation"][..., player.observations]
                own = {"observation": columns, "action_mask": own["action_mask"][player.entries]}
            seen[player.name] = own
        return seen


parallel_env = PvpParallelEnv
