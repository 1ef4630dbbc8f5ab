"""The ablations: changes of a preset's hyperparameters, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from sb3_pvp.common.errors import require_known
from sb3_pvp.games.osrs.rewards import RewardWeights

Hyperparams = dict[str, Any]

#: Rewards for the outcome of a fight, which `_no_shaping` keeps.
OUTCOMES = ("win", "lose", "tie")


def _full(hyperparams: Hyperparams) -> Hyperparams:
    """The preset as it is."""
    return {}


def _no_autoregression(hyperparams: Hyperparams) -> Hyperparams:
    """Heads do not see each other's choices; the rules between them still hold."""
    return {"policy_kwargs": {**hyperparams.get("policy_kwargs", {}), "autoregressive": False}}


def _no_privileged_critic(hyperparams: Hyperparams) -> Hyperparams:
    """The critic sees only what the fighter sees."""
    return {"vec_env_wrapper": "benchmarks.learning_curves.hidden_keys.HiddenKeys"}


def _no_shaping(hyperparams: Hyperparams) -> Hyperparams:
    """Only the outcome of a fight is rewarded."""
    env_kwargs = hyperparams.get("env_kwargs", {})
    outcomes = {name: weight for name, weight in env_kwargs.get("rewards", {}).items() if name in OUTCOMES}
    weights = [field.name for field in fields(RewardWeights) if not isinstance(field.default, bool)]
    nothing = {name: 0.0 for name in weights if name not in OUTCOMES}
    return {"env_kwargs": {**env_kwargs, "rewards": {**outcomes, **nothing}}}


VARIANTS: dict[str, Callable[[Hyperparams], Hyperparams]] = {
    "full": _full,
    "no-autoregression": _no_autoregression,
    "no-privileged-critic": _no_privileged_critic,
    "no-shaping": _no_shaping,
}


def vary(variant: str, hyperparams: Hyperparams) -> Hyperparams:
    """Returns the hyperparameters of a variant; raises ``ValueError`` for an unknown name."""
    require_known("variant", variant, VARIANTS)
    return {**hyperparams, **VARIANTS[variant](hyperparams)}
