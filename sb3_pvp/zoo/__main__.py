"""``python -m sb3_pvp.zoo train|enjoy [any rl-zoo3 option]``."""

from __future__ import annotations

import sys

from sb3_pvp.zoo import enjoy, train

COMMANDS = {"train": train, "enjoy": enjoy}


def main() -> None:
    """Runs the command named first, which sees the rest of the command line as its own."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        sys.exit(_usage(name))
    COMMANDS[name](sys.argv[2:])


def _usage(name: str) -> int:
    wanted = " or ".join(COMMANDS)
    print(f"python -m sb3_pvp.zoo: error: unknown command {name!r}; use {wanted}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
