"""The registry of algorithms: how the files of their models are read, and how a frozen model acts in many fights.

What a package of its own needs for its algorithm is on the page ``docs/own-algorithm.md``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from math import prod
from typing import Any

import numpy as np
import torch as th
from gymnasium import Space
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.arguments import check_frame_ages
from sb3_pvp.common.errors import foreign, installed, is_own, missing, one_line, unknown_name
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.model import loadable_contracts
from sb3_pvp.policies.acting import Decision, Flags, Frames, Opponent
from sb3_pvp.policies.features import frames_of, heads_of, part_of
from sb3_pvp.policies.files.reading import PICKLED, ModelFile, data_of, read, refuse_nan

ENTRY_POINTS = "sb3_pvp.algorithms"  #: Entry-point group of algorithms.
DEFAULT = "maskable_ppo"  #: Of models and files that name no algorithm.
#: Attributes in a model file that only training needs.
TRAINING_ONLY = (
    "training_state",
    "outcome_predictor",
    "curve_progress",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
)

#: What a policy is made of, in SB3's data: the only pickled parts that a model cannot act without.
PARTS = ("policy_class", "observation_space", "action_space", "policy_kwargs")
_OPTIMIZER = ("optimizer_class", "optimizer_kwargs")  #: Of ``policy_kwargs``, for training alone.


class ModelOpponent:
    """A frozen model as an opponent; see `Opponent` for `initial_state` and `predict`.

    Equal models have the same ``content_hash``; ``frame_ages`` are the ages of the frames that it sees, in ticks;
    ``game`` is that of its training, if known. Raises `ValueError` for other actions than those of
    `heads_of`, and for other ages than `check_frame_ages` allows, or than it sees frames.
    """

    def __init__(
        self,
        spaces_of: tuple[Space[Any], Space[Any]],
        content_hash: str,
        frame_ages: Sequence[int] | None,
        game: str | None,
        acting: Opponent | None = None,
    ) -> None:
        seen, actions = spaces_of
        self.content_hash, self.game, self._acting = content_hash, game, acting
        self.head_sizes, self.numbers = heads_of(actions)
        self._shape = part_of(seen).shape or ()
        self.num_frames, self.shape = frames_of(seen)
        # Only `PvpPPO` saves the ages of its frames; other models are assumed to see the newest ones.
        self.frame_ages = check_frame_ages(self.num_frames if frame_ages is None else frame_ages)
        if len(self.frame_ages) != self.num_frames:
            raise ValueError(f"the model sees {self.num_frames} frames, but its frame_ages are {self.frame_ages}")

    @property
    def imagine(self) -> Any:
        """Of a world model a function of states and ``steps``; else None.

        It returns values ``(N,)``, rewards ``(N, steps)``, how likely the fight is still on, with the discount
        in it, ``(N, steps)``, and
        observations ``(N, steps, D)``: what the model expects after the actions of these states.
        """
        return getattr(self._acting, "imagine", None)

    def check(self, contract: Contract) -> None:
        """Raises `ValueError` if the model has other observations or heads than the contract."""
        if self._fits(contract):
            return
        game = self.game or " or ".join(each.name for each in loadable_contracts() if self._fits(each))
        sees, wanted = (
            f"features in the shape {shape}" if len(shape) > 1 else f"{shape[0]} features"
            for shape in (self.shape, contract.observation_shape)
        )
        raise ValueError(
            f"the model was trained in another game, {game or 'which is not installed'}: it sees {sees} and has the "
            f"heads {self.head_sizes}, but {contract.name} has {wanted} and {contract.head_sizes}"
        )

    def _fits(self, contract: Contract) -> bool:
        own, other = self.shape, contract.observation_shape
        # A vector and an array of as many numbers have them in the same order.
        is_same = own == other or (prod(own) == prod(other) and 1 in (len(own), len(other)))
        heads = contract.head_sizes, (*contract.numbers.tolist(),)
        return is_same and (self.head_sizes, self.numbers) == heads

    def initial_state(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Implements `Opponent.initial_state`."""
        assert self._acting is not None
        return self._acting.initial_state(seeds)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`, for any shape of the rows of ``observation``."""
        assert self._acting is not None
        seen = np.ascontiguousarray(observation, np.float32).reshape(-1, *self._shape)
        actions, following = self._acting.predict(seen, state, episode_start, deterministic, action_masks)
        dtype = np.float32 if self.numbers else np.int64
        return np.asarray(actions, dtype).reshape(-1, len(self.head_sizes)), following


class Algorithm:
    """What is to be known of an algorithm, so that its models are loaded, fought, rated, recorded and served.

    A subclass has a ``model_class`` and `acting`; with `build` its files need not be trusted, which serving asks for.
    A model names its algorithm in an attribute ``algorithm``, which SB3 writes into its file; it may also have the
    attributes ``game``, ``frame_ages`` and ``reset_params`` of its training.
    """

    model_class: type[BaseAlgorithm]

    def recognises(self, source: ModelFile | BaseAlgorithm) -> bool:
        """Whether a model, or the one in a file, is of this algorithm though it names none; unpickles nothing.

        Only this package's own algorithms are asked: a model of any other one has the attribute.
        """
        return not isinstance(source, ModelFile) and isinstance(source, self.model_class)

    def acting(self, model: Any) -> Opponent:
        """Returns a frozen copy of a model that acts in many fights."""
        raise NotImplementedError(f"{type(self).__name__} needs acting(model)")

    def describe(self, model: Any) -> dict[str, Any]:
        """Returns plain values for `build`, which the file has as ``description``; `ValueError` if there are none."""
        raise ValueError(f"{type(model).__name__} cannot be described in plain values")

    def build(self, data: Mapping[str, Any], weights: Mapping[str, th.Tensor], device: str) -> BaseAlgorithm:
        """Returns a model, for inference, of the plain values in its file and the state dict of its policy.

        What is missing in ``data`` was pickled. Raises `ValueError` if they do not fit.
        """
        raise ValueError(f"models of {self.model_class.__name__} cannot be read safely, since it has no build()")

    def load(self, file: ModelFile, device: str = "cpu") -> BaseAlgorithm:
        """Loads a model for inference; of a file that is not trusted nothing is unpickled, see `build`."""
        if file.content is None:
            with foreign(file.name):
                return self.build(file.plain_values, file.weights(), device)
        with importing_here():
            return self.model_class.load(file.content, device=device, custom_objects=objects_to_play(file.values, {}))

    def opponent(self, source: ModelFile | BaseAlgorithm) -> ModelOpponent:
        """Returns the model in a file, or a frozen copy of a model, as an opponent."""
        model: Any = self.load(source) if isinstance(source, ModelFile) else source
        refuse_nan(model.policy.state_dict())
        ages, game = (getattr(model, name, None) for name in ("frame_ages", "game"))
        both = model.observation_space, model.action_space
        return ModelOpponent(both, self.hash_of(source, model), ages, game, self.acting(model))

    def hash_of(self, source: ModelFile | BaseAlgorithm, model: Any) -> str:
        """Returns the `ModelOpponent.content_hash` of a model, and of where it is from."""
        return content_hash(source)


_registered: dict[str, Algorithm] = {}
#: What reads files of no algorithm of ours, by their ending; `sb3_pvp.policies.files.model_files` fills it.
OTHER_FILES: dict[str, Algorithm] = {}


def register_algorithm(name: str, algorithm: Algorithm) -> None:
    """Registers an algorithm in this process; `ValueError` if the name is taken.

    Commands and worker processes find those of installed packages only, by the entry-point group `ENTRY_POINTS`.
    """
    if name in algorithm_names():
        raise ValueError(f"there is already an algorithm {name!r}: choose another name")
    _registered[name] = algorithm


def algorithm_names() -> tuple[str, ...]:
    """Returns the names of all algorithms that are installed or registered."""
    return (*installed(ENTRY_POINTS), *_registered)


def find_algorithm(name: str) -> Algorithm:
    """Returns an algorithm by name; raises `ValueError` if it is unknown, or its package cannot be imported."""
    if name in _registered:
        return _registered[name]
    point = installed(ENTRY_POINTS).get(name)
    if point is None:
        todo = missing(ENTRY_POINTS, name)
        raise ValueError(todo) if todo else unknown_name("algorithm", name, algorithm_names())
    try:
        found = point.load()
    except Exception as error:  # the code of another package can raise anything
        raise ValueError(f"the algorithm {name!r} cannot be imported: {error}") from error
    if not isinstance(found, Algorithm):
        raise ValueError(f"the entry point {point.value} of the algorithm {name!r} is not an Algorithm: {found!r:.60}")
    return found


def algorithm_of(source: ModelFile | BaseAlgorithm) -> Algorithm:
    """Returns the algorithm of a model, or of the one in a file; raises `ValueError` if it is none that is known."""
    for ending in OTHER_FILES.keys() & source.entries.keys() if isinstance(source, ModelFile) else ():
        return OTHER_FILES[ending]
    with foreign(f"{source.name} cannot be loaded") if isinstance(source, ModelFile) else nullcontext():
        return find_algorithm(name_of(source))


@cache
def own_algorithms() -> tuple[str, ...]:
    """Returns the names of this package's algorithms, `DEFAULT` first."""
    return tuple(sorted((n for n, point in installed(ENTRY_POINTS).items() if is_own(point)), key=DEFAULT.__ne__))


def import_algorithms() -> None:
    """Imports all algorithms, for a process that can read no more of what is installed later; none may be broken."""
    for name in {*algorithm_names(), *own_algorithms()}:
        with suppress(ValueError):
            find_algorithm(name)


def name_of(source: ModelFile | BaseAlgorithm) -> str:
    """Returns the name of the algorithm of a model, or of the one in a file; unpickles nothing.

    Files that name none, and are not recognised, are of `DEFAULT`; for such models raises `ValueError`.
    """
    name = source.values.get("algorithm") if isinstance(source, ModelFile) else getattr(source, "algorithm", None)
    if name is not None:
        return str(name)
    found = next((name for name in own_algorithms() if find_algorithm(name).recognises(source)), None)
    if found is None and not isinstance(source, ModelFile):
        raise ValueError(f"a {type(source).__name__} has no attribute 'algorithm' that names one in the registry")
    return found or DEFAULT


def content_hash(source: ModelFile | BaseAlgorithm) -> str:
    """Returns a hash that is equal for files with the same policy: without what only training needs."""
    file = source if isinstance(source, ModelFile) else read(source)
    kept = {name: value for name, value in file.values.items() if name not in TRAINING_ONLY}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    # Not of the file's bytes: zips have times in them, and optimisers do not act.
    for name in sorted(file.entries):
        digest.update(name.encode() + file.entries[name])
    return digest.hexdigest()


class _Missing:
    """Stands for a class or function that cannot be imported, and for what it would make."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Missing:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Goes on where a class cannot be imported, with a `_Missing` in its place."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.errors: list[str] = []

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except Exception as error:  # the user's module runs, and can raise anything
            self.errors.append(one_line(error))
            return _Missing


def objects_to_play(values: Mapping[str, Any], replaced: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``custom_objects`` for SB3's ``load``: all that is pickled in `ModelFile.values`, and ``replaced``.

    ``None`` stands for what cannot be unpickled, and the default for an optimiser that cannot be imported. Raises
    `ValueError` if that is one of `PARTS`.
    """
    found = dict(replaced)
    for name, value in _pickled(values).items():
        if name not in found:
            found[name], error = _unpickled(value)
            if error and name in PARTS:
                raise ValueError(f"its {name} cannot be read here: {error}")
    return found


class MissingParts(ValueError):
    """Raised when a model cannot be trained on, since something that its file names cannot be imported."""


@contextmanager
def training_on(file: Any, given: Mapping[str, Any]) -> Iterator[None]:
    """While SB3 loads a model to train on, raises one `MissingParts` that names what cannot be imported.

    SB3 itself would pass on the error of the first module, or go on without the attribute, with no more than a warning.
    ``file`` is a path or anything else that SB3 loads, ``given`` its ``custom_objects``.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Could not deserialize object")
        try:
            yield
        except (ImportError, UserWarning) as error:
            missing = _missing_of(file, given) or [one_line(error)]
            raise MissingParts(
                f"{file} cannot be trained on here, where this cannot be imported: {'; '.join(missing)}. Make it "
                "importable, or replace it with custom_objects; to play, nothing of it is needed"
            ) from error


def _missing_of(file: Any, given: Any) -> list[str]:
    with importing_here():
        found = {name: _unpickled(each)[1] for name, each in _pickled(data_of(file)).items() if name not in given}
    return [f"{name} ({error})" for name, error in found.items() if error]


def _pickled(values: Mapping[str, Any]) -> dict[str, bytes]:
    found = {name: each[PICKLED] for name, each in values.items() if isinstance(each, dict) and PICKLED in each}
    return {name: base64.b64decode(text) for name, text in found.items()}


def _unpickled(content: bytes) -> tuple[Any, str]:
    """Returns an object, and why it is ``None`` or lacks something that is needed to play."""
    reader = _Unpickler(content)
    try:
        value = reader.load()
    except Exception as error:  # so can what it calls, and what a `_Missing` is used for
        return None, "; ".join(reader.errors) or one_line(error)
    if not reader.errors:
        return value, ""
    if isinstance(value, dict) and any(_lacks(value.get(name)) for name in _OPTIMIZER):
        value = {name: each for name, each in value.items() if name not in _OPTIMIZER}
        if not _lacks(value):
            return value, ""
    return None, "; ".join(reader.errors)


def _lacks(value: Any) -> bool:
    """Whether something in a value could not be imported."""
    if isinstance(value, dict):
        return any(map(_lacks, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_lacks, value))
    return value is _Missing or isinstance(value, _Missing)
