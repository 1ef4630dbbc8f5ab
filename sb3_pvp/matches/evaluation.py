"""Evaluation: how often a model wins, with a confidence interval."""

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
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_pvp.common.arguments import MAPPING, POSITIVE
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import WorldError
from sb3_pvp.opponents.opponents import OpponentChoice
from sb3_pvp.ppo.resumable import preserved_random_state
from sb3_pvp.selfplay.bradley_terry import Z95

EVALUATION_SEED = 1_000_000_007  #: Fight i has this seed plus i, far from the seeds of training.
#: The count of `Score` for each outcome. A timeout is a tie; all other outcomes are broken fights.
SCORE_FIELDS = {"won": "wins", "lost": "losses", "tied": "ties", "timeout": "ties"}


@dataclass
class Score:
    """Counts of finished episodes from the model's point of view; broken ones count separately."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    broken: int = 0
    ticks: int = 0
    reward: float = field(default=0.0, compare=False)  #: Sum of the raw rewards of all decided episodes.
    faults: Counter[str] = field(default_factory=Counter)  #: How often each broken outcome occurred.
    groups: dict[str, Score] = field(default_factory=dict, compare=False)  #: By build, if the world has builds.

    @property
    def decided(self) -> int:
        """Number of episodes that count: all but the broken ones."""
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float:
        """Share of the decided episodes that were won; 0 if there are none."""
        return self.wins / max(self.decided, 1)

    def count(self, info: dict[str, Any]) -> bool:
        """Counts an episode that ended with this ``info``; returns whether it was decided."""
        outcome, build = info["outcome"], info.get("build")
        if build is not None:
            self.groups.setdefault(build, Score()).count({**info, "build": None})
        if outcome not in SCORE_FIELDS:
            self.broken += 1
            self.faults[outcome] += 1
            return False
        setattr(self, SCORE_FIELDS[outcome], getattr(self, SCORE_FIELDS[outcome]) + 1)
        self.ticks += info.get("episode", {}).get("l", 0)
        self.reward += info.get("episode", {}).get("r", 0.0)
        return True

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures that ``sb3-pvp evaluate --json`` prints, without those of groups."""
        counts = {name: getattr(self, name) for name in ("wins", "losses", "ties", "broken", "win_rate")}
        interval, ticks = list(wilson_interval(self.wins, self.decided)), self.ticks / max(self.decided, 1)
        return {"episodes": self.decided, **counts, "ci95": interval, "mean_ticks": ticks}

    def __str__(self) -> str:
        low, high = wilson_interval(self.wins, self.decided)
        counts = f"{self.wins} won, {self.losses} lost, {self.ties} tied"
        if self.broken:
            counts += f"; {self.broken} broke off and were played again"
        return f"win rate {self.win_rate:.1%} (95 % interval {low:.1%} to {high:.1%}; {counts})"


