"""Action heads that see what the heads before them chose (training.md §3.5 to §3.10), evaluated for all heads at once.

Head ``i`` is a network on the trunk's output, the normalised one-hot encodings of the choices of heads before it and,
if asked for, the masks of the heads after it. In a fight most heads have nothing to decide in most ticks: masks and
earlier choices leave one entry. Such a head needs no network, its choice has probability one. So heads with hidden
layers are evaluated only where they have a choice, in tiles of rows that go through batched layers together.
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
# A log-probability whose probability is next to nothing, but no subnormal number, which processors are slow with.
SMALLEST = -80.0
# Rows that go through a head's layers together. More would be padded where few rows have a choice, with fewer the
# weights would be copied too often; 64 to 256 hardly differ.
TILE = 128
FORBIDDEN = -1e8
# Entry 0 is the choice of a head that has no legal one (training.md §3.6). It is forbidden too, but less so than the
# others: next to a legal entry it has no chance, and without one it has them all. So nobody has to test for that.
FORBIDDEN_FIRST = -1e4
#: The weight ``(outputs, inputs)`` and the bias ``(outputs,)`` of one linear layer.
LinearLayer = tuple[th.Tensor, th.Tensor]


class DependencyRules(nn.Module):
    """Rules between heads as tables over flat entries, the sub-actions of all heads; without ``tables`` none.

    They are buffers: a saved policy needs no contract.
    """

    forbids: th.Tensor  #: Float ``(A, A)``: how many rules forbid the entry of a column once that of a row is chosen.
    permits: th.Tensor  #: Float ``(A, A)``: 1 where choosing the row satisfies a ``require_any`` of the column.
    asks_any: th.Tensor
    penalties: th.Tensor
    columns: th.Tensor  #: Int ``(heads, widest head)``: flat entry of each sub-action; ``A`` where a head has fewer.
    offsets: th.Tensor
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
        # An entry that requires a sub-action is forbidden by every other choice of that head.
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
        """Concatenated one-hot encodings, float ``(batch, A)``, of joint actions, int ``(batch, heads)``."""
        encoded = self.forbids.new_zeros(len(actions), self.num_flat)
        return encoded.scatter_(1, actions + self.offsets, 1.0)

    def penalty(self, masks: th.Tensor, chosen: th.Tensor) -> th.Tensor:
        """What is added to the flat logits: 0 where allowed, else hugely negative; float ``(batch, A)``.

        That follows from masks, bool ``(batch, A)``, and the `one_hot` choices of all heads.
        """
        legal = masks & (chosen @ self.forbids == 0)
        if self.asks_any.any():
            legal &= (chosen @ self.permits > 0) | ~self.asks_any
        return th.where(legal, 0.0, self.penalties)


class AutoregressiveHeads(nn.Module):
    """All heads of an `AutoregressivePolicy`, whose arguments the flags are.

    Args:
        num_inputs: width of the trunk's output.
        rules: sizes of the heads, and the rules between them.
        architectures: the layers of each head before its logits.
    """

    #: Float ``(heads, extra inputs)``: 1 where a head sees an encoding or a mask, which follow the trunk's output.
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
                raise ValueError("a head cannot begin with a dropout; put it at the end of net_arch['pi'] instead")
            members.setdefault(layers, []).append(head)
        direct = members.pop((), [])
        #: Heads with hidden layers, grouped by equal architecture.
        self.groups = [HeadGroup(heads, total, layers, rules.widest) for layers, heads in members.items()]
        self.group_modules, self.direct = nn.ModuleList(self.groups), JointLogits(direct, total, rules)

    def forward(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Log-probabilities ``(batch, heads)`` of each head's action given those before it, and entropies likewise.

        Args:
            latent: the trunk's output ``(batch, num_inputs)``.
            masks: bool ``(batch, A)``.
            actions: int ``(batch, heads)``.
        """
        penalty, num_legal, heads, rows, log_probs = self._conditionals(latent, masks, actions)
        picked = log_probs.gather(1, actions[rows, heads][:, None]).squeeze(1)
        entropies = -(log_probs.clamp(min=SMALLEST).exp() * log_probs).sum(-1)
        # Where there is no choice, the log-probability is 0, or hugely negative.
        certain = penalty.gather(1, actions + self.rules.offsets) - FORBIDDEN_FIRST * (num_legal == 0)
        none = latent.new_zeros(actions.shape)
        return certain.index_put((rows, heads), picked), none.index_put((rows, heads), entropies)

    @th.no_grad()
    def probabilities(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """What each head chooses from, given the actions before it: float ``(batch, A)``; arguments as of `forward`."""
        penalty, _, heads, rows, log_probs = self._conditionals(latent, masks, actions)
        # Where there is nothing to choose, the penalties alone say which entry it is.
        certain = [own.softmax(1) for own in th.split(penalty, list(self.rules.head_sizes), 1)]
        padded = th.cat([*certain, penalty.new_zeros(len(penalty), 1)], 1)
        padded[rows[:, None], self.rules.columns[heads]] = log_probs.exp()
        return padded[:, :-1]

    def encode(self, chosen: th.Tensor) -> th.Tensor:
        """One-hot encodings as heads see them (training.md §3.8)."""
        encoded: th.Tensor = self.normalizer(chosen) if self.normalize_actions else chosen
        return encoded

    def layers(self, head: int) -> list[LinearLayer]:
        """The linear layers of one head as an own network would have them, the last one making its logits.

        Inputs of the first: trunk, one-hot encodings of earlier heads (if autoregressive), masks of later heads (if
        ``future_masks``). New tensors.
        """
        (weight, bias), *rest = [(weight.clone(), bias.clone()) for weight, bias in self._parameters_of(head)]
        return [(weight[:, self._inputs_of(head)], bias), *rest]

    @th.no_grad()
    def set_layers(self, head: int, layers: Sequence[LinearLayer]) -> None:
        """Puts weights into one head, in the shapes that `layers` gives."""
        inputs: th.Tensor | slice = self._inputs_of(head)
        for (own_weight, own_bias), (weight, bias) in zip(self._parameters_of(head), layers, strict=True):
            own_weight[:, inputs] = weight
            own_bias.copy_(bias)
            inputs = slice(None)

    def _conditionals(
        self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor, th.Tensor]:
        """Penalties ``(batch, A)``, numbers of legal entries ``(batch, heads)``, and the choices where there are any:
        heads and rows ``(choices,)``, and the log-probabilities ``(choices, widest head)`` given earlier actions."""
        chosen = self.rules.one_hot(actions)
        penalty = self.rules.penalty(masks, chosen)
        num_legal = (penalty == 0).float() @ self.rules.membership
        heads, rows = (num_legal.T > 1).nonzero().unbind(1)
        # What heads may see besides the trunk's output.
        parts = [self.encode(chosen)] if self.autoregressive else []
        parts += [masks.float()] if self.future_masks else []
        extra = th.cat(parts, 1) if parts else chosen[:, :0]
        logits = self._logits(latent, extra, heads, rows)
        own = nn.functional.pad(penalty, (0, 1), value=FORBIDDEN)[rows[:, None], self.rules.columns[heads]]
        return penalty, num_legal, heads, rows, (logits + own).log_softmax(-1)

    def _logits(self, latent: th.Tensor, extra: th.Tensor, heads: th.Tensor, rows: th.Tensor) -> th.Tensor:
        """Logits ``(choices, widest head)`` of single choices, given their heads, ascending, and their rows."""
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
        """Orthogonal weights (training.md §3.9), each head on its own; biases are zero already."""
        for head in range(len(self.rules.head_sizes)):
            layers = self.layers(head)
            for index, (weight, _) in enumerate(layers, 1):
                nn.init.orthogonal_(weight, LOGITS_GAIN if index == len(layers) else HIDDEN_GAIN)
            self.set_layers(head, layers)

    def _inputs_of(self, head: int) -> th.Tensor:
        """Which inputs a head sees, bool ``(inputs,)``."""
        return nn.functional.pad(self.visible[head], (self.num_inputs, 0), value=1.0).bool()

    def _parameters_of(self, head: int) -> list[LinearLayer]:
        """Views on the weights of one head, with all inputs of the first layer."""
        size = self.rules.head_sizes[head]
        group = next((group for group in self.groups if head in group.heads), None)
        if group is None:
            first = int(self.direct.columns[head, 0])
            return [(self.direct.weight[first : first + size], self.direct.bias[first : first + size])]
        index, linear = group.heads.index(head), group.linear_layers()
        *views, (weight, bias) = [(layer.weight[index].T, layer.bias[index, 0]) for layer in linear]
        return [*views, (weight[:size], bias[:size])]


class BatchedLinear(nn.Module):
    """One linear layer for each of ``num_heads`` heads."""

    def __init__(self, num_heads: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.zeros(num_heads, num_inputs, num_outputs))
        self.bias = nn.Parameter(th.zeros(num_heads, 1, num_outputs))

    def forward(self, inputs: th.Tensor, heads: th.Tensor) -> th.Tensor:
        """Applies to each tile ``(tiles, rows, inputs)`` the layer of its head; ``heads`` are ints ``(tiles,)``."""
        return th.baddbmm(self.bias[heads], inputs, self.weight[heads])


class HeadGroup(nn.Module):
    """The heads of equal architecture with hidden layers; logits are padded to ``num_logits``."""

    local: th.Tensor

    def __init__(self, heads: Sequence[int], num_inputs: int, layers: Sequence[Layer], num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        # The place of each head in the group, at the position of the head.
        local = th.zeros(max(heads) + 1, dtype=th.int64)
        local[self.heads] = th.arange(len(heads))
        self.register_buffer("local", local, persistent=False)
        self.network, _ = make_network(
            num_inputs, [*layers, Layer(size=num_logits)], partial(BatchedLinear, len(heads))
        )

    def forward(
        self, latent: th.Tensor, extra: th.Tensor, visible: th.Tensor, heads: th.Tensor, rows: th.Tensor
    ) -> th.Tensor:
        """Logits ``(choices, num_logits)`` of single choices, by their heads, ascending, and their rows of the batch.

        That follows from the trunk's output ``(batch, num_inputs)``, extra inputs ``(batch, extra inputs)``, and which
        of those each head sees, ``(all heads, extra inputs)``.
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
        """The batched layers in order; the last one makes the logits."""
        return [module for module in self.network if isinstance(module, BatchedLinear)]


class JointLogits(nn.Module):
    """The heads without hidden layers: one matrix makes the logits of all of them."""

    entries: th.Tensor  #: Int ``(outputs,)``, the flat entry of each row of the matrix.
    columns: th.Tensor  #: Int ``(all heads, widest head)``, the row of each sub-action; ``outputs`` where none is.
    head_of: th.Tensor

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
        """Logits ``(choices, widest head)`` of single choices; arguments as of `HeadGroup`."""
        of_latent, of_extra = th.split(self.weight, [latent.shape[1], extra.shape[1]], 1)
        logits = th.addmm(self.bias, latent, of_latent.T) + extra @ (of_extra * visible[self.head_of]).T
        return nn.functional.pad(logits, (0, 1))[rows[:, None], self.columns[heads]]


def _tiles(heads: th.Tensor, num_heads: int) -> tuple[th.Tensor, th.Tensor]:
    """Cuts choices, by their heads ``(choices,)``, ascending, into tiles of one head each; the last need not be full.

    Returns the head of each tile ``(tiles,)``, and where each choice lies in the tiles laid end to end ``(choices,)``.
    """
    counts = heads.bincount(minlength=num_heads)
    tiles_of_head = (counts + TILE - 1) // TILE
    tile_heads = th.repeat_interleave(th.arange(num_heads, device=heads.device), tiles_of_head)
    # Every head leaves this many slots empty before the first choice of the next one.
    gaps = tiles_of_head * TILE - counts
    slots = th.arange(len(heads), device=heads.device) + (gaps.cumsum(0) - gaps)[heads]
    return tile_heads, slots
