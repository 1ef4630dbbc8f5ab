"""An arena: fighters of a small training meet, and the table says how sure it is.

python examples/arena.py    # about a minute of one core
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from sb3_pvp import PvpPPO
from sb3_pvp.arena import Arena, Challenge, compare_players
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.matches.sprt import Sprt
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.fighter_files import export_fighter


def train(folder: Path, steps: int) -> None:
    """Trains a fighter, and exports it after each quarter of the steps."""
    env = NhVecEnv(16, opponent="scripted", seed=0, max_episode_ticks=150)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=64, batch_size=512, policy_kwargs={"net_arch": [64]}, seed=0)
    for _ in range(4):
        model.learn(steps // 4, reset_num_timesteps=False)
        export_fighter(model, folder / f"archer_{model.num_timesteps}_steps.fighter", onnx=False)


def main(steps: int = 32_768, rounds: int = 3) -> list[str]:
    """Returns the players, best first."""
    with TemporaryDirectory() as name:
        fighters = Path(name, "fighters")
        fighters.mkdir()
        train(fighters, steps)
        challenge = Challenge(
            name="nh-small",
            game="NhEnv",
            max_ticks=150,
            fights_per_match=8,
            scripts=("scripted", "generalist"),
            pairing={"kind": "round_robin"},
        )
        arena = Arena.create(Path(name, "arena"), challenge)
        for report in arena.add(str(fighters), owner="ann"):
            print(report)
        for _ in range(rounds):
            print(arena.run_once())
        for line in arena.table():
            ranks = f"{line.rank_low} to {line.rank_high}"
            print(f"{ranks:>8}  {line.player:<24} {line.rating:5.0f} ± {line.half_width:3.0f}  {line.win_rate:.0%}")
        *_, result = compare_players(arena, "generalist", "scripted", Sprt(elo1=50), max_pairs=64)
        print(f"generalist is {result.verdict} than scripted, after {result.num_fights} fights")
        arena.close()
        return [line.player for line in arena.table()]


if __name__ == "__main__":
    main()
