"""The compiled entry points of the embedded world: everything that Python calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import load_contract
from sb3_pvp.sim import rng
from sb3_pvp.sim.action_masks import write_masks
from sb3_pvp.sim.compile import kernel, rule
from sb3_pvp.sim.observe import observe
from sb3_pvp.sim.report import write_meta
from sb3_pvp.sim.start import begin
from sb3_pvp.sim.state import Fight, Seat
from sb3_pvp.sim.tick import play

Records = NDArray[np.void]

_CONTRACT = load_contract("NhEnv")
_HEAD_SIZES = np.array(_CONTRACT.head_sizes, np.int64)


def _requirements() -> NDArray[np.int64]:
    """(flat actions, 3): the sub-actions that must all, of which one must, and none of which may be chosen, as bits."""
    rows = []
    for head in _CONTRACT.heads:
        for sub_action in head.actions:
            lists = (sub_action.require_all, sub_action.require_any, sub_action.require_none)
            rows.append([sum(1 << _CONTRACT.flat_index(name) for name in names) for names in lists])
    return np.array(rows, np.int64)


_REQUIREMENTS = _requirements()


@rule
def _publish(fight: Fight, me: Seat, foe: Seat, obs: Any, masks: Any, meta: Any) -> None:
    observe(me, foe, fight, obs)
    write_masks(me, foe, fight, masks)
    write_meta(me, foe, meta)


@rule
def _publish_both(
    fight: Fight, first: Seat, second: Seat, obs: Any, masks: Any, meta: Any, outcome: NDArray[np.uint8]
) -> None:
    _publish(fight, first, second, obs[0], masks[0], meta[0])
    _publish(fight, second, first, obs[1], masks[1], meta[1])
    outcome[0] = fight.outcome[0]
    outcome[1] = fight.outcome[1]


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
        _publish_both(fight, state[f, 0], state[f, 1], obs[f], masks[f], meta[f], outcome[f])


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
        _publish_both(fights[f], state[f, 0], state[f, 1], obs[f], masks[f], meta[f], outcome[f])


@rule
def _is_legal(chosen: int, flat: int) -> bool:
    every, some, none = _REQUIREMENTS[flat, 0], _REQUIREMENTS[flat, 1], _REQUIREMENTS[flat, 2]
    return bool(chosen & every == every and (some == 0 or chosen & some != 0) and chosen & none == 0)


@kernel
def choose_legal(masks: NDArray[np.bool_], states: NDArray[np.uint64], actions: NDArray[np.int64]) -> None:
    """Draws a legal joint action for every seat, head by head; entry 0 where a head has none (contract.md §2.3)."""
    for f in range(masks.shape[0]):
        for seat in range(masks.shape[1]):
            chosen = 0
            start = 0
            for head in range(_HEAD_SIZES.size):
                pick, legal = 0, 0
                for j in range(_HEAD_SIZES[head]):
                    if masks[f, seat, start + j] and _is_legal(chosen, start + j):
                        legal += 1
                        states[f] += rng.GAMMA
                        if np.int64(rng.mix(states[f]) >> np.uint64(33)) % legal == 0:
                            pick = j
                actions[f, seat, head] = pick
                chosen |= 1 << (start + pick)
                start += _HEAD_SIZES[head]


@kernel
def scrambled(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Initial random states from consecutive seeds."""
    out = np.empty_like(seeds)
    for k in range(seeds.size):
        out[k] = rng.mix(seeds[k])
    return out
