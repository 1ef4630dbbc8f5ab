"""Installs `sb3_pvp.zoo` into rl-zoo3 when imported.

rl-zoo3's own commands, such as ``python -m rl_zoo3.train --algo maskable_ppo --env ENV``, import a ``custom_envs.py``
from the working directory: the line ``import sb3_pvp.zoo.custom_envs`` in it makes this package available to them.
"""

from sb3_pvp.zoo import install

install()
