"""One fight as a PettingZoo ``ParallelEnv``: both seats are agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.common.checks import check_frame_ages, check_seed
from sb3_pvp.contract import Contract
from sb3_pvp.contract.actions import check_actions
from sb3_pvp.envs.env import PvpEnv
from sb3_pvp.envs.observations import Observation, SeatObservations, observation_space
from sb3_pvp.envs.seats import Seats
from sb3_pvp.envs.settings import DEFAULT_MAX_EPISODE_TICKS, FightSettings
from sb3_pvp.envs.viewer import Frame, Viewer, check_render_mode, known_looks
from sb3_pvp.game import NUM_SEATS, Game, Outcome, Transition, WorldFactory
from sb3_pvp.simple_game import named_terms

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError("parallel_env needs PettingZoo: pip install 'sb3-pvp[pettingzoo]'") from error

AGENTS = tuple(f"fighter_{seat}" for seat in range(NUM_SEATS))
_ONLY_FIGHT = np.zeros(1, np.int64)


class FlatMaskMultiDiscrete(spaces.MultiDiscrete):
    """A `MultiDiscrete` space that samples with one flat mask for all heads, as PettingZoo's tools hand it over."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(np.array(contract.head_sizes))
        self._contract = contract

    def sample(self, mask: Any = None, *args: Any, **kwargs: Any) -> NDArray[np.int64]:
        """A random action; ``mask`` may be flat, 0/1 ``(A,)``, and then the rules between heads hold as well."""
        if isinstance(mask, np.ndarray):
            return self._contract.random_action(mask, self.np_random)
        return super().sample(mask, *args, **kwargs)


