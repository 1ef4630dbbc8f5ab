"""MA-POCA (arXiv 2111.05992): teams whose members may die or join, with a critic that attends to those present."""

from sb3_pvp.algorithms.mapoca.buffer import GroupRolloutBuffer, TeamSamples
from sb3_pvp.algorithms.mapoca.team_networks import AgentActions, TeamNetworks
from sb3_pvp.algorithms.mapoca.team_update import MapocaUpdate

__all__ = ["AgentActions", "GroupRolloutBuffer", "MapocaUpdate", "TeamNetworks", "TeamSamples"]
