"""A person's seat in a fight, driven by controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import World, controls_of, made_controls, pressed_actions, viewer_for_players
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.viewer import Viewer
from sb3_pvp.policies.acting import Decision


class PersonActions:
    """An `Opponent` that plays what a person has ordered, as far as it is allowed.

    Args:
        contract: of the game.
        viewer: of the game, which may say more about what a person can do.
        seat: of the person.

    Attributes:
        scene: what the person sees, of `sb3_pvp.game.seen_scene`, since it last has looked.
        orders: controls by their action, for the next tick; the last one of a head counts.
        played: those of the last tick that happened.
        masks: that applied in each tick so far.
    """

    def __init__(self, contract: Contract, viewer: Viewer | None, seat: int) -> None:
        self._contract, self._viewer, self._seat = contract, viewer_for_players(viewer, contract), seat
        self._controls = {each.action: each for group in controls_of(viewer, contract) for each in group.controls}
        self.scene: Any = None
        self.orders: list[str] = []
        self.played: list[str] = []
        self.masks: list[NDArray[np.bool_]] = []

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """See `sb3_pvp.policies.acting.Opponent`."""
        return np.zeros((len(seeds), 0))

    def look(self, world: World, fight: int, names: Sequence[str]) -> dict[str, Any]:
        """Lets the person see what a player may see of a fight; must be called before each tick.

        Returns ``can``, for each head a text with ``"1"`` for each choice that is possible; ``why`` others are not, by
        id; and the actions of the controls that were ``played``.
        """
        self.scene = self._viewer.seen(world, fight, names, self._seat)
        parts = self._contract.split_mask(self._allowed(world.masks[fight, self._seat]))
        can = ["".join("01"[bit] for bit in part.tolist()) for part in parts]
        return {"can": can, "why": dict(self._asked("why_not")), "played": self.played}

    def _allowed(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a flat mask with what a human may do besides, see `sb3_pvp.game.Viewer`."""
        wider = mask.copy()
        wider[[self._contract.flat_index(each) for each in self._asked("at_will")]] = True
        return wider

    def predict(self, observation: Any, state: Any, start: Any, deterministic: bool, action_masks: Any) -> Decision:
        """See `sb3_pvp.policies.acting.Opponent`."""
        self.masks.append(self._allowed(action_masks[0]))
        pressed = [self._controls[each] for each in self.orders if each in self._controls]
        chosen = pressed_actions(self._contract, self.masks[-1], pressed, self._asked("idle"))
        self.played = [each.action for each in made_controls(self._contract, chosen, pressed)]
        self.orders = []
        return chosen[np.newaxis], state

    def _asked(self, what: str) -> Any:
        """Returns what the viewer says of this moment; nothing if it is none that says so."""
        return getattr(self._viewer, what, lambda scene, seat: ())(self.scene, self._seat)
