"""Inference back-ends: the same decisions by PyTorch, by compiled loops, or by ONNX graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from sb3_pvp.common.errors import extra, require_known
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.export.onnx_graph import actor_graph, critic_graph
from sb3_pvp.policies.features import ACTION_MASK, MEMORY, NEXT_MEMORY, OBSERVATION, PRIVILEGED, part_of
from sb3_pvp.policies.memory import Remembered
from sb3_pvp.policies.sampling import AutoregressiveActor, HeadTables, sample_actions

BACKENDS = ("torch", "compiled", "onnx")
AUTO = "auto"

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Decisions:
    """What a fighter decided in a batch of N rows, with H heads and A entries of all heads.

    ``entropies`` of the heads and ``probabilities`` of the entries are given the choices of earlier heads, and ``None``
    unless they were asked for.
    """

    actions: NDArray[np.int64]  #: ``(N, H)``.
    log_probs: Floats  #: Of the joint actions, ``(N,)``; NaN if the fighter computes NaN, then the action is arbitrary.
    entropies: Floats | None  #: ``(N, H)``.
    probabilities: Floats | None  #: ``(N, A)``.


class Backend(Protocol):
    """Runs one fighter. Arrays must be contiguous and writeable; numbers are not checked."""

    frame_shape: tuple[int, int]  #: Frames, and features of the fighter's own view in each of them: ``(F, D)``.
    head_sizes: tuple[int, ...]
    num_privileged: int  #: P, the features of a frame that only the critic sees.
    memory_width: int  #: Numbers of a state of its memory; 0 without one. Zeros are that of an episode's first tick.

    def decide(
        self,
        observations: Floats,
        masks: Flags,
        uniforms: Floats,
        details: bool,
        remembered: Remembered | None = None,
    ) -> Decisions:
        """Returns legal actions.

        Args:
            observations: raw, newest frame first, ``(N, F, D)``.
            masks: flat action masks ``(N, A)``.
            uniforms: random numbers in [0, 1), ``(N, H)``; a negative one selects the head's most likely entry.
            details: return entropies and probabilities as well.
            remembered: with memory, what the rows remember; it gets the next states.
        """

    def values(
        self, observations: Floats, privileged: Floats | None, masks: Flags, remembered: Remembered | None = None
    ) -> Floats:
        """Returns the critic's values ``(N,)``; ``privileged (N, F, P)`` is ``None`` if P is 0; masks ``(N, A)``."""


class TorchBackend:
    """Runs the policy itself, on its device.

    Raises `ValueError` if it is not an `AutoregressivePolicy` that sees frames of features.
    """

    def __init__(self, policy: Any) -> None:
        if not isinstance(policy, AutoregressivePolicy):
            raise ValueError(f"the model's policy is a {type(policy).__name__}, not an AutoregressivePolicy")
        seen = policy.features
        if {*seen.keys} - {PRIVILEGED} != {OBSERVATION}:
            raise ValueError(f"the model sees {sorted(seen.keys)}, not frames of features under {OBSERVATION!r}")
        policy.set_training_mode(False)
        self.policy = policy
        self.frame_shape = seen.num_frames, seen.num_public // seen.num_frames
        self.head_sizes = policy.head_sizes
        self.num_privileged = (seen.features_dim - seen.num_public) // seen.num_frames
        self._space, self._tables = policy.observation_space, HeadTables(policy.heads)
        self._shape = part_of(self._space).shape or ()
        self.memory_width = 0 if policy.memory is None else policy.memory.width

    @th.inference_mode()
    def decide(
        self,
        observations: Floats,
        masks: Flags,
        uniforms: Floats,
        details: bool,
        remembered: Remembered | None = None,
    ) -> Decisions:
        """Implements `Backend.decide`."""
        allowed = th.from_numpy(masks).to(self.policy.device)
        latent = self.policy.actor_latent(self._parts(observations, None), remembered)
        actions, log_probs, _ = _sample(self._tables, latent, allowed, th.from_numpy(uniforms))
        if not details:
            return Decisions(actions, log_probs, None, None)
        given = latent, allowed, th.from_numpy(actions).to(latent.device)
        entropies, probabilities = self.policy.heads(*given)[1], self.policy.heads.probabilities(*given)
        return Decisions(actions, log_probs, entropies.cpu().numpy(), probabilities.cpu().numpy())

    @th.inference_mode()
    def values(
        self, observations: Floats, privileged: Floats | None, masks: Flags, remembered: Remembered | None = None
    ) -> Floats:
        """Implements `Backend.values`."""
        return self.policy.predict_values(self._parts(observations, privileged), remembered).flatten().cpu().numpy()

    def _parts(self, observations: Floats, privileged: Floats | None) -> Any:
        """Returns the policy's observation; the actor does not look at the privileged part."""
        seen = th.from_numpy(observations.reshape(-1, *self._shape)).to(self.policy.device)
        if not isinstance(self._space, spaces.Dict):
            return seen
        if privileged is None:
            privileged = np.zeros((len(seen), self.frame_shape[0], self.num_privileged), np.float32)
        return {OBSERVATION: seen, PRIVILEGED: th.from_numpy(privileged).to(seen.device)}


