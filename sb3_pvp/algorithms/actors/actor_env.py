"""The environments of a model whose rollouts are played by actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from sb3_pvp.algorithms.actors.fleet import (
    LAST,
    OBSERVATIONS,
    ActorSpec,
    Arrays,
    EnvCall,
    Fleet,
    Layout,
    RolloutRequest,
    layout,
    packed_policy,
    packed_weights,
)
from sb3_pvp.common.snapshots import Snapshot, check_identity
from sb3_pvp.game import WorldError

_IDENTITY = {"kind": "ActorVecEnv", "version": 1}
#: Methods of environments whose names begin so change settings: they return nothing and hold until the next such call.
_SETTINGS = ("set_", "enable_")
_LEAST_ROWS = 4  #: Of an actor.
FleetFactory = Callable[[Sequence[ActorSpec], Layout], Fleet]


class PlayedStep(NamedTuple):
    """A step of all rows, with the names that its parts have in SB3."""

    obs: Any
    obs_tensor: Any
    actions: NDArray[np.int64]
    values: th.Tensor | None  #: ``None``: they are computed after the last step.
    log_probs: th.Tensor
    action_masks: NDArray[np.bool_] | None
    new_obs: Any
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    infos: list[dict[str, Any]]


class Rollout(NamedTuple):
    """A finished rollout; the arrays are valid until the next one starts."""

    arrays: Arrays
    infos: list[list[dict[str, Any]]]  #: By step and row.
    rows: NDArray[np.int64]  #: The rows that were played: all but those of lost actors.
    begun: NDArray[np.int64]  #: The rows whose episodes have begun with this rollout.


class ActorVecEnv(VecEnvWrapper):
    """Wraps the `sb3_pvp.envs.PvpVecEnv` of a model; the actors' copies of it play, and it only answers `get_attr`.

    Calls of methods such as ``set_opponent`` take effect with the next rollout, those of others return the results of
    all rows. There are no single steps.

    Args:
        venv: has the methods ``part`` and ``log_episode`` of `sb3_pvp.envs.PvpVecEnv`.
        policy: of the learner.
        n_steps: of a rollout.
        num_actors: at most one per four rows.
        make_fleet: where the actors run.

    Raises `ValueError` for environments with an `obstacle`.
    """

    def __init__(
        self,
        venv: VecEnv,
        policy: MaskableActorCriticPolicy,
        n_steps: int,
        num_actors: int,
        make_fleet: FleetFactory,
    ) -> None:
        if (reason := obstacle(venv)) is not None:
            raise ValueError(reason)
        super().__init__(venv)
        own: Any = venv
        self._log_episode = own.log_episode
        self.rows, self.n_steps, self.policy = _parts(venv.num_envs, num_actors), n_steps, policy
        self.num_actors = num_actors  #: As many as were asked for.
        specs = [
            ActorSpec(own.part(rows.start, rows.stop - rows.start), packed_policy(policy), rows) for rows in self.rows
        ]
        space = venv.observation_space
        assert isinstance(space, spaces.Dict), "PvpVecEnv has Dict observations"
        masks = spaces.flatdim(space["action_mask"])
        self._fleet = make_fleet(specs, layout(space, venv.action_space, masks, n_steps, venv.num_envs, policy))
        self._end = finalize(self, self._fleet.close)
        # By actor, with its numbers of rows: the calls since the last message to it, and the last of each setting.
        self._calls: list[list[EnvCall]] = [[] for _ in specs]
        self._settings: list[list[EnvCall]] = [[] for _ in specs]
        # A new actor in place of a lost one needs all settings so far; the others have got each of them once.
        self._fleet.settings = self._settings.__getitem__  # without this object, to be finalized
        self._last_states: dict[bool, Snapshot | None] = {True: None, False: None}  # by ``at_start``, once closed
        self.is_collecting = False  #: Whether a rollout has been started that was not waited for.
        self._is_beginning = False  # whether there was a `begin` without its `start` yet

    def begin(self) -> None:
        """Marks the start of a rollout for `get_state`; calls until now belong to the one before."""
        # Sent now: the state at the start must have them, as that of one process has.
        if any(self._calls):
            self._fleet.call("make", {index: (calls,) for index, calls in enumerate(self._taken_calls())})
        self._is_beginning = True

    def start(self, is_greedy: NDArray[np.bool_], uniforms: NDArray[np.float32]) -> None:
        """Starts a rollout with the policy as it is now; for the random numbers see `RolloutRequest`."""
        weights, calls = packed_weights(self.policy), self._taken_calls()
        # Policies without random numbers of their own sample with the global generators of the actors.
        seeds = [0] * len(calls) if uniforms.size else th.randint(2**31, (len(calls),)).tolist()
        self._fleet.start(
            [
                RolloutRequest(self.n_steps, own, weights, is_greedy, uniforms[:, rows], seed)
                for rows, own, seed in zip(self.rows, calls, seeds, strict=True)
            ]
        )
        self.is_collecting, self._is_beginning = True, False

    def wait(self) -> Rollout:
        """Returns the rollout that was started."""
        try:
            arrays, reports = self._fleet.wait()
        finally:
            self.is_collecting = False
        infos: list[list[dict[str, Any]]] = [[{} for _ in range(self.num_envs)] for _ in range(self.n_steps)]
        played, begun = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows, report in zip(self.rows, reports, strict=True):
            if report is None:
                continue
            played.append(np.arange(rows.start, rows.stop))
            begun += [played[-1]] if report.is_new else []
            for step, row, info in report.infos:
                infos[step][rows.start + row] = info
        return Rollout(arrays, infos, np.concatenate(played), np.concatenate(begun))

    def steps(self, rollout: Rollout) -> Iterator[PlayedStep]:
        """Yields the steps of a rollout; rows of lost actors are not done and have no info.

        As each is taken, the episodes that end in it are written to log files.
        """
        arrays, keys, last = rollout.arrays, [*self.venv.observation_space.spaces], self.n_steps - 1  # type: ignore[attr-defined]
        lost = np.setdiff1d(np.arange(self.num_envs), rollout.rows)
        for step, infos in enumerate(rollout.infos):
            # Callbacks may change rewards in place, as in SB3: in copies, since actors write the arrays.
            rewards, dones = arrays["rewards"][step].copy(), arrays["dones"][step].copy()
            rewards[lost], dones[lost] = 0.0, False
            for row in np.flatnonzero(dones).tolist():  # the actors' environments have no log files
                self._log_episode(row, infos[row])
            actions, masks = arrays["actions"][step], arrays["action_masks"][step]
            log_probs = th.from_numpy(arrays["log_probs"][step])
            obs = {key: arrays[OBSERVATIONS + key][step] for key in keys}
            # What follows the last step is a copy: the learner still needs it when the next rollout has begun.
            new_obs = {
                key: arrays[LAST + key].copy() if step == last else arrays[OBSERVATIONS + key][step + 1] for key in keys
            }
            tensors = {key: th.from_numpy(part) for key, part in obs.items()}
            yield PlayedStep(obs, tensors, actions, None, log_probs, masks, new_obs, rewards, dones, infos)

    def values(self) -> NDArray[np.float32]:
        """Waits for the values of the last rollout, ``(n_steps, rows)``."""
        return self._fleet.values()

    def reset(self) -> dict[str, NDArray[Any]]:
        """Starts new episodes in all rows."""
        calls, seeds, options = self._taken_calls(), self.venv._seeds, self.venv._options
        answers = self._fleet.call(
            "reset", {index: (calls[index], seeds[rows], options[rows]) for index, rows in enumerate(self.rows)}
        )
        self.venv._reset_seeds()
        self.venv._reset_options()
        found = [answers.get(index) or self._nothing(rows) for index, rows in enumerate(self.rows)]
        self.reset_infos = [info for _, infos in found for info in infos]
        return {key: np.concatenate([part[key] for part, _ in found]) for key in found[0][0]}

    def _nothing(self, rows: slice) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
        """Returns what `reset` has of the rows of a lost actor, which do not take part in the next rollout."""
        space, count = self.venv.observation_space, rows.stop - rows.start
        assert isinstance(space, spaces.Dict)
        parts = {key: np.zeros((count, *(part.shape or ())), part.dtype) for key, part in space.spaces.items()}
        return parts, [{} for _ in range(count)]

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of the environments, see the class."""
        rows = [*self._get_indices(indices)]
        own = [[row - part.start for row in rows if part.start <= row < part.stop] for part in self.rows]
        # Kept until the next message: thousands of settings in messages of their own would cost more than the play.
        if method_name.startswith(_SETTINGS) and not method_kwargs:
            for index in [index for index, given in enumerate(own) if given]:
                call = EnvCall(method_name, None if indices is None else own[index], method_args)
                self._calls[index].append(call)
                self._settings[index] = [*_without(self._settings[index], call), call]
            return [None] * len(rows)
        calls = self._taken_calls()
        asked = {
            index: (calls[index], method_name, given, method_args, method_kwargs)
            for index, given in enumerate(own)
            if given or calls[index]
        }
        answers, results = self._fleet.call("env_method", asked), dict[int, Any]()
        for index in asked:
            found = [self.rows[index].start + row for row in own[index]]
            if index not in answers:  # its actor is lost
                self._set_up(index)
                answers[index] = self.venv.env_method(method_name, *method_args, indices=found, **method_kwargs)
            results |= zip(found, answers[index], strict=True)
        return [results[row] for row in rows]

    def _set_up(self, index: int) -> None:
        """Makes the settings of an actor in this process's environment, to answer or to play in its place."""
        rows = range(self.rows[index].start, self.rows[index].stop)
        for name, own, arguments in self._settings[index]:
            self.venv.env_method(name, *arguments, indices=rows if own is None else [rows[row] for row in own])

    def get_state(self, at_start: bool = False) -> Snapshot:
        """Returns the states of all actors between two rollouts, or ``at_start`` of the last one; also when closed.

        Raises as the ``get_state`` of the environments; `NotImplementedError` if an actor has been replaced since then.
        """
        if not self._end.alive:
            if (last := self._last_states[at_start]) is None:
                raise NotImplementedError("the actors were ended: their fights cannot be saved")
            return last
        # Calls that came after the start have no part in its state.
        # Each actor has taken that snapshot itself as the rollout began: by now it may be in the middle of another.
        calls = [()] * len(self.rows) if at_start else self._taken_calls()
        is_kept = at_start and not self._is_beginning
        states = self._fleet.call("get_state", {index: (each, is_kept) for index, each in enumerate(calls)})
        return {**_IDENTITY, "rows": [(rows.start, rows.stop) for rows in self.rows], "states": states}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the states of all actors; `ValueError` if there were others."""
        check_identity(state, _IDENTITY)
        if state["rows"] != [(rows.start, rows.stop) for rows in self.rows]:
            raise ValueError(f"the run had {len(state['rows'])} actors, now there are {len(self.rows)}")
        self._fleet.call("set_state", {index: (each,) for index, each in state["states"].items()})

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Not supported."""
        raise NotImplementedError("actors play whole rollouts: for single steps, make another environment")

    def step_wait(self) -> Any:
        """Not supported."""
        raise NotImplementedError

    def end(self) -> VecEnv:
        """Ends the actors alone; returns the environments, which have their settings, and must be reset."""
        for index in range(len(self.rows)):
            self._set_up(index)
        self._end()
        return self.venv

    def close(self) -> None:
        """Ends the actors."""
        for at_start in (True, False) if self._end.alive else ():
            with suppress(NotImplementedError, ConnectionError, WorldError):
                if self.is_collecting:
                    self.wait()
                self._last_states[at_start] = self.get_state(at_start)
        self._end()
        self.venv.close()

    def _taken_calls(self) -> list[list[EnvCall]]:
        """Returns for each actor the calls that were not sent yet, and forgets them."""
        calls, self._calls = self._calls, [[] for _ in self.rows]
        return calls


