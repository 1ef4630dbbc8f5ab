"""Autoregressive action heads (training.md §3.5 to §3.10), evaluated in parallel for given actions.

The inputs of head ``i`` are the trunk's output, the normalised one-hot choices of the heads before it and, optionally,
the masks of the heads after it. In most ticks of a fight, masks and earlier choices leave most heads a single entry,
which has probability one whatever the network says. So heads with hidden layers only run on rows where they have a
choice, grouped into tiles of rows that go through batched layers together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import sqrt

import numpy as np
import torch as th
from torch import nn

from sb3_pvp.contract import DependencyTables
from sb3_pvp.policies.networks import Layer, Layers, RunningNormalizer, make_network

HIDDEN_GAIN, LOGITS_GAIN = sqrt(2), 0.01
# Lower bound of log-probabilities before exp(): negligible, but not subnormal, which would slow the processor down.
SMALLEST = -80.0
# Rows that go through a head's layers together. Larger tiles waste work on padding where few rows have a choice,
# smaller ones copy the weights too often; 64 to 256 hardly differ.
TILE = 128
FORBIDDEN = -1e8
# A head without a legal entry takes entry 0 (training.md §3.6). Its penalty is smaller than that of the others: next to
# a legal entry its probability is still zero, and without one it is one. So this case needs no branch.
FORBIDDEN_FIRST = -1e4
#: The weight ``(outputs, inputs)`` and the bias ``(outputs,)`` of one linear layer.
LinearLayer = tuple[th.Tensor, th.Tensor]


class DependencyRules(nn.Module):
    """Rules between heads as tables over the ``A`` flat entries, the sub-actions of all heads.

    The rules are persistent buffers, so a saved policy needs no contract. Without ``tables`` there are no rules.
    """

    forbids: th.Tensor  #: Float ``(A, A)``: how many rules forbid the column's entry once the row's is chosen.
    permits: th.Tensor  #: Float ``(A, A)``: 1 where choosing the row satisfies a ``require_any`` of the column.
    asks_any: th.Tensor  #: Bool ``(A,)``: entries with a ``require_any``.
    penalties: th.Tensor  #: Float ``(A,)``: added to the logit of an entry that is not legal.
    columns: th.Tensor  #: Int ``(heads, widest head)``: flat entry of each sub-action, padded with ``A``.
    offsets: th.Tensor  #: Int ``(heads,)``: flat entry where each head begins.
    membership: th.Tensor  #: Float ``(A, heads)``: 1 where an entry belongs to a head.

    def __init__(self, head_sizes: tuple[int, ...], tables: DependencyTables | None = None) -> None:
        super().__init__()
        self.head_sizes, self.num_flat, self.widest = head_sizes, sum(head_sizes), max(head_sizes)
        self.starts = tuple(int(start) for start in np.cumsum((0, *head_sizes[:-1])))
        tables = tables or DependencyTables(*np.zeros((3, self.num_flat, self.num_flat), np.bool_))
        penalties = np.full(self.num_flat, FORBIDDEN, np.float32)
        penalties[list(self.starts)] = FORBIDDEN_FIRST
        columns = np.full((len(head_sizes), self.widest), self.num_flat)
        for head, (start, size) in enumerate(zip(self.starts, head_sizes, strict=True)):
            columns[head, :size] = np.arange(start, start + size)
        membership = np.eye(len(head_sizes), dtype=np.float32).repeat(head_sizes, axis=0)
        # "Requires this sub-action" is the same as "forbidden by all other sub-actions of that head".
        others = membership @ membership.T - np.eye(self.num_flat)
        forbids = others @ tables.require_all.T + tables.require_none.T
        self.register_buffer("forbids", th.as_tensor(forbids, dtype=th.float32))
        self.register_buffer("permits", th.as_tensor(tables.require_any.T.astype(np.float32)))
        self.register_buffer("asks_any", th.as_tensor(tables.require_any.any(1)))
        starts = np.array(self.starts)
        derived = {"penalties": penalties, "columns": columns, "offsets": starts, "membership": membership}
        for name, values in derived.items():
            self.register_buffer(name, th.as_tensor(values), persistent=False)

    def one_hot(self, actions: th.Tensor) -> th.Tensor:
        """Returns the concatenated one-hot encodings, float ``(batch, A)``, of actions, int ``(batch, heads)``."""
        encoded = self.forbids.new_zeros(len(actions), self.num_flat)
        return encoded.scatter_(1, actions + self.offsets, 1.0)

    def penalty(self, masks: th.Tensor, chosen: th.Tensor) -> th.Tensor:
        """Returns what to add to flat logits ``(batch, A)``: 0 for legal entries, else `penalties`.

        ``masks`` are bool ``(batch, A)``, ``chosen`` the `one_hot` choices of all heads."""
        legal = masks & (chosen @ self.forbids == 0)
        if self.asks_any.any():
            legal &= (chosen @ self.permits > 0) | ~self.asks_any
        return th.where(legal, 0.0, self.penalties)


class AutoregressiveHeads(nn.Module):
    """All heads of an `AutoregressivePolicy`, with its flags.

    ``num_inputs`` is the width of the trunk's output; ``architectures`` are the hidden layers of each head.
    """

    #: Float ``(heads, extra inputs)``: 1 where a head sees an extra input, that is a choice or a mask of another head.
    visible: th.Tensor

    def __init__(
        self,
        num_inputs: int,
        rules: DependencyRules,
        architectures: Sequence[Layers],
        autoregressive: bool,
        normalize_actions: bool,
        future_masks: bool,
    ) -> None:
        super().__init__()
        self.rules, self.num_inputs = rules, num_inputs
        self.autoregressive, self.normalize_actions, self.future_masks = autoregressive, normalize_actions, future_masks
        self.normalizer = RunningNormalizer(rules.num_flat)
        head_of, order = rules.membership.argmax(1), th.arange(len(rules.head_sizes))[:, None]
        seen = [head_of < order] if autoregressive else []
        seen += [head_of > order] if future_masks else []
        visible = th.cat(seen, 1).float() if seen else th.zeros(len(order), 0)
        self.register_buffer("visible", visible, persistent=False)
        total = num_inputs + visible.shape[1]
        members: dict[Layers, list[int]] = {}
        for head, layers in enumerate(architectures):
            if layers and not layers[0].size:
                raise ValueError("a head cannot begin with dropout; put it at the end of net_arch['pi'] instead")
            members.setdefault(layers, []).append(head)
        direct = members.pop((), [])
        #: Heads with hidden layers, grouped by equal architecture.
        self.groups = [HeadGroup(heads, total, layers, rules.widest) for layers, heads in members.items()]
        self.group_modules, self.direct = nn.ModuleList(self.groups), JointLogits(direct, total, rules)

    def forward(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns log-probabilities and entropies ``(batch, heads)`` of each head, given the actions before it.

        ``latent`` is the trunk's output ``(batch, num_inputs)``; masks are bool ``(batch, A)``, actions int
        ``(batch, heads)``."""
        penalty, num_legal, heads, rows, log_probs = self._conditionals(latent, masks, actions)
        picked = log_probs.gather(1, actions[rows, heads][:, None]).squeeze(1)
        entropies = -(log_probs.clamp(min=SMALLEST).exp() * log_probs).sum(-1)
        # Heads without a choice: 0 for the only entry possible, else a penalty. The last term cancels the penalty of
        # entry 0 where nothing is legal.
        certain = penalty.gather(1, actions + self.rules.offsets) - FORBIDDEN_FIRST * (num_legal == 0)
        none = latent.new_zeros(actions.shape)
        return certain.index_put((rows, heads), picked), none.index_put((rows, heads), entropies)

    @th.no_grad()
    def probabilities(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Returns the probabilities of all entries given earlier actions, float ``(batch, A)``; see `forward`."""
        penalty, _, heads, rows, log_probs = self._conditionals(latent, masks, actions)
        # In a head without a choice the penalties alone decide.
        certain = [own.softmax(1) for own in th.split(penalty, list(self.rules.head_sizes), 1)]
        padded = th.cat([*certain, penalty.new_zeros(len(penalty), 1)], 1)
        padded[rows[:, None], self.rules.columns[heads]] = log_probs.exp()
        return padded[:, :-1]

    def encode(self, chosen: th.Tensor) -> th.Tensor:
        """Returns one-hot choices ``(batch, A)`` as heads see them (training.md §3.8)."""
        encoded: th.Tensor = self.normalizer(chosen) if self.normalize_actions else chosen
        return encoded

    def observe(self, actions: th.Tensor) -> None:
        """Collects actions, int ``(batch, heads)``, for the next update of the statistics of choices."""
        if not actions.is_cpu:
            return self.normalizer.observe(self.rules.one_hot(actions))
        from sb3_pvp.policies.kernels import observe_choices  # Numba takes long to import

        observe_choices(actions.numpy(), self.rules.offsets.numpy(), self.normalizer.pending.numpy())

    def layers(self, head: int) -> list[LinearLayer]:
        """Returns copies of the linear layers of one head, as if it were a separate network.

        The first sees the trunk's output, the choices of earlier heads and the masks of later ones, if those are used.
        """
        (weight, bias), *rest = [(weight.clone(), bias.clone()) for weight, bias in self._parameters_of(head)]
        return [(weight[:, self._inputs_of(head)], bias), *rest]

    @th.no_grad()
    def set_layers(self, head: int, layers: Sequence[LinearLayer]) -> None:
        """Copies weights into one head, in the shapes of `layers`."""
        inputs: th.Tensor | slice = self._inputs_of(head)
        for (own_weight, own_bias), (weight, bias) in zip(self._parameters_of(head), layers, strict=True):
            own_weight[:, inputs] = weight
            own_bias.copy_(bias)
            inputs = slice(None)

    def _conditionals(
        self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor, th.Tensor]:
        """Returns penalties ``(batch, A)``, numbers of legal entries ``(batch, heads)``; and for each choice between
        several legal entries its head and row ``(choices,)`` and log-probabilities ``(choices, widest head)``."""
        chosen = self.rules.one_hot(actions)
        penalty = self.rules.penalty(masks, chosen)
        num_legal = (penalty == 0).float() @ self.rules.membership
        heads, rows = (num_legal.T > 1).nonzero().unbind(1)
        # The order must be that of `visible`.
        parts = [self.encode(chosen)] if self.autoregressive else []
        parts += [masks.float()] if self.future_masks else []
        extra = th.cat(parts, 1) if parts else chosen[:, :0]
        logits = self._logits(latent, extra, heads, rows)
        own = nn.functional.pad(penalty, (0, 1), value=FORBIDDEN)[rows[:, None], self.rules.columns[heads]]
        return penalty, num_legal, heads, rows, (logits + own).log_softmax(-1)

    def _logits(self, latent: th.Tensor, extra: th.Tensor, heads: th.Tensor, rows: th.Tensor) -> th.Tensor:
        """Returns logits ``(choices, widest head)`` for heads, in ascending order, and rows ``(choices,)``."""
        networks = [network for network in (*self.groups, self.direct) if network.heads]
        if len(networks) == 1:
            logits: th.Tensor = networks[0](latent, extra, self.visible, heads, rows)
            return logits
        logits = latent.new_zeros(len(heads), self.rules.widest)
        for network in networks:
            own = th.isin(heads, th.tensor(network.heads, device=heads.device)).nonzero().squeeze(1)
            part = network(latent, extra, self.visible, heads[own], rows[own])
            logits = logits.index_put((own,), part)
        return logits

    @th.no_grad()
    def initialize(self) -> None:
        """Initialises the weights of each head orthogonally (training.md §3.9); biases are zero already."""
        for head in range(len(self.rules.head_sizes)):
            layers = self.layers(head)
            for index, (weight, _) in enumerate(layers, 1):
                nn.init.orthogonal_(weight, LOGITS_GAIN if index == len(layers) else HIDDEN_GAIN)
            self.set_layers(head, layers)

    def _inputs_of(self, head: int) -> th.Tensor:
        """Returns which inputs a head sees, bool ``(inputs,)``."""
        return nn.functional.pad(self.visible[head], (self.num_inputs, 0), value=1.0).bool()

    def _parameters_of(self, head: int) -> list[LinearLayer]:
        """Returns views of the weights of one head, including inputs that it does not see."""
        size = self.rules.head_sizes[head]
        group = next((group for group in self.groups if head in group.heads), None)
        if group is None:
            first = int(self.direct.columns[head, 0])
            return [(self.direct.weight[first : first + size], self.direct.bias[first : first + size])]
        index, linear = group.heads.index(head), group.linear_layers()
        *views, (weight, bias) = [(layer.weight[index].T, layer.bias[index, 0]) for layer in linear]
        return [*views, (weight[:size], bias[:size])]


class BatchedLinear(nn.Module):
    """A linear layer with separate weights for each of ``num_heads`` heads."""

    def __init__(self, num_heads: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.zeros(num_heads, num_inputs, num_outputs))
        self.bias = nn.Parameter(th.zeros(num_heads, 1, num_outputs))

    def forward(self, inputs: th.Tensor, heads: th.Tensor) -> th.Tensor:
        """Applies to each tile of ``(tiles, rows, inputs)`` the layer of its head; ``heads``: int ``(tiles,)``."""
        return th.baddbmm(self.bias[heads], inputs, self.weight[heads])


class HeadGroup(nn.Module):
    """The heads with the same hidden layers; their logits are padded to ``num_logits``."""

    local: th.Tensor  #: Int ``(up to the last head + 1,)``: index in the group of each of its heads.

    def __init__(self, heads: Sequence[int], num_inputs: int, layers: Sequence[Layer], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        local = th.zeros(max(heads) + 1, dtype=th.int64)
        local[self.heads] = th.arange(len(heads))
        self.register_buffer("local", local, persistent=False)
        self.network, _ = make_network(
            num_inputs, [*layers, Layer(size=num_logits)], partial(BatchedLinear, len(heads))
        )

    def forward(
        self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, heads: th.Tensor, rows: th.Tensor
    ) -> th.Tensor:
        """Returns logits ``(choices, num_logits)`` for heads, in ascending order, and rows, int ``(choices,)``.

        ``latent`` is the trunk's output ``(batch, num_inputs)``, ``extra`` the choices and masks of other heads
        ``(batch, extra inputs)``, of which each head sees those that are ``visible (all heads, extra inputs)``.
        """
        tile_heads, slots = _tiles(self.local[heads], len(self.heads))
        tile_rows = rows.new_zeros(len(tile_heads), TILE)
        tile_rows.view(-1)[slots] = rows
        visible = visible[self.heads][tile_heads][:, None]
        hidden = th.cat([latent[tile_rows], extra[tile_rows] * visible], 2)
        for module in self.network:
            hidden = module(hidden, tile_heads) if isinstance(module, BatchedLinear) else module(hidden)
        return hidden.flatten(0, 1)[slots]

    def linear_layers(self) -> list[BatchedLinear]:
        """Returns the batched layers in order; the last one computes the logits."""
        return [module for module in self.network if isinstance(module, BatchedLinear)]


class JointLogits(nn.Module):
    """The heads without hidden layers: one matrix computes the logits of all of them."""

    entries: th.Tensor  #: Int ``(outputs,)``: the flat entry of each row of the matrix.
    columns: th.Tensor  #: Int ``(all heads, widest head)``: the row of each sub-action, padded with ``outputs``.
    head_of: th.Tensor  #: Int ``(outputs,)``: the head of each row of the matrix.

    def __init__(self, heads: Sequence[int], num_inputs: int, rules: DependencyRules) -> None:
        super().__init__()
        self.heads = list(heads)
        entries = rules.membership[:, self.heads].any(1).nonzero().flatten()
        rows = th.full((rules.num_flat + 1,), len(entries))
        rows[entries] = th.arange(len(entries))
        self.weight = nn.Parameter(th.zeros(len(entries), num_inputs))
        self.bias = nn.Parameter(th.zeros(len(entries)))
        derived = {"entries": entries, "columns": rows[rules.columns], "head_of": rules.membership.argmax(1)[entries]}
        for name, values in derived.items():
            self.register_buffer(name, values, persistent=False)

    def forward(
        self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, heads: th.Tensor, rows: th.Tensor
    ) -> th.Tensor:
        """Returns logits ``(choices, widest head)``; arguments as in `HeadGroup.forward`."""
        of_latent, of_extra = th.split(self.weight, [latent.shape[1], extra.shape[1]], 1)
        logits = th.addmm(self.bias, latent, of_latent.T) + extra @ (of_extra * visible[self.head_of]).T
        return nn.functional.pad(logits, (0, 1))[rows[:, None], self.columns[heads]]


def _tiles(heads: th.Tensor, num_heads: int) -> tuple[th.Tensor, th.Tensor]:
    """Cuts choices, given their heads ``(choices,)`` in ascending order, into tiles of `TILE` rows of one head.

    Returns the head of each tile ``(tiles,)``, and the slot of each choice in the concatenated tiles ``(choices,)``.
    """
    counts = heads.bincount(minlength=num_heads)
    tiles_of_head = (counts + TILE - 1) // TILE
    tile_heads = th.repeat_interleave(th.arange(num_heads, device=heads.device), tiles_of_head)
    # Empty slots at the end of each head's last tile, which shift the choices of all later heads.
    gaps = tiles_of_head * TILE - counts
    slots = th.arange(len(heads), device=heads.device) + (gaps.cumsum(0) - gaps)[heads]
    return tile_heads, slots
