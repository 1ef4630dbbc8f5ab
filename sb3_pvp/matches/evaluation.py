"""How often a model wins, and how sure one can be of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_pvp.common.arguments import MAPPING, POSITIVE
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import WorldError
from sb3_pvp.opponents.opponents import OpponentChoice
from sb3_pvp.ppo.resumable import kept_random_state

EVALUATION_SEED = 1_000_000_007  #: Fight i starts from this plus i, far from the seeds of training.
# A fight that reaches the limit of ticks is nobody's win; what is not named here is broken.
FIELDS = {"won": "wins", "lost": "losses", "tied": "ties", "timeout": "ties"}


@dataclass
class Score:
    """Counts of finished episodes from the model's point of view; broken ones count as neither won nor lost."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    broken: int = 0
    ticks: int = 0
    reward: float = field(default=0.0, compare=False)  #: Raw, of all decided episodes.
    faults: Counter[str] = field(default_factory=Counter)  #: How the broken ones ended, and how often.
    groups: dict[str, Score] = field(default_factory=dict, compare=False)  #: Of each build, if the world tells it.

    @property
    def decided(self) -> int:
        """Episodes that say something about the model: all but the broken ones."""
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float:
        """Share of the decided episodes that were won; 0 if there are none."""
        return self.wins / max(self.decided, 1)

    def count(self, info: dict[str, Any]) -> bool:
        """Counts an episode that ended with this info; returns whether it says something about the model."""
        outcome, build = info["outcome"], info.get("build")
        if build is not None:
            self.groups.setdefault(build, Score()).count({**info, "build": None})
        if outcome not in FIELDS:
            self.broken += 1
            self.faults[outcome] += 1
            return False
        setattr(self, FIELDS[outcome], getattr(self, FIELDS[outcome]) + 1)
        self.ticks += info.get("episode", {}).get("l", 0)
        self.reward += info.get("episode", {}).get("r", 0.0)
        return True

    def as_dict(self) -> dict[str, Any]:
        """The figures that ``sb3-pvp evaluate --json`` prints, but for those of groups."""
        counts = {name: getattr(self, name) for name in ("wins", "losses", "ties", "broken", "win_rate")}
        interval, ticks = list(wilson_interval(self.wins, self.decided)), self.ticks / max(self.decided, 1)
        return {"episodes": self.decided, **counts, "ci95": interval, "mean_ticks": ticks}

    def __str__(self) -> str:
        low, high = wilson_interval(self.wins, self.decided)
        counts = f"{self.wins} won, {self.losses} lost, {self.ties} tied"
        if self.broken:
            counts += f"; {self.broken} broke off and were played again"
        return f"win rate {self.win_rate:.1%} (95 % interval {low:.1%} to {high:.1%}; {counts})"


