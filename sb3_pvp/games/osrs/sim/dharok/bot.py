"""The server's own bot of the Dharok game (scripted-bots.md A.6)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim.bots import make_brain
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import Fight, Seat


@rule
def _no_actions(fight: Fight, me: Seat, foe: Seat) -> None:
    """Does nothing: without a list of actions this bot only retaliates, eats and drinks."""


think = make_brain(_no_actions)
