"""How the heads of a policy choose, as nodes of an ONNX graph.

In most ticks of a fight, masks and earlier choices leave most heads a single entry, which has probability one whatever
the network says (`sb3_pvp.policies.heads`). So each head is a branch of the graph, which only runs if the head has a
choice in some row of the batch; and so are the trunk and all heads together. In a batch of one, other nodes than those
of wide layers take the time of a call, whatever they compute: few nodes are better than few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.policies.export.onnx_builder import FLOAT, Floats, GraphBuilder, as_array
from sb3_pvp.policies.heads import AutoregressiveHeads
from sb3_pvp.policies.sampling import HeadTables

# A head chooses by logits plus penalties, which decide whatever the logits are, as these are limited to less. The first
# entry has the smaller penalty: a head without a legal entry takes it (training.md §3.6). All are powers of two, and
# close enough for the sums of many of them to be exact: 0 where an entry is legal.
_LARGEST_LOGIT, _FIRST, _OTHERS = 2.0**100, -(2.0**104), -(2.0**117)
#: The score of an entry that only exists in wider heads: less than others, however many rules forbid those.
_MISSING = float(np.finfo(np.float32).min)


class Joint(NamedTuple):
    """The choices of all heads, as values of a graph."""

    chosen: str  #: One-hot ``(batch, A)``.
    scores: str  #: Logits and penalties ``(batch, heads * widest head)``, padded.


class Layout:
    """Where the ``A`` entries of all heads are: in a row of numbers, and in one where all heads are as wide as the
    widest."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes, self.num_heads, self.widest = tuple(sizes), len(sizes), max(sizes)
        self.flat, self.padded = sum(sizes), len(sizes) * max(sizes)
        self.starts = [0, *np.cumsum(sizes).tolist()[:-1]]
        self.head_of = np.arange(len(sizes)).repeat(sizes)  #: The head of each entry.
        self.entries = np.arange(self.flat) - np.array(self.starts)[self.head_of]  #: The number of each in its head.
        self.places = self.head_of * self.widest + self.entries  #: Where each entry is when padded.
        self.penalties = np.where(self.entries == 0, _FIRST, _OTHERS).astype(np.float32)  #: Where it is not legal.

    def pad(self, rows: Floats, missing: float = 0.0) -> Floats:
        """Pads constants ``(..., A)``."""
        padded = np.full((*rows.shape[:-1], self.padded), missing, np.float32)
        padded[..., self.places] = rows
        return padded

    def columns(self, missing: int) -> NDArray[np.int64]:
        """Returns which entry each column is when padded, ``missing`` if none."""
        columns = np.full(self.padded, missing)
        columns[self.places] = np.arange(self.flat)
        return columns

    def per_head(self, graph: GraphBuilder, padded: str) -> str:
        """Adds padded numbers as ``(batch, heads, widest head)``."""
        return graph("Reshape", padded, graph.integers([0, self.num_heads, self.widest]))


def limited(graph: GraphBuilder, logits: str) -> str:
    """Adds logits that no penalty is less than."""
    return graph("Clip", logits, graph.constant(-_LARGEST_LOGIT), graph.constant(_LARGEST_LOGIT))


def thresholds(graph: GraphBuilder, numbers: str) -> str:
    """Adds what cumulative probabilities must exceed, for random numbers ``(batch, heads)``."""
    # A negative number becomes one that no cumulative probability exceeds, which selects the most likely entry.
    return graph("LeakyRelu", numbers, alpha=-1e38)


def drawn(graph: GraphBuilder, scores: str, threshold: str) -> str:
    """Adds draws of entries by inverse cumulative probability, one-hot, along the last axis.

    The same as in `sb3_pvp.policies.acting_kernels.sample_head`: it takes the first entry whose cumulative probability
    exceeds the threshold, and if none does the most likely one.
    """
    probabilities = graph("Softmax", scores, axis=-1)
    cumulative = graph("CumSum", probabilities, graph.integers(-1))
    exceeds = graph("Cast", graph("Greater", cumulative, threshold), to=FLOAT)
    return graph("Hardmax", graph("Max", exceeds, probabilities), axis=-1)