class NhParallelEnv(ParallelEnv[str, Observation, NDArray[np.int64]]):  # type: ignore[misc]
    """One fight between the agents ``"fighter_0"`` and ``"fighter_1"``, one step per game tick.

    Observations, actions, rewards and the keys of ``info`` are those of `NhEnv`, for each agent. Both agents leave in
    the tick in which the fight ends.

    Args:
        world: see `NhEnv`.
        reset_params: see `NhEnv`; for both seats.
        rewards: see `NhEnv`; schedules stay at their first value.
        frame_ages: see `NhEnv`.
        death_match: see `NhEnv`.
        max_episode_ticks: see `NhEnv`.
        render_mode: see `NhEnv`.
        contract: see `NhEnv`.
        game: see `NhEnv`.
    """

    metadata: ClassVar[dict[str, Any]] = {**PvpEnv.metadata, "name": "nh_v0", "is_parallelizable": True}

    def __init__(
        self,
        world: str | WorldFactory = "sim",
        reset_params: Mapping[str, Any] | None = None,
        rewards: Any = None,
        frame_ages: Iterable[int] = (0,),
        death_match: bool = True,
        max_episode_ticks: int | None = DEFAULT_MAX_EPISODE_TICKS,
        render_mode: str | None = None,
        contract: str | Contract | None = None,
        game: str | Game | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self.settings = FightSettings(
            opponent="noop",
            world=world,
            reset_params=reset_params or {},
            rewards=rewards,
            frame_ages=frame_ages,
            death_match=death_match,
            max_episode_ticks=max_episode_ticks,
            contract=contract,
            game=game,
        )
        self.world = self.settings.make_world(1)
        self.contract = self.world.contract
        ages = check_frame_ages(self.settings.frame_ages)
        self._seats = [SeatObservations(self.world, Seats(1, seat), ages) for seat in range(NUM_SEATS)]
        self._rewards = self.settings.scoring
        self._weights = self._rewards.at(self.settings.rewards, 0)
        self._tick = Transition.nothing(NUM_SEATS, self.world.report.dtype)
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {agent: observation_space(self.contract, len(ages)) for agent in AGENTS}
        self.action_spaces = {agent: FlatMaskMultiDiscrete(self.contract) for agent in AGENTS}
        self._seeded = False
        self._length = 0
        self._actions: NDArray[np.int64] | None = None
        self._masks: NDArray[np.bool_] | None = None
        self._viewer = Viewer(self.contract.name, self.settings.game.viewer)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The space of one agent's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> FlatMaskMultiDiscrete:
        """The space of one agent's actions; it samples with the flat mask of an observation."""
        return self.action_spaces[agent]

    def action_masks(self, agent: str) -> NDArray[np.bool_]:
        """What each head of this agent may choose, bool ``(A,)``."""
        masks: NDArray[np.bool_] = self.world.masks[0, AGENTS.index(agent)]
        return masks.copy()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Starts a new fight; see `NhEnv.reset` for the seed. ``options`` has no effect (PettingZoo passes any)."""
        seed = check_seed(seed)
        if seed is None and not self._seeded:
            seed = int(np.random.default_rng().integers(2**32))
        start: dict[str, Any] = {"bots": (None, None)}
        if not self.settings.death_match:
            start["death_match"] = False
        self.world.reset(_ONLY_FIGHT, [start if seed is None else {**start, "seed": seed}])
        for seat in self._seats:
            seat.begin(_ONLY_FIGHT)
        self._seeded, self._length, self._actions, self._masks = True, 0, None, None
        self.agents = list(AGENTS)
        self._show_if_human()
        return self._observations(), {agent: {} for agent in AGENTS}

    def step(
        self, actions: dict[str, NDArray[np.int64]]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Plays one tick with the action of each agent, ints ``(heads,)``.

        Returns observations, rewards, terminations, truncations and infos, by agent; all empty after the end of the
        fight. Raises `ValueError` for missing or wrong actions; the fight stays as it was.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        if set(actions) != set(AGENTS):
            raise ValueError(f"actions are needed for {' and '.join(AGENTS)}, got {sorted(actions)}")
        joint = np.stack([np.asarray(actions[agent]) for agent in AGENTS])
        self._actions = check_actions(joint, self.contract, NUM_SEATS)
        self._masks = None if self.render_mode is None else self.world.masks[0].copy()
        self.world.step(self._actions[np.newaxis])
        self._length += 1
        for seat in self._seats:
            seat.advance()
        self._show_if_human()
        return self._results()

    def render(self) -> Frame:
        """The last tick as a text or a picture, see ``render_mode``; in mode ``"human"`` it has been shown already."""
        if self.render_mode in (None, "human"):
            return None
        return self._viewer.frame(self._scene(), self.render_mode)

    def close(self) -> None:
        """Closes the window and the world."""
        self._viewer.close()
        self.world.close()

    def _scene(self) -> Any:
        actions = (None, None) if self._actions is None else tuple(self._actions)
        masks = (None, None) if self._masks is None else tuple(self._masks)
        return known_looks(self.settings.game.viewer).scene(self.world, 0, AGENTS, actions, masks)

    def _show_if_human(self) -> None:
        if self.render_mode == "human":
            self._viewer.show([self._scene()])

    def _observations(self) -> dict[str, Observation]:
        return {
            agent: {key: value[0] for key, value in seat.stacked().items()}
            for agent, seat in zip(AGENTS, self._seats, strict=True)
        }

    def _results(
        self,
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        outcomes = self.world.outcome[0].copy()
        self._tick = self._tick.followed_by(self.world.report[0].copy(), outcomes, np.full(NUM_SEATS, self._length > 1))
        parts = self._rewards.compute(self._tick, self._weights)
        limit = self.settings.max_episode_ticks
        # Both leave together, even if only one of the seats saw the fight break off.
        broken = bool((outcomes >= Outcome.TARGET_LOST).any())
        over = bool((outcomes != Outcome.RUNNING).any())
        terminated = over and not broken
        truncated = broken or (not over and limit is not None and self._length >= limit)
        if terminated or truncated:
            self.agents = []
        return (
            self._observations(),
            dict(zip(AGENTS, parts.sum(axis=0).tolist(), strict=True)),
            dict.fromkeys(AGENTS, terminated),
            dict.fromkeys(AGENTS, truncated),
            {agent: self._info(seat, parts[:, seat], truncated) for seat, agent in enumerate(AGENTS)},
        )

    def _info(self, seat: int, components: NDArray[np.float32], truncated: bool) -> dict[str, Any]:
        outcome = Outcome(int(self.world.outcome[0, seat]))
        return {
            "outcome": "timeout" if truncated and outcome == Outcome.RUNNING else outcome.name.lower(),
            "episode_ticks": int(self.world.ticks[0]),
            "rewards": named_terms(self._rewards, components),
        }
