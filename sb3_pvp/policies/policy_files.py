"""The policy in a model's file, without the rest: for those who only act."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch as th
from gymnasium import Space
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import json_to_data

_PARTS = ("policy_class", "observation_space", "action_space", "policy_kwargs")


class PolicyFile:
    """What a model's file holds of its policy; unpickled, so only read files that you trust.

    Args:
        name: where it was read.
        data: how the policy is made, JSON as SB3 writes it.
        weights: its parameters and statistics, as `torch.save` writes them.

    Attributes:
        policy_class: its class.
        arguments: what it is made with besides spaces.
        observation_space: what the policy was trained to see.
        action_space: what it chooses from.
        content_hash: equal for files with the same policy, whatever else they hold, in any process.
        frame_ages: the frames that the policy was trained with, if the file tells.
        game: what it was trained to play, as `sb3_pvp.game.find_game` takes it, if the file tells.

    Raises:
        ValueError: if the policy cannot be made here.
    """

    def __init__(self, name: str, data: str, weights: bytes) -> None:
        self.name = name
        self._weights = weights
        with self.making():
            parts = json_to_data(data)
            made_of = [parts[part] for part in _PARTS]
            # Pickles of equal spaces differ; what they look like does not.
            self.content_hash = hashlib.sha256(repr(made_of).encode() + weights).hexdigest()
        self.policy_class: type = made_of[0]
        self.observation_space: Space[Any] = made_of[1]
        self.action_space: Space[Any] = made_of[2]
        self.arguments: dict[str, Any] = {key: value for key, value in made_of[3].items() if key != "device"}
        ages = parts.get("frame_ages")
        self.frame_ages: tuple[int, ...] | None = None if ages is None else tuple(ages)
        self.game: str | None = parts.get("game")

    @contextmanager
    def making(self) -> Iterator[None]:
        """Where something is made of the file: the global random generators are left alone (a fresh network draws
        weights before it gets its own), and whatever goes wrong is a `ValueError` that names the file."""
        try:
            with th.random.fork_rng(devices=[]):
                yield
        except Exception as error:
            raise ValueError(f"{self.name} is not a model of MaskablePPO: {error}") from error

    def weights(self) -> dict[str, th.Tensor]:
        """Its parameters and statistics by name, on the CPU."""
        weights: dict[str, th.Tensor] = th.load(io.BytesIO(self._weights), map_location="cpu", weights_only=True)
        return weights

    def policy(self) -> MaskableActorCriticPolicy:
        """The policy on the CPU, ready to act; raises ``ValueError`` if it cannot be made, or is none of MaskablePPO."""
        with self.making():
            policy = self.policy_class(self.observation_space, self.action_space, lambda _: 0.0, **self.arguments)
            policy.load_state_dict(self.weights())
        if not isinstance(policy, MaskableActorCriticPolicy):
            raise ValueError(f"{self.name} holds a {type(policy).__name__}, which is not a policy of MaskablePPO")
        policy.set_training_mode(False)
        return policy


def find_model(path: str | Path) -> Path:
    """The model's file, whose suffix ``.zip`` may be left out; raises ``FileNotFoundError`` if there is none."""
    given = Path(path)
    for candidate in (given, given.with_name(f"{given.name}.zip")):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"There is no model file {path}")


def read_policy_file(path: str | Path) -> PolicyFile:
    """Reads a file that ``model.save()`` wrote.

    Raises ``FileNotFoundError``, or ``ValueError`` if it is no such file.
    """
    path = find_model(path)
    return _read(path, str(path))


def policy_file_of(model: BaseAlgorithm) -> PolicyFile:
    """What a file of this model would hold now."""
    file = io.BytesIO()
    model.save(file, exclude=["training_state"])
    return _read(file, type(model).__name__)


def _read(file: Path | io.BytesIO, name: str) -> PolicyFile:
    try:
        with ZipFile(file) as archive:
            data: dict[str, Any] = json.loads(archive.read("data"))
            weights = archive.read("policy.pth")
    except (BadZipFile, KeyError, ValueError) as error:
        raise ValueError(f"{name} is not a model: models are zip files written by model.save()") from error
    parts = {part: data[part] for part in (*_PARTS, "frame_ages", "game") if part in data}
    return PolicyFile(name, json.dumps(parts), weights)
