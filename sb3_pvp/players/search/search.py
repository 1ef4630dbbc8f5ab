"""Search: what a fighter's network says about positions, looked at further in copies of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Copyable, Game, Outcome, World
from sb3_pvp.players.search import trees
from sb3_pvp.players.search.search_settings import SearchSettings
from sb3_pvp.players.search.trees import NONE, Trees

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
#: Returns probabilities ``(B, A)`` and values ``(B,)`` of positions, from observations ``(B, D)`` and masks ``(B, A)``.
Network = Callable[[Floats, NDArray[np.bool_]], tuple[Floats, Floats]]
#: What the worlds of one search may take of memory, in bytes, and how many positions the network sees at once.
MOST_BYTES, MOST_TREES = 1 << 29, 128
#: Sum of the concentrations of the noise on a root's priors, and its share (Silver et al. 2018).
_CONCENTRATION, _SHARE = 10.0, 0.25
_AT_ONCE = "both players move at once"


class Searched(NamedTuple):
    """What a search has found about ``B`` positions."""

    policy: Floats  #: What the network's policy should be there, ``(B, A)``: shares of visits, or improved logits.
    best: Ints  #: The best action ``(B,)``.
    value: Floats  #: For the seat that moves, ``(B,)``.

    def sampled(self, chance: NDArray[np.float64]) -> Ints:
        """Returns actions ``(B,)`` drawn from the policy with the numbers ``chance (B,)`` from 0 to 1."""
        sums, last = self.policy.cumsum(1), self.policy.shape[1] - 1
        drawn = (sums <= (chance * sums[:, -1])[:, np.newaxis]).sum(1)
        # Not beyond the last action that has any weight, whatever the sums were rounded to.
        actions: Ints = np.minimum(drawn, last - (self.policy[:, ::-1] > 0).argmax(1))
        return actions


def searchable_world(game: Game) -> World:
    """Returns a world of one fight.

    Raises `ValueError` if a search would need more than the game has, or would look at what a player may not know.
    """
    contract = game.contract
    if contract.partial_indices.size:
        raise _refused(game, "it has hidden information, at which a search would look")
    if contract.num_heads > 1 or contract.numbers.size:
        raise _refused(game, "it asks for several decisions at a time, or for numbers")
    world = game.make_world("sim", 1, 0, {})
    world.reset()
    if (world.masks.sum(2) > 1).all(1).any():
        why = _AT_ONCE
    elif not isinstance(world, Copyable):
        why = f"{type(world).__name__} has no copy_fights(), see sb3_pvp.game.Copyable"
    elif not getattr(game, "perfect_information", False):
        why = "nothing may be hidden; if both players see all there is, set perfect_information = True in the game"
    else:
        return world
    world.close()
    raise _refused(game, why)


def _refused(game: Game, why: str) -> ValueError:
    return ValueError(f"{game.name} cannot be searched: {why}")


class Search:
    """Searches positions of a game, many at once.

    Args:
        game: whose positions they are; worlds for their copies are made by it.
        network: of the fighter.
        settings: how.

    Raises `ValueError` as `searchable_world`.
    """

    def __init__(self, game: Game, network: Network, settings: SearchSettings) -> None:
        self._game, self._network, self.settings = game, network, settings
        self._worlds = dict[int, World]()
        world = self._worlds[1] = searchable_world(game)
        arrays = (each for each in vars(world).values() if isinstance(each, np.ndarray))
        room = MOST_BYTES // (sum(each.nbytes for each in arrays) * (settings.simulations + 2))
        self._most = max(min(room, MOST_TREES), 1)

    def look(self, world: World, fights: Ints, seats: Ints, random: Sequence[np.random.Generator | None]) -> Searched:
        """Returns what is found about the positions of fights ``(B,)``, in which the seats ``(B,)`` are to move.

        Noise is drawn from the generator of each position, ``None`` for no noise. Raises `ValueError` if both players
        have a choice.
        """
        parts = [slice(at, at + self._most) for at in range(0, len(fights), self._most)]
        found = [self._look(world, fights[part], seats[part], random[part]) for part in parts]
        return Searched(*map(np.concatenate, zip(*found, strict=True)))

    def close(self) -> None:
        """Closes the worlds with copies."""
        for world in self._worlds.values():
            world.close()
        self._worlds.clear()

    def _look(self, world: World, fights: Ints, seats: Ints, random: Sequence[np.random.Generator | None]) -> Searched:
        count, settings, most = len(fights), self.settings, int(world.masks[fights].sum(2).max())
        size = settings.simulations + 2
        copies, roots = self._copies(count * size), np.arange(count) * size
        tree = Trees.empty(count, size, most * 2 * size)
        copies.copy_fights(roots, world, fights)  # type: ignore[attr-defined]
        tree.mover[roots], tree.used[0] = seats, 1
        tree = self._grown(tree, copies, roots)
        edges = _edges(tree, roots)
        noise = np.zeros((count, max(map(len, edges))), np.float32)
        plan = np.full((count, settings.simulations), NONE)
        for row, (own, drawn) in enumerate(zip(edges, random, strict=True)):
            if settings.selection == "gumbel":
                noise[row, : len(own)] = 0 if drawn is None else drawn.gumbel(size=len(own))
                plan[row] = [*_budgets(min(settings.considered, len(own)), settings.simulations)]
            elif settings.noisy and drawn is not None:
                weights = drawn.dirichlet(np.full(len(own), _CONCENTRATION / len(own)))
                tree.prior[own] = (1 - _SHARE) * tree.prior[own] + _SHARE * weights
        for number in range(settings.simulations):
            nodes = trees.descend(tree, np.ascontiguousarray(plan[:, number]), noise)
            if (new := nodes[nodes != NONE]).size:
                tree = self._played(tree, copies, new)
        return self._results(tree, roots, noise)

    def _played(self, tree: Trees, copies: World, new: Ints) -> Trees:
        """Plays the moves that lead to new nodes, and passes up what the network says there."""
        before, actions = tree.parent[new], np.zeros((len(new), 2, 1), np.int64)
        # Who waits has one legal action.
        actions[:, :, 0] = copies.masks[before].argmax(2)
        actions[np.arange(len(new)), tree.mover[before], 0] = tree.action[tree.via[new]]
        copies.copy_fights(new, copies, before)  # type: ignore[attr-defined]
        copies.step(actions, new)
        outcome = copies.outcome[new, 0]
        over, on = new[outcome != Outcome.RUNNING], new[outcome == Outcome.RUNNING]
        ends = outcome[outcome != Outcome.RUNNING]
        tree.mover[over] = NONE
        tree.value[over] = (ends == Outcome.WON).astype(np.float32) - (ends == Outcome.LOST)
        choices = copies.masks[on].sum(2)
        # Where nobody has a choice, who has not moved before counts as who moves.
        both, later = choices[:, 0] == choices[:, 1], 1 - tree.mover[tree.parent[on]]
        tree.mover[on] = np.where(both, later, choices.argmax(1))
        tree = self._grown(tree, copies, on)
        trees.pass_up(tree, new)
        return tree

    def _grown(self, tree: Trees, copies: World, nodes: Ints) -> Trees:
        """Asks the network about nodes, and returns the trees with their edges."""
        if not nodes.size:
            return tree
        if (copies.masks[nodes].sum(2) > 1).all(1).any():
            raise _refused(self._game, _AT_ONCE)
        seats = tree.mover[nodes]
        masks = copies.masks[nodes, seats]
        chances, values = self._network(copies.obs[nodes, seats], masks)
        room = len(tree.action) // tree.used.shape[1]
        if (needed := tree.used[1].max() + masks.sum(1).max()) > room:
            tree = _with_room(tree, max(room * 2, needed))
        trees.grow(tree, nodes, masks, chances, values)
        return tree

    def _results(self, tree: Trees, roots: Ints, noise: Floats) -> Searched:
        policy, best = np.zeros((len(roots), self._game.contract.num_flat_actions), np.float32), np.zeros_like(roots)
        value = np.zeros(len(roots), np.float32)
        for row, (root, own) in enumerate(zip(roots.tolist(), _edges(tree, roots), strict=True)):
            visits, improved = tree.visits[own], trees.completed(tree, root)
            weights = visits.astype(np.float32)
            order = visits + tree.prior[own]  # the prior decides between as many visits
            if self.settings.selection == "gumbel":
                weights = np.exp(improved - improved.max())
                order = np.where(visits == visits.max(), noise[row, : len(own)] + improved, -np.inf)
            policy[row, tree.action[own]] = weights / weights.sum()
            best[row] = tree.action[own[order.argmax()]]
            value[row] = (tree.value[root] + tree.total[own].sum()) / (1 + visits.sum())
        return Searched(policy, best, value)

    def _copies(self, count: int) -> World:
        """Returns a world with as many fights at least, of which nothing is known yet."""
        if not self._worlds or max(self._worlds) < count:
            self.close()
            self._worlds[count] = self._game.make_world("sim", count, 0, {})
        return next(iter(self._worlds.values()))


def _edges(tree: Trees, roots: Ints) -> list[Ints]:
    return [np.arange(tree.first[root], tree.first[root] + tree.choices[root]) for root in roots.tolist()]


def _with_room(tree: Trees, edges: int) -> Trees:
    """Returns trees with room for more edges each."""
    count = tree.used.shape[1]
    room = len(tree.action) // count

    def moved(numbers: Ints) -> Ints:
        return np.where(numbers == NONE, NONE, numbers // room * edges + numbers % room)

    wider = {
        name: np.pad(getattr(tree, name).reshape(count, room), ((0, 0), (0, edges - room))).ravel()
        for name in ("action", "logit", "prior", "visits", "total", "child")
    }
    return tree._replace(first=moved(tree.first), via=moved(tree.via), **wider)


def _budgets(considered: int, simulations: int) -> Iterator[int]:
    """Yields, for each simulation, how often the candidate has been visited whose turn it is.

    Sequential halving: all candidates are visited equally often, then the better half, until two are left.
    """
    visits, left, made = [0] * considered, considered, 0
    if considered == 1:
        yield from range(simulations)
        return
    rounds = int(np.ceil(np.log2(considered)))
    while made < simulations:
        for _ in range(max(simulations // (rounds * left), 1)):
            for number in range(left):
                if made == simulations:
                    return
                yield visits[number]
                visits[number] += 1
                made += 1
        left = max(left // 2, 2)
