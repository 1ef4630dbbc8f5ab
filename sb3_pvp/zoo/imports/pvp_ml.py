"""Policies of the original system: what its checkpoints contain, and how that maps to ours (cli-config.md §11)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch as th
from gymnasium import spaces
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sb3_pvp.algorithms.ppo.algorithm import PvpPPO
from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
from sb3_pvp.common.arguments import MAPPING, NUMBER, NonNegativeInt, PositiveInt, check_frame_ages, read_model
from sb3_pvp.game.contract import Contract, DependencyTables
from sb3_pvp.game.contract.model import loadable_contracts
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED
from sb3_pvp.policies.files.shipped import find_model
from sb3_pvp.policies.heads import DependencyRules
from sb3_pvp.policies.networks import FrameStatistics, Layer, Layers, LinearLayer, parse_layers, set_layers
from sb3_pvp.policies.outcome_predictor import OutcomePredictor
from sb3_pvp.zoo.imports.restricted_pickle import Checkpoint, Record, plain, refusing

WIN_RATE = "winrate"  #: The name of the extension that is our `OutcomePredictor`.
#: Limits, because few bytes can ask for many layers, and a policy is larger than its checkpoint where there are many
#: heads: it pads them to the same size, and keeps a table of all pairs of entries.
_MAX_LAYERS, _MAX_HEADS, _MAX_ENTRIES = 1000, 64, 1024
_RELU = Layer(activation="relu")
_KEPT = ("env_kwargs", "reference_rating", "past_self_play_league")  #: See `UpstreamFile.settings`.
_Rule = Literal["require_all", "require_any", "require_none"]


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=5)  # for the caller of `import_upstream`


def _parse(config: Any) -> Layers:
    """Returns the layers of an MLP's configuration; the grammar is ours (training.md §3.1)."""
    given = config.get("layers") if isinstance(config, Mapping) else config
    if sum(layer.get("repeat", 1) if isinstance(layer, Mapping) else 1 for layer in given or ()) > _MAX_LAYERS:
        raise ValueError(f"a network has more than {_MAX_LAYERS} layers")
    return parse_layers(config, "relu")


_Network = Annotated[Any, AfterValidator(_parse), Field(validate_default=True)]
_Rules = dict[_Rule, list[tuple[NonNegativeInt, NonNegativeInt]]]


def _relu(*sizes: int) -> dict[str, Any]:
    return {"layers": [{"size": size, "activation": "relu"} for size in sizes]}


class PolicyParams(BaseModel):
    """The parameters of a policy, under the original names and with their defaults (training.md §3.2)."""

    model_config = ConfigDict(frozen=True)

    max_sequence_length: PositiveInt  #: Frames.
    actor_input_size: PositiveInt  #: Features of a frame that the actor sees.
    critic_input_size: PositiveInt
    action_head_sizes: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=_MAX_HEADS)]
    feature_extractor_config: _Network = None
    share_feature_extractor: bool = False
    critic_config: _Network = _relu(64, 64)
    actor_config: _Network = _relu(128, 128, 128)
    action_head_configs: Any = None
    action_dependencies: dict[int, dict[int, _Rules]] = {}
    autoregressive_actions: bool = True
    append_future_action_masks: bool = False
    normalize_autoregressive_actions: bool = True

    @property
    def heads(self) -> list[Layers]:
        """The hidden layers of each head; a list has one network per head."""
        given, number = self.action_head_configs, len(self.action_head_sizes)
        configs = given if isinstance(given, list) else [given] * number
        if len(configs) != number:
            raise ValueError(f"action_head_configs has {len(configs)} networks for {number} heads")
        return [_parse(config) for config in configs]

    @property
    def rules(self) -> DependencyTables:
        """The rules between heads."""
        sizes = self.action_head_sizes
        starts = np.cumsum((0, *sizes))
        tables = DependencyTables(*np.zeros((3, sum(sizes), sum(sizes)), np.bool_))
        for head, of_head in self.action_dependencies.items():
            for entry, rules in of_head.items():
                for rule, pairs in rules.items():
                    for other, chosen in pairs:
                        if not (0 <= other < head < len(sizes) and 0 <= entry < sizes[head] and chosen < sizes[other]):
                            raise ValueError(f"a rule of head {head} is about choice {chosen} of head {other}")
                        getattr(tables, rule)[starts[head] + entry, starts[other] + chosen] = True
        return tables


