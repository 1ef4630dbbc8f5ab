"""Evaluation: how often a model wins, with a confidence interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, fields
from functools import partial
from io import BytesIO
from itertools import pairwise
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
from sb3_pvp.common.arguments import MAPPING, POSITIVE
from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.common.html_tables import html_table
from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import WorldError, WorldFactory
from sb3_pvp.players.league.bradley_terry import Z95
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.files.model_files import load, model_opponent

EVALUATION_SEED = 1_000_000_007  #: Fight i has this seed plus i, far from the seeds of training.
#: The count of `Score` for each outcome. A timeout is a tie; all other outcomes are broken fights.
SCORE_FIELDS = {"won": "wins", "lost": "losses", "tied": "ties", "timeout": "ties"}

_COUNTED = ("outcome", "build", "episode")  #: What `Score.count` reads.
_OF_FIGHTS = (*_COUNTED, "seed", "episode_ticks")  #: What callbacks read.
#: Returns actions for observations, masks, and whether each is the first of an episode.
_Act = Callable[[Any, NDArray[np.bool_], NDArray[np.bool_]], NDArray[Any]]
_Episode = tuple[int, int, dict[str, Any]]  #: Its row, its number in this row, and its last ``info``.


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

    def _repr_html_(self) -> str:
        """Shows it in a notebook: a line for all episodes, and one for each build if there are several."""
        rows = [("build", "win rate", "95 % interval", "won", "lost", "tied", "broken")]
        for name, score in (("all", self), *(sorted(self.groups.items()) if len(self.groups) > 1 else ())):
            low, high = wilson_interval(score.wins, score.decided)
            counts = map(str, (score.wins, score.losses, score.ties, score.broken))
            rows.append((name, f"{score.win_rate:.1%}", f"{low:.1%} to {high:.1%}", *counts))
        return html_table(rows)


def wilson_interval(wins: int, episodes: int, z: float = Z95) -> tuple[float, float]:
    """Returns the Wilson score interval of a win rate, ``(0, 1)`` without episodes; ``z = 1.96`` covers 95 %."""
    if not episodes:
        return 0.0, 1.0
    share, spread = wins / episodes, z * z / episodes
    center = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / episodes + spread / (4 * episodes)) / (1 + spread)
    # Its ends are exact where nothing, or everything, was won, not 0.9999999999999999.
    return max(center - half, 0.0) if wins else 0.0, min(center + half, 1.0) if wins < episodes else 1.0


def evaluate_model(model: BaseAlgorithm, env: VecEnv, num_episodes: int, deterministic: bool = True) -> Score:
    """Evaluates a model for ``num_episodes`` in ``env``; an episode that breaks off is played again.

    Raises `WorldError` if more episodes break off than there are environments, and than a tenth; `ValueError` for less
    than one episode.
    """
    POSITIVE.check(num_episodes=num_episodes)
    act = _acting(model, deterministic, range(env.num_envs), by_rows=False)
    return _score(_episodes(act, env, shares_of_rows(num_episodes, env.num_envs)), num_episodes, env.num_envs)


def evaluate_by_rows(
    load_model: Callable[[], Any],
    make_env: Callable[[int, int], VecEnv],
    num_episodes: int,
    num_envs: int,
    seed: int,
    deterministic: bool = True,
    processes: int = 1,
    advance: Callable[[int], object] = lambda decided: None,
) -> Score:
    """Does the same as `evaluate_model` in several processes, each of which has some of the environment's rows.

    The result does not depend on the number of processes: the fights of row i follow from ``seed + i``, and so do the
    sampled actions of models that see frames of features. Those of others are sampled differently. Each process calls
    ``load_model()`` and ``make_env(num_envs, seed)``, with the seed of its first row; ``num_envs`` is the number of
    rows in all processes together. ``advance`` is called after each episode, with 1 if it was decided, otherwise 0.
    """
    rows = shares_of_rows(num_episodes, num_envs)

    def play(part: slice) -> Iterator[_Episode]:  # in a worker, to which it is pickled by value
        model, own, first_seed = load_model(), rows[part], seed + part.start
        with closing(make_env(len(own), first_seed)) as env:
            set_random_seed(first_seed)  # for models whose actions are not sampled row by row
            act = _acting(model, deterministic, range(first_seed, first_seed + len(own)), by_rows=True, env=env)
            yield from _episodes(act, env, own, part.start)

    # In whole pairs of rows, which may fight each other; the last one may be half a pair.
    parts = [slice(2 * pair.start, 2 * pair.stop) for pair in shares(-(-num_envs // 2), processes)]
    with ExitStack() as stack:
        if len(parts) > 1:
            pool = stack.enter_context(closing(WorkerPool(len(parts), "commands")))
            episodes: Iterator[_Episode] = pool.stream(play, [(part,) for part in parts])
        else:
            episodes = play(parts[0])
        return _score(episodes, num_episodes, num_envs, advance)


def shares_of_rows(num_episodes: int, num_envs: int) -> list[int]:
    """Returns how many episodes each row plays: taking the first episodes that end would favor short ones."""
    return [(num_episodes + row) // num_envs for row in range(num_envs)]


def _episodes(act: _Act, env: VecEnv, rows: Sequence[int], first_row: int = 0) -> Iterator[_Episode]:
    """Plays until each row has had its number of decided episodes; yields all up to then."""
    remaining, played = list(rows), Counter[int]()
    for row, info in finished_episodes(act, env, env.reset()):
        if remaining[row]:
            remaining[row] -= info["outcome"] in SCORE_FIELDS
            played[row] += 1
            yield first_row + row, played[row], {name: info[name] for name in _COUNTED if name in info}
        if not any(remaining):
            return


def _score(
    episodes: Iterator[_Episode],
    num_episodes: int,
    num_envs: int,
    advance: Callable[[int], object] = lambda decided: None,
) -> Score:
    """Counts episodes; for the arguments and the error see `evaluate_model`."""
    # Replacing broken fights favors those that break off less often, such as short ones: tolerate only a few.
    max_broken = max(num_envs, num_episodes // 10)
    score, known = Score(), set[tuple[int, int]]()
    for row, number, info in episodes:
        if (row, number) in known:  # from a worker that has died
            continue
        known.add((row, number))
        advance(score.count(info))
        if score.broken > max_broken:
            faults = ", ".join(f"{fault}: {count}" for fault, count in score.faults.most_common())
            raise WorldError(
                f"too many fights broke off for a win rate: {score.broken} ({faults}), while {score.decided} of "
                f"{num_episodes} ended. Check that the server keeps running"
            )
    return score


def finished_episodes(act: _Act, env: VecEnv, observations: VecEnvObs) -> Iterator[tuple[int, dict[str, Any]]]:
    """Plays from these observations on; yields row and ``info`` of every episode as it ends."""
    starts = np.ones(env.num_envs, np.bool_)
    while True:
        observations, _, starts, infos = env.step(act(observations, get_action_masks(env), starts))
        yield from ((row, infos[row]) for row in np.flatnonzero(starts).tolist())


def _predict(
    model: Any, deterministic: bool, observations: Any, masks: NDArray[np.bool_], starts: NDArray[np.bool_]
) -> NDArray[Any]:
    actions: NDArray[Any] = model.predict(observations, deterministic=deterministic, action_masks=masks)[0]
    return actions


def _acting(model: Any, deterministic: bool, seeds: Sequence[int], by_rows: bool, env: Any = None) -> _Act:
    """Returns a function that acts in each row with a state, and random numbers, of its own.

    Models of MaskablePPO act by SB3's ``predict`` instead, except those with memory, and that with ``by_rows`` those
    that see frames of features sample by rows. One that searches looks at the fights of a `PvpVecEnv`, ``env``.
    """
    is_plain = isinstance(model, MaskablePPO) and getattr(model.policy, "memory", None) is None
    by_sb3 = partial(_predict, model, deterministic) if is_plain else None
    if by_sb3 is not None and (deterministic or not by_rows):
        return by_sb3
    try:
        opponent: Any = model if hasattr(model, "watch") else model_opponent(model)
    except ValueError:
        if by_sb3 is not None:
            return by_sb3
        raise
    # Other streams than those of an opponent with the same seed: else a model against itself would act as its mirror.
    state: NDArray[Any] | None = opponent.initial_state([seed + FIRST_SEAT for seed in seeds])

    def act(observations: Any, masks: NDArray[np.bool_], starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        nonlocal state
        seen = observations[OBSERVATION] if isinstance(observations, dict) else observations
        assert state is not None
        if hasattr(opponent, "watch"):
            env.fights.show_to(opponent)
        actions: NDArray[np.int64]
        actions, following = opponent.predict(seen, state, starts, deterministic, np.asarray(masks, bool))
        state = state if following is None else following  # ``None``: of what has no memory
        return actions

    return act


class FinishedEpisode(NamedTuple):
    """A finished episode: the learner's opponent, and the environment's last ``info``."""

    choice: OpponentChoice
    info: dict[str, Any]


class EvaluationFights:
    """Lets a model fight given opponents in a separate environment, which is made on first use.

    ``env`` is a ``VecEnv`` whose environments have ``set_opponent``; or the arguments in which a new `PvpVecEnv`, of up
    to ``num_envs`` rows, differs from the training environment, ``None`` for no difference. Raises `ValueError` for
    another ``env``, or when fights start if the training environment is not from this package.
    """

    def __init__(self, env: VecEnv | Mapping[str, Any] | None, num_envs: int) -> None:
        self.num_envs, self._is_own = num_envs, not isinstance(env, VecEnv)
        self._env = env if isinstance(env, VecEnv) else None
        self._changes = {} if isinstance(env, VecEnv) else MAPPING.read("the env of an evaluation", env) or {}
        known = [*(each.name for each in fields(FightSettings)), "render_mode", "seed"]
        require_all_known("argument of the env of an evaluation", self._changes, known)

    def play(
        self,
        model: BaseAlgorithm,
        choices: Sequence[OpponentChoice],
        deterministic: bool,
        seed: int,
        show: Callable[[int], object] = lambda played: None,
    ) -> list[FinishedEpisode]:
        """Plays one episode against each choice; returns them in the order in which they ended.

        The result depends on ``seed`` and the model only; the states of the global random generators are restored.
        ``show`` is called with the number of finished episodes, after each.
        """
        rows = min(self.num_envs, len(choices))
        # Fight k is played in row k modulo all rows: with as many as in an earlier call it would depend on that one.
        if self._env is not None and self._env.num_envs != rows:
            self.close()
        if self._env is None:
            arguments = self.arguments(model.get_env()) or {}
            self._env = PvpVecEnv(rows, **arguments)
        finished: list[FinishedEpisode] = []
        for number, info in _play_choices(model, self._env, choices, deterministic, seed):
            finished.append(FinishedEpisode(choices[number], info))
            show(len(finished))
        return finished

    def arguments(self, training_env: VecEnv | None) -> dict[str, Any] | None:
        """Returns the arguments of the `PvpVecEnv` for these fights; ``None`` if another environment was given."""
        if not self._is_own:
            return None
        if training_env is None or not training_env.has_attr("settings"):
            raise ValueError("cannot copy this training environment for evaluation: pass an env to the callback")
        kwargs = vars(training_env.get_attr("settings", indices=[0])[0])
        # Aversions are for learning: the fights of an evaluation show the fighter as it is.
        return {**kwargs, "opponent": "baseline", "aversions": None, **self._changes}

    def close(self) -> None:
        """Closes the environment if it was made here."""
        if self._is_own and self._env is not None:
            self._env.close()
            self._env = None


def play_elsewhere(
    weights: bytes,
    arguments: Mapping[str, Any],
    num_envs: int,
    choices: Sequence[OpponentChoice],
    deterministic: bool,
    seed: int,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Does the same as `EvaluationFights.play` in a new environment, for a saved model, such as in a worker process.

    ``weights`` are the content of a model file, ``arguments`` those of the `PvpVecEnv`. Yields the number of the
    choice and the ``info`` of each fight as it ends.
    """
    model = load(BytesIO(weights))
    with closing(PvpVecEnv(min(num_envs, len(choices)), **arguments)) as env:
        for number, info in _play_choices(model, env, choices, deterministic, seed):
            yield number, {name: info[name] for name in _OF_FIGHTS if name in info}


