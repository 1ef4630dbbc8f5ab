"""A plain Monte-Carlo tree search in Python, one position after another, to compare speed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.game import Outcome
from sb3_pvp.games.connect_four import ConnectFourWorld
from sb3_pvp.players.search.search import Network
from sb3_pvp.players.search.trees import EXPLORATION, REDUCTION


class Node:
    """A position."""

    def __init__(self, world: ConnectFourWorld, fight: int) -> None:
        self.fight, self.outcome, self.mover = fight, int(world.outcome[fight, 0]), int(world.movers[fight])
        self.visits, self.total = 0, 0.0  # as the first seat sees it
        self.priors: dict[int, float] = {}
        self.children: dict[int, Node] = {}


def plain_search(world: ConnectFourWorld, fight: int, network: Network, simulations: int) -> int:
    """Returns the move that was looked at most often in the position of a fight, by PUCT as in our search."""
    copies = ConnectFourWorld(simulations + 1)
    copies.copy_fights([0], world, [fight])
    root, used = Node(copies, 0), 1
    _back_up([root], _evaluated(root, copies, network))
    for _ in range(simulations):
        path = [root]
        while path[-1].outcome == Outcome.RUNNING:
            node, action = path[-1], _chosen(path[-1])
            if action in node.children:
                path.append(node.children[action])
                continue
            copies.copy_fights([used], copies, [node.fight])
            actions = np.zeros((1, 2, 1), np.int64)
            actions[0, node.mover] = action
            copies.step(actions, [used])
            path.append(node.children.setdefault(action, Node(copies, used)))
            used += 1
            break
        _back_up(path, _evaluated(path[-1], copies, network))
    return max(root.children, key=lambda action: root.children[action].visits)


def _evaluated(node: Node, world: Any, network: Network) -> float:
    """Returns what a position is worth for the first seat, and sets its priors."""
    if node.outcome != Outcome.RUNNING:
        return {Outcome.WON: 1.0, Outcome.LOST: -1.0}.get(Outcome(node.outcome), 0.0)
    masks = world.masks[node.fight, node.mover][np.newaxis]
    chances, values = network(world.obs[node.fight, node.mover][np.newaxis], masks)
    node.priors = {action: float(chances[0, action]) for action in np.flatnonzero(masks[0]).tolist()}
    return float(values[0]) * (1 - 2 * node.mover)


def _chosen(node: Node) -> int:
    sign, root = 1 - 2 * node.mover, np.sqrt(node.visits)
    unknown = sign * node.total / node.visits - REDUCTION

    def score(action: int) -> float:
        child, visits = node.children.get(action), 0
        value = unknown
        if child is not None:
            visits, value = child.visits, sign * child.total / child.visits
        return float(value + EXPLORATION * node.priors[action] * root / (1 + visits))

    return max(node.priors, key=score)


def _back_up(path: list[Node], value: float) -> None:
    for node in path:
        node.visits, node.total = node.visits + 1, node.total + value
