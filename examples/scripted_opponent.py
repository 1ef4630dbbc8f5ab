"""Your own scripted opponent in NhEnv, and a fighter that learns to beat it.

An opponent acts for N fights at once. docs/contract.md lists the ids of all observations and actions. In your own game
a function in `scripts` is enough, see docs/own-game.md.

python examples/scripted_opponent.py    # about 30 s of one core; saves archer.html, a fight to watch in a browser
"""

from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.matches.evaluation import Score, evaluate_model
from sb3_pvp.matches.replay import record_fight, write_replay_page
from sb3_pvp.policies import AutoregressivePolicy


class Archer:
    """Shoots whenever it can, prays against the opponent's weapon, and eats below half health."""

    name, contract = "archer", load_contract("NhEnv")

    def initial_state(self, seeds: Any) -> Any:
        return np.zeros(len(seeds))  # no memory between ticks

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool, action_masks: Any) -> Any:
        actions = np.zeros((len(observation), self.contract.num_heads), np.int64)  # 0: no action, in each head
        seen = {each.id: column for each, column in zip(self.contract.observations, observation.T, strict=True)}

        def choose(name: str, where: Any = True) -> None:
            head, number = self.contract.action_index(name)
            actions[action_masks[:, self.contract.flat_index(name)] & where, head] = number

        choose("ranged_attack")
        choose("basic_ranged_attack")
        for style in ("mage", "ranged", "melee"):
            choose(f"{style}_prayer", seen[f"target_using_{style}"] > 0)
        choose("eat_primary_food", seen["player_health_percent"] < 0.5)
        return actions, state


def main(total_timesteps: int = 120_000, page: str | Path = "archer.html") -> Score:
    env, network = NhVecEnv(64, opponent=Archer(), seed=0), {"net_arch": [64, 64]}
    model = PvpPPO(AutoregressivePolicy, env, 1e-3, n_steps=64, batch_size=1024, policy_kwargs=network, seed=1)
    print(f"before: {evaluate_model(model, env, 128)}")
    model.learn(total_timesteps)
    score = evaluate_model(model, env, 128)
    print(f"after:  {score}")
    write_replay_page(record_fight(model, Archer(), seed=1), page)
    print(f"Saved {page}")
    return score


if __name__ == "__main__":
    main()