def _play_choices(
    model: BaseAlgorithm, env: VecEnv, choices: Sequence[OpponentChoice], deterministic: bool, seed: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Plays one episode against each choice; yields its number and last ``info`` as it ends."""

    # Each row has a fixed share of the choices, as in `evaluate_model`: every ``env.num_envs``-th one.
    def set_opponent(row: int, episode: int) -> None:
        for choice in choices[row :: env.num_envs][episode : episode + 1]:
            env.env_method("set_opponent", choice, indices=[row])

    ended, left = [0] * env.num_envs, len(choices)
    # As in its training, where the algorithm does so; without this number it does not.
    if env.has_attr("set_trained_rollouts"):
        env.env_method("set_trained_rollouts", getattr(model, "trained_rollouts", 0))
    with preserved_random_state():
        for row in range(env.num_envs):
            set_opponent(row, 0)
        set_random_seed(seed)  # for sampled actions
        env.seed(seed)
        observations = env.reset()
        for row in range(env.num_envs):  # one episode ahead, because the environment resets inside its step
            set_opponent(row, 1)
        act = _acting(model, deterministic, range(seed, seed + env.num_envs), by_rows=False)
        episodes = finished_episodes(act, env, observations)
        while left:
            row, info = next(episodes)
            number = row + ended[row] * env.num_envs
            ended[row] += 1
            if number < len(choices):
                left -= 1
                yield number, info
            set_opponent(row, ended[row] + 1)


#: A process is worth its start for so many fights. A start takes five seconds of CPU time, as do 200 fights of large
#: networks, or 1,000 to 3,000 of small ones.
FIGHTS_PER_PROCESS = 1000
FIRST_SEAT = 1 << 32  #: Added to the fight's seed for the first seat, so that the two players sample differently.


def num_processes(jobs: int | None, num_fights: int, world: str | WorldFactory) -> int:
    """Returns in how many processes to play so many fights: ``jobs`` if given.

    Else all cores that have enough to do, or only this process if the fights are not in the embedded world. Raises
    `ValueError` for less than one job.
    """
    if jobs is not None:
        return POSITIVE.read("jobs", jobs)
    return max(min(num_cores(), num_fights // FIGHTS_PER_PROCESS), 1) if world == "sim" else 1


def shares(count: int, parts: int) -> list[slice]:
    """Divides ``count`` things, which stay in order, into at most so many nearly equal parts; none is empty."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [slice(start, end) for start, end in pairwise(ends) if start < end]
