"""Model files: loading the policy alone for inference, and files without the parts that only training needs."""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary
from zipfile import ZipFile

import numpy as np
import torch as th
from gymnasium import Space, spaces
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.arguments import COUNT
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import foreign
from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.game import Game, find_game, game_names
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.contracts import AUTO, find_contract
from sb3_pvp.policies.features import OBSERVATION, PRIVILEGED, NormalizedFeatures, head_sizes_of
from sb3_pvp.policies.files.description import build
from sb3_pvp.policies.files.onnx_files import OnnxFiles
from sb3_pvp.policies.files.reading import AVERAGE, DATA, OPTIMIZER, WEIGHTS, ModelFile, data_of, read, refuse_nan
from sb3_pvp.policies.files.registry import (
    OTHER_FILES,
    PARTS,
    TRAINING_ONLY,
    Algorithm,
    MissingParts,
    ModelOpponent,
    algorithm_of,
    objects_to_play,
    training_on,
)
from sb3_pvp.policies.files.shipped import GRAPH, find_model, is_fighter
from sb3_pvp.policies.memory import Remembered, packed_states, unpacked_states
from sb3_pvp.policies.sampling import Actor, AutoregressiveActor, PlainActor, act_batched

# Replaces attributes that acting does not need. rl-zoo3 pickles its own classes into some of them; and with a seed, SB3
# would reset the global random generators on loading.
INFERENCE_OBJECTS = {
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "clip_range": lambda _: 0.0,
    "schedules": {},
    "seed": None,
    "training_state": None,
}


@contextmanager
def loading(name: str, algorithm: str = "MaskablePPO") -> Iterator[None]:
    """Preserves torch's random state while a model is loaded, and turns any failure into a one-line `ValueError`."""
    # A new network samples initial weights before it gets the saved ones.
    with foreign(f"{name} is not a model of {algorithm}"), th.random.fork_rng(devices=[]):
        yield


class _Policy(NamedTuple):
    """A policy of MaskablePPO, but for its weights."""

    kind: type
    observation_space: Space[Any]
    action_space: Space[Any]
    arguments: dict[str, Any]  #: May have the device.
    frame_ages: Sequence[int] | None  #: Ages of the frames that it was trained on, in ticks; ``None`` if unknown.
    game: str | None  #: The game it was trained on, as `sb3_pvp.game.find_game` takes it; ``None`` if unknown.
    content_hash: str  #: Equal for files with the same policy.

    @classmethod
    def of(cls, file: ModelFile) -> _Policy:
        """Returns the policy in a file; of one that is trusted these parts are unpickled."""
        if file.content is None:
            about = file.description
            both, sees = (about.observation_space, about.action_space), about.frame_ages
            return cls(about.policy_class, *both, about.arguments(), sees, about.game, file.content_hash)
        parts = {part: file.values[part] for part in (*PARTS, "frame_ages", "game") if part in file.values}
        with importing_here():
            parts |= objects_to_play(parts, {})
        definition: list[Any] = [parts[part] for part in PARTS]
        # Of the repr of the spaces, since pickles of equal spaces differ.
        digest = hashlib.sha256(repr(definition).encode() + file.entries[WEIGHTS])
        kind, seen, actions, arguments = definition
        return cls(kind, seen, actions, arguments, parts.get("frame_ages"), parts.get("game"), digest.hexdigest())

    def actor(self, weights: Mapping[str, th.Tensor], name: str) -> Actor:
        """Builds the policy in the file ``name`` for inference on the CPU.

        Raises `ValueError` if it is no policy of MaskablePPO that maps frames of features to MultiDiscrete actions, or
        a weight is NaN.
        """
        if not issubclass(self.kind, MaskableActorCriticPolicy):
            raise ValueError(f"{name} holds a {self.kind.__name__}, which is not a policy of MaskablePPO")
        if not isinstance(self.action_space, spaces.MultiDiscrete):
            raise ValueError(f"the model has the action space {self.action_space}, but it must be MultiDiscrete")
        seen = NormalizedFeatures(self.observation_space)
        if {*seen.keys} - {PRIVILEGED} != {OBSERVATION}:
            raise ValueError(f"the model sees {self.observation_space}, not frames of features under {OBSERVATION!r}")
        frame_shape = seen.num_frames, seen.num_public // seen.num_frames
        head_sizes = tuple(self.action_space.nvec.tolist())
        refuse_nan(weights)
        with loading(name):
            if issubclass(self.kind, AutoregressivePolicy):
                arguments = (AutoregressivePolicy.__init__.__kwdefaults__ or {}) | self.arguments
                return AutoregressiveActor(frame_shape, head_sizes, arguments, weights, self.observation_space)
            given = {key: value for key, value in self.arguments.items() if key != "device"}
            policy = self.kind(self.observation_space, self.action_space, lambda _: 0.0, **given)
            policy.load_state_dict(weights)
            policy.set_training_mode(False)
            return PlainActor(policy, frame_shape, head_sizes)


