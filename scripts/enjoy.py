"""rl-zoo3's ``enjoy`` with ``--algo maskable_ppo`` and the environments of this package."""

from sb3_pvp.zoo import enjoy

# Worker processes import this file again.
if __name__ == "__main__":
    enjoy()
