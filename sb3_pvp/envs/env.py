"""`PvpEnv`: one fight of one learner, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import check_seed
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.renderer import RENDER_FPS, Frame
from sb3_pvp.envs.settings import RENDER_MODES, FightSettings, check_render_mode
from sb3_pvp.game import WorldFactory
from sb3_pvp.players.opponents import OpponentChoice, OpponentLike
from sb3_pvp.players.seats import Observation

_IDENTITY = {"kind": "PvpEnv", "version": 1}


class FightInterface:
    """The attributes and methods of an environment besides ``reset`` and ``step``, for the fight of row ``index``.

    In a vectorized environment these are the targets of ``get_attr``, ``set_attr`` and ``env_method``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}

    def __init__(self, fights: Fights, index: int, render_mode: str | None, spec: Any = None) -> None:
        self.fights, self.index, self.render_mode, self.spec = fights, index, render_mode, spec
        self.contract, self.frame_ages = fights.contract, fights.settings.frame_ages
        self.observation_space, self.action_space = fights.observation_space, fights.action_space
        # Shared by all rows, see `Fights`: calling one of these for any row acts on the whole environment.
        self.set_trained_rollouts, self.reward_weights = fights.set_trained_rollouts, fights.reward_weights
        self.enable_metrics, self.pop_metrics = fights.enable_metrics, fights.pop_metrics
        self.measures = fights.measures

    @property
    def settings(self) -> FightSettings:
        """The settings of the fights; read-only, since running fights do not follow them."""
        return self.fights.settings

    @property
    def match_settings(self) -> dict[str, Any] | None:
        """See `FightSettings.match_settings`."""
        return self.settings.match_settings

    @property
    def opponent_name(self) -> str:
        """The opponent of this episode, by the name that it has in ``info``."""
        return self.fights.opponents.current[self.index].name

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the flat action mask, bool ``(A,)``: the masks of all heads, concatenated."""
        return self.fights.action_masks(self.index)

    def set_opponent(self, choice: OpponentChoice | OpponentLike) -> None:
        """Sets the opponent, and how it plays, from the next episode on.

        Vectorized environments reset inside ``step``, so set an opponent one episode ahead, with
        ``env_method("set_opponent", choice, indices=[...])``. In a ``SubprocVecEnv``, give models by path. Raises
        `ValueError` and changes nothing if it cannot play this contract, and `FileNotFoundError` without its file.
        """
        self.fights.set_opponent(self.index, choice)

    def render(self) -> Frame:
        """Returns the last tick as text or as an image, see ``render_mode``; shows it in mode ``"human"``."""
        return self.fights.renderer.frame(self.index, self.render_mode)


class PvpEnv(FightInterface, gym.Env[Any, NDArray[np.int64]]):  # type: ignore[misc]
    """One fight against ``opponent``, one step per game tick; the episode ends with the fight.

    Observations are ``{"observation": float32 (frames, D), "privileged": float32 (frames, P), "action_mask": int8
    (A,)}``. ``"privileged"``, which only some games have, is what only the opponent sees: input for a critic. An action
    is one choice per head; a masked choice does nothing. The game's contract defines the sizes.

    Args:
        opponent: the opponent, see `FightSettings` and `set_opponent`.
        world: where the fights take place, see `FightSettings`.
        render_mode: ``None``; ``"ansi"``: `render` returns text (without colors if the environment variable
            ``NO_COLOR`` is set); ``"rgb_array"``: an image, uint8 ``(height, width, 3)``; ``"human"``: a window shows
            every tick (keys: see `sb3_pvp.envs.renderer.Window`), or ticks are printed if there is no display. Images
            need the extra ``sb3-pvp[render]``. A mode costs nothing until something is rendered.
        settings: the other fields of `FightSettings`, such as ``game`` and ``reset_params``.

    Raises `ValueError` for an unknown name or a value out of range.
    """

    home: ClassVar[str | None] = None  #: The default game.

    def __init__(
        self,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        *,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        own = FightSettings.from_arguments(self.home, "render_mode", opponent=opponent, world=world, **settings)
        super().__init__(Fights(1, own), 0, render_mode)
        self._seeded = self._running = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a new fight.

        Args:
            seed: a non-negative integer that determines this fight and all later ones. ``None``: continue the current
                random stream (at the first reset: seed from the operating system).
            options: for this fight only: ``reset_params``, ``seat_reset_params`` (one mapping per seat), and any other
                options of the game's world.

        Returns:
            The observation, and ``info`` with ``opponent``, ``build`` (if the game has builds) and ``seed`` (not if the
            fight continues the random stream of the previous one).
        """
        # `DummyVecEnv` calls reset() without arguments inside its step: the end of the fight must stay renderable then.
        seed, is_automatic = check_seed(seed), seed is None and not options
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**32))
        self.fights.reset([0], [seed], [options or {}], keep_final_scenes=is_automatic)
        self._seeded = self._running = True
        return self._show_and_observe(), self.fights.reset_info(0)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Plays one tick with ``action``, ints ``(heads,)``.

        Raises `ValueError`, and changes nothing, for an action of the wrong shape, dtype or range, and `ResetNeeded`
        before the first reset and after the end of a fight.

        Returns:
            Observation, reward, terminated (won, lost or tied), truncated (the tick limit was reached or the fight
            broke off), and ``info``: ``outcome`` ("running", "won", "lost", "tied", "timeout", "target_lost",
            "desync"), ``opponent``, ``build``, ``seed``, ``episode_ticks``, ``rewards`` (the nonzero components of this
            tick); at the end also ``episode_rewards`` (their sums), ``episode_statistics`` if enabled (``count``,
            ``sum``, ``mean``, ``min``, ``max`` and ``std`` of each of the game's `sb3_pvp.game.Metrics.values` by name)
            and, unless the fight broke off, ``is_success`` (won).
        """
        if not self._running:
            raise ResetNeeded("no fight is running: call reset() first")
        self.fights.step(np.asarray(action)[np.newaxis])
        terminated, truncated = bool(self.fights.terminated[0]), bool(self.fights.truncated[0])
        self._running = not (terminated or truncated)
        return self._show_and_observe(), float(self.fights.reward[0]), terminated, truncated, self.fights.info(0)

    def get_state(self) -> Snapshot:
        """Returns a snapshot (`Fights.get_state`) from which another environment or process can resume."""
        own = {"seeded": self._seeded, "running": self._running, "np_random": self.np_random.bit_generator.state}
        return {**_IDENTITY, "fights": self.fights.get_state(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a snapshot of `get_state`; `ValueError` for one of another kind of environment."""
        check_identity(state, _IDENTITY)
        self.fights.set_state(state["fights"])
        self._seeded, self._running = state["seeded"], state["running"]
        self.np_random.bit_generator.state = state["np_random"]

    def render(self) -> Frame:
        """Returns the last tick as text or as an image, see ``render_mode``; ``None`` in mode ``"human"``."""
        if self.render_mode is None:
            gym.logger.warn(f"nothing to render: pass one of the render modes {RENDER_MODES} when you make the env")
        # In mode "human", `step` and `reset` have shown the tick already, as Gymnasium demands.
        return None if self.render_mode == "human" else super().render()

    def close(self) -> None:
        """Closes the window and the world."""
        self.fights.close()

    def _show_and_observe(self) -> Observation:
        if self.render_mode == "human":
            self.fights.renderer.show([0])
        return {key: value[0] for key, value in self.fights.observation().items()}
