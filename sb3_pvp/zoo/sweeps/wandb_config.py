"""The configuration of W&B's sweeps, from the same search space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sb3_pvp.zoo.sweeps.options import WIN_RATE
from sb3_pvp.zoo.sweeps.space import Space


def configuration(
    preset: str, env_id: str, space: Space, search_space: Path | None = None, n_timesteps: int | None = None
) -> dict[str, Any]:
    """What ``wandb sweep`` reads; its agents run ``train`` with the values that they are told.

    Args:
        preset: name or file of the preset that runs begin with, for ``env_id``.
        env_id: the environment.
        space: what is varied, from the file ``search_space`` if there is one.
        search_space: see there.
        n_timesteps: the length of a run; ``None``: that of the preset.
    """
    more = [] if n_timesteps is None else ["-n", str(n_timesteps)]
    more += [] if search_space is None else ["--search-space", str(search_space)]
    train = ["-m", "sb3_pvp.zoo", "train", "--preset", preset, "--track", "--eval-freq", "-1", *more]
    return {
        "name": f"sb3_pvp {env_id}",
        "method": "bayes",
        "metric": {"name": WIN_RATE, "goal": "maximize"},
        "early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 3},
        "parameters": {parameter.name: parameter.wandb() for parameter in space},
        "command": ["${env}", "${interpreter}", *train, "--sample", "${args_json}"],
    }
