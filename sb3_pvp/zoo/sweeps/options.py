"""The options of ``train`` about sweeps that rl-zoo3 does not know."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

#: Whom a trial's fighter is measured by: the world's bot, and the strongest script.
REFERENCE_POOL = ("baseline", "scripted")
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
        hyperband: stop bad trials early with Hyperband instead of rl-zoo3's ``--pruner``.
    """

    reference_pool: tuple[str, ...] = REFERENCE_POOL
    reference_fights: int = 100
    search_space: str | None = None
    sample: str | None = None
    hyperband: bool = False


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a parser, ``--pruner`` among them, which Hyperband is added to."""
    options = parser.add_argument_group("sweeps")
    options.add_argument(
        "--reference-pool",
        nargs="+",
        default=REFERENCE_POOL,
        metavar="OPPONENT",
        help="Whom trials are measured by: bots, scripts and paths of models (default: baseline scripted).",
    )
    options.add_argument(
        "--reference-fights", type=int, default=100, metavar="N", help="Fights against each of them (100)."
    )
    options.add_argument("--search-space", metavar="FILE", help="A yaml file, see sb3-pvp sweep space.")
    options.add_argument("--sample", metavar="JSON", help="Train with these values of the search space.")
    options.add_argument("--pruner", choices=PRUNERS, help="How bad trials are stopped early (median).")


def read_options(given: argparse.Namespace) -> tuple[SweepOptions, list[str]]:
    """The options that `add_options` added, and what rl-zoo3 is to be told about them."""
    hyperband = given.pruner == HYPERBAND
    options = SweepOptions(
        tuple(given.reference_pool), given.reference_fights, given.search_space, given.sample, hyperband
    )
    return options, [] if hyperband or given.pruner is None else ["--pruner", given.pruner]
