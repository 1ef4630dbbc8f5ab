"""Action heads that see what the heads before them chose (training.md §3.5 to §3.10), computed for all heads at once.

Head ``i`` is a network on the trunk's output, the normalised one-hot encodings of the choices of heads before it and,
if asked for, the masks of the heads after it. Three things make that cheap:

- the first layers of all heads are one matrix, so the trunk's output is multiplied once;
- the layers after it are batched over heads of equal shape;
- when actions are given, as in learning, nothing is sequential.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import cast

import torch as th
from torch import nn

from sb3_pvp.policies.dependencies import FORBIDDEN, DependencyRules
from sb3_pvp.policies.layers import Layer, after_linear
from sb3_pvp.policies.normalization import RunningNormalizer

HIDDEN_GAIN, LOGITS_GAIN = sqrt(2), 0.01

#: The weight ``(outputs, inputs)`` and the bias ``(outputs,)`` of one linear layer.
LinearLayer = tuple[th.Tensor, th.Tensor]


class BatchedLinear(nn.Module):
    """One linear layer for each of ``num_heads`` heads: ``(heads, batch, inputs)`` to ``(heads, batch, outputs)``."""

    def __init__(self, num_heads: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.zeros(num_heads, num_inputs, num_outputs))
        self.bias = nn.Parameter(th.zeros(num_heads, 1, num_outputs))

    def forward(self, inputs: th.Tensor) -> th.Tensor:
        """Applies to every head its own layer."""
        return th.baddbmm(self.bias, inputs, self.weight)


class HeadGroup(nn.Module):
    """The heads of equal architecture, from the outputs of their first linear layers to their logits.

    Logits are padded to the widest head of all; what pads is forbidden later.
    """

    columns: th.Tensor

    def __init__(self, heads: Sequence[int], layers: Sequence[Layer], columns: th.Tensor, num_logits: int) -> None:
        super().__init__()
        self.heads = list(heads)
        # Columns of this group in the output of the first layer, or None if those are all, in order.
        self.register_buffer("columns", columns, persistent=False)
        self.first_size = layers[0].size
        modules, size = after_linear(layers[0]), self.first_size
        for layer in layers[1:]:
            if layer.is_linear:
                modules.append(BatchedLinear(len(heads), size, layer.size))
                size = layer.size
            modules += after_linear(layer)
        modules.append(BatchedLinear(len(heads), size, num_logits))
        self.network = nn.Sequential(*modules)

    def forward(self, first: th.Tensor) -> th.Tensor:
        """Logits ``(heads, batch, num_logits)`` from the outputs of all first layers ``(batch, their sum)``."""
        own = first if self.columns.numel() == first.shape[1] else first[:, self.columns]
        logits: th.Tensor = self.network(own.view(len(first), len(self.heads), self.first_size).transpose(0, 1))
        return logits

    def linear_layers(self) -> list[BatchedLinear]:
        """The batched layers in order; the last one makes the logits."""
        return [module for module in self.network if isinstance(module, BatchedLinear)]


class AutoregressiveHeads(nn.Module):
    """All heads of a policy.

    Args:
        num_inputs: width of the trunk's output.
        rules: sizes of the heads, and the rules between them.
        architectures: the layers of each head before its logits.
        autoregressive: false: heads do not see the choices of others (rules between heads hold all the same).
        normalize_actions: standardise the one-hot encodings with running statistics.
        future_masks: heads see the environment's masks of the heads after them.
    """

    def __init__(
        self,
        num_inputs: int,
        rules: DependencyRules,
        architectures: Sequence[tuple[Layer, ...]],
        autoregressive: bool = True,
        normalize_actions: bool = True,
        future_masks: bool = False,
    ) -> None:
        super().__init__()
        self.rules, self.num_inputs = rules, num_inputs
        self.autoregressive, self.normalize_actions, self.future_masks = autoregressive, normalize_actions, future_masks
        self.normalizer = RunningNormalizer(rules.num_flat)
        sizes, flat = rules.head_sizes, rules.num_flat
        #: Width of each head's first linear layer; where there is no hidden layer, that makes the logits.
        self.first_sizes = tuple(
            layers[0].size if layers else size for layers, size in zip(architectures, sizes, strict=True)
        )
        total = sum(self.first_sizes)
        self.trunk_weight = nn.Parameter(th.zeros(total, num_inputs))
        self.first_bias = nn.Parameter(th.zeros(total))
        self.action_weight = nn.Parameter(th.zeros(total, flat)) if autoregressive else None
        self.mask_weight = nn.Parameter(th.zeros(total, flat)) if future_masks else None
        rows = th.repeat_interleave(th.arange(len(sizes)), th.tensor(self.first_sizes))
        head_of = th.repeat_interleave(th.arange(len(sizes)), th.tensor(sizes))
        self.register_buffer("earlier", (head_of[None] < rows[:, None]).float(), persistent=False)
        self.register_buffer("later", (head_of[None] > rows[:, None]).float(), persistent=False)
        self.group_modules = nn.ModuleList(_make_groups(architectures, rows, max(sizes)))
        self._place_direct_logits(architectures, rows)
        self._initialize()

    earlier: th.Tensor
    later: th.Tensor
    direct_columns: th.Tensor

    @property
    def groups(self) -> list[HeadGroup]:
        """Heads with hidden layers, grouped by equal architecture."""
        return cast(list[HeadGroup], list(self.group_modules))

    def forward(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Evaluates given actions, all heads at once.

        Args:
            latent: the trunk's output ``(batch, num_inputs)``.
            masks: bool ``(batch, A)``.
            actions: int ``(batch, heads)``.

        Returns:
            Log-probabilities ``(batch, heads)`` of each head's action given those before it, and the entropies
            ``(batch, heads)`` of each head given the same.
        """
        log_probs = self.log_probs(latent, masks, actions)
        entropies = -(log_probs.exp() * log_probs).sum(-1)
        return log_probs.gather(-1, actions[..., None]).squeeze(-1), entropies

    def log_probs(self, latent: th.Tensor, masks: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Log-probabilities ``(batch, heads, widest head)`` of every entry, given the ``actions`` of earlier heads."""
        chosen = self.rules.one_hot(actions)
        logits = self._logits(self._first(latent, masks, chosen))
        return (logits + self.pad(self.rules.penalty(masks, chosen))).log_softmax(-1)

    def pad(self, flat: th.Tensor) -> th.Tensor:
        """Brings flat penalties ``(batch, A)`` into the shape ``(batch, heads, widest head)``; padding is forbidden."""
        return nn.functional.pad(flat, (0, 1), value=FORBIDDEN)[:, self.rules.columns]

    def layers(self, head: int) -> list[LinearLayer]:
        """The linear layers of one head as an own network would have them, the last one making its logits.

        Inputs of the first: trunk, one-hot encodings of earlier heads (if autoregressive), masks of later heads (if
        ``future_masks``). New tensors.
        """
        return [(weight.clone(), bias.clone()) for weight, bias in self._views(head)]

    @th.no_grad()
    def set_layers(self, head: int, layers: Sequence[LinearLayer]) -> None:
        """Puts weights into one head, in the shapes that `layers` gives; raises ``ValueError`` for other shapes."""
        current = self.layers(head)
        shapes = [[tuple(tensor.shape) for tensor in layer] for layer in current]
        given = [[tuple(tensor.shape) for tensor in layer] for layer in layers]
        if shapes != given:
            raise ValueError(f"head {head} has layers of the shapes {shapes}, got {given}")
        first, *rest = layers
        rows, blocks = self._rows(head), self._first_blocks(head)
        for (parameter, columns), part in zip(
            blocks, th.split(first[0], [c.stop - c.start for _, c in blocks], 1), strict=True
        ):
            parameter[rows, columns] = part
        self.first_bias[rows] = first[1]
        for (weight, bias), (own_weight, own_bias) in zip(rest, self._rest_views(head), strict=True):
            own_weight.copy_(weight)
            own_bias.copy_(bias)

    def first_matrices(self) -> tuple[th.Tensor | None, th.Tensor | None]:
        """What the first layers multiply the encoded actions and the masks with, ``(sum of first_sizes, A)`` each."""
        actions = None if self.action_weight is None else self.action_weight * self.earlier
        masks = None if self.mask_weight is None else self.mask_weight * self.later
        return actions, masks

    def _first(self, latent: th.Tensor, masks: th.Tensor, chosen: th.Tensor) -> th.Tensor:
        """Outputs ``(batch, sum of first_sizes)`` of the first linear layers of all heads."""
        first = th.addmm(self.first_bias, latent, self.trunk_weight.T)
        of_actions, of_masks = self.first_matrices()
        if of_actions is not None:
            first = first + self.encode(chosen) @ of_actions.T
        if of_masks is not None:
            first = first + masks.float() @ of_masks.T
        return first

    def encode(self, chosen: th.Tensor) -> th.Tensor:
        """One-hot encodings as heads see them (training.md §3.8)."""
        encoded: th.Tensor = self.normalizer(chosen) if self.normalize_actions else chosen
        return encoded

    def _logits(self, first: th.Tensor) -> th.Tensor:
        """Logits ``(batch, heads, widest head)`` from the outputs of all first layers."""
        parts = [group(first).transpose(0, 1) for group in self.groups]
        if self.direct_heads:
            parts.append(nn.functional.pad(first, (0, 1))[:, self.direct_columns])
        if len(parts) == 1:
            return parts[0]
        order = [head for group in self.groups for head in group.heads] + self.direct_heads
        logits: th.Tensor = th.cat(parts, 1)[:, th.tensor(order).argsort()]
        return logits

    def _place_direct_logits(self, architectures: Sequence[tuple[Layer, ...]], rows: th.Tensor) -> None:
        """Where the logits of heads without hidden layers stand in the output of the first layer."""
        self.direct_heads = [head for head, layers in enumerate(architectures) if not layers]
        columns = th.full((len(self.direct_heads), max(self.rules.head_sizes)), len(rows))
        for row, head in enumerate(self.direct_heads):
            own = th.nonzero(rows == head).flatten()
            columns[row, : len(own)] = own
        self.register_buffer("direct_columns", columns, persistent=False)

    @th.no_grad()
    def _initialize(self) -> None:
        """Orthogonal weights and zero biases (training.md §3.9), each head on its own."""
        for head in range(len(self.rules.head_sizes)):
            layers = self.layers(head)
            for index, (weight, bias) in enumerate(layers):
                nn.init.orthogonal_(weight, LOGITS_GAIN if index == len(layers) - 1 else HIDDEN_GAIN)
                bias.zero_()
            self.set_layers(head, layers)

    def _views(self, head: int) -> list[LinearLayer]:
        rows = self._rows(head)
        first = th.cat([parameter[rows, columns] for parameter, columns in self._first_blocks(head)], 1)
        return [(first, self.first_bias[rows]), *self._rest_views(head)]

    def _rest_views(self, head: int) -> list[LinearLayer]:
        group = next((group for group in self.groups if head in group.heads), None)
        if group is None:
            return []
        index, layers = group.heads.index(head), group.linear_layers()
        views = [(layer.weight[index].T, layer.bias[index, 0]) for layer in layers]
        weight, bias = views[-1]
        size = self.rules.head_sizes[head]
        return [*views[:-1], (weight[:size], bias[:size])]

    def _rows(self, head: int) -> slice:
        start = sum(self.first_sizes[:head])
        return slice(start, start + self.first_sizes[head])

    def _first_blocks(self, head: int) -> list[tuple[nn.Parameter, slice]]:
        start, size = self.rules.starts[head], self.rules.head_sizes[head]
        blocks = [(self.trunk_weight, slice(0, self.num_inputs))]
        if self.action_weight is not None:
            blocks.append((self.action_weight, slice(0, start)))
        if self.mask_weight is not None:
            blocks.append((self.mask_weight, slice(start + size, self.rules.num_flat)))
        return blocks


def _make_groups(architectures: Sequence[tuple[Layer, ...]], rows: th.Tensor, num_logits: int) -> list[HeadGroup]:
    members: dict[tuple[Layer, ...], list[int]] = {}
    for head, layers in enumerate(architectures):
        if layers and not layers[0].is_linear:
            raise ValueError("a head cannot begin with a dropout; put it at the end of net_arch['pi'] instead")
        if layers:
            members.setdefault(layers, []).append(head)
    return [
        HeadGroup(heads, layers, th.cat([th.nonzero(rows == head).flatten() for head in heads]), num_logits)
        for layers, heads in members.items()
    ]
