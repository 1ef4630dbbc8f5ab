"""`PvpVecEnv`: N fights in one world and one process, as an SB3 ``VecEnv``."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray
from pydantic import PositiveInt
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.checks import check_seed
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.envs.env import FightFace, PvpEnv
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.envs.viewer import check_render_mode
from sb3_pvp.game import HOME_GAME, WorldFactory
from sb3_pvp.opponents.opponents import OpponentChoice, OpponentLike
from sb3_pvp.opponents.seat_views import Observation

_COUNT = Kind[int](PositiveInt, "a positive integer or a list of functions")
_IDENTITY = {"kind": "NhVecEnv", "version": 1}
#: What SB3's part of the environment remembers: seeds and options of the next reset, infos of the last ones.
_STATE = ("_started", "_seeds", "_options", "reset_infos")
EnvFunction = Callable[[], gym.Env[Any, Any]]


class _Template(NamedTuple):
    """What a row takes over from an environment that SB3's ``make_vec_env`` or rl-zoo3 made."""

    settings: FightSettings
    render_mode: str | None
    spec: Any = None
    monitor: Monitor[Any, Any] | None = None


class PvpVecEnv(VecEnv):
    """N fights in one world; fights that end are reset at once.

    Fight ``i`` goes the way of a single `PvpEnv` that is reset with ``seed + i`` and gets the same actions. While it
    runs its ``info`` is empty (the arrays of all fights are in `fights`). In the step in which it ends ``info`` has
    what `PvpEnv.step` puts there, ``episode`` (``r``, ``l``, ``t`` as from SB3's ``Monitor``), ``terminal_observation``
    and ``TimeLimit.truncated``; what `PvpEnv.reset` tells is in ``reset_infos``.

    Every row has its own opponent, which ``env_method("set_opponent", choice, indices=[...])`` changes for its next
    episode. Rows ``2j`` and ``2j + 1`` are a pair: with the opponent ``"self"``, which both must be given, they are the
    two seats of one fight, and its infos are told twice. A pair forms when the fight of one of the two ends; the other
    one's is then truncated (outcome ``"timeout"``). It parts when its fight ends.

    Args:
        num_envs: the number of rows; or a list of functions that make a `PvpEnv` each, as ``make_vec_env(...,
            vec_env_cls=PvpVecEnv)`` gives it. Their settings, which must agree, then replace the other arguments except
            ``seed``; their ``Monitor`` logs are written; wrappers that change what an environment does are refused.
        opponent, world: see `FightSettings`.
        seed: fight ``i`` is seeded with ``seed + i`` at the first reset; ``None``: by chance.
        render_mode: see `PvpEnv`.
        settings: the other fields of `FightSettings`, such as ``game``.

    Raises `ValueError` for an unknown name or a value out of range.
    """

    home: ClassVar[str | None] = None  #: What is played if nobody says it.

    def __init__(
        self,
        num_envs: int | Sequence[EnvFunction] = 128,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        seed: int | None = 0,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(num_envs, (list, tuple)):
            templates = read_env_functions(num_envs)
        else:
            others = ("num_envs", "seed", "render_mode")
            own = FightSettings.of(self.home, *others, opponent=opponent, world=world, **settings)
            count = _COUNT.read("num_envs", num_envs)
            templates = [_Template(own, check_render_mode(render_mode))] * count
        self.fights = Fights(len(templates), templates[0].settings)
        self.set_trained_rollouts = self.fights.set_trained_rollouts
        self._faces = [
            FightFace(self.fights, row, template.render_mode, template.spec) for row, template in enumerate(templates)
        ]
        self._monitors = [template.monitor for template in templates]
        self._made_at = time.time()
        self._started = False
        super().__init__(len(templates), self.fights.observation_space, self.fights.action_space)
        self.metadata = FightFace.metadata
        self.seed(seed)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seeds fight ``i`` with ``seed + i`` at the next reset; ``None``: by chance. Returns all seeds."""
        return super().seed(check_seed(seed))

    def reset(self) -> Observation:
        """Starts new fights everywhere, with the seeds and options set since the last reset."""
        self.fights.reset(np.arange(self.num_envs), self._seeds, self._options)
        self._reset_seeds()
        self._reset_options()
        self._started = True
        self.reset_infos = [self.fights.reset_info(fight) for fight in range(self.num_envs)]
        return self.fights.observation()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Takes the actions, ints ``(num_envs, heads)``; `step_wait` checks them."""
        if not self._started:
            raise gym.error.ResetNeeded("no fights are running: call reset() first")
        self._actions = actions

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Plays one tick; returns new objects. Raises `ValueError` for wrong actions and changes nothing."""
        self.fights.step(self._actions)
        rewards = self.fights.reward.copy()
        dones = self.fights.terminated | self.fights.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        finished = np.flatnonzero(dones)
        if finished.size:
            self._finish(finished, infos)
        return self.fights.observation(), rewards, dones, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """What each head may choose in every fight, bool ``(num_envs, A)``; one array, unlike ``env_method``."""
        return self.fights.action_masks()

    def get_state(self) -> Snapshot:
        """A snapshot (`Fights.get_state`), with which another process may go on; take it between steps."""
        own = copy.deepcopy({name: getattr(self, name) for name in _STATE})
        return {**_IDENTITY, "fights": self.fights.get_state(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state` (`Fights.set_state`), whose observations `fights` has then."""
        check_identity(state, _IDENTITY)
        self.fights.set_state(state["fights"])
        vars(self).update(copy.deepcopy({name: state[name] for name in _STATE}))

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A picture of each fight in mode ``"rgb_array"``; ``None`` in other modes."""
        return [face.render() if self.render_mode == "rgb_array" else None for face in self._faces]  # type: ignore[misc]

    def render(self, mode: str | None = None) -> NDArray[np.uint8] | None:
        """The last tick of all fights (of one that has just ended its end): in mode ``"rgb_array"`` one picture, uint8.

        In mode ``"human"``, which an environment of mode ``"rgb_array"`` is capable of as well, a window shows it.
        Texts are had by ``env_method("render")``.
        """
        if (mode or self.render_mode) == "human" and self.render_mode in ("human", "rgb_array"):
            self.fights.viewer.show(range(self.num_envs))
            return None
        return super().render(mode)

    def close(self) -> None:
        """Closes the window, the world and the log files."""
        self.fights.close()
        for monitor in filter(None, self._monitors):
            monitor.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute of each row's `FightFace`."""
        return [getattr(face, attr_name) for face in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets the attribute of each row's `FightFace`, for whoever reads it there."""
        for face in self._chosen(indices):
            setattr(face, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls the method of each row's `FightFace`."""
        faces = self._chosen(indices)
        if method_name == "action_masks":
            masks = self.fights.action_masks()
            return [masks[face.index] for face in faces]
        return [getattr(face, method_name)(*method_args, **method_kwargs) for face in faces]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """True for ``Monitor``, whose statistics are always there, and false for every other wrapper."""
        return [issubclass(wrapper_class, Monitor) for _ in self._chosen(indices)]

    def _chosen(self, indices: VecEnvIndices) -> list[FightFace]:
        rows = list(self._get_indices(indices))
        if wrong := [row for row in rows if not -self.num_envs <= row < self.num_envs]:
            raise IndexError(f"there is no row {wrong[0]}: this environment has the rows 0 to {self.num_envs - 1}")
        return [self._faces[row] for row in rows]

    def _finish(self, finished: NDArray[np.int64], infos: list[dict[str, Any]]) -> None:
        fights, last = self.fights, self.fights.observation(finished)
        for row, fight in enumerate(finished.tolist()):
            info = infos[fight] = fights.info(fight)
            info["terminal_observation"] = {key: value[row] for key, value in last.items()}
            info["TimeLimit.truncated"] = bool(fights.truncated[fight])
            # As SB3's `Monitor` does it.
            told: dict[str, Any] = {"r": round(float(fights.episode_return[fight]), 6), "l": int(fights.length[fight])}
            told["t"] = round(time.time() - self._made_at, 6)
            if (monitor := self._monitors[fight]) is not None:
                told |= {keyword: info[keyword] for keyword in monitor.info_keywords}
                if monitor.results_writer is not None:
                    monitor.results_writer.write_row(told)
            info["episode"] = told
        fights.reset(finished, certain=False)
        for fight in finished.tolist():
            self.reset_infos[fight] = fights.reset_info(fight)


class NhVecEnv(PvpVecEnv):
    """A `PvpVecEnv` whose game is NhEnv, unless ``game`` or ``contract`` names another one."""

    home = HOME_GAME


def read_env_functions(functions: Sequence[EnvFunction]) -> list[_Template]:
    """What `PvpVecEnv` takes over of `PvpEnv` environments; `ValueError` for wrappers, and settings that differ."""
    if not functions:
        raise ValueError("PvpVecEnv needs at least one environment function")
    made = {function: _read(function()) for function in dict.fromkeys(functions)}  # one that stands there often: once
    templates = [made[function] for function in functions]
    for field in fields(FightSettings):
        expected, *found = (getattr(each.settings, field.name) for each in templates)
        if wrong := [each for each in found if each != expected]:
            raise ValueError(
                f"the environments of one PvpVecEnv must agree, but {field.name} is {expected!r} and {wrong[0]!r}"
            )
    return templates


def _read(env: gym.Env[Any, Any]) -> _Template:
    monitor, limit, layer = None, None, env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, Monitor):
            monitor = layer
        elif isinstance(layer, TimeLimit):
            limit = layer._max_episode_steps
        elif not isinstance(layer, (OrderEnforcing, PassiveEnvChecker)):  # which only check how it is used
            raise ValueError(
                f"PvpVecEnv cannot apply the wrapper {type(layer).__name__} to fights that share one world; "
                "use DummyVecEnv, or a VecEnv wrapper"
            )
        layer = layer.env
    if not isinstance(layer, PvpEnv):
        raise ValueError(f"PvpVecEnv is made of PvpEnv environments, got {type(layer).__name__}")
    settings = layer.fights.settings
    if limit is not None:
        settings = replace(settings, max_episode_ticks=min(limit, settings.max_episode_ticks or limit))
    return _Template(settings, layer.render_mode, env.spec, monitor)