class CompiledBackend(TorchBackend):
    """Runs the actor as `AutoregressiveActor` does, on the CPU; raises `ValueError` as `TorchBackend` does."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        if self.policy.device.type != "cpu":
            raise ValueError("the compiled back-end runs on the CPU only: take torch")
        given = self.policy._arguments, self.policy.state_dict(), self._space
        self._actor = AutoregressiveActor(self.frame_shape, self.head_sizes, *given)

    @th.inference_mode()
    def decide(
        self,
        observations: Floats,
        masks: Flags,
        uniforms: Floats,
        details: bool,
        remembered: Remembered | None = None,
    ) -> Decisions:
        """Implements `Backend.decide`."""
        from sb3_pvp.policies.kernels import entropies_and_probabilities  # Numba takes long to import

        tables = self._actor.tables
        latent = self._actor.latent(th.from_numpy(observations), remembered)
        actions, log_probs, scores = _sample(tables, latent, th.from_numpy(masks), th.from_numpy(uniforms))
        if not details:
            return Decisions(actions, log_probs, None, None)
        return Decisions(actions, log_probs, *entropies_and_probabilities(scores, tables.starts))


def _sample(
    tables: HeadTables, latent: th.Tensor, masks: th.Tensor, uniforms: th.Tensor
) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Does `sample_actions` for one policy; log-probabilities are NaN where the policy computes NaN."""
    actions, log_probs, scores = sample_actions([tables], [latent], masks, uniforms)
    log_probs[np.isnan(scores).any(axis=1)] = np.nan
    return actions, log_probs, scores


class OnnxBackend:
    """Runs a policy as graphs with ONNX Runtime, on one core.

    The graphs are made here, of its weights: those in its file are programs of whoever sent it. Raises `ValueError` if
    the policy cannot become a graph, see `actor_graph`, its actions are not MultiDiscrete, or ONNX Runtime is not
    installed.
    """

    def __init__(self, policy: Any) -> None:
        if not isinstance(policy.action_space, spaces.MultiDiscrete):
            raise ValueError(f"the model has the action space {policy.action_space}, but it must be MultiDiscrete")
        self._actor, self._critic = (open_session(graph(policy)) for graph in (actor_graph, critic_graph))
        shapes = {each.name: each.shape for each in self._critic.get_inputs()}
        self.frame_shape = int(shapes[OBSERVATION][1]), int(shapes[OBSERVATION][2])
        self.head_sizes = tuple(policy.action_space.nvec.tolist())
        self.num_privileged = int(shapes[PRIVILEGED][2]) if PRIVILEGED in shapes else 0
        memory = getattr(policy, "memory", None)
        self.memory_width = 0 if memory is None else memory.width

    def decide(
        self,
        observations: Floats,
        masks: Flags,
        uniforms: Floats,
        details: bool,
        remembered: Remembered | None = None,
    ) -> Decisions:
        """Implements `Backend.decide`."""
        outputs = ["action", "log_prob", *(["entropy", "probability"] if details else [])]
        given = {OBSERVATION: observations, ACTION_MASK: masks, "uniform": uniforms}
        if remembered is None:
            actions, log_probs, *both = self._actor.run(outputs, given)
        else:
            given[MEMORY] = remembered.known().numpy()
            actions, log_probs, *both, state = self._actor.run([*outputs, NEXT_MEMORY], given)
            remembered.state = th.from_numpy(state)
        return Decisions(actions, log_probs, *(both or (None, None)))

    def values(
        self, observations: Floats, privileged: Floats | None, masks: Flags, remembered: Remembered | None = None
    ) -> Floats:
        """Implements `Backend.values`."""
        given = {OBSERVATION: observations, PRIVILEGED: privileged, ACTION_MASK: masks}
        given |= {} if remembered is None else {MEMORY: remembered.known().numpy()}
        seen = {each.name: given[each.name] for each in self._critic.get_inputs()}
        values: Floats = self._critic.run(["value"], seen)[0]
        return values


def open_session(graph: bytes) -> Any:
    """Returns ONNX Runtime's session of a graph, on one core.

    A graph that refers to other files (`ELSEWHERE`) could read any of them. Raises `MissingExtra` without ONNX Runtime,
    and what ONNX Runtime raises for what is no graph that it knows.
    """
    with extra("onnx", "graphs"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is raised as well
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.enable_mem_reuse = False  # the graphs have many small nodes: 5 % less time at batch 1, no more at 128
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def open_backend(name: str, model: MaskablePPO) -> Backend:
    """Returns a back-end by name for a model; raises `ValueError` if it cannot run."""
    require_known("back-end", name, BACKENDS)
    kinds: dict[str, type[TorchBackend | OnnxBackend]] = {"torch": TorchBackend, "compiled": CompiledBackend}
    return kinds.get(name, OnnxBackend)(model.policy)


def automatic_backend(model: MaskablePPO) -> str:
    """Returns the name of the back-end that ``"auto"`` means: the same for a model on every machine.

    Compiled loops are the fastest for many rows on the CPU; policies of sb3-contrib only run as graphs.
    """
    if not isinstance(model.policy, AutoregressivePolicy):
        return "onnx"
    return "compiled" if model.policy.device.type == "cpu" else "torch"


def random_batch(backend: Backend, batch: int) -> tuple[Floats, Flags, Floats]:
    """Returns arguments for `Backend.decide`, always the same: noise as observations, and half of all entries legal."""
    rng = np.random.default_rng(batch)
    observations = rng.standard_normal((batch, *backend.frame_shape), np.float32)
    masks = rng.random((batch, sum(backend.head_sizes))) < 0.5
    masks[:, 0] = True
    return observations, masks, rng.random((batch, len(backend.head_sizes)), np.float32)