def save_weights(model: BaseAlgorithm, path: Path | io.BytesIO) -> None:
    """Saves the model without `TRAINING_ONLY` and the state of the optimiser.

    SB3 loads the file like any other; training from it starts with a fresh optimiser.
    """
    optimizer: Any = getattr(model.policy, "optimizer", None)
    if optimizer is None:  # models of other algorithms may have several, or none
        model.save(path, exclude=TRAINING_ONLY)
        return
    optimizer_state, optimizer.state = optimizer.state, defaultdict(dict)
    try:
        model.save(path, exclude=TRAINING_ONLY)
    finally:
        optimizer.state = optimizer_state


def strip(path: Path) -> None:
    """Removes from a model file what `save_weights` leaves out, atomically and without unpickling anything."""
    with ZipFile(path) as full, replacing(path) as partial, ZipFile(partial, "w") as stripped:
        for entry in full.infolist():
            if entry.filename == AVERAGE:
                continue
            content = full.read(entry)
            if entry.filename == DATA:
                kept = {name: value for name, value in json.loads(content).items() if name not in TRAINING_ONLY}
                content = json.dumps(kept, indent=4).encode()
            elif entry.filename == OPTIMIZER:
                buffer = io.BytesIO()
                th.save(_optimizer_state(content) | {"state": {}}, buffer)
                content = buffer.getvalue()
            stripped.writestr(entry, content)


def is_stripped(path: Path) -> bool:
    """Whether `strip` has nothing left to remove from a model file."""
    with ZipFile(path) as file:
        has_moments = OPTIMIZER in file.namelist() and bool(_optimizer_state(file.read(OPTIMIZER))["state"])
        has_moments |= AVERAGE in file.namelist()
        return not has_moments and not set(TRAINING_ONLY) & json.loads(file.read(DATA)).keys()


def has_training_state(path: Path) -> bool:
    """Whether training can resume exactly from a model file; nothing is unpickled."""
    return data_of(path).get("training_state") is not None


def steps_of(path: Path) -> int:
    """Returns the timesteps that the model in a file was trained for; nothing is unpickled."""
    if is_fighter(path):
        return read(path).description.steps
    data = data_of(path)
    with foreign(f"{path} is not a model"):
        return COUNT.read("num_timesteps", data["num_timesteps"])


def _optimizer_state(optimizer: bytes) -> dict[str, Any]:
    """Reads an optimiser's state dict without unpickling other classes than tensors."""
    state: dict[str, Any] = th.load(io.BytesIO(optimizer), weights_only=True, map_location="cpu")
    return state


def load(path: str | Path | io.BytesIO, device: str = "cpu", safe: bool = False, average: bool = False) -> Any:
    """Loads a model for inference; to continue training use the algorithm's own ``load``, such as ``PvpPPO.load``.

    Returns a `MaskablePPO`, or what another algorithm in the registry makes of its file. Does not need rl-zoo3, and
    does not touch the global random generators. The policies of sb3_contrib do not read masks from observations: pass
    them to ``predict``.

    Args:
        path: the model file, with or without ``.zip``, or a ``.fighter`` file; the name of a fighter that ships with
            this package; or the content of a zip.
        device: PyTorch device of the policy.
        safe: unpickle nothing, so that the file need not be trusted. This works for ``.fighter`` files, which are
            always loaded so, and for zips of `PvpPPO.save`, whose outcome predictor is left out then. Loading other
            zips unpickles: only load those that you trust.
        average: the policy is the averaged one of a `PvpPPO` with ``ema_decay``.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is not a model of an algorithm in the registry, cannot be loaded safely, or has no
            averaged policy.
    """
    file = read(path, safe)
    weights = file.average() if average else {}
    model: Any = algorithm_of(file).load(file, device)
    if average:
        with foreign(f"{file.name} has no averaged policy that fits"):
            model.policy.load_state_dict(model.policy.state_dict() | weights)
    return model


