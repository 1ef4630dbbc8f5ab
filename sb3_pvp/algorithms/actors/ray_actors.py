"""`RayActors`: actors on the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import finalize

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv
from sb3_pvp.algorithms.actors.cluster import CPUS_PER_ACTOR, connect, room_for_actors
from sb3_pvp.algorithms.actors.fleet import (
    ActorSpec,
    Arrays,
    EnvCall,
    Layout,
    Patience,
    Report,
    RolloutRequest,
    part_of,
)
from sb3_pvp.algorithms.actors.remote_actor import Learner, ModelFiles, RemoteActor
from sb3_pvp.common.arguments import AT_LEAST_0, COUNT
from sb3_pvp.common.processes import MAX_LOSSES
from sb3_pvp.game import WorldError

#: Seconds between looks for actors that hang, and until the user is told what a start waits for.
_LOOK, _SILENCE = 1.0, 30.0
#: Ray would kill the child processes of an actor that ends, but these clean up after it: they stop its server and log
#: its agents out.
_SPARE_CHILDREN = {"RAY_kill_child_processes_on_worker_exit": "false"}


@dataclass
class _Seat:
    """One of the actors, whichever process it is in."""

    index: int
    handle: Any
    starting: Any  #: A reference that is ready when the actor is; ``None`` after that.
    has_begun: bool = True  #: False for one that replaces a lost one, until it has got the settings.
    losses: int = 0  #: Since its last answer.


class RayActors:
    """A `sb3_pvp.algorithms.actors.fleet.Fleet`: actors of a Ray cluster.

    A rollout is complete when every actor has played it or is lost, because it has died or hangs. Another one then
    takes its seat, as soon as the cluster has room, and plays from the next rollout on. Actors end with this process.

    Args:
        specs: of the actors.
        arrays: of a rollout in all rows.
        num_cpus: CPUs that Ray reserves for each of them.

    Raises:
        ValueError: if Ray is not installed.
        ConnectionError: if there is no cluster at ``RAY_ADDRESS``.
        WorldError: also from the methods, if an actor is lost again and again.
    """

    def __init__(self, specs: Sequence[ActorSpec], arrays: Layout, num_cpus: float = CPUS_PER_ACTOR) -> None:
        self._ray = ray = connect()
        self._rows, self._learner = [spec.rows for spec in specs], Learner.here()
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(self._learner.node, soft=False)
        keeper = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(ModelFiles)
        self._files = keeper.options(scheduling_strategy=here).remote(os.getcwd())
        # SPREAD: by default Ray fills one node before it uses the next.
        make = ray.remote(num_cpus=num_cpus, scheduling_strategy="SPREAD", runtime_env={"env_vars": _SPARE_CHILDREN})
        self._class = make(RemoteActor)
        self._arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}
        self._packed = [ray.put(cloudpickle.dumps(spec)) for spec in specs]
        self._requests: Sequence[RolloutRequest] = ()
        self._playing: dict[Any, _Seat] = {}
        self._patience, self._began = Patience(), 0.0
        self.settings: Callable[[int], Sequence[EnvCall]] = lambda index: ()
        self._seats = [_Seat(index, *self._started(index)) for index in range(len(specs))]
        self._close = finalize(self, _end, ray, self._seats, self._files)
        self._await_starts(len(specs))

    def start(self, requests: Sequence[RolloutRequest]) -> None:
        """See `Fleet.start`; actors that have not started yet do not take part."""
        self._requests = requests
        self._await_starts(1)
        # In Ray's store, weights travel to each node once, however many actors it has.
        weights, self._began = self._ray.put(requests[0].weights), time.monotonic()
        # By the reference of the answer, which is all that Ray returns: the dictionary says whose it is.
        self._playing = {
            seat.handle.collect.remote(replace(request, weights=request.weights[:0]), weights, self._due(seat)): seat
            for seat, request in zip(self._seats, requests, strict=True)
            if seat.starting is None
        }

    def wait(self) -> tuple[Arrays, Sequence[Report | None]]:
        """See `Fleet.wait`; if all actors are lost, others play this rollout."""
        reports: dict[int, Report] = {}
        # Their answers may come in any order, and some never: each is copied as it comes.
        while not reports:
            for seat, (report, played) in self._answers(self._playing):
                for name, part in part_of(self._arrays, self._rows[seat.index]).items():
                    part[...] = played[name]
                reports[seat.index] = report
            if reports:
                self._patience.rollout = max(self._patience.rollout, time.monotonic() - self._began)
            else:
                self.start(self._requests)
        return self._arrays, [reports.get(seat.index) for seat in self._seats]

    def values(self) -> NDArray[np.float32]:
        """See `Fleet.values`."""
        return self._arrays["values"]

    def call(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """See `Fleet.call`.

        Raises `NotImplementedError` after `close`, and if a state is asked for that is lost with an actor.
        """
        if not self._close.alive:  # a model can be saved after its environments were closed
            raise NotImplementedError("the actors have ended")
        self._await_starts(1)
        self._began = time.monotonic()
        # Whoever has not started yet is told all settings when it first plays: it needs no answer now.
        ready = [seat for seat in self._seats if seat.index in arguments and seat.starting is None]
        asked = {seat.handle.call.remote(name, arguments[seat.index], self._due(seat)): seat for seat in ready}
        answers = {seat.index: answer for seat, answer in self._answers(asked)}
        if name == "get_state" and len(answers) < len(arguments):
            raise NotImplementedError("the episodes of an actor are lost, and there is no other one yet")
        self._patience.call = max(self._patience.call, time.monotonic() - self._began)
        return answers

    def close(self) -> None:
        """Ends the actors."""
        self._close()

    def _started(self, index: int) -> tuple[Any, Any]:
        """Starts an actor; returns it, and a reference that is ready when it is."""
        views = part_of(self._arrays, self._rows[index])
        layout = {name: (view.shape, view.dtype) for name, view in views.items()}
        actor = self._class.remote(self._learner, self._files, layout)
        return actor, actor.make.remote(self._packed[index])

    def _await_starts(self, least: int) -> None:
        """Looks which actors have started, and waits until there are at least so many."""
        began = time.monotonic()
        while starting := {seat.starting: seat for seat in self._seats if seat.starting is not None}:
            missing = least - (len(self._seats) - len(starting))
            for reference in self._ready([*starting], _LOOK if missing > 0 else 0.0):
                seat = starting[reference]
                try:
                    self._get(reference)
                    seat.starting = None
                except self._ray.exceptions.RayError as error:
                    self._replace(seat, f"has died while it started: {_first_line(error)}")
                else:
                    missing -= 1
            if missing <= 0:
                return
            if time.monotonic() - began > _SILENCE:
                began = np.inf
                cpus = self._ray.available_resources().get("CPU", 0.0)
                text = f"{len(starting)} of {len(self._seats)} actors have not started; {cpus:g} CPUs of the cluster "
                warnings.warn(f"{text}are free. Training waits: add machines, or ask for fewer actors", stacklevel=2)

    def _ready(self, references: list[Any], seconds: float) -> list[Any]:
        """Waits so many seconds until one is ready, and returns all that are."""
        self._ray.wait(references, num_returns=1, timeout=seconds)
        ready: list[Any] = self._ray.wait(references, num_returns=len(references), timeout=0)[0]
        return ready

    def _due(self, seat: _Seat) -> Sequence[EnvCall] | None:
        """Returns the settings that an actor needs with the next message, if any."""
        has_begun, seat.has_begun = seat.has_begun, True
        return None if has_begun else self.settings(seat.index)

    def _answers(self, asked: Mapping[Any, _Seat]) -> Iterator[tuple[_Seat, Any]]:
        """Yields answers as they come; lost actors are replaced, and do not answer."""
        waiting = dict(asked)
        while waiting:
            for reference in self._ready([*waiting], _LOOK):
                seat = waiting.pop(reference)
                try:
                    answer = self._get(reference)
                except self._ray.exceptions.RayError as error:
                    self._replace(seat, f"has died: {_first_line(error)}")
                else:
                    seat.losses = 0
                    yield seat, answer
            if time.monotonic() - self._began > self._patience.seconds():
                while waiting:
                    self._replace(waiting.popitem()[1], "hangs")

    def _get(self, reference: Any) -> Any:
        """Returns a result; raises what an actor's code has raised, or Ray's error if the actor is lost."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error

    def _replace(self, seat: _Seat, what: str) -> None:
        """Ends a lost actor, and starts another one."""
        # Counted since the last answer: one that dies whenever it begins would otherwise be replaced for ever.
        seat.losses += 1
        text = f"actor {seat.index} {what}"
        _kill(self._ray, seat.handle)
        if seat.losses > MAX_LOSSES:
            raise WorldError(f"{text} ({seat.losses} times, without an answer in between)")
        warnings.warn(f"{text}. Its part of this rollout is left out; another one takes its place", stacklevel=2)
        (seat.handle, seat.starting), seat.has_begun = self._started(seat.index), False