def obstacle(venv: VecEnv) -> str | None:
    """Returns why actors cannot play in these environments; ``None`` if they can, and all is recorded as without."""
    if isinstance(venv, VecEnvWrapper) or not hasattr(venv, "part"):
        return (
            f"actors need a PvpVecEnv without wrappers, not {type(venv).__name__}: each actor makes a part of it "
            "(rl-zoo3: --vec-env dummy and no normalize; PvpPPO normalises observations and rewards itself)"
        )
    if venv.render_mode is not None:
        return "actors play elsewhere, where nothing can be rendered: train with actors=0, or without a render_mode"
    return None


def _without(settings: Sequence[EnvCall], call: EnvCall) -> Iterator[EnvCall]:
    """Yields what is left of earlier settings after a call."""
    rows = set(call.rows or ())
    for each in settings:
        if each.name != call.name or (each.rows is None and rows):
            yield each
        elif rows and (left := [row for row in each.rows or () if row not in rows]):
            yield each._replace(rows=left)


def _parts(num_rows: int, num_actors: int) -> list[slice]:
    """Divides rows among actors; both rows of a pair, 2j and 2j + 1, belong to the same one.

    Each gets at least `_LEAST_ROWS`."""
    # In self-play a pair is one fight, which no two processes can share.
    num_pairs = (num_rows + 1) // 2
    count = max(min(num_actors, num_rows // _LEAST_ROWS), 1)
    ends = [min(2 * (num_pairs * (index + 1) // count), num_rows) for index in range(count)]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
