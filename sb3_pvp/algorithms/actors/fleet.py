"""Actors: each plays a part of the environments for whole rollouts, with opponents and a copy of the policy of its own.

The learner sends weights and gets rollouts as arrays; it alone learns, normalises, counts and records. Random numbers
for actions come from the learner, so that a rollout does not depend on how many actors have played it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Protocol

import cloudpickle
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.utils import obs_as_tensor, set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.actors.rollout_memory import MEMORY, RolloutMemory, shape_of_states
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import map_parts
from sb3_pvp.policies.networks import ROWS_AT_ONCE

#: Arrays of a rollout by name, see `layout`.
Arrays = dict[str, NDArray[Any]]
#: Shape and type of arrays by name.
Layout = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
#: Rows that a product leaves over from a multiple of this may have other bits, and depend on how many actors there are.
_FULL_ROWS = 16
OBSERVATIONS, LAST = "observations.", "last."  #: Before the key of a part of the observation.


@dataclass
class Patience:
    """When an actor counts as hanging, by how long the others took before."""

    #: So many times as long as the slowest answer until now, and at least so many seconds.
    FACTOR: ClassVar = 10.0
    LEAST: ClassVar = 60.0
    #: Seconds before a rollout was played: processes start, and Numba may compile.
    FIRST: ClassVar = 600.0

    rollout: float = 0.0  #: Of the slowest rollout, in seconds.
    #: Of the slowest call: an actor in place of a lost one begins like the first reset, which may take long.
    call: float = 0.0

    def seconds(self) -> float:
        """Returns how long to wait for an answer."""
        return max(self.FACTOR * max(self.rollout, self.call), self.LEAST) if self.rollout else self.FIRST


class EnvCall(NamedTuple):
    """A call of a method of environments, as ``VecEnv.env_method`` takes it, whose result is not needed."""

    name: str
    rows: Sequence[int] | None  #: Of the actor's rows; ``None``: all of them.
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class ActorSpec:
    """What an actor is made of; can be pickled."""

    make_env: Callable[[], VecEnv]  #: Makes its part of the environments, with Dict observations and action masks.
    policy: bytes  #: See `packed_policy`.
    rows: slice  #: Its part of the rows of all actors.


@dataclass(frozen=True)
class RolloutRequest:
    """What an actor needs to play a rollout."""

    n_steps: int
    calls: Sequence[EnvCall]  #: To be made before the first step.
    weights: NDArray[np.uint8]  #: See `packed_weights`.
    is_greedy: NDArray[np.bool_]  #: Steps in which the most likely actions are taken, ``(n_steps,)``.
    #: Random numbers of an `AutoregressivePolicy`'s heads, float32 ``(n_steps, rows, heads)``.
    uniforms: NDArray[np.float32]
    seed: int  #: Of the global random generators, with which other policies sample.


@dataclass(frozen=True)
class Report:
    """What an actor returns beside the arrays of a rollout."""

    infos: list[tuple[int, int, dict[str, Any]]]  #: Step, row and info, where the info is not empty.
    is_new: bool  #: Its episodes have begun with this rollout, because it replaces an actor that was lost.


class Fleet(Protocol):
    """Where actors run."""

    #: Returns the calls to make for a new actor with this number, which replaces a lost one, see `Actor.begin`.
    settings: Callable[[int], Sequence[EnvCall]]

    def start(self, requests: Sequence[RolloutRequest]) -> None:
        """Lets each actor play a rollout, and returns at once."""

    def wait(self) -> tuple[Arrays, Sequence[Report | None]]:
        """Returns the arrays of the rollout in all rows, valid until the next `start`, and a report per actor.

        The report of an actor that was lost is ``None``, and what the arrays hold in its rows is undefined. So are
        ``"values"`` until `values` has returned them.
        """

    def values(self) -> NDArray[np.float32]:
        """Waits for the values of the rollout that `wait` has returned, ``(n_steps, rows)``."""

    def call(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Calls a method of `Actor` with these arguments, by the number of the actor, and returns the results.

        An actor that is lost does not answer, nor does another one in its place before that has started."""

    def close(self) -> None:
        """Ends the actors."""


