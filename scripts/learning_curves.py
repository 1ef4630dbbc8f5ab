"""``sb3-pvp learning-curve train|plot``, from a checkout."""

import sys

from sb3_pvp.cli import main

if __name__ == "__main__":
    main(["learning-curve", *sys.argv[1:]])