class _Meta(BaseModel):
    """The plain metadata of a checkpoint (training.md §8)."""

    normalized_observations: bool
    trained_steps: NonNegativeInt
    trained_rollouts: NonNegativeInt
    num_updates: NonNegativeInt


@dataclass(frozen=True)
class Moments:
    """Running statistics (training.md §4)."""

    mean: th.Tensor  #: ``(features,)``.
    variance: th.Tensor  #: ``(features,)``.
    count: float


class UpstreamFile:
    """A checkpoint of the original system, read without running anything in it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no such checkpoint, or malformed.
    """

    def __init__(self, path: Path) -> None:
        self._checkpoint = Checkpoint(path)
        with refusing(path):
            content = self._checkpoint.content
            if not isinstance(content, dict) or not {"policy", "policy_params", "meta"} <= content.keys():
                raise ValueError("it has no policy, policy_params and meta")
            given, meta = (content[name].state for name in ("policy_params", "meta"))
            self.params = read_model(PolicyParams, plain(given), "policy parameter")
            numbers = {name: plain(meta[name]) for name in _Meta.model_fields}
            self.meta = read_model(_Meta, numbers, "metadata")
            custom: Mapping[str, Any] = meta.get("custom_data") or {}
            #: Parts of the custom data that are kept as they are, JSON values.
            self.settings = {name: value for name in _KEPT if (value := plain(custom.get(name))) is not None}
            if sum(self.params.action_head_sizes) > _MAX_ENTRIES:
                raise ValueError(f"it has more than {_MAX_ENTRIES} actions")
            self._rules = self.params.rules
            self.contract = self._find_contract(plain(custom.get("env_meta")))
            self.statistics = self._moments(meta["running_observation_stats"], (self._width,), clip=5)
            self._weights = _Weights(self._checkpoint, content["policy"], self.params)
            self._predictor = self._predictor_parts(content.get("extensions") or [])
            rewards = custom.get("reward_norm")
            self.returns = None if rewards is None else self._moments(rewards, (1,))  #: Of rewards, if they are there.
            #: Arguments of the environment; ``None`` if they are not recorded.
            self.env_kwargs = self.settings.get("env_kwargs")
            self.frame_ages = self._frame_ages()  #: Ages of the frames in ticks, ascending.

    @property
    def reset_params(self) -> dict[str, Any] | None:
        """How fights of the training started; ``None`` if it is not recorded."""
        if self.env_kwargs is None:
            return None
        return dict(MAPPING.read("reset_params", self.env_kwargs.get("reset_params")) or {})

    @property
    def num_privileged(self) -> int:
        """Features of a frame that only our critic sees.

        All of the contract's, even if the original critic does not see them: environments always have them.
        """
        if self.contract is None:
            return self.params.critic_input_size - self.params.actor_input_size
        return len(self.contract.partial_indices)

    @property
    def observation_space(self) -> spaces.Dict:
        """The observation space of our environments of this game."""
        sizes = {OBSERVATION: self.params.actor_input_size, PRIVILEGED: self.num_privileged}
        frames = self.params.max_sequence_length
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, (frames, size), np.float32) for name, size in sizes.items() if size
        }
        mask = spaces.Box(0, 1, (sum(self.params.action_head_sizes),), np.int8)
        return spaces.Dict({**parts, ACTION_MASK: mask})

    @property
    def policy_arguments(self) -> dict[str, Any]:
        """The arguments of an `AutoregressivePolicy` of the same architecture."""
        params = self.params
        return {
            "net_arch": {"pi": _rectified(params.actor_config), "vf": _rectified(params.critic_config)},
            "head_arch": [_architecture(_without_leading_dropout(head)) for head in params.heads],
            "features_arch": _architecture(params.feature_extractor_config),
            "share_features_extractor": params.share_feature_extractor and not self.num_privileged,
            "autoregressive": params.autoregressive_actions,
            "normalize_actions": params.normalize_autoregressive_actions,
            "normalize_observations": self.meta.normalized_observations,
            "future_masks": params.append_future_action_masks,
            "scale_constants": True,
            "contract": None if self.contract is None else self.contract.name,
        }

    @th.no_grad()
    def fill(self, policy: AutoregressivePolicy) -> None:
        """Copies weights, statistics and rules into a policy with `policy_arguments`."""
        weights, heads = self._weights, policy.heads
        normalizer = policy.observation_normalizer
        normalizer.mean[: self._width] = self.statistics.mean
        normalizer.variance[: self._width] = self.statistics.variance
        heads.normalizer.mean.copy_(weights.choices.mean)
        heads.normalizer.variance.copy_(weights.choices.variance)
        for own, count in ((normalizer, self.statistics.count), (heads.normalizer, weights.choices.count)):
            own.count.fill_(count if count >= 1 else 0)  # the original begins with 0.0001 samples instead of none
        of_extractor, of_critic, (value_weight, value_bias) = self._critic_layers()
        set_layers(policy.extractors[0], weights.actor_features)
        if policy.extractors[1] is not policy.extractors[0]:
            set_layers(policy.extractors[1], of_extractor)
        set_layers(policy.actor, weights.actor)
        set_layers(policy.critic, of_critic)
        policy.value_net.weight.copy_(value_weight)
        policy.value_net.bias.copy_(value_bias)
        for head, layers in enumerate(weights.heads):
            heads.set_layers(head, layers)
        policy.rules.load_state_dict(DependencyRules(policy.head_sizes, self._rules).state_dict())

    def outcome_predictor(self, policy: AutoregressivePolicy) -> OutcomePredictor | None:
        """Returns the ``winrate`` extension; ``None`` if there is none. ``policy`` is that of `fill`."""
        if self._predictor is None:
            return None
        architecture, layers = self._predictor
        shape = self.params.max_sequence_length, self.params.actor_input_size
        predictor = OutcomePredictor(shape, net_arch=architecture)
        predictor.set_layers(layers)
        if self.meta.normalized_observations:
            predictor.statistics = FrameStatistics.of(policy.observation_normalizer, shape[1])
        return predictor

    @property
    def _width(self) -> int:
        """Features of a frame in the original statistics."""
        return max(self.params.actor_input_size, self.params.critic_input_size)

    def _moments(self, record: Record, shape: tuple[int, ...], clip: float | None = None) -> Moments:
        """Reads running statistics; raises `ValueError` if they clip otherwise."""
        state = record.state
        mean, variance = (self._checkpoint.tensor(state[name], shape) for name in ("mean", "var"))
        if (variance < 0).any():
            raise ValueError("a variance is negative")
        if clip is not None and (plain(state["clip_lower"]), plain(state["clip_upper"])) != (-clip, clip):
            raise ValueError(f"its observations are not clipped to ±{clip}")
        return Moments(mean, variance, NUMBER.read("count", plain(state["count"])))

    def _find_contract(self, recorded: Any) -> Contract | None:
        """Returns the contract with these heads and observations, and warns of differences to it or to ``recorded``."""
        params = self.params
        shape = params.action_head_sizes, params.actor_input_size
        contract = next(
            (each for each in loadable_contracts() if (each.head_sizes, each.num_observations) == shape), None
        )
        sees_opponent = params.critic_input_size - params.actor_input_size
        hidden = sees_opponent if contract is None else len(contract.partial_indices)
        if sees_opponent not in (0, hidden) or sees_opponent < 0:
            raise ValueError(f"its critic sees {sees_opponent} features of the opponent, not {hidden}")
        if sees_opponent and params.share_feature_extractor:
            raise ValueError("its actor and critic share a feature extractor, but see different features")
        if sees_opponent and params.max_sequence_length > 1:
            _warn(
                "in training, the original system mixed up the features of this actor, which sees several frames "
                "(training.md §3.3); it acts as it did on the original's socket, where they are in order"
            )
        if contract is None:
            _warn("no game here has these actions and observations: it can predict, but not play")
            return None
        own, theirs = contract.dependencies, self._rules
        if any((getattr(own, rule) != getattr(theirs, rule)).any() for rule in get_args(_Rule)):
            _warn(f"the rules between its actions are not those of {contract.name}; they are kept")
        if recorded is not None:
            names = [each["id"] for head in recorded["actions"] for each in head["actions"]]
            names += [each["id"] for each in recorded["observations"]]
            ours = [each.id for head in contract.heads for each in head.actions]
            if names != ours + [each.id for each in contract.observations]:
                _warn(f"the names of its actions or observations are not those of {contract.name}")
        return contract

    def _frame_ages(self) -> tuple[int, ...]:
        """Returns the ages of the frames; without a record of them, those of the newest ones."""
        frames = self.params.max_sequence_length
        recorded = (self.env_kwargs or {}).get("stack_frames", frames)
        if recorded != frames and not (isinstance(recorded, list) and len(recorded) == frames):
            _warn(f"it does not record the ages of its {frames} frames: taken to be the newest")
            recorded = frames
        return check_frame_ages(recorded)

    def _critic_layers(self) -> tuple[list[LinearLayer], list[LinearLayer], LinearLayer]:
        """Returns the layers of extractor, trunk and value with the inputs of the first in our order.

        Ours are the public features of all frames, then the privileged ones; theirs are the frames one after the other.
        """
        frames, own, seen = (
            getattr(self.params, name) for name in ("max_sequence_length", "actor_input_size", "critic_input_size")
        )
        frame, feature = np.divmod(np.arange(frames * seen), seen)
        hidden = self.num_privileged
        columns = np.where(feature < own, frame * own + feature, frames * own + frame * hidden + feature - own)
        parts = [list(part) for part in (self._weights.critic_features, self._weights.critic, [self._weights.value])]
        first = next(part for part in parts if part)
        weight, bias = first[0]
        ordered = weight.new_zeros(len(weight), frames * (own + hidden))
        ordered[:, columns] = weight
        first[0] = ordered, bias
        return parts[0], parts[1], parts[2][0]

    def _predictor_parts(self, extensions: Sequence[Mapping[str, Any]]) -> tuple[Any, list[LinearLayer]] | None:
        """Returns architecture and weights of the ``winrate`` extension; warns about others."""
        found = None
        for extension in extensions:
            name, given = plain(extension["name"]), extension["params"]
            if name != WIN_RATE:
                _warn(f"its extension {name!r:.40} is left out")
                continue
            shape = plain(given["max_sequence_length"]), plain(given["input_size"])
            if shape != (self.params.max_sequence_length, self.params.actor_input_size):
                raise ValueError(f"its extension {WIN_RATE!r} sees frames of another shape, {shape}")
            layers = _parse(plain(given["mlp_config"]))
            reader = _Reader(self._checkpoint, given["classifier_state"])
            hidden, width = reader.network("net.0", layers, shape[0] * shape[1])
            found = _architecture(layers), [*hidden, reader.linear("net.1", width, 2)]
            reader.finish()
        return found


