"""Dharok fights of random fighters in distribution: recorded fights against many of ours.

A figure holds when |recorded - ours| <= 0.05 * |ours| + 3.5 standard errors. The spread is that of our fights, because
only a few fights were recorded. That every recorded fight is possible is what `test_dharok_fights` shows; this shows
that the recorded ones are no rare ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.faithfulness.dharok_recordings import CONTRACT, load

NUM_FIGHTS, LONGEST_FIGHT = 200, 2000
SLACK, Z = 0.05, 3.5
FEWEST_EVENTS = 20
WEAPONS = ("whip", "maul", "axe")
#: name: whether against the bot, whether a death match
MATCHUPS = {"pair": (False, True), "bot": (True, True), "bot, until food is gone": (True, False)}
SUPPLIES = ("combat_potion_doses", "super_restore_doses", "brew_doses", "food_count", "karambwan_count")


@dataclass
class View:
    """An agent's side of a fight, from the reset to the tick that decides it."""

    obs: NDArray[np.float32]
    meta: NDArray[np.void]
    outcome: int

    def see(self, name: str) -> NDArray[np.float32]:
        return self.obs[:, CONTRACT.observation_index(name)]


def recorded_views(against_bot: bool, death_match: bool) -> Iterator[View]:
    for recording, _ in load():
        if (recording.against_bot, recording.death_match) == (against_bot, death_match):
            for seat in range(1 if against_bot else 2):
                rows = recording.meta_known[:-1, seat]
                meta = recording.meta[:-1, seat][rows]
                yield View(recording.obs[:-1, seat][rows], meta, int(recording.outcomes[seat]))


def our_views(against_bot: bool, death_match: bool) -> Iterator[View]:
    world = SimWorld(NUM_FIGHTS, seed=0, contract="DharokEnv")
    world.reset(options={"bots": (None, "baseline" if against_bot else None), "death_match": death_match})
    obs, meta = [world.obs.copy()], [world.meta.copy()]
    lengths = np.zeros(NUM_FIGHTS, int)
    while (running := world.outcome[:, 0] == Outcome.RUNNING).any():
        world.step(world.random_actions()[running], np.flatnonzero(running))
        obs.append(world.obs.copy())
        meta.append(world.meta.copy())
        lengths += running
        assert len(obs) < LONGEST_FIGHT
    all_obs, all_meta = np.array(obs), np.array(meta)
    for fight, length in enumerate(lengths):
        for seat in range(1 if against_bot else 2):
            rows = slice(0, length + 1)
            yield View(all_obs[rows, fight, seat], all_meta[rows, fight, seat], int(world.outcome[fight, seat]))


def figures(view: View) -> dict[str, float]:
    """One number per fight each."""
    hit, received = view.meta["hit_present"], view.meta["received_present"]
    numbers = {
        "ticks": len(view.obs),
        "won": view.outcome == Outcome.WON,
        "damage": view.meta["damage_generated_on_target_scale"].sum(),
        "damage of the target": view.meta["damage_generated_on_player_scale"].sum(),
        "extra damage": view.meta["extra_damage_dealt_on_target_scale"].sum(),
        "extra damage of the target": view.meta["extra_damage_dealt_on_player_scale"].sum(),
        "attacks": hit.sum(),
        "attacks of the target": received.sum(),
        "pid": (np.diff(view.see("player_has_pid")) != 0).sum(),
        "energy": -np.minimum(np.diff(view.see("special_energy_percent")), 0).sum(),
        "energy of the target": -np.minimum(np.diff(view.see("target_special_percent")), 0).sum(),
    }
    numbers |= {f"{name} at the end": view.see(name)[-1] for name in SUPPLIES}
    numbers |= {f"mean {entry.id}": view.see(entry.id).mean() for entry in CONTRACT.observations}
    return {name: float(number) for name, number in numbers.items()}


def hits(view: View) -> dict[str, NDArray[np.float64]]:
    """Damage of every tick with an attack, by weapon."""
    sides = {
        "player": ("hit_present", "damage_generated_on_target_scale"),
        "target": ("received_present", "damage_generated_on_player_scale"),
    }
    damage = {}
    for side, (present, scale) in sides.items():
        for weapon in WEAPONS:
            rows = view.meta[present] & (view.see(f"{side}_using_{weapon}") > 0)
            damage[f"{side} {weapon}"] = np.round(99 * view.meta[scale][rows].astype(float))
    return damage


def samples(views: list[View]) -> dict[str, NDArray[np.float64]]:
    """All samples of every figure: one for each view, or one for each attack."""
    per_view = [figures(view) for view in views]
    table = {name: np.array([numbers[name] for numbers in per_view]) for name in per_view[0]}
    per_hit = [hits(view) for view in views]
    for name in per_hit[0]:
        damage = np.concatenate([by_weapon[name] for by_weapon in per_hit])
        if damage.size >= FEWEST_EVENTS:
            table |= {f"damage with {name}": damage, f"misses with {name}": (damage == 0).astype(float)}
    return table


@pytest.mark.parametrize("matchup", MATCHUPS)
def test_fights_in_distribution(matchup: str) -> None:
    recorded, ours = (samples(list(views(*MATCHUPS[matchup]))) for views in (recorded_views, our_views))
    views_per_fight = 2 if matchup == "pair" else 1
    outside = {}
    for name in recorded.keys() & ours.keys():
        spread = ours[name].std() * sqrt(views_per_fight * (1 / recorded[name].size + 1 / ours[name].size))
        mean, our_mean = recorded[name].mean(), ours[name].mean()
        if abs(mean - our_mean) > SLACK * abs(our_mean) + Z * spread + 1e-6:
            outside[name] = (mean, our_mean, spread)
    assert not outside
    assert len(recorded.keys() & ours.keys()) >= 58
