"""A small deterministic world for tests: blows of random damage, no prayers, and ends on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.game import NUM_SEATS, Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style

MAX_HITPOINTS = 99
MAX_HIT = 30
OPTIONS = {"seed", "bots", "death_match", "training", "reset_params", "seat_reset_params"}


class FakeWorld:
    """Every attack hits for up to `MAX_HIT`; the world's bot attacks every third tick.

    ``end`` sets the outcome of both seats at tick ``end_tick``, whatever the hitpoints are.
    """

    def __init__(
        self,
        num_fights: int = 1,
        seed: int = 0,
        reset_params: Mapping[str, Any] | None = None,
        end_tick: int = -1,
        end: tuple[Outcome, Outcome] = (Outcome.WON, Outcome.LOST),
        contract: str = "NhEnv",
    ) -> None:
        self.contract = load_contract(contract)
        self.num_fights = num_fights
        self.reset_params = dict(reset_params or {})
        self.end_tick, self.end = end_tick, end
        shape = (num_fights, NUM_SEATS)
        self.obs = np.zeros((*shape, self.contract.num_observations), np.float32)
        self.masks = np.ones((*shape, self.contract.num_flat_actions), np.bool_)
        self.meta = np.zeros(shape, META_DTYPE)
        self.report, self.ticks = self.meta, self.meta["episode_ticks"][:, 0]
        self.outcome = np.zeros(shape, np.uint8)
        self.hitpoints = np.zeros(shape, np.int64)
        self.bots = np.zeros(num_fights, np.bool_)
        self.options: list[dict[str, Any]] = [{} for _ in range(num_fights)]
        self.closed = False
        self._random = [np.random.default_rng(seed + fight) for fight in range(num_fights)]

    def build_name(self, fight: int) -> str:
        return str(self.reset_params.get("accountBuild", "PURE"))

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        which = np.arange(self.num_fights) if fights is None else np.asarray(fights)
        for position, fight in enumerate(which):
            given = dict(self._options_of(options, position))
            if unknown := set(given) - OPTIONS:
                raise ValueError(f"unknown options {unknown}")
            if "seed" in given:
                if not isinstance(given["seed"], int) or given["seed"] < 0:
                    raise ValueError(f"bad seed {given['seed']!r}")
                self._random[fight] = np.random.default_rng(given["seed"])
            self.options[fight] = given
            self.bots[fight] = given.get("bots", (None, None))[1] == "baseline"
        self.hitpoints[which] = MAX_HITPOINTS
        self.outcome[which] = Outcome.RUNNING
        self.meta[which] = np.zeros((), META_DTYPE)
        for fight in which:
            self._report(fight, np.zeros(NUM_SEATS, np.int64))

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        which = np.arange(self.num_fights) if fights is None else np.asarray(fights)
        joint = np.asarray(actions)
        sizes = np.asarray(self.contract.head_sizes)
        if joint.shape != (len(which), NUM_SEATS, self.contract.num_heads) or joint.dtype.kind not in "iu":
            raise ValueError(f"bad actions {joint.shape} {joint.dtype}")
        if ((joint < 0) | (joint >= sizes)).any():
            raise ValueError("bad choice")
        for fight, pair in zip(which, joint, strict=True):
            self._tick(int(fight), pair)

    def close(self) -> None:
        self.closed = True

    @staticmethod
    def _options_of(options: Any, position: int) -> Mapping[str, Any]:
        if options is None or isinstance(options, Mapping):
            base = dict(options or {})
            if "seed" in base and isinstance(base["seed"], int):
                base["seed"] += position
            return base
        return options[position]

    def _tick(self, fight: int, actions: NDArray[np.int64]) -> None:
        attacks = actions[:, 0] > 0
        if self.bots[fight]:
            attacks[1] = self.meta["episode_ticks"][fight, 0] % 3 == 0
        damage = self._random[fight].integers(0, MAX_HIT + 1, NUM_SEATS) * attacks
        running = self.outcome[fight, 0] == Outcome.RUNNING
        if running:
            self.hitpoints[fight] = np.maximum(self.hitpoints[fight] - damage[::-1], 0)
        self.meta["episode_ticks"][fight] += 1
        self._report(fight, damage if running else damage * 0)
        if running:
            self._judge(fight)

    def _judge(self, fight: int) -> None:
        if self.meta["episode_ticks"][fight, 0] == self.end_tick:
            self.outcome[fight] = self.end
        dead = self.hitpoints[fight] <= 0
        if dead.any():
            self.outcome[fight] = np.where(dead[::-1], Outcome.WON, Outcome.LOST)

    def _report(self, fight: int, damage: NDArray[np.int64]) -> None:
        meta, obs = self.meta[fight], self.obs[fight]
        health = self.hitpoints[fight] / MAX_HITPOINTS
        meta["current_health_percent"], meta["current_target_health_percent"] = health, health[::-1]
        meta["current_prayer_percent"] = 1.0
        meta["damage_generated_on_target_scale"] = damage / MAX_HITPOINTS
        meta["damage_generated_on_player_scale"] = damage[::-1] / MAX_HITPOINTS
        meta["hit_present"], meta["attack_type_hit"] = damage > 0, Style.MELEE
        meta["distance"] = 1
        for name in ("attack", "strength", "defence", "ranged", "magic"):
            meta[f"{name}_level_scale"] = 1.0
        shown = {
            "player_health_percent": health,
            # Numbers that tell ticks and seats apart: the second is hidden from the opponent, the first is not.
            "special_energy_percent": meta["episode_ticks"],
            "food_count": 100 * meta["episode_ticks"] + np.arange(NUM_SEATS),
        }
        if self.contract.name == "NhEnv":
            shown |= {"absolute_hitpoints_level": MAX_HITPOINTS, "absolute_prayer_level": 52}
        for name, values in shown.items():
            obs[:, self.contract.observation_index(name)] = values
        self.masks[fight, :, self.contract.flat_index("no_op_attack")] = meta["episode_ticks"] % 2 == 0


def ending(outcome: tuple[Outcome, Outcome], tick: int = 3) -> Any:
    """A factory of worlds in which every fight ends this way at this tick."""
    return partial(FakeWorld, end_tick=tick, end=outcome)