class _Weights:
    """The layers of a policy, each as a list of (weight, bias)."""

    def __init__(self, checkpoint: Checkpoint, state: Any, params: PolicyParams) -> None:
        reader = _Reader(checkpoint, state)
        frames, extractor = params.max_sequence_length, params.feature_extractor_config
        of_actor, of_critic = frames * params.actor_input_size, frames * params.critic_input_size
        if params.share_feature_extractor:
            self.actor_features, of_actor = reader.network("feature_extractor", extractor, of_actor)
            self.critic_features, of_critic = self.actor_features, of_actor
        else:
            self.actor_features, of_actor = reader.network("actor_feature_extractor", extractor, of_actor)
            self.critic_features, of_critic = reader.network("critic_feature_extractor", extractor, of_critic)
        self.actor, of_heads = reader.network("actor.hidden", params.actor_config, of_actor)
        self.critic, width = reader.network("critic.hidden", params.critic_config, of_critic)
        self.value = reader.linear("critic.head", width, 1)
        sizes = params.action_head_sizes
        self.heads: list[list[LinearLayer]] = []
        for head, (layers, size) in enumerate(zip(params.heads, sizes, strict=True)):
            width = of_heads + sum(sizes[:head]) * params.autoregressive_actions
            width += sum(sizes[head + 1 :]) * params.append_future_action_masks
            hidden, width = reader.network(f"actor.heads.{head}.0", layers, width)
            self.heads.append([*hidden, reader.linear(f"actor.heads.{head}.1", width, size)])
        mean, variance = (reader.tensor(f"actor.action_{part}", sum(sizes)) for part in ("mean", "var"))
        self.choices = Moments(mean, variance, float(reader.tensor("actor.action_count", 1)))
        reader.finish()


