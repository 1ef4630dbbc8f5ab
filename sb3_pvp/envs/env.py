"""`PvpEnv`: one fight, one learner, as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.checks import check_seed
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.envs.viewer import RENDER_FPS, RENDER_MODES, Frame, check_render_mode
from sb3_pvp.game import WorldFactory
from sb3_pvp.opponents.opponents import OpponentChoice, OpponentLike
from sb3_pvp.opponents.seat_views import Observation

_IDENTITY = {"kind": "PvpEnv", "version": 1}


class FightFace:
    """What an environment offers besides ``reset`` and ``step``, for the fight of one row (``index``).

    In a vectorised environment ``get_attr``, ``set_attr`` and ``env_method`` end here.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}

    def __init__(self, fights: Fights, index: int, render_mode: str | None, spec: Any = None) -> None:
        self.fights, self.index, self.render_mode, self.spec = fights, index, render_mode, spec
        self.contract, self.frame_ages = fights.contract, fights.frame_ages
        self.observation_space, self.action_space = fights.observation_space, fights.action_space
        # What concerns all fights of an environment alike, see `Fights`.
        self.set_trained_rollouts, self.reward_weights = fights.set_trained_rollouts, fights.reward_weights
        self.enable_metrics, self.pop_metrics = fights.enable_metrics, fights.pop_metrics
        self.measures = fights.measures

    @property
    def settings(self) -> FightSettings:
        """How the fights are set up."""
        return self.fights.settings

    @property
    def kind_of_fights(self) -> dict[str, Any] | None:
        """See `FightSettings.kind_of_fights`; plain values, which any worker process can send."""
        return self.settings.kind_of_fights

    def action_masks(self) -> NDArray[np.bool_]:
        """What each head may choose, bool ``(A,)``, the heads one after the other."""
        return self.fights.action_masks(self.index)

    def set_opponent(self, choice: OpponentChoice | OpponentLike) -> None:
        """Says whom to fight from the next episode on, and how that one plays.

        Vectorised environments reset inside ``step``, so an opponent is chosen one episode ahead, through
        ``env_method("set_opponent", choice, indices=[...])``; give workers of a ``SubprocVecEnv`` models by path.

        Raises `ValueError`, and changes nothing, if there is no such opponent, or it cannot play this contract, and
        `FileNotFoundError` if the model's file does not exist.
        """
        self.fights.set_opponent(self.index, choice)

    def render(self) -> Frame:
        """The last tick as a text or a picture, see ``render_mode``; in mode ``"human"`` the window shows it."""
        return self.fights.viewer.frame(self.index, self.render_mode)


class PvpEnv(FightFace, gym.Env[Any, NDArray[np.int64]]):  # type: ignore[misc]
    """One fight of a game against ``opponent``, one step per tick; the episode ends when somebody has won.

    Observations are ``{"observation": float32 (frames, D), "privileged": float32 (frames, P), "action_mask": int8
    (A,)}``; the privileged part is what only the opponent knows (for a critic), if there is such. Actions are one
    choice for each head; a choice that is masked does nothing. The sizes are those of the game's contract.

    Args:
        opponent: whom to fight, see `FightSettings`, and `set_opponent`; ``world``: where.
        render_mode: ``None``; ``"ansi"``: `render` returns a text (without colours if the environment variable
            ``NO_COLOR`` is set); ``"rgb_array"``: a picture, uint8 ``(height, width, 3)``; ``"human"``: a window shows
            every tick (its keys: `sb3_pvp.envs.window.Window`; without a display, ticks are printed). Pictures need the
            extra ``sb3-pvp[render]``. A mode costs nothing until it is used.
        settings: the other fields of `FightSettings`, such as ``game`` and ``reset_params``.

    Raises `ValueError` for an unknown name or a value out of range.
    """

    home: ClassVar[str | None] = None  #: What is played if nobody says it.

    def __init__(
        self,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        *,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        check_render_mode(render_mode)
        own = FightSettings.of(self.home, "render_mode", opponent=opponent, world=world, **settings)
        super().__init__(Fights(1, own), 0, render_mode)
        self._seeded = self._running = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a new fight.

        Args:
            seed: a non-negative integer: the fight and all later ones are determined by it. ``None``: go on with the
                random numbers at hand (at the first reset: from the operating system).
            options: for this fight only: ``reset_params``, ``seat_reset_params`` (one mapping per seat), and what the
                game's worlds know besides.

        Returns:
            The observation, and ``info`` with ``opponent``, ``build`` (if the game has such) and ``seed`` (``None`` if
            the fight goes on with the random numbers of the one before).
        """
        seed, certain = check_seed(seed), seed is not None or bool(options)
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**32))
        self.fights.reset([0], [seed], [options or {}], certain)
        self._seeded = self._running = True
        return self._shown(), self.fights.reset_info(0)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Plays one tick with ``action``, ints ``(heads,)``.

        Returns:
            Observation, reward, terminated (won, lost or tied), truncated (the limit was reached or the fight broke
            off), and ``info``: ``outcome`` ("running", "won", "lost", "tied", "timeout", "target_lost", "desync"),
            ``opponent``, ``build``, ``seed``, ``episode_ticks``, ``rewards`` (the components of this tick that are not
            0); at the end also ``episode_rewards`` (their sums), ``episode_statistics`` if wanted (``count``, ``sum``,
            ``mean``, ``min``, ``max`` and ``std``, each of the game's `sb3_pvp.game.Metrics.values` by
            name) and, unless the fight broke off, ``is_success`` (won).

        Raises `ValueError` for an action of wrong shape, kind or range, and changes nothing; `ResetNeeded` before the
        first reset and after the end of a fight.
        """
        if not self._running:
            raise ResetNeeded("no fight is running: call reset() first")
        self.fights.step(np.asarray(action)[np.newaxis])
        terminated, truncated = bool(self.fights.terminated[0]), bool(self.fights.truncated[0])
        self._running = not (terminated or truncated)
        return self._shown(), float(self.fights.reward[0]), terminated, truncated, self.fights.info(0)

    def get_state(self) -> Snapshot:
        """A snapshot (`Fights.get_state`), with which another environment or process may go on."""
        own = {"seeded": self._seeded, "running": self._running, "np_random": self.np_random.bit_generator.state}
        return {**_IDENTITY, "fights": self.fights.get_state(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`; `ValueError` for a snapshot of another kind of environment."""
        check_identity(state, _IDENTITY)
        self.fights.set_state(state["fights"])
        self._seeded, self._running = state["seeded"], state["running"]
        self.np_random.bit_generator.state = state["np_random"]

    def render(self) -> Frame:
        """The last tick as a text or a picture, see ``render_mode``; in mode ``"human"`` it has been shown already."""
        if self.render_mode is None:
            gym.logger.warn(f"nothing to render: give a render_mode {RENDER_MODES} when the environment is made")
        return None if self.render_mode == "human" else super().render()

    def close(self) -> None:
        """Closes the window and the world."""
        self.fights.close()

    def _shown(self) -> Observation:
        if self.render_mode == "human":
            self.fights.viewer.show([0])
        return {key: value[0] for key, value in self.fights.observation().items()}
