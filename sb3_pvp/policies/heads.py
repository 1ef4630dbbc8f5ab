"""Autoregressive action heads (training.md §3.5 to §3.10), evaluated in parallel for given actions.

The inputs of head ``i`` are the trunk's output, the normalised one-hot choices of the heads before it and, optionally,
the masks of the heads after it. In most ticks of a fight, masks and earlier choices leave most heads a single entry,
which has probability one whatever the network says. So on the CPU heads with hidden layers only run on rows where they
have a choice, the trunk on rows where any head has one, and compiled loops do what is not a product of matrices
(`sb3_pvp.policies.kernels`). Other devices compute everything in fixed shapes, because waiting for the number
of choices would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn

from sb3_pvp.game.contract import DependencyTables
from sb3_pvp.policies.networks import (
    ROWS_AT_ONCE,
    Layer,
    Layers,
    LinearLayer,
    RunningNormalizer,
    in_float32,
    make_network,
)

HIDDEN_GAIN, LOGITS_GAIN = sqrt(2), 0.01
#: The least log-probability, that of entries that are not legal; entropies would be NaN with that of zero.
IMPOSSIBLE = -1e8
#: From its inputs ``(batch, ...)`` to its output ``(batch, num_inputs)``, row by row.
Trunk = Callable[[th.Tensor], th.Tensor]
NO_TRUNK: Trunk = nn.Identity()
#: The last arguments of `AutoregressiveHeads`, in order.
HEAD_FLAGS = ("autoregressive", "normalize_actions", "future_masks", "scale_constants")

#: The tables of `DependencyRules` that are saved.
_RULES = ("forbids", "permits", "asks_any")


class DependencyRules(nn.Module):
    """Rules between heads as tables over the ``A`` flat entries, the sub-actions of all heads.

    The rules are persistent buffers, so a saved policy needs no contract. Without ``tables`` there are no rules.
    """

    forbids: th.Tensor  #: Float ``(A, A)``: how many rules forbid the column's entry once the row's is chosen.
    permits: th.Tensor  #: Float ``(A, A)``: 1 where choosing the row satisfies a ``require_any`` of the column.
    asks_any: th.Tensor  #: Bool ``(A,)``: entries with a ``require_any``.
    columns: th.Tensor  #: Int ``(heads, widest head)``: flat entry of each sub-action, padded with ``A``.
    offsets: th.Tensor  #: Int ``(heads + 1,)``: flat entry where each head begins, and ``A``.
    head_of: th.Tensor  #: Int ``(A,)``: the head of each entry.
    places: th.Tensor  #: Int ``(A,)``: `places_of` all heads.
    membership: th.Tensor  #: Float ``(A, heads)``: 1 where an entry belongs to a head.

    def __init__(self, head_sizes: tuple[int, ...], tables: DependencyTables | None = None) -> None:
        super().__init__()
        self.head_sizes, self.num_flat, self.widest = head_sizes, sum(head_sizes), max(head_sizes)
        self.starts = tuple(int(start) for start in np.cumsum((0, *head_sizes[:-1])))
        columns = np.full((len(head_sizes), self.widest), self.num_flat)
        for head, (start, size) in enumerate(zip(self.starts, head_sizes, strict=True)):
            columns[head, :size] = np.arange(start, start + size)
        membership = np.eye(len(head_sizes), dtype=np.float32).repeat(head_sizes, axis=0)
        # Rules are about heads before: one head has none, and its actions may be thousands.
        is_alone, flat = len(head_sizes) == 1, self.num_flat
        rules = (*np.zeros((2, flat, 1), np.float32), np.zeros(flat, np.bool_))
        if not is_alone:
            rules = _compiled(tables or DependencyTables(*np.zeros((3, flat, flat), np.bool_)), membership)
        for name, values in zip(_RULES, rules, strict=True):
            self.register_buffer(name, th.as_tensor(values), persistent=not is_alone)
        if is_alone:
            # The public method needs a newer PyTorch.
            self._register_load_state_dict_pre_hook(_without_rules)  # type: ignore[no-untyped-call]
        derived = {"columns": columns, "membership": membership, "head_of": membership.argmax(1)}
        derived |= {"offsets": np.append(self.starts, self.num_flat)}
        for name, values in derived.items():
            self.register_buffer(name, th.as_tensor(values), persistent=False)
        self.register_buffer("places", self.places_of(range(len(head_sizes))), persistent=False)

    def one_hot(self, actions: th.Tensor) -> th.Tensor:
        """Returns the concatenated one-hot encodings, float ``(batch, A)``, of actions, int ``(batch, heads)``."""
        encoded = self.forbids.new_zeros(len(actions), self.num_flat)
        return encoded.scatter_(1, actions + self.offsets[:-1], 1.0)

    def legal(self, masks: th.Tensor, actions: th.Tensor, compiled: bool) -> th.Tensor:
        """Returns which entries masks, bool ``(batch, A)``, and rules allow, given actions, int ``(batch, heads)``.

        Of a head without such an entry it is entry 0 (training.md §3.6). ``compiled`` is possible on the CPU only."""
        if not compiled:
            # The same in Numba: `sb3_pvp.policies.kernels.legal_entries`.
            # All heads at once: for given actions it is known what the earlier heads have chosen.
            chosen = self.one_hot(actions)
            legal = masks & (chosen @ self.forbids == 0) & ((chosen @ self.permits > 0) | ~self.asks_any)
            firsts, has_none = self.offsets[:-1], legal.float() @ self.membership == 0
            return legal.index_copy(1, firsts, legal.index_select(1, firsts) | has_none)
        from sb3_pvp.policies.kernels import legal_entries  # Numba takes long to import

        given = (masks, actions, self.offsets, self.forbids, self.permits, self.asks_any)
        return th.from_numpy(legal_entries(*(part.contiguous().numpy() for part in given)))

    def places_of(self, heads: Sequence[int]) -> th.Tensor:
        """Returns where each entry is in the concatenated logits of some heads, padded to the widest, int ``(A,)``;
        entries of other heads are at their end."""
        end = len(heads) * self.widest
        places = th.full((self.num_flat + 1,), end)
        places[self.columns[list(heads)].flatten()] = th.arange(end)
        return places[:-1]


def _compiled(tables: DependencyTables, membership: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Returns the buffers `_RULES`."""
    # "Requires this sub-action" is the same as "forbidden by all other sub-actions of that head".
    # So one table holds both kinds of rules, and a matrix product with the choices counts how many forbid an entry.
    forbids = tables.require_none.T.astype(np.float32)
    if tables.require_all.any():
        others = membership @ membership.T - np.eye(len(membership), dtype=np.float32)
        forbids = others @ tables.require_all.T + forbids
    return forbids, tables.require_any.T.astype(np.float32), np.asarray(tables.require_any.any(1))


