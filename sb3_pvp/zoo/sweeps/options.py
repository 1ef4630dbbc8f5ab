"""The options of ``train`` about sweeps that rl-zoo3 does not know."""

from __future__ import annotations

import argparse
from typing import Any

#: What is maximised, in the log of a run.
WIN_RATE = "sweep/win_rate"
HYPERBAND = "hyperband"
PRUNERS = ("halving", "median", HYPERBAND, "none")
#: What holds where rl-zoo3's own command was called, which has none of these options.
DEFAULTS: dict[str, Any] = {
    "reference_pool": ["baseline", "scripted"],
    "reference_fights": 100,
    "search_space": None,
    "sample": None,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to rl-zoo3's parser, and Hyperband to its ``--pruner``."""
    options = parser.add_argument_group("sweeps")
    whom = "Whom trials are measured by: bots, scripts and paths of models (default: baseline scripted)."
    options.add_argument("--reference-pool", nargs="+", metavar="OPPONENT", help=whom)
    options.add_argument("--reference-fights", type=int, metavar="N", help="Fights against each (100).")
    options.add_argument("--search-space", metavar="FILE", help="A yaml file, see sb3-pvp sweep space.")
    options.add_argument("--sample", metavar="JSON", help="Train with these values of the search space.")
    parser.set_defaults(**DEFAULTS)
    for action in parser._actions:
        if action.dest == "pruner":
            action.choices = PRUNERS
