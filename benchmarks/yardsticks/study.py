"""The games, the methods, and a run of one of them in the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from benchmarks import poker
from benchmarks.yardsticks.curves import Point, add_point, read_points
from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy


@dataclass(frozen=True)
class Yardstick:
    """A game, and how long to learn it."""

    make: Callable[[], poker.PokerGame]
    steps: int


GAMES = {
    "kuhn_poker": Yardstick(poker.kuhn_poker, 1_000_000),
    "leduc_poker": Yardstick(poker.leduc_poker, 3_000_000),
    "liars_dice": Yardstick(poker.liars_dice, 5_000_000),
    "goofspiel_4": Yardstick(partial(poker.goofspiel, 4), 2_000_000),
    "goofspiel_5": Yardstick(partial(poker.goofspiel, 5), 5_000_000),
}

#: Of all methods; payoffs are divided by their spread, as a coefficient would weigh less beside those of Leduc poker.
COMMON: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 1024,
    "n_epochs": 2,
    "learning_rate": 1e-3,
    "gamma": 1.0,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "normalize_reward": True,
    "ema_decay": 0.998,
    "policy_kwargs": {"net_arch": [64, 64]},
}
N_ENVS = 256

#: What is compared, by what it changes; the first one is what the others stand beside. Schedules last for the run.
METHODS: dict[str, dict[str, Any]] = {
    "ppo": {"ent_coef": 0.01},
    "entropy": {"ent_coef": {"type": "linear", "initial_value": 0.1, "final_value": 0.01}},
    "uniform": {"magnet": "uniform", "magnet_coef": 0.1},
    "ema": {"magnet": "ema", "magnet_coef": 0.2},
}


@cache
def _game(name: str) -> poker.PokerGame:
    return GAMES[name].make()


@dataclass(frozen=True)
class Run:
    """Self-play of a method in a game, with its exact figures at ``points`` times; its file is in ``folder``."""

    folder: Path
    game: str
    method: str
    seed: int
    steps: int
    points: int

    def points_left(self) -> Iterator[Point]:
        """Trains on, and yields the figures that there have not been."""
        known = {
            each.steps
            for each in read_points(self.folder)
            if (each.game, each.method, each.seed) == (self.game, self.method, self.seed)
        }
        if max(known, default=0) >= self.steps:
            return
        env = PvpVecEnv(N_ENVS, game=_game(self.game), opponent="self", seed=self.seed)
        model, started = self._model(env), time.process_time()
        while (done := model.num_timesteps) < self.steps:
            if done not in known:
                yield self._measured(model, time.process_time() - started)
            goal = self.steps * (self.points * done // self.steps + 1) // self.points
            model.learn(max(goal, done + 1) - done, reset_num_timesteps=False)
            # First the model: what is missing is computed again, what has been learned is not.
            model.save(self._file)
        if model.num_timesteps not in known:
            yield self._measured(model, time.process_time() - started)

    @cached_property
    def _file(self) -> Path:
        return self.folder / f"{self.game}-{self.method}-{self.seed}.zip"

    def _model(self, env: PvpVecEnv) -> PvpPPO:
        if self._file.is_file():
            return PvpPPO.load(self._file, env=env)
        rollouts = {"change_over_time_steps": -(-self.steps // (N_ENVS * COMMON["n_steps"]))}
        given = COMMON | METHODS[self.method]
        is_schedule = {name for name, each in given.items() if isinstance(each, dict) and "type" in each}
        given |= {name: given[name] | rollouts for name in is_schedule}
        return PvpPPO(AutoregressivePolicy, env, seed=self.seed, device="cpu", **given)

    def _measured(self, model: PvpPPO, cpu_s: float) -> Point:
        assert model.average is not None
        game = _game(self.game)
        own = poker.exact_exploitability(game, poker.of_model(model))
        with model.average.in_place():
            averaged = poker.exact_exploitability(game, poker.of_model(model))
        about: dict[str, Any] = {"game": self.game, "method": self.method, "seed": self.seed}
        point = Point(**about, steps=model.num_timesteps, policy=own, average=averaged, cpu_s=round(cpu_s, 1))
        add_point(self.folder, point)
        return point
