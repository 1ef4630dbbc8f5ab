"""Checkpoints in the original system's format with random weights, and what the original makes of them.

Written from training.md §3 and cli-config.md §11 alone, with nothing of the package.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray

Array = NDArray[Any]
EPSILON = 1.1920929e-07
CLASSES = {
    "pvp_ml.ppo.ppo": ["PolicyParams", "Meta"],
    "pvp_ml.util.running_mean_std": ["TensorRunningMeanStd"],
    "pvp_ml.util.contract_loader": ["EnvironmentMeta", "ActionHead", "Action", "Observation"],
    "pvp_ml.util.schedule": ["LinearSchedule"],
    "pvp_ml.util.league": ["League"],
    "pvp_ml.ppo.ext.win_rate_extension": ["WinRateExtension"],
}


@contextmanager
def original_classes() -> Iterator[dict[str, type]]:
    """Yields inert classes with the names of the original ones, which exist only inside of the block."""
    made = {name: type(name, (), {"__module__": module}) for module, names in CLASSES.items() for name in names}
    parents = {".".join(module.split(".")[:end]) for module in CLASSES for end in range(1, module.count(".") + 2)}
    try:
        for module in parents:
            sys.modules[module] = ModuleType(module)
        for kind in made.values():
            setattr(sys.modules[kind.__module__], kind.__name__, kind)
        yield made
    finally:
        for module in parents:
            del sys.modules[module]


def instance(kind: type, **attributes: Any) -> Any:
    made = kind()
    vars(made).update(attributes)
    return made


def mlp(*layers: dict[str, Any]) -> dict[str, Any]:
    return {"layers": list(layers)}


def dense(*sizes: int, activation: str | None = "relu") -> dict[str, Any]:
    return mlp(*({"size": size, "activation": activation} for size in sizes))


def unrolled(config: Any) -> list[dict[str, Any]]:
    """Returns the modules of an MLP, as in its sequential container."""
    modules: list[dict[str, Any]] = []
    for layer in (config or {}).get("layers", []):
        for _ in range(layer.get("repeat", 1)):
            modules.append(layer)
            if "size" in layer and layer.get("activation"):
                modules.append({"function": layer["activation"]})
    return modules


@dataclass
class Original:
    """A policy of the original system."""

    frames: int = 1
    own: int = 40
    seen: int = 55
    sizes: tuple[int, ...] = (4, 4, 2, 2, 2, 3)
    extractor: Any = field(default_factory=dict)
    shared: bool = False
    actor: Any = field(default_factory=lambda: dense(8))
    critic: Any = field(default_factory=lambda: dense(8))
    heads: Any = None
    rules: dict[int, Any] = field(default_factory=dict)
    autoregressive: bool = True
    future_masks: bool = False
    normalize_actions: bool = True
    normalized: bool = True
    win_rate: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.weights: OrderedDict[str, th.Tensor] = OrderedDict()
        flat, seen = sum(self.sizes), max(self.own, self.seen)
        self.mean, self.var = (self.rng.normal(size=seen), self.rng.uniform(0, 4, seen)) if self.normalized else (
            np.zeros(seen), np.ones(seen))  # fmt: skip
        self.var[::5] = 0  # constant so far
        action_mean = self.rng.uniform(0, 1, flat)
        self._add("actor.action_mean", action_mean)
        self._add("actor.action_var", np.where(np.arange(flat) % 7, action_mean * (1 - action_mean), 0))
        self._add("actor.action_count", np.array([1280.0001]))
        of_actor, of_critic = self.frames * self.own, self.frames * self.seen
        if self.shared:
            of_actor = of_critic = self._mlp("feature_extractor", self.extractor, of_actor)
        else:
            of_actor = self._mlp("actor_feature_extractor", self.extractor, of_actor)
            of_critic = self._mlp("critic_feature_extractor", self.extractor, of_critic)
        width = self._mlp("actor.hidden", self.actor, of_actor)
        self._linear("critic.head", self._mlp("critic.hidden", self.critic, of_critic), 1)
        for head, size in enumerate(self.sizes):
            inputs = width + (sum(self.sizes[:head]) if self.autoregressive else 0)
            inputs += sum(self.sizes[head + 1 :]) if self.future_masks else 0
            self._linear(f"actor.heads.{head}.1", self._mlp(f"actor.heads.{head}.0", self.head(head), inputs), size)
        policy, self.weights = self.weights, OrderedDict()
        if self.win_rate is not None:
            self._linear("net.1", self._mlp("net.0", self.win_rate, self.frames * self.own), 2)
        self.classifier, self.weights = self.weights, policy

    def head(self, number: int) -> Any:
        return self.heads[number] if isinstance(self.heads, list) else self.heads

    def _add(self, name: str, values: Array) -> None:
        self.weights[name] = th.as_tensor(np.asarray(values, np.float32))

    def _linear(self, name: str, inputs: int, outputs: int) -> None:
        self._add(f"{name}.weight", self.rng.normal(size=(outputs, inputs)) / np.sqrt(inputs))
        self._add(f"{name}.bias", self.rng.normal(size=outputs))

    def _mlp(self, name: str, config: Any, width: int) -> int:
        for index, module in enumerate(unrolled(config)):
            if "size" in module:
                self._linear(f"{name}.{index}", width, module["size"])
                width = module["size"]
        return width

    def params(self) -> dict[str, Any]:
        return {
            "max_sequence_length": self.frames,
            "actor_input_size": self.own,
            "critic_input_size": self.seen,
            "action_head_sizes": list(self.sizes),
            "feature_extractor_config": self.extractor,
            "share_feature_extractor": self.shared,
            "critic_config": self.critic,
            "actor_config": self.actor,
            "action_head_configs": self.heads,
            "action_dependencies": self.rules,
            "autoregressive_actions": self.autoregressive,
            "append_future_action_masks": self.future_masks,
            "normalize_autoregressive_actions": self.normalize_actions,
        }

    def content(self, classes: dict[str, type], custom_data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns what the original would save."""
        mean, var = (th.as_tensor(part.astype(np.float32)) for part in (self.mean, self.var))
        clips = {"epsilon": 1e-8, "clip_upper": 5, "clip_lower": -5}
        statistics = instance(
            classes["TensorRunningMeanStd"], shape=(len(mean),), mean=mean, var=var, count=1280.0001, **clips
        )
        meta = instance(
            classes["Meta"],
            running_observation_stats=statistics,
            normalized_observations=self.normalized,
            trained_steps=1280,
            trained_rollouts=2,
            num_updates=20,
            custom_data=custom_data or {},
        )
        content = {"policy": self.weights, "policy_params": instance(classes["PolicyParams"], **self.params())}
        content |= {"optimizer": {"state": {}, "param_groups": [{"lr": 3e-4}]}, "meta": meta, "extensions": []}
        if self.win_rate is not None:
            params = {"mlp_config": self.win_rate, "input_size": self.own, "max_sequence_length": self.frames}
            params |= {"classifier_state": self.classifier, "optimizer_state": None}
            content["extensions"] = [{"name": "winrate", "params": params, "type": classes["WinRateExtension"]}]
        return content

    def save(self, path: Path, custom_data: dict[str, Any] | None = None, **changes: Any) -> Path:
        """Writes a checkpoint; ``changes`` replace parts of what the original would save."""
        with original_classes() as classes:
            th.save(self.content(classes, custom_data) | changes, path)
        return path

    def normalize(self, features: Array) -> Array:
        width = features.shape[-1]
        if not self.normalized:
            return features
        mean, var = (part[:width].astype(np.float32).astype(float) for part in (self.mean, self.var))
        return np.clip((features - mean) / np.sqrt(var + 1e-8), -5, 5)

    def run(self, name: str, config: Any, inputs: Array, weights: Any = None) -> Array:
        """Runs an MLP."""
        for index, module in enumerate(unrolled(config)):
            if "size" in module:
                inputs = self.affine(f"{name}.{index}", inputs, weights)
            elif "function" in module:
                inputs = FUNCTIONS[module["function"]](inputs)
        return inputs

    def affine(self, name: str, inputs: Array, weights: Any = None) -> Array:
        weight, bias = ((weights or self.weights)[f"{name}.{part}"].double().numpy() for part in ("weight", "bias"))
        return np.asarray(inputs @ weight.T + bias)

    def values(self, observations: Array) -> Array:
        """Returns the values of raw observations ``(batch, frames, seen)``."""
        seen = self.normalize(observations).reshape(len(observations), -1)
        name = "feature_extractor" if self.shared else "critic_feature_extractor"
        hidden = self.run("critic.hidden", self.critic, self.run(name, self.extractor, seen))
        return self.affine("critic.head", np.maximum(hidden, 0))[:, 0]

    def decide(self, observations: Array, masks: Array, given: Array | None = None) -> dict[str, Array]:
        """Returns the most likely actions, or those given, and their figures per head."""
        public = self.normalize(observations)[:, :, : self.own].reshape(len(observations), -1)
        name = "feature_extractor" if self.shared else "actor_feature_extractor"
        trunk = np.maximum(self.run("actor.hidden", self.actor, self.run(name, self.extractor, public)), 0)
        starts = np.cumsum((0, *self.sizes))
        actions = np.zeros((len(masks), len(self.sizes)), np.int64)
        probabilities, one_hot = np.zeros(masks.shape), np.zeros(masks.shape)
        mean, var = (self.weights[f"actor.action_{part}"].double().numpy() for part in ("mean", "var"))
        for head, size in enumerate(self.sizes):
            own = slice(starts[head], starts[head + 1])
            parts = [trunk]
            if self.autoregressive and head:
                seen = one_hot
                if self.normalize_actions:
                    seen = np.clip((one_hot - mean) / np.sqrt(var + 1e-8), -5, 5)
                parts.append(seen[:, : starts[head]])
            if self.future_masks:
                parts.append(masks[:, starts[head + 1] :].astype(float))
            hidden = self.run(f"actor.heads.{head}.0", self.head(head), np.concatenate(parts, 1))
            legal = masks[:, own] & self.allowed(head, actions)
            legal[:, 0] |= ~legal.any(1)
            logits = self.affine(f"actor.heads.{head}.1", hidden) - 1e8 * ~legal
            shares = np.exp(logits - logits.max(1, keepdims=True))
            probabilities[:, own] = shares / shares.sum(1, keepdims=True)
            actions[:, head] = probabilities[:, own].argmax(1) if given is None else given[:, head]
            one_hot[:, own] = np.eye(size)[actions[:, head]]
        logs = np.log(np.clip(probabilities, EPSILON, 1 - EPSILON))
        each = [slice(start, end) for start, end in pairwise(starts)]
        entropies = np.stack([-(probabilities[:, own] * logs[:, own]).sum(1) for own in each], 1)
        return {
            "actions": actions,
            "probabilities": probabilities,
            "log_probs": (logs * one_hot).sum(1),
            "entropies": entropies,
        }

    def allowed(self, head: int, actions: Array) -> Array:
        """Returns what the rules allow, given the actions of earlier heads."""
        allowed = np.ones((len(actions), self.sizes[head]), bool)
        for entry, rules in self.rules.get(head, {}).items():
            holds = {
                rule: np.array([actions[:, other] == chosen for other, chosen in pairs])
                for rule, pairs in rules.items()
            }
            if "require_all" in holds:
                allowed[:, entry] &= holds["require_all"].all(0)
            if "require_any" in holds:
                allowed[:, entry] &= holds["require_any"].any(0)
            if "require_none" in holds:
                allowed[:, entry] &= ~holds["require_none"].any(0)
        return allowed

    def wins(self, observations: Array) -> Array:
        """Returns what the extension says."""
        public = self.normalize(observations)[:, :, : self.own].reshape(len(observations), -1)
        logits = self.affine("net.1", self.run("net.0", self.win_rate, public, self.classifier), self.classifier)
        return np.asarray(1 / (1 + np.exp(logits[:, 0] - logits[:, 1])))

    def situations(self, batch: int, seed: int = 0) -> tuple[Array, Array]:
        """Returns raw observations ``(batch, frames, seen)``, float32, and masks, where some heads allow nothing."""
        rng = np.random.default_rng(seed)
        width = max(self.own, self.seen)
        noise = rng.normal(size=(batch, self.frames, width)) * np.where(rng.random(width) < 0.3, 0, 1)
        observations = (self.mean + noise * np.sqrt(self.var + 0.1)).astype(np.float32)
        masks = rng.random((batch, sum(self.sizes))) < 0.7
        masks[:, 0] = True
        return observations, masks


def _gelu(values: Array) -> Array:
    return np.asarray(th.nn.functional.gelu(th.as_tensor(values)))


FUNCTIONS: dict[str, Any] = {"relu": lambda values: np.maximum(values, 0), "tanh": np.tanh, "gelu": _gelu}


def rules_of(sizes: Sequence[int], rng: np.random.Generator) -> dict[int, Any]:
    """Returns random rules between heads, of all kinds."""
    rules: dict[int, Any] = {head: {} for head in range(len(sizes))}
    for head in range(1, len(sizes)):
        for entry in range(sizes[head]):
            for rule in ("require_all", "require_any", "require_none"):
                if rng.random() < 0.2:
                    others = rng.integers(head, size=rng.integers(1, 3))
                    pairs = [(int(other), int(rng.integers(sizes[other]))) for other in others]
                    rules[head].setdefault(entry, {})[rule] = pairs
    return rules
