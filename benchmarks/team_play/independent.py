"""The control: every agent of a team learns by itself, from its own rewards, until its own end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sb3_pvp.envs import PvpVecEnv

Floats = NDArray[np.float32]
#: Gives each agent its own reward ``(teams, agents)``, by the choices of all, who was in the game (both of that shape),
#: and what the team was paid ``(teams,)``.
OwnRewards = Callable[[NDArray[np.int64], NDArray[np.bool_], Floats], Floats]


class IndependentAgents(VecEnv):
    """The agents of a `PvpVecEnv`'s teams as rows of their own, for any masked algorithm: agents of equal weights.

    An agent's episode ends with its own end. Until its team's has ended too, its row shows zeros with one legal action
    and pays nothing: `PresentRows` leaves those steps out. The info of a team's end (``episode``, ``is_success``) is
    that of its first agent.
    """

    render_mode = None

    def __init__(self, teams: PvpVecEnv, own_rewards: OwnRewards) -> None:
        contract = teams.fights.settings.contract
        self.teams, self.own_rewards, self.num_agents = teams, own_rewards, len(contract.agents)
        begin, end = contract.agents[0].observations
        heads = contract.num_heads // self.num_agents
        #: Where an agent's part says whether it is in the game.
        self.active_column = contract.observation_index(contract.agents[0].active) - begin
        super().__init__(
            teams.num_envs * self.num_agents,
            spaces.Box(-np.inf, np.inf, (end - begin,), np.float32),
            spaces.MultiDiscrete(contract.head_sizes[:heads]),
        )

    def reset(self) -> Floats:
        """Returns what all agents see ``(teams * agents, size)``."""
        return self._rows(self.teams.reset())

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Stores the actions ``(teams * agents, heads of an agent)``."""
        self._actions = actions

    def step_wait(self) -> tuple[Floats, Floats, NDArray[np.bool_], list[dict[str, Any]]]:
        """Plays a step of all teams."""
        shape = self.teams.num_envs, self.num_agents
        acting = self._seen[:, self.active_column].reshape(shape) != 0
        seen, paid, over, infos = self.teams.step(self._actions.reshape(shape[0], -1))
        own = self.own_rewards(self._actions.reshape(*shape, -1)[..., 0], acting, paid) * acting
        rows = self._rows(seen)
        lives = rows[:, self.active_column].reshape(shape) != 0
        ends = (acting & ~lives) | over[:, None]
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(ends):
            told[row] = {"terminal_observation": rows[row]}
        for team in np.flatnonzero(over):
            self._tell_end(infos[team], told[team * self.num_agents : (team + 1) * self.num_agents])
        return rows, own.astype(np.float32).ravel(), ends.ravel(), told

    def _tell_end(self, info: dict[str, Any], told: list[dict[str, Any]]) -> None:
        last = info["terminal_observation"]["observation"].reshape(self.num_agents, -1)
        for each, seen in zip(told, last, strict=True):
            cut = info["TimeLimit.truncated"] and bool(seen[self.active_column])
            each |= {"terminal_observation": seen, "TimeLimit.truncated": cut}
        told[0] |= {"episode": info["episode"], "is_success": info.get("is_success", False)}

    def _rows(self, seen: Any) -> Floats:
        rows: Floats = seen["observation"].reshape(self.num_envs, -1)
        self._seen = rows
        return rows

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Returns the masks of all rows, which is all that sb3-contrib asks for."""
        assert method_name == "action_masks"
        return list(self.teams.action_masks().reshape(self.num_envs, -1))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute for each row."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of all rows."""
        setattr(self, attr_name, value)

    def env_is_wrapped(self, wrapper_class: Any, indices: VecEnvIndices = None) -> list[bool]:
        """Returns false for each row."""
        return [False] * self.num_envs

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the masks of all rows; sb3-contrib looks for it."""
        return np.stack(self.env_method("action_masks"))

    def close(self) -> None:
        """Closes the teams."""
        self.teams.close()


class PresentRows(MaskableRolloutBuffer):
    """A buffer that gives only the steps of agents that were in the game."""

    active_column: int  #: Of `IndependentAgents`.

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which rows were in the game, bool ``(buffer_size, n_envs)``; until `get` is called."""
        present: NDArray[np.bool_] = self.observations[..., self.active_column] != 0
        return present

    def get(self, batch_size: int | None = None) -> Iterator[Any]:  # type: ignore[override]
        """Yields mini-batches of these steps, in random order."""
        (every,) = super().get(None)
        present = every.observations[:, self.active_column] != 0
        kept = [each[present] for each in every]
        size = batch_size or len(kept[0])
        for begin in range(0, len(kept[0]) - 1, size):  # no mini-batch of one step: it has no deviation
            yield type(every)(*(each[begin : begin + size] for each in kept))
