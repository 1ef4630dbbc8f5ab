"""The optimiser of DreamerV3: LaProp with adaptive gradient clipping (dreamer.md §5.2, A22)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch as th
from torch import nn


def clip_adaptively(gradients: list[th.Tensor], parameters: list[th.Tensor], clip: float) -> list[th.Tensor]:
    """Returns a factor for each gradient: it may be no longer than ``clip`` times its parameter, both as a whole.

    A parameter counts as at least 1e-3 long.
    """
    lengths = th.stack(th._foreach_norm(gradients))
    allowed = clip * th.stack(th._foreach_norm(parameters)).clamp(min=1e-3)
    return list((1 / (lengths / allowed).clamp(min=1)).unbind())


def warm_rate(lr: float, warmup: int, updates: th.Tensor) -> th.Tensor:
    """Returns the learning rate after so many updates; it rises from 0 to ``lr`` over ``warmup`` of them."""
    return lr * (updates / warmup if warmup else th.ones_like(updates)).clamp(max=1)


class LaProp(th.optim.Optimizer):
    """Scales each gradient by its running root mean square, then averages: Adam with the two in the other order.

    The learning rate rises from 0 over ``warmup`` steps, and the first one changes nothing but the running figures.
    ``clip`` bounds a gradient's length, as a share of its parameter's; 0 does without. After `step`,
    ``update_rms`` is the root mean square of what it added to the parameters.
    """

    update_rms: th.Tensor

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 4e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-20,
        clip: float = 0.3,
        warmup: int = 1000,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "clip": clip, "warmup": warmup})

    @th.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Makes one step along the gradients of the parameters; all of them are expected to have one."""
        (group,) = self.param_groups
        parameters, betas = group["params"], group["betas"]
        gradients = [parameter.grad for parameter in parameters]
        if group["clip"]:
            gradients = list(th._foreach_mul(gradients, clip_adaptively(gradients, parameters, group["clip"])))
        # All in one: many small tensors cost what the calls cost.
        gradient = th.cat([each.flatten() for each in gradients])
        state = self.state[parameters[0]]
        if not state:
            state.update(step=gradient.new_zeros(()), square=th.zeros_like(gradient), average=th.zeros_like(gradient))
        rate = warm_rate(group["lr"], group["warmup"], state["step"])
        state["step"] += 1
        # The averages started at 0; this is what share of them is not that.
        share, share_square = (-th.expm1(state["step"] * math.log(beta)) for beta in betas)
        state["square"].lerp_(gradient.square(), 1 - betas[1])
        roots = (state["square"] / share_square).sqrt_().add_(group["eps"])
        state["average"].lerp_(gradient / roots, 1 - betas[0])
        update = state["average"] * (-rate / share)
        self.update_rms = update.square().mean().sqrt()
        parts = update.split([parameter.numel() for parameter in parameters])
        th._foreach_add_(parameters, [part.view_as(each) for part, each in zip(parts, parameters, strict=True)])
