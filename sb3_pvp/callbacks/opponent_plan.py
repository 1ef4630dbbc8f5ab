"""How many rows of the environment have which kind of opponent, and how these play (self-play.md §1, §3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sb3_pvp.common.arguments import MAPPING, SHARE
from sb3_pvp.common.names import require_all_known
from sb3_pvp.schedules import drawing_from, parse_schedule

SELF, PAST, TARGET, LATEST, BASELINE = "self", "past", "target", "latest", "baseline"
#: In the order in which they are given rows.
KINDS = (SELF, PAST, TARGET, LATEST, BASELINE)
#: Shares that were written as decimals may exceed 1 by so much when they are summed.
_ROUNDING = 1e-9

_SCHEDULES, _PLAIN_OPTIONS = ("delay_chance", "deterministic_share"), ("reset_params", "noise", "action_mask_override")


class Shares:
    """Which share of the rows each kind of opponent gets over time.

    From numbers or schedules (`sb3_pvp.schedules.parse_schedule`) for all kinds but the last, which gets what is left.
    Raises `ValueError` for a wrong schedule, or shares that are impossible at the beginning.
    """

    def __init__(self, schedules: Mapping[str, Any]) -> None:
        self._schedules = {kind: parse_schedule(schedules[kind]) for kind in KINDS[:-1]}
        self.at(0)

    def at(self, t: int) -> dict[str, float]:
        """The share of each kind after ``t`` roll-outs; raises `ValueError` if they are negative or too many."""
        shares = {kind: schedule(t) for kind, schedule in self._schedules.items()}
        for kind, share in shares.items():
            SHARE.read(f"the share {kind!r} of opponents", share, f" after {t} roll-outs")
        total = math.fsum(shares.values())
        if total > 1 + _ROUNDING:
            raise ValueError(f"the shares of opponents must not sum to more than 1: {shares} after {t} roll-outs")
        return {**shares, BASELINE: max(1 - total, 0.0)}

    def divide(self, num_envs: int, t: int) -> list[str]:
        """The kind of each row, ``num_envs`` of them; shares are rounded half to even (self-play.md §1).

        Raises `ValueError` if that is impossible: rows in self-play come in pairs.
        """
        shares = self.at(t)
        counts = {kind: round(num_envs * shares[kind]) for kind in KINDS[:-1]}
        if counts[SELF] % 2:
            raise ValueError(
                f"rows in self-play come in pairs, but a share of {shares[SELF]} of {num_envs} environments is "
                f"{counts[SELF]} after {t} roll-outs: choose a share or n_envs that gives an even number"
            )
        rows = [kind for kind, count in counts.items() for _ in range(count)]
        if len(rows) > num_envs:
            raise ValueError(
                f"{num_envs} environments cannot be divided by {shares}, rounded they are {counts} after {t} "
                "roll-outs: choose n_envs so that the shares give whole numbers"
            )
        return rows + [BASELINE] * (num_envs - len(rows))


class OpponentOptions:
    """How the opponents of one kind play.

    Args:
        kind: whose.
        options: ``deterministic_share`` (the first rows of the kind, rounded up, meet opponents who choose without
            chance) and ``delay_chance`` (see `OpponentChoice`; an expression is drawn anew for each row in each
            roll-out), both numbers or schedules; ``reset_params``, ``noise`` and ``action_mask_override`` as in
            `OpponentChoice`.

    Raises:
        ValueError: for an unknown option or a wrong schedule.
    """

    def __init__(self, kind: str, options: Mapping[str, Any] | None = None) -> None:
        options = dict(MAPPING.read(f"the options of {kind} opponents", options) or {})
        require_all_known(f"option of {kind} opponents", options, (*_SCHEDULES, *_PLAIN_OPTIONS))
        self._kind = kind
        self._schedules = {name: parse_schedule(options.get(name, 0.0)) for name in _SCHEDULES}
        self._plain = {name: options[name] for name in _PLAIN_OPTIONS if options.get(name) is not None}
        self.of_row(0, 1, 0, np.random.default_rng(0))

    def of_row(self, position: int, count: int, t: int, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of `OpponentChoice` for the ``position``-th of ``count`` rows, after ``t`` roll-outs."""
        with drawing_from(rng):
            delay_chance, share = (
                SHARE.read(f"{name} of {self._kind} opponents", schedule(t), f" after {t} roll-outs")
                for name, schedule in self._schedules.items()
            )
        return {"delay_chance": delay_chance, "deterministic": position < math.ceil(count * share), **self._plain}


def read_options(options: Mapping[str, Mapping[str, Any]] | None) -> dict[str, OpponentOptions]:
    """The options of all kinds whose opponents act through actions, from ``{kind: options}``.

    Raises `ValueError` for anything unknown.
    """
    options, acting = dict(MAPPING.read("opponent_options", options) or {}), (PAST, TARGET, LATEST)
    require_all_known("kind of opponents with options", options, acting)
    return {kind: OpponentOptions(kind, options.get(kind)) for kind in acting}