class _Reader:
    """Reads the tensors of a state dict, and checks that none is left over."""

    def __init__(self, checkpoint: Checkpoint, state: Any) -> None:
        self._checkpoint, self._state = checkpoint, dict(state)

    def tensor(self, name: str, *shape: int) -> th.Tensor:
        """Returns the tensor of that shape."""
        if name not in self._state:
            raise ValueError(f"it has no weights {name}")
        try:
            return self._checkpoint.tensor(self._state.pop(name), shape)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def linear(self, name: str, inputs: int, outputs: int) -> LinearLayer:
        """Returns the weight and the bias of a layer."""
        return self.tensor(f"{name}.weight", outputs, inputs), self.tensor(f"{name}.bias", outputs)

    def network(self, name: str, layers: Layers, width: int) -> tuple[list[LinearLayer], int]:
        """Returns the linear layers of an MLP with ``width`` inputs, and the number of its outputs."""
        found, index = [], 0
        for layer in layers:
            if layer.size:
                found.append(self.linear(f"{name}.{index}", width, layer.size))
                width = layer.size
            index += 2 if layer.size and layer.activation else 1
        return found, width

    def finish(self) -> None:
        """Raises `ValueError` if there are weights that were not read."""
        if self._state:
            raise ValueError(f"its settings do not explain the weights {', '.join(map(str, [*self._state][:3]))}")


