"""What a policy remembers of an episode: a recurrent cell, or attention over the last ticks.

A memory has a state per row, one vector of floats ``(rows, width)``: so files, sockets, actors and graphs carry all
kinds alike. It goes on by a tick while it acts (`EpisodeMemory.step`), and over whole sequences while it learns
(`EpisodeMemory.sequence`), from the states that it had at their starts; both compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, Literal

import numpy as np
import torch as th
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator
from torch import nn

from sb3_pvp.common.arguments import PositiveInt, read_model
from sb3_pvp.policies.networks import LEAST_ROWS_OF_LINEAR, filled, in_float32

#: What is said where something would use a policy without its memory.
NOT_CARRIED = "this policy has memory, which {what} cannot carry: {instead}"
_NO_SCORE = -1e9  #: Of what attention must not see; the tick itself is always seen.


class MemorySettings(BaseModel, frozen=True, extra="forbid", strict=True):
    """The argument ``memory`` of an `AutoregressivePolicy`.

    What is remembered goes into the actor beside what it sees, and with ``critic`` into the critic. ``length`` is how
    many steps of a rollout are learned from in one piece: gradients do not go further back.
    """

    kind: Literal["gru", "lstm", "attention"]
    #: Numbers that the actor gets, in sixteens: PyTorch computes what is left of others otherwise, so that the bits of
    #: a row would depend on where it is in the batch.
    size: Annotated[int, Field(ge=16, multiple_of=16)] = 64
    critic: bool = False
    length: PositiveInt = 32
    ticks: Annotated[int, Field(ge=2)] = 16  #: That attention sees, with the present one.
    heads: PositiveInt = 4  #: Of attention.

    @model_validator(mode="after")
    def _check(self) -> MemorySettings:
        if self.kind != "attention" and {"ticks", "heads"} & self.model_fields_set:
            raise ValueError("'ticks' and 'heads' are of attention")
        if self.kind == "attention" and self.size % self.heads:
            raise ValueError("the 'size' of attention must be a multiple of its 'heads'")
        return self

    @property
    def width(self) -> int:
        """Numbers of a state."""
        return {"gru": self.size, "lstm": 2 * self.size, "attention": 2 * self.size * (self.ticks - 1) + 1}[self.kind]

    def num_weights(self, num_inputs: int) -> int:
        """Returns how many weights, without biases, a memory of so many inputs has."""
        gates = {"gru": 3, "lstm": 4, "attention": 3}[self.kind]
        own = self.ticks if self.kind == "attention" else gates * self.size
        return gates * self.size * num_inputs + own * self.size

    def make(self, num_inputs: int) -> EpisodeMemory:
        """Returns a new memory of rows with so many features."""
        kinds = {"gru": GruMemory, "lstm": LstmMemory, "attention": AttentionMemory}
        return kinds[self.kind](self, num_inputs)


def read_memory(given: Mapping[str, Any] | None) -> MemorySettings | None:
    """Returns the settings in the argument ``memory`` of a policy; raises `ValueError` if they are wrong."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ValueError(f"memory must be a mapping, such as {{'kind': 'gru', 'size': 64}}, got {given!r:.60}")
    return read_model(MemorySettings, given, "memory setting")


@dataclass
class Remembered:
    """The states of rows, and which of these begin an episode; whoever acts with it replaces ``state``."""

    state: th.Tensor  #: Float ``(rows, width)``; only replaced, never changed in place.
    starts: th.Tensor  #: Bool ``(rows,)``.

    @classmethod
    def of(cls, state: NDArray[np.float32], starts: NDArray[Any], device: Any = "cpu") -> Remembered:
        """Returns arrays as tensors."""
        return cls(th.as_tensor(state, device=device), th.as_tensor(np.asarray(starts, np.bool_), device=device))

    def known(self) -> th.Tensor:
        """Returns the states, those before the first tick of an episode where one begins: zeros."""
        return th.where(self.starts[:, None], 0.0, self.state)


