"""The rewards of these fights (rewards.md §4): named components, computed for a whole batch of fights at once.

`COMPONENTS` are the events that count, `RewardWeights` their weights, and `OsrsRewards` multiplies them. To add a
component, add an entry to `COMPONENTS`, its amount to `amounts.write_amounts` and, if it needs one, a weight.
"""

from sb3_pvp.games.osrs.rewards.components import COMPONENTS, DESCRIPTIONS, Component
from sb3_pvp.games.osrs.rewards.rewards import OsrsRewards
from sb3_pvp.games.osrs.rewards.weights import RewardWeights, reward_weights

__all__ = [
    "COMPONENTS",
    "DESCRIPTIONS",
    "Component",
    "OsrsRewards",
    "RewardWeights",
    "reward_weights",
]
