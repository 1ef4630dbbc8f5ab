"""Graphs that a stranger may put into a fighter file: they read other files, or have nothing to do with the weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.policies.export.exported import with_entries

SECRET = "secret.txt"  #: The file that the graphs of `READING` read, in the working directory.


def _external(name: str, file: str = SECRET) -> Any:
    """A tensor ``(4,)`` whose numbers are the first 16 bytes of a file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _model(nodes: Any, initializers: Any = (), functions: Any = ()) -> bytes:
    outputs = [helper.make_tensor_value_info("probability", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "hostile", [], outputs, initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9).SerializeToString())


def _in_a_branch() -> bytes:
    infos = [helper.make_tensor_value_info("inner", TensorProto.FLOAT, [4])]
    body = [helper.make_node("Identity", ["data"], ["inner"])]
    branch = helper.make_graph(body, "branch", [], infos, [_external("data")])
    condition = helper.make_tensor("condition", TensorProto.BOOL, [], [True])
    node = helper.make_node("If", ["condition"], ["probability"], then_branch=branch, else_branch=branch)
    return _model([node], [condition])


def _in_a_function() -> bytes:
    constant = helper.make_node("Constant", [], ["data"], value=_external("data"))
    function = helper.make_function("own", "Read", [], ["data"], [constant], [helper.make_opsetid("", 20)])
    return _model([helper.make_node("Read", [], ["probability"], domain="own")], functions=[function])


#: Graphs that read `SECRET`, by where the reference is.
READING = {
    "an initializer": _model([helper.make_node("Identity", ["data"], ["probability"])], [_external("data")]),
    "a branch": _in_a_branch(),
    "an attribute": _model([helper.make_node("Constant", [], ["probability"], value=_external("data"))]),
    "a function": _in_a_function(),
}


def with_graphs(path: Path, graph: bytes, to: Path) -> Path:
    """Copies a fighter file with this graph as its actor and its critic, and with their hashes."""
    graphs = dict.fromkeys(("actor.onnx", "critic.onnx"), graph)

    def hashed(content: bytes) -> bytes:
        about = json.loads(content)
        about["sha256"] |= {name: hashlib.sha256(graph).hexdigest() for name in graphs}
        return json.dumps(about).encode()

    return with_entries(path, {"fighter.json": hashed, **graphs}, to)


def lying(path: Path, action: int) -> bytes:
    """The actor of a fighter file, with another output ``action``: always this number."""
    with ZipFile(path) as file:
        model = onnx.load_from_string(file.read("actor.onnx"))
    (node,) = [each for each in model.graph.node if "action" in each.output]
    node.output[0] = "honest"
    number = onnx.numpy_helper.from_array(np.array(action), "number")
    model.graph.initializer.append(number)
    shape = helper.make_node("Shape", ["honest"], ["shape"])
    model.graph.node.extend([shape, helper.make_node("Expand", ["number", "shape"], ["action"])])
    return bytes(model.SerializeToString())
