"""Models in files: the policy alone, for those who only act, and files without what only training needs."""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch as th
from gymnasium import Space, spaces
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import json_to_data

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.game import Game, find_game, game_names
from sb3_pvp.policies.actors import Actor, AutoregressiveActor, PlainActor
from sb3_pvp.policies.autoregressive import AUTO, AutoregressivePolicy, find_contract
from sb3_pvp.policies.features import OBSERVATION, PRIVILEGED, NormalizedFeatures

_DATA, _WEIGHTS, _OPTIMIZER = "data", "policy.pth", "policy.optimizer.pth"
_PARTS = ("policy_class", "observation_space", "action_space", "policy_kwargs")

#: What a model's file has besides, and only training needs.
TRAINING_ONLY = (
    "training_state",
    "outcome_predictor",
    "curve_progress",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
)
# What training needs and acting does not. rl-zoo3 pickles its own classes in some; with a seed, SB3 would put the
# global random generators back to where they were when that fighter's training began.
_NOT_FOR_ACTING = {
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "clip_range": lambda _: 0.0,
    "seed": None,
    "training_state": None,
}


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Where a model's file is read: the global random generators are left alone (a fresh network draws weights before
    it gets its own), and whatever unpickling a foreign file runs into is a `ValueError` of one line that names it."""
    try:
        with th.random.fork_rng(devices=[]):
            yield
    except Exception as error:
        raise ValueError(f"{name} is not a model of MaskablePPO: {' '.join(str(error).split()):.500}") from error


class PolicyFile:
    """What a model's file holds of its policy; unpickled, so only read files that you trust.

    Args:
        source: the file, whose suffix may be left out; or a model, for what a file of it would hold now.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no model's file, or one whose policy cannot be made here.
    """

    def __init__(self, source: str | Path | BaseAlgorithm) -> None:
        file: Path | io.BytesIO = io.BytesIO()
        if isinstance(source, BaseAlgorithm):
            self.name = type(source).__name__
            source.save(file, exclude=["training_state"])
        else:
            file = find_model(source)
            self.name = str(file)
        with _reading(self.name):
            with ZipFile(file) as archive:
                data: dict[str, Any] = json.loads(archive.read(_DATA))
                self._weights = archive.read(_WEIGHTS)
            wanted = (*_PARTS, "frame_ages", "game")
            parts = json_to_data(json.dumps({part: data[part] for part in wanted if part in data}))
            made_of = [parts[part] for part in _PARTS]
            #: Equal for files with the same policy, whatever else they hold, in any process: pickles of equal spaces
            #: differ, but not what they look like.
            self.content_hash = hashlib.sha256(repr(made_of).encode() + self._weights).hexdigest()
        self.policy_class: type = made_of[0]
        self.observation_space: Space[Any] = made_of[1]
        self.action_space: Space[Any] = made_of[2]
        self.arguments: dict[str, Any] = {key: value for key, value in made_of[3].items() if key != "device"}
        ages = parts.get("frame_ages")
        #: The frames that the policy was trained with, if the file tells.
        self.frame_ages: tuple[int, ...] | None = None if ages is None else tuple(ages)
        #: What it was trained to play, as `sb3_pvp.game.find_game` takes it, if the file tells.
        self.game: str | None = parts.get("game")

    def actor(self) -> Actor:
        """What the policy acts with, on the CPU.

        Raises `ValueError` unless it is one of MaskablePPO that sees ``(frames, features)``, alone or under
        ``"observation"``, and chooses a MultiDiscrete action.
        """
        if not issubclass(self.policy_class, MaskableActorCriticPolicy):
            raise ValueError(f"{self.name} holds a {self.policy_class.__name__}, which is not a policy of MaskablePPO")
        if not isinstance(self.action_space, spaces.MultiDiscrete):
            raise ValueError(f"the model has the actions {self.action_space}, not one choice for each of several heads")
        seen = NormalizedFeatures(self.observation_space)
        if {*seen.keys} - {PRIVILEGED} != {OBSERVATION}:
            raise ValueError(f"the model sees {self.observation_space}, not frames of features under {OBSERVATION!r}")
        frame_shape = seen.num_frames, seen.num_public // seen.num_frames
        head_sizes = tuple(self.action_space.nvec.tolist())
        with _reading(self.name):
            weights = th.load(io.BytesIO(self._weights), map_location="cpu", weights_only=True)
            if issubclass(self.policy_class, AutoregressivePolicy):
                arguments = (AutoregressivePolicy.__init__.__kwdefaults__ or {}) | self.arguments
                return AutoregressiveActor(frame_shape, head_sizes, arguments, weights)
            policy = self.policy_class(self.observation_space, self.action_space, lambda _: 0.0, **self.arguments)
            policy.load_state_dict(weights)
        policy.set_training_mode(False)
        return PlainActor(policy, frame_shape, head_sizes)


def find_model(path: str | Path) -> Path:
    """The model's file, whose suffix ``.zip`` may be left out; raises ``FileNotFoundError`` if there is none."""
    given = Path(path)
    for candidate in (given, given.with_name(f"{given.name}.zip")):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"There is no model file {path}{', which is a folder' if given.is_dir() else ''}")