def _kept(layers: Layers) -> Iterator[Layer]:
    return (layer for layer in layers if layer.size or layer.activation or layer.dropout)


def _without_leading_dropout(layers: Layers) -> Layers:
    """Returns the layers of a head as ours can be; the dropout matters for training only."""
    kept = tuple(dropwhile(lambda layer: not layer.size, layers))
    if kept != layers:
        _warn("the dropout at the beginning of its heads is left out")
    return kept


def _rectified(layers: Layers) -> dict[str, Any]:
    """Returns the architecture of a trunk with the ReLU that the original adds at its end (training.md §3.5)."""
    *_, last = None, *(layer for layer in _kept(layers) if not layer.dropout)
    return _architecture(layers if last is not None and last.activation == "relu" else (*layers, _RELU))


def _architecture(layers: Layers) -> dict[str, Any]:
    return {"layers": [layer.model_dump(exclude_defaults=True) for layer in _kept(layers)]}


def import_upstream(path: str | Path, device: str = "cpu") -> PvpPPO:
    """Reads a checkpoint of the original system, stripped or not, without running anything in it.

    The model decides and values as the original does. It has the original's statistics of observations, choices and
    rewards, its steps, frame ages, reset parameters and outcome predictor (``model.outcome_predictor``); other settings
    are in ``model.upstream``. Training can continue, but the moments of the optimiser are not carried over, and
    hyperparameters are the defaults of `PvpPPO`. Warns about what cannot be carried over.

    Args:
        path: the checkpoint, with or without ``.zip``.
        device: PyTorch device of the policy.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no such checkpoint, or has anything that such checkpoints do not have.
    """
    file = UpstreamFile(found := find_model(path))
    # What fits its description may still be impossible. A new network samples weights before it gets those of the file.
    with refusing(found), preserved_random_state():
        model = PvpPPO(AutoregressivePolicy, None, device=device, _init_setup_model=False)  # type: ignore[arg-type]
        model.observation_space, model.n_envs = file.observation_space, 1
        model.action_space = spaces.MultiDiscrete(np.array(file.params.action_head_sizes, dtype=np.int64))
        model.policy_kwargs = file.policy_arguments
        model._setup_model()
        policy: Any = model.policy
        file.fill(policy)
        policy.set_training_mode(False)
        model.num_timesteps, model.trained_rollouts = file.meta.trained_steps, file.meta.trained_rollouts
        model.num_updates, model.frame_ages = file.meta.num_updates, file.frame_ages
        if file.contract is not None:
            model.game, model.reset_params = file.contract.name, file.reset_params
        returns, predictor = file.returns, file.outcome_predictor(policy)
        if returns is not None:
            model.normalize_reward, own = True, model.reward_normalizer
            own.mean, own.variance, own.count = float(returns.mean), float(returns.variance), returns.count
        vars(model).update(upstream=file.settings, **({} if predictor is None else {"outcome_predictor": predictor}))
        return model
