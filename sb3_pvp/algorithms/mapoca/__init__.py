"""MA-POCA (arXiv 2111.05992): teams whose members may die or join, with a critic that attends to those present."""

from sb3_pvp.algorithms.mapoca.buffer import GroupRolloutBuffer, TeamSamples
from sb3_pvp.algorithms.mapoca.mapoca import MAPOCA
from sb3_pvp.algorithms.mapoca.team_networks import TeamNetworks
from sb3_pvp.algorithms.mapoca.team_policy import MAPOCAPolicy
from sb3_pvp.algorithms.mapoca.team_update import MapocaUpdate
from sb3_pvp.policies.agent_slots import AgentActions

__all__ = [
    "MAPOCA",
    "AgentActions",
    "GroupRolloutBuffer",
    "MAPOCAPolicy",
    "MapocaUpdate",
    "TeamNetworks",
    "TeamSamples",
]

# Pickle stores a class by its __module__; without this, moving the files would break saved models.
MAPOCA.__module__ = MAPOCAPolicy.__module__ = __name__
