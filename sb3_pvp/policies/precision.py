"""The precision of learning: bfloat16 in the products of hidden layers, where that is faster; all else is float32.

Weights, gradients and the optimiser are float32 in any case. So are the last layers, which give logits and values:
rounding these to three digits would be noise in PPO's ratios, which compare log-probabilities with the rollout's.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch as th
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sb3_pvp.common.names import require_known

AUTO, FP32, BF16 = "auto", "fp32", "bf16"
PRECISIONS = (AUTO, FP32, BF16)
#: Layers that are narrower are too small to gain: their time is not that of the product.
MIN_WIDTH = 256
#: How many times faster bfloat16 must be, so that the choice does not depend on noise.
MIN_SPEEDUP = 1.3


def check_precision(precision: str, policy: MaskableActorCriticPolicy) -> None:
    """Raises `ValueError` for an unknown precision, or one that is not possible with this policy."""
    require_known("precision", precision, PRECISIONS)
    if precision == BF16 and not _has_float32_outputs(policy):
        raise ValueError(f"precision='bf16' needs an AutoregressivePolicy, not {type(policy).__name__}; use 'fp32'")


def resolve_precision(precision: str, policy: MaskableActorCriticPolicy) -> str:
    """Returns ``"fp32"`` or ``"bf16"`` for a policy; ``"auto"`` measures which is faster.

    Processors say too little: some have instructions for bfloat16 and are slower with them.
    """
    if precision != AUTO:
        return precision
    shapes = [part.shape[-2:] for part in policy.parameters() if part.ndim > 1 and min(part.shape[-2:]) >= MIN_WIDTH]
    if not shapes or not _has_float32_outputs(policy):
        return FP32
    widest = max(shapes, key=lambda shape: shape.numel())
    return BF16 if bf16_speedup(*widest, policy.device) > MIN_SPEEDUP else FP32


@cache
def bf16_speedup(num_outputs: int, num_inputs: int, device: th.device, rows: int = 256) -> float:
    """Measures how many times faster a layer is with bfloat16, once per process; below 1 it is slower."""
    inputs, weight = th.ones(rows, num_inputs, device=device), th.ones(num_outputs, num_inputs, device=device)
    seconds: dict[str, list[float]] = {FP32: [], BF16: []}
    for _ in range(4):  # the first warms up
        for precision, times in seconds.items():
            started = time.perf_counter()
            with learning_in(precision, device):
                th.nn.functional.linear(inputs, weight)[0, 0].item()  # waits for a GPU
            times.append(time.perf_counter() - started)
    return min(seconds[FP32]) / min(seconds[BF16])


def learning_in(precision: str, device: th.device) -> AbstractContextManager[Any]:
    """Returns a context in which PyTorch computes products of matrices in ``"fp32"`` or ``"bf16"``."""
    return th.autocast(device.type, th.bfloat16) if precision == BF16 else nullcontext()


def in_float32(tensor: th.Tensor) -> AbstractContextManager[Any]:
    """Returns a context in which everything on the device of ``tensor`` is float32 again."""
    device = tensor.device.type
    is_on = th.amp.is_autocast_available(device) and th.is_autocast_enabled(device)
    return th.autocast(device, enabled=False) if is_on else nullcontext()  # acting should not pay for the former


def _has_float32_outputs(policy: MaskableActorCriticPolicy) -> bool:
    """Whether the policy uses `in_float32`, as `AutoregressivePolicy` does."""
    return hasattr(policy, "evaluate_heads")
