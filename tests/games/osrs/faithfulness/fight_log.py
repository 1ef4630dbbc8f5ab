"""What is counted in many fights at once, as the reference statistics count it.

A *view* is one agent's side of one fight. The ticks from its first reply to the tick that decides the fight count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import Style

CONTRACT = load_contract("NhEnv")
STYLES = ("MELEE", "RANGED", "MAGIC")
SIDES = ("agent", "target")
#: How each side's figures are called in a view: special energy, and fields of the meta record.
ENERGY = {"agent": "special_energy_percent", "target": "target_special_percent"}
HIT = {
    "agent": ("hit_present", "attack_type_hit", "damage_generated_on_target_scale"),
    "target": ("received_present", "attack_type_received", "damage_generated_on_player_scale"),
}
EXTRA_DAMAGE = {"agent": "extra_damage_dealt_on_target_scale", "target": "extra_damage_dealt_on_player_scale"}
FROZEN = {"agent": "player_frozen_ticks", "target": "target_frozen_ticks"}
SUPPLIES = {"agent": "remaining_{}_scale", "target": "target_remaining_{}_scale"}
HEALTH = {"agent": "current_health_percent", "target": "current_target_health_percent"}
DOSES = {"ranged": "range_potion", "combat": "combat_potion", "restore": "super_restore", "brew": "brew"}

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]
#: Mean, standard deviation, number of samples.
Moments = tuple[float, float, int]


def moments(values: Floats) -> Moments:
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0, len(values)


def proportion(share: float, n: int) -> Moments:
    """A share of n events. Its spread is that of one more event of either kind, so that 0 of 30 is not certainty."""
    cautious = (share * n + 1) / (n + 2)
    return share, float(np.sqrt(cautious * (1 - cautious))), n


def seen(obs: Floats, name: str) -> Floats:
    return obs[:, CONTRACT.observation_index(name)]


class FightLog:
    """Counts over ``n`` views; rows are views throughout."""

    def __init__(self, obs: Floats, meta: NDArray[np.void]) -> None:
        n = len(obs)
        self.ticks = np.zeros(n)
        self.sums: dict[str, Floats] = defaultdict(lambda: np.zeros(n))
        self._obs_sum = np.zeros((n, CONTRACT.num_observations))
        self._damage: dict[str, list[Floats]] = defaultdict(list)
        self.first_attack = {side: np.full(n, np.nan) for side in SIDES}
        self.start_obs, self.last_obs = obs.copy(), obs.copy()
        self.start_meta, self.last_meta = meta.copy(), meta.copy()

    def begin(self, rows: Rows, obs: Floats, meta: NDArray[np.void]) -> None:
        """These views begin only now, with this reply."""
        self.start_obs[rows], self.start_meta[rows] = obs[rows], meta[rows]
        self._remember(rows, obs, meta)

    def add(self, rows: Rows, obs: Floats, meta: NDArray[np.void]) -> None:
        """A tick of the views ``rows``."""
        self.ticks += rows
        self._obs_sum[rows] += obs[rows]
        for side in SIDES:
            self._add_hits(side, rows, obs, meta)
            other = SIDES[side == "agent"]
            rises = meta[FROZEN[other]] > self.last_meta[FROZEN[other]]
            self.sums[f"{side}/freezes_landed_per_fight"] += rows & rises
            self.sums[f"{side}/frozen"] += rows & (meta[FROZEN[side]] > 0)
        self.sums["melee_range"] += rows * seen(obs, "player_location_can_melee")
        self.sums["distance"] += rows * meta["distance"]
        self.sums["agent/eat_ticks_per_fight"] += rows & meta["eat_food_present"]
        self.sums["agent/healed_scale_per_fight"] += rows * meta["player_healed_scale"]
        self._remember(rows, obs, meta)

    def _remember(self, rows: Rows, obs: Floats, meta: NDArray[np.void]) -> None:
        self.last_obs[rows], self.last_meta[rows] = obs[rows], meta[rows]

    def _add_hits(self, side: str, rows: Rows, obs: Floats, meta: NDArray[np.void]) -> None:
        present, style, damage = HIT[side]
        spent = np.maximum(seen(self.last_obs, ENERGY[side]) - seen(obs, ENERGY[side]), 0) * rows
        self.sums[f"{side}/special_energy_used_per_fight"] += spent
        self.sums[f"{side}/spec_attacks_per_fight"] += spent > 0
        self.sums[f"{side}/damage_generated_scale_per_fight"] += rows * meta[damage]
        self.sums[f"{side}/extra_damage_scale_per_fight"] += rows * meta[EXTRA_DAMAGE[side]]
        hit = rows & meta[present]
        first = hit & np.isnan(self.first_attack[side])
        self.first_attack[side][first] = self.ticks[first]
        protected = meta["protected_prayer"] if side == "target" else ~meta["hit_off_prayer"]
        for name in STYLES:
            of_style = hit & (meta[style] == Style[name])
            self.sums[f"{side}/attacks_per_fight/{name}"] += of_style
            self.sums[f"{side}/attacks_per_fight/ALL"] += of_style
            for prayer, on in (("on", protected), ("off", ~protected)):
                for kind, wanted in (("basic", spent == 0), ("spec", spent > 0), ("any", hit)):
                    rolled = meta[damage][of_style & on & wanted]
                    self._damage[f"{side}/damage/{name}/{prayer}_prayer/{kind}"].append(rolled)

    def cells(self, won: Rows) -> Iterator[tuple[str, Moments]]:
        """All figures by the names of the reference; ``won`` says which views won."""
        yield "win_rate", proportion(float(won.mean()), len(won))
        yield "steps", moments(self.ticks + 1)  # the outcome is told one step after the tick that decides it
        for name, values in self._per_fight().items():
            yield name, moments(values.astype(float))
        for side, steps in self.first_attack.items():
            yield f"{side}/first_attack_step", moments(steps[~np.isnan(steps)])
        for entry, sums in zip(CONTRACT.observations, self._obs_sum.T, strict=True):
            yield f"obs_mean_over_fight/{entry.id}", moments(sums / self.ticks)
        for name, parts in self._damage.items():
            damage = np.concatenate(parts).astype(float)
            if len(damage):
                yield f"{name}/mean_hp", moments(damage)
                yield f"{name}/zero", proportion(float((damage == 0).mean()), len(damage))

    def _per_fight(self) -> dict[str, Floats]:
        figures = {name: values for name, values in self.sums.items() if name.endswith("_fight") or "attacks" in name}
        figures["melee_range_tick_fraction"] = self.sums["melee_range"] / self.ticks
        figures["distance"] = self.sums["distance"] / self.ticks
        figures["episode_ticks_at_end"] = self.last_meta["episode_ticks"] + 1.0
        for side in SIDES:
            figures[f"{side}/ticks_frozen_fraction"] = self.sums[f"{side}/frozen"] / self.ticks
            figures[f"{side}/hp_end"] = self.last_meta[HEALTH[side]]
            for supply in ("food", "brew"):
                field = SUPPLIES[side].format(supply)
                figures[f"{side}/remaining_{supply}_scale_end"] = self.last_meta[field]
                figures[f"{side}/{supply}_scale_start"] = self.start_meta[field]
        for name, entry in DOSES.items():
            used = seen(self.start_obs, f"{entry}_doses") - seen(self.last_obs, f"{entry}_doses")
            figures[f"agent/{name}_doses_used_per_fight"] = used
        return figures
