"""`PvpParallelEnv`: one fight as a PettingZoo ``ParallelEnv``, with an agent in each seat."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.common.arguments import check_seed
from sb3_pvp.envs.env import FightInterface
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.renderer import Frame
from sb3_pvp.envs.settings import FightSettings, check_render_mode
from sb3_pvp.game import HOME_GAME, NUM_SEATS
from sb3_pvp.game.contract import Contract
from sb3_pvp.players.opponents import SELF_PLAY
from sb3_pvp.players.seats import Observation

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError("parallel_env needs PettingZoo: pip install 'sb3-pvp[pettingzoo]'") from error

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


class PvpParallelEnv(ParallelEnv[str, Observation, NDArray[np.int64]]):  # type: ignore[misc]
    """One fight between the agents ``"fighter_0"`` and ``"fighter_1"``, one step per game tick.

    Observations, actions, rewards and the keys of ``info`` are those of `PvpEnv`, for each agent. Both agents are done
    in the tick in which the fight ends. Schedules stay at their first value. For ``render_mode`` see `PvpEnv`;
    ``settings`` are the fields of `FightSettings`, without ``opponent``.
    """

    metadata: ClassVar[dict[str, Any]] = {**FightInterface.metadata, "name": "nh_v0", "is_parallelizable": True}

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        if "opponent" in settings:
            raise ValueError("parallel_env has no opponent: both seats are agents")
        self.render_mode = check_render_mode(render_mode)
        self.settings = FightSettings.from_arguments(HOME_GAME, "render_mode", opponent=SELF_PLAY, **settings)
        self.fights = Fights(NUM_SEATS, self.settings)
        self.contract = self.fights.contract
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(AGENTS, self.fights.observation_space)
        self.action_spaces = {agent: FlatMaskMultiDiscrete(self.contract) for agent in AGENTS}
        self._seeded = False
        self.fights.player_names = AGENTS

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Returns the space of an agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> FlatMaskMultiDiscrete:
        """Returns the space of an agent's actions, which can sample with the flat mask of an observation."""
        return self.action_spaces[agent]

    def action_masks(self, agent: str) -> NDArray[np.bool_]:
        """Returns the flat action mask of an agent, bool ``(A,)``."""
        return self.fights.action_masks(AGENTS.index(agent))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts a new fight; see `PvpEnv.reset` for ``seed``. ``options`` are ignored: PettingZoo's tests pass any."""
        seed = check_seed(seed)
        if seed is None and not self._seeded:
            seed = int(np.random.default_rng().integers(2**32))
        self.fights.reset(np.arange(NUM_SEATS), [seed, None])
        self._seeded, self.agents = True, list(AGENTS)
        return self._show_and_observe(), {agent: {} for agent in AGENTS}

    def step(
        self, actions: dict[str, NDArray[np.int64]]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Plays one tick with the action of each agent, ints ``(heads,)``; returns empty dicts after the fight.

        Raises `ValueError`, and changes nothing, for missing or wrong actions.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        if set(actions) != set(AGENTS):
            raise ValueError(f"step needs actions of {' and '.join(AGENTS)}, got {sorted(actions)}")
        fights = self.fights
        fights.step(np.stack([np.asarray(actions[agent]) for agent in AGENTS]))
        # Both agents are done together, even if only one seat saw the fight break off.
        truncated = bool(fights.truncated.any())
        terminated = bool(fights.terminated.any()) and not truncated
        if terminated or truncated:
            self.agents = []
        return (
            self._show_and_observe(),
            dict(zip(AGENTS, fights.reward.tolist(), strict=True)),
            dict.fromkeys(AGENTS, terminated),
            dict.fromkeys(AGENTS, truncated),
            {agent: fights.info(row) for row, agent in enumerate(AGENTS)},
        )

    def render(self) -> Frame:
        """Returns the last tick as text or as an image, see ``render_mode``; ``None`` in mode ``"human"``."""
        return None if self.render_mode == "human" else self.fights.renderer.frame(0, self.render_mode)

    def close(self) -> None:
        """Closes the window and the world."""
        self.fights.close()

    def _show_and_observe(self) -> dict[str, Observation]:
        if self.render_mode == "human":
            self.fights.renderer.show([0])
        stacked = self.fights.observation()
        return {agent: {key: value[row] for key, value in stacked.items()} for row, agent in enumerate(AGENTS)}


parallel_env = PvpParallelEnv