def wilson_interval(wins: int, episodes: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval for a share; ``z = 1.96`` covers 95 %. Without episodes anything is possible: (0, 1)."""
    if not episodes:
        return 0.0, 1.0
    share, spread = wins / episodes, z * z / episodes
    center = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / episodes + spread / (4 * episodes)) / (1 + spread)
    return max(center - half, 0.0), min(center + half, 1.0)


def evaluate_model(
    model: MaskablePPO,
    env: VecEnv,
    num_episodes: int,
    deterministic: bool = True,
    advance: Callable[[int], object] = lambda decided: None,
) -> Score:
    """Lets the model play ``num_episodes`` in ``env``.

    Every environment plays its fixed share: counting whichever episodes end first would favour short ones. An episode
    that breaks off is played again. ``advance`` is called with how many more are decided.

    Raises `WorldError` if more break off than all environments at once, or than a tenth of the episodes: what is left
    would favour those that break off less, such as short ones. `ValueError` for no episodes.
    """
    POSITIVE.check(num_episodes=num_episodes)
    max_broken = max(env.num_envs, num_episodes // 10)
    share = [(num_episodes + row) // env.num_envs for row in range(env.num_envs)]
    score, episodes = Score(), finished_episodes(model, env, env.reset(), deterministic)
    while any(share):
        row, info = next(episodes)
        if share[row]:
            decided = score.count(info)
            share[row] -= decided
            advance(decided)
        if score.broken > max_broken:
            faults = ", ".join(f"{fault}: {count}" for fault, count in score.faults.most_common())
            raise WorldError(
                f"{score.broken} fights broke off ({faults}) while {score.decided} of {num_episodes} ended: no win "
                "rate can be given. Check that the server runs, and that nobody else stops it"
            )
    return score


def finished_episodes(
    model: MaskablePPO, env: VecEnv, observations: VecEnvObs, deterministic: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lets the model play on from these observations: the row and the info of every episode as it ends."""
    while True:
        masks = get_action_masks(env)
        actions, _ = model.predict(observations, deterministic=deterministic, action_masks=masks)  # type: ignore[arg-type]
        observations, _, dones, infos = env.step(actions)
        yield from ((row, infos[row]) for row in np.flatnonzero(dones).tolist())


class Finished(NamedTuple):
    """An episode that has ended: whom the learner fought, and what the environment told at the end."""

    choice: OpponentChoice
    info: dict[str, Any]


class EvaluationFights:
    """Lets a model fight chosen opponents in an environment of its own, which is made when it is needed.

    ``env`` is a ``VecEnv`` whose environments have ``set_opponent``; or what a new `PvpVecEnv` with at most
    ``num_envs`` rows has otherwise than the training environment, ``None`` for nothing. Raises `ValueError` for
    anything else; and when fights begin, if there is no environment and that of the training is none of this package.
    """

    def __init__(self, env: VecEnv | Mapping[str, Any] | None, num_envs: int) -> None:
        self._num_envs, self._is_own = num_envs, not isinstance(env, VecEnv)
        self._env = env if isinstance(env, VecEnv) else None
        self._changes = {} if isinstance(env, VecEnv) else MAPPING.read("the env of an evaluation", env) or {}
        known = [*(each.name for each in fields(FightSettings)), "render_mode", "seed"]
        require_all_known("argument of the env of an evaluation", self._changes, known)

    def play(
        self, model: MaskablePPO, choices: Sequence[OpponentChoice], deterministic: bool, seed: int
    ) -> list[Finished]:
        """One episode for each choice, in no particular order; every row plays a fixed share of them.

        They follow from the seed, the model and the global random generators, which are left as they were.
        """
        POSITIVE.read("the number of fights", len(choices))
        env = self._env = self._env or self._new_env(model.get_env(), min(self._num_envs, len(choices)))
        coming = [iter(choices[row :: env.num_envs]) for row in range(env.num_envs)]
        told: list[list[OpponentChoice]] = [[] for _ in coming]
        finished: list[Finished] = []

        def announce(row: int) -> None:
            for choice in islice(coming[row], 1):
                env.env_method("set_opponent", choice, indices=[row])
                told[row].append(choice)

        with kept_random_state():
            for row in range(env.num_envs):
                announce(row)
            env.seed(seed)
            observations = env.reset()
            for row in range(env.num_envs):  # the choice of an episode must be known when the one before it ends
                announce(row)
            episodes = finished_episodes(model, env, observations, deterministic)
            while len(finished) < len(choices):
                row, info = next(episodes)
                if told[row]:
                    finished.append(Finished(told[row].pop(0), info))
                announce(row)
        return finished

    def close(self) -> None:
        """Closes the environment if it was made here."""
        if self._is_own and self._env is not None:
            self._env.close()
            self._env = None

    def _new_env(self, training_env: VecEnv | None, num_envs: int) -> VecEnv:
        from sb3_pvp.envs import PvpVecEnv

        if training_env is None or not training_env.has_attr("settings"):
            raise ValueError("evaluation needs environments of this package, or its own: give the callback an env")
        kwargs = vars(training_env.get_attr("settings", indices=[0])[0])
        return PvpVecEnv(num_envs, **{**kwargs, "opponent": "baseline", **self._changes})