def packed_states(words: NDArray[np.uint64], states: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Returns random words ``(rows,)`` and states ``(rows, width)`` as one row of bits each, ``(rows, 2 + width)``."""
    return np.concatenate([words[:, None].view(np.uint32), np.ascontiguousarray(states).view(np.uint32)], 1)


def unpacked_states(rows: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Returns what `packed_states` has packed, as new arrays."""
    return rows[:, :2].copy().view(np.uint64)[:, 0], rows[:, 2:].copy().view(np.float32)


class EpisodeMemory(nn.Module):
    """What all kinds have in common; `width` is that of a state."""

    def __init__(self, settings: MemorySettings, num_inputs: int, outputs: int) -> None:
        super().__init__()
        self.settings, self.size, self.width = settings, settings.size, settings.width
        self.inputs = nn.Linear(num_inputs, outputs * self.size)
        for part in self.inputs.weight.data.chunk(outputs):
            nn.init.orthogonal_(part)
        nn.init.zeros_(self.inputs.bias)

    def initial(self, rows: int) -> th.Tensor:
        """Returns the state before the first tick of an episode, ``(rows, width)``."""
        return self.inputs.weight.new_zeros(rows, self.width)

    def step(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns what is remembered in a tick, ``(rows, size)``, and the next state.

        Args:
            features: of the tick, ``(rows, inputs)``.
            state: ``(rows, width)``.
            starts: where the tick is the first one of an episode, so that nothing before it counts, bool ``(rows,)``.
        """
        raise NotImplementedError

    def sequence(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Returns what `step` would in each of T ticks, ``(T, rows, size)``, with gradients.

        ``features`` are ``(T, rows, inputs)``, ``starts`` ``(T, rows)``, and ``state`` is that before the first tick.
        """
        raise NotImplementedError

    def given(self, state: Any, starts: Any, rows: int) -> Remembered:
        """Returns what a ``predict`` was given for so many rows, ``None`` or `Remembered` as arrays.

        A state may be in a tuple of one, as SB3 has them. Raises `ValueError` if one does not fit.
        """
        initial = self.initial(rows)
        begins = np.full(rows, state is None) if starts is None else np.atleast_1d(np.asarray(starts, np.bool_))
        if state is None:
            return Remembered(initial, th.as_tensor(begins, device=initial.device))
        (array,) = state if isinstance(state, tuple) and len(state) == 1 else (state,)
        if np.shape(array) != tuple(initial.shape) or begins.shape != (rows,):
            sizes = f"{np.shape(array)} with episode_start {begins.shape}"
            raise ValueError(
                f"the state has the shape {sizes}, but this memory has {tuple(initial.shape)}: pass on ours"
            )
        return Remembered.of(np.asarray(array, np.float32), begins, initial.device)

    def act(self, features: th.Tensor, remembered: Remembered) -> th.Tensor:
        """Returns what `step` does, and keeps the next state; no row depends on how many others there are."""
        given = (filled(part, LEAST_ROWS_OF_LINEAR) for part in (features, remembered.state, remembered.starts))
        output, state = self.step(*given)
        remembered.state = state[: len(features)]
        return output[: len(features)]

    def learn(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Does `sequence` on flat rows ``(T * rows, …)``, all of a tick and then the next, in float32."""
        rows = len(state)
        with in_float32(features):
            found = self.sequence(
                features.float().reshape(-1, rows, features.shape[1]), state, starts.reshape(-1, rows)
            )
        return found.flatten(0, 1)


class RecurrentMemory(EpisodeMemory):
    """A cell whose state is what it has made of all ticks until now."""

    def __init__(self, settings: MemorySettings, num_inputs: int, gates: int) -> None:
        super().__init__(settings, num_inputs, gates)
        self.recurrent = nn.Linear(self.size, gates * self.size)
        for part in self.recurrent.weight.data.chunk(gates):
            nn.init.orthogonal_(part)
        nn.init.zeros_(self.recurrent.bias)
        # At first it keeps most of what it has: what it forgets within a few ticks, it cannot learn to use.
        self.inputs.bias.data[self.size : 2 * self.size] = 1.0

    def advance(self, inputs: th.Tensor, state: th.Tensor) -> th.Tensor:
        """Returns the next state, whose first ``size`` columns are the output, for the layer's ``inputs``."""
        raise NotImplementedError

    def step(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Implements `EpisodeMemory.step`."""
        state = self.advance(self.inputs(features), th.where(starts[:, None], 0.0, state))
        return state[:, : self.size], state

    def sequence(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Implements `EpisodeMemory.sequence`."""
        # One product for the inputs of all ticks; only what a tick needs of the one before is a loop.
        ticks, any_starts = self.inputs(features).unbind(), starts.any(1).tolist()
        outputs = []
        for inputs, begin, is_any in zip(ticks, starts[:, :, None].unbind(), any_starts, strict=True):
            state = self.advance(inputs, th.where(begin, 0.0, state) if is_any else state)
            outputs.append(state[:, : self.size])
        return th.stack(outputs)


class GruMemory(RecurrentMemory):
    """A gated recurrent unit (https://arxiv.org/abs/1406.1078); the reset gate acts on the product, as in PyTorch."""

    def __init__(self, settings: MemorySettings, num_inputs: int) -> None:
        super().__init__(settings, num_inputs, 3)

    def advance(self, inputs: th.Tensor, state: th.Tensor) -> th.Tensor:
        """Implements `RecurrentMemory.advance`."""
        of_gates, of_new = th.split(inputs, [2 * self.size, self.size], 1)
        gates, new = th.split(self.recurrent(state), [2 * self.size, self.size], 1)
        reset, keep = th.sigmoid(of_gates + gates).chunk(2, 1)
        candidate = th.tanh(th.addcmul(of_new, reset, new))
        # Not lerp() or addcmul(), whose bits depend on where a row of whole memory is in the batch.
        return candidate + keep * (state - candidate)


class LstmMemory(RecurrentMemory):
    """Long short-term memory; a state is the output, then the cell."""

    def __init__(self, settings: MemorySettings, num_inputs: int) -> None:
        super().__init__(settings, num_inputs, 4)

    def advance(self, inputs: th.Tensor, state: th.Tensor) -> th.Tensor:
        """Implements `RecurrentMemory.advance`."""
        output, cell = th.split(state, self.size, 1)
        of_gates, of_new = th.split(inputs + self.recurrent(output), [3 * self.size, self.size], 1)
        enter, keep, leave = th.sigmoid(of_gates).chunk(3, 1)
        cell = th.addcmul(keep * cell, enter, th.tanh(of_new))
        return th.cat([leave * th.tanh(cell), cell], 1)


class AttentionMemory(EpisodeMemory):
    """Attention of the present tick to itself and the ``ticks - 1`` before it, by what is there and how old it is.

    A state is the keys of the ticks before, the newest first, then their values, and how many of them there are: what
    a tick has computed is never computed again.
    """

    def __init__(self, settings: MemorySettings, num_inputs: int) -> None:
        super().__init__(settings, num_inputs, 3)
        self.before, self.heads = settings.ticks - 1, settings.heads
        self.ages = nn.Parameter(th.randn(settings.ticks, self.size) / sqrt(self.size))  #: A key of each age.
        self.scale = 1 / sqrt(self.size // self.heads)

    def _split(self, part: th.Tensor) -> th.Tensor:
        return part.reshape(*part.shape[:-1], self.heads, -1)

    def _cached(self, state: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Returns keys and values ``(rows, ticks - 1, size)`` of a state."""
        both = state[:, :-1].reshape(-1, 2, self.before, self.size)
        return both[:, 0], both[:, 1]

    def step(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Implements `EpisodeMemory.step`."""
        query, *new = self.inputs(features).chunk(3, 1)
        count = th.where(starts, 0.0, state[:, -1])
        keys, values = (th.cat([own[:, None], old], 1) for own, old in zip(new, self._cached(state), strict=True))
        # Products of elements, not of matrices: so a row has the same bits whatever the others are.
        scores = (self._split(query)[:, None] * self._split(keys + self.ages)).sum(3) * self.scale
        is_seen = th.arange(self.before + 1, device=count.device) <= count[:, None]
        weights = th.where(is_seen[:, :, None], scores, _NO_SCORE).softmax(1)
        output = (weights[..., None] * self._split(values)).sum(1).flatten(1)
        count = (count + 1).clamp(max=self.before)
        kept = [part[:, : self.before].flatten(1) for part in (keys, values)]
        return output, th.cat([*kept, count[:, None]], 1)

    def sequence(self, features: th.Tensor, state: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Implements `EpisodeMemory.sequence`."""
        query, *new = self.inputs(features).chunk(3, 2)
        old = (part.flip(1).transpose(0, 1) for part in self._cached(state))  # the oldest first, as ticks go on
        keys, values = (th.cat([before, own]) for before, own in zip(old, new, strict=True))
        query, keys, values = (self._split(part).permute(1, 2, 0, 3) for part in (query, keys, values))
        ages = self.before + th.arange(len(starts), device=keys.device)[:, None]
        ages = ages - th.arange(keys.shape[2], device=keys.device)  # (T, ticks - 1 + T); below 0: not yet
        by_age = query @ self._split(self.ages).permute(1, 2, 0)  # (rows, heads, T, ticks)
        places = ages.clamp(0, self.before).expand(*by_age.shape[:2], -1, -1)
        scores = (query @ keys.transpose(2, 3) + by_age.gather(3, places)) * self.scale
        scores = th.where(self._seen(ages, state[:, -1], starts)[:, None], scores, _NO_SCORE)
        return (scores.softmax(3) @ values).permute(2, 0, 1, 3).flatten(2)

    def _seen(self, ages: th.Tensor, count: th.Tensor, starts: th.Tensor) -> th.Tensor:
        """Returns which ticks each one sees, bool ``(rows, T, ticks - 1 + T)``: the last ones of its own episode."""
        episodes = starts.cumsum(0).T  # 0 is the one that goes on from before
        # Of the ticks before the sequence, the newest is one tick old in the first one.
        is_there = ages[0, : self.before] <= count[:, None]
        before = th.where(is_there, 0, -1)
        of_keys = th.cat([before, episodes], 1)
        return (episodes[:, :, None] == of_keys[:, None]) & (ages >= 0) & (ages <= self.before)
