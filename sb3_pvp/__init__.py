"""Player-versus-player self-play for Stable-Baselines3; importing it registers its environments with Gymnasium."""

import gymnasium

__version__ = "0.1.0"

if "NhEnv" not in gymnasium.registry:
    gymnasium.register("NhEnv", entry_point="sb3_pvp.envs:NhEnv")
