"""Policies as ONNX graphs, and the back-ends that run them."""

ACTOR, CRITIC = "actor.onnx", "critic.onnx"  #: Names of the graphs in a fighter file, see `onnx_graph`.