def game_of(model: BaseAlgorithm) -> Game:
    """Returns the game a model was trained on: the one it names, else that of its contract.

    Raises `ValueError` if the model does not name its game, the game is not installed, or it would have to be imported
    because a file says so that need not be trusted (``load(safe=True)``).
    """
    name, contract = getattr(model, "game", None), getattr(model.policy, "contract", None)
    if name is None:
        contract = contract or find_contract(
            AUTO, head_sizes_of(model.action_space), NormalizedFeatures(model.observation_space)
        )
        name = None if contract is None else contract.name
    if name is None:
        raise ValueError("the model does not name its game: pass --game module:object")
    if ":" in name and not getattr(model, "game_is_trusted", True):
        raise ValueError(f"the code of the game {name!r} is not run because a file names it: pass --game {name}")
    return named_game(name)


def named_game(name: str) -> Game:
    """Returns the game with a name from a file; raises `ValueError` if it is not installed."""
    if ":" not in name and name not in game_names():
        raise ValueError(f"the game {name!r} is not installed: pass --game module:object")
    return find_game(name)


def load_to_train(
    load: Callable[..., Any], file: Any, env: Any, device: Any = "auto", custom_objects: Any = None, **others: Any
) -> Any:
    """Calls SB3's ``load`` of an algorithm; what it needs of the file only for training must be there with an ``env``.

    Without one the model is to play. Then its attribute ``missing`` says what is not there, as an attempt to train it
    will. Raises `MissingParts`.
    """
    given = custom_objects or {}
    try:
        with training_on(file, given):
            return load(file, env, device, given, **others)
    except MissingParts as error:
        if env is not None:
            raise
        with importing_here():
            objects = objects_to_play(data_of(file), INFERENCE_OBJECTS | given)
            model = load(file, env, device, objects, **others)
        model.missing = str(error)
        return model


CACHED_MODELS = 64  #: Model files that stay in memory while no fight uses them.


class MaskableOpponent(ModelOpponent):
    """A frozen policy of MaskablePPO as an opponent: no more than its actor, and equal ones share a copy.

    Raises `ValueError` if it is none that maps frames of features to MultiDiscrete actions.
    """

    def __init__(self, policy: _Policy, file: ModelFile) -> None:
        both = policy.observation_space, policy.action_space
        super().__init__(both, policy.content_hash, policy.frame_ages, policy.game)
        self.actor = policy.actor(file.weights(), file.name)

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        """Returns random words, uint64 ``(N,)``."""
        return words_from_seeds(seeds, stream=3)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Does `predict_together` for this model alone."""
        flags = np.full(len(observation), deterministic)
        return self.predict_together([self], [observation], state, episode_start, flags, action_masks)

    @staticmethod
    def predict_together(
        opponents: Sequence[MaskableOpponent],
        observations: Sequence[Frames],
        state: NDArray[np.uint64],
        episode_start: Flags,
        deterministic: Flags,
        action_masks: Flags,
    ) -> Decision:
        """Does `predict` for several models: one array of observations each, other rows one model after the other."""
        actors = [opponent.actor for opponent in opponents]
        numbers, state = uniforms(state, len(actors[0].head_sizes))
        numbers[deterministic] = -1.0  # selects the most likely entry
        frames = [
            th.from_numpy(np.ascontiguousarray(seen, np.float32).reshape(-1, *actor.frame_shape))
            for actor, seen in zip(actors, observations, strict=True)
        ]
        masks = th.from_numpy(np.ascontiguousarray(action_masks))
        return act_batched(actors, frames, masks, th.from_numpy(numbers)).numpy(), state


class RememberingOpponent(ModelOpponent):
    """A frozen `AutoregressivePolicy` with memory: no more than its actor.

    A state is two random words and what it remembers, as one row of bits; it decides alone, not with other models.
    """

    def __init__(self, policy: _Policy, file: ModelFile) -> None:
        both = policy.observation_space, policy.action_space
        super().__init__(both, policy.content_hash, policy.frame_ages, policy.game)
        self.actor: Any = policy.actor(file.weights(), file.name)

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint32]:
        """Returns random words, and that nothing is remembered, uint32 ``(N, width)``."""
        return packed_states(words_from_seeds(seeds, stream=3), self.actor.memory.initial(len(seeds)).numpy())

    def remembered(self, state: NDArray[np.uint32]) -> Remembered:
        """Returns what rows of these states remember, in the middle of episodes or at their start."""
        return Remembered.of(unpacked_states(state)[1], np.zeros(len(state), np.bool_))

    @th.inference_mode()
    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`."""
        words, states = unpacked_states(state)
        numbers, words = uniforms(words, len(self.actor.head_sizes))
        numbers[np.broadcast_to(deterministic, len(numbers))] = -1.0  # selects the most likely entry
        seen = np.ascontiguousarray(observation, np.float32).reshape(-1, *self.actor.frame_shape)
        remembered, masks = Remembered.of(states, episode_start), np.ascontiguousarray(action_masks)
        given = [self.actor], [th.from_numpy(seen)], th.from_numpy(masks), th.from_numpy(numbers), remembered
        actions = act_batched(*given).numpy()
        return actions, packed_states(words, remembered.state.numpy())


