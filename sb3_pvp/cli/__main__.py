"""``python -m sb3_pvp.cli``, the same as ``sb3-pvp``."""

from sb3_pvp.cli import main

if __name__ == "__main__":
    main()
