"""What the second edition of this package wrote, kept so that later editions can be tested on it.

This only runs on commit c4c2f4c, the last one of the second edition, in the root of its checkout::

    python -m tests.data.second_edition.make

It works in /tmp/second_edition, since a saved run remembers its opponents by absolute paths, which should be nobody's,
and takes about two minutes. The files are those of ``first_edition/make.py``, made anew, and

* ``features.fighter`` and ``own_game.fighter``, by ``sb3-pvp export``,
* ``features.zip``: layers of the features, statistics of observations, normalised choices, a model as the opponent,
* ``stopped/maskable_ppo/DharokEnv_1``: a run with an actor and a league, stopped at its last checkpoint.

What the models answer to fixed observations is written down in one file for each game, as in the first edition.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch as th
from sb3_contrib import MaskablePPO

from benchmarks.matrix_games import ROCK_PAPER_SCISSORS
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import (
    EloCallback,
    LeagueCallback,
    NoveltyRewardCallback,
    SelfPlayCallback,
)
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.data.first_edition import make as first

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PLACE = Path("/tmp/second_edition")

#: Left out for their size, beside pictures, which nobody reads.
UNUSED = ("stopped/*/*/DharokEnv.zip", "stopped/*/*/initial_model.zip", "trained/*/*/initial_model.zip")
COMMANDS = (
    *first.COMMANDS,
    [
        *first.TRAIN[:-1],
        "-f",
        "stopped",
        "--env",
        "DharokEnv",
        "-conf",
        "actors.yml",
        "--eval-freq",
        "-1",
        "--actors",
        "1",
    ],
    [*first.SB3_PVP, "export", "features.zip", "--no-onnx"],
    [*first.SB3_PVP, "export", "own_game.zip"],
)


def make_models() -> None:
    """Models that are trained in Python, and the league of a user's own game."""
    small: dict[str, Any] = {"n_steps": 128, "batch_size": 128, "seed": 1, "policy_kwargs": {"net_arch": [4]}}
    fights: dict[str, Any] = {"reset_params": {"randomizeBuild": True, "randomizeGear": True}, "seed": 1}
    model: MaskablePPO = PvpPPO(AutoregressivePolicy, NhVecEnv(2, **fights), **small)
    model.learn(4096, callback=NoveltyRewardCallback(scale=1e-3))
    model.save("nh.zip")

    model = MaskablePPO(AutoregressivePolicy, NhVecEnv(1, **fights), **small)
    model.learn(1024)
    model.save("stock.zip")

    network: dict[str, Any] = {"net_arch": {"pi": [4], "vf": [4]}, "head_arch": [4], "activation": "tanh"}
    settings = small | first.SCHEDULES | {"policy_kwargs": network | {"future_masks": True}, "normalize_reward": True}
    env = NhVecEnv(2, contract="DharokEnv", frame_ages=(0, 2), seed=1)
    model = PvpPPO(AutoregressivePolicy, env, gradient_accumulation_steps=2, **settings)
    model.learn(2560)
    model.save("dharok.zip")

    network = {"net_arch": [4], "features_arch": {"layers": [{"size": 4, "activation": "tanh"}]}}
    network |= {"normalize_observations": True, "normalize_actions": True, "share_features_extractor": False}
    env = NhVecEnv(2, contract="DharokEnv", frame_ages=(0, 2), opponent="dharok.zip", seed=1)
    model = PvpPPO(AutoregressivePolicy, env, **small | {"policy_kwargs": network})
    model.learn(1024)
    model.save("features.zip")

    network = {"net_arch": [4], "contract": ROCK_PAPER_SCISSORS.contract}  # its rules travel with the file
    env = NhVecEnv(16, game=ROCK_PAPER_SCISSORS, rewards={"tie": 0.0}, seed=1)
    model = PvpPPO(AutoregressivePolicy, env, **small | {"n_steps": 8, "policy_kwargs": network})
    league: Any = {"directory": "own_league"}
    callbacks = [
        LeagueCallback(snapshot_every=2, **league),
        SelfPlayCallback(self_play=0.25, past=0.5, latest=0.25, match_maker="prioritised_fictitious", **league),
        EloCallback(**league),
    ]
    model.learn(5 * 8 * 16, callback=callbacks)
    model.save("own_game.zip")


def main() -> None:
    """Makes everything in an empty folder, and copies it to where this file is."""
    th.set_num_threads(1)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    os.chdir(PLACE)
    for file in HERE.glob("*.yml"):
        shutil.copy(file, PLACE)
    make_models()
    for command in COMMANDS:
        code = subprocess.run([sys.executable, *command], env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode
        assert code == 0 or "rate" in command, command  # 1: not all ratings are as certain as was asked for
    for left_out in (
        "*.png",
        "DharokEnv_2/DharokEnv.zip",
        "DharokEnv_2/initial_model.zip",
        "NhEnv_1/initial_model.zip",
    ):
        for path in Path().rglob(left_out):
            path.unlink()
    models = first.MODELS["DharokEnv"]
    first.MODELS["DharokEnv"] = (models[0], "features.zip", models[1], "stopped/**/*.zip")
    for game in first.MODELS:
        first.record_answers(game)
    for path in Path().rglob("command.txt"):
        path.write_text(path.read_text().replace(sys.executable, "python").replace(f"{ROOT}/", "") + "\n")
    shutil.copytree(PLACE, HERE, dirs_exist_ok=True)
    print(sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) / 1e6, "MB")


if __name__ == "__main__":
    main()
