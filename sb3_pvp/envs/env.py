"""`PvpEnv`: one fight, one learner, as a Gymnasium environment; `NhEnv` is the one with the game NhEnv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.checks import check_seed
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.contract import Contract
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.metrics import Measurable
from sb3_pvp.envs.observations import Observation
from sb3_pvp.envs.settings import DEFAULT_MAX_EPISODE_TICKS, FightSettings, told_game
from sb3_pvp.envs.spectator import Spectator
from sb3_pvp.envs.viewer import RENDER_FPS, RENDER_MODES, Frame, Viewer, check_render_mode
from sb3_pvp.game import HOME_GAME, Game, WorldFactory
from sb3_pvp.opponents.opponents import OpponentChoice, OpponentLike

_MODES = ", ".join(map(repr, RENDER_MODES))
_ONLY_FIGHT = np.zeros(1, np.int64)
_IDENTITY = {"kind": "NhEnv", "version": 1}


class PvpEnv(Measurable, gym.Env[Any, NDArray[np.int64]]):
    """One fight against ``opponent``, one step per game tick; the episode ends in the tick of a death.

    Observations are ``{"observation": float32 (frames, 176), "privileged": float32 (frames, 93), "action_mask": int8
    (45,)}``; the privileged part is what only the opponent knows (for a critic). Actions are one choice for each of 12
    heads; a choice that is masked does nothing. These are the sizes of NH fights; in the contract DharokEnv there are
    40 observations, 15 of them privileged, and 6 heads with 17 choices.

    Args:
        opponent: ``"baseline"`` (the world's own bot), ``"noop"`` or, in NH fights, ``"stayalive"`` or ``"scripted"``;
            the path of a model's zip file, or a model of MaskablePPO as it is now; an `Opponent`; or an
            `OpponentChoice`, which also says how it plays. See `set_opponent`.
        world: ``"sim"``, the embedded world; ``"rsps://host:port"``, a server (`sb3_pvp.games.osrs.remote.RemoteWorld`,
            options: `RemoteSettings` beside it); or a factory (`sb3_pvp.game.make_world`).
        reset_params: how fights start, under the names of the wire (protocol.md §3), e.g. ``{"accountBuild": "MED"}``.
        rewards: changes to the weights in `sb3_pvp.games.osrs.rewards.RewardWeights`, numbers or schedules, e.g.
            ``{"damage_dealt": 0.1}``.
        frame_ages: frames to stack, in ticks before the newest one, e.g. ``(0, 2)``; ``3`` stands for ``(0, 1, 2)``.
        death_match: false: the fight is tied as soon as one side has no food left.
        max_episode_ticks: longer fights are truncated (outcome ``"timeout"``); ``None``: never.
        noise: what is added to the learner's own observations (`sb3_pvp.opponents.sight`), e.g. ``{"adders":
            [{"indices": ["0:9", "food_count"], "value": {"type": "expression", "expression": "normal(0, 0.1)"}}]}``.
        action_mask_override: what the learner may not do whatever the world says, e.g. ``{"forbid": ["use_veng"]}``,
            or a schedule of arrays (`sb3_pvp.opponents.sight`).
        render_mode: ``None``; ``"ansi"``: `render` returns a text (without colours if the environment variable
            ``NO_COLOR`` is set); ``"rgb_array"``: a picture, uint8 ``(640, 960, 3)``; ``"human"``: a window shows every
            tick (its keys: `sb3_pvp.envs.window.Window`; without a display, ticks are printed). Pictures
            need the extra ``sb3-pvp[render]``. A mode costs nothing until it is used.
        contract: what is played: ``"NhEnv"`` or ``"DharokEnv"``, which Gymnasium knows under these names as well; or
            any other contract. A factory of worlds may bring its own (`sb3_pvp.game.make_world`).
        episode_statistics: true: at the end of a fight ``info`` has statistics of all its ticks, see `step`.
        game: what is played, if ``contract`` does not say it: a `sb3_pvp.game.Game`, the name of a registered one, or
            ``module:object``.

    Raises:
        ValueError: for an unknown name or a value out of range.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}  # type: ignore[misc]

    #: What is played if nobody says it.
    home: ClassVar[str | None] = None

    def __init__(
        self,
        opponent: OpponentLike | OpponentChoice = "baseline",
        world: str | WorldFactory = "sim",
        reset_params: Mapping[str, Any] | None = None,
        rewards: Any = None,
        frame_ages: int | Iterable[int] = (0,),
        death_match: bool = True,
        max_episode_ticks: int | None = DEFAULT_MAX_EPISODE_TICKS,
        noise: Mapping[str, Any] | None = None,
        action_mask_override: Any = None,
        render_mode: str | None = None,
        contract: str | Contract | None = None,
        episode_statistics: bool = False,
        game: str | Game | None = None,
    ) -> None:
        self.render_mode = check_render_mode(render_mode)
        self.settings = FightSettings(
            opponent=opponent,
            world=world,
            reset_params=reset_params or {},
            rewards=rewards,
            frame_ages=frame_ages,
            death_match=death_match,
            max_episode_ticks=max_episode_ticks,
            noise=noise,
            action_mask_override=action_mask_override,
            contract=contract,
            episode_statistics=episode_statistics,
            game=told_game(game, contract, world, self.home),
        )
        self.fights = Fights(1, self.settings)
        self.contract = self.fights.contract
        self.observation_space = self.fights.observation_space
        self.action_space = self.fights.action_space
        self._spectator = Spectator(self.fights)
        self._viewer = Viewer(self.contract.name, self.settings.game.viewer)
        self._seeded = False
        self._running = False

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a new fight.

        Args:
            seed: a non-negative integer: the fight and all later ones are determined by it. ``None``: go on with the
                random numbers at hand (at the first reset: from the operating system).
            options: for this fight only: ``reset_params``, ``seat_reset_params`` (one mapping per seat), ``training``
                (false: start at the fixed tile) or ``death_match``.

        Returns:
            The observation, and ``info`` with ``opponent``, ``build`` and ``seed`` (``None`` if the fight goes on with
            the random numbers of the one before).
        """
        seed, follows = check_seed(seed), seed is None and not options
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**32))
        self.fights.reset(_ONLY_FIGHT, [seed], [options or {}])
        if follows:
            self._spectator.start_new()
        else:
            self._spectator.start_over()
        self._seeded = self._running = True
        self._show_if_human()
        return self._observation(), self.fights.reset_info(0)

    def step(self, action: ArrayLike) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Plays one tick with ``action``, ints ``(heads,)``.

        Returns:
            Observation, reward, terminated (won, lost or tied), truncated (the limit was reached or the fight broke
            off), and ``info``: ``outcome`` ("running", "won", "lost", "tied", "timeout", "target_lost", "desync"),
            ``opponent``, ``build``, ``seed``, ``episode_ticks``, ``rewards`` (the components of this tick that are not
            0); at the end also ``episode_rewards`` (their sums), ``episode_statistics`` if wanted (``count``, ``sum``,
            ``mean``, ``min``, ``max`` and ``std``, each of the game's `sb3_pvp.game.Metrics.values` by
            name) and, unless the fight broke off, ``is_success`` (won).

        Raises:
            ValueError: for an action of wrong shape, kind or range; the fight stays as it was.
            ResetNeeded: before the first reset and after the end of a fight.
        """
        if not self._running:
            raise ResetNeeded("no fight is running: call reset() first")
        self._spectator.start_tick()
        self.fights.step(np.asarray(action)[np.newaxis])
        terminated, truncated = bool(self.fights.terminated[0]), bool(self.fights.truncated[0])
        self._running = not (terminated or truncated)
        if not self._running:
            self._spectator.see_end([0])
        self._show_if_human()
        return self._observation(), float(self.fights.reward[0]), terminated, truncated, self.fights.info(0)

    @property
    def kind_of_fights(self) -> dict[str, Any] | None:
        """See `FightSettings.kind_of_fights`; plain values, which any worker process can send."""
        return self.settings.kind_of_fights

    @property
    def frame_ages(self) -> tuple[int, ...]:
        """The frames in an observation, in ticks before the newest one."""
        return self.fights.frame_ages

    def action_masks(self) -> NDArray[np.bool_]:
        """What each head may choose, bool ``(A,)``, the heads one after the other."""
        return self.fights.action_masks(0)

    def set_opponent(self, choice: OpponentChoice | OpponentLike) -> None:
        """Says whom to fight from the next episode on, and how that one plays.

        Vectorised environments reset inside ``step``, so an opponent is chosen one episode ahead, through
        ``env_method("set_opponent", choice, indices=[...])``, which is the same for `NhVecEnv`, ``DummyVecEnv`` and
        ``SubprocVecEnv``; workers of the latter are best told models by path.

        Raises:
            ValueError: if there is no such opponent, or it cannot play this contract; nothing has changed then.
            FileNotFoundError: if the model's file does not exist.
        """
        self.fights.set_opponent(0, choice)

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Says how many roll-outs the learner was trained on: the time of all schedules (training.md §9)."""
        self.fights.set_trained_rollouts(trained_rollouts)

    def get_state(self) -> Snapshot:
        """A snapshot (`Fights.get_state`), with which another `NhEnv` or process may go on."""
        return {
            **_IDENTITY,
            "fights": self.fights.get_state(),
            "seeded": self._seeded,
            "running": self._running,
            "np_random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`; raises `ValueError` for a snapshot of another kind of environment."""
        check_identity(state, _IDENTITY)
        self.fights.set_state(state["fights"])
        self._spectator.start_over()
        self._seeded, self._running = state["seeded"], state["running"]
        self.np_random.bit_generator.state = state["np_random"]

    def render(self) -> Frame:
        """The last tick as a text or a picture, see ``render_mode``; in mode ``"human"`` it has been shown already.

        After a `reset` without seed and options it is the end of the last fight if it was not rendered before, though
        the ticks before it were: ``DummyVecEnv`` and ``SubprocVecEnv`` reset before anybody can see it.

        Raises `gymnasium.error.ResetNeeded` before the first reset, `gymnasium.error.DependencyNotInstalled` without
        pygame (but for texts), and `ValueError` for a contract whose fighters nobody knows how to draw.
        """
        if self.render_mode is None:
            gym.logger.warn(f"nothing to render: give a render_mode ({_MODES}) when the environment is made")
            return None
        return None if self.render_mode == "human" else self._viewer.frame(self._spectator.scene(0), self.render_mode)

    def close(self) -> None:
        """Closes the window and the world."""
        self._viewer.close()
        self.fights.close()

    def _observation(self) -> Observation:
        return {key: value[0] for key, value in self.fights.observation().items()}

    def _show_if_human(self) -> None:
        if self.render_mode == "human":
            self._viewer.show([self._spectator.scene(0)])


class NhEnv(PvpEnv):
    """A `PvpEnv` whose game is NhEnv, unless ``game`` or ``contract`` names another one."""

    home = HOME_GAME
