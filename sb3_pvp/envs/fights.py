"""N fights of a learner as arrays: the common core of `PvpEnv` (N = 1), `PvpVecEnv` and `PvpParallelEnv`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.common.arguments import COUNT
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.envs.measures import EpisodeStatistics, FightMetrics, measures_of
from sb3_pvp.envs.renderer import FightRenderer
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import NUM_SEATS, Leavable, Outcome, PlainViewer, Resumable, Transition
from sb3_pvp.game.arrays import named_terms
from sb3_pvp.game.contract.turn import check_actions
from sb3_pvp.players.opponents import WORLD_BOT, OpponentChoice, OpponentLike, as_choice
from sb3_pvp.players.pool import LoadedOpponent, OpponentPool
from sb3_pvp.players.seats import SeatObservations, Seats, observation_space

LEARNER, OPPONENT = range(NUM_SEATS)
_RESERVED_OPTIONS = ("seed", "bots")  #: Reset options of a world that only the environment itself may set.
STATE_VERSION = 2  #: Of the format of `Fights.get_state`.
#: The arrays of `Fights` that later ticks or infos depend on.
_PER_ROW = ("reward", "episode_return", "length", "terminated", "truncated", "actions")
_STATE = (*_PER_ROW, "components", "episode_components")


class Fights:
    """N fights, their opponents, and the learner's observations and rewards.

    A row fights either its opponent or, in self-play, the other row of its pair (`Seats`); changing a row's opponent
    can therefore change its seat.
    """

    def __init__(self, num_fights: int, settings: FightSettings) -> None:
        self.settings = settings
        self.world = settings.make_world(num_fights)
        self.contract = self.world.contract
        self._seats, self._rows = Seats(num_fights), np.arange(num_fights)
        #: The opponents of the rows that do not play their partner.
        self.opponents = OpponentPool(self.world, as_choice(settings.opponent), settings.game)
        self._seeds: list[int | None] = [None] * num_fights
        #: Seeds given to rows that play their partner's fight, for the next fight in their own slot of the world.
        self._unused_seeds: dict[int, int] = {}
        #: Rows that will play their partner from the next episode on.
        self._joining = np.zeros(0, np.int64)
        #: The opponent of each row in its next episode; empty: to be looked up again, see `check_pairs`.
        self._next_opponents: list[LoadedOpponent] = []
        self._assign_seats()
        self._rewards = settings.game_rewards
        self._weights = self._rewards.at(settings.rewards, 0)
        self.observation_space = observation_space(self.contract, len(settings.frame_ages))
        self.action_space = self.contract.action_space
        self._observations = SeatObservations(
            self.world,
            self._seats,
            settings.frame_ages,
            settings.noise,
            settings.action_mask_override,
            settings.aversions,
        )
        self.observation, self.action_masks = self._observations.stacked, self._observations.masks
        self.trained_rollouts = 0  #: Rollouts that the learner was trained on: the time of all schedules.
        report = self.world.report
        # The same records viewed as raw bytes: NumPy would copy records field by field, ten times slower.
        self._report = report.view(np.dtype((np.void, report.dtype.itemsize)))
        self.tick = Transition.nothing(num_fights, report.dtype)  #: The last tick, from the learner's side.
        self.reward = np.zeros(num_fights, np.float32)  #: Of the last tick.
        self.episode_return = np.zeros(num_fights, np.float64)
        self.terminated = np.zeros(num_fights, bool)  #: Won, lost or tied in the last tick.
        self.truncated = np.zeros(num_fights, bool)  #: Broken off or at the tick limit in the last tick.
        self.components = np.zeros((len(self._rewards.terms), num_fights), np.float32)  #: The terms of `reward`.
        self.episode_components = np.zeros_like(self.components)  #: The same, summed over the episode.
        self.length = np.zeros(num_fights, np.int64)  #: Ticks of the episode so far.
        #: The last actions of learner and opponent; zeros where the world's bot plays.
        self.actions = np.zeros((num_fights, NUM_SEATS, self.contract.num_heads), self.contract.action_dtype)
        from sb3_pvp.envs.tally import add_tick  # Numba takes long to import

        self._add_tick, self._max_ticks = add_tick, settings.max_episode_ticks or sys.maxsize
        episodes = (self.reward, self.episode_return, self.episode_components, self.length)
        self._episodes = (*episodes, self.terminated, self.truncated)  # what `add_tick` writes
        self._viewer = settings.game.viewer or PlainViewer(self.contract)
        self.player_names: tuple[str, str] | None = None  #: To be shown instead of those of learner and opponent.
        #: Masks of both seats in the last tick, if it follows a rendered one, bool ``(N, 2, A)``.
        self._shown_masks: NDArray[np.bool_] | None = None
        self._started = False
        self.measures = partial(measures_of, settings.game)  #: Returns the names of the rows of `pop_metrics`.
        self._metrics: FightMetrics | None = None
        self._statistics = EpisodeStatistics(num_fights, settings.game.metrics) if settings.episode_statistics else None

    def reset(
        self,
        fights: ArrayLike,
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any]] | None = None,
        keep_final_scenes: bool = False,
    ) -> None:
        """Starts new episodes in the rows ``fights``, with a seed and the world's reset options for each.

        Without a seed a fight continues its random stream; the first reset of a fight needs one. The common fight of a
        pair takes the seed and the options of the pair's first row. For ``keep_final_scenes`` see
        `FightRenderer.start_episodes`. Raises `ValueError`, and changes nothing, for unknown options, or if only one
        row of a pair plays ``"self"``.
        """
        fights = np.asarray(fights, np.int64)
        seeds = seeds or [None] * len(fights)
        self._start_fights(fights, seeds, options or [{}] * len(fights))
        self._observations.begin(fights, seeds)
        for name in _PER_ROW:
            getattr(self, name)[fights] = 0
        self.components[:, fights] = self.episode_components[:, fights] = 0
        for measured in (self._metrics, self._statistics):
            if measured is not None:
                measured.begin(fights)
        self._started, self._shown_masks = True, None
        if self.renderer.is_used:
            self.renderer.start_episodes(keep_final_scenes)

    def step(self, actions: ArrayLike) -> None:
        """Plays one tick with the learner's actions, ints ``(N, heads)``, after checking them (`check_actions`)."""
        # Before anything moves: wrong actions must not change even the random numbers of opponents. The world checks
        # both seats once more, as it cannot know who calls it.
        checked = check_actions(actions, self.contract, self.world.num_fights)
        self.check_pairs()
        is_shown = self.renderer.is_used and self.renderer.start_tick()
        self._shown_masks = self.world.masks.copy() if is_shown else None
        if self._shown_masks is not None:  # a learner's are those with its override
            self._shown_masks[self._seats.fight, self._seats.seat] = self.action_masks()
        self.actions[:, LEARNER], by_seat = checked, self.actions[:, :: self._seats.order]
        if self._metrics is not None:
            self._metrics.start_tick()
        self.opponents.act(by_seat)
        seats = self._seats
        # The second row of a pair has no fight of its own: its actions are those of the other seat of the first one's.
        if seats.playing is None:
            self.world.step(by_seat)
        else:
            self.actions[seats.paired, OPPONENT] = self.actions[seats.partner, LEARNER]
            self.world.step(self.actions[seats.playing], seats.playing)
        self._observations.advance(self._rows)  # now, as the reset of a fight overwrites its last observations
        self.opponents.advance()
        outcome = seats.own(self.world.outcome)
        report = seats.own(self._report).view(self.world.report.dtype)
        self.tick = Transition(report, self.tick.report, self.length > 0, outcome)
        # Rewards are of the learner's side: reports and outcomes were turned to the seat of each row above.
        self.components = np.ascontiguousarray(self._rewards.compute(self.tick, self._weights), np.float32)
        # The compiled sums check nothing: they would write what is too much behind the end of an array.
        if self.components.shape != (expected := self.episode_components.shape):
            whose = type(self._rewards).__name__
            raise ValueError(f"{whose} must give one row for each of its terms {expected}, got {self.components.shape}")
        self._add_tick(self.components, outcome, self._max_ticks, self._episodes)
        over = self.terminated | self.truncated
        if (joining := self._joining).size:
            # Two rows that will play each other must start together: when one is done, the other is truncated.
            self.truncated[joining[over[joining ^ 1] & ~over[joining]]] = True
            over |= self.truncated
        if self._statistics is not None:
            self._statistics.end_tick(self.tick, self.reward)
        if self._metrics is not None:
            given = getattr(self.world, "desync_reason", None)  # optional, see `sb3_pvp.game.World`
            reasons = np.zeros(len(over), np.uint8) if given is None else seats.own(given)
            self._metrics.end_tick(self.tick, self.components, over, self.length, reasons)
        if is_shown:
            self.renderer.end_tick(np.flatnonzero(over))

    def set_opponent(self, row: int, choice: OpponentChoice | OpponentLike) -> None:
        """Sets the opponent of a row for its next episode; see `PvpEnv.set_opponent`."""
        self.opponents.choose(row, as_choice(choice))
        self._next_opponents = []

    def show_to(self, learner: Any) -> None:
        """Tells a learner that searches of which fights it is asked next, see `sb3_pvp.policies.acting.Opponent`."""
        learner.watch(self.world, self._seats.fight, self._seats.seat)

    def take_seat(self, seat: int) -> None:
        """Moves the learner to this seat (0 or 1) in all rows, and opponents to the other one; `reset` all rows then.

        In seat 1 no row may play ``"self"``.
        """
        self._seats.take(seat)
        self.opponents.take_seat(1 - seat)
        self._next_opponents = []

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Sets the time of all schedules: how many rollouts the learner was trained on (training.md §9)."""
        trained_rollouts = COUNT.read("trained_rollouts", trained_rollouts)
        if trained_rollouts == self.trained_rollouts:
            return  # ``env_method`` calls this once for every row
        self.trained_rollouts = trained_rollouts
        self._weights = self._rewards.at(self.settings.rewards, self.trained_rollouts)
        self._observations.set_trained_rollouts(trained_rollouts)

    def reset_info(self, fight: int) -> dict[str, Any]:
        """Returns the ``info`` of the start of an episode, see `PvpEnv.reset`."""
        number = int(self._seats.fight[fight])
        info: dict[str, Any] = {"opponent": self.opponents.current[fight].name}
        # Not there rather than ``None``: of several rows Gymnasium makes one array of integers.
        if (seed := self._seeds[number]) is not None:
            info["seed"] = seed
        # Not ``isinstance(world, Grouped)``: checks against a protocol are slow, and `PvpEnv` calls this in every step.
        if (build_name := getattr(self.world, "build_name", None)) is not None:
            info["build"] = build_name(number)
        return info

    def info(self, fight: int) -> dict[str, Any]:
        """Returns the ``info`` of the last tick; see `PvpEnv.step` for the keys."""
        info, outcome = self.reset_info(fight), Outcome(int(self.tick.outcome[fight]))
        over = self.terminated[fight] or self.truncated[fight]
        info["outcome"] = "timeout" if over and outcome == Outcome.RUNNING else outcome.name.lower()
        info["episode_ticks"] = int(self.world.ticks[self._seats.fight[fight]])
        info["rewards"] = named_terms(self._rewards, self.components[:, fight])
        if over:
            info["episode_rewards"] = named_terms(self._rewards, self.episode_components[:, fight])
            if self._statistics is not None:
                info["episode_statistics"] = self._statistics.of_episode(fight)
            if outcome < Outcome.TARGET_LOST:
                info["is_success"] = outcome == Outcome.WON
        return info

    def reward_weights(self) -> dict[str, float]:
        """Returns the current weights of the reward, see `sb3_pvp.game.Rewards.figures`."""
        return dict(self._rewards.figures(self.settings.rewards, self.trained_rollouts))

    def enable_metrics(self) -> None:
        """Starts to collect metrics, which makes each tick slightly slower."""
        if self._metrics is None:
            self._metrics = FightMetrics(self.world.num_fights, self.settings.game)

    def pop_metrics(self) -> NDArray[np.float64]:
        """See `FightMetrics.pop`; called for each row of a vectorized environment, only the first call is nonzero."""
        if self._metrics is None:
            raise RuntimeError("no metrics were collected: call enable_metrics() first")
        return self._metrics.pop()

    def get_state(self) -> Snapshot:
        """Returns plain values and copied arrays from which `Fights` with the same settings resume bit for bit.

        Collected metrics are not included. Raises `NotImplementedError` if the world has no ``get_state``.
        """
        if not isinstance(self.world, Resumable):
            raise NotImplementedError(f"{type(self.world).__name__} has no get_state(): its fights cannot be saved")
        return {
            **self._identity,
            "trained_rollouts": self.trained_rollouts,
            "seat": 0 if self._seats.order == 1 else 1,
            "world": self.world.get_state(),
            "opponents": self.opponents.get_state(),
            "starts": {"seeds": list(self._seeds), "unused": dict(self._unused_seeds)},
            **{name: snapshots.copy_arrays(owner, names) for name, (owner, names) in self._arrays().items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a snapshot of `get_state`; `ValueError` if its settings differ, and nothing is changed then."""
        snapshots.check_identity(state, self._identity)
        if "meta" in state.get("tick", {}):  # the name of ``report`` in the first edition
            state = {**state, "tick": {**state["tick"], "report": state["tick"]["meta"]}}
        # Every part names its arrays, so that what is saved, checked and restored is one list.
        arrays = self._arrays()
        for name, (owner, names) in arrays.items():
            snapshots.check_arrays(owner, state.get(name, {}), names)
        # All that can fail comes first: snapshot arrays of another shape, opponents whose file is gone.
        loaded = [self.opponents.restored(each) for each in state["opponents"]["rivals"]]
        # The world first, since it may refuse its part, and seats and observations are views of it.
        self.world.set_state(state["world"])  # type: ignore[attr-defined]
        self.take_seat(state.get("seat", 0))  # earlier versions did not know of another one
        self.opponents.set_state(state["opponents"], loaded)
        self._seeds, self._unused_seeds = list(state["starts"]["seeds"]), dict(state["starts"]["unused"])
        self._assign_seats()
        self.set_trained_rollouts(state["trained_rollouts"])
        # A new object, because metrics keep the current one until they sum it up.
        self.tick = Transition.nothing(self.world.num_fights, self.world.report.dtype)
        for name, (owner, names) in self._arrays().items():
            snapshots.restore_arrays(owner, state[name], names)
        self._started, self._shown_masks = True, None
        self.renderer.start_episodes(keep_final_scenes=False)

    def close(self) -> None:
        """Closes the window and the world."""
        self.renderer.close()
        self.world.close()

    @property
    def _identity(self) -> dict[str, Any]:
        return {
            "kind": "Fights",
            "version": STATE_VERSION,
            "contract": self.contract.name,
            "num_fights": self.world.num_fights,
            "opponent": as_choice(self.settings.opponent).label,
            "frame_ages": self.settings.frame_ages,
        }

    def _arrays(self) -> dict[str, tuple[object, tuple[str, ...]]]:
        """Returns the owner and the attribute names of all arrays of a snapshot, by key of the snapshot."""
        arrays: dict[str, tuple[object, tuple[str, ...]]] = {
            "fights": (self, _STATE),
            "tick": (self.tick, tuple(field.name for field in fields(Transition))),
            "observations": (self._observations, ("own", "hidden")),
        }
        if self.settings.noise is not None:
            arrays["noise"] = (self._observations, ("words",))
        if self._observations.aversions is not None:
            arrays["aversions"] = (self._observations.aversions, ("words", "chances", "allowed"))
        if self._statistics is not None:
            arrays["episode_statistics"] = (self._statistics, self._statistics.ARRAYS)
        return arrays

    def _start_fights(
        self, rows: NDArray[np.int64], seeds: Sequence[int | None], options: Sequence[Mapping[str, Any]]
    ) -> None:
        """Resets the world's fights of these rows, and seats their next opponents."""
        self.check_pairs()
        upcoming = self._next_opponents
        for name in {name for given in options for name in given if name in _RESERVED_OPTIONS}:
            raise ValueError(f"unknown reset option {name!r}: the environment sets it itself")
        # The options of all fights are made before any is reset, so that a wrong one leaves all as they were.
        starting = {
            row: self._world_options(upcoming[row], self._unused_seeds.get(row) if seed is None else seed, given)
            for row, seed, given in zip(rows.tolist(), seeds, options, strict=True)
            if not (upcoming[row].is_self and row & 1)  # an odd row joins the fight of the even one
        }
        if len(starting) < len(rows) and isinstance(self.world, Leavable):
            # These rows now join their partner's fight: their old one must not keep a synchronous server waiting.
            idle = np.setdiff1d(rows, [*starting, *self._seats.paired])
            if idle.size:
                self.world.leave(idle)
        # Equal options are passed once, which is faster; but a shared seed would be counted up from fight to fight.
        first, *others = starting.values()
        alike = "seed" not in first and all(each == first for each in others)
        self.world.reset(np.array(list(starting)), first if alike else [first, *others])
        # A seed of a row that joins a pair would be lost: it is kept for the next fight in the row's own slot.
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            if row in starting:
                self._seeds[row] = starting[row].get("seed")
                self._unused_seeds.pop(row, None)
            elif seed is not None:
                self._unused_seeds[row] = seed
        if self.opponents.begin(rows, seeds):
            self._assign_seats()

    def _world_options(self, opponent: LoadedOpponent, seed: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the world's reset options for a fight against this opponent."""
        order = self._seats.order
        options: dict[str, Any] = {"bots": (None, WORLD_BOT if opponent.is_bot else None)[::order]}
        if not self.settings.death_match:  # passed only if set: most worlds do not have this option
            options["death_match"] = False
        choice = opponent.choice
        if choice.fight_params is not None:
            given = {"reset_params": choice.fight_params, **given}
        if changes := choice.reset_params:  # these are only for the opponent's seat
            shared = given.get("reset_params", self.settings.reset_params)
            own, other = (given.get("seat_reset_params") or (shared, shared))[::order]
            given = {**given, "seat_reset_params": (own, {**other, **changes})[::order]}
        return {**options, **given, **({} if seed is None else {"seed": seed})}

    def _assign_seats(self) -> None:
        """Assigns rows to seats according to their current opponents."""
        self._seats.pair(np.array([each.is_self for each in self.opponents.current]))
        self._next_opponents = []

    def check_pairs(self) -> None:
        """Looks up the next opponents if they have changed; `ValueError` if only one row of a pair plays ``"self"``."""
        if self._next_opponents:
            return
        upcoming = [each or now for each, now in zip(self.opponents.following, self.opponents.current, strict=True)]
        is_self = np.array([each.is_self for each in upcoming])
        if self._seats.order != 1 and is_self.any():
            raise ValueError('the learner sits in seat 1: no row can play "self" then, as with GhostSelfPlayCallback')
        # ``row ^ 1`` is the partner; with an odd number of rows, the last one has the appended False as partner.
        alone = np.flatnonzero(is_self != np.append(is_self, False)[np.arange(len(is_self)) ^ 1])
        if alone.size:
            row = int(alone[0])
            raise ValueError(
                f'rows {row & ~1} and {row | 1} must both play "self" or neither: it pairs rows 2j and 2j + 1 of a '
                f"PvpVecEnv, and this environment has {len(is_self)} rows"
            )
        self._joining = np.setdiff1d(np.flatnonzero(is_self), self._seats.paired)
        self._next_opponents = upcoming

    @cached_property
    def renderer(self) -> FightRenderer:
        """Draws, where something is drawn."""
        return FightRenderer(self._viewer, self.contract.name, self._scene)

    def _scene(self, row: int) -> Any:
        """Returns what the game's viewer shows of a row's last tick."""
        if not self._started:
            raise ResetNeeded("no fight to render: call reset() first")
        number, first, opponent = int(self._seats.fight[row]), int(self._seats.seat[row]), self.opponents.current[row]
        order = 1 if first == 0 else -1  # of what is given by seat: the learner may have the second one
        names = self.player_names or ("learner", "learner" if opponent.is_self else opponent.name)[::order]
        actions: Any = (None, None)
        masks: Any = (None, None)
        if self.length[row] > 0:  # before the first tick there was no choice
            actions = (self.actions[row, LEARNER], None if opponent.is_bot else self.actions[row, OPPONENT])[::order]
            masks = masks if self._shown_masks is None else self._shown_masks[number]
        scene = self._viewer.scene(self.world, number, names, actions, masks)
        # The tick limit is the environment's: for the world, the fight still runs.
        timeout = bool(self.truncated[row]) and scene.outcome == Outcome.RUNNING.name.lower()
        return replace(scene, outcome="timeout") if timeout else scene
