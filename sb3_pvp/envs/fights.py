"""N fights of a learner: what `PvpEnv` (N = 1) and `PvpVecEnv` have in common, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common import snapshots
from sb3_pvp.common.arguments import COUNT
from sb3_pvp.common.snapshots import Snapshot
from sb3_pvp.contract.actions import check_actions
from sb3_pvp.envs.metrics import EpisodeStatistics, FightMetrics, Measures, measures_of
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.envs.viewer import Viewer
from sb3_pvp.game import NUM_SEATS, Leavable, Outcome, Resumable, Transition
from sb3_pvp.opponents.opponents import WORLD_BOT, OpponentChoice, OpponentLike, as_choice
from sb3_pvp.opponents.pool import LoadedOpponent, OpponentPool
from sb3_pvp.opponents.seat_views import Observation, SeatObservations, Seats, observation_space
from sb3_pvp.simple_game import named_terms

LEARNER, OPPONENT = range(NUM_SEATS)
# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_RUNNING, _TARGET_LOST = int(Outcome.RUNNING), int(Outcome.TARGET_LOST)
_OWN_OPTIONS = ("seed", "bots")  #: What ``reset(options=...)`` must not tell a world: the environment does.
STATE_VERSION = 2
#: The arrays of `Fights` that later ticks or infos depend on.
_PER_ROW = ("reward", "episode_return", "length", "terminated", "truncated", "actions")
_STATE = (*_PER_ROW, "components", "episode_components")


class Fights:
    """N fights, their opponents, the learner's observations and rewards.

    A fight is between a row and its opponent, or between the partners of a pair (`Seats`): the seats of the rows change
    with their opponents.
    """

    def __init__(self, num_fights: int, settings: FightSettings) -> None:
        self.settings = settings
        self.world = settings.make_world(num_fights)
        self.contract = self.world.contract
        self._seats, self._rows = Seats(num_fights), np.arange(num_fights)
        #: Who fights the rows that do not fight each other.
        self.opponents = OpponentPool(self.world, as_choice(settings.opponent), settings.game)
        self._seeds: list[int | None] = [None] * num_fights
        #: Seeds for fights that nobody has started since.
        self._unused: dict[int, int] = {}
        #: Rows that wait for their partner, and who comes in the next episodes; see `_review`.
        self._joining = np.zeros(0, np.int64)
        self._coming: list[LoadedOpponent] = []
        self._pair()
        self._rewards = settings.scoring
        self._weights = self._rewards.at(settings.rewards, 0)
        self.frame_ages: tuple[int, ...] = settings.frame_ages
        self.observation_space = observation_space(self.contract, len(self.frame_ages))
        self.action_space = self.contract.action_space
        hindrances = settings.noise, settings.action_mask_override
        self._observations = SeatObservations(self.world, self._seats, self.frame_ages, *hindrances)
        self.trained_rollouts = 0  #: How many the learner was trained on, the time of all schedules.
        report = self.world.report
        # The same records as lumps of bytes: NumPy copies those ten times as fast as records, field by field.
        self._report = report.view(np.dtype((np.void, report.dtype.itemsize)))
        self.tick = Transition.nothing(num_fights, report.dtype)  #: What happened to the learner in the last tick.
        self.reward = np.zeros(num_fights, np.float32)  #: Of the last tick.
        self.episode_return = np.zeros(num_fights, np.float64)
        self.terminated = np.zeros(num_fights, bool)  #: Won, lost or tied in the last tick.
        self.truncated = np.zeros(num_fights, bool)  #: Broken off, or at the limit of ticks.
        self.components = np.zeros((len(self._rewards.terms), num_fights), np.float32)  #: The parts of `reward`.
        self.episode_components = np.zeros_like(self.components)  #: The same, summed over the episode.
        self.length = np.zeros(num_fights, np.int64)  #: Ticks that were played in the episode.
        #: What both seats chose last; zeros where the world's bot plays.
        self.actions = np.zeros((num_fights, NUM_SEATS, self.contract.num_heads), np.int64)
        self.viewer = Viewer(self)
        self._metrics: FightMetrics | None = None
        self._statistics = EpisodeStatistics(num_fights, settings.game.metrics) if settings.episode_statistics else None

    def reset(
        self,
        fights: ArrayLike,
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any]] | None = None,
        certain: bool = True,
    ) -> None:
        """Starts new episodes in ``fights``, with a seed and the world's reset options for each.

        Without a seed a fight goes on with its random numbers; the first reset of a fight needs one. A common fight has
        the seed and the options of the first row of the pair. Not ``certain``: see `Viewer.start_new`. `ValueError`,
        and nothing changed, for options that the world does not know and for half a pair.
        """
        fights = np.asarray(fights, np.int64)
        seeds = seeds or [None] * len(fights)
        self._start(fights, seeds, options or [{}] * len(fights))
        self._observations.begin(fights, seeds)
        for name in _PER_ROW:
            getattr(self, name)[fights] = 0
        for components in (self.components, self.episode_components):
            components[:, fights] = 0
        for measured in (self._metrics, self._statistics):
            if measured is not None:
                measured.begin(fights)
        self.viewer.start_new(certain)

    def step(self, actions: ArrayLike) -> None:
        """Plays one tick of every fight; ``actions`` are ints ``(N, heads)`` of the learner.

        Raises `ValueError` (see `check_actions`) before anything has changed.
        """
        checked = check_actions(actions, self.contract, self.world.num_fights)
        self._review()
        self.viewer.start_tick()
        self.actions[:, LEARNER] = checked
        if self._metrics is not None:
            self._metrics.start_tick()
        self.opponents.act(self.actions)
        seats = self._seats
        self.actions[seats.paired, OPPONENT] = self.actions[seats.partner, LEARNER]
        self.world.step(self.actions if seats.playing is None else self.actions[seats.playing], seats.playing)
        self._observations.advance(self._rows)
        self.opponents.advance()
        self.length += 1
        self._judge()
        if self._statistics is not None:
            self._statistics.end_tick(self.tick, self.reward)
        if self._metrics is not None:
            told = getattr(self.world, "desync_reason", None)
            reasons = np.zeros(len(self.length), np.uint8) if told is None else self._seats.own(told)
            over = self.terminated | self.truncated
            self._metrics.end_tick(self.tick, self.components, over, self.length, reasons)
        self.viewer.end_tick()

    def set_opponent(self, row: int, choice: OpponentChoice | OpponentLike) -> None:
        """Says whom a row fights in its next episode; see `PvpEnv.set_opponent`."""
        self.opponents.choose(row, as_choice(choice))
        self._coming = []

    def set_trained_rollouts(self, trained_rollouts: int) -> None:
        """Says how many rollouts the learner was trained on, the time of all schedules (training.md §9)."""
        trained_rollouts = COUNT.read("trained_rollouts", trained_rollouts)
        if trained_rollouts == self.trained_rollouts:
            return  # every row of a vectorised environment is told
        self.trained_rollouts = trained_rollouts
        self._weights = self._rewards.at(self.settings.rewards, self.trained_rollouts)
        self._observations.set_trained_rollouts(trained_rollouts)

    def observation(self, fights: NDArray[np.int64] | slice = slice(None)) -> Observation:
        """See `SeatObservations.stacked`."""
        return self._observations.stacked(fights)

    def fighters(self, row: int) -> tuple[int, tuple[str, str], tuple[NDArray[np.int64] | None, ...]]:
        """The fight of a row, and of both seats the name, and what was chosen in the last tick, if anything was."""
        first, opponent, played = int(self._seats.seat[row]), self.opponents.current[row], self.length[row] > 0
        names = ["learner", "learner" if opponent.is_self else opponent.name]
        chosen = [self.actions[row, LEARNER], None if opponent.is_bot else self.actions[row, OPPONENT]]
        actions = (chosen[first], chosen[1 - first]) if played else (None, None)
        return int(self._seats.fight[row]), (names[first], names[1 - first]), actions

    def action_masks(self, fights: int | slice = slice(None)) -> NDArray[np.bool_]:
        """The learner's flat masks, bool ``(N, A)``, or ``(A,)`` of one fight: a new array."""
        return self._observations.masks(fights)

    def seat_masks(self) -> NDArray[np.bool_]:
        """What both seats of every fight may choose, bool ``(N, 2, A)``, a new array; those of learners are theirs."""
        masks = self.world.masks.copy()
        masks[self._seats.fight, self._seats.seat] = self.action_masks()
        return masks

    def reset_info(self, fight: int) -> dict[str, Any]:
        """What is known about an episode from its start, see `PvpEnv.reset`."""
        number = int(self._seats.fight[fight])
        info: dict[str, Any] = {"opponent": self.opponents.current[fight].name, "seed": self._seeds[number]}
        if (build_name := getattr(self.world, "build_name", None)) is not None:  # `Grouped`, asked in no time
            info["build"] = build_name(number)
        return info

    def info(self, fight: int) -> dict[str, Any]:
        """What happened in the last tick; see `PvpEnv.step` for the keys."""
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
        """The weights of the reward at this time, see `sb3_pvp.game.Rewards.figures`."""
        return dict(self._rewards.figures(self.settings.rewards, self.trained_rollouts))

    def enable_metrics(self) -> None:
        """Begins to measure; from then on a tick costs a little more."""
        if self._metrics is None:
            self._metrics = FightMetrics(self.world.num_fights, self.settings.game)

    def pop_metrics(self) -> NDArray[np.float64]:
        """See `FightMetrics.pop`; of environments that share fights the first one gets it all, the others zeros."""
        if self._metrics is None:
            raise RuntimeError("nothing was measured: call enable_metrics() first")
        return self._metrics.pop()

    def measures(self) -> Measures:
        """What the sums of `pop_metrics` stand for."""
        return measures_of(self.settings.game)

    def get_state(self) -> Snapshot:
        """Plain values and copied arrays, with which `Fights` with the same settings go on bit for bit.

        Without what was measured. Raises `NotImplementedError` in a world without ``get_state``.
        """
        if not isinstance(self.world, Resumable):
            raise NotImplementedError(f"{type(self.world).__name__} has no get_state(): its fights cannot be put back")
        return {
            **self._identity,
            "trained_rollouts": self.trained_rollouts,
            "world": self.world.get_state(),
            "opponents": self.opponents.get_state(),
            "starts": {"seeds": list(self._seeds), "unused": dict(self._unused)},
            **{name: snapshots.copies(owner, names) for name, (owner, names) in self._arrays().items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes back to the moment of `get_state`; `ValueError`, and nothing changed, if other `Fights` made it."""
        snapshots.check_identity(state, self._identity)
        if "meta" in state.get("tick", {}):  # as the first edition called it
            state = {**state, "tick": {**state["tick"], "report": state["tick"]["meta"]}}
        arrays = self._arrays()
        for name, (owner, names) in arrays.items():
            snapshots.check_arrays(owner, state.get(name, {}), names)
        loaded = [self.opponents.restored(each) for each in state["opponents"]["rivals"]]
        self.world.set_state(state["world"])  # type: ignore[attr-defined]
        self.opponents.set_state(state["opponents"], loaded)
        self._seeds, self._unused = list(state["starts"]["seeds"]), dict(state["starts"]["unused"])
        self._pair()
        self.set_trained_rollouts(state["trained_rollouts"])
        # The present one may be in other hands.
        self.tick = Transition.nothing(self.world.num_fights, self.world.report.dtype)
        for name, (owner, names) in self._arrays().items():
            snapshots.put_back(owner, state[name], names)
        self.viewer.start_new()

    def close(self) -> None:
        """Closes the window and the world."""
        self.viewer.close()
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
        """The objects with the arrays of a snapshot, and what the arrays are called in them."""
        arrays: dict[str, tuple[object, tuple[str, ...]]] = {
            "fights": (self, _STATE),
            "tick": (self.tick, tuple(field.name for field in fields(Transition))),
            "observations": (self._observations, ("own", "hidden")),
        }
        if self.settings.noise is not None:
            arrays["noise"] = (self._observations, ("words",))
        if self._statistics is not None:
            arrays["episode_statistics"] = (self._statistics, self._statistics.ARRAYS)
        return arrays

    def _start(
        self, rows: NDArray[np.int64], seeds: Sequence[int | None], options: Sequence[Mapping[str, Any]]
    ) -> None:
        """Starts these fights in the world; the opponents that were chosen come."""
        self._review()
        for name in {name for given in options for name in given if name in _OWN_OPTIONS}:
            raise ValueError(f"unknown reset option {name!r}: the environment says that itself")
        starting = {
            row: self._options(self._coming[row], self._unused.get(row) if seed is None else seed, given)
            for row, seed, given in zip(rows.tolist(), seeds, options, strict=True)
            if not (self._coming[row].is_self and row & 1)  # who plays its partner's fight
        }
        idle = np.setdiff1d(rows, [*starting, *self._seats.paired])
        if idle.size and isinstance(self.world, Leavable):
            self.world.leave(idle)
        first, *others = starting.values()
        alike = "seed" not in first and all(each == first for each in others)
        self.world.reset(np.array(list(starting)), first if alike else [first, *others])
        for row, seed in zip(rows.tolist(), seeds, strict=True):
            if row in starting:
                self._seeds[row] = starting[row].get("seed")
                self._unused.pop(row, None)
            elif seed is not None:
                self._unused[row] = seed  # for when its fight is fought
        if self.opponents.begin(rows, seeds):
            self._pair()

    def _options(self, opponent: LoadedOpponent, seed: int | None, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the world is told when a fight starts."""
        options: dict[str, Any] = {"bots": (None, WORLD_BOT if opponent.is_bot else None)}
        if not self.settings.death_match:  # worlds that know nothing of it need not
            options["death_match"] = False
        changes = opponent.choice.reset_params
        if changes:
            shared = given.get("reset_params", self.settings.reset_params)
            first, second = given.get("seat_reset_params") or (shared, shared)
            given = {**given, "seat_reset_params": (first, {**second, **changes})}
        return {**options, **given, **({} if seed is None else {"seed": seed})}

    def _pair(self) -> None:
        """Gives rows their seats."""
        self._seats.pair(np.array([each.is_self for each in self.opponents.current]))
        self._coming = []

    def _review(self) -> None:
        """Looks at the choices of opponents since the last time; raises `ValueError` for half a pair."""
        if self._coming:
            return
        coming = self.opponents.expected()
        wants = np.array([each.is_self for each in coming])
        alone = np.flatnonzero(wants != np.append(wants, False)[np.arange(len(wants)) ^ 1])
        if alone.size:
            row = int(alone[0])
            raise ValueError(
                f'rows {row & ~1} and {row | 1} play each other or neither of them does: "self" is for both rows of a '
                f"pair in a PvpVecEnv, and this environment has {len(wants)}"
            )
        self._joining = np.setdiff1d(np.flatnonzero(wants), self._seats.paired)
        self._coming = coming

    def _judge(self) -> None:
        outcome = self._seats.own(self.world.outcome)
        report = self._seats.own(self._report).view(self.world.report.dtype)
        self.tick = Transition(report, self.tick.report, self.length > 1, outcome)
        self.components = self._rewards.compute(self.tick, self._weights)
        self.reward = self.components.sum(axis=0)
        self.episode_return += self.reward
        self.episode_components += self.components
        self.truncated = outcome >= _TARGET_LOST
        self.terminated = (outcome != _RUNNING) & ~self.truncated
        limit = self.settings.max_episode_ticks
        if limit is not None:
            self.truncated |= ~self.terminated & (self.length >= limit)
        over, joining = self.terminated | self.truncated, self._joining
        self.truncated[joining[over[joining ^ 1] & ~over[joining]]] = True
