"""What rl-zoo3 has in its tables of samplers and converters: the default space for the learner, in rl-zoo3's terms.

The experiment manager of this package does not use them: it also varies what an algorithm's arguments do not say, and
keeps what is not varied.
"""

from __future__ import annotations

from typing import Any

import optuna

from sb3_pvp.presets.presets import ALGO, find_preset, hyperparams_path
from sb3_pvp.zoo.sweeps.conversion import hyperparameters
from sb3_pvp.zoo.sweeps.default_space import LEARNER

_NH = "NhEnv"


def sample_hyperparams(
    trial: optuna.Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]
) -> dict[str, Any]:
    """Draws arguments of the algorithm for a trial in so many environments; the others are without meaning here."""
    drawn = {each.name: trial._suggest(each.name, each.distribution()) for each in LEARNER}
    return convert_hyperparams(drawn, n_envs)


def convert_hyperparams(sampled_params: dict[str, Any], n_envs: int | None = None) -> dict[str, Any]:
    """The arguments of the algorithm that these drawn values mean in so many environments, or in as many as by default.

    Schedules are counted in the roll-outs of a run of the default length.
    """
    assert hyperparams_path(ALGO) is not None
    block = find_preset(_NH).hyperparams()
    envs = n_envs or int(block["n_envs"])
    converted = hyperparameters(sampled_params, LEARNER, {"n_envs": envs}, int(block["n_timesteps"]))
    del converted["n_envs"]
    return converted
