"""Policies as ONNX graphs, and the back-ends that run them."""

ACTOR, CRITIC = "actor.onnx", "critic.onnx"  #: Names of the graphs in a fighter file, see `onnx_graph`.
#: In the bytes of any graph that refers to other files, as ONNX calls their place so. It is always written like this,
#: wherever the tensor is: in a branch, in an attribute, or in a function.
ELSEWHERE = b"location"
