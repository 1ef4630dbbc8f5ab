"""Many search trees in arrays, grown side by side; all that is compiled is in this file.

Values are those of the first seat while they are passed up, from -1, a loss, to 1; an edge adds them up as the seat
that moves there sees them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.compiled import compiled, compiled_with_arrays

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
NONE = -1
#: Of PUCT: how much a prior counts; what an edge without visits is worth less than the node before it.
EXPLORATION, REDUCTION = 1.5, 0.2
#: Of Gumbel selection: how values are weighed against logits (Danihelka et al. 2022, `c_visit` and `c_scale`).
VISITS, SCALE = 50.0, 0.1


class Trees(NamedTuple):
    """``T`` trees of at most ``N`` nodes and ``E`` edges each; nodes of tree ``t`` have the numbers ``t * N`` and more.

    A node's edges stand side by side.
    """

    mover: Ints  #: The seat that moves at a node ``(T * N,)``; `NONE`: the game is over.
    first: Ints  #: The number of a node's first edge.
    choices: Ints  #: How many edges a node has.
    parent: Ints
    via: Ints  #: The edge that leads to a node.
    value: Floats  #: Of a node for the seat that moves, by the network; of an end for the first seat.
    action: Ints  #: Of an edge ``(T * E,)``.
    logit: Floats
    prior: Floats
    visits: Ints
    total: Floats
    child: Ints  #: The node that an edge leads to, or `NONE`.
    used: Ints  #: Nodes and edges of a tree in use, ``(2, T)``.

    @classmethod
    def empty(cls, trees: int, nodes: int, edges: int) -> Trees:
        """Returns trees without nodes."""
        of_nodes = [np.full(trees * nodes, NONE) for _ in range(5)]
        of_edges = [np.zeros(trees * edges, kind) for kind in (int, np.float32, np.float32, int, np.float32, int)]
        return cls._make([*of_nodes, np.zeros(trees * nodes, np.float32), *of_edges, np.zeros((2, trees), int)])


@compiled
def grow(trees: Trees, nodes: Ints, masks: NDArray[np.bool_], probabilities: Floats, values: Floats) -> None:
    """Gives nodes ``(B,)``, which `Trees.mover` knows, an edge for each legal action.

    ``masks`` and ``probabilities`` ``(B, A)`` and ``values`` ``(B,)`` are those of the seat that moves.
    """
    size, edges = len(trees.mover) // trees.used.shape[1], len(trees.action) // trees.used.shape[1]
    for row in range(len(nodes)):
        node, tree = nodes[row], nodes[row] // size
        first = edge = tree * edges + trees.used[1, tree]
        for action in range(masks.shape[1]):
            if masks[row, action]:
                chance = max(probabilities[row, action], np.float32(1e-9))
                trees.action[edge], trees.prior[edge], trees.logit[edge] = action, chance, np.log(chance)
                trees.visits[edge], trees.total[edge], trees.child[edge] = 0, 0.0, NONE
                edge += 1
        trees.first[node], trees.choices[node] = first, edge - first
        trees.used[1, tree] += edge - first
        trees.value[node] = min(max(values[row], np.float32(-1)), np.float32(1))


@compiled_with_arrays
def descend(trees: Trees, budget: Ints, noise: Floats) -> Ints:
    """Goes from the root of each tree to an edge without a child, and gives it one; returns these nodes ``(T,)``.

    Args:
        trees: with their roots.
        budget: by tree, how often a root's edge has been visited that is visited now, ``(T,)``; `NONE`: by PUCT.
        noise: Gumbel numbers for the root's edges ``(T, most)``.

    Where a tree leads to an end that it knows, it is passed up at once, and the node is `NONE`.
    """
    count = trees.used.shape[1]
    size, found = len(trees.mover) // count, np.full(count, NONE)
    for tree in range(count):
        node = tree * size
        while True:
            if trees.mover[node] == NONE:
                _pass_up(trees, node, trees.value[node])
                break
            if budget[tree] == NONE:
                edge = _by_puct(trees, node)
            elif node == tree * size:
                edge = _by_gumbel(trees, node, budget[tree], noise[tree])
            else:
                edge = _by_completion(trees, node)
            if trees.child[edge] != NONE:
                node = trees.child[edge]
                continue
            new = tree * size + trees.used[0, tree]
            trees.used[0, tree] += 1
            trees.child[edge], trees.parent[new], trees.via[new], trees.choices[new] = new, node, edge, 0
            found[tree] = new
            break
    return found


@compiled
def pass_up(trees: Trees, nodes: Ints) -> None:
    """Adds the values of new nodes to all edges above them."""
    for node in nodes:
        value = trees.value[node]
        _pass_up(trees, node, -value if trees.mover[node] == 1 else value)


@compiled
def _pass_up(trees: Trees, node: int, value: float) -> None:
    while trees.parent[node] != NONE:
        edge, node = trees.via[node], trees.parent[node]
        trees.visits[edge] += 1
        trees.total[edge] += value if trees.mover[node] == 0 else -value


@compiled
def _by_puct(trees: Trees, node: int) -> int:
    first, count = trees.first[node], trees.choices[node]
    visits, total = 0, 0.0
    for edge in range(first, first + count):
        visits += trees.visits[edge]
        total += trees.total[edge]
    unknown = (trees.value[node] + total) / (1 + visits) - REDUCTION
    best, chosen = -np.inf, first
    for edge in range(first, first + count):
        own = trees.visits[edge]
        value = trees.total[edge] / own if own else unknown
        score = value + EXPLORATION * trees.prior[edge] * np.sqrt(visits + 1.0) / (1 + own)
        if score > best:
            best, chosen = score, edge
    return int(chosen)


@compiled_with_arrays
def completed(trees: Trees, node: int) -> Floats:
    """Returns the logits of a node's edges with their values: what the policy should have said, ``(count,)``.

    Edges without visits count with the mean of the network's value and those of the edges that have some.
    """
    first, count = trees.first[node], trees.choices[node]
    visits, most, known, chances = 0, 0, 0.0, 0.0
    for edge in range(first, first + count):
        own = trees.visits[edge]
        visits, most = visits + own, max(most, own)
        if own:
            known += trees.prior[edge] * trees.total[edge] / own
            chances += trees.prior[edge]
    mixed = trees.value[node]
    if visits:
        mixed = (trees.value[node] + visits * known / chances) / (1 + visits)
    improved = np.empty(count, np.float32)
    for number in range(count):
        edge = first + number
        own = trees.visits[edge]
        value = trees.total[edge] / own if own else mixed
        # From 0 to 1, as the paper's constants are for.
        improved[number] = trees.logit[edge] + (VISITS + most) * SCALE * (value + 1) / 2
    return improved


@compiled_with_arrays
def _by_gumbel(trees: Trees, node: int, budget: int, noise: Floats) -> int:
    first, improved = trees.first[node], completed(trees, node)
    best, chosen = -np.inf, first
    for number in range(len(improved)):
        score = noise[number] + improved[number]
        if trees.visits[first + number] == budget and score > best:
            best, chosen = score, first + number
    return int(chosen)


@compiled_with_arrays
def _by_completion(trees: Trees, node: int) -> int:
    first, improved = trees.first[node], completed(trees, node)
    chances = np.exp(improved - improved.max())
    chances /= chances.sum()
    visits = 0
    for edge in range(first, first + len(chances)):
        visits += trees.visits[edge]
    best, chosen = -np.inf, first
    for number in range(len(chances)):
        score = chances[number] - trees.visits[first + number] / (1 + visits)
        if score > best:
            best, chosen = score, first + number
    return int(chosen)
