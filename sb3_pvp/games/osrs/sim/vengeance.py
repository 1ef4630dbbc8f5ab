"""Vengeance, the one spell of the lunar book that fights use (mechanics.md §12, nh-actions.md §5.11).

`cast` is an order of an agent, `strike_back` runs when a hit lands, `notice` at the end of a tick. When it may be cast
is also a mask: `availability.vengeance`.
"""

from __future__ import annotations

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.damage import queue_extra_damage
from sb3_pvp.games.osrs.sim.state import DEFENCE, MAGIC_LEVEL, NO_SPELL_SELECTED, VENGEANCE_TIMER, Seat

REQUIRED_MAGIC = 94  # current level
REQUIRED_DEFENCE = 40  # base level
COOLDOWN_TICKS = 50
# trunc(0.75 · damage) as a quotient of integers, which cannot round.
_RETURNED, _OUT_OF = 3, 4


@rule
def cast(seat: Seat) -> None:
    """Casts vengeance; with another spellbook the attempt only drops spell and target (nh-actions.md §5.11)."""
    if not seat.lunar:
        seat.spell = NO_SPELL_SELECTED
        seat.targeting = 0
        return
    able = seat.level[MAGIC_LEVEL] >= REQUIRED_MAGIC and seat.base[DEFENCE] >= REQUIRED_DEFENCE
    if able and not seat.vengeance and seat.timer[VENGEANCE_TIMER] == 0:
        seat.vengeance = 1
        seat.timer[VENGEANCE_TIMER] = COOLDOWN_TICKS


@rule
def strike_back(victim: Seat, attacker: Seat, total: int) -> None:
    """Turns 75 % of a landed hit back on its attacker and uses vengeance up, unless that rounds to no damage."""
    returned = total * _RETURNED // _OUT_OF
    if victim.vengeance and returned > 0:
        victim.vengeance = 0
        queue_extra_damage(victim, attacker, returned)


@rule
def notice(me: Seat, foe: Seat) -> None:
    """Remembers that a target seen with vengeance active is on the lunar book (contract.md §4.2, entry 165)."""
    if foe.vengeance:
        me.target_lunar = 1
