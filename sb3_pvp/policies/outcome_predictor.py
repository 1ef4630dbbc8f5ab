"""`OutcomePredictor`: a fighter's probability of winning, from its observation (training.md §12)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import default_convert

from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.networks import (
    Architecture,
    FrameStatistics,
    LinearLayer,
    make_network,
    parse_layers,
    set_layers,
)

#: Classes of the network.
LOST, WON = range(2)
_PLAIN_ATTRIBUTES = ("shape", "learning_rate", "rng", "net_arch")


class OutcomePredictor:
    """A small classifier on the CPU, trained on fights that were not tied and saved with the model it belongs to.

    Args:
        shape: shape of the public observation, ``(frames, features)`` or ``(features,)``.
        learning_rate: learning rate of Adam.
        seed: seed of the initial weights and of the order of mini-batches.
        net_arch: hidden layers, as in `AutoregressivePolicy`.
    """

    net_arch: Architecture = (64, 64)  # also of files that do not say

    def __init__(
        self,
        shape: tuple[int, ...],
        learning_rate: float = 1e-3,
        seed: int = 0,
        net_arch: Architecture = (64, 64),
    ) -> None:
        self.shape, self.net_arch = tuple(shape), net_arch
        self.learning_rate = learning_rate
        #: Normalises observations; the identity until a callback replaces it.
        self.statistics = FrameStatistics(np.zeros(shape[-1:], np.float32), np.ones(shape[-1:], np.float32), np.inf)
        self.rng = np.random.default_rng(seed)
        self._build(seed)

    def predict(self, observation: NDArray[Any] | Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        """Returns ``{"WIN": p, "LOSE": 1 - p}``, float32 of the observation's batch shape ``(...)``.

        ``observation`` is the environment's Dict, or the array ``(..., *shape)`` of its ``"observation"``; raises
        `ValueError` if it has another shape.
        """
        raw = np.asarray(observation[OBSERVATION] if isinstance(observation, Mapping) else observation)
        batch = raw.shape[: raw.ndim - len(self.shape)]
        if raw.shape != (*batch, *self.shape):
            raise ValueError(f"an observation of shape {raw.shape} does not fit {self.shape} or a batch of it")
        with th.no_grad():
            probabilities = self._logits(raw.reshape(-1, *self.shape)).softmax(1).numpy()
        return {"WIN": probabilities[:, WON].reshape(batch), "LOSE": probabilities[:, LOST].reshape(batch)}

    def tensors(self) -> dict[str, th.Tensor]:
        """Returns all that `predict` needs, as copies; raises `ValueError` unless the layers are the default ones."""
        if parse_layers(self.net_arch, "relu") != parse_layers(type(self).net_arch, "relu"):
            raise ValueError("an outcome predictor with other layers than the default ones cannot be exported")
        statistics = {name: th.as_tensor(value).clone() for name, value in asdict(self.statistics).items()}
        network = {name: part.clone() for name, part in self._network.state_dict().items()}
        return {"shape": th.tensor(self.shape)} | statistics | network

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, th.Tensor]) -> OutcomePredictor:
        """Returns the predictor that `tensors` came from, with a new optimiser; `ValueError` if they do not fit."""
        try:
            weights = dict(tensors)
            shape = tuple(weights.pop("shape").tolist())
            mean, scale, clip = (weights.pop(each.name) for each in fields(FrameStatistics))
            if math.prod(shape) != weights["0.weight"].shape[1] or not mean.shape == scale.shape == shape[-1:]:
                raise ValueError("the shape of the observation is another one")
            predictor = cls(shape)
            predictor._network.load_state_dict(weights)
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"the outcome predictor is malformed: {' '.join(str(error).split()):.300}") from error
        predictor.statistics = FrameStatistics(mean.numpy(), scale.numpy(), float(clip))
        return predictor

    def fit(self, observations: NDArray[Any], won: NDArray[np.bool_], batch_size: int = 64) -> float:
        """Trains for one epoch on raw observations ``(n, *shape)`` and labels ``(n,)``; returns the mean loss."""
        self._network.train()
        total = 0.0
        # By its own generator, whose state is saved: torch's stream is that of the policy.
        for batch in np.split(self.rng.permutation(len(won)), range(batch_size, len(won), batch_size)):
            loss = cross_entropy(self._logits(observations[batch]), th.from_numpy(won[batch]).long())
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            total += float(loss.detach()) * len(batch)
        self._network.eval()
        return total / len(won)

    def evaluate(self, observations: NDArray[Any], won: NDArray[np.bool_]) -> tuple[float, float]:
        """Returns the mean loss and the accuracy on data as in `fit`."""
        with th.no_grad():
            logits, labels = self._logits(observations), th.from_numpy(won).long()
            right = (logits.argmax(1) == labels).float().mean()
            return float(cross_entropy(logits, labels)), float(right)

    def set_layers(self, layers: Iterable[LinearLayer]) -> None:
        """Copies weights into the linear layers, in order."""
        set_layers(self._network, layers)

    def _logits(self, observations: NDArray[Any]) -> th.Tensor:
        features = self.statistics(observations.astype(np.float32, copy=False)).reshape(len(observations), -1)
        logits: th.Tensor = self._network(th.from_numpy(features))
        return logits

    def _build(self, seed: int) -> None:
        # Must not change torch's global random stream, which training samples from.
        with th.random.fork_rng(devices=[]):
            th.manual_seed(seed)
            hidden, width = make_network(int(np.prod(self.shape)), parse_layers(self.net_arch, "relu"))
            self._network = nn.Sequential(*hidden, nn.Linear(width, 2)).eval()
        self._optimizer = th.optim.Adam(self._network.parameters(), lr=self.learning_rate)

    def __getstate__(self) -> dict[str, Any]:
        """Returns plain values and NumPy arrays, so that files depend neither on torch nor on our other classes."""
        contents = {"network": self._network.state_dict(), "optimizer": self._optimizer.state_dict()}
        own = {name: getattr(self, name) for name in _PLAIN_ATTRIBUTES}
        return own | {"statistics": asdict(self.statistics), "contents": _without_tensors(contents)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: state[name] for name in _PLAIN_ATTRIBUTES if name in state})
        self.statistics = FrameStatistics(**state["statistics"])
        self._build(0)
        # After `_build`, which makes the tensors that these replace: a file has no objects of torch.
        contents = default_convert(state["contents"])  # type: ignore[no-untyped-call]
        self._network.load_state_dict(contents["network"])
        self._optimizer.load_state_dict(contents["optimizer"])


def _without_tensors(tree: Any) -> Any:
    """Replaces the tensors in nested dicts and lists by arrays."""
    if isinstance(tree, dict):
        return {key: _without_tensors(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_tensors(value) for value in tree]
    return tree.numpy().copy() if isinstance(tree, th.Tensor) else tree
