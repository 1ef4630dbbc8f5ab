"""A small model of chess for tests."""

from __future__ import annotations

from pathlib import Path

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.planes import ResidualPlanes


def save_model(path: Path, seed: int = 0) -> Path:
    """Saves a model that has not learned anything."""
    extractor = {"features_extractor_class": ResidualPlanes, "features_extractor_kwargs": {"channels": 4, "blocks": 1}}
    env = PvpVecEnv(1, game="ChessPvP-v0", opponent="random")
    network = {**extractor, "net_arch": [], "autoregressive": False}
    PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, seed=seed, policy_kwargs=network).save(path)
    return path
