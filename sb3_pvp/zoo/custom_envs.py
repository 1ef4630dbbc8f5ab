"""Importing this installs `sb3_pvp.zoo` into rl-zoo3.

It is the one line, ``import sb3_pvp.zoo.custom_envs``, of a file ``custom_envs.py`` with which rl-zoo3's own commands
(``python -m rl_zoo3.train --algo maskable_ppo --env ENV``, given in the folder of that file) know this package.
"""

from sb3_pvp.zoo import install

install()