def independent_choices(graph: GraphBuilder, logits: str, mask: str, numbers: str, layout: Layout) -> Joint:
    """Adds the choices of heads that do not depend on each other, all at once.

    ``logits`` and ``mask`` are ``(batch, A)``, ``numbers (batch, heads)`` are random.
    """
    scores = graph("Where", mask, limited(graph, logits), graph.constant(layout.penalties))
    scores = graph("Pad", scores, graph.integers([0, 0, 0, 1]), graph.constant(_MISSING))
    scores = graph("Gather", scores, graph.integers(layout.columns(layout.flat)), axis=1)
    threshold = graph("Unsqueeze", thresholds(graph, numbers), graph.integers([2]))
    choices = graph("Flatten", drawn(graph, layout.per_head(graph, scores), threshold))
    return Joint(graph("Gather", choices, graph.integers(layout.places), axis=1), scores)


class DependentHeads:
    """The heads of an `AutoregressivePolicy`, of which each may depend on the choices of earlier ones."""

    def __init__(self, graph: GraphBuilder, heads: AutoregressiveHeads, tables: HeadTables, mask: str) -> None:
        self._graph, self._tables, self._layout = graph, tables, Layout(heads.rules.head_sizes)
        self._allowed, self._sees_masks = graph("Cast", mask, to=FLOAT), heads.future_masks
        self._penalties = self._layout.penalties
        self._forbids = as_array(heads.rules.forbids) * self._penalties
        self._rules_after = self._longest_chains((self._forbids != 0) | (tables.permits != 0))
        # Made here, where all branches find them.
        if any(self._rules_after):
            self._forbidden = graph.constant(self._layout.pad(self._forbids))
        if tables.asks_any.any():
            self._permits = graph.constant(self._layout.pad(tables.permits))
            self._unmet = graph.constant(self._layout.pad(self._penalties * tables.asks_any))

    def choices(self, latent: Callable[[], str], numbers: str) -> Joint:
        """Adds all choices, for random numbers ``(batch, heads)``; ``latent`` adds the trunk and returns its output."""
        graph, num_steps = self._graph, max(self._rules_after)
        scores = self._with_forced_choices() if num_steps else self._masked()
        chosen, first = self._first_legal(scores)
        # From one rule to the next that follows from it. The first step is done, except for a require_any.
        for _ in range(num_steps if self._tables.asks_any.any() else num_steps - 1):
            scores = self._with_rules(chosen)
            chosen, first = self._first_legal(scores)
        second = self._highest_others(scores, first)
        joint = graph("Concat", chosen, scores, axis=1)

        def decide() -> list[str]:
            return [self._in_order(latent(), thresholds(graph, numbers), joint, second)]

        (joint,) = graph.either(self._is_legal(graph("ReduceMax", second, keepdims=0)), decide, [joint])
        return Joint(*graph.split(joint, [self._layout.flat, self._layout.padded]))

    def _in_order(self, latent: str, threshold: str, joint: str, second: str) -> str:
        """Adds for each head a branch that decides, if it has a choice.

        ``joint`` and what is returned are both parts of a `Joint` side by side; ``second`` are `_highest_others`.
        """
        graph, num_heads = self._graph, self._layout.num_heads
        if self._sees_masks:
            latent = graph("Concat", latent, self._allowed, axis=1)
        has_choice = list[str]()
        for head, num_rules in enumerate(self._rules_after):
            if not has_choice:  # known up to the next head from which rules follow
                until = next((each + 1 for each in range(head, num_heads) if self._rules_after[each]), num_heads)
                sizes = [head, *[1] * (until - head), num_heads - until]
                has_choice = graph.split(self._is_legal(second), sizes)[1:-1]
            decide = partial(self._decided, latent, threshold, joint, head)
            unchanged = [joint, second] if num_rules else [joint]
            joint, *changed = graph.either(has_choice.pop(0), decide, unchanged)
            second = changed[0] if changed else second
        return joint

    def _decided(self, latent: str, threshold: str, joint: str, head: int) -> list[str]:
        """Adds the choice of one head; returns ``joint`` with it and, if rules follow from it, the new ``second``."""
        graph, flat, padded = self._graph, self._layout.flat, self._layout.padded
        start, size, place = self._layout.starts[head], self._layout.sizes[head], head * self._layout.widest
        sizes = [start, size, flat - start - size, place, size, padded - place - size]
        before, _, after, scores_before, scores, scores_after = graph.split(joint, sizes)
        scores = graph("Add", limited(graph, self._logits(latent, before, head)), scores)
        choice, second = drawn(graph, scores, self._columns(threshold, head, head + 1)), list[str]()
        for step in reversed(range(self._rules_after[head])):
            penalties = self._with_rules(graph("Concat", before, choice, after, axis=1))
            legal, first = self._first_legal(penalties)
            after = self._columns(legal, start + size, flat)
            if not step:
                scores_after = self._columns(penalties, place + size, padded)
                second = [self._highest_others(penalties, first)]
        return [graph("Concat", before, choice, after, scores_before, scores, scores_after, axis=1), *second]

    def _logits(self, latent: str, before: str, head: int) -> str:
        """Adds the logits ``(batch, size)`` of a head, given the choices of those before it."""
        graph, network, start = self._graph, self._tables.networks[head], self._layout.starts[head]
        own = slice(start, start + self._layout.sizes[head]) if network is None else slice(None)
        layer = self._tables.direct if network is None else network.first
        assert layer is not None
        weights = [layer.weight] if layer.masks is None else [layer.weight, layer.masks]
        if layer.choices is not None and start:
            latent = graph("Concat", latent, before, axis=1)
            weights.append(layer.choices[:start])
        hidden = graph.linear(latent, th.cat(weights)[:, own], layer.bias[own])
        for step in () if network is None else network.steps:
            if isinstance(step, partial):
                hidden = graph.linear(hidden, step.keywords["mat2"], step.args[0])
            else:
                hidden = graph.activation(hidden, step)
        return hidden

    def _first_legal(self, penalties: str) -> tuple[str, str]:
        """Adds the first legal entry of each head, one-hot, ``(batch, A)`` and padded ``(batch, heads, widest head)``;
        where no other is legal, it is the choice."""
        graph, layout = self._graph, self._layout
        first = graph("Hardmax", layout.per_head(graph, penalties), axis=2)
        return graph("Gather", graph("Flatten", first), graph.integers(layout.places), axis=1), first

    def _highest_others(self, penalties: str, first: str) -> str:
        """Adds for each head the highest penalty in any row of entries but the first legal one, ``(heads,)``: where
        none `_is_legal`, the head has no choice."""
        graph = self._graph
        excluded = graph("Mul", first, graph.constant(_OTHERS))
        others = graph("Add", self._layout.per_head(graph, penalties), excluded)
        return graph("ReduceMax", others, graph.integers([0, 2]), keepdims=0)

    def _masked(self) -> str:
        """Adds the padded penalties of masks."""
        # Not a Where, which takes as long as these together.
        graph, pad = self._graph, self._layout.pad
        allowed = graph("Gather", self._allowed, graph.integers(self._layout.columns(0)), axis=1)
        masked = graph("Mul", allowed, graph.constant(-pad(self._penalties)))
        return graph("Add", masked, graph.constant(pad(self._penalties, _MISSING)))

    def _with_forced_choices(self) -> str:
        """Adds the padded penalties of masks and of rules that follow from heads without a choice.

        Those of rules from other heads mean nothing yet. A head without a choice takes its legal entry, or else the
        first, so that penalties are a linear function of the mask.
        """
        graph, layout = self._graph, self._layout
        by_first = self._forbids[layout.starts]
        weight = self._forbids - by_first[layout.head_of] - np.diag(self._penalties)
        bias = layout.pad(self._penalties + by_first.sum(0), _MISSING)
        return graph("Gemm", self._allowed, graph.constant(layout.pad(weight)), graph.constant(bias))

    def _with_rules(self, chosen: str) -> str:
        """Adds the padded penalties of masks and rules."""
        graph = self._graph
        penalties = graph("Gemm", chosen, self._forbidden, self._masked())
        if self._tables.asks_any.any():
            is_met = graph("Greater", graph("MatMul", chosen, self._permits), graph.constant(0.0))
            penalties = graph("Add", penalties, graph("Where", is_met, graph.constant(0.0), self._unmet))
        return penalties

    def _is_legal(self, penalties: str) -> str:
        return self._graph("Greater", penalties, self._graph.constant(_FIRST / 2))

    def _columns(self, value: str, start: int, end: int) -> str:
        return self._graph("Slice", value, *(self._graph.integers([part]) for part in (start, end, 1)))

    def _longest_chains(self, has_rule: NDArray[np.bool_]) -> list[int]:
        """Returns for each head how many rules follow from its choice, one from the other.

        ``has_rule (A, A)`` tells whether choosing the row's entry may change if the column's is legal.
        """
        head_of, chains = self._layout.head_of, [0] * self._layout.num_heads
        for head in reversed(range(len(chains))):
            later = {*head_of[has_rule[head_of == head].any(0)].tolist()}
            chains[head] = max((1 + chains[each] for each in later), default=0)
        return chains