def _without_rules(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Takes the tables out of a file of an earlier edition, see `DependencyRules`."""
    for name in _RULES:
        state.pop(prefix + name, None)


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
        scale_constants: bool = False,
    ) -> None:
        super().__init__()
        self.rules, self.num_inputs = rules, num_inputs
        self.autoregressive, self.normalize_actions, self.future_masks = autoregressive, normalize_actions, future_masks
        self.normalizer = RunningNormalizer(rules.num_flat, scale_constants=scale_constants)
        # A head may see what was decided before it, but must not see later choices: else the product of the heads'
        # probabilities would be no joint probability.
        head_of, order = rules.membership.argmax(1), th.arange(len(rules.head_sizes))[:, None]
        seen = [head_of < order] if autoregressive else []
        seen += [head_of > order] if future_masks else []
        visible = th.cat(seen, 1).float() if seen else th.zeros(len(order), 0)
        self.register_buffer("visible", visible, persistent=False)
        total = num_inputs + visible.shape[1]
        members: dict[Layers, list[int]] = {}
        for head, layers in enumerate(architectures):
            if layers and not layers[0].size:
                raise ValueError(
                    "a head cannot begin with dropout or an activation; put it at the end of net_arch['pi'] instead"
                )
            members.setdefault(layers, []).append(head)
        # Heads of one architecture share batched weights: on a GPU, one product a layer instead of one for each head.
        direct = members.pop((), [])
        #: Heads with hidden layers, grouped by equal architecture.
        self.groups = [HeadGroup(heads, total, layers, rules, visible) for layers, heads in members.items()]
        self.group_modules, self.direct = nn.ModuleList(self.groups), JointLogits(direct, total, rules, visible)

    def forward(
        self,
        inputs: th.Tensor,
        masks: th.Tensor,
        actions: th.Tensor,
        trunk: Trunk = NO_TRUNK,
        magnet: th.Tensor | None = None,
    ) -> tuple[th.Tensor, ...]:
        """Returns log-probabilities and entropies ``(batch, heads)`` of each head, given the actions before it.

        With ``magnet``, the `logits` of another policy, also the KL divergences from it. ``inputs`` are those of
        ``trunk``, by default the trunk's output ``(batch, num_inputs)``; masks are bool ``(batch, A)``, actions int
        ``(batch, heads)``."""
        return self._evaluate(inputs, masks, actions, trunk, magnet, compiled=inputs.is_cpu)

    def reference(
        self,
        inputs: th.Tensor,
        masks: th.Tensor,
        actions: th.Tensor,
        trunk: Trunk = NO_TRUNK,
        magnet: th.Tensor | None = None,
    ) -> tuple[th.Tensor, ...]:
        """Does the same as `forward`, on any device as `forward` does it on a GPU."""
        return self._evaluate(inputs, masks, actions, trunk, magnet, compiled=False)

    @th.no_grad()
    def logits(self, inputs: th.Tensor, masks: th.Tensor, actions: th.Tensor, trunk: Trunk = NO_TRUNK) -> th.Tensor:
        """Returns flat logits ``(batch, A)``, see `forward`; they mean something where a head has a choice."""
        return self._logits(inputs, masks, actions, trunk, compiled=inputs.is_cpu)[0]

    def probabilities(
        self, inputs: th.Tensor, masks: th.Tensor, actions: th.Tensor, trunk: Trunk = NO_TRUNK
    ) -> th.Tensor:
        """Returns the probabilities of all entries given earlier actions, float ``(batch, A)``; see `forward`."""
        # The same in Numba, from scores: `sb3_pvp.policies.kernels.entropies_and_probabilities`.
        logits, legal = self._logits(inputs, masks, actions, trunk, compiled=inputs.is_cpu)
        return self._conditionals(logits, legal).exp().flatten(1).index_select(1, self.rules.places)

    def encode(self, chosen: th.Tensor) -> th.Tensor:
        """Returns one-hot choices ``(batch, A)`` as heads see them (training.md §3.8)."""
        encoded: th.Tensor = self.normalizer(chosen) if self.normalize_actions else chosen
        return encoded

    def observe(self, actions: th.Tensor) -> None:
        """Collects actions, int ``(batch, heads)``, for the next update of the statistics of choices."""
        if not actions.is_cpu:
            for part in th.split(actions, ROWS_AT_ONCE):
                self.normalizer.observe(self.rules.one_hot(part))
            return
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

    @th.no_grad()
    def temper(self, head: int, temperature: float) -> None:
        """Divides the logits of one head by a temperature, in its weights."""
        for parameters in self._parameters_of(head)[-1]:
            parameters /= temperature

    def _evaluate(
        self,
        inputs: th.Tensor,
        masks: th.Tensor,
        actions: th.Tensor,
        trunk: Trunk,
        magnet: th.Tensor | None,
        compiled: bool,
    ) -> tuple[th.Tensor, ...]:
        """Returns the results of `forward`."""
        logits, legal = self._logits(inputs, masks, actions, trunk, compiled)
        if compiled:
            from sb3_pvp.policies.kernels import Conditionals  # Numba takes long to import

            given = logits, legal, actions, self.rules.offsets, IMPOSSIBLE
            results: tuple[th.Tensor, ...] = Conditionals.apply(*given)  # type: ignore[no-untyped-call]
            if magnet is None:
                return results
            from sb3_pvp.policies.head_gradients import Divergences

            given = logits, magnet, legal, self.rules.offsets, IMPOSSIBLE
            return *results, Divergences.apply(*given)  # type: ignore[no-untyped-call]
        # Their sum over heads is the log-probability of the joint action; entropies are logged head by head.
        log_probs = self._conditionals(logits, legal)
        results = log_probs.gather(2, actions[:, :, None]).squeeze(2), -(log_probs.exp() * log_probs).sum(2)
        if magnet is None:
            return results
        return *results, (log_probs.exp() * (log_probs - self._conditionals(magnet, legal))).sum(2)

    def _conditionals(self, logits: th.Tensor, legal: th.Tensor) -> th.Tensor:
        """Returns log-probabilities ``(batch, heads, widest head)`` for flat logits and legal entries ``(batch, A)``.

        The logits matter where a head has a choice between several legal entries; elsewhere the only one is certain."""
        # The same in Numba: `sb3_pvp.policies.kernels.Conditionals`.
        rules = self.rules
        # The same in Numba: `sb3_pvp.policies.kernels.choices`, and `rows_with_choice` while acting.
        has_choice = legal.float() @ rules.membership > 1
        # Replaced, as no number that one could add is less than what a network may say.
        scores = th.where(has_choice.index_select(1, rules.head_of), logits, 0.0).masked_fill(~legal, -th.inf)
        # The gradient of index_select() adds, that of an index in brackets sorts first.
        padded = nn.functional.pad(scores, (0, 1), value=-th.inf).index_select(1, rules.columns.flatten())
        return padded.reshape(-1, *rules.columns.shape).log_softmax(2).clamp(min=IMPOSSIBLE)

    def _logits(
        self, inputs: th.Tensor, masks: th.Tensor, actions: th.Tensor, trunk: Trunk, compiled: bool
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns flat logits and legal entries ``(batch, A)``, with compiled loops or dense PyTorch.

        Compiled, the logits are 0 where there is no choice: in all heads of rows without one, and in heads with hidden
        layers."""
        # Legal entries come first: they say where a head has a choice, and so where a network has to run at all.
        legal = self.rules.legal(masks, actions, compiled)
        if not compiled:
            latent, extra = trunk(inputs).float(), self._extra_inputs(masks, actions)
            return self._sum([group(latent, extra) for group in self.groups], latent, extra), legal
        from sb3_pvp.policies.kernels import choices  # Numba takes long to import

        # The trunk is most of the work of learning, so it only runs on rows with any choice.
        rows, places, counts = choices(legal.numpy(), self.rules.offsets.numpy())
        picked, of_heads = th.from_numpy(rows), th.split(th.from_numpy(places), counts.tolist())
        latent = trunk(inputs.index_select(0, picked)).float()
        extra = self._extra_inputs(masks.index_select(0, picked), actions.index_select(0, picked))
        logits = self._sum([group.on_rows(latent, extra, of_heads) for group in self.groups], latent, extra)
        return logits.new_zeros(legal.shape).index_copy(0, picked, logits), legal

    def _sum(self, parts: list[th.Tensor], latent: th.Tensor, extra: th.Tensor) -> th.Tensor:
        """Returns the flat logits of all heads ``(batch, A)``, given those of each group with hidden layers."""
        parts += [self.direct(latent, extra)] if self.direct.heads else []
        return sum(parts[1:], parts[0])

    def _extra_inputs(self, masks: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Returns the inputs beside the trunk's output ``(batch, extra inputs)``, in the order of `visible`."""
        # The same in Numba, while acting: `sb3_pvp.policies.kernels.sum_rows`.
        parts = [self.encode(self.rules.one_hot(actions))] if self.autoregressive else []
        parts += [masks.float()] if self.future_masks else []
        return th.cat(parts, 1) if parts else actions.new_zeros((len(actions), 0), dtype=th.float32)

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
            first = int(th.searchsorted(self.direct.entries, self.rules.starts[head]))
            return [(self.direct.weight[first : first + size], self.direct.bias[first : first + size])]
        # The logits of a group are as wide as the widest head: the rest of them belongs to no entry.
        index, linear = group.heads.index(head), group.linear_layers()
        *views, (weight, bias) = [(layer.weight[index].T, layer.bias[index, 0]) for layer in linear]
        return [*views, (weight[:size], bias[:size])]


class BatchedLinear(nn.Module):
    """A linear layer with separate weights for each of ``num_heads`` heads."""

    def __init__(self, num_heads: int, num_inputs: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(th.zeros(num_heads, num_inputs, num_outputs))
        self.bias = nn.Parameter(th.zeros(num_heads, 1, num_outputs))

    def forward(self, inputs: th.Tensor) -> th.Tensor:
        """Applies to each of ``(heads, rows, inputs)`` the layer of its head."""
        return th.baddbmm(self.bias, inputs, self.weight)


class HeadGroup(nn.Module):
    """The heads with the same hidden layers; ``visible`` is that of `AutoregressiveHeads`."""

    visible: th.Tensor  #: Float ``(heads of the group, extra inputs)``: 1 where a head sees an extra input.
    offsets: th.Tensor  #: As in `DependencyRules`.
    places: th.Tensor  #: Int ``(A,)``: `DependencyRules.places_of` the heads of the group.

    def __init__(
        self,
        heads: Sequence[int],
        num_inputs: int,
        layers: Sequence[Layer],
        rules: DependencyRules,
        visible: th.Tensor,
    ) -> None:
        super().__init__()
        self.heads = list(heads)
        derived = {"visible": visible[self.heads], "offsets": rules.offsets, "places": rules.places_of(heads)}
        for name, values in derived.items():
            self.register_buffer(name, values, persistent=False)
        layers = [*layers, Layer(size=rules.widest)]
        self.network, _ = make_network(num_inputs, layers, partial(BatchedLinear, len(heads)))

    def forward(self, latent: th.Tensor, extra: th.Tensor) -> th.Tensor:
        """Returns flat logits ``(batch, A)``, 0 for the heads of other groups.

        ``latent`` is the trunk's output ``(batch, num_inputs)``, ``extra`` the choices and masks of all heads
        ``(batch, extra inputs)``.
        """
        # The same in Numba: `sb3_pvp.policies.kernels.HeadInputs`, of rows with a choice only. At the end, `FlatLogits`
        # puts the logits of these rows to their places.
        hidden = th.cat([latent.expand(len(self.heads), -1, -1), extra * self.visible[:, None]], 2)
        *hidden_layers, last = self.network
        for module in hidden_layers:
            hidden = module(hidden)
        with in_float32(hidden):
            logits = last(hidden.float()).transpose(0, 1).flatten(1)
            return nn.functional.pad(logits, (0, 1)).index_select(1, self.places)

    def on_rows(self, latent: th.Tensor, extra: th.Tensor, rows_of: Sequence[th.Tensor]) -> th.Tensor:
        """Does the same on the CPU for some rows of each head, ``rows_of`` all heads: int ``(rows of the head,)``.

        The logits of other rows are 0."""
        from sb3_pvp.policies.head_gradients import FlatLogits
        from sb3_pvp.policies.kernels import HeadInputs  # Numba takes long to import

        rows = [rows_of[head] for head in self.heads]
        # Not an index per head: its gradient would be as large as the weights of all heads together.
        linear: dict[nn.Module, list[LinearLayer]] = {
            each: list(zip(each.weight.unbind(), each.bias.unbind(), strict=True)) for each in self.linear_layers()
        }
        *hidden_layers, last = self.network
        logits = []
        for index, hidden in enumerate(HeadInputs.apply(latent, extra, self.visible, *rows)):  # type: ignore[no-untyped-call]
            for module in hidden_layers:
                if isinstance(module, BatchedLinear):
                    weight, bias = linear[module][index]
                    hidden = th.addmm(bias, hidden, weight)
                else:
                    hidden = module(hidden)
            weight, bias = linear[last][index]
            with in_float32(hidden):
                logits.append(th.addmm(bias, hidden.float(), weight))
        flat: th.Tensor = FlatLogits.apply(len(latent), self.offsets, self.heads, rows, *logits)  # type: ignore[no-untyped-call]
        return flat

    def linear_layers(self) -> list[BatchedLinear]:
        """Returns the batched layers in order; the last one computes the logits."""
        return [module for module in self.network if isinstance(module, BatchedLinear)]


class JointLogits(nn.Module):
    """The heads without hidden layers: one matrix computes the logits of all of them."""

    entries: th.Tensor  #: Int ``(outputs,)``: the flat entry of each row of the matrix.
    visible: th.Tensor  #: Float ``(outputs, extra inputs)``: 1 where the head of an entry sees an extra input.

    def __init__(self, heads: Sequence[int], num_inputs: int, rules: DependencyRules, visible: th.Tensor) -> None:
        super().__init__()
        self.heads, self.num_flat = list(heads), rules.num_flat
        entries = rules.membership[:, self.heads].any(1).nonzero().flatten()
        self.weight = nn.Parameter(th.zeros(len(entries), num_inputs))
        self.bias = nn.Parameter(th.zeros(len(entries)))
        self.register_buffer("entries", entries, persistent=False)
        self.register_buffer("visible", visible[rules.head_of[entries]], persistent=False)

    def forward(self, latent: th.Tensor, extra: th.Tensor) -> th.Tensor:
        """Returns flat logits ``(batch, A)``, 0 for other heads; arguments as in `HeadGroup.forward`."""
        # As two products: to join the inputs first would copy the trunk's output.
        of_latent, of_extra = th.split(self.weight, [latent.shape[1], extra.shape[1]], 1)
        with in_float32(latent):
            logits = th.addmm(self.bias, latent, of_latent.T)
            if extra.shape[1]:
                logits = th.addmm(logits, extra, (of_extra * self.visible).T)
        if len(self.entries) == self.num_flat:
            return logits
        return logits.new_zeros(len(logits), self.num_flat).index_copy(1, self.entries, logits)
