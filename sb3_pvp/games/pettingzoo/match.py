"""One match of a PettingZoo game: the two kinds of environments with one face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import NUM_SEATS
from sb3_pvp.games.pettingzoo.layout import GameLayout


class Match(ABC):
    """A match between the agents 0 and 1 of an environment.

    Args:
        env: the environment.
        layout: of its spaces.

    Attributes:
        features: float32 ``(2, num_observations)``, what each agent sees.
        masks: bool ``(2, num_flat_actions)``, what it may do.
        totals: float64 ``(2,)``, the sum of its rewards.
        is_over: whether the match has ended, for both as soon as for one.
    """

    def __init__(self, env: Any, layout: GameLayout) -> None:
        self.env, self._layout = env, layout
        contract = layout.contract
        self.features = np.zeros((NUM_SEATS, contract.num_observations), np.float32)
        self.masks = np.zeros((NUM_SEATS, contract.num_flat_actions), bool)
        self.totals = np.zeros(NUM_SEATS)
        self.is_over = True

    def begin(self, seed: int, options: Mapping[str, Any] | None) -> None:
        """Starts a new match."""
        self.totals[:] = 0.0
        self.is_over = False
        self._begin(seed, dict(options) if options else None)

    def play(self, choices: NDArray[np.int64]) -> None:
        """Plays the choices ``(2, heads)`` of both agents; those that are not possible become the first that is."""
        legal = [self._layout.legal(*each) for each in zip(choices, self.masks, strict=True)]
        self._play(legal)

    def random_choices(self, agent: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """A random move of an agent."""
        return self._layout.random(self.masks[agent], rng)

    @abstractmethod
    def _begin(self, seed: int, options: dict[str, Any] | None) -> None: ...

    @abstractmethod
    def _play(self, choices: list[NDArray[np.int64]]) -> None: ...

    def _end_step(self, rewards: Mapping[str, Any], *endings: Mapping[str, Any]) -> None:
        """Adds up rewards; the match is over if anybody's episode has ended in any way."""
        self.totals += [float(rewards.get(agent, 0.0)) for agent in self._layout.agents]
        self.is_over = any(any(ending.values()) for ending in endings)

    def _look(self, agent: int, observation: Any, info: Mapping[str, Any], to_move: bool) -> None:
        self.features[agent] = self._layout.features(observation, agent, to_move)
        self.masks[agent] = self._layout.mask(observation, info) if to_move else self._layout.idle


class ParallelMatch(Match):
    """Both agents move at the same time (``ParallelEnv``)."""

    def _begin(self, seed: int, options: dict[str, Any] | None) -> None:
        self._look_at(*self.env.reset(seed=seed, options=options))

    def _play(self, choices: list[NDArray[np.int64]]) -> None:
        actions = (self._layout.action(each) for each in choices)
        observations, rewards, terminations, truncations, infos = self.env.step(
            dict(zip(self._layout.agents, actions, strict=True))
        )
        self._end_step(rewards, terminations, truncations)
        self._look_at(observations, infos)

    def _look_at(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        for number, agent in enumerate(self._layout.agents):
            if agent in observations:  # of agents who are gone some games tell nothing
                self._look(number, observations[agent], infos.get(agent, {}), not self.is_over)


class TurnMatch(Match):
    """The agents move in turns (``AECEnv``); the other one waits."""

    def _begin(self, seed: int, options: dict[str, Any] | None) -> None:
        self.env.reset(seed=seed, options=options)
        self._look_around()

    def _play(self, choices: list[NDArray[np.int64]]) -> None:
        mover = self._layout.agents.index(self.env.agent_selection)
        self.env.step(self._layout.action(choices[mover]))
        self._end_step(self.env.rewards, self.env.terminations, self.env.truncations)
        self._look_around()

    def _look_around(self) -> None:
        for number, agent in enumerate(self._layout.agents):
            to_move = not self.is_over and agent == self.env.agent_selection
            self._look(number, self.env.observe(agent), self.env.infos.get(agent, {}), to_move)


def make_match(make_env: Callable[[], Any], layout: GameLayout) -> Match:
    """A match in a new environment of the layout's game."""
    return (TurnMatch if layout.in_turns else ParallelMatch)(make_env(), layout)
