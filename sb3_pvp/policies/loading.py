"""Models from files."""

from __future__ import annotations

from pathlib import Path
from zipfile import is_zipfile

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.game import Game, find_game, game_names
from sb3_pvp.policies.autoregressive import AUTO, find_contract
from sb3_pvp.policies.features import NormalizedFeatures

# What training needs and acting does not. rl-zoo3 pickles its own classes in some; with a seed, SB3 would put the
# global random generators back to where they were when that fighter's training began.
_TRAINING_ONLY = {
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "clip_range": lambda _: 0.0,
    "seed": None,
    "training_state": None,
}


def load(path: str | Path, device: str = "cpu") -> MaskablePPO:
    """Loads a fighter for acting, without needing rl-zoo3; to go on training use ``PvpPPO.load``.

    A policy of sb3_contrib is not told masks by observations: pass them to ``predict``. The global random generators
    are left alone. Loading unpickles: only load files that you trust. Raises ``FileNotFoundError``, or ``ValueError``
    if the file is no model of MaskablePPO.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no model file {path}")
    if not is_zipfile(path):
        raise ValueError(f"{path} is not a model: models are zip files written by model.save()")
    try:
        with torch.random.fork_rng(devices=[]):  # a fresh network draws weights before it gets its own
            model = MaskablePPO.load(path, device=device, custom_objects=_TRAINING_ONLY)
    except Exception as error:  # whatever unpickling a foreign file runs into
        raise ValueError(f"{path} is not a MaskablePPO model: {error}") from error
    if not isinstance(model.policy, MaskableActorCriticPolicy):
        raise ValueError(f"{path} holds a {type(model.policy).__name__}, which is not a policy of MaskablePPO")
    return model


def game_of(model: BaseAlgorithm) -> Game:
    """What a model was trained to play, imported if need be: the game that its file names, else that of its contract.

    Raises `ValueError`, which tells how to say the game, if the model does not tell or nobody knows the name here.
    """
    name, contract = getattr(model, "game", None), getattr(model.policy, "contract", None)
    if name is None:
        heads = getattr(model.policy, "head_sizes", tuple(getattr(model.action_space, "nvec", ())))
        contract = contract or find_contract(AUTO, heads, NormalizedFeatures(model.observation_space))
        name = None if contract is None else contract.name
    if name is None:
        raise ValueError("the model does not tell which game it plays: say it with --game module:object")
    return named_game(name)


def named_game(name: str) -> Game:
    """The game that a file names; raises `ValueError`, which tells how to say it, if nobody knows it here."""
    if ":" not in name and name not in game_names():
        raise ValueError(f"{name!r} is a game that nobody knows here: say where it is with --game module:object")
    return find_game(name)
