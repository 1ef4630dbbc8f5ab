"""Single formulas of the original, computed by ours from its own inputs (tests/data/dreamer/README.md).

Every name of ``golden.npz`` is an input of `recompute`, or one of the names that it returns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch as th
from numpy.typing import NDArray
from torch import nn

from sb3_pvp.algorithms.dreamer.distributions import (
    BoundedNormal,
    Choices,
    latent_entropy,
    latent_kl,
    mixed_probs,
    straight_through,
    symexp,
    symexp_bins,
    symlog,
    two_hot,
    two_hot_loss,
    two_hot_mean,
)
from sb3_pvp.algorithms.dreamer.laprop import LaProp, clip_adaptively, warm_rate
from sb3_pvp.algorithms.dreamer.layers import NORM_EPS, BlockLinear
from sb3_pvp.algorithms.dreamer.losses import ReturnScale, lambda_returns
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent
from tests.algorithms.dreamer_reference import (
    CASES,
    SETTINGS,
    SIZE,
    Arrays,
    load_weights,
    recompute_case,
    tensor,
    weights_of,
)

#: What the formulas are given.
UNIT_INPUTS = {
    f"unit/{name}"
    for name in (
        *("symlog/x", "symexp/x", "lr/update_index", "rmsnorm/x", "rmsnorm/scale"),
        *(f"twohot/{kind}{count}" for kind in ("target", "logits", "pred_logits") for count in (255, 5, 6, 41)),
        *("kl/post_logit", "kl/prior_logit", "st/logit", "st/index", "st/w"),
        *(f"lambda_{x}/{key}" for x in "ab" for key in ("rew", "val", "boot", "last", "term", "con")),
        *("blocklinear/x", "blocklinear/kernel", "blocklinear/bias", "core/deter", "core/stoch", "core/action"),
        *(f"retnorm/x{i}" for i in range(5)),
        *("bnormal/raw_mean", "bnormal/raw_std", "bnormal/action", "categorical/logits", "categorical/action"),
        *("binary/logit", "binary/target"),
    )
}


def is_input(name: str) -> bool:
    """Whether `recompute` takes an array for its own, rather than computing it."""
    return re.search(r"^unit/opt_in/|/(data|param|sample)/", name) is not None or name in UNIT_INPUTS


def recompute(golden: Mapping[str, NDArray[Any]], part: str, all_steps: bool = True) -> Arrays:
    """All results of the single formulas, ``unit``, or of a case; ``all_steps`` or the first one only."""
    return recompute_units(golden) if part == "unit" else recompute_case(golden, part, all_steps)


def recompute_units(golden: Mapping[str, NDArray[Any]]) -> Arrays:
    unit = {name.removeprefix("unit/"): tensor(array) for name, array in golden.items() if name.startswith("unit/")}
    found = two_hot_units(unit) | latent_units(unit) | optimizer_units(unit)
    found |= {"symlog/y": symlog(unit["symlog/x"]), "symexp/y": symexp(unit["symexp/x"])}
    for name in ("lambda_a", "lambda_b"):
        rewards, values, boot, last, term, goes_on = (
            unit[f"{name}/{key}"] for key in ("rew", "val", "boot", "last", "term", "con")
        )
        found[f"{name}/ret_replay"] = lambda_returns(rewards, (~term).float() * SETTINGS.gamma, boot, 0.95, last)
        found[f"{name}/ret_imag"] = lambda_returns(rewards, goes_on, values, 0.95)
    norm, block = nn.RMSNorm(8, eps=NORM_EPS), BlockLinear(8, 12, 4)
    norm.load_state_dict({"weight": unit["rmsnorm/scale"]})
    block.load_state_dict({"weight": unit["blocklinear/kernel"], "bias": unit["blocklinear/bias"]})
    found |= {"rmsnorm/y": norm(unit["rmsnorm/x"]), "blocklinear/y": block(unit["blocklinear/x"])}
    networks = DreamerNetworks(*CASES["disc"], SIZE)
    load_weights(networks, weights_of(golden, "disc"))
    state = Latent(unit["core/deter"], unit["core/stoch"])
    found["core/deter_next"] = networks.recurrent.core(state, unit["core/action"])
    scale = ReturnScale()
    for i in range(5):
        returns = unit[f"retnorm/x{i}"]
        found[f"retnorm/p5_p95_{i}"] = th.quantile(returns.flatten(), th.tensor([0.05, 0.95]))
        of_batch = scale.update(returns)
        found[f"retnorm/lo_hi_scale{i}"] = th.stack([scale.low, scale.high, of_batch])
    normal = BoundedNormal.of(unit["bnormal/raw_mean"], unit["bnormal/raw_std"])
    found |= {"bnormal/mean": normal.mean, "bnormal/std": normal.std, "bnormal/ent": normal.entropy()}
    found["bnormal/logp"] = normal.log_prob(unit["bnormal/action"])
    choices = Choices(unit["categorical/logits"].unsqueeze(1))
    found["categorical/ent"] = choices.entropy()
    found["categorical/logp"] = choices.log_prob(unit["categorical/action"].unsqueeze(-1))
    logits = unit["binary/logit"]
    found["binary/loss"] = nn.functional.binary_cross_entropy_with_logits(
        logits, unit["binary/target"], reduction="none"
    )
    found["binary/prob1"] = logits.sigmoid()
    return {f"unit/{name}": value.detach().numpy() for name, value in found.items()}


def two_hot_units(unit: Mapping[str, th.Tensor]) -> dict[str, th.Tensor]:
    found = {}
    for count in (255, 5, 6, 41):
        bins = symexp_bins(count)
        target = unit[f"twohot/target{count}"]
        found[f"twohot/bins{count}"] = bins
        found[f"twohot/encoded{count}"] = dense_two_hot(target, bins)
        found[f"twohot/loss{count}"] = two_hot_loss(unit[f"twohot/logits{count}"], target)
        found[f"twohot/pred{count}"] = two_hot_mean(unit[f"twohot/pred_logits{count}"])
        found[f"twohot/pred_zero{count}"] = two_hot_mean(th.zeros(count))
    return found


def dense_two_hot(target: th.Tensor, bins: th.Tensor) -> th.Tensor:
    """The weights of all bins ``(…, bins)``."""
    below, weight = two_hot(target, bins)
    index = th.stack([below, below + 1], -1)
    return th.zeros(*target.shape, len(bins)).scatter(-1, index, th.stack([1 - weight, weight], -1))


def latent_units(unit: Mapping[str, th.Tensor]) -> dict[str, th.Tensor]:
    posterior, prior = (unit[f"kl/{name}_logit"].clone().requires_grad_() for name in ("post", "prior"))
    of_posterior, of_prior = mixed_probs(posterior), mixed_probs(prior)
    kl = latent_kl(of_posterior, of_prior)
    found = {
        "kl/post_probs": of_posterior,
        "kl/kl": kl,
        "kl/kl_free1": kl.clamp(min=1),
        "kl/ent": latent_entropy(of_posterior),
    }
    grad_dyn = th.autograd.grad(latent_kl(of_posterior.detach(), of_prior).clamp(min=1).sum(), prior)[0]
    grad_rep = th.autograd.grad(latent_kl(of_posterior, of_prior.detach()).clamp(min=1).sum(), posterior)[0]
    logits = unit["st/logit"].clone().requires_grad_()
    drawn = straight_through(nn.functional.one_hot(unit["st/index"], 5).float(), mixed_probs(logits))
    found["st/grad"] = th.autograd.grad((unit["st/w"] * drawn).sum(), logits)[0]
    return found | {"kl/grad_dyn_prior": grad_dyn, "kl/grad_rep_post": grad_rep}


def optimizer_units(unit: Mapping[str, th.Tensor]) -> dict[str, th.Tensor]:
    found = {}
    names = [name.removeprefix("opt_in/param/") for name in unit if name.startswith("opt_in/param/")]
    for kind, options in {"laprop": {"clip": 0.0, "warmup": 0}, "agc": {"warmup": 0}, "warm": {"warmup": 4}}.items():
        parameters = {name: nn.Parameter(unit[f"opt_in/param/{name}"].clone()) for name in names}
        optimizer = LaProp(parameters.values(), lr=1e-2, **options)  # type: ignore[arg-type]
        for i in range(1, 4):
            for name, parameter in parameters.items():
                parameter.grad = unit[f"opt_in/grad{i}/{name}"].clone()
            optimizer.step()
            found |= {f"opt_{kind}/param_after{i}/{name}": p.detach().clone() for name, p in parameters.items()}
    gradients = [unit[f"opt_in/grad1/{name}"] for name in names]
    factors = clip_adaptively(gradients, [unit[f"opt_in/param/{name}"] for name in names], 0.3)
    found |= {f"agc_only/{name}": each * factor for name, each, factor in zip(names, gradients, factors, strict=True)}
    return found | {"lr/lr": warm_rate(4e-5, 1000, unit["lr/update_index"])}