class Actor:
    """Plays its part of the environments."""

    def __init__(self, spec: ActorSpec) -> None:
        self.env = spec.make_env()
        policy_class, arguments = cloudpickle.loads(spec.policy)
        self.policy: MaskableActorCriticPolicy = policy_class(**arguments)
        self.policy.set_training_mode(False)
        self._observation: Any = None
        self._start: dict[str, Any] | None = None  # state of the last rollout
        self._is_new = False
        self._memory: th.Tensor | None = None  # what a policy with memory remembers
        self._starts = np.ones(self.env.num_envs, np.bool_)

    def begin(self, settings: Sequence[EnvCall]) -> None:
        """Makes the calls, and starts episodes with random seeds, in place of an actor that was lost."""
        self.reset(settings, self.env.seed(None), [{} for _ in range(self.env.num_envs)])
        self._is_new = True

    def reset(
        self, calls: Sequence[EnvCall], seeds: Sequence[int | None], options: Sequence[dict[str, Any]]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Makes the calls, starts new episodes and returns the observation and ``reset_infos``."""
        self.make(calls)
        self.env._seeds, self.env._options = [*seeds], [*options]
        self._observation = self.env.reset()
        self._starts = np.ones(self.env.num_envs, np.bool_)
        return self._observation, self.env.reset_infos

    def env_method(
        self, calls: Sequence[EnvCall], name: str, rows: Sequence[int], arguments: tuple[Any, ...], keywords: Any
    ) -> list[Any]:
        """Makes the calls, and then one whose results are returned."""
        self.make(calls)
        return self.env.env_method(name, *arguments, indices=rows, **keywords)

    def get_state(self, calls: Sequence[EnvCall], at_start: bool = False) -> dict[str, Any]:
        """Makes the calls, and returns the state between two rollouts, or ``at_start`` of the last rollout.

        Raises as the ``get_state`` of the environment; `NotImplementedError` if this actor has not played a rollout."""
        self.make(calls)
        if not at_start:
            state = {"env": self.env.get_state(), "observation": copy.deepcopy(self._observation)}  # type: ignore[attr-defined]
            return state if self._memory is None else state | {MEMORY: self._memory, "starts": self._starts}
        if self._start is None:
            raise NotImplementedError("the state at the start of the rollout was not kept")
        return self._start

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state."""
        self.env.set_state(state["env"])  # type: ignore[attr-defined]
        self._observation = state["observation"]
        self._memory, self._starts = state.get(MEMORY), state.get("starts", self._starts)

    def collect(self, request: RolloutRequest, out: Arrays) -> Report:
        """Plays a rollout into ``out``, arrays of its rows (see `layout`); `complete` follows."""
        is_new, self._is_new = self._is_new, False
        # Weights and random numbers come with the request: nothing is asked for while a rollout is played.
        # Before the calls: whoever resumes from here makes them again.
        with suppress(NotImplementedError):  # not all worlds have one
            self._start = self.get_state(())
        self.make(request.calls)
        load_weights(self.policy, request.weights)
        set_random_seed(request.seed)
        infos: list[tuple[int, int, dict[str, Any]]] = []
        given = request.n_steps, self.env.num_envs, self._memory, out.get(MEMORY)
        memory, _ = RolloutMemory.of_policy(self.policy, *given)
        if memory is not None:
            out["starts"][0] = self._starts
        for step in range(request.n_steps):
            masks: NDArray[np.bool_] = self.env.action_masks()  # type: ignore[attr-defined]
            known = () if memory is None else (memory.before(step, self._starts),)
            played = self._act(masks, bool(request.is_greedy[step]), request.uniforms[step], *known)
            for key, part in self._observation.items():
                out[OBSERVATIONS + key][step] = part
            self._observation, rewards, dones, found = self.env.step(played["actions"])
            if memory is not None:
                memory.after(step, dones, found)
                self._memory = memory.state
                out["starts"][step + 1 : step + 2] = dones
            self._starts = np.array(dones)
            for name, array in {**played, "action_masks": masks, "rewards": rewards, "dones": dones}.items():
                out[name][step] = array
            # Most infos are empty while fights run: only the others travel.
            infos += [(step, row, info) for row, info in enumerate(found) if info]
        for key, part in self._observation.items():
            out[LAST + key][:] = part
        return Report(infos, is_new)

    def complete(self, request: RolloutRequest, out: Arrays) -> None:
        """Computes the values of a rollout of `collect`, while the learner goes through its steps."""
        if isinstance(self.policy, AutoregressivePolicy):
            load_weights(self.policy, request.weights)  # this actor may be new, in place of the one that has played it
            parts = self.env.observation_space.spaces  # type: ignore[attr-defined]
            own = {key: out[OBSERVATIONS + key] for key in parts}
            compute_values(self.policy, own, out["values"], out.get(MEMORY), out.get("starts"))

    @th.no_grad()
    def _act(self, masks: NDArray[np.bool_], is_greedy: bool, uniforms: NDArray[np.float32], *known: Any) -> Arrays:
        """Returns actions and log-probabilities; also values, unless `complete` computes them."""
        observation: Any = obs_as_tensor(self._observation, self.policy.device)
        act: Any = getattr(self.policy, "act", None)
        if act is not None:  # with random numbers of the learner
            actions, log_probs = act(observation, is_greedy, masks, th.from_numpy(uniforms), *known)
            return {"actions": actions.numpy(), "log_probs": log_probs.numpy()}
        actions, values, log_probs = self.policy(observation, is_greedy, action_masks=masks)
        return {"actions": actions.numpy(), "log_probs": log_probs.numpy(), "values": values.flatten().numpy()}

    def make(self, calls: Sequence[EnvCall]) -> None:
        """Makes the calls."""
        for name, rows, arguments in calls:
            self.env.env_method(name, *arguments, indices=rows)


def layout(space: spaces.Dict, action_space: Any, num_masks: int, n_steps: int, rows: int, policy: Any) -> Layout:
    """Returns the arrays of a rollout, each ``(n_steps, rows, ...)``, but ``last.*``, which are ``(rows, ...)``.

    With a ``policy`` that has memory also `MEMORY` and where episodes start.
    """
    steps, flags = (n_steps, rows), np.dtype(np.bool_)
    arrays: Layout = {}
    for key, part in space.spaces.items():
        arrays[OBSERVATIONS + key] = (*steps, *(part.shape or ())), np.dtype(part.dtype)
        arrays[LAST + key] = (rows, *(part.shape or ())), np.dtype(part.dtype)
    arrays["actions"] = (*steps, *action_space.shape), np.dtype(action_space.dtype)
    arrays["action_masks"] = (*steps, num_masks), flags
    arrays["log_probs"] = arrays["values"] = arrays["rewards"] = steps, np.dtype(np.float32)
    if (states := shape_of_states(policy, *steps)) is not None:
        arrays |= {MEMORY: (states, np.dtype(np.float32)), "starts": (steps, flags)}
    return arrays | {"dones": (steps, flags)}


def part_of(arrays: Arrays, rows: slice) -> Arrays:
    """Returns views of some rows of the arrays of `layout`."""
    return {name: array[rows] if name.startswith(LAST) else array[:, rows] for name, array in arrays.items()}


@th.no_grad()
def compute_values(
    policy: MaskableActorCriticPolicy,
    observations: Any,
    values: NDArray[np.float32],
    states: NDArray[np.float32] | None = None,
    starts: NDArray[Any] | None = None,
) -> None:
    """Computes the critic's ``values (n_steps, rows)`` of a rollout's ``observations (n_steps, rows, ...)``.

    With `RolloutMemory.states`, and where episodes start ``(n_steps, rows)``, of a critic that remembers.

    Step by step, a wide critic would take twice as long: its weights leave the cache while others run."""
    if states is not None and starts is not None and policy.memory.settings.critic:  # type: ignore[union-attr]
        return _values_of_sequences(policy, observations, values, states, starts)
    parts = map_parts(observations, lambda part: part.reshape(-1, *part.shape[2:]))
    # Blocks are cut from the actor's own rows; filled up, the values do not depend on how many actors there are.
    blocks = [slice(start, start + ROWS_AT_ONCE) for start in range(0, values.size, ROWS_AT_ONCE)]
    picked = (map_parts(map_parts(parts, itemgetter(block)), _filled_up) for block in blocks)
    found = th.cat([policy.predict_values(obs_as_tensor(each, policy.device)).flatten() for each in picked])
    values[:] = found[: values.size].reshape(values.shape).cpu().numpy()


def _values_of_sequences(
    policy: Any, observations: Any, values: NDArray[np.float32], states: NDArray[np.float32], starts: NDArray[Any]
) -> None:
    """Does `compute_values` for a critic that remembers, sequence by sequence."""
    rows, length = values.shape[1], len(values) // (len(states) - 1)
    for number, start in enumerate(range(0, len(values), length)):
        steps = slice(start, start + length)

        def own(part: NDArray[Any], steps: slice = steps) -> Any:
            # By rows, as in `compute_values`: filled up, and flat, first all rows of the first step.
            filled = np.swapaxes(_filled_up(np.swapaxes(part[steps], 0, 1)), 0, 1)
            return th.as_tensor(filled.reshape(-1, *part.shape[2:]), device=policy.device)

        features = policy.features(map_parts(observations, own))
        state = th.as_tensor(_filled_up(states[number]), device=policy.device)
        found = policy.values_of(policy.remembering(features, state, own(starts.astype(np.bool_))))
        values[steps] = found.reshape(length, -1)[:, :rows].cpu().numpy()


def _filled_up(rows: NDArray[Any]) -> NDArray[Any]:
    """Repeats rows up to a multiple of `_FULL_ROWS`."""
    missing = -len(rows) % _FULL_ROWS
    return np.resize(rows, (len(rows) + missing, *rows.shape[1:])) if missing else rows


def packed_policy(policy: MaskableActorCriticPolicy) -> bytes:
    """Returns how to make such a policy, without its weights."""
    packed: bytes = cloudpickle.dumps((type(policy), policy._get_constructor_parameters()))
    return packed


def packed_weights(policy: MaskableActorCriticPolicy) -> NDArray[np.uint8]:
    """Returns the parameters and buffers of a policy, one after the other."""
    parts = [tensor.detach().cpu().contiguous().numpy() for tensor in policy.state_dict().values()]
    return np.concatenate([np.frombuffer(part.tobytes(), np.uint8) for part in parts])


@th.no_grad()
def load_weights(policy: MaskableActorCriticPolicy, packed: NDArray[np.uint8]) -> None:
    """Sets the parameters and buffers of a policy to those of `packed_weights`."""
    # In the order of the state dict, which is that of the learner: both have built the policy from the same arguments.
    data, start = packed.tobytes(), 0
    for tensor in policy.state_dict().values():
        like = tensor.numpy()
        values = np.frombuffer(data, like.dtype, like.size, start).reshape(like.shape)
        tensor.copy_(th.from_numpy(values.copy()))
        start += like.nbytes
