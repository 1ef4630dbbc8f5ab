"""`SoccerWorld`: many pitches at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import read_model
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.world import NUM_SEATS, Outcome
from sb3_pvp.games.soccer import pitch
from sb3_pvp.games.soccer.layout import BRANCHES, Layout
from sb3_pvp.games.soccer.physics import play
from sb3_pvp.games.soccer.rays import see
from sb3_pvp.games.soccer.rewards import SoccerParams

#: What a seat's rewards are made of, see `sb3_pvp.games.soccer.rewards`.
REPORT = [("goal", "i1"), ("elapsed", "f4"), ("touches", "f4"), ("existence", "f4"), ("advance", "f4")]
#: Reward of a touch, in units of the parameter ``ball_touch``.
_TOUCH_REWARD = 0.2


class SoccerWorld(ArrayWorld):
    """Matches to one goal. A tick is a decision, which lasts `STEPS_PER_DECISION` steps of physics.

    A match that nobody wins goes on: environments truncate it after `MAX_STEPS`, as Unity does.

    Attributes:
        places: of the K agents and of the ball, x and z ``(F, K + 1, 2)``.
        speeds: ``(F, K + 1, 2)``.
        yaws: of the agents, in degrees ``(F, K)``.
    """

    params_model = SoccerParams

    def __init__(self, layout: Layout, num_fights: int, seed: int, params: Mapping[str, Any]) -> None:
        super().__init__(layout.contract, num_fights, seed, REPORT)
        self.layout, players = layout, layout.players
        self.places, self.speeds = np.zeros((2, num_fights, len(players) + 1, 2))
        self.yaws, self.touches = np.zeros((num_fights, len(players))), np.zeros((num_fights, len(players)), np.int64)
        self.kicks, self.touching = np.zeros((num_fights, 2)), np.zeros((num_fights, len(players)), np.bool_)
        self.steps, self.goals = np.zeros(num_fights, np.int64), np.zeros(num_fights, np.int8)
        self._params = dict(params)
        self.ball_touch = np.full(num_fights, read_model(SoccerParams, params, "reset parameter").ball_touch)
        self._factors = np.array([pitch.SPEED_FACTORS[each.position] for each in players])
        self._always_kicks = np.array([each.position == "goalie" for each in players])
        self._existence = np.array([{"striker": -1.0, "goalie": 1.0}.get(each.position, 0.0) for each in players])
        self._solid, self._seats = pitch.solid(layout.boxes), np.array([each.seat for each in players])
        self._roles, self._plays = np.array([self.contract.agent_index(each.name) for each in players]), self._enter()
        for each in (self._factors, self._always_kicks, self._existence, self._solid, self._seats, self._roles):
            each.flags.writeable = False  # constants of the game, no state
        self._plays.flags.writeable = False
        self._sights = [self._sight(player) for player in range(len(players))]

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Puts everybody at a random place of their half, and the ball near the middle."""
        draw = self.random[fight].uniform
        given = options.get("reset_params", self._params)
        self.ball_touch[fight] = read_model(SoccerParams, given, "reset parameter").ball_touch
        self.speeds[fight], self.kicks[fight], self.touching[fight], self.steps[fight] = 0.0, 0.0, False, 0
        self.touches[fight] = 0
        for number, player in enumerate(self.layout.players):
            side = 1.0 if player.seat else -1.0
            is_goalie = player.position == "goalie"
            x = side * (pitch.GOALIE_X if is_goalie else pitch.START_X) + draw(-pitch.SPREAD_X, pitch.SPREAD_X)
            self.places[fight, number] = x, 0.0 if is_goalie else pitch.LINE_Z * (1 - 2 * (self._roles[number] % 2))
            self.yaws[fight, number] = -side * draw(*pitch.START_YAW)
        self.places[fight, -1] = draw(-pitch.SPREAD_BALL, pitch.SPREAD_BALL, 2)
        self.report[fight] = 0
        self.obs[fight] = self._plays  # forgets the last match
        self.look(np.array([fight]))

    def play_fights(self, which: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `ArrayWorld.play_fights`."""
        teams = actions.reshape(len(which), NUM_SEATS, len(self.contract.agents), len(BRANCHES))
        moves = np.ascontiguousarray(teams[:, self._seats, self._roles])
        state = self.places, self.speeds, self.yaws, self.kicks, self.touching, self.steps
        before, ball = self.steps[which], self.places[which, -1, 0]
        abilities = self._factors, self._always_kicks
        play(which, moves, state, *abilities, self._solid, self.goals, self.touches)
        self._report(which, self.steps[which] - before, self.places[which, -1, 0] - ball)
        self.look(which)

    def _report(self, which: NDArray[np.int64], steps: NDArray[np.int64], metres: NDArray[np.float64]) -> None:
        """Writes outcomes, and what rewards are made of; ``metres`` is how far the ball has come along the pitch."""
        goals = self.goals[which]
        if not self.layout.shared:  # the strikers' own goal is behind a wall
            goals = np.maximum(goals, 0)
        scored = np.stack([goals, -goals], axis=1)
        self.outcome[which] = np.choose(scored + 1, (Outcome.LOST, Outcome.RUNNING, Outcome.WON))
        report, touches = self.report, self.touches[which] * (_TOUCH_REWARD * self.ball_touch[which, None])
        report["goal"][which] = scored
        report["elapsed"][which] = (self.steps[which] / pitch.MAX_STEPS)[:, None]
        report["advance"][which] = np.stack([metres, -metres], axis=1) / pitch.GOAL_LINE
        for seat in range(NUM_SEATS):
            own = self._seats == seat
            report["touches"][which, seat] = touches[:, own].sum(axis=1)
            report["existence"][which, seat] = self._existence[own][0] * steps / pitch.MAX_STEPS

    def look(self, which: NDArray[np.int64]) -> None:
        """Writes what everybody sees, as the newest frame."""
        everything = self.obs.reshape(self.num_fights, -1)
        for sight in self._sights:
            see(which, self.places, self.yaws, self.layout.boxes, everything, *sight)

    def rays(self, fight: int, player: int) -> NDArray[np.float32]:
        """Returns the newest frame of a player's rays, ``(rays, tags + 2)``, see `sb3_pvp.games.soccer.rays.see`."""
        newest: NDArray[np.float32] = self._by_ray(player, self.obs[fight, :, np.newaxis])[-1]
        return newest

    def _by_ray(self, player: int, numbers: NDArray[Any]) -> NDArray[Any]:
        """Returns what is a player's among the numbers of both seats ``(2, 1, D)``, ``(FRAMES, rays, tags + 2)``."""
        own = slice(*self.contract.agents[self._roles[player]].observations)
        mine: NDArray[Any] = self.layout.players[player].rays(numbers[self._seats[player], :, own])[0]
        return mine

    def _sight(self, player: int) -> tuple[Any, ...]:
        """Returns the arguments of `see` about a player."""
        each, numbers = self.layout.players[player], np.arange(self.obs[0].size).reshape(NUM_SEATS, 1, -1)
        frames = np.ascontiguousarray(self._by_ray(player, numbers)[:, :, 0].T)
        return player, each.angles, frames, len(each.tags), self.layout.tags(each)

    def _enter(self) -> NDArray[np.float32]:
        """Leaves who is not on a seat one legal action in each head; returns the flags of those who are ``(2, D)``."""
        contract, plays = self.contract, np.zeros(self.obs.shape[1:], np.float32)
        for agent, entries in zip(contract.agents, contract.agent_entries, strict=True):
            for seat in range(NUM_SEATS):
                if seat not in agent.seats:
                    self.masks[:, seat, entries] = False
                    self.masks[:, seat, contract.head_offsets[slice(*agent.heads)]] = True
                elif agent.active is not None:
                    plays[seat, contract.observation_index(agent.active)] = 1.0
        self.obs[:] = plays
        return plays