def use_ray(model: Any, num_actors: int = 0, num_cpus: float = CPUS_PER_ACTOR) -> None:
    """Lets actors of a Ray cluster play the rollouts of a model, such as a `sb3_pvp.PvpPPO`, from its next `learn` on.

    They get its environments and its policy as they are here. ``num_actors`` 0: as many as the cluster has room for,
    with ``num_cpus`` CPUs each.

    Raises:
        ValueError: if Ray is not installed, or the cluster has no room for an actor.
        ConnectionError: if there is no cluster at ``RAY_ADDRESS``.
    """
    if isinstance(model.env, ActorVecEnv):  # it had other actors before
        model.env.close()
        model.env = model.env.venv
    model.actors = COUNT.read("num_actors", num_actors) or room_for_actors(AT_LEAST_0.read("num_cpus", num_cpus))
    model.fleet_factory = partial(RayActors, num_cpus=num_cpus)


def _end(ray: Any, seats: Sequence[_Seat], files: Any) -> None:
    if ray.is_initialized():  # otherwise they have ended with the connection
        for actor in (*(seat.handle for seat in seats), files):
            _kill(ray, actor)


def _kill(ray: Any, actor: Any) -> None:
    with contextlib.suppress(ray.exceptions.RayError):  # it is dead already
        ray.kill(actor)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
