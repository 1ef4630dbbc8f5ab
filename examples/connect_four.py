"""Self-play in a game of PettingZoo: ``python examples/connect_four.py``.

Needs ``pip install 'sb3-pvp[examples]'``. From nothing to winning most games against a random player in about a minute
of one core; nobody is shown a random player while learning.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import EloCallback, LeagueCallback, SelfPlayCallback
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.games.pettingzoo.world import PettingZooGame
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.policies import AutoregressivePolicy

try:
    from pettingzoo.classic import connect_four_v3
except ImportError as error:
    raise SystemExit("connect four needs PettingZoo and pygame: pip install 'sb3-pvp[examples]'") from error

#: The world's own bot, "baseline", moves at random. Ties are worth nothing.
GAME = {"world": PettingZooGame(connect_four_v3.raw_env), "rewards": {"tie": 0.0}}


def win_rate(model: PvpPPO, games: int = 200) -> Score:
    """Games against a random player, as first and as second; the model's moves are sampled."""
    env = NhVecEnv(50, "baseline", seed=1_000_000, **GAME)
    try:
        return evaluate_model(model, env, games, deterministic=False)
    finally:
        env.close()


def train(steps: int, folder: Path, seed: int = 0) -> PvpPPO:
    """Half of the rows play themselves, half the past of the learner."""
    env = NhVecEnv(32, seed=seed, **GAME)
    model = PvpPPO(
        AutoregressivePolicy,
        env,
        n_steps=64,
        batch_size=512,
        n_epochs=6,
        learning_rate=1e-3,
        gamma=1.0,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [128, 128]},
        seed=seed,
        device="cpu",
    )
    callbacks = [
        LeagueCallback(snapshot_every=5, pictures_every=1000, directory=folder / "league"),
        SelfPlayCallback(self_play=0.5, past=0.5, num_live_opponents=2, directory=folder / "league"),
        EloCallback(directory=folder / "league"),
    ]
    model.learn(steps, callback=callbacks)
    env.close()
    return model


def main(arguments: Sequence[str] | None = None) -> Score:
    """Trains, prints the win rate, and returns it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80_000, help="moves and waits of learners")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the league and the model stay; without it nothing does")
    options = parser.parse_args(arguments)
    th.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        model = train(options.steps, folder, options.seed)
        score = win_rate(model)
        if options.folder:
            model.save(folder / "connect_four.zip")
    print(f"against a random player: {score}")
    return score


if __name__ == "__main__":
    main()
