"""An opponent of your own in NhEnv, written by hand, and a fighter that learns to beat it.

An opponent acts for N fights at once. Through a `Turn` it sees, chooses and asks what is possible by the ids of the
contract, which docs/contract.md lists. In a game of your own, a function of a turn in its `scripts` is enough.

python examples/scripted_opponent.py    # about 30 s of one core; saves archer.html, a fight to watch in a browser
"""

from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp import PvpPPO
from sb3_pvp.contract import load_contract
from sb3_pvp.contract.turn import Turn
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.replay import record_fight, write_replay_page


class Archer:
    """Shoots whenever it can, prays against what it faces, and eats when it is hurt."""

    name, contract = "archer", load_contract("NhEnv")

    def initial_state(self, seeds: Any) -> Any:
        return np.zeros(len(seeds))  # nothing to remember from tick to tick

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool, action_masks: Any) -> Any:
        turn = Turn(self.contract, observation, action_masks, chance=np.zeros(len(observation)))
        can_shoot = turn.can("ranged_attack") & turn.can("basic_ranged_attack")
        turn.choose("ranged_attack", can_shoot)
        turn.choose("basic_ranged_attack", can_shoot)
        for style in ("mage", "ranged", "melee"):
            turn.choose(f"{style}_prayer", turn.can(f"{style}_prayer") & (turn.see(f"target_using_{style}") > 0))
        turn.choose("eat_primary_food", turn.can("eat_primary_food") & (turn.see("player_health_percent") < 0.5))
        return turn.actions(), state


def main(total_timesteps: int = 200_000, page: str | Path = "archer.html") -> Score:
    env, policy_kwargs = NhVecEnv(64, opponent=Archer(), seed=0), {"net_arch": [64, 64]}
    model = PvpPPO(
        AutoregressivePolicy, env, 1e-3, n_steps=64, batch_size=1024, n_epochs=4, policy_kwargs=policy_kwargs
    )
    print(f"before: {evaluate_model(model, env, 128)}")
    model.learn(total_timesteps)
    score = evaluate_model(model, env, 128)
    print(f"after:  {score}")
    write_replay_page(record_fight(model, Archer(), seed=1), page)
    return score


if __name__ == "__main__":
    main()
