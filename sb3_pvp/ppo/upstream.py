"""Importing fighters that the original system trained (cli-config.md §11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.model_files import find_model
from sb3_pvp.policies.upstream import UpstreamFile
from sb3_pvp.ppo.algorithm import PvpPPO
from sb3_pvp.ppo.resumable import preserved_random_state

#: Parts of the original custom data that are kept as they are.
_KEPT = ("env_kwargs", "reference_rating", "past_self_play_league")


def import_upstream(path: str | Path, device: str = "cpu") -> PvpPPO:
    """Reads a checkpoint of the original system, stripped or not, without running anything in it.

    The model decides and values as the original does. It has the original's statistics of observations, choices and
    rewards, its steps, frame ages, reset parameters and outcome predictor (``model.outcome_predictor``); other settings
    are in ``model.upstream``. Training can continue, but the moments of the optimiser are not carried over, and
    hyperparameters are the defaults of `PvpPPO`. Warns about what cannot be carried over.

    Args:
        path: the checkpoint, with or without ``.zip``.
        device: PyTorch device of the policy.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no such checkpoint, or has anything that such checkpoints do not have.
    """
    file = UpstreamFile(find_model(path))
    with preserved_random_state():  # a new network samples initial weights before it gets those of the file
        model = PvpPPO(AutoregressivePolicy, None, device=device, _init_setup_model=False)  # type: ignore[arg-type]
        model.observation_space, model.action_space, model.n_envs = file.observation_space, file.action_space, 1
        model.policy_kwargs = file.policy_arguments
        model._setup_model()
    policy: Any = model.policy
    file.fill(policy)
    policy.set_training_mode(False)
    model.num_timesteps, model.trained_rollouts = file.meta.trained_steps, file.meta.trained_rollouts
    model.num_updates, model.frame_ages = file.meta.num_updates, file.frame_ages
    settings = {name: value for name in _KEPT if (value := file.settings(name)) is not None}
    if file.contract is not None:
        model.game, model.reset_params = file.contract.name, file.reset_params
    returns, predictor = file.moments("reward_norm"), file.outcome_predictor(policy)
    if returns is not None:
        model.normalize_reward, own = True, model.reward_normalizer
        own.mean, own.variance, own.count = float(returns.mean), float(returns.variance), returns.count
    vars(model).update(upstream=settings, **({} if predictor is None else {"outcome_predictor": predictor}))
    return model
