"""The agents of a team in slots of one size: where each one's part of a seat's observations, masks and actions is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch as th
from torch import nn
from torch.nn import functional as F

from sb3_pvp.game.contract import Agent, Contract
from sb3_pvp.policies.heads import DependencyRules
from sb3_pvp.policies.numbers import SCALE, gaussian_log_prob, normal_quantile


@dataclass(frozen=True)
class AgentActions:
    """What one agent decides in a step: some real numbers, then a choice per branch, in one vector."""

    continuous: int = 0
    branches: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The length of an action."""
        return self.continuous + len(self.branches)

    @property
    def encoded_size(self) -> int:
        """The length of what `encode` returns."""
        return self.continuous + sum(self.branches)

    def by_branch(self, entries: th.Tensor) -> tuple[th.Tensor, ...]:
        """Splits what there is of all choices ``(..., entries)`` into one tensor per branch."""
        return th.split(entries, [*self.branches], -1)

    def encode(self, actions: th.Tensor) -> th.Tensor:
        """Returns actions float ``(..., size)`` as ``(..., encoded_size)``: a choice becomes one-hot."""
        choices = actions[..., self.continuous :].long().unbind(-1)
        one_hot = [F.one_hot(each, size) for each, size in zip(choices, self.branches, strict=True)]
        return th.cat([actions[..., : self.continuous], *one_hot], -1).to(actions.dtype)


