"""Fighters as workers run them: arrays of a batch of requests in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import find_game
from sb3_pvp.players.opponents import ScriptedOpponent, known_opponents
from sb3_pvp.policies.acting import Opponent
from sb3_pvp.policies.export.inference import (
    AUTO,
    Backend,
    Decisions,
    Flags,
    Floats,
    automatic_backend,
    open_backend,
    random_batch,
)
from sb3_pvp.policies.memory import Remembered


@dataclass(frozen=True)
class Form:
    """What a request to a fighter must look like."""

    num_frames: int  #: That the fighter sees, F.
    num_features: int  #: Of its own view in each frame, D.
    num_privileged: int  #: Features of a frame that only its critic sees, P.
    head_sizes: tuple[int, ...]  #: Entries of each head.
    only_acts: bool = False  #: Whether it has no probabilities and values.
    #: Whether its decisions depend on those before them; then each connection has a state of its own.
    is_stateful: bool = False
    predicts_outcome: bool = False  #: Whether it has an outcome predictor.

    @cached_property
    def packers(self) -> dict[int, Struct]:
        """Packs a frame as float32, by its width: D, or D + P; numbers that are too large are errors."""
        widths = self.num_features, self.num_features + self.num_privileged
        return {width: Struct(f"={width}f") for width in widths}

    @cached_property
    def sizes(self) -> list[int]:
        """The entries of each head, as a list."""
        return list(self.head_sizes)


@dataclass(frozen=True)
class Batch:
    """Requests to one fighter as arrays, as in `Backend`; N rows, of which some ask for more than a decision."""

    observations: Floats  #: ``(N, F, D)``.
    masks: Flags  #: ``(N, A)``.
    uniforms: Floats  #: ``(N, H)``.
    details: bool  #: Whether a row asks for entropies or probabilities.
    valued: NDArray[np.int64]  #: Rows that ask for a value, ``(V,)``.
    privileged: Floats | None  #: Of these rows, ``(V, F, P)``; ``None`` if P is 0.
    predicted: NDArray[np.int64]  #: Rows that ask for the probability of winning, ``(W,)``.
    #: To a stateful fighter: the state of each row after its last decision, ``None`` before the first of an episode.
    states: Sequence[NDArray[Any] | None] = ()


@dataclass(frozen=True)
class Answers:
    """What a fighter answers to a `Batch`."""

    decisions: Decisions
    values: Floats  #: Of the rows `Batch.valued`, ``(V,)``.
    wins: Floats  #: Probabilities of winning of the rows `Batch.predicted`, ``(W,)``.
    states: Sequence[NDArray[Any]] = ()  #: Of a stateful fighter: the state of each row.


class OpenFighter(Protocol):
    """Answers batches of requests."""

    form: Form

    def answer(self, batch: Batch) -> Answers:
        """Returns the answers to a batch; its arrays must fit `form`."""


class FighterSource(Protocol):
    """How to open a fighter, in any process; can be pickled and compared."""

    def open(self) -> OpenFighter:
        """Returns the fighter; raises `ValueError` and `OSError` if it cannot."""


@dataclass(frozen=True)
class ModelSource:
    """A model file: a zip in safe mode or a fighter file, on a PyTorch device, run by a back-end or ``"auto"``."""

    path: Path
    backend: str
    device: str

    def open(self) -> OpenFighter:
        """Implements `FighterSource.open`."""
        from sb3_pvp.policies.files.model_files import load, load_opponent
        from sb3_pvp.policies.files.registry import DEFAULT, name_of

        model = load(self.path, self.device, safe=True)
        if name_of(model) != DEFAULT:
            opponent = load_opponent(self.path, safe=True)
            if opponent.numbers:
                raise ValueError("it decides on numbers, but the socket only has choices")
            form = opponent.num_frames, prod(opponent.shape), 0, opponent.head_sizes
            return ActingFighter(opponent, Form(*form, only_acts=True, is_stateful=True))
        name = automatic_backend(model) if self.backend == AUTO else self.backend
        backend = open_backend(name, model)
        fighter = ModelFighter(backend, name, model)
        # Compiles now, and not at the first request.
        backend.decide(*random_batch(backend, 1), True, *fighter.remembered([None]))
        return fighter


class ModelFighter:
    """A model with the back-end that runs it, and its outcome predictor, if it has one."""

    def __init__(self, backend: Backend, backend_name: str, model: Any) -> None:
        self.backend_name, self._backend = backend_name, backend
        self._device = "cpu" if backend_name == "onnx" else model.policy.device
        self._predictor = getattr(model, "outcome_predictor", None)
        frames, features = backend.frame_shape
        if self._predictor is not None and int(np.prod(self._predictor.shape)) != frames * features:
            raise ValueError(f"the outcome predictor sees {self._predictor.shape}, the model {backend.frame_shape}")
        kinds = {"is_stateful": backend.memory_width > 0, "predicts_outcome": self._predictor is not None}
        self.form = Form(frames, features, backend.num_privileged, backend.head_sizes, **kinds)

    def answer(self, batch: Batch) -> Answers:
        """Implements `OpenFighter.answer`."""
        known = self.remembered(batch.states)
        decisions = self._backend.decide(batch.observations, batch.masks, batch.uniforms, batch.details, *known)
        values = wins = np.zeros(0, np.float32)
        if len(batch.valued):
            rows = batch.valued
            before = self.remembered([batch.states[row] for row in rows.tolist()]) if known else ()
            values = self._backend.values(batch.observations[rows], batch.privileged, batch.masks[rows], *before)
        if len(batch.predicted) and self._predictor is not None:
            seen = batch.observations[batch.predicted]
            wins = self._predictor.predict(seen.reshape(-1, *self._predictor.shape))["WIN"]
        # Copies, as a view of one row would keep the states of all rows.
        states = [row.copy() for each in known for row in each.state.cpu().numpy()]
        return Answers(decisions, values, wins, states)

    def remembered(self, states: Sequence[NDArray[np.float32] | None]) -> tuple[Remembered, ...]:
        """Returns what a back-end takes of such states; nothing without memory."""
        if not self.form.is_stateful:
            return ()
        nothing = np.zeros(self._backend.memory_width, np.float32)  # as before the first tick of an episode
        rows = np.stack([nothing if state is None else state for state in states])
        return (Remembered.of(rows, np.zeros(len(rows), np.bool_), self._device),)


class ActingFighter:
    """What only acts: a script, or a model of another algorithm than MaskablePPO."""

    def __init__(self, opponent: Opponent, form: Form) -> None:
        self._opponent, self.form = opponent, form
        self._seeds = np.random.default_rng()

    def answer(self, batch: Batch) -> Answers:
        """Implements `OpenFighter.answer`: a row is without chance if none of its heads is random."""
        count = len(batch.masks)
        known = dict(enumerate(batch.states)) if self.form.is_stateful else {}
        first = np.array([known.get(row) is None for row in range(count)], np.bool_)
        # Not for the first ones alone: how a state looks is known only from a fresh one.
        states = self._opponent.initial_state(self._seeds.integers(2**62, size=count).tolist())
        for row in np.flatnonzero(~first).tolist():
            states[row] = known[row]
        actions, seen = np.zeros((count, len(self.form.head_sizes)), np.int64), batch.observations.reshape(count, -1)
        is_greedy = (batch.uniforms < 0).all(axis=1)
        for flag in (False, True):
            if (rows := np.flatnonzero(is_greedy == flag)).size:
                actions[rows], following = self._opponent.predict(
                    seen[rows], states[rows], first[rows], flag, batch.masks[rows]
                )
                states[rows] = states[rows] if following is None else following
        nothing = np.zeros(0, np.float32)
        return Answers(Decisions(actions, np.zeros(count, np.float32), None, None), nothing, nothing, [*states])


@dataclass(frozen=True)
class ScriptSource:
    """A scripted fighter of a game; its random choices differ from request to request."""

    name: str
    game: str

    def open(self) -> ActingFighter:
        """Implements `FighterSource.open`."""
        game = find_game(self.game)
        form = Form(1, game.contract.num_observations, 0, game.contract.head_sizes, only_acts=True)
        return ActingFighter(ScriptedOpponent(self.name, game.contract, game), form)


def script_sources(game: str) -> dict[str, ScriptSource]:
    """Returns the scripted fighters of a game by name; raises `ValueError` for an unknown game."""
    found = find_game(game)
    _, *scripts = known_opponents(found)  # the first is the bot of the world, which has no actions
    return {name: ScriptSource(name, game) for name in scripts}
