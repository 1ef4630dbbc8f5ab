"""The compiled entry points of the NH game, which Python calls."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import rng
from sb3_pvp.games.osrs.sim.action_masks import write_masks
from sb3_pvp.games.osrs.sim.actions import apply
from sb3_pvp.games.osrs.sim.bots import think
from sb3_pvp.games.osrs.sim.compile import kernel
from sb3_pvp.games.osrs.sim.observe import observe
from sb3_pvp.games.osrs.sim.publish import make_publish
from sb3_pvp.games.osrs.sim.start import begin
from sb3_pvp.games.osrs.sim.tick import make_play

Records = NDArray[np.void]

play = make_play(think, apply)
publish = make_publish(observe, write_masks)


@kernel
def reset_fights(
    which: NDArray[np.int64],
    resets: Records,
    state: Records,
    fights: Records,
    obs: NDArray[np.float32],
    masks: NDArray[np.bool_],
    meta: Records,
    outcome: NDArray[np.uint8],
) -> None:
    """Starts an episode in each fight of ``which``; ``resets`` has a `parameters.RESET` record for each of them."""
    for k in range(which.size):
        f = which[k]
        fight = fights[f]
        if resets[k].seed_known:
            fight.rng = rng.mix(resets[k].seed)
        begin(fight, state[f, 0], state[f, 1], resets[k])
        publish(fight, state[f, 0], state[f, 1], True, obs[f], masks[f], meta[f], outcome[f])


@kernel
def step_fights(
    which: NDArray[np.int64],
    actions: NDArray[np.int64],
    state: Records,
    fights: Records,
    obs: NDArray[np.float32],
    masks: NDArray[np.bool_],
    meta: Records,
    outcome: NDArray[np.uint8],
) -> None:
    """Plays one tick in each fight of ``which``; ``actions`` is ``(len(which), 2, heads)``."""
    for k in range(which.size):
        f = which[k]
        play(fights[f], state[f, 0], state[f, 1], actions[k])
        publish(fights[f], state[f, 0], state[f, 1], False, obs[f], masks[f], meta[f], outcome[f])
