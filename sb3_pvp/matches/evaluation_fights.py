"""Fights beside the training, which tell how strong the learner is and leave no trace in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.arguments import MAPPING
from sb3_pvp.common.names import require_all_known
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.evaluation import finished_episodes
from sb3_pvp.opponents.opponents import OpponentChoice
from sb3_pvp.ppo.resumable import kept_random_state

#: Fight i of an evaluation starts from this plus i, far from the seeds of training.
EVALUATION_SEED = 1_000_000_007
_SETTINGS = [field.name for field in fields(FightSettings)]


class Finished(NamedTuple):
    """An episode that has ended.

    Attributes:
        choice: whom the learner fought.
        info: what the environment told at the end.
    """

    choice: OpponentChoice
    info: dict[str, Any]


class EvaluationFights:
    """Lets a model fight chosen opponents in an environment of its own, which is made when it is needed.

    Args:
        env: a ``VecEnv`` whose environments have ``set_opponent``; or what a new `PvpVecEnv` has otherwise than the
            training environment, ``{}`` for nothing.
        num_envs: rows of a new environment, at most.

    Raises:
        ValueError: for anything else; and when fights begin, if there is no environment and the training environment
            is none of this package.
    """

    def __init__(self, env: VecEnv | Mapping[str, Any] | None, num_envs: int) -> None:
        self._env = env if isinstance(env, VecEnv) else None
        self._changes = {} if isinstance(env, VecEnv) else dict(MAPPING.read("the env of an evaluation", env) or {})
        known = [*_SETTINGS, "render_mode", "seed"]
        require_all_known("argument of the env of an evaluation", self._changes, known)
        self._num_envs, self._is_own = num_envs, self._env is None

    def play(
        self, model: MaskablePPO, choices: Sequence[OpponentChoice], deterministic: bool, seed: int
    ) -> list[Finished]:
        """One episode for each choice, in no particular order; every row plays a fixed share of them.

        Taking whichever episodes end first would favour short ones. The global random generators are left as they
        were; the fights follow from the seed, the model and those generators.
        """
        if self._env is None:
            self._env = self._new_env(model.get_env(), min(self._num_envs, len(choices)))
        env = self._env
        rows = [list(choices[row :: env.num_envs]) for row in range(env.num_envs)]
        with kept_random_state():
            return list(_played(model, env, rows, deterministic, seed))

    def close(self) -> None:
        """Closes the environment if it was made here."""
        if self._is_own and self._env is not None:
            self._env.close()
            self._env = None

    def _new_env(self, training_env: VecEnv | None, num_envs: int) -> VecEnv:
        from sb3_pvp.envs import PvpVecEnv

        if training_env is None or not training_env.has_attr("settings"):
            raise ValueError("evaluation needs environments of this package, or its own: give the callback an env")
        settings: FightSettings = training_env.get_attr("settings", indices=[0])[0]
        kwargs = {name: getattr(settings, name) for name in _SETTINGS}
        return PvpVecEnv(num_envs, **{**kwargs, "opponent": "baseline", **self._changes})


def _played(
    model: MaskablePPO, env: VecEnv, rows: list[list[OpponentChoice]], deterministic: bool, seed: int
) -> Iterator[Finished]:
    def announce(position: int, row: int) -> None:
        for choice in rows[row][position : position + 1]:
            env.env_method("set_opponent", choice, indices=[row])

    # Two are told ahead: the choice of an episode must be known when the one before it ends.
    running, left = [0] * env.num_envs, sum(map(len, rows))
    for row in range(env.num_envs):
        announce(0, row)
    env.seed(seed)
    observations = env.reset()
    for row in range(env.num_envs):
        announce(1, row)
    episodes = finished_episodes(model, env, observations, deterministic)
    while left:
        row, info = next(episodes)
        if running[row] < len(rows[row]):
            yield Finished(rows[row][running[row]], info)
            left -= 1
        running[row] += 1
        announce(running[row] + 1, row)
