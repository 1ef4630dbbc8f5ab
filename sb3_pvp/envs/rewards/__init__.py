"""What a fighter is rewarded for (rewards.md §4): named components, computed for a whole batch of fights at once.

`COMPONENTS` says what counts, `RewardWeights` how much, and `Rewards` multiplies. A new component is an entry in
`COMPONENTS` and, if it needs one, a weight.
"""

from sb3_pvp.envs.rewards.components import COMPONENTS, DESCRIPTIONS, Component
from sb3_pvp.envs.rewards.facts import Facts, Tick
from sb3_pvp.envs.rewards.rewards import Rewards, named_components
from sb3_pvp.envs.rewards.weights import RewardWeights, reward_weights

__all__ = [
    "COMPONENTS",
    "DESCRIPTIONS",
    "Component",
    "Facts",
    "RewardWeights",
    "Rewards",
    "Tick",
    "named_components",
    "reward_weights",
]
