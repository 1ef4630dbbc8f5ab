"""``python -m sb3_pvp.zoo COMMAND [any option of rl-zoo3's command]``."""

from __future__ import annotations

import sys

from sb3_pvp.common.errors import unknown_name
from sb3_pvp.zoo.front_ends import COMMANDS

if __name__ == "__main__":
    name = next(iter(sys.argv[1:]), "")
    if name in ("-h", "--help"):
        print(f"usage: python -m sb3_pvp.zoo {'|'.join(COMMANDS)} ...\n\nCOMMAND --help lists all options.")
    elif name in COMMANDS:
        COMMANDS[name](sys.argv[2:])
    else:
        message = unknown_name("command", name, COMMANDS) if name else f"no command given. Known: {', '.join(COMMANDS)}"
        print(f"python -m sb3_pvp.zoo: error: {message}", file=sys.stderr)
        sys.exit(2)
