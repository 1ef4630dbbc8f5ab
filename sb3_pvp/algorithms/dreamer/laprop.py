"""The optimiser of DreamerV3: LaProp with adaptive gradient clipping (dreamer.md §5.2, A22)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch as th
from torch import nn


def clip_adaptively(gradients: list[th.Tensor], parameters: list[th.Tensor], clip: float) -> list[th.Tensor]:
    """Returns a factor for each gradient: it may be no longer than ``clip`` times its parameter, both as a whole.

    A parameter counts as at least 1e-3 long.
    """
    lengths = th.stack(th._foreach_norm(gradients))
    allowed = clip * th.stack(th._foreach_norm(parameters)).clamp(min=1e-3)
    return list((1 / (lengths / allowed).clamp(min=1)).unbind())


def warm_rate(lr: float, warmup: int, updates: int) -> float:
    """Returns the learning rate after so many updates; it rises from 0 to ``lr`` over ``warmup`` of them."""
    return lr * min(1.0, updates / warmup) if warmup else lr


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
        """Makes one step along the gradients of the parameters."""
        squares = [self._step_group(group) for group in self.param_groups]
        count = sum(parameter.numel() for group in self.param_groups for parameter in group["params"])
        self.update_rms = (th.stack(squares).sum() / count).sqrt()

    def _step_group(self, group: dict[str, Any]) -> th.Tensor:
        """Returns the sum of the squares of what was added to the parameters of this group."""
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        states = [self._state_of(parameter) for parameter in parameters]
        means, averages = [state["square"] for state in states], [state["average"] for state in states]
        number = states[0]["step"]
        gradients = [parameter.grad for parameter in parameters]
        if group["clip"]:
            gradients = list(th._foreach_mul(gradients, clip_adaptively(gradients, parameters, group["clip"])))
        beta_average, beta_square = group["betas"][0], group["betas"][1]
        th._foreach_mul_(means, beta_square)
        th._foreach_addcmul_(means, gradients, gradients, 1 - beta_square)
        roots = th._foreach_div(means, 1 - beta_square ** (number + 1))
        th._foreach_sqrt_(roots)
        th._foreach_add_(roots, group["eps"])
        th._foreach_lerp_(averages, th._foreach_div(gradients, roots), 1 - beta_average)
        rate = warm_rate(group["lr"], group["warmup"], number)
        updates = th._foreach_mul(averages, -rate / (1 - beta_average ** (number + 1)))
        th._foreach_add_(parameters, updates)
        for state in states:
            state["step"] += 1
        return th.stack(th._foreach_norm(updates)).square().sum()

    def _state_of(self, parameter: th.Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state.update(step=0, square=th.zeros_like(parameter), average=th.zeros_like(parameter))
        return state
