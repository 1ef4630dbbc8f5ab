"""ONNX files as opponents: the actors that ``sb3-pvp export`` writes, and the fighters of Unity's ML-Agents.

A graph is a program of whoever made it. It cannot open files, and its numbers are checked before they become actions;
but it may take any time and all memory, which only limits of the process that runs it can prevent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.errors import foreign
from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.game.contract import Agent, Contract
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.export.played_graphs import read_graph
from sb3_pvp.policies.files.reading import ModelFile
from sb3_pvp.policies.files.registry import Algorithm, ModelOpponent
from sb3_pvp.policies.files.shipped import GRAPH
from sb3_pvp.policies.memory import packed_states, unpacked_states


class _Part(NamedTuple):
    """A part of a seat: what an agent sees and decides, or the seat as a whole."""

    columns: list[int]
    entries: slice
    heads: slice
    sizes: tuple[int, ...]
    numbers: tuple[bool, ...]  #: Which of its heads are numbers.
    active: int | None  #: The column that is 0 while the agent is out of the game.

    @classmethod
    def of(cls, contract: Contract, agent: Agent, sees_active: bool) -> _Part:
        """Returns the part of an agent, which ``sees_active`` or not."""
        active = None if agent.active is None else contract.observation_index(agent.active)
        columns = [each for each in range(*agent.observations) if sees_active or each != active]
        entries, heads = slice(*contract.head_offsets[[*agent.heads]].tolist()), slice(*agent.heads)
        numbers = tuple(head.number for head in contract.heads[heads])
        return cls(columns, entries, heads, contract.head_sizes[heads], numbers, active)


class _Seat(NamedTuple):
    """The parts of a seat that a graph decides, all of the same sizes, and those that must be out of the game."""

    own: list[_Part]
    others: list[_Part]
    num_heads: int


class OnnxOpponent(ModelOpponent):
    """A graph as an opponent, in the games whose contracts it has passed `check` for.

    A graph that sees what an agent of a team sees decides for each agent by itself, all in one batch. Its frames are
    the newest ones, unless its metadata has ``frame_ages``, as JSON. Raises `ValueError` for graphs of other forms.
    """

    def __init__(self, name: str, content: bytes) -> None:
        with foreign("its graph cannot be used"):
            self._graph, ages = read_graph(content)
        sees = spaces.Box(-np.inf, np.inf, (self._graph.frames, self._graph.features))
        # How the entries are divided among heads, only the contract says.
        decides = spaces.MultiDiscrete([self._graph.entries])
        super().__init__((sees, decides), hashlib.sha256(content).hexdigest(), ages, None)
        self.name, self._content = name, content
        self._checked: Contract | None = None  # by the last `check`
        self._seats: dict[tuple[int, int], _Seat] = {}  #: By the numbers of observations and entries of a contract.

    def __reduce__(self) -> Any:
        return OnnxOpponent, (self.name, self._content), {"_seats": self._seats}  # sessions cannot be pickled

    def check(self, contract: Contract) -> None:
        """Raises `ValueError` if the graph has other sizes than a seat or agents of the contract, or fails a trial."""
        if contract is self._checked:  # as for each episode of an environment
            return
        seat, size = self._seat(contract), (contract.num_observations, contract.num_flat_actions)
        if self._seats.get(size, seat) != seat:
            raise ValueError(f"{self.name} is in a game with other heads or agents, but as many as {contract.name} has")
        if size not in self._seats:
            sizes = seat.own[0].sizes
            numbers = np.repeat(np.array([[-1.0], [0.5]], np.float32), len(sizes), axis=1)
            seen = np.zeros((2, self._graph.frames, self._graph.features), np.float32)
            states = np.zeros((2, self._graph.memory), np.float32)
            self._decide(seen, np.ones((2, self._graph.entries), np.bool_), numbers, seat.own[0], states)
            self._seats[size] = seat
        self._checked = contract

    def of_agent(self, number: int, contract: Contract) -> OnnxOpponent:
        """Returns the same graph in a team, where it decides for this agent only; a graph of a whole seat is itself.

        Raises `ValueError` like `check`, and if the graph has the sizes of other agents.
        """
        self.check(contract)
        agent, size = contract.agents[number], (contract.num_observations, contract.num_flat_actions)
        own = self._seats[size].own
        part, other = (_Part.of(contract, agent, sees_active) for sees_active in (False, True))
        if mine := [each for each in (part, other) if each in own]:
            member = OnnxOpponent.__new__(OnnxOpponent)  # no second session
            vars(member).update(vars(self), _seats={size: _Seat(mine, [], contract.num_heads)})
            return member
        if own[0].sizes == contract.head_sizes:
            return self
        raise ValueError(
            f"{self.name} cannot play {agent.id} of {contract.name}, who sees {len(part.columns)} features and has "
            f"{sum(part.sizes)} entries of all heads: it sees {self._graph.features} and has {self._graph.entries}"
        )

    def _seat(self, contract: Contract) -> _Seat:
        """Returns what the graph decides of a seat."""
        graph = self._graph
        seat = [Agent("", (0, contract.num_observations), (0, contract.num_heads))]
        # Agents of ML-Agents do not see whether they are in the game, those of ours do.
        for agents, sees_active in ((seat, True), (contract.agents, True), (contract.agents, False)):
            parts = [_Part.of(contract, agent, sees_active) for agent in agents]
            fitting = [
                part
                for part in parts
                if (graph.features, graph.entries) == (len(part.columns), sum(part.sizes))
                and graph.heads in (0, len(part.sizes))
            ]
            own = [part for part in fitting if part[3:5] == fitting[0][3:5]]
            others = [part for part in parts if part not in own]
            # The others must be able to be out of the game, as those of the other side are in a seat.
            if own and graph.memory and len(own) > 1:
                raise ValueError(f"{self.name} has memory: it can play a whole seat, not each agent of {contract.name}")
            if own and all(part.active is not None for part in others):
                return _Seat(own, others, contract.num_heads)
        each = sorted({f"{len(part.columns)} and {sum(part.sizes)}" for part in parts})
        raise ValueError(
            f"{self.name} sees {graph.features} features, and chooses among {graph.entries} entries of all heads, but "
            f"{contract.name} has {contract.num_observations} and {contract.num_flat_actions}"
            + (f" (each agent {', or '.join(each)})" if each else "")
        )

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Returns random words, uint64 ``(N,)``; with memory as `sb3_pvp.policies.memory.packed_states`."""
        words = words_from_seeds(seeds, stream=3)
        return packed_states(words, self._nothing(len(seeds))) if self._graph.memory else words

    def _nothing(self, rows: int) -> Frames:
        return np.zeros((rows, self._graph.memory), np.float32)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: Any, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`; ``deterministic`` may be a flag per row.

        Raises `ValueError`, which names the file, if the graph fails, or computes NaN or actions that do not exist.
        """
        frames = np.ascontiguousarray(observation, np.float32).reshape(len(observation), self.num_frames, -1)
        seat = self._seats.get((frames.shape[2], action_masks.shape[1]))
        if seat is None:
            raise ValueError(f"{self.name} has not been checked for a game of {frames.shape[2]} features: call check()")
        if any(frames[:, 0, part.active].any() for part in seat.others):
            raise ValueError(f"{self.name} cannot decide for all agents of its team: some see or do other things")
        own, (words, states) = seat.own, unpacked_states(state) if self._graph.memory else (state, self._nothing(0))
        states[episode_start if len(states) else slice(0)] = 0
        numbers, words = uniforms(words, seat.num_heads)
        numbers[np.broadcast_to(deterministic, len(frames))] = -1.0  # selects the most likely entry
        decided, states = self._decide(
            np.concatenate([frames[:, :, part.columns] for part in own]),
            np.concatenate([action_masks[:, part.entries] for part in own]),
            np.concatenate([numbers[:, part.heads] for part in own]),
            own[0],
            states,
        )
        actions = np.zeros(numbers.shape, decided.dtype)
        for part, choices in zip(own, np.split(decided, len(own)), strict=True):
            plays = True if part.active is None else frames[:, 0, part.active, None] != 0
            actions[:, part.heads] = np.where(plays, choices, 0)
        return actions, packed_states(words, states) if self._graph.memory else words

    def _decide(
        self, seen: Frames, masks: Flags, numbers: Frames, part: _Part, states: Frames
    ) -> tuple[NDArray[Any], Frames]:
        """Returns checked actions ``(rows, heads)`` of such a part: int64, or float32 with numbers among them.

        And the next states of the memory, ``(rows, 0)`` without one.
        """
        sizes, is_number = part.sizes, np.array(part.numbers)
        with foreign(f"{self.name} cannot act"):
            actions, reasons, *following = self._graph.decide(seen, masks, numbers, sizes, states)
            following = following or [states]
            if any(np.isnan(part).any() for part in (reasons, actions, *following)):
                raise ValueError("it computes NaN, so no action can be chosen")
            if actions.shape != numbers.shape:
                raise ValueError(f"its actions have the shape {actions.shape}, not {numbers.shape}")
            wrong = ~((actions >= 0) & (actions < sizes) & (actions == np.floor(actions))) & ~is_number
            if wrong.any():
                raise ValueError(f"it chose {actions[wrong][0]}, which no head of the sizes {sizes} has")
            if following[0].shape != states.shape or following[0].dtype != np.float32:
                raise ValueError(f"its next state has the shape {following[0].shape}, not {states.shape} in float32")
            return actions.astype(np.float32 if is_number.any() else np.int64), following[0]


class OnnxFiles(Algorithm):
    """What reads ONNX files. They are opponents and players of leagues, but SB3 has no model of them."""

    def load(self, file: ModelFile, device: str = "cpu") -> BaseAlgorithm:
        """Raises `ValueError`, which says what an ONNX file can be."""
        raise ValueError(
            f"{file.name} is an ONNX file, which can be an opponent or in a league, but is no model of SB3"
        )

    def opponent(self, source: ModelFile | BaseAlgorithm) -> OnnxOpponent:
        """Implements `Algorithm.opponent`; nothing in the file is unpickled or imported."""
        assert isinstance(source, ModelFile)  # no model of SB3 has this algorithm
        return OnnxOpponent(Path(source.name).name, source.entries[GRAPH])
