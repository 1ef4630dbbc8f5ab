"""How an episode of the Dharok game starts (contract.md §6.3, protocol.md §3.2: no parameter has an effect)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.dharok.loadout import load
from sb3_pvp.games.osrs.sim.start import Reset, finish_seat, log_in, open_fight, place_fighters
from sb3_pvp.games.osrs.sim.state import BASELINE, NORMAL, Fight, Seat


@rule
def _enter(fight: Fight, seat: Seat, options: Reset) -> None:
    log_in(fight, seat, options)
    load(seat, options.driver == BASELINE)
    finish_seat(seat)


@rule
def begin(fight: Fight, first: Seat, second: Seat, reset: Reset) -> None:
    """Starts an episode; ``reset`` is a `parameters.RESET` record."""
    fight.fight_type = NORMAL
    open_fight(fight, first, second, reset)
    _enter(fight, first, reset.seats[0])
    _enter(fight, second, reset.seats[1])
    place_fighters(fight, first, second, reset.training)
