"""Building ONNX graphs node by node."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn

from sb3_pvp.policies.shaped_features import ShapedFeatures

OPSET = 20  #: Has Gelu; ONNX Runtime knows it since 1.17.
_IR_VERSION = 10
FLOAT, INT64 = 1, 7  #: Types as ONNX numbers them.
_ACTIVATIONS: dict[type[Any], str] = {nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.GELU: "Gelu"}
Floats = NDArray[np.float32]


class GraphBuilder:
    """Collects the nodes of a graph; values are the names of their outputs."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ValueError(
                'graphs need ONNX: pip install "sb3-pvp[onnx]", or leave them out (sb3-pvp export --no-onnx)'
            ) from error
        self._onnx, self._nodes, self._inputs, self._constants = onnx, [], [], {}  # type: ignore[var-annotated]
        self._numbers = count()

    def input(self, name: str, dtype: Any, *shape: int) -> str:
        """Adds an input ``(batch, *shape)``."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Returns a constant, the same for equal values."""
        array = np.ascontiguousarray(values, dtype).reshape(np.shape(values))
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = f"constant_{next(self._numbers)}"
            self._constants[key] = self._onnx.numpy_helper.from_array(array, name)
        return str(self._constants[key].name)

    def integers(self, values: Any) -> str:
        """Returns an int64 constant."""
        return self.constant(values, np.int64)

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output, and returns that."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node with some outputs."""
        node = next(self._numbers)
        names = [f"{kind}_{node}_{number}" for number in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, names, **attributes))
        return names

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Splits a value along its last axis."""
        return self.several("Split", len(sizes), value, self.integers(sizes), axis=-1)

    def either(self, condition: str, then: Callable[[], Sequence[str]], otherwise: Sequence[str]) -> list[str]:
        """Adds a branch with the nodes of ``then``, which run if ``condition``, a single bool, holds.

        Returns as many values as ``then`` does, or else those given; they must be floats.
        """
        branches = {}
        for name, build in (("then_branch", then), ("else_branch", lambda: otherwise)):
            outside = self._nodes, self._constants
            # Each branch has its own constants: those of the graph cost time to pass on, even if the branch never runs.
            self._nodes, self._constants = [], {}
            results = [self("Identity", value) for value in build()]  # a branch must return values of its own
            infos = [self._onnx.helper.make_tensor_value_info(result, FLOAT, None) for result in results]
            branches[name] = self._onnx.helper.make_graph(self._nodes, name, [], infos, [*self._constants.values()])
            self._nodes, self._constants = outside
        return self.several("If", len(otherwise), condition, **branches)

    def activation(self, value: str, module: object) -> str:
        """Adds an activation; actors call ReLU as a function."""
        return self("Relu" if module is th.relu_ else _ACTIVATIONS[type(module)], value)

    def linear(self, inputs: str, weight: Any, bias: Any) -> str:
        """Adds a linear layer; ``weight`` is ``(inputs, outputs)``."""
        arrays = (self.constant(as_array(part)) for part in (weight, bias))
        return self("Gemm", inputs, *arrays)

    def network(self, inputs: str, modules: Iterable[nn.Module]) -> str:
        """Adds the modules of a network of `make_network`, or of SB3's MLPs."""
        for module in modules:
            if isinstance(module, ShapedFeatures):
                inputs = self.embedded(inputs, module)
            elif isinstance(module, nn.Linear):
                inputs = self.linear(inputs, module.weight.T, module.bias)
            elif not isinstance(module, nn.Dropout):  # the identity while acting
                inputs = self.activation(inputs, module)
        return inputs

    def embedded(self, inputs: str, module: ShapedFeatures) -> str:
        """Adds a features extractor of any class, as PyTorch exports it; raises `ValueError` if it cannot."""
        file = io.BytesIO()
        example, axes = th.zeros(1, module.num_features), {name: {0: "batch"} for name in ("features", "extracted")}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its exporter that needs no further package is called legacy
                th.onnx.export(
                    copy.deepcopy(module).cpu().eval(),
                    (example,),
                    file,  # type: ignore[arg-type]
                    input_names=["features"],
                    output_names=["extracted"],
                    dynamic_axes=axes,
                    opset_version=OPSET,
                    dynamo=False,
                )
            exported = self._onnx.load_model_from_string(file.getvalue())
            self._onnx.checker.check_model(exported, full_check=True)
        except Exception as error:  # of whatever the class of a user does
            name, text = type(module.extractor).__name__, " ".join(str(error).split())
            raise ValueError(f"the features extractor {name} cannot become a graph: {text:.200}") from error
        graph = exported.graph
        prefix = f"extractor_{next(self._numbers)}_"
        names = {"": "", "features": inputs}
        for tensor in graph.initializer:
            names[tensor.name] = tensor.name = prefix + tensor.name
            self._constants[tensor.name] = tensor
        for node in graph.node:
            node.name = prefix + node.name
            for each in (node.input, node.output):
                each[:] = [names.setdefault(name, prefix + name) for name in each]
            self._nodes.append(node)
        return names["extracted"]

    def serialized(self, name: str, **outputs: tuple[str, Any, Sequence[int]]) -> bytes:
        """Returns the model as bytes; ``outputs`` are values with their type and shape without the batch."""
        for output, (value, _, _) in outputs.items():
            self._rename(value, output)
        results = [self._value(output, dtype, shape) for output, (_, dtype, shape) in outputs.items()]
        make = self._onnx.helper
        graph = make.make_graph(self._nodes, name, self._inputs, results, [*self._constants.values()])
        opsets = [make.make_opsetid("", OPSET)]
        model = make.make_model(graph, producer_name="sb3_pvp", opset_imports=opsets, ir_version=_IR_VERSION)
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))

    def _rename(self, value: str, name: str) -> None:
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [name if each == value else each for each in names]

    def _value(self, name: str, dtype: Any, shape: Sequence[int]) -> Any:
        make = self._onnx.helper
        return make.make_tensor_value_info(name, make.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["batch", *shape])


def as_array(part: Any) -> Floats:
    """Returns a tensor or numbers as a float32 array."""
    return part.detach().cpu().numpy() if isinstance(part, th.Tensor) else np.asarray(part, np.float32)
