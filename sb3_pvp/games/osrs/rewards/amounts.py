"""The amounts of the reward table (rewards.md §4): what each component counts in a tick, before its weights.

Compiled, because most of them are 0 in most ticks: NumPy would make several passes over all fights for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.meta_fields import Style

#: Records as the compiled functions get them: `report.META_DTYPE` and `components.AMOUNTS`.
Meta = Any
Amounts = Any

#: An attack of this speed, in ticks, counts once in the prayer terms; a slower one counts more, so that the reward per
#: minute does not depend on the speed of a weapon.
USUAL_ATTACK_SPEED = 5
_NO_STYLE, _MELEE, _RANGED, _MAGIC = map(int, Style)
_RUNNING, _WON, _LOST, _TIED, _TARGET_LOST, _DESYNC = map(int, Outcome)
_NOTHING, _FULL = np.float32(0), np.float32(1)  # a Python number would turn float32 arithmetic into float64


@njit(cache=True, error_model="numpy")
def write_amounts(
    report: NDArray[np.void],
    previous: NDArray[np.void],
    has_previous: NDArray[np.bool_],
    outcome: NDArray[np.uint8],
    when_generated: bool,
    out: NDArray[np.void],
) -> None:
    """Writes the amounts of a `sb3_pvp.game.Transition` of N fights, records ``(N,)`` of `components.AMOUNTS`.

    An amount is 0 where its event did not happen, whatever the report holds there. ``when_generated``: count damage in
    the tick in which it is rolled; false: when it lands.
    """
    for fight in range(len(out)):
        now, before, known = report[fight], previous[fight], has_previous[fight]
        out[fight].default_step_reward = 1
        out[fight].custom_reward_fn = 1
        _write_damage(now, when_generated, out[fight])
        _write_prayers(now, before, known, out[fight])
        _write_states(now, before, known, out[fight])
        _write_levels(now, out[fight])
        _write_supplies(now, outcome[fight], out[fight])
        _write_endings(outcome[fight], out[fight])


@njit(cache=True, error_model="numpy")
def weighted(
    amounts: NDArray[np.float32], factors: NDArray[np.float32], outcome: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """Returns amounts ``(N, terms)`` times factors ``(terms,)``, float32 ``(terms, N)``, without -0.0.

    It is 0 in fights that broke off, and where a factor is 0, whatever the amount is.
    """
    terms = np.zeros(amounts.shape[::-1], np.float32)
    for term in range(amounts.shape[1]):
        if factors[term] != 0:
            for fight in range(amounts.shape[0]):
                if amounts[fight, term] != 0 and outcome[fight] < _TARGET_LOST:
                    terms[term, fight] = amounts[fight, term] * factors[term] + _NOTHING
    return terms


@njit(error_model="numpy")
def _write_damage(now: Meta, when_generated: bool, out: Amounts) -> None:
    """Damage and healing, in health bars of the fighter that gets them."""
    # Worlds always report `damage_received` as 0, as the original does (protocol.md §4).
    dealt = now.damage_generated_on_target_scale if when_generated else now.damage_dealt
    received = now.damage_generated_on_player_scale if when_generated else now.damage_received
    out.damage_dealt = dealt
    out.damage_received = received
    out.extra_damage_dealt = now.extra_damage_dealt_on_target_scale
    out.extra_damage_received = now.extra_damage_dealt_on_player_scale
    out.smite_damage_dealt = dealt if now.hit_present and now.hit_with_smite else _NOTHING
    out.smite_damage_received = received if now.received_present and now.target_attacked_with_smite else _NOTHING
    out.player_healed = -now.player_healed_scale  # negative damage received
    out.target_healed = -now.target_healed_scale  # 0 for bots: worlds only report the healing of agents


@njit(error_model="numpy")
def _write_prayers(now: Meta, before: Meta, known: bool, out: Amounts) -> None:
    """Attacks, by the prayers against them now and one tick ago (if that tick is ``known``)."""
    attack = now.player_hit_attack_speed / USUAL_ATTACK_SPEED if now.hit_present else 0.0
    out.hit_off_prayer = attack if now.hit_off_prayer else 0.0
    out.hit_on_prayer = 0.0 if now.hit_off_prayer else attack
    attack = attack if known else 0.0
    off = now.attack_type_hit != before.current_target_prayer_type  # or there was no prayer at all
    out.hit_off_prior_prayer = attack if off else 0.0
    out.hit_on_prior_prayer = 0.0 if off else attack
    attack = now.target_hit_attack_speed / USUAL_ATTACK_SPEED if now.received_present else 0.0
    out.protected_correct_prayer = attack if now.protected_prayer else 0.0
    out.protected_wrong_prayer = 0.0 if now.protected_prayer else attack
    attack = attack if known and now.player_prayer_type != _NO_STYLE else 0.0  # no prayer: no term (row 16)
    protected = now.player_prayer_type == before.target_attack_style_type
    out.protected_correct_prior_prayer = attack if protected else 0.0
    out.protected_wrong_prior_prayer = 0.0 if protected else attack


@njit(error_model="numpy")
def _write_states(now: Meta, before: Meta, known: bool, out: Amounts) -> None:
    """Freezes (a timer that goes down does not count), and ticks without prayer points."""
    out.player_frozen = max(now.player_frozen_ticks - before.player_frozen_ticks, 0) if known else 0
    out.target_frozen = max(now.target_frozen_ticks - before.target_frozen_ticks, 0) if known else 0
    out.no_prayer = now.current_prayer_percent == 0


@njit(error_model="numpy")
def _write_levels(now: Meta, out: Amounts) -> None:
    """How far levels are above their base, as a share of it; negative if below."""
    strength, ranged = now.strength_level_scale - _FULL, now.ranged_level_scale - _FULL
    magic = now.magic_level_scale - _FULL
    out.attack_level_scale = now.attack_level_scale - _FULL
    out.strength_level_scale = strength
    out.defence_level_scale = now.defence_level_scale - _FULL
    out.ranged_level_scale = ranged
    out.magic_level_scale = magic
    style = now.attack_type_hit if now.hit_present else _NO_STYLE
    out.melee_boost_hit = max(strength, _NOTHING) if style == _MELEE else _NOTHING
    out.ranged_boost_hit = max(ranged, _NOTHING) if style == _RANGED else _NOTHING
    out.magic_boost_hit = max(magic, _NOTHING) if style == _MAGIC else _NOTHING


@njit(error_model="numpy")
def _write_supplies(now: Meta, outcome: int, out: Amounts) -> None:
    """Food and brews: eaten, wasted, and left at the end, in health bars of the fighter that has them."""
    out.safe_penalty = -1 if now.eat_food_present else 0  # negative: a positive weight is a penalty
    out.wasted_food = now.wasted_food_scale if now.wasted_food_present else _NOTHING
    out.wasted_brews = now.wasted_brew_scale if now.wasted_brew_present else _NOTHING
    out.target_food_on_death = now.target_remaining_food_scale if outcome == _WON else _NOTHING
    out.target_brews_on_death = now.target_remaining_brew_scale if outcome == _WON else _NOTHING
    out.player_food_on_death = now.remaining_food_scale if outcome == _LOST else _NOTHING
    out.player_brews_on_death = now.remaining_brew_scale if outcome == _LOST else _NOTHING


@njit(error_model="numpy")
def _write_endings(outcome: int, out: Amounts) -> None:
    out.win = outcome == _WON
    out.lost = outcome == _LOST
    out.tied = outcome == _TIED
