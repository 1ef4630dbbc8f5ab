"""rl-zoo3's ``train`` with ``--algo maskable_ppo`` and the environments of this package."""

from sb3_pvp.zoo import train

# Worker processes import this file again.
if __name__ == "__main__":
    train()
