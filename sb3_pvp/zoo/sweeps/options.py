"""The options of ``train`` about sweeps that rl-zoo3 does not know."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields

#: Whom a trial's fighter is measured by: the world's bot, and the strongest script.
REFERENCE_POOL = ["baseline", "scripted"]
#: What is maximised, in the log of a run.
WIN_RATE = "sweep/win_rate"
HYPERBAND = "hyperband"
PRUNERS = ("halving", "median", HYPERBAND, "none")


@dataclass(frozen=True)
class SweepOptions:
    """What a sweep does besides the options of rl-zoo3.

    Attributes:
        reference_pool: opponents who never change: names of bots and scripts, and paths of models.
        reference_fights: fights against each of them in every evaluation.
        search_space: a yaml file (`sb3_pvp.zoo.sweeps.space`); ``None``: the default space.
        sample: values of a search space as a JSON object, with which to train once; what an agent of W&B gives.
    """

    reference_pool: Sequence[str] = tuple(REFERENCE_POOL)
    reference_fights: int = 100
    search_space: str | None = None
    sample: str | None = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> SweepOptions:
        """Those among the options of ``train``."""
        return cls(**{each.name: getattr(args, each.name) for each in fields(cls) if hasattr(args, each.name)})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to rl-zoo3's parser, and Hyperband to its ``--pruner``."""
    options = parser.add_argument_group("sweeps")
    whom = "Whom trials are measured by: bots, scripts and paths of models (default: baseline scripted)."
    options.add_argument("--reference-pool", nargs="+", default=REFERENCE_POOL, metavar="OPPONENT", help=whom)
    options.add_argument("--reference-fights", type=int, default=100, metavar="N", help="Fights against each (100).")
    options.add_argument("--search-space", metavar="FILE", help="A yaml file, see sb3-pvp sweep space.")
    options.add_argument("--sample", metavar="JSON", help="Train with these values of the search space.")
    for action in parser._actions:
        if action.dest == "pruner":
            action.choices = PRUNERS
