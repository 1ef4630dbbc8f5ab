"""Who plays the rollouts of a `PvpPPO`: its own process, or actors, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv, PlayedStep, obstacle
from sb3_pvp.algorithms.actors.local_actors import LocalActors
from sb3_pvp.algorithms.actors.rollout_memory import MEMORY
from sb3_pvp.common.cores import num_cores

#: ``actors="auto"`` needs so many rows per actor, as a tick costs about the same for few rows, and so many steps, as it
#: takes seconds to start processes.
LEAST_ROWS, LEAST_TIMESTEPS = 32, 500_000
AUTO_ACTORS = "auto"


def with_actors(model: Any, total_timesteps: int) -> VecEnv:
    """Returns the model's environments for a call of `learn`, whose rollouts actors play if it has any."""
    env: VecEnv = model.env
    if isinstance(env, ActorVecEnv) and env.is_collecting:  # the last call was interrupted
        env.wait()
        model._last_obs = None
    num_actors = chosen_actors(model, total_timesteps)
    if isinstance(env, ActorVecEnv) and num_actors != env.num_actors:
        env, model._last_obs = env.end(), None
    if num_actors and model.fleet_factory is LocalActors:
        th.set_num_threads(min(th.get_num_threads(), max(1, num_cores() - num_actors)))  # until `learn` ends
    if not num_actors or isinstance(env, ActorVecEnv):
        return env
    model._last_obs = None  # the actors begin new episodes
    return ActorVecEnv(env, model.policy, model.n_steps, num_actors, model.fleet_factory)


def chosen_actors(model: Any, total_timesteps: int) -> int:
    """Returns how many actors play, after saying so if that was chosen here."""
    if model.actors != AUTO_ACTORS:
        return int(model.actors)
    if isinstance(model.env, ActorVecEnv):  # those that are there cost nothing more
        return model.env.num_actors
    cores, is_worth_it = num_cores(), obstacle(model.env) is None and total_timesteps >= LEAST_TIMESTEPS
    # One core is for learning: with an actor more, all slow each other down (`python -m benchmarks actors`).
    num_actors = min(cores - 1, model.n_envs // LEAST_ROWS) if is_worth_it else 0
    if model.verbose:
        processes = f"{num_actors} process{'es' if num_actors > 1 else ''}"
        where = f"{processes}, beside learning" if num_actors else "this process"
        print(f"{cores} core{'s' if cores > 1 else ''}: acting in {where}")
    return num_actors


def start_actors(model: Any, env: ActorVecEnv, callback: BaseCallback) -> None:
    """Lets the actors play a rollout, with the random numbers that the model would draw itself."""
    model._begin_rollout(env, callback)
    shape = model.n_steps, env.num_envs, len(getattr(model.policy, "head_sizes", ()))
    is_greedy, uniforms = np.zeros(model.n_steps, np.bool_), np.full(shape, -1.0, np.float32)
    for step in range(model.n_steps):
        is_greedy[step] = model._draws_greedy()
        if uniforms.size and not is_greedy[step]:
            uniforms[step] = th.rand(shape[1:]).numpy()
    env.start(is_greedy, uniforms)


def rollout_of_actors(
    model: Any, env: ActorVecEnv, callback: BaseCallback
) -> tuple[Iterator[PlayedStep], NDArray[np.int64]]:
    """Waits for the rollout that the actors play, which begins now if it has not; returns its steps, and its rows."""
    if not env.is_collecting:
        start_actors(model, env, callback)
    model._apply_schedules(model.trained_rollouts)  # again, if learning has come after the start
    rollout = env.wait()
    # Actors that replace lost ones have begun new episodes, in the middle of those that were going on.
    model._last_episode_starts[rollout.begun] = True
    if (states := rollout.arrays.get(MEMORY)) is not None:
        model._memory_states = states.copy()  # the next rollout may begin before this one has been learned from
    return env.steps(rollout), rollout.rows


def play_on(model: Any, env: VecEnv, callback: BaseCallback) -> None:
    """Lets actors play the next rollout while the model learns from this one, unless it is synchronous."""
    # Before there are statistics, the policy sees other features than after learning.
    may_overlap = not model.synchronous and getattr(model.policy, "has_statistics", True)
    if isinstance(env, ActorVecEnv) and may_overlap and model.num_timesteps < model._total_timesteps:
        # For callbacks, matches and a checkpoint the next rollout has its own number. `train` learns from this one.
        model.trained_rollouts += 1
        start_actors(model, env, callback)
        model._apply_schedules(model.trained_rollouts - 1)
