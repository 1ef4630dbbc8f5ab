"""Graphs of a few nodes in all forms that can play, and in some that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

#: What follows from `CALM` is action 0 for everybody.
CALM = "calm = Mul(uniform, zero)  action = Cast<to=7>(calm)  log_prob = ReduceSum<keepdims=0>(calm, axes)"


def graph(inputs: str, outputs: str, nodes: str, **weights: NDArray[np.generic]) -> bytes:
    """A graph in ONNX's own notation."""
    opsets = '<ir_version: 9, opset_import: ["" : 20, "strange" : 1]>'
    model = onnx.parser.parse_model(f"{opsets} graph ({inputs}) => ({outputs}) {{ {nodes} }}")
    numbers = {"zero": np.zeros((), np.float32), "axes": np.array([1]), **weights}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in numbers.items())
    return bytes(model.SerializeToString())


def exported(nodes: str = CALM, frames: str = "batch,1,176", entries: int = 45, heads: int = 12) -> bytes:
    """A graph with the names of sb3-pvp export, by default for NhEnv."""
    inputs = f"float[{frames}] observation, bool[batch,{entries}] action_mask, float[batch,{heads}] uniform"
    return graph(inputs, f"int64[batch,{heads}] action, float[batch] log_prob", nodes)


def with_ages(content: bytes, ages: str) -> bytes:
    """The same graph with these ages of its frames in its metadata."""
    model = onnx.load_from_string(content)
    onnx.helper.set_model_props(model, {"frame_ages": ages})
    return bytes(model.SerializeToString())


def weights_of(seed: int, features: int, entries: int) -> NDArray[np.float32]:
    """The only layer of the graphs below: logits are observations times these."""
    return np.random.default_rng(seed).normal(size=(features, entries)).astype(np.float32)


def unity(year: int, sensors: Sequence[int], branches: Sequence[int], seed: int = 0) -> bytes:
    """A graph of one layer with the names that ML-Agents gave in this year."""
    names = ["vector_observation"] if year == 2021 else [f"obs_{number}" for number in range(len(sensors))]
    entries, many = sum(branches), range(len(branches))
    seen = ", ".join(f"float[batch,{size}] {name}" for name, size in zip(names, sensors, strict=True))
    outputs = "float[1] version_number, float[1] memory_size, "
    borders = [0, *np.cumsum(branches).tolist()]
    nodes = [
        f"seen = Concat<axis=1>({', '.join(names)})  all = MatMul(seen, weights)  forbidden = Sub(action_masks, one)"
    ]
    nodes += ["huge = Mul(forbidden, much)  kept = Mul(all, action_masks)  logits = Add(kept, huge)"]
    cuts: dict[str, NDArray[np.generic]] = {f"cut{place}": np.array([place]) for place in borders}
    for branch, (begin, end) in enumerate(pairwise(borders)):
        nodes += [
            f"own{branch} = Slice(logits, cut{begin}, cut{end}, axes)  logs{branch} = LogSoftmax<axis=1>(own{branch})"
        ]
        nodes += [f"best{branch} = ArgMax<axis=1, keepdims=1>(own{branch})"]
        nodes += [f"drawn{branch} = Multinomial<dtype=7, sample_size=1, seed=1.0>(own{branch})"]
    if year == 2021:
        outputs += f"float[batch,{entries}] discrete_actions"
        nodes += [f"discrete_actions = Concat<axis=1>({', '.join(f'logs{branch}' for branch in many)})"]
    else:
        kinds = "discrete_actions", "deterministic_discrete_actions"
        outputs += ", ".join(f"int64[batch,{len(branches)}] {kind}" for kind in kinds)
        nodes += [f"discrete_actions = Concat<axis=1>({', '.join(f'drawn{branch}' for branch in many)})"]
        nodes += [f"deterministic_discrete_actions = Concat<axis=1>({', '.join(f'best{branch}' for branch in many)})"]
    nodes += ["version_number = Identity(number)  memory_size = Identity(none)"]
    return graph(
        f"{seen}, float[batch,{entries}] action_masks",
        outputs,
        "  ".join(nodes),
        weights=weights_of(seed, sum(sensors), entries),
        one=np.ones((), np.float32),
        much=np.array(1e8, np.float32),
        number=np.array([year - 2019], np.float32),
        none=np.zeros(1, np.float32),
        **cuts,
    )


def written(content: bytes, folder: Path, name: str = "stranger") -> str:
    """The path of a file with this graph."""
    path = folder / f"{name}.onnx"
    path.write_bytes(content)
    return str(path)