def wilson_interval(wins: int, episodes: int, z: float = Z95) -> tuple[float, float]:
    """Returns the Wilson score interval of a win rate, ``(0, 1)`` without episodes; ``z = 1.96`` covers 95 %."""
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
    """Evaluates a model for ``num_episodes`` in ``env``; an episode that breaks off is played again.

    ``advance`` is called after each episode, with 1 if it was decided, otherwise with 0. Raises `WorldError` if more
    episodes break off than there are environments, and than a tenth; `ValueError` for less than one episode.
    """
    POSITIVE.check(num_episodes=num_episodes)
    # Replacing broken fights favors those that break off less often, such as short ones: tolerate only a few.
    max_broken = max(env.num_envs, num_episodes // 10)
    # Each row plays a fixed share: taking the first episodes that end would favor short ones.
    remaining = [(num_episodes + row) // env.num_envs for row in range(env.num_envs)]
    score, episodes = Score(), finished_episodes(model, env, env.reset(), deterministic)
    while any(remaining):
        row, info = next(episodes)
        if remaining[row]:
            decided = score.count(info)
            remaining[row] -= decided
            advance(decided)
        if score.broken > max_broken:
            faults = ", ".join(f"{fault}: {count}" for fault, count in score.faults.most_common())
            raise WorldError(
                f"too many fights broke off for a win rate: {score.broken} ({faults}), while {score.decided} of "
                f"{num_episodes} ended. Check that the server keeps running"
            )
    return score


def finished_episodes(
    model: MaskablePPO, env: VecEnv, observations: VecEnvObs, deterministic: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lets the model play from these observations; yields row and ``info`` of every episode as it ends."""
    while True:
        masks = get_action_masks(env)
        actions, _ = model.predict(observations, deterministic=deterministic, action_masks=masks)  # type: ignore[arg-type]
        observations, _, dones, infos = env.step(actions)
        yield from ((row, infos[row]) for row in np.flatnonzero(dones).tolist())


class FinishedEpisode(NamedTuple):
    """A finished episode: the learner's opponent, and the environment's last ``info``."""

    choice: OpponentChoice
    info: dict[str, Any]


class EvaluationFights:
    """Lets a model fight given opponents in a separate environment, which is made on first use.

    Args:
        env: a ``VecEnv`` whose environments have ``set_opponent``; or the arguments in which a new `PvpVecEnv` differs
            from the training environment, ``None`` for no difference.
        num_envs: the most rows that the new environment may have.

    Raises:
        ValueError: for another ``env``, or when fights start if the training environment is not from this package.
    """

    def __init__(self, env: VecEnv | Mapping[str, Any] | None, num_envs: int) -> None:
        self._num_envs, self._is_own = num_envs, not isinstance(env, VecEnv)
        self._env = env if isinstance(env, VecEnv) else None
        self._changes = {} if isinstance(env, VecEnv) else MAPPING.read("the env of an evaluation", env) or {}
        known = [*(each.name for each in fields(FightSettings)), "render_mode", "seed"]
        require_all_known("argument of the env of an evaluation", self._changes, known)

    def play(
        self, model: MaskablePPO, choices: Sequence[OpponentChoice], deterministic: bool, seed: int
    ) -> list[FinishedEpisode]:
        """Plays one episode against each choice; returns them in the order in which they ended.

        The result depends on ``seed`` and the model only; the states of the global random generators are restored.
        """
        POSITIVE.read("the number of fights", len(choices))
        env = self._env = self._env or self._new_env(model.get_env(), min(self._num_envs, len(choices)))
        # Each row has a fixed share of the choices, as in `evaluate_model`.
        queues = [iter(choices[row :: env.num_envs]) for row in range(env.num_envs)]
        opponents: list[list[OpponentChoice]] = [[] for _ in queues]  # of each row's current and next episode
        finished: list[FinishedEpisode] = []

        def set_next_opponent(row: int) -> None:
            for choice in islice(queues[row], 1):
                env.env_method("set_opponent", choice, indices=[row])
                opponents[row].append(choice)

        with preserved_random_state():
            for row in range(env.num_envs):
                set_next_opponent(row)
            set_random_seed(seed)  # for sampled actions
            env.seed(seed)
            observations = env.reset()
            for row in range(env.num_envs):  # one episode ahead, because the environment resets inside its step
                set_next_opponent(row)
            episodes = finished_episodes(model, env, observations, deterministic)
            while len(finished) < len(choices):
                row, info = next(episodes)
                if opponents[row]:
                    finished.append(FinishedEpisode(opponents[row].pop(0), info))
                set_next_opponent(row)
        return finished

    def close(self) -> None:
        """Closes the environment if it was made here."""
        if self._is_own and self._env is not None:
            self._env.close()
            self._env = None

    def _new_env(self, training_env: VecEnv | None, num_envs: int) -> VecEnv:
        from sb3_pvp.envs import PvpVecEnv

        if training_env is None or not training_env.has_attr("settings"):
            raise ValueError("cannot copy this training environment for evaluation: pass an env to the callback")
        kwargs = vars(training_env.get_attr("settings", indices=[0])[0])
        return PvpVecEnv(num_envs, **{**kwargs, "opponent": "baseline", **self._changes})