class AgentSlots(nn.Module):
    """Views of a seat by agents. Smaller agents are filled up: with zeros to see, and with entries that are not legal.

    ``K`` is the number of agents, ``H`` and ``A`` are the heads and entries of the seat.

    Attributes:
        sizes: what the agents of each kind see, in numbers; several kinds end in a one-hot of their own.
        width: of what each agent sees, filled up.
        continuous: how many numbers each agent decides on; they come before its choices.
        branches: entries of each other head of an agent, filled up.
    """

    _columns: th.Tensor
    _active: th.Tensor
    _entries: th.Tensor
    _joint: th.Tensor
    flat_places: th.Tensor  #: Int64 ``(A,)``: where each entry is in those of all agents, one after the other.
    numbers: th.Tensor  #: Int64: heads of the seat that are numbers, in the order of agents.
    number_entries: th.Tensor  #: Int64: the entry of each of them.

    def __init__(self, contract: Contract, num_frames: int, kinds: Sequence[int]) -> None:
        """Takes a contract with agents, and for each of them the number of its kind: those of a kind see as much."""
        super().__init__()
        agents, size = contract.agents, contract.num_observations
        self.kinds, zero = (*kinds,), num_frames * size  # behind the features there are a zero and a one
        frames = range(num_frames)
        seen = [[frame * size + each for frame in frames for each in range(*agent.observations)] for agent in agents]
        by_kind = dict(zip(kinds, map(len, seen), strict=True))
        self.sizes, most = tuple(by_kind[kind] for kind in sorted(by_kind)), max(map(len, seen))
        marks = np.eye(len(by_kind), dtype=int)[list(kinds)] if len(by_kind) > 1 else np.zeros((len(agents), 0), int)
        columns = [[*own, *[zero] * (most - len(own)), *zero + mark] for own, mark in zip(seen, marks, strict=True)]
        active = [zero + 1 if each.active is None else contract.observation_index(each.active) for each in agents]
        joint, widest = filled_up(contract)
        sizes = np.array([*contract.head_sizes, 1])[joint]
        self.width, self.continuous = len(columns[0]), len(contract.numbers) // len(agents)
        self.branches = widest[self.continuous :]
        # Behind the flat mask stand a false and a true one: entry 0 is legal of a head that an agent does not have.
        flat, starts = contract.num_flat_actions, [*contract.head_offsets[:-1].tolist(), contract.num_flat_actions + 1]
        entries = [
            [
                starts[head] + place if place < own else flat
                for head, own, most in zip(row, filled, widest, strict=True)
                for place in range(most)
            ]
            for row, filled in zip(joint, sizes.tolist(), strict=True)
        ]
        places = np.argsort(np.ravel(entries), kind="stable")[:flat]
        tables = {"_columns": columns, "_active": active, "_entries": entries, "_joint": joint, "flat_places": places}
        tables |= {"numbers": contract.numbers, "number_entries": contract.head_offsets[contract.numbers]}
        for name, table in tables.items():
            self.register_buffer(name, th.as_tensor(np.array(table)), persistent=False)

    def observations(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns what each agent sees ``(batch, K, width)`` and who is in the game, bool ``(batch, K)``.

        ``features (batch, frames * observations of the seat)`` are the frames, newest first.
        """
        filled = F.pad(F.pad(features, (0, 1)), (0, 1), value=1.0)
        return filled[:, self._columns], filled[:, self._active] != 0

    def masks(self, flat: th.Tensor) -> th.Tensor:
        """Returns the masks of each agent, bool ``(batch, K, entries of branches)``, of flat ones ``(batch, A)``."""
        return F.pad(F.pad(flat, (0, 1)), (0, 1), value=True)[:, self._entries[:, self.continuous :]]

    def actions(self, joint: th.Tensor) -> th.Tensor:
        """Returns the actions of each agent ``(batch, K, heads of an agent)``, of joint ones ``(batch, H)``."""
        own = F.pad(joint, (0, 1))[:, self._joint]
        if self.continuous:
            own[..., : self.continuous] *= SCALE
        return own

    def flat(self, entries: th.Tensor) -> th.Tensor:
        """Returns numbers for the entries of each agent ``(batch, K, entries)`` as ``(batch, A)``."""
        return entries.flatten(1)[:, self.flat_places]

    def decide(
        self,
        outputs: th.Tensor,
        log_std: th.Tensor,
        masks: th.Tensor,
        uniforms: th.Tensor,
        rules: DependencyRules,
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns legal actions of the seat ``(batch, H)`` and their log-probabilities ``(batch,)``.

        ``outputs`` are the means and logits of all agents ``(batch, K, entries)``, ``log_std`` the logarithms of the
        deviations of each one's numbers; the rest as in `sample_by_rules`. Numbers are not cut to -1 and 1.
        """
        flat = self.flat(outputs)
        actions, log_probs = sample_by_rules(flat, masks, uniforms, rules)
        if not self.continuous:
            return actions, log_probs
        means, spread = flat[:, self.number_entries], log_std.repeat(len(self.kinds))
        noise = normal_quantile(uniforms.to(flat.device)[:, self.numbers])
        decided, numbers = actions.to(flat.dtype), means + spread.exp() * noise
        decided[:, self.numbers] = numbers / SCALE
        return decided, log_probs + gaussian_log_prob(means, spread, numbers).sum(1)

    def choices(self, joint: th.Tensor) -> th.Tensor:
        """Returns joint actions as int64 ``(batch, H)``, with 0 for numbers."""
        return joint.index_fill(1, self.numbers, 0).long() if self.continuous else joint


def filled_up(contract: Contract) -> tuple[list[list[int]], tuple[int, ...]]:
    """Returns the heads of each agent by position, numbers first, and the most entries in each of these places.

    Those of smaller agents are filled up with a position behind all heads. Raises `ValueError` if agents decide on
    different numbers of numbers.
    """
    numbers, none = {*contract.numbers.tolist()}, contract.num_heads
    heads = [sorted(range(*agent.heads), key=lambda head: head not in numbers) for agent in contract.agents]
    counts = sorted({len(numbers & {*own}) for own in heads})
    if len(counts) > 1:
        raise ValueError(
            f"the agents of {contract.name} decide on {' or '.join(map(str, counts))} numbers: MAPOCA takes as many of "
            "each, so add numbers that have no effect"
        )
    joint = [[*own, *[none] * (max(map(len, heads)) - len(own))] for own in heads]
    return joint, tuple(np.array([*contract.head_sizes, 1])[joint].max(0).tolist())


def team_of(contract: Contract) -> Contract:
    """Returns a contract with agents: a game without them plays as one large agent, with a warning."""
    if contract.agents:
        return contract
    warnings.warn(f"{contract.name} has no agents: MAPOCA takes each side as one large agent", stacklevel=2)
    agent = Agent("team", (0, contract.num_observations), (0, contract.num_heads))
    return replace(contract, agents=(agent,), shared_weights=True)


def kinds_of(contract: Contract, shared: bool | str) -> list[int]:
    """Returns for each agent the number of the networks that it has, see `sb3_pvp.algorithms.mapoca.MAPOCAPolicy`.

    Raises `ValueError` if all agents should share one, but differ.
    """
    agents = contract.agents
    if shared is True:
        if not contract.shared_weights:
            sizes = sorted({each.observations[1] - each.observations[0] for each in agents})
            see = f" ({' or '.join(map(str, sizes))} numbers)" if len(sizes) > 1 else ""
            raise ValueError(
                f"the agents of {contract.name} do not see or do the same{see}: pass policy_kwargs={{'shared': False}} "
                "for networks of each agent, or 'kinds' for those of each size"
            )
        return [0] * len(agents)
    if shared is False:
        return [*range(len(agents))]
    if shared != "kinds":
        raise ValueError(f"shared is True, False or 'kinds', got {shared!r}")
    heads_of = [[(head.number, len(head.actions)) for head in contract.heads[slice(*each.heads)]] for each in agents]
    forms = [
        (each.observations[1] - each.observations[0], *heads) for each, heads in zip(agents, heads_of, strict=True)
    ]
    known = [*dict.fromkeys(forms)]
    return [known.index(each) for each in forms]


class PerKind(nn.Module):
    """A layer for each kind of agents: rows end in a one-hot of theirs, and so do results if ``keeps``."""

    def __init__(self, sizes: Sequence[int], make: Callable[[int], nn.Module], keeps: bool = False) -> None:
        """Takes how many numbers of its rows the layer of each kind sees, and what makes a layer for so many."""
        super().__init__()
        self.sizes, self.keeps = (*sizes,), keeps
        self.layers = nn.ModuleList([make(size) for size in sizes])

    def forward(self, rows: th.Tensor) -> th.Tensor:
        """Returns ``(..., outputs)`` for rows ``(..., inputs)``; absent agents, without a kind, are as the first."""
        marks = rows[..., -len(self.sizes) :]
        kinds, flat = marks.argmax(-1).flatten(), rows.flatten(0, -2)
        parts = [layer(flat[kinds == kind][:, : self.sizes[kind]]) for kind, layer in enumerate(self.layers)]
        # Sorted by kind, and then as they were before.
        results = th.cat(parts)[kinds.argsort(stable=True).argsort()].reshape(*rows.shape[:-1], -1)
        return th.cat([results, marks], -1) if self.keeps else results


def per_kind(kinds: Sequence[int], size: int, make: Callable[[int], nn.Module], keeps: bool = False) -> Any:
    """Returns a layer for rows of ``size``, or one per kind of agents; ``kinds`` are how much of its rows each sees."""
    return PerKind(kinds, make, keeps) if len(kinds) > 1 else make(size)


def layer_of(layers: Any, kind: int) -> Any:
    """Returns the layer of a kind of agents among those of `per_kind`."""
    return layers.layers[kind] if isinstance(layers, PerKind) else layers


def sample_by_rules(
    logits: th.Tensor, masks: th.Tensor, uniforms: th.Tensor, rules: DependencyRules
) -> tuple[th.Tensor, th.Tensor]:
    """Returns legal actions ``(batch, heads)`` of heads with rules alone between them, and their log-probabilities.

    Arguments are as in `kernels.sample_heads`; results are on the device of the logits.
    """
    from sb3_pvp.policies.kernels import sample_heads  # Numba takes long to import

    forbidden = th.zeros_like(rules.forbids).masked_fill(rules.forbids > 0, -th.inf)
    parts = (logits, masks, uniforms, forbidden, rules.permits, rules.asks_any)
    scores, allowed, numbers, table, permits, asks_any = (part.cpu().contiguous().numpy() for part in parts)
    given = scores, allowed, numbers, np.array(rules.starts), table, np.zeros(len(scores), np.int64)
    actions, log_probs, _ = sample_heads(*given, permits, asks_any)
    return th.from_numpy(actions).to(logits.device), th.from_numpy(log_probs).to(logits.device)
