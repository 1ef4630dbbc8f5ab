"""Who plays the rollouts of a `PvpPPO`: its own process, or actors, and how many."""

from __future__ import annotations

from typing import Any

import torch as th
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv, obstacle
from sb3_pvp.algorithms.actors.local_actors import LocalActors
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
    if not (num_actors := chosen_actors(model, total_timesteps)):
        return env
    if model.fleet_factory is LocalActors:
        th.set_num_threads(min(th.get_num_threads(), max(1, num_cores() - num_actors)))  # until `learn` ends
    if isinstance(env, ActorVecEnv):
        return env
    model._last_obs = None  # the actors begin new episodes
    return ActorVecEnv(env, model.policy, model.n_steps, num_actors, model.fleet_factory)


def chosen_actors(model: Any, total_timesteps: int) -> int:
    """Returns how many actors play, after saying so if that was chosen here."""
    if model.actors != AUTO_ACTORS:
        return int(model.actors)
    is_possible = isinstance(model.env, ActorVecEnv) or obstacle(model.env) is None
    cores, is_worth_it = num_cores(), is_possible and total_timesteps >= LEAST_TIMESTEPS
    # One core is for learning: with an actor more, all slow each other down (`python -m benchmarks actors`).
    num_actors = min(cores - 1, model.n_envs // LEAST_ROWS) if is_worth_it else 0
    if model.verbose:
        processes = f"{num_actors} process{'es' if num_actors > 1 else ''}"
        where = f"{processes}, beside learning" if num_actors else "this process"
        print(f"{cores} core{'s' if cores > 1 else ''}: acting in {where}")
    return num_actors
