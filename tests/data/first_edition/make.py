"""What the first edition of this package wrote, kept so that later editions can be tested on it.

This only runs on commit 2fda689, the last one of the first edition, in the root of its checkout::

    PYTHONPATH=$PWD python -m tests.data.first_edition.make

It works in /tmp/first_edition, since a saved run remembers its opponents by absolute paths, which should be nobody's,
and takes about a minute. In there it trains and records as a user would, in Python (`make_models`) and with::

    python scripts/train.py --algo maskable_ppo --env NhEnv -conf self_play.yml --eval-freq -1 --resume
    python scripts/train.py --algo maskable_ppo --env DharokEnv -conf plain.yml --eval-freq 128 --resume
    sb3-pvp league rate trained/maskable_ppo/NhEnv_1 --until 100 --player scripted --max-fights 128
    sb3-pvp league export trained/maskable_ppo/NhEnv_1 --rollouts --format json -o NhEnv_1.json
    sb3-pvp league export own_league --rollouts --format json -o own_league.json
    sb3-pvp record nh.zip --opponent scripted -o fight.json.gz

`COMMANDS` has them with all options. What the models answer to fixed observations is then written down, in one file
for each game: see `record_answers`. Left out are pictures, which nobody reads, and in `command.txt` of a run where
Python and the checkout were.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.callbacks import (
    EloCallback,
    LeagueCallback,
    NoveltyRewardCallback,
    OutcomePredictorCallback,
    SelfPlayCallback,
)
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.schedules import Function

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PLACE = Path("/tmp/first_edition")

RUN = "trained/maskable_ppo/NhEnv_1"
TRAIN = [str(ROOT / "scripts" / "train.py"), "--algo", "maskable_ppo", "-f", "trained", "--seed", "1", "--resume"]
SB3_PVP = ["-m", "sb3_pvp.cli"]
COMMANDS = (
    [*TRAIN, "--env", "NhEnv", "-conf", "self_play.yml", "--eval-freq", "-1"],
    [*TRAIN, "--env", "DharokEnv", "-conf", "plain.yml", "--eval-freq", "128", "--eval-episodes", "2"],
    [*SB3_PVP, "league", "rate", RUN, "--until", "100", "--player", "scripted", "--max-fights", "128"],
    [*SB3_PVP, "league", "export", RUN, "--rollouts", "--format", "json", "-o", "NhEnv_1.json"],
    [*SB3_PVP, "league", "export", "own_league", "--rollouts", "--format", "json", "-o", "own_league.json"],
    [*SB3_PVP, "record", "nh.zip", "--opponent", "scripted", "-o", "fight.json.gz"],
)
#: Which models play what.
MODELS = {
    "NhEnv": ("nh.zip", "stock.zip", "trained/maskable_ppo/NhEnv_1/**/*.zip"),
    "DharokEnv": ("dharok.zip", "trained/maskable_ppo/DharokEnv_1/**/*.zip"),
    "rock_paper_scissors": ("own_game.zip", "own_league/players/*.zip"),
}
#: One schedule of each kind that a hyperparameter may follow; a file keeps them as objects.
SCHEDULES: dict[str, Any] = {
    "learning_rate": {"type": "linear", "initial_value": 1e-3, "final_value": 0, "change_over_time_steps": 100},
    "ent_coef": {"type": "log", "initial_value": 0.01, "final_value": 0.001, "change_over_time_steps": 100},
    "clip_range": {"type": "jump", "jumps": {"0": 0.2, "4": 0.1}},
    "vf_coef": {"type": "expression", "expression": "half / (1 + t)", "substitutions": {"half": 0.5}},
    "eps_greedy": {"type": "constant", "value": 0.01},
    "max_grad_norm": Function(math.exp),
}


def make_models(game: Any) -> None:
    """Models that are trained in Python, and the league of the user's own ``game``."""
    small: dict[str, Any] = {"n_steps": 128, "batch_size": 128, "seed": 1, "policy_kwargs": {"net_arch": [8]}}
    fights: dict[str, Any] = {"reset_params": {"randomizeBuild": True, "randomizeGear": True}, "seed": 1}
    model: MaskablePPO = PvpPPO(AutoregressivePolicy, NhVecEnv(2, **fights), **small)
    model.learn(4096, callback=NoveltyRewardCallback(scale=1e-3))
    model.save("nh.zip")

    model = MaskablePPO(AutoregressivePolicy, NhVecEnv(1, **fights), **small)
    model.learn(1024)
    model.save("stock.zip")

    network: dict[str, Any] = {"net_arch": {"pi": [8], "vf": [8]}, "head_arch": [4], "activation": "tanh"}
    settings = small | SCHEDULES | {"policy_kwargs": network | {"future_masks": True}, "normalize_reward": True}
    env = NhVecEnv(2, contract="DharokEnv", frame_ages=(0, 2), seed=1)
    model = PvpPPO(AutoregressivePolicy, env, gradient_accumulation_steps=2, **settings)
    model.learn(2560)
    model.save("dharok.zip")

    network = {"net_arch": [8], "contract": game.contract}  # as rules of one's own need it: it travels with the file
    env = NhVecEnv(16, world=game, rewards={"tie": 0.0}, seed=1)
    model = PvpPPO(AutoregressivePolicy, env, **small | {"n_steps": 8, "policy_kwargs": network})
    league: Any = {"directory": "own_league"}
    callbacks = [
        LeagueCallback(snapshot_every=2, **league),
        SelfPlayCallback(self_play=0.25, past=0.5, latest=0.25, match_maker="prioritised_fictitious", **league),
        EloCallback(**league),
        OutcomePredictorCallback(),
    ]
    model.learn(5 * 8 * 16, callback=callbacks)
    model.save("own_game.zip")


