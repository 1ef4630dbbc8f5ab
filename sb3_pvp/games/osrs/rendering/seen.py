"""A fight as the player of one seat sees it: nothing that the contract hides, see `FighterScene.hidden`.

All that is shown of the opponent is computed from the seat's own observation. Places are relative to the player's, with
the opponent in the east: the contracts tell how far away it is, not where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import require_known
from sb3_pvp.game import Outcome, World
from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.rendering import dharok, nh
from sb3_pvp.games.osrs.rendering.embedded import seat_facts
from sb3_pvp.games.osrs.rendering.fighter import STYLE_NAMES, ObservationMap, ShownFighter
from sb3_pvp.games.osrs.rendering.scene import (
    AttackScene,
    FighterScene,
    ProjectileScene,
    Scene,
    fighter_scene,
    points_of,
    waits_of,
)

TARGET_MAPS = {"NhEnv": nh.TARGET_MAP, "DharokEnv": dharok.TARGET_MAP}
_STYLES = {"melee": "target_using_melee", "ranged": "target_using_ranged", "magic": "target_using_mage"}


def seen_scene_of(
    world: World,
    fight: int,
    names: Sequence[str],
    seat: int,
    actions: Sequence[NDArray[np.int64] | None] = (None, None),
    masks: Sequence[NDArray[np.bool_] | None] = (None, None),
) -> Scene:
    """Returns the scene after the last tick for the player of this seat; for the arguments see `scene_of`."""
    require_known("contract to draw", contract := world.contract.name, TARGET_MAPS)
    obs, report = world.obs[fight, seat], world.report[fight, seat]
    me = ShownFighter(names[seat], world.contract, obs, report, actions[seat], masks[seat])
    ids = TARGET_MAPS[contract]
    # Without it, as in the Dharok game, the fighters stand beside each other.
    distance = me.count("player_to_target_distance") if ids.can_melee else 1
    corner = distance == 1 and ids.can_melee and not me.sees(ids.can_melee)
    both = [_own(world, fight, seat, me, ids), _target(names[1 - seat], me, ids, (distance, int(bool(corner))))]
    first, second = both if seat == 0 else both[::-1]
    outcome = Outcome(int(world.outcome[fight, 0])).name.lower()
    return Scene(contract, int(report["episode_ticks"]), outcome, distance, (first, second))


def _own(world: World, fight: int, seat: int, me: ShownFighter, ids: ObservationMap) -> FighterScene:
    own, facts = fighter_scene(me, me, None, (0, 0)), seat_facts(world, fight, seat)
    if own.attack:  # what the world reports is in shares of the opponent's level
        prayed = bool(ids.overheads) and me.sees("target_prayer_correct")
        damage = round(me.see("tick_new_attack_damage") * own.max_hitpoints)
        own = replace(own, attack=AttackScene(own.attack.style, damage, prayed))
    return replace(own, gear=facts.gear, food={**own.food, **facts.uncounted_food}) if facts else own


def _target(name: str, me: ShownFighter, ids: ObservationMap, tile: tuple[int, int]) -> FighterScene:
    full = ids.base_level(me, "hitpoints")
    wielded = [style for style, observation in _STYLES.items() if me.sees(observation)] if ids.overheads else ["melee"]
    style = wielded[0] if wielded else STYLE_NAMES[Style.NONE]
    shown, pending = (me.see(each) for each in ("damage_on_target_tick", "pending_damage_on_target"))
    lands = me.count(ids.next_hit) if ids.next_hit else 0 if pending else -1
    prayed = bool(ids.overheads) and me.sees("player_prayer_correct")
    return FighterScene(
        name=name,
        hitpoints=points_of(me.see("target_health_percent"), full),
        max_hitpoints=full,
        prayer=0,
        max_prayer=0,
        special_energy=me.see("target_special_percent") / ids.full_energy,
        style=style,
        weapon=ids.weapon(me),
        special_weapon=me.sees(ids.special_weapon),
        armor_off=me.sees(ids.armor_off),
        overhead=ids.overhead(me),
        frozen_ticks=me.count("target_frozen_ticks") if ids.freeze_immunity else 0,
        freeze_immunity_ticks=me.count(ids.freeze_immunity),
        vengeance=me.sees(ids.vengeance),
        tile=tile,
        can_melee=me.sees(ids.can_melee) if ids.can_melee else None,
        moving=me.sees(ids.moving),
        first=not me.sees("player_has_pid"),
        food_bars=0.0,
        brew_bars=0.0,
        waits=waits_of(me, ids),
        hitsplats=(round(shown * full),) if shown > 0 else (),
        attack=AttackScene(style, None, prayed) if me.sees("target_just_attacked") else None,
        incoming=(ProjectileScene(STYLE_NAMES[Style.NONE], lands + 1, round(pending * full)),) if lands >= 0 else (),
        hidden=True,
    )
