"""`SoccerWorld`: many pitches at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract.turn import fight_numbers, joint_actions
from sb3_pvp.game.world import NUM_SEATS, Outcome
from sb3_pvp.games.soccer.layout import BALL, BRANCHES, Layout
from sb3_pvp.games.soccer.params import SoccerParams
from sb3_pvp.games.soccer.physics import play
from sb3_pvp.games.soccer.pitch import (
    FRAMES,
    GOAL_LINE,
    GOALIE_X,
    LINE_Z,
    MAX_STEPS,
    SPEED_FACTORS,
    SPREAD_BALL,
    SPREAD_X,
    START_X,
    START_YAW,
    solid,
)
from sb3_pvp.games.soccer.rays import see

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

    def __init__(self, layout: Layout, num_fights: int, seed: int, params: SoccerParams) -> None:
        super().__init__(layout.contract, num_fights, seed, REPORT)
        self.layout, self.params = layout, params
        agents, players = len(layout.players), layout.players
        self.places, self.speeds = np.zeros((2, num_fights, agents + 1, 2))
        self.yaws = np.zeros((num_fights, agents))
        self.kicks, self.touching = np.zeros((num_fights, 2)), np.zeros((num_fights, agents), np.bool_)
        self.steps = np.zeros(num_fights, np.int64)
        self.goals, self.touches = np.zeros(num_fights, np.int8), np.zeros((num_fights, agents), np.int64)
        self.ball_touch = np.full(num_fights, params.ball_touch)
        factors = np.array([SPEED_FACTORS[each.position] for each in players])
        self._speed_factors = (np.ascontiguousarray(factors[:, 0]), np.ascontiguousarray(factors[:, 1]))
        self._always_kicks = np.array([each.position == "goalie" for each in players])
        self._solid = solid(layout.boxes)
        self._seats = np.array([each.seat for each in players])
        self._roles = np.array([layout.role(player) for player in range(agents)])
        self._existence = np.array([{"striker": -1.0, "goalie": 1.0}.get(each.position, 0.0) for each in players])
        for each in (*self._speed_factors, self._always_kicks, self._solid, self._seats, self._roles, self._existence):
            each.flags.writeable = False
        self._sensors = list(self._views())
        self._blocks = [self._block(player) for player in range(agents)]
        self.masks[:] = self._legal()

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Puts everybody at a random place of their half, and the ball near the middle."""
        draw = self.random[fight].uniform
        if "reset_params" in options:
            self.ball_touch[fight] = SoccerParams.read(options["reset_params"]).ball_touch
        self.speeds[fight], self.kicks[fight], self.touching[fight], self.steps[fight] = 0.0, 0.0, False, 0
        for number, player in enumerate(self.layout.players):
            side = 1.0 if player.seat else -1.0
            is_goalie = player.position == "goalie"
            x = side * (GOALIE_X if is_goalie else START_X) + draw(-SPREAD_X, SPREAD_X)
            self.places[fight, number] = x, 0.0 if is_goalie else LINE_Z * (1 - 2 * (self._roles[number] % 2))
            self.yaws[fight, number] = -side * draw(*START_YAW)
        self.places[fight, -1] = draw(-SPREAD_BALL, SPREAD_BALL, 2)
        self.report[fight] = 0
        for block in self._blocks:
            block[fight] = 0.0  # what it saw in the last match
        self.look(np.array([fight]))

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """See `sb3_pvp.game.World.step`; finished matches are skipped."""
        which = fight_numbers(fights, self.num_fights)
        chosen = joint_actions(actions, len(which), self.contract)
        running = ~self.outcome[which].any(axis=1)
        which, chosen = which[running], chosen[running]
        for fight, seat in np.argwhere(self.bots[which]).tolist():
            number = which[fight]
            chosen[fight, seat] = self.contract.random_action(self.masks[number, seat], self.random[number])
        moves = chosen.reshape(len(which), NUM_SEATS, len(self.contract.agents), len(BRANCHES))[
            :, self._seats, self._roles
        ]
        state = self.places, self.speeds, self.yaws, self.kicks, self.touching, self.steps
        before, ball = self.steps[which], self.places[which, -1, 0]
        play(which, *state, np.ascontiguousarray(moves), *self._speed_factors, self._always_kicks, self._solid,
             self.goals, self.touches)  # fmt: skip
        self.ticks[which] += 1
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
        report["elapsed"][which] = (self.steps[which] / MAX_STEPS)[:, None]
        report["advance"][which] = np.stack([metres, -metres], axis=1) / GOAL_LINE
        for seat in range(NUM_SEATS):
            own = self._seats == seat
            report["touches"][which, seat] = touches[:, own].sum(axis=1)
            report["existence"][which, seat] = self._existence[own][0] * steps / MAX_STEPS

    def look(self, which: NDArray[np.int64]) -> None:
        """Writes what everybody sees, as the newest frame."""
        everything = self.obs.reshape(self.num_fights, -1)
        for agent, angles, num_tags, ball_tag, box_tags, agent_tags, begin in self._sensors:
            tags = num_tags, ball_tag, box_tags, agent_tags
            see(which, agent, self.places, self.yaws, self.layout.boxes, angles, *tags, everything, begin)

    def rays(self, fight: int, player: int) -> NDArray[np.float32]:
        """Returns the newest frame of a player's rays, ``(rays, tags + 2)``, see `sb3_pvp.games.soccer.rays.see`."""
        seen, frames = self.obs[fight].reshape(-1), []
        for (number,), angles, num_tags, *_, (begin,) in self._sensors:
            if number == player:
                shape = FRAMES, len(angles), num_tags + 2
                frames.append(seen[begin : begin + int(np.prod(shape))].reshape(shape)[-1])
        return np.concatenate(frames)

    def _block(self, player: int) -> NDArray[np.float32]:
        """Returns a view of what a player sees, ``(F, size)``."""
        begin, end = self.contract.agents[self._roles[player]].observations
        return self.obs[:, self.layout.players[player].seat, begin + self.layout.offset : end]

    def _views(self) -> Iterator[tuple[Any, ...]]:
        """Yields the arguments of `see` for each sensor, the last of which is where it begins in all observations."""
        layout = self.layout
        for number, player in enumerate(layout.players):
            begin = player.seat * self.contract.num_observations + layout.offset
            begin += self.contract.agents[self._roles[number]].observations[0]
            for sensor in player.sensors:
                tags = len(player.tags), player.tag(BALL), layout.box_tags([number]), layout.agent_tags([number])
                yield (np.array([number]), sensor.angles, *tags, np.array([begin]))
                begin += FRAMES * len(sensor.angles) * (len(player.tags) + 2)

    def _legal(self) -> NDArray[np.bool_]:
        """Returns the masks of both seats; an agent that is not in the game has one legal action in each head."""
        legal = np.ones((NUM_SEATS, self.contract.num_flat_actions), np.bool_)
        for seat in range(NUM_SEATS):
            for number, entries in enumerate(self.contract.agent_entries):
                if not self.layout.shared and self.layout.players[number].seat != seat:
                    legal[seat, entries] = False
                    heads = range(*self.contract.agents[number].heads)
                    legal[seat, [self.contract.flat_offset(head) for head in heads]] = True
                elif not self.layout.shared:
                    self.obs[:, seat, self.contract.agents[number].observations[0]] = 1.0
        return legal
