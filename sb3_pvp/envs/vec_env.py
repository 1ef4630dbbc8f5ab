"""`PvpVecEnv`: N fights in one world and one process, as an SB3 ``VecEnv``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray
from pydantic import PositiveInt
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sb3_pvp.common.arguments import Kind, check_seed
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.envs.env import FightInterface, PvpEnv
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings, check_render_mode
from sb3_pvp.game import HOME_GAME, WorldFactory
from sb3_pvp.players.opponents import OpponentChoice, OpponentLike
from sb3_pvp.players.seats import Observation

_IDENTITY = {"kind": "NhVecEnv", "version": 1}  #: Snapshots keep the name that `PvpVecEnv` had in the first edition.
#: Attributes of SB3's `VecEnv` in a snapshot: seeds and options of the next reset, infos of the last one.
_STATE = ("_started", "_seeds", "_options", "reset_infos")
EnvFunction = Callable[[], gym.Env[Any, Any]]


class _Template(NamedTuple):
    """What a row takes over from an environment that SB3's ``make_vec_env`` or rl-zoo3 has made."""

    settings: FightSettings
    render_mode: str | None
    spec: Any = None
    monitor: Monitor[Any, Any] | None = None


class PvpVecEnv(VecEnv):
    """N fights in one world and one process; a fight that ends is reset in the same step.

    Fight ``i`` is identical to a single `PvpEnv` that is reset with ``seed + i`` and gets the same actions. While it
    runs, its ``info`` is empty (the arrays of all fights are in `fights`). In the step in which it ends, ``info`` has
    the keys of `PvpEnv.step`, ``episode`` (``r``, ``l``, ``t`` as in SB3's ``Monitor``), ``terminal_observation`` and
    ``TimeLimit.truncated``; the infos of `PvpEnv.reset` are in ``reset_infos``.

    Every row has its own opponent; ``env_method("set_opponent", choice, indices=[...])`` changes it for the next
    episode. Rows ``2j`` and ``2j + 1`` are a pair: if both have the opponent ``"self"``, they are the two seats of one
    fight, and each of them gets its info. A pair forms when the fight of one of the two rows ends; the fight of the
    other is truncated then (outcome ``"timeout"``). It separates when its fight ends.

    Args:
        num_envs: the number of rows; or a list of functions that make a `PvpEnv` each, as from ``make_vec_env(...,
            vec_env_cls=PvpVecEnv)``. Their settings, which must agree, then replace the other arguments except
            ``seed``; their ``Monitor`` files are written; wrappers that change an environment's behavior are refused.
        opponent, world: see `FightSettings`.
        seed: fight ``i`` is seeded with ``seed + i`` at the first reset; ``None``: randomly.
        render_mode: see `PvpEnv`.
        monitor: SB3's ``Monitor`` of any environment, to whose file all finished episodes are written.
        settings: the other fields of `FightSettings`, such as ``game``.

    Raises `ValueError` for an unknown name or a value out of range.
    """

    home: ClassVar[str | None] = None  #: The default game.

    def __init__(
        self,
        num_envs: int | Sequence[EnvFunction] = 128,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        seed: int | None = 0,
        render_mode: str | None = None,
        monitor: Monitor[Any, Any] | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(num_envs, (list, tuple)):
            templates = read_env_functions(num_envs)
        else:
            others = ("num_envs", "seed", "render_mode", "monitor")
            own = FightSettings.from_arguments(self.home, *others, opponent=opponent, world=world, **settings)
            count = Kind[int](PositiveInt, "a positive integer or a list of functions").read("num_envs", num_envs)
            templates = [_Template(own, check_render_mode(render_mode), monitor=monitor)] * count
        self.fights = Fights(len(templates), templates[0].settings)
        self.fights.check_pairs()
        self.set_trained_rollouts = self.fights.set_trained_rollouts
        self._interfaces = [
            FightInterface(self.fights, row, each.render_mode, each.spec) for row, each in enumerate(templates)
        ]
        self._monitors = [template.monitor for template in templates]
        self._made_at = time.time()
        self._started = False
        super().__init__(len(templates), self.fights.observation_space, self.fights.action_space)
        self.metadata = FightInterface.metadata
        self.seed(seed)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seeds fight ``i`` with ``seed + i`` at the next reset; ``None``: randomly. Returns all seeds."""
        return super().seed(check_seed(seed))

    def reset(self) -> Observation:
        """Starts new fights in all rows, with the seeds and options set since the last reset."""
        self.fights.reset(np.arange(self.num_envs), self._seeds, self._options)
        self._reset_seeds()
        self._reset_options()
        self._started = True
        self.reset_infos = [self.fights.reset_info(fight) for fight in range(self.num_envs)]
        return self.fights.observation()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Stores the actions, ints ``(num_envs, heads)``; `step_wait` validates them."""
        if not self._started:
            raise gym.error.ResetNeeded("no fights are running: call reset() first")
        self._actions = actions

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Plays one tick; returns new arrays. Raises `ValueError` for invalid actions; nothing is changed then."""
        fights = self.fights
        fights.step(self._actions)
        rewards, dones = fights.reward.copy(), fights.terminated | fights.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        finished = np.flatnonzero(dones)
        if finished.size:
            # Before the reset, which writes the first observations of the next fights into the same arrays.
            last = fights.observation(finished)
            for row, fight in enumerate(finished.tolist()):
                info = infos[fight] = fights.info(fight)
                info["terminal_observation"] = {key: value[row] for key, value in last.items()}
                info["TimeLimit.truncated"] = bool(fights.truncated[fight])
                # The same entries and rounding as in SB3's `Monitor`, whose step is never called here.
                info["episode"] = {"r": round(float(fights.episode_return[fight]), 6), "l": int(fights.length[fight])}
                self.log_episode(fight, info)
            fights.reset(finished, keep_final_scenes=True)
            for fight in finished.tolist():
                self.reset_infos[fight] = fights.reset_info(fight)
        return fights.observation(), rewards, dones, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the flat action masks as one array, bool ``(num_envs, A)``."""
        return self.fights.action_masks()

    def get_state(self) -> Snapshot:
        """Returns a snapshot (`Fights.get_state`) from which another process can resume; take it between steps."""
        # Shallow copies: what is in these lists is only ever replaced.
        own = {name: copy(getattr(self, name)) for name in _STATE}
        return {**_IDENTITY, "fights": self.fights.get_state(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a snapshot (`Fights.set_state`); its observations are those of ``fights.observation()``."""
        check_identity(state, _IDENTITY)
        self.fights.set_state(state["fights"])
        vars(self).update({name: copy(state[name]) for name in _STATE})

    def part(self, first: int, count: int) -> Callable[[], PvpVecEnv]:
        """Returns a function, which can be pickled, that makes another environment like these rows.

        Without log files: pass the infos of finished episodes to `log_episode`."""
        # What was chosen but has not begun: the part has no episodes yet, so these are its first opponents.
        following = self.fights.opponents.following[first : first + count]
        chosen = {row: loaded.choice for row, loaded in enumerate(following) if loaded is not None}
        settings = self.fights.settings
        if first and isinstance(settings.world, str):
            settings.game.check_sharing(settings.world)
        return partial(_make_part, count, vars(settings), chosen)

    def log_episode(self, row: int, info: dict[str, Any]) -> None:
        """Completes the ``info`` of a finished episode, and writes it to the log file of the row, if it has one."""
        monitor, episode = self._monitors[row], info["episode"]
        episode["t"] = round(time.time() - self._made_at, 6)  # also of an actor's episode, since the file has our start
        if monitor is not None:
            episode |= {keyword: info[keyword] for keyword in monitor.info_keywords}
            if monitor.results_writer is not None:
                monitor.results_writer.write_row(episode)

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Returns an image of each fight in mode ``"rgb_array"``, ``None`` in other modes."""
        is_image = self.render_mode == "rgb_array"
        return [interface.render() if is_image else None for interface in self._interfaces]  # type: ignore[misc]

    def render(self, mode: str | None = None) -> NDArray[np.uint8] | None:
        """Renders the last tick of all fights, the end of those that have just ended.

        Mode ``"rgb_array"`` returns one image of all fights, uint8. Mode ``"human"`` shows it in a window, also in an
        environment with the render mode ``"rgb_array"``. For text, use ``env_method("render")``.
        """
        if (mode or self.render_mode) == "human" and self.render_mode in ("human", "rgb_array"):
            self.fights.renderer.show(range(self.num_envs))
            return None
        return super().render(mode)

    def close(self) -> None:
        """Closes the window, the world and the log files."""
        self.fights.close()
        for monitor in filter(None, self._monitors):
            monitor.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Returns an attribute of each row's `FightInterface`."""
        return [getattr(interface, attr_name) for interface in self._interfaces_at(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets an attribute of each row's `FightInterface`, for `get_attr`; the fights do not change."""
        for interface in self._interfaces_at(indices):
            setattr(interface, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of each row's `FightInterface`."""
        interfaces = self._interfaces_at(indices)
        if method_name == "action_masks":  # sb3-contrib calls it in every step: all masks at once, not row by row
            masks = self.fights.action_masks()
            return [masks[interface.index] for interface in interfaces]
        return [getattr(interface, method_name)(*method_args, **method_kwargs) for interface in interfaces]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Returns true for ``Monitor``, whose ``episode`` is always in the infos, false for all other wrappers."""
        return [issubclass(wrapper_class, Monitor) for _ in self._interfaces_at(indices)]

    def _interfaces_at(self, indices: VecEnvIndices) -> list[FightInterface]:
        rows = list(self._get_indices(indices))
        if wrong := [row for row in rows if not -self.num_envs <= row < self.num_envs]:
            raise IndexError(f"no row {wrong[0]}: this environment has the rows 0 to {self.num_envs - 1}")
        return [self._interfaces[row] for row in rows]


def _make_part(count: int, settings: Mapping[str, Any], chosen: Mapping[int, OpponentChoice]) -> PvpVecEnv:
    """Makes an environment with these opponents in its first episodes."""
    env = PvpVecEnv(count, **settings)
    for row, choice in chosen.items():
        env.env_method("set_opponent", choice, indices=[row])
    return env


class NhVecEnv(PvpVecEnv):
    """A `PvpVecEnv` that plays NhEnv unless ``game`` or ``contract`` names another game."""

    home = HOME_GAME


def read_env_functions(functions: Sequence[EnvFunction]) -> list[_Template]:
    """Returns what `PvpVecEnv` takes over from each environment; `ValueError` for wrappers and differing settings."""
    if not functions:
        raise ValueError("PvpVecEnv needs at least one environment function")
    templates = [_read_template(function()) for function in functions]
    for field in fields(FightSettings):
        expected, *found = (getattr(each.settings, field.name) for each in templates)
        if wrong := [each for each in found if each != expected]:
            raise ValueError(
                f"the environments of one PvpVecEnv must agree, but {field.name} is {expected!r} and {wrong[0]!r}"
            )
    return templates


def _read_template(env: gym.Env[Any, Any]) -> _Template:
    monitor, limit, layer = None, None, env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, Monitor):
            monitor = layer
        elif isinstance(layer, TimeLimit):
            limit = layer._max_episode_steps
        elif not isinstance(layer, (OrderEnforcing, PassiveEnvChecker)):  # these only check the usage
            raise ValueError(
                f"PvpVecEnv cannot apply the wrapper {type(layer).__name__} to fights that share one world: "
                "use DummyVecEnv, or a VecEnv wrapper"
            )
        layer = layer.env
    if not isinstance(layer, PvpEnv):
        raise ValueError(f"PvpVecEnv needs functions that make a PvpEnv, got {type(layer).__name__}")
    settings = layer.fights.settings
    if limit is not None:
        settings = replace(settings, max_episode_ticks=min(limit, settings.max_episode_ticks or limit))
    return _Template(settings, layer.render_mode, env.spec, monitor)
