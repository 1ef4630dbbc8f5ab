"""Trains a game by self-play and shows how strong everybody has become; no game, but what the examples run.

python examples/league_training.py tic_tac_toe:TicTacToe --steps 60000 --folder runs/tic_tac_toe
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import EloCallback, LeagueCallback, SelfPlayCallback
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.matches.rating import rate
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.selfplay import League, Player
from sb3_pvp.selfplay.leaderboard import as_table


def train(game: str, folder: Path, steps: int, seed: int = 0) -> PvpPPO:
    """Half of the rows play themselves, half the past of the learner; nobody is shown a random player."""
    env = PvpVecEnv(32, game=game, seed=seed)
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
        LeagueCallback(snapshot_every=5, pictures_every=1000, anchors={"baseline": 1500}, directory=folder / "league"),
        SelfPlayCallback(self_play=0.5, past=0.5, num_live_opponents=2, directory=folder / "league"),
        EloCallback(directory=folder / "league"),
    ]
    model.learn(steps, callback=callbacks)
    model.save(folder / "model.zip")
    env.close()
    return model


def show_ratings(game: str, folder: Path, fights: int) -> None:
    """Lets snapshots and the random player, ``baseline``, fight for their ratings, and prints them."""
    league = League.existing(folder / "league")
    for _ in rate(league, [*league.players(), Player("baseline")], 50, FightSettings(game=game), max_fights=fights):
        pass
    print(as_table(league.leaderboard(rollouts=False)))


def win_rate(game: str, model: PvpPPO, fights: int) -> Score:
    """Fights against the random player; the model's actions are sampled."""
    env = PvpVecEnv(50, game=game, seed=1_000_000)
    try:
        return evaluate_model(model, env, fights, deterministic=False)
    finally:
        env.close()


def main(arguments: Sequence[str] | None = None) -> Score:
    """Trains, prints ratings and the win rate against a random player, and returns the latter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", help="module:object, where Python finds the module")
    parser.add_argument("--steps", type=int, default=60_000, help="steps of learners, waits among them")
    parser.add_argument("--fights", type=int, default=1000, help="for the ratings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the league and the model stay; without it nothing does")
    options = parser.parse_args(arguments)
    th.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        model = train(options.game, folder, options.steps, options.seed)
        show_ratings(options.game, folder, options.fights)
    score = win_rate(options.game, model, 200)
    print(f"against a random player: {score}")
    return score


if __name__ == "__main__":
    main()
