"""Facts about fighters that only the embedded world knows: neither observations nor servers contain them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sb3_pvp.game import World
from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.rendering.fighter import STYLE_NAMES
from sb3_pvp.games.osrs.rendering.odds import Odds, attack_odds

#: The names of the equipment slots, in the order of `sb3_pvp.games.osrs.sim.state`.
SLOTS = ("head", "cape", "neck", "weapon", "body", "shield", "legs", "hands", "feet", "ring", "ammo")


@dataclass(frozen=True)
class SeatFacts:
    """A seat of the embedded world; see the attributes of `sb3_pvp.games.osrs.rendering.scene.FighterScene`.

    ``uncounted_food`` is food that the observations do not count (contract.md §4.4, entry 26). A hit in ``incoming``
    is its style, the ticks until it lands, and its damage. For ``odds`` see `attack_odds`.
    """

    tile: tuple[int, int]
    gear: dict[str, str]
    uncounted_food: dict[str, int]
    hitsplats: tuple[int, ...]
    incoming: tuple[tuple[str, int, int], ...]
    odds: tuple[Odds | None, Odds | None] = (None, None)


def seat_facts(world: World, fight: int, seat: int, casts_blood: bool | None = None) -> SeatFacts | None:
    """Returns the facts about a seat of a `SimWorld`, or ``None`` for any other world.

    Those on its attack are left out unless it is known whether a spell is one of blood, ``casts_blood``, or of ice.
    """
    # Recognized by its records, because importing `SimWorld` would import numba, also for fights on a server.
    state = getattr(world, "state", None)
    if not isinstance(state, np.ndarray) or "worn" not in (state.dtype.names or ()):
        return None
    record = state[fight, seat]
    attacked = record["hit_style_now"] >= 0
    return SeatFacts(
        tile=(int(record["x"]), int(record["y"])),
        gear=_gear(record),
        uncounted_food=_sharks(record),
        hitsplats=_hitsplats(record),
        incoming=_incoming(record),
        odds=attack_odds(state, fight, seat, casts_blood) if casts_blood is not None and attacked else (None, None),
    )


def _gear(record: Any) -> dict[str, str]:
    from sb3_pvp.games.osrs.sim.items import ITEM_NAMES  # here, because it imports numba

    worn = zip(SLOTS, record["worn"].tolist(), strict=True)
    return {slot: _readable(ITEM_NAMES[item]) for slot, item in worn if item >= 0}  # negative: the slot is empty


def _readable(item: str) -> str:
    """Converts ``AHRIMS_STAFF_100`` (fully repaired) to "Ahrims staff", ``OPAL_BOLTS_E`` to "Opal bolts (e)"."""
    return item.removesuffix("_100").replace("_", " ").capitalize().replace(" bolts e", " bolts (e)")


def _sharks(record: Any) -> dict[str, int]:
    from sb3_pvp.games.osrs.sim.items import SHARK

    sharks = int((record["inventory"] == SHARK).sum())
    return {"shark": sharks} if sharks else {}


def _hitsplats(record: Any) -> tuple[int, ...]:
    """Returns the damage numbers that appeared in this tick."""
    if record["damage_on_me"] <= 0:
        return ()
    first, second = record["splat_damage"].tolist()
    # Both slots keep their last splat (contract.md §4.3). The second is newer only if both were set in this tick.
    both = record["splat_serial"][1] > record["splat_serial"][0]
    return (first, second) if both else (first,)


def _incoming(record: Any) -> tuple[tuple[str, int, int], ...]:
    """Returns the pending hits, the next one first; one lands in the tick after its delay is over (mechanics.md §5)."""
    hits = range(int(record["num_hits"]))
    arriving = [(_style(record, hit), int(record["hit_delay"][hit]) + 1, int(record["hit_total"][hit])) for hit in hits]
    return tuple(sorted(arriving, key=lambda hit: hit[1]))


def _style(record: Any, hit: int) -> str:
    return STYLE_NAMES[Style(int(record["hit_style"][hit]))]