def observations_of(game: str, model: MaskablePPO) -> dict[str, NDArray[Any]]:
    """What is seen in some ticks of fights in which this model acts."""
    if game == "rock_paper_scissors":  # there is nothing to see but what may be chosen
        return {"observation": np.ones((4, 1, 1), np.float32), "action_mask": 1 - np.eye(4, 3, dtype=np.int8)}
    params = {"randomizeBuild": True, "randomizeGear": True} if game == "NhEnv" else {}
    env = NhVecEnv(4, contract=game, frame_ages=model.frame_ages, reset_params=params, seed=99)
    seen: Any = env.reset()
    kept = []
    for tick in range(48):
        if tick % 8 == 0:
            kept.append(seen)
        seen, *_ = env.step(model.predict(seen)[0])
    return {key: np.concatenate([each[key] for each in kept]) for key in kept[0]}


def record_answers(game: str) -> None:
    """Writes ``GAME.npz``: observations of the game, and what its models make of them.

    It has ``seen/KEY``, and for each model ``FILE/actions``, the most likely ones, ``FILE/log_probs`` of these actions,
    ``FILE/values``, and ``FILE/wins``, chances to win, of a model with an outcome predictor.
    """
    files = [path for pattern in MODELS[game] for path in sorted(Path().glob(pattern))]
    seen = observations_of(game, load(files[0]))
    recorded = {f"seen/{key}": value for key, value in seen.items()}
    for file in files:
        model = load(file)
        actions, _ = model.predict(seen, deterministic=True)
        with th.no_grad():
            tensors = model.policy.obs_to_tensor(seen)[0]
            values, log_probs, _ = model.policy.evaluate_actions(tensors, th.as_tensor(actions))
        recorded[f"{file}/actions"] = actions
        recorded[f"{file}/log_probs"] = log_probs.numpy()
        recorded[f"{file}/values"] = values.flatten().numpy()
        if hasattr(model, "outcome_predictor"):
            recorded[f"{file}/wins"] = model.outcome_predictor.predict(seen)["WIN"]
    np.savez_compressed(f"{game}.npz", **recorded)


def main() -> None:
    """Makes everything in an empty folder, and copies it to where this file is."""
    th.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "docs" / "examples"))
    from matrix_games import ROCK_PAPER_SCISSORS

    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    os.chdir(PLACE)
    for file in HERE.glob("*.yml"):
        shutil.copy(file, PLACE)
    make_models(ROCK_PAPER_SCISSORS)
    for command in COMMANDS:
        code = subprocess.run([sys.executable, *command]).returncode
        assert code == 0 or "rate" in command, command  # 1: not all ratings are as certain as was asked for
    for game in MODELS:
        record_answers(game)
    for picture in Path().rglob("*.png"):
        picture.unlink()
    for file in Path().rglob("command.txt"):
        file.write_text(file.read_text().replace(sys.executable, "python").replace(f"{ROOT}/", "") + "\n")
    shutil.copytree(PLACE, HERE, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
