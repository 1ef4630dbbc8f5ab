"""`PvpVectorEnv`: N fights in one world and one process, as a Gymnasium ``VectorEnv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from sb3_pvp.common.arguments import POSITIVE, check_seed
from sb3_pvp.envs.env import FightInterface
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings, check_render_mode
from sb3_pvp.game import WorldFactory
from sb3_pvp.players.opponents import OpponentChoice, OpponentLike
from sb3_pvp.players.seats import Observation

Flags = NDArray[np.bool_]


class PvpVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """What ``gymnasium.make_vec`` makes of a game: the rows are those of `PvpVecEnv`, which is its SB3 face.

    A fight that ends is reset in the same step (``AutoresetMode.SAME_STEP``), whose infos have ``final_obs`` and
    ``final_info``, what `PvpEnv.step` would have returned, and what `PvpEnv.reset` says of the next fight. While all
    fights go on, infos are empty. Fight ``i`` is identical to a single `PvpEnv` that is reset with ``seed + i``.

    Args:
        num_envs: the number of rows.
        opponent, world: see `FightSettings`.
        render_mode: see `PvpEnv`.
        max_episode_steps: Gymnasium's name of ``max_episode_ticks``: the fewer of both count.
        settings: the other fields of `FightSettings`, such as ``game``.

    Raises `ValueError` for an unknown name or a value out of range.
    """

    metadata: ClassVar[dict[str, Any]] = {**FightInterface.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}  # type: ignore[misc]

    def __init__(
        self,
        num_envs: int = 1,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        *,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        others = ("num_envs", "render_mode", "max_episode_steps")
        own = FightSettings.from_arguments(None, *others, opponent=opponent, world=world, **settings)
        if max_episode_steps is not None:
            limit = POSITIVE.read("max_episode_steps", max_episode_steps)
            own = replace(own, max_episode_ticks=min(limit, own.max_episode_ticks or limit))
        self.num_envs, self.render_mode = POSITIVE.read("num_envs", num_envs), check_render_mode(render_mode)
        self.fights = Fights(self.num_envs, own)
        self.fights.check_pairs()
        self._rows = [FightInterface(self.fights, row, render_mode) for row in range(self.num_envs)]
        self.single_observation_space = self.fights.observation_space
        self.single_action_space = self.fights.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._started = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts new fights in all rows.

        Args:
            seed: fight ``i`` gets ``seed + i``; or one for each row; ``None``: each goes on with its random numbers, at
                the first reset with numbers of the operating system.
            options: for these fights only, see `PvpEnv.reset`.

        Raises `ValueError` for unknown options and for another number of seeds.
        """
        if isinstance(seed, Sequence):
            seeds = [check_seed(each) for each in seed]
        else:
            super().reset(seed=check_seed(seed))
            seeds = [None if seed is None else seed + row for row in range(self.num_envs)]
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must be one number, or {self.num_envs}, one for each row; got {len(seeds)}")
        if not self._started:
            seeds = [int(self.np_random.integers(2**32)) if each is None else each for each in seeds]
        self.fights.reset(np.arange(self.num_envs), seeds, [options or {}] * self.num_envs)
        self._started = True
        infos: dict[str, Any] = {}
        for row in range(self.num_envs):
            infos = self._add_info(infos, self.fights.reset_info(row), row)
        return self.fights.observation(), infos

    def step(self, actions: NDArray[np.int64]) -> tuple[Observation, NDArray[np.float32], Flags, Flags, dict[str, Any]]:
        """Plays one tick with ints ``(num_envs, heads)``; returns new arrays.

        Raises `ValueError`, and changes nothing, for invalid actions, and `ResetNeeded` before the first reset.
        """
        if not self._started:
            raise gym.error.ResetNeeded("no fights are running: call reset() first")
        fights, infos = self.fights, dict[str, Any]()
        fights.step(actions)
        rewards, terminated, truncated = fights.reward.copy(), fights.terminated.copy(), fights.truncated.copy()
        over = np.flatnonzero(terminated | truncated)
        if over.size:
            # Before the reset, which writes the first observations of the next fights into the same arrays.
            last = fights.observation(over)
            for number, row in enumerate(over.tolist()):
                final = {key: value[number] for key, value in last.items()}
                infos = self._add_info(infos, {"final_obs": final, "final_info": fights.info(row)}, row)
            fights.reset(over, keep_final_scenes=True)
            for row in over.tolist():
                infos = self._add_info(infos, fights.reset_info(row), row)
        return fights.observation(), rewards, terminated, truncated, infos

    def action_masks(self) -> Flags:
        """Returns the flat action masks, bool ``(num_envs, A)``."""
        return self.fights.action_masks()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each row's `FightInterface`, such as ``set_opponent``; or returns an attribute of each."""
        found = [getattr(each, name) for each in self._rows]
        return tuple(each(*args, **kwargs) if callable(each) else each for each in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each row's `FightInterface`."""
        return self.call(name)

    def render(self) -> tuple[Any, ...] | None:
        """Returns the last tick of each fight as ``render_mode`` says."""
        return None if self.render_mode is None else tuple(each.render() for each in self._rows)

    def close_extras(self, **kwargs: Any) -> None:
        """Closes the window and the world."""
        self.fights.close()
