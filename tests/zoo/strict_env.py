"""A wrapper that refuses illegal actions, for environments in processes of their own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class StrictEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Raises on an action that the masks, or the rules between heads, forbid."""

    def action_masks(self) -> Any:
        return self.get_wrapper_attr("env").get_wrapper_attr("action_masks")()

    def step(self, action: Any) -> Any:
        contract, masks, chosen = self.unwrapped.contract, self.action_masks()[None], np.asarray(action)[None]
        for head in range(contract.num_heads):
            if not contract.conditional_mask(masks, chosen[:, :head])[0, chosen[0, head]]:
                raise AssertionError(f"illegal choice in head {head}: {action}")
        return super().step(action)
