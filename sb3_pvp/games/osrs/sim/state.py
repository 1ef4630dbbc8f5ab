"""The state of a fight, as plain arrays: one `FIGHT` record per fight and two `SEAT` records in it.

Scalars are 64-bit integers throughout, so that a rule is compiled once and not once per integer width; `SimWorld` also
clears records as such words. Names follow ``mechanics.md``; ticks are game ticks (0.6 s), coordinates are tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: A record as the compiled rules get it. `Any`, because Numba's record types are not Python types.
Seat = Any
Fight = Any

# Styles (also the protection prayers against them) and gear sets.
MELEE, RANGED, MAGIC = 0, 1, 2
NO_STYLE = -1
MAGE_SET, RANGED_SET, MELEE_SET, SPEC_SET, TANK_SET = range(5)
NUM_SETS = 5
SET_SIZE = 13

# Skills.
ATTACK, STRENGTH, DEFENCE, RANGED_LEVEL, MAGIC_LEVEL, PRAYER, HITPOINTS = range(7)
NUM_SKILLS = 7

# Equipment slots.
HEAD, CAPE, NECK, WEAPON, BODY, SHIELD, LEGS, HANDS, FEET, RING, AMMO = range(11)
NUM_SLOTS = 11
INVENTORY_SIZE = 28
NO_ITEM = -1

# Item bonuses (contract.md §4.1, "item bonus index").
STAB_ATTACK, SLASH_ATTACK, CRUSH_ATTACK, MAGIC_ATTACK, RANGED_ATTACK = range(5)
STAB_DEFENCE, SLASH_DEFENCE, CRUSH_DEFENCE, MAGIC_DEFENCE, RANGED_DEFENCE = range(5, 10)
MELEE_STRENGTH, RANGED_STRENGTH, MAGIC_DAMAGE, PRAYER_BONUS = range(10, 14)
NUM_BONUSES = 14

# Named countdowns (mechanics.md §2).
ATTACK_TIMER, FOOD_TIMER, POTION_TIMER, KARAMBWAN_TIMER = range(4)
FREEZE_TIMER, FREEZE_IMMUNITY_TIMER, VENGEANCE_TIMER, STAT_TIMER = range(4, 8)
NUM_TIMERS = 8
#: The uncapped attack counter of a fighter that has not attacked yet (contract.md §4.4, entry 43).
NEVER_ATTACKED = -100

#: No spell is selected; `spells` has the numbers of the others.
NO_SPELL_SELECTED = 0

# Fight types.
NORMAL, LMS, PVP_ARENA = 0, 1, 2
NUM_FIGHT_TYPES = 3

# Builds, in the order of `builds.BUILD_NAMES`.
PURE, ZERKER, MED, MAXED, LMS_PURE, LMS_ZERKER, LMS_MED = range(7)
NUM_BUILDS = 7

# The driver of a seat.
AGENT, BASELINE = 0, 1

# Capacities of a seat's queues; `hits` and `damage` say what happens when one is full.
MAX_PENDING_HITS = 24
MAX_HIT_NUMBERS = 4  # damage numbers of one hit; dragon claws have four
MAX_PENDING_DAMAGE = 64
MAX_LASTING_EFFECTS = 6
RECENT = 5  # entries of the "recent" statistics (contract.md §4.2)

_INT, _FLOAT = "i8", "f8"

# Kept by a login from one fight to the next (protocol.md §5.3, "not cleared").
LOGIN_FIELDS: list[tuple[str, Any]] = [
    ("pid", _FLOAT),  # lower = processed first
    ("pid_countdown", _INT),
    ("splat_damage", (_INT, 2)),  # last shown hitsplats: primary, secondary
    ("splat_serial", (_INT, 2)),  # grows with every hitsplat shown; 0: none yet
    ("run_energy", _INT),
    ("running", _INT),
]

_PARAMETER_FIELDS: list[tuple[str, Any]] = [
    ("driver", _INT),  # AGENT or BASELINE
    ("build", _INT),
    ("only_switch_prayer_when_about_to_attack", _INT),
    ("only_switch_gear_when_attack_soon", _INT),
    ("allow_smite", _INT),
    ("allow_redemption", _INT),
    ("allow_moving_if_can_attack", _INT),
    ("lms_refill", _INT),  # prayer points are refilled at the end of every tick (LMS fights)
    ("ticks", _INT),  # episode ticks, meta.episodeTicks
]

# The loadout of the episode, after randomisation: "my loadout" of the contract, not what is worn.
_LOADOUT_FIELDS: list[tuple[str, Any]] = [
    ("lunar", _INT),
    ("gear_set", (_INT, (NUM_SETS, SET_SIZE))),  # item indices in equip order, NO_ITEM padded
    ("set_length", (_INT, NUM_SETS)),
    ("set_bonus", (_INT, (NUM_SETS, NUM_BONUSES))),  # S(G, b) of contract.md §4.1
    ("set_two_handed", (_INT, NUM_SETS)),
    ("melee_spec", _INT),  # item index of MELEE-SPEC (contract.md §4.1), NO_ITEM if none
    ("ranged_spec", _INT),  # item index of the weapon of RANGED-SPEC, NO_ITEM if none
    ("ranged_weapon", _INT),  # first item of the ranged set with a weapon class
    ("melee_weapon", _INT),  # first item of the melee set with a weapon class
    ("base", (_INT, NUM_SKILLS)),
]

_BODY_FIELDS: list[tuple[str, Any]] = [
    ("level", (_INT, NUM_SKILLS)),  # current levels; level[HITPOINTS] is HP, level[PRAYER] prayer points
    ("worn", (_INT, NUM_SLOTS)),  # item indices
    ("inventory", (_INT, INVENTORY_SIZE)),  # item indices
    ("bonus", (_INT, NUM_BONUSES)),  # sums over worn items that count in a fight (mechanics.md §15)
    ("dying", _INT),  # hitpoints reached 0; the fight ends at the end of the tick
    ("timer", (_INT, NUM_TIMERS)),
    ("attack_counter", _INT),  # the uncapped ATTACK counter, which keeps falling below 0
    ("prayers", _INT),  # bit set of `prayer` numbers
    ("prayer_drain", _FLOAT),
    ("prayer_drain_running", _INT),
    ("energy", _INT),  # special energy, 0..100
    ("energy_countdown", _INT),  # ticks to the next +10; 0: no regeneration runs
    ("special_on", _INT),
    ("maul_queue", _INT),  # granite-maul hits ordered in this tick
    ("spell", _INT),  # selected spell of `spells`, or NO_SPELL_SELECTED
    ("vengeance", _INT),  # active: the next hit strikes back
    ("poison", _INT),  # next poison damage, of all tasks; 0: not poisoned
    ("poison_countdown", _INT),  # ticks to it, 0: no task; a byte for each task
    ("poison_count", _INT),  # how often it was due, modulo 5; a byte for each task
    ("recoil_left", _INT),  # damage that the ring of recoil can still return
]

_MOVEMENT_FIELDS: list[tuple[str, Any]] = [
    ("x", _INT),
    ("y", _INT),
    ("goal_x", _INT),  # last queued step; equals the own tile when `walking` is 0
    ("goal_y", _INT),
    ("walking", _INT),  # steps are queued
    ("moving", _INT),  # moved this tick and the queue was not reset since
    ("targeting", _INT),  # the combat target is set (it can only be the other seat)
]

_HIT_FIELDS: list[tuple[str, Any]] = [
    # Hits on the way to this seat, oldest first.
    ("num_hits", _INT),
    ("hit_delay", (_INT, MAX_PENDING_HITS)),  # ticks to landing
    ("hit_total", (_INT, MAX_PENDING_HITS)),  # rolled damage, not limited by hitpoints
    ("hit_numbers", (_INT, MAX_PENDING_HITS)),  # how many damage numbers the hit has
    ("hit_damage", (_INT, (MAX_PENDING_HITS, MAX_HIT_NUMBERS))),
    ("hit_accurate", (_INT, MAX_PENDING_HITS)),
    ("hit_style", (_INT, MAX_PENDING_HITS)),
    ("hit_effect", (_INT, MAX_PENDING_HITS)),  # `hits` effect on landing
    # Damage numbers that wait for a hitsplat, oldest first.
    ("num_damage", _INT),
    ("damage", (_INT, MAX_PENDING_DAMAGE)),
    # Lasting effects on this seat, caused by the other one.
    ("mark_ticks", (_INT, MAX_LASTING_EFFECTS)),  # ancient godsword: ticks since landing + 1; 0 none
    ("bleed_left", (_INT, MAX_LASTING_EFFECTS)),  # Morrigan's javelin: damage still to deal
    ("bleed_ticks", (_INT, MAX_LASTING_EFFECTS)),
]

_BOT_FIELDS: list[tuple[str, Any]] = [
    ("attacked_ticks", _INT),  # ticks for which the bot still counts as attacked
    ("enemy_known", _INT),  # the brain has an enemy (scripted-bots.md A.1)
    ("retaliate", _INT),  # 1: auto-retaliate in the next task phase
    ("spawn_x", _INT),
    ("spawn_y", _INT),
]

# The memory of this seat's environment (contract.md §4.2 and §4.3).
_MEMORY_FIELDS: list[tuple[str, Any]] = [
    ("hits_received", _INT),  # N_t
    ("hits_dealt", _INT),  # N_p
    ("received_style", (_INT, 3)),
    ("dealt_style", (_INT, 3)),
    ("own_prayer", (_INT, 3)),  # my protection prayers when I was hit
    ("target_prayer", (_INT, 3)),  # the target's when I hit
    ("received_off_prayer", _INT),
    ("dealt_on_prayer", _INT),
    # The last RECENT entries: a ring buffer and the number of entries ever written.
    ("recent_received", (_INT, RECENT)),
    ("recent_received_off", (_INT, RECENT)),
    ("recent_received_count", _INT),
    ("recent_dealt", (_INT, RECENT)),
    ("recent_dealt_on", (_INT, RECENT)),
    ("recent_dealt_count", _INT),
    ("recent_own_prayer", (_INT, RECENT)),
    ("recent_own_prayer_count", _INT),
    ("recent_target_prayer", (_INT, RECENT)),
    ("recent_target_prayer_count", _INT),
    ("target_gear", (_INT, (3, 5))),  # M(style, .): accuracy, strength, magic, slash, ranged defence; -1 unset
    ("target_lunar", _INT),  # entry 165
    ("last_x", _INT),  # LASTTILE: the target's tile at the last observation
    ("last_y", _INT),
    # Hitsplats: the serials at the last refresh, and what they add up to.
    ("seen_own", (_INT, 2)),
    ("seen_target", (_INT, 2)),
    ("damage_on_me", _FLOAT),  # newly shown this tick, as a fraction of max HP
    ("damage_on_target", _FLOAT),
    ("sum_received", _FLOAT),  # R
    ("sum_dealt", _FLOAT),  # D
    ("target_hp", _FLOAT),  # LASTHP after this tick's refresh
    ("target_hp_before", _FLOAT),  # LASTHP before it: what entry 11 shows
]

# Collected during a tick, cleared before the next one.
_TICK_FIELDS: list[tuple[str, Any]] = [
    ("just_attacked", _INT),
    ("was_attacked", _INT),
    ("own_prayer_correct", _INT),
    ("target_prayer_correct", _INT),
    ("new_attack_damage", _INT),  # rolled total of my last hit of this tick
    ("generated", _INT),  # rolled damage of all my hits of this tick
    ("extra_dealt", _INT),  # damage outside the attack pipeline, counted when queued
    ("healed", _INT),  # HP gained through the generic heal
    # My last hit of this tick, for the meta record.
    ("hit_style_now", _INT),
    ("hit_off_prayer_now", _INT),
    ("hit_with_smite_now", _INT),
    ("hit_speed_now", _INT),  # attack period in ticks
    ("hit_prayer_now", _INT),  # the victim's protection prayer at that moment, a style or NO_STYLE
    # Food and brews of this tick.
    ("food_eaten", _INT),  # number of eat actions
    ("eat_at", _INT),  # HP before the last one
    ("eat_to", _INT),  # HP after it
    ("eaten", _INT),  # sum of nominal heals
    ("food_wasted", _INT),  # nominal heal above the cap
    ("brew_drunk", _INT),
    ("brew_at", _INT),
    ("brew_to", _INT),
    ("brew_wasted", _INT),
]

TICK_FIELD_NAMES = tuple(name for name, *_ in _TICK_FIELDS)


def _dtype(*groups: list[tuple[str, Any]]) -> np.dtype[np.void]:
    fields = [field for group in groups for field in group]
    return np.dtype([(name, *spec) if isinstance(spec, tuple) else (name, spec) for name, spec in fields], align=True)


SEAT = _dtype(
    LOGIN_FIELDS,
    _PARAMETER_FIELDS,
    _LOADOUT_FIELDS,
    _BODY_FIELDS,
    _MOVEMENT_FIELDS,
    _HIT_FIELDS,
    _BOT_FIELDS,
    _MEMORY_FIELDS,
    _TICK_FIELDS,
)
#: Tasks and damage under way that a reset does not end (mechanics.md §17), beside `LOGIN_FIELDS`.
_UNDER_WAY = ("poison", "poison_countdown", "poison_count", "energy", "energy_countdown", "num_damage", "damage")
#: What a login keeps: fields of `SEAT`, and the ticks from its last one to that of the reset.
LOGIN = _dtype(
    LOGIN_FIELDS,
    [(name, *spec) for name, *spec in _BODY_FIELDS + _HIT_FIELDS if name in _UNDER_WAY],
    [("wait", _INT)],
)

FIGHT = np.dtype(
    [
        ("rng", "u8"),
        ("fight_type", "i8"),
        ("death_match", "i8"),
        ("splat_counter", "i8"),  # the last hitsplat serial given out
        ("outcome", "i8", 2),
    ],
    align=True,
)
