"""Hyperparameters for environments of this package, checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.algorithms.hyperparameters import RAW_OBSERVATIONS, WRAPPERS, check_names, check_settings, policy_class_in
from sb3_pvp.common.arguments import MAPPING
from sb3_pvp.common.errors import require_all_known, require_known
from sb3_pvp.envs.settings import FightSettings


def check_hyperparams(hyperparams: Mapping[str, Any], algorithm: type[BaseAlgorithm], env_id: str) -> None:
    """Checks names, and values as far as that needs no environment; raises `ValueError` for the first error."""
    check_names(hyperparams, algorithm)
    for name in ("n_timesteps", "policy"):
        if hyperparams.get(name) is None:
            raise ValueError(f"the hyperparameters for {env_id} have no {name}: begin with import: {env_id}")
    if hyperparams.get("frame_stack") is not None:
        raise ValueError(
            'frame_stack would stack masks too; to stack observations, use -params "env_kwargs.frame_ages:[0, 1]"'
        )
    normalize = hyperparams.get("normalize")  # true, or arguments of VecNormalize
    try:
        normalize = eval(normalize, {}) if isinstance(normalize, str) else normalize
    except Exception as error:  # the expression may raise anything
        raise ValueError(f"normalize must be arguments of VecNormalize, or Python for them: {error}") from error
    if normalize and (not isinstance(normalize, Mapping) or normalize.get("norm_obs", True)):
        raise ValueError(f"normalize{RAW_OBSERVATIONS}")
    MAPPING.check(env_kwargs=(env_kwargs := hyperparams.get("env_kwargs")))
    known = [*(field.name for field in fields(FightSettings)), "render_mode"]
    require_all_known(f"argument of {env_id}", env_kwargs or (), known)
    check_settings(hyperparams)
    # A wrapper may make another space of the Dict of our observations, which these two policies cannot read.
    if policy_class_in(hyperparams["policy"]) is None and not any(hyperparams.get(name) for name in WRAPPERS):
        require_known("policy", hyperparams["policy"], {*algorithm.policy_aliases} - {"MlpPolicy", "CnnPolicy"})
