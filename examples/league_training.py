"""A league of your own: a learner fights itself and its past, and all snapshots are rated.

python examples/league_training.py                                   # tic-tac-toe, about 20 s of one core
python examples/league_training.py connect_four:CONNECT_FOUR runs    # another game, and a folder for the results
"""

import sys
import tempfile
from pathlib import Path

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.rating import rate
from sb3_pvp.players.league import League, Player, Standing
from sb3_pvp.players.league.leaderboard import as_table
from sb3_pvp.policies import AutoregressivePolicy

BASELINE = Player("baseline")  # moves at random in these games


def train(game: str, league: Path, total_timesteps: int) -> None:
    """Half of the rows are self-play, half fight past snapshots; the learner never meets the baseline."""
    env = PvpVecEnv(32, game=game, seed=0)
    policy_kwargs = {"net_arch": [128, 128]}
    model = PvpPPO(
        AutoregressivePolicy, env, 1e-3, n_steps=64, batch_size=512, n_epochs=6, policy_kwargs=policy_kwargs, seed=0
    )
    # Chooses snapshots that beat the learner more often. All are in sb3_pvp/players/league/match_makers.py.
    match_maker = {"name": "prioritised_fictitious", "weighting": "hard"}
    callbacks = [
        LeagueCallback(snapshot_every=5, anchors={str(BASELINE): 1500}, pictures_every=1000, directory=league),
        SelfPlayCallback(self_play=0.5, past=0.5, match_maker=match_maker, num_live_opponents=2, directory=league),
    ]
    model.learn(total_timesteps, callback=callbacks)
    model.save(league.parent / "model.zip")


def main(
    game: str = "tic_tac_toe:TicTacToe", folder: str | Path | None = None, *, total_timesteps: int = 60_000
) -> list[Standing]:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(folder or temporary) / "league"
        train(game, directory, total_timesteps)
        league = League.existing(directory)
        # Plays matches until all intervals are within 50 points, or the limit of fights is reached.
        players, fights = [*league.players(), BASELINE], total_timesteps // 60
        for progress in rate(league, players, 50, FightSettings(game=game), max_fights=fights):
            print(f"{progress.num_fights} of {fights} fights for the ratings")
        standings = league.leaderboard(rollouts=False)
    print(as_table(standings))
    return standings


if __name__ == "__main__":
    main(*sys.argv[1:3])
