"""Plain descriptions of policies: all that is needed, beside the weights, to build one without unpickling anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch as th
from gymnasium import Space, spaces
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import (
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor

from sb3_pvp.common.arguments import FrameAge, NonNegativeInt, PositiveInt
from sb3_pvp.common.errors import first_error
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.game.contract.model import registered_contracts
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.extractors import EXTRACTORS, find_extractor, name_of_extractor
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, ShapedFeatures, heads_of
from sb3_pvp.policies.memory import MemorySettings, read_memory
from sb3_pvp.policies.networks import ACTIVATIONS, Layer, Layers, parse_architectures

#: The classes that can be described, by the names that SB3 gives them.
_CLASSES: dict[str, type[MaskableActorCriticPolicy]] = {
    "AutoregressivePolicy": AutoregressivePolicy,
    "MlpPolicy": MaskableActorCriticPolicy,
    "MultiInputPolicy": MaskableMultiInputActorCriticPolicy,
}
_FLAGS = (
    "share_features_extractor",
    "autoregressive",
    "normalize_actions",
    "normalize_observations",
    "future_masks",
    "scale_constants",
)
# JSON numbers only: a list is accepted for a tuple, but a text is no number.
_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
_WEIGHT_BYTES = 4
#: The most of what takes time and memory whatever the weights are: each number of an observation has limits, heads have
#: tables of entries by entries, a layer that is only an activation has no weights, and a features extractor is made to
#: see how many it has.
MAX_NUMBERS, MAX_HEADS, MAX_ENTRIES, MAX_LAYERS, MAX_ARGUMENT = 1 << 22, 1 << 8, 1 << 13, 1 << 10, 1 << 16
#: One limit for all entries or one per entry; ``None``: unlimited.
Limits = float | None | tuple[float | None, ...]


class Part(BaseModel):
    """A part of the observation, a `gymnasium.spaces.Box`."""

    model_config = _STRICT

    shape: tuple[PositiveInt, ...]
    dtype: Literal["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
    low: Limits
    high: Limits

    @classmethod
    def of(cls, name: str, space: Space[Any]) -> Part:
        """Describes a space; raises `ValueError` unless it is a Box."""
        if not isinstance(space, spaces.Box):
            raise ValueError(f"the part {name!r} of the observation is {space}, not a Box")
        return cls(shape=space.shape, dtype=str(space.dtype), low=_limits(space.low), high=_limits(space.high))  # type: ignore[arg-type]

    def space(self) -> spaces.Box:
        """Builds the space again."""
        low, high = self._array(self.low, -np.inf), self._array(self.high, np.inf)
        return spaces.Box(low, high, self.shape, np.dtype(self.dtype).type)

    def _array(self, limits: Limits, unlimited: float) -> Any:
        if not isinstance(limits, tuple):
            return unlimited if limits is None else limits
        if len(limits) != prod(self.shape):
            raise ValueError(f"{len(limits)} limits do not fit an observation of shape {self.shape}")
        values = [unlimited if limit is None else limit for limit in limits]
        return np.array(values, self.dtype).reshape(self.shape)


class ContractReference(BaseModel):
    """A contract by name and `contract_hash`."""

    model_config = _STRICT

    name: str
    sha256: str

    def find(self) -> Contract | None:
        """Returns the contract if it is registered here; it is not needed for acting.

        Raises `ValueError` if the one with this name has other observations, actions or rules.
        """
        if self.name not in registered_contracts():  # not load_contract(): it would read files
            return None
        contract = load_contract(self.name)
        if contract_hash(contract) != self.sha256:
            raise ValueError(f"it was trained with another version of the contract {self.name} than the installed one")
        return contract


class Description(BaseModel):
    """A policy of MaskablePPO in plain values; the weights are those of its state dict.

    Architectures are lists of layers, as in `sb3_pvp.policies.networks.Layer`. In policies other than
    `AutoregressivePolicy` all flags are false.
    """

    model_config = _STRICT

    algorithm: ClassVar[str] = "MaskablePPO"  #: Of the policy's class.
    policy: Literal["AutoregressivePolicy", "MlpPolicy", "MultiInputPolicy"]
    observation: dict[str, Part]  #: In the order of the space; a Box is the part ``"observation"`` alone.
    is_dict: bool  #: Whether the observation space is a Dict.
    head_sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    is_discrete: bool  #: Whether the action space is Discrete; else it is MultiDiscrete.
    features: Layers
    actor: Layers
    critic: Layers
    heads: tuple[Layers, ...]  #: The hidden layers of each head.
    share_features_extractor: bool
    autoregressive: bool
    normalize_actions: bool
    normalize_observations: bool
    future_masks: bool
    scale_constants: bool = False
    features_extractor: str | None = None  #: One of `known_extractors`, in an `AutoregressivePolicy`.
    features_extractor_kwargs: dict[str, JsonValue] = {}
    memory: MemorySettings | None = None  #: Of an `AutoregressivePolicy`.
    contract: ContractReference | None = None
    game: str | None = None  #: The game of the training, as `sb3_pvp.game.find_game` takes it.
    frame_ages: tuple[FrameAge, ...] | None = None  #: Ages of the frames in ticks.
    reset_params: dict[str, JsonValue] | None = None  #: How fights of the training started.
    steps: NonNegativeInt = 0  #: Timesteps of training.

    def plain(self) -> dict[str, Any]:
        """Returns JSON values for `read_description`."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def policy_class(self) -> type[MaskableActorCriticPolicy]:
        """The class of the policy."""
        return _CLASSES[self.policy]

    @property
    def observation_space(self) -> Space[Any]:
        """A new observation space."""
        if not self.is_dict:
            return self.observation[OBSERVATION].space()
        # As pairs: a dictionary would be sorted, and the order is that of the features.
        return spaces.Dict([(key, part.space()) for key, part in self.observation.items()])

    @property
    def action_space(self) -> spaces.Discrete | spaces.MultiDiscrete | spaces.Box:
        """A new action space."""
        return spaces.Discrete(self.head_sizes[0]) if self.is_discrete else spaces.MultiDiscrete([*self.head_sizes])

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of the policy; raises `ValueError` if its contract has changed."""
        if self.policy_class is not AutoregressivePolicy:
            sizes = {key: [each.size for each in part] for key, part in (("pi", self.actor), ("vf", self.critic))}
            names = [each.activation for each in (*self.actor, *self.critic)] or ["tanh"]
            return {"net_arch": sizes, "activation_fn": ACTIVATIONS[str(names[0])]}
        contract = None if self.contract is None else self.contract.find()
        return {
            "net_arch": {"pi": _architecture(self.actor), "vf": _architecture(self.critic)},
            "head_arch": [_architecture(head) for head in self.heads],
            **self._extractor(),
            "features_arch": _architecture(self.features),
            **{flag: getattr(self, flag) for flag in _FLAGS},
            "memory": None if self.memory is None else self.memory.model_dump(exclude_defaults=True),
            "contract": None if contract is None else contract.name,
        }

    def check(self, weight_bytes: int) -> None:
        """Raises `ValueError` if it contradicts itself, is too large, or needs more weights than there are.

        Otherwise a file of a few bytes could make its reader allocate all memory.
        """
        flat = sum(self.head_sizes)
        sizes = {key: prod(part.shape) for key, part in self.observation.items()}
        refuse_large(
            ("numbers in an observation", sum(sizes.values()), MAX_NUMBERS),
            ("heads", len(self.head_sizes), MAX_HEADS),
            ("entries of its heads", flat, MAX_ENTRIES),
            ("layers", len([*self._all_layers()]), MAX_LAYERS),
            (
                "in an argument of its features extractor",
                max(map(abs, _numbers_in(self.features_extractor_kwargs)), default=0),
                MAX_ARGUMENT,
            ),
        )
        contradictions = {
            "its observation has no public part": not sizes.keys() - {PRIVILEGED, ACTION_MASK},
            f"its observation is no Dict, but has other parts than {OBSERVATION!r}": (
                not self.is_dict and [*sizes] != [OBSERVATION]
            ),
            "its action space is Discrete, but it has several heads": self.is_discrete and len(self.head_sizes) > 1,
            f"its mask does not have {flat} entries": sizes.get(ACTION_MASK, flat) != flat,
            "its heads and their architectures differ in number": len(self.heads) != len(self.head_sizes),
            "a layer is repeated": any(layer.repeat != 1 for layer in self._all_layers()),
            "a plain policy has other layers than those of actor and critic, or several activations": (
                self.policy_class is not AutoregressivePolicy and not self._is_plain()
            ),
        }
        for what, is_so in contradictions.items():
            if is_so:
                raise ValueError(f"its description is wrong: {what}")
        if self._num_weights(sizes, flat) * _WEIGHT_BYTES > weight_bytes:
            raise ValueError(f"its description needs more weights than the {weight_bytes} bytes in the file")

    def _extractor(self) -> dict[str, Any]:
        """Returns the arguments of the policy that make its features extractor, none without one."""
        if self.features_extractor is None:
            return {}
        given = self.features_extractor_kwargs or None
        return {
            "features_extractor_class": find_extractor(self.features_extractor),
            "features_extractor_kwargs": given,
        }

    def _all_layers(self) -> Iterable[Layer]:
        return (layer for part in (self.features, self.actor, self.critic, *self.heads) for layer in part)

    def _is_plain(self) -> bool:
        layers = (*self.actor, *self.critic)
        is_mlp = not any((self.memory, self.features, *self.heads, *(getattr(self, flag) for flag in _FLAGS)))
        return is_mlp and len({each.activation for each in layers}) <= 1 and all(each.size for each in layers)

    def _num_weights(self, sizes: Mapping[str, int], flat: int) -> int:
        """Returns how many weights the layers have; ``sizes`` are those of the parts of an observation."""
        is_own = self.policy_class is AutoregressivePolicy
        parts = {key: size for key, size in sizes.items() if not is_own or key != ACTION_MASK}
        hidden = parts.get(PRIVILEGED, 0) if is_own else 0
        public, counted = sum(parts.values()) - hidden, 0
        if self.features_extractor is not None:
            public, counted = weights_of_extractor(self.observation_space, self._extractor())
        of_actor, count = _through(public, self.features)
        of_critic, count_of_critic = _through(public + hidden, self.features)
        counted = counted + count + (0 if self.share_features_extractor else counted + count_of_critic)
        if (memory := self.memory) is not None:
            counted += memory.num_weights(of_actor)
            of_actor, of_critic = of_actor + memory.size, of_critic + memory.size * memory.critic
        (actor, count), (critic, count_of_critic) = _through(of_actor, self.actor), _through(of_critic, self.critic)
        counted += count + count_of_critic + critic
        if not is_own:
            return counted + actor * flat
        # Counted as `AutoregressivePolicy` would allocate them, before anything is allocated.
        inputs = actor + flat * (self.autoregressive + self.future_masks)
        for size, layers in zip(self.head_sizes, self.heads, strict=True):
            # Heads with hidden layers are as wide as the widest head.
            counted += _through(inputs, (*layers, Layer(size=max(self.head_sizes) if layers else size)))[1]
        return counted + (2 * flat * flat if len(self.head_sizes) > 1 else 0)  # the rules between heads


def refuse_large(*counts: tuple[str, float, int]) -> None:
    """Raises `ValueError` if a description has more of something than the most: its name, its number, and that."""
    for what, number, most in counts:
        if number > most:
            raise ValueError(f"its description is too large: it has more than {most} {what}")


def _numbers_in(value: JsonValue) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers_in(each)
    elif isinstance(value, int | float):
        yield value


def _through(width: int, layers: Iterable[Layer]) -> tuple[int, int]:
    """Returns how many outputs layers behind each other have for ``width`` inputs, and how many weights."""
    count = 0
    for layer in layers:
        if layer.size:
            width, count = layer.size, count + width * layer.size
    return width, count


def contract_hash(contract: Contract) -> str:
    """Returns the SHA-256 of what models depend on: ids, their order, rules, flags and agents; not of the texts."""
    heads = [
        [head.id, [[each.id, each.require_all, each.require_any, each.require_none] for each in head.actions]]
        for head in contract.heads
    ]
    observations = [[each.id, each.partial] for each in contract.observations]
    parts: list[Any] = [heads, observations]
    if contract.agents:  # contracts without teams keep the hash that older files have
        agents = [[each.id, each.observations, each.heads, each.active] for each in contract.agents]
        parts += [agents, contract.shared_weights]
    if contract.shape:
        parts += [list(contract.shape), contract.pixels]
    if contract.numbers.size:
        parts += [contract.numbers.tolist()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _layers_of(policy: Any, actions: Space[Any]) -> dict[str, Any]:
    names = {kind: name for name, kind in _CLASSES.items()}
    if type(policy) not in names:
        raise ValueError(f"a {type(policy).__name__} cannot be described in plain values, only {', '.join(_CLASSES)}")
    is_own, name = isinstance(policy, AutoregressivePolicy), {"policy": names[type(policy)]}
    return name | (_own_layers(policy) if is_own else _plain_layers(policy, len(_head_sizes(actions))))


def describe(model: BaseAlgorithm) -> Description:
    """Describes a model of MaskablePPO, or one whose policy has a ``describe``.

    Raises `ValueError` if its policy is a class of its own, has a features extractor of its own, sees anything but Box
    spaces, or is otherwise not made of plain values.
    """
    policy: Any = model.policy
    space, actions = model.observation_space, model.action_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    contract = getattr(policy, "contract", None)
    try:
        kind, own = policy.describe() if hasattr(policy, "describe") else (Description, _layers_of(policy, actions))
        values: dict[str, Any] = {
            "observation": {key: Part.of(key, part) for key, part in parts.items()},
            "is_dict": isinstance(space, spaces.Dict),
            "head_sizes": _head_sizes(actions),
            "is_discrete": isinstance(actions, spaces.Discrete),
            **own,
            "contract": contract and ContractReference(name=contract.name, sha256=contract_hash(contract)),
            **{name: getattr(model, name, None) for name in ("game", "frame_ages", "reset_params")},
            "steps": model.num_timesteps,
        }
        return kind(**values)
    except ValidationError as error:
        raise ValueError(f"the model cannot be described in plain values: {first_error(error)}") from None


def read_description(values: object, kind: type[Description] = Description) -> Description:
    """Returns the description in JSON values; raises `ValueError` if they are none."""
    try:
        return kind.model_validate_json(json.dumps(values))
    except ValidationError as error:
        raise ValueError(f"its description is wrong: {first_error(error, of=kind)}") from None


def build(
    description: Description, weights: Mapping[str, th.Tensor], device: str = "cpu", classes: Any = None
) -> MaskablePPO:
    """Builds a model of MaskablePPO for inference, as loading its zip would, without unpickling anything.

    If the description comes from a file, call its `check` first. The game is not imported on its own, see
    `sb3_pvp.policies.files.model_files.game_of`. Draws from torch's random generator. Raises `ValueError` if the
    weights do not fit, see also `Description.arguments`. ``classes`` are those of the model and of its policy.
    """
    arguments = description.arguments()
    algorithm, policy_class = classes or (MaskablePPO, description.policy_class)
    model = algorithm(policy_class, None, device=device, _init_setup_model=False)  # type: ignore[arg-type]
    vars(model).update(
        observation_space=description.observation_space,
        action_space=description.action_space,
        policy_kwargs=arguments,
        learning_rate=0.0,
        clip_range=0.0,
        n_envs=1,
        n_steps=1,
        num_timesteps=description.steps,
        game_is_trusted=False,
        **{name: getattr(description, name) for name in ("game", "frame_ages", "reset_params")},
    )
    model._setup_model()
    try:
        model.policy.load_state_dict(weights)
    except RuntimeError as error:  # its message has a line per weight
        raise ValueError(f"its weights do not fit its description: {' '.join(str(error).split()):.300}") from None
    model.policy.set_training_mode(False)
    return model


def _head_sizes(space: Space[Any]) -> tuple[int, ...]:
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        return tuple(space.nvec.tolist())
    if isinstance(space, spaces.Box):  # of a policy that describes which heads are numbers itself
        return heads_of(space)[0]
    raise ValueError(f"the action space {space} is not one of MultiDiscrete or Discrete actions that begin at 0")


def _own_layers(policy: AutoregressivePolicy) -> dict[str, Any]:
    given = policy._arguments
    extractor: dict[str, Any] = {}
    if (used := given["features_extractor_class"]) is not None:
        name = name_of_extractor(used)
        if name is None:
            raise ValueError(
                f"the features extractor {used.__name__} cannot be described in plain values, only those of SB3 and of "
                f"installed packages: add it by an entry point of the group {EXTRACTORS}"
            )
        extractor = {"features_extractor": name, "features_extractor_kwargs": given["features_extractor_kwargs"] or {}}
    layers = parse_architectures(given, len(policy.head_sizes))
    return (
        dict(zip(("features", "actor", "critic", "heads"), layers, strict=True))
        | {flag: bool(given[flag]) for flag in _FLAGS}
        | extractor
        | {"memory": read_memory(given["memory"])}
    )


def _plain_layers(policy: MaskableActorCriticPolicy, num_heads: int) -> dict[str, Any]:
    extractor: Any = policy.features_extractor
    is_plain = type(extractor) in (FlattenExtractor, CombinedExtractor) and policy.normalize_images
    if not is_plain or [*extractor.parameters()]:
        raise ValueError(f"the features extractor {type(extractor).__name__} cannot be described in plain values")
    names = {kind: name for name, kind in ACTIVATIONS.items()}
    activation: Any = names.get(policy.activation_fn)
    if activation is None:
        raise ValueError(f"the activation {policy.activation_fn.__name__} is none of {', '.join(ACTIVATIONS)}")
    both: Any = policy.net_arch if isinstance(policy.net_arch, dict) else dict.fromkeys(("pi", "vf"), policy.net_arch)
    actor, critic = ([Layer(size=size, activation=activation) for size in both.get(key, ())] for key in ("pi", "vf"))
    empty = {"features": (), "heads": ((),) * num_heads}
    return empty | {"actor": actor, "critic": critic} | dict.fromkeys(_FLAGS, False)


def _architecture(layers: Sequence[Layer]) -> dict[str, Any]:
    return {"layers": [layer.model_dump(exclude_defaults=True) for layer in layers]}


def _limits(array: NDArray[Any]) -> Limits:
    values = array.astype(object)
    values[np.isinf(array)] = None
    return values.flat[0] if (values == values.flat[0]).all() else tuple(values.flat)


def weights_of_extractor(space: Space[Any], arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the number of outputs of a features extractor, and of its weights, without allocating these.

    ``arguments`` are those of `AutoregressivePolicy` that make it. Raises `ValueError` if it refuses them.
    """
    # On this device tensors have shapes and no memory, whatever sizes a stranger's file asks for.
    with th.device("meta"):
        given = arguments["features_extractor_class"], arguments["features_extractor_kwargs"] or {}
        extractor = ShapedFeatures(space, *given).extractor
    return extractor.features_dim, sum(each.numel() for each in extractor.parameters())
