"""A model of what training with many actors costs: how fast a learner learns that so many actors feed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Rollouts that are simulated for each number of actors.
ROLLOUTS = 20


@dataclass(frozen=True)
class Costs:
    """What was measured; microseconds and bytes are per agent-step, where nothing else is said."""

    steps: int  #: Agent-steps of an actor in a rollout.
    acting_us: float  #: In the actor, with its opponents.
    receiving_us: float  #: In the learner: taking arrays from the object store, and merging them.
    replaying_us: float  #: In the learner: callbacks and advantages, before the next rollout can start.
    learning_us: float  #: In the learner, beside which the next rollout can be played.
    bytes_up: float  #: From an actor to the learner.
    bytes_down: float  #: From the learner to an actor, without weights.
    weights: int  #: Bytes, once per node and rollout.
    renewing_us: float = 0.0  #: In the learner while it learns, if rollouts overlap: log-probabilities anew,
    batch_size: int = 0  #: but not for the agent-steps of the first mini-batch.
    spread: float = 0.1  #: Standard deviation of the logarithm of an actor's time, from rollout to rollout.


@dataclass(frozen=True)
class Place:
    """Where it runs."""

    gbits: float  #: Network of the learner's machine, in both directions; infinite: everything on one machine.
    actors_per_node: int = 4
    cores: float = np.inf  #: If the learner and all actors share them.


def steps_per_second(costs: Costs, place: Place, num_actors: int, is_overlapped: bool, seed: int = 0) -> float:
    """Returns the simulated speed of training in agent-steps per second of wall-clock time."""
    rng = np.random.default_rng(seed)
    seconds = [_rollout_seconds(costs, place, num_actors, is_overlapped, rng) for _ in range(ROLLOUTS)]
    return costs.steps * num_actors / float(np.mean(seconds))


def limits(costs: Costs, place: Place) -> dict[str, float]:
    """Returns the agent-steps per second of many actors, overlapped, that learner and network could handle alone."""
    learner = 1e6 / (costs.receiving_us + costs.replaying_us + costs.learning_us + costs.renewing_us)
    return {"learner_limit": learner, "network_limit": place.gbits * 1e9 / 8 / costs.bytes_up}


def _rollout_seconds(
    costs: Costs, place: Place, num_actors: int, is_overlapped: bool, rng: np.random.Generator
) -> float:
    """Returns the seconds between the ends of two rollouts."""
    per_second, micro = place.gbits * 1e9 / 8, costs.steps / 1e6
    nodes = -(-num_actors // place.actors_per_node)
    # What goes out leaves the learner's machine one after the other; weights once per node.
    down = np.arange(1, num_actors + 1) * costs.steps * costs.bytes_down / per_second
    down += np.repeat(np.arange(1, nodes + 1), place.actors_per_node)[:num_actors] * costs.weights / per_second
    acting = costs.acting_us * micro * rng.lognormal(-(costs.spread**2) / 2, costs.spread, num_actors)
    learning = costs.learning_us * micro * num_actors
    if is_overlapped:
        learning += costs.renewing_us * max(costs.steps * num_actors - costs.batch_size, 0) / 1e6
    if num_actors + is_overlapped > place.cores:  # actors and, if it works beside them, the learner share the cores
        busy = acting.sum() + learning * is_overlapped
        acting = np.maximum(acting, busy / place.cores)
    # What comes in queues for the network, and then for the learner.
    received = _queued(np.sort(down + acting), costs.steps * costs.bytes_up / per_second)
    merged = _queued(received, costs.receiving_us * micro)[-1]
    replaying = costs.replaying_us * micro * num_actors
    if not is_overlapped:
        return float(merged + replaying + learning)
    # The learner cannot receive while it learns.
    return float(max(merged, learning + costs.receiving_us * micro * num_actors) + replaying)


def _queued(arrivals: np.ndarray, seconds: float) -> np.ndarray:
    """Returns when each arrival, ascending, has been served; each takes so many seconds, one after the other."""
    served = seconds * np.arange(1, len(arrivals) + 1)
    return np.asarray(served + np.maximum.accumulate(arrivals - served + seconds))
