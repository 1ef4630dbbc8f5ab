"""PettingZoo's connect four, learned by self-play alone.

pip install 'sb3-pvp[examples]'
python examples/connect_four.py    # about 40 s of one core
"""

from pettingzoo.classic import connect_four_v3

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.pettingzoo import PettingZooGame
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.policies import AutoregressivePolicy

# The contract, masks and outcomes follow from the PettingZoo game. Other programs can name this
# variable: "connect_four:CONNECT_FOUR".
CONNECT_FOUR = PettingZooGame(connect_four_v3.raw_env)


def main(total_timesteps: int = 80_000, seed: int = 0) -> Score:
    env = PvpVecEnv(32, game=CONNECT_FOUR, opponent="self", seed=seed)
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
    )
    model.learn(total_timesteps)
    # The learner has never met this opponent, which moves at random.
    test_env = PvpVecEnv(50, game=CONNECT_FOUR, opponent="baseline", seed=1_000_000)
    score = evaluate_model(model, test_env, 200, deterministic=False)
    print(f"against a random player: {score}")
    return score


if __name__ == "__main__":
    main()