#: Models in use, by content hash: fights and files with the same policy share one copy.
_models: WeakValueDictionary[str, MaskableOpponent | RememberingOpponent] = WeakValueDictionary()


def find_file(path: str | Path) -> Path:
    """Returns the file of a model; raises `FileNotFoundError`. Replaced where the learner's disk is out of reach."""
    return find_model(path)


def load_opponent(path: str | Path, safe: bool = False) -> ModelOpponent:
    """Loads a model file as an opponent, without touching the global random generators; ``safe``: unpickles nothing.

    Files with the same policy share one copy; a file is read again only after it has changed. Raises
    `FileNotFoundError`, and `ValueError` if its algorithm is not in the registry, or it cannot act in fights.
    """
    path = find_file(path)
    status = path.stat()  # models are saved atomically, so a new version has another inode
    return _read_opponent(path, safe, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(CACHED_MODELS)
def _read_opponent(path: Path, safe: bool, *version: int) -> ModelOpponent:
    """Reads a model file; ``version`` is only a part of the cache's key."""
    return _opponent_of(path, safe)


def model_opponent(model: Any) -> ModelOpponent:
    """Returns a frozen copy of a model as an opponent."""
    if not isinstance(model, BaseAlgorithm):
        raise ValueError(f"an opponent must be a name, a path, an Opponent or a model, got {model!r}")
    return _opponent_of(model)


def _opponent_of(source: Path | BaseAlgorithm, safe: bool = False) -> ModelOpponent:
    given = read(source, safe) if isinstance(source, Path) else source
    algorithm = algorithm_of(given)
    try:
        return algorithm.opponent(given)
    except ValueError as error:
        name = source if isinstance(source, Path) else type(source).__name__
        raise ValueError(f"{name} cannot be an opponent: {error}") from error


class MaskablePPOFiles(Algorithm):
    """`MaskablePPO` and `PvpPPO` in the registry."""

    model_class = MaskablePPO

    def recognises(self, source: ModelFile | BaseAlgorithm) -> bool:
        """Implements `Algorithm.recognises`; of files, those of `PvpPPO`."""
        return "description" in source.values if isinstance(source, ModelFile) else super().recognises(source)

    def load(self, file: ModelFile, device: str = "cpu") -> MaskablePPO:
        """Implements `Algorithm.load`; a predictor of outcomes in a fighter file comes with the model."""
        with loading(file.name):
            if file.content is not None:
                with importing_here():
                    objects = objects_to_play(file.values, INFERENCE_OBJECTS)
                    return MaskablePPO.load(file.content, device=device, custom_objects=objects)
            model = build(file.description, file.weights(), device)
            if (predictor := file.outcome_predictor()) is not None:
                model.outcome_predictor = predictor  # type: ignore[attr-defined]
            return model

    def opponent(self, source: ModelFile | BaseAlgorithm) -> MaskableOpponent | RememberingOpponent:
        """Implements `Algorithm.opponent`: of equal policies, always the same object."""
        file = source if isinstance(source, ModelFile) else read(source)
        with loading(file.name):
            policy = _Policy.of(file)
        # Of a snapshot and its copy, say: rows of one object share a call, and its memory.
        known = _models.get(policy.content_hash)
        if known is None:
            kind = RememberingOpponent if policy.arguments.get("memory") else MaskableOpponent
            known = _models[policy.content_hash] = kind(policy, file)
        return known


MASKABLE_PPO = MaskablePPOFiles()
OTHER_FILES[GRAPH] = OnnxFiles()
