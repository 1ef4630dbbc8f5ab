"""Ghost self-play with the rules of ml-agents 1.1.0.

When a side meets which past version of itself, which side learns, and what that does to its Elo rating.

A *version* is the number of updates after which weights were published. All steps are those of agents, and counted
when a piece of an episode is complete. Nothing here knows networks or environments.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sb3_pvp.common.arguments import NUMBER, POSITIVE, SHARE

LATEST = -1  #: The "slot" of weights that were the newest at the swap; its rating is the learner's own.


@dataclass(frozen=True)
class GhostSettings:
    """Values of ml-agents' ``self_play``, with its names and defaults; `ValueError` for one out of range.

    Attributes:
        save_steps, swap_steps: steps of the learning team between snapshots, and of the other one between swaps.
        team_change: steps after which another team learns; ``None``: five times ``save_steps``.
        window: number of slots for snapshots.
        play_against_latest_model_ratio: probability that a swap takes the newest weights instead of a snapshot.
        initial_elo: rating of the learner and of all slots at the start.
    """

    save_steps: int = 20_000
    team_change: int | None = None
    swap_steps: int = 2_000
    window: int = 10
    play_against_latest_model_ratio: float = 0.5
    initial_elo: float = 1200.0

    def __post_init__(self) -> None:
        POSITIVE.check(save_steps=self.save_steps, swap_steps=self.swap_steps, window=self.window)
        if self.team_change is None:
            vars(self).update(team_change=5 * self.save_steps)  # a frozen dataclass does not allow assignments
        POSITIVE.check(team_change=self.team_change)
        SHARE.check(play_against_latest_model_ratio=self.play_against_latest_model_ratio)
        NUMBER.check(initial_elo=self.initial_elo)


class Trajectory(NamedTuple):
    """A piece of an agent's episode; ``reward`` is that of the last step if its team ended there, not interrupted."""

    team: int
    steps: int
    reward: float | None = None


class EloChanged(NamedTuple):  # the learner's rating goes up by that, and that of the slot it played against down
    opponent: int
    change: float


class TeamChanged(NamedTuple):  # another team learns, with the newest weights: all environments begin anew
    old: int
    new: int


class Saved(NamedTuple):  # a slot has got a snapshot, with the learner's present rating
    slot: int
    version: int
    elo: float


class Swapped(NamedTuple):  # a team plays with the weights of a slot, or with the `LATEST`, from now on
    team: int
    opponent: int
    version: int


Event = EloChanged | TeamChanged | Saved | Swapped


@dataclass
class Ghost:
    """What one network knows of its self-play; only plain values."""

    learning_team: int  #: The team that learned when it was last asked.
    elos: list[float]  #: Of the slots, and last the learner's own.
    next_slot: int
    slots: list[int] = field(default_factory=lambda: [0])  #: Versions; the first is that of the start.
    opponent: int = 0  #: The slot that the other side plays with, or `LATEST`.
    opponent_version: int = 0
    version: int = 0  #: Of the newest weights.
    step: int = 0
    ghost_step: int = 0
    last_save: int = 0
    last_swap: int = 0
    last_team_change: int = 0


class GhostSelfPlay:
    """Decides for all networks of a game: ``teams`` are the names of theirs, in the order in which they will learn.

    In most games one network plays both teams; where the sides differ, each has its own ``settings``. The random
    numbers are those that ml-agents draws with the same seed.
    """

    def __init__(
        self, settings: Mapping[str, GhostSettings], teams: Mapping[int, str], seed: int | None = None
    ) -> None:
        self.settings, self._teams = dict(settings), dict(teams)
        self.learning_team, *self._waiting = teams
        self.random = np.random.RandomState(seed)
        elos = {name: [own.initial_elo] * (own.window + 1) for name, own in settings.items()}
        self.ghosts = {name: Ghost(self.learning_team, own, next_slot=1 % (len(own) - 1)) for name, own in elos.items()}

    def advance(self, name: str, finished: Iterable[Trajectory], version: int) -> list[Event]:
        """Takes in what the agents of a network have finished, and the version of its newest weights after that.

        All limits have to be exceeded, counted from the last time; so they drift, as there.
        """
        own, settings, events = self.ghosts[name], self.settings[name], list[Event]()
        for team, steps, reward in finished:
            if team != own.learning_team:
                own.ghost_step += steps
                continue
            own.step += steps
            if reward is not None:
                events.append(self._rate(own, reward))
        own.version = version
        assert settings.team_change is not None
        if own.step - own.last_team_change > settings.team_change:
            events.append(TeamChanged(self.learning_team, self._waiting[0]))
            self._waiting.append(self.learning_team)
            self.learning_team, own.last_team_change = self._waiting.pop(0), own.step
        if own.step - own.last_save > settings.save_steps:
            events.append(self._save(own, settings.window))
            own.last_save = own.step
        if own.learning_team != self.learning_team or own.ghost_step - own.last_swap > settings.swap_steps:
            own.learning_team, own.last_swap = self.learning_team, own.ghost_step
            others = [team for team, plays in self._teams.items() if plays == name and team != own.learning_team]
            events += [self._swap(own, team, settings.play_against_latest_model_ratio) for team in others]
        return events

    def _rate(self, own: Ghost, reward: float) -> EloChanged:
        """Elo with K = 1, by the sign of the reward; against `LATEST` ones both sides are one, and nothing changes."""
        other = next(self.ghosts[name] for team, name in self._teams.items() if team != self.learning_team)
        mine, theirs = (10 ** (elo / 400) for elo in (own.elos[-1], other.elos[other.opponent]))
        change = (0.5 + 0.5 * float(np.sign(reward))) - mine / (mine + theirs)
        other.elos[other.opponent] -= change
        own.elos[-1] += change
        return EloChanged(other.opponent, change)

    def _save(self, own: Ghost, window: int) -> Saved:
        slot, elo = own.next_slot, own.elos[-1]
        own.slots[slot : slot + 1], own.elos[slot] = [own.version], elo
        own.next_slot = (slot + 1) % window
        return Saved(slot, own.version, elo)

    def _swap(self, own: Ghost, team: int, latest_ratio: float) -> Swapped:
        is_past = self.random.uniform() < 1 - latest_ratio
        own.opponent = int(self.random.randint(len(own.slots))) if is_past else LATEST
        own.opponent_version = own.slots[own.opponent] if is_past else own.version
        return Swapped(team, own.opponent, own.opponent_version)

    def state(self) -> dict[str, Any]:
        """Returns all that changes, as plain values of JSON."""
        _, key, place, *_ = self.random.get_state(legacy=True)
        ghosts = {name: asdict(own) for name, own in self.ghosts.items()}
        random = {"key": np.asarray(key).tolist(), "place": int(place)}
        return {"teams": [self.learning_team, *self._waiting], "ghosts": ghosts, "random": random}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on as the one that returned this `state`; `ValueError` if that had windows of other sizes."""
        for name, own in state["ghosts"].items():
            if (window := len(own["elos"]) - 1) != self.settings[name].window:
                raise ValueError(
                    f"the run has a window of {window} snapshots, which cannot change: set window: {window}"
                )
        self.learning_team, *self._waiting = state["teams"]
        self.ghosts = {name: Ghost(**copy.deepcopy(own)) for name, own in state["ghosts"].items()}
        key = np.array(state["random"]["key"], np.uint32)
        self.random.set_state(("MT19937", key, state["random"]["place"], 0, 0.0))