def save_weights(model: BaseAlgorithm, path: Path) -> None:
    """Saves the model without what only training needs; what the optimiser has gathered is left out as well.

    SB3 loads the file like any other; learning goes on from it with a fresh optimiser.
    """
    optimizer: Any = model.policy.optimizer
    gathered, optimizer.state = optimizer.state, defaultdict(dict)
    try:
        model.save(path, exclude=TRAINING_ONLY)
    finally:
        optimizer.state = gathered


def strip(path: Path) -> None:
    """Takes out of a model's file what `save_weights` leaves out; nothing in it is unpickled, and all is atomic."""
    with ZipFile(path) as full, replacing(path) as partial, ZipFile(partial, "w") as stripped:
        for entry in full.infolist():
            content = full.read(entry)
            if entry.filename == _DATA:
                kept = {name: value for name, value in json.loads(content).items() if name not in TRAINING_ONLY}
                content = json.dumps(kept, indent=4).encode()
            elif entry.filename == _OPTIMIZER:
                buffer = io.BytesIO()
                th.save(_optimizer_state(content) | {"state": {}}, buffer)
                content = buffer.getvalue()
            stripped.writestr(entry, content)


def is_stripped(path: Path) -> bool:
    """Whether `strip` would find nothing more to take out of a model's file."""
    with ZipFile(path) as file:
        has_gathered = _OPTIMIZER in file.namelist() and bool(_optimizer_state(file.read(_OPTIMIZER))["state"])
        return not has_gathered and not set(TRAINING_ONLY) & json.loads(file.read(_DATA)).keys()


def has_training_state(path: Path) -> bool:
    """Whether the model in a file can go on exactly where it was saved; nothing is unpickled."""
    return _data(path).get("training_state") is not None


def steps_of(path: Path) -> int:
    """How many steps the model in a file was trained for; nothing is unpickled."""
    return int(_data(path)["num_timesteps"])


def _data(path: Path) -> dict[str, Any]:
    with ZipFile(path) as file:
        data: dict[str, Any] = json.loads(file.read(_DATA))
        return data


def _optimizer_state(optimizer: bytes) -> dict[str, Any]:
    state: dict[str, Any] = th.load(io.BytesIO(optimizer), weights_only=True, map_location="cpu")
    return state


def load(path: str | Path, device: str = "cpu") -> MaskablePPO:
    """Loads a fighter for acting, without needing rl-zoo3; to go on training use ``PvpPPO.load``.

    A policy of sb3_contrib is not told masks by observations: pass them to ``predict``. The global random generators
    are left alone. Loading unpickles: only load files that you trust. Raises ``FileNotFoundError``, or ``ValueError``
    if the file is no model of MaskablePPO.
    """
    path = find_model(path)
    with _reading(str(path)):
        return MaskablePPO.load(path, device=device, custom_objects=_NOT_FOR_ACTING)


def game_of(model: BaseAlgorithm) -> Game:
    """What a model was trained to play, imported if need be: the game that its file names, else that of its contract.

    Raises `ValueError`, which tells how to say the game, if the model does not tell or nobody knows the name here.
    """
    name, contract = getattr(model, "game", None), getattr(model.policy, "contract", None)
    if name is None:
        heads = getattr(model.policy, "head_sizes", tuple(getattr(model.action_space, "nvec", ())))
        contract = contract or find_contract(AUTO, heads, NormalizedFeatures(model.observation_space))
        name = None if contract is None else contract.name
    if name is None:
        raise ValueError("the model does not tell which game it plays: say it with --game module:object")
    return named_game(name)


def named_game(name: str) -> Game:
    """The game that a file names; raises `ValueError`, which tells how to say it, if nobody knows it here."""
    if ":" not in name and name not in game_names():
        raise ValueError(f"{name!r} is a game that nobody knows here: say where it is with --game module:object")
    return find_game(name)
