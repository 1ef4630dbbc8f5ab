"""Graphs that others have made, in the forms that can play: of ``sb3-pvp export``, and of Unity's ML-Agents."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.policies.acting import Flags, Frames
from sb3_pvp.policies.export import ELSEWHERE
from sb3_pvp.policies.export.inference import open_session
from sb3_pvp.policies.features import ACTION_MASK, MEMORY, NEXT_MEMORY, OBSERVATION

_AGES = "frame_ages"  #: In the metadata of a graph.
_SENSOR = re.compile(r"obs_(\d+)")
_UNITY_MASKS, _CHOICES, _LIKELIEST = "action_masks", "discrete_actions", "deterministic_discrete_actions"
_MAX_NUMBERS = 1 << 22  #: In an observation, as in fighter files.


class Graph:
    """A graph with the inputs and outputs of `sb3_pvp.policies.export.onnx_graph.actor_graph`.

    Sizes of a row: ``frames``, ``features`` of a frame, ``entries`` of all ``heads``, which are 0 if the graph does not
    tell their number, and ``memory``, the width of a state, 0 without one.
    """

    def __init__(self, session: Any, inputs: dict[str, list[Any]], outputs: set[str]) -> None:
        self._session, self._inputs = session, inputs
        self.frames, self.features = self._sizes(OBSERVATION, 2)
        (self.entries,), (self.heads,) = self._sizes(ACTION_MASK, 1), self._sizes("uniform", 1)
        self.memory = self._sizes(MEMORY, 1)[0] if MEMORY in inputs else 0

    def _sizes(self, name: str, axes: int) -> list[int]:
        """Returns the sizes of an input behind the batch; raises `ValueError` unless it has so many, and any batch."""
        batch, *sizes = self._inputs.get(name) or [0]
        if (
            isinstance(batch, int)
            or len(sizes) != axes
            or not all(isinstance(size, int) and size > 0 for size in sizes)
        ):
            found = self._inputs.get(name, "missing")
            raise ValueError(f"its input {name!r} must have any batch and {axes} fixed sizes, but it is {found!s:.60}")
        return sizes

    def decide(
        self, seen: Frames, masks: Flags, numbers: Frames, sizes: Sequence[int], states: Frames | None = None
    ) -> tuple[NDArray[Any], ...]:
        """Returns actions ``(rows, heads)``, not checked, and numbers that are NaN if the actions have no reason.

        With memory also the next states.

        Args:
            seen: ``(rows, frames, features)``.
            masks: ``(rows, entries)``.
            numbers: random ones from [0, 1), ``(rows, heads)``; a negative one selects the most likely entry.
            sizes: of the heads.
            states: of the memory ``(rows, width)``, zeros where an episode begins.
        """
        given = {OBSERVATION: seen, ACTION_MASK: masks, "uniform": numbers}
        if not self.memory:
            return tuple(self._session.run(["action", "log_prob"], given))
        return tuple(self._session.run(["action", "log_prob", NEXT_MEMORY], given | {MEMORY: states}))


class UnityGraph(Graph):
    """A graph of ML-Agents, with one vector or an input per sensor, which decides for an agent.

    The choices in files of 2021 are log-probabilities of all entries; those of 2022 are drawn by the graph itself.
    """

    def __init__(self, session: Any, inputs: dict[str, list[Any]], outputs: set[str]) -> None:
        self._session, self._inputs, self._outputs = session, inputs, [_CHOICES, *({_LIKELIEST} & outputs)]
        numbers = sorted(int(found[1]) for name in inputs if (found := _SENSOR.fullmatch(name)))
        self._sensors = [f"obs_{number}" for number in numbers] or ["vector_observation"]
        if other := (inputs.keys() - {*self._sensors, _UNITY_MASKS}) | (outputs & {"continuous_actions"}):
            raise ValueError(f"it has {min(other)!r}: graphs with images, memory or continuous actions cannot play")
        widths = [size for name in self._sensors for size in self._sizes(name, 1)]
        self._borders, self.features, self.frames, self.heads = np.cumsum(widths)[:-1], sum(widths), 1, 0
        self.memory = 0
        (self.entries,) = self._sizes(_UNITY_MASKS, 1)

    def decide(
        self, seen: Frames, masks: Flags, numbers: Frames, sizes: Sequence[int], states: Frames | None = None
    ) -> tuple[NDArray[Any], ...]:
        """Does what `Graph.decide` does."""
        columns = map(np.ascontiguousarray, np.split(seen[:, 0], self._borders, axis=1))
        given = {_UNITY_MASKS: masks.astype(np.float32), **dict(zip(self._sensors, columns, strict=True))}
        chosen, *likeliest = self._session.run(self._outputs, given)
        for output in (chosen, *likeliest):
            if output.shape != (wanted := numbers.shape if likeliest else masks.shape):
                kind = "actions" if likeliest else "log-probabilities"
                raise ValueError(f"its {_CHOICES} are {kind} of the shape {output.shape}, not {wanted}")
        if likeliest:
            return np.where(numbers < 0, likeliest[0], chosen), chosen
        # Unity's masked entries have a probability of 1e-7.
        shares = np.split(np.exp(np.minimum(chosen, 0.0), dtype=np.float64) * masks, np.cumsum(sizes)[:-1], axis=1)
        actions = []
        for own, number in zip(shares, numbers.T[..., None], strict=True):
            exceeds = own.cumsum(1) > number * own.sum(1, keepdims=True)
            actions.append(np.where(number[:, 0] < 0, own.argmax(1), exceeds.argmax(1)))
        return np.stack(actions, axis=1), chosen


def read_graph(content: bytes) -> tuple[Graph, Any]:
    """Returns a graph, and its metadata about frames or ``None``; raises `ValueError` for graphs of other forms."""
    if ELSEWHERE in content:
        raise ValueError(f"it has {ELSEWHERE.decode()!r} in it, as graphs that read other files of this machine")
    session = open_session(content)
    inputs = {each.name: each.shape for each in session.get_inputs()}
    outputs = {each.name for each in session.get_outputs()}
    needed = {"action", "log_prob", *({NEXT_MEMORY} if MEMORY in inputs else ())}
    if inputs.keys() - {MEMORY} == {OBSERVATION, ACTION_MASK, "uniform"} and needed <= outputs:
        graph = Graph(session, inputs, outputs)
    elif _UNITY_MASKS in inputs and _CHOICES in outputs:
        graph = UnityGraph(session, inputs, outputs)
    else:
        names = f"{', '.join(inputs)} and outputs {', '.join(sorted(outputs))}"
        raise ValueError(f"its inputs {names:.200} are neither those of sb3-pvp export nor of Unity's ML-Agents")
    for does, numbers in {"sees": graph.frames * graph.features, "remembers": graph.memory}.items():
        if numbers > _MAX_NUMBERS:
            raise ValueError(f"it {does} more than {_MAX_NUMBERS} numbers")
    return graph, json.loads(session.get_modelmeta().custom_metadata_map.get(_AGES, "null"))
