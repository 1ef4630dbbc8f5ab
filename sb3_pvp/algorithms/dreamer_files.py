"""DreamerV3 in the registry: how its files are read, and how a frozen model acts in many fights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from typing import Any

import numpy as np
import torch as th
from gymnasium import Space, spaces
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.distributions import (
    ActionDistribution,
    Choices,
    Draws,
    mixed_probs,
    symexp,
    two_hot_mean,
)
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.dreamer_fighters import FighterPolicy
from sb3_pvp.algorithms.dreamer.dreamer_policy import Carried, DreamerPolicy
from sb3_pvp.algorithms.dreamer.signals import encode_actions
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.dreamer.world_model import Latent
from sb3_pvp.common.arguments import NonNegativeInt, PositiveInt
from sb3_pvp.common.errors import first_error
from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, frames_of, head_sizes_of, part_of
from sb3_pvp.policies.files.description import (
    MAX_ARGUMENT,
    MAX_ENTRIES,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_NUMBERS,
    Part,
    refuse_large,
)
from sb3_pvp.policies.files.model_files import INFERENCE_OBJECTS, loading
from sb3_pvp.policies.files.reading import ModelFile
from sb3_pvp.policies.files.registry import Algorithm, objects_to_play
from sb3_pvp.policies.networks import LEAST_ROWS_OF_LINEAR, filled

#: How many networks have so many layers.
_NETWORKS = {"layers": 6, "head_layers": 2, "prior_layers": 1, "posterior_layers": 1}


class PlainPolicy(BaseModel):
    """A policy of Box observations and choices in plain values, but for its weights and what it does not see."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    observation: dict[str, Part]  #: A Box is the part ``"observation"`` alone.
    is_dict: bool
    head_sizes: tuple[PositiveInt, ...] = Field(min_length=1)
    is_discrete: bool
    size: dict[str, NonNegativeInt]
    is_fighter: bool = False  #: Whether it is a `FighterPolicy`; its weights have the rules.

    @property
    def observation_space(self) -> Space[Any]:
        """A new observation space."""
        parts: dict[str, Space[Any]] = {key: part.space() for key, part in self.observation.items()}
        return spaces.Dict(parts) if self.is_dict else parts[OBSERVATION]

    @property
    def action_space(self) -> Space[Any]:
        """A new action space."""
        return spaces.Discrete(self.head_sizes[0]) if self.is_discrete else spaces.MultiDiscrete([*self.head_sizes])

    def check(self, weights: Mapping[str, th.Tensor]) -> None:
        """Raises `ValueError` if it is too large, or needs more weights for rules than there are."""
        flat, layers = sum(self.head_sizes), {name: self.size.get(name, 0) for name in _NETWORKS}
        refuse_large(
            ("numbers in an observation", sum(prod(part.shape) for part in self.observation.values()), MAX_NUMBERS),
            ("heads", len(self.head_sizes), MAX_HEADS),
            ("entries of its heads", flat, MAX_ENTRIES),
            ("layers", sum(number * layers[name] for name, number in _NETWORKS.items()), MAX_LAYERS),
            ("of one thing in its size", max(self.size.values(), default=0), MAX_ARGUMENT),
        )
        has_rules = self.is_fighter and len(self.head_sizes) > 1
        if has_rules and sum(part.numel() for part in weights.values()) < 2 * flat * flat:
            raise ValueError("its description needs more weights than there are in the file")

    def build(self, weights: Mapping[str, th.Tensor]) -> DreamerPolicy:
        """Returns the policy; raises `ValueError` if the weights do not fit, before memory is taken for others."""
        self.check(weights)
        given = self.observation_space, self.action_space, lambda _: 0.0, ModelSize(**self.size)
        with th.device("meta"):  # where tensors have shapes, and no memory
            shapes = {name: part.shape for name, part in DreamerPolicy(*given, mlp_keys="").state_dict().items()}
        # A fighter's own parts are no larger than what is the same in both, and the number of entries.
        own = ("networks.actor.", "networks.decoder.") if self.is_fighter else ()
        found = {name: part.shape for name, part in weights.items()}
        if other := [name for name, _ in found.items() ^ shapes.items() if not name.startswith(own)]:
            raise ValueError(f"its networks are of another size than its description says: {min(other)}")
        policy = FighterPolicy(*given, mlp_keys="", contract=None) if own else DreamerPolicy(*given, mlp_keys="")
        policy.load_state_dict(weights)
        return policy


class NumberedDraws(Draws):
    """Draws by numbers from [0, 1) ``(n, draws)``, one after the other, so that no row depends on another."""

    def __init__(self, numbers: th.Tensor) -> None:
        self._left = numbers

    def _draw(self, probs: th.Tensor) -> th.Tensor:
        """Returns class numbers ``(n, draws)`` of probabilities ``(n, draws, classes)``."""
        count = probs.shape[1]
        numbers, self._left = self._left[:, :count, None], self._left[:, count:]
        sums = probs.cumsum(-1)
        # Not more than the sum, which rounding may leave below 1: the last class could be an illegal one.
        return (sums <= numbers * sums[..., -1:]).sum(-1)

    def latent(self, probs: th.Tensor) -> th.Tensor:
        """Implements `Draws.latent`."""
        return F.one_hot(self._draw(probs), probs.shape[-1]).float()

    def actions(self, distributions: Mapping[str, ActionDistribution]) -> dict[str, th.Tensor]:
        """Implements `Draws.actions`, of choices."""
        choices = {key: each for key, each in distributions.items() if isinstance(each, Choices)}
        return {key: self._draw(each.logits.softmax(-1)) for key, each in choices.items()}

    def uniforms(self, rows: int, heads: int) -> th.Tensor:
        """Implements `Draws.uniforms`."""
        numbers, self._left = self._left[:, :heads].float(), self._left[:, heads:]
        return numbers


class DreamerActing:
    """A frozen policy as an `sb3_pvp.policies.acting.Opponent`: its state and two random words are one row of bits.

    Raises `ValueError` if the policy sees more than features and their mask, or acts by numbers.
    """

    def __init__(self, policy: DreamerPolicy) -> None:
        heads, seen = len(head_sizes_of(policy.action_space)), policy.observed.signals.keys()
        if {*seen} - {ACTION_MASK} != {OBSERVATION} or not isinstance(part_of(policy.observation_space), spaces.Box):
            raise ValueError(f"the model sees {', '.join(seen)}, not a Box of features, or one under {OBSERVATION!r}")
        self._policy = copy.deepcopy(policy, {id(policy.optimizer): None}).to("cpu").requires_grad_(False)
        self._policy.set_training_mode(False)
        self._draws, nothing = policy.size.stoch + heads, self._policy.start(1)
        self._shapes = [part.shape[1:] for part in nothing]

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint32]:
        """Returns random words, and that nothing is remembered, uint32 ``(N, width)``."""
        return self._packed(words_from_seeds(seeds, stream=3), self._policy.start(len(seeds)))

    def _packed(self, words: NDArray[np.uint64], carried: Carried) -> NDArray[np.uint32]:
        parts = [part.flatten(1).numpy().view(np.uint32) for part in carried]
        return np.concatenate([words[:, None].view(np.uint32), *parts], 1)

    @th.inference_mode()
    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`; raises `ValueError` if an observation is NaN."""
        count, state = len(observation), np.ascontiguousarray(state)
        numbers, words = uniforms(state[:, :2].copy().view(np.uint64)[:, 0], self._draws)
        given = [observation, episode_start, np.ascontiguousarray(action_masks, np.bool_), numbers]
        given += [part.numpy() for part in self._unpacked(state)]
        # As many rows at least as make each row's result the same whatever the others are.
        own, first, masks, drawn, *remembered = (filled(th.from_numpy(part), LEAST_ROWS_OF_LINEAR) for part in given)
        if own.isnan().any():
            raise ValueError("an observation of an opponent is NaN: no action can be chosen")
        carried = Carried(*remembered)
        seen = self._policy.observed.tensors(self._as_seen(own, masks))
        draws = Draws(likeliest=True) if deterministic else NumberedDraws(drawn)
        actions, carried = self._policy.step(seen, carried, first, draws, masks)
        chosen = th.cat([actions[key] for key in sorted(actions)], 1)[:count]
        return chosen.numpy(), self._packed(words, Carried(*(part[:count] for part in carried)))

    @th.inference_mode()
    def imagine(self, states: NDArray[np.uint32], steps: int, futures: int = 16) -> tuple[NDArray[np.float32], ...]:
        """Implements `ModelOpponent.imagine`: means of some ``futures``, the same ones whenever it is asked."""
        networks, copies = self._policy.networks, np.repeat(np.ascontiguousarray(states), futures, 0)
        carried, draws = self._unpacked(copies), Draws()
        state, action, seen = Latent(*carried[:2]), carried.action, []
        values = two_hot_mean(networks.critic(state.features()))
        with th.random.fork_rng():
            th.manual_seed(0)
            for _ in range(steps):
                deter = networks.recurrent.core(state, action)
                state = Latent(deter, draws.latent(mixed_probs(networks.recurrent.prior(deter))))
                features, signals = state.features(), self._policy.actions.signals
                action = encode_actions(signals, networks.choose(features, draws))
                goes_on = networks.goes_on(features).squeeze(-1).sigmoid()
                seen.append((two_hot_mean(networks.reward(features)), goes_on, networks.decoder(state)[OBSERVATION]))
        rewards, goes_on, expected = (th.stack(parts, 1) for parts in zip(*seen, strict=True))
        # Only frames of now: the first ones.
        expected = symexp(expected[..., : expected.shape[-1] // frames_of(self._policy.observation_space)[0]])
        parts = values, rewards, goes_on.cumprod(1), expected
        means = [part.reshape(-1, futures, *part.shape[1:]).mean(1).numpy() for part in parts]
        return means[0], means[1], means[2], means[3]

    def _unpacked(self, state: NDArray[np.uint32]) -> Carried:
        """Returns what is remembered in rows of bits, behind the random words."""
        widths = [shape.numel() for shape in self._shapes]
        parts = np.split(state[:, 2:].copy().view(np.float32), np.cumsum(widths)[:-1], 1)
        shaped = zip(map(th.from_numpy, parts), self._shapes, strict=True)
        return Carried(*(part.reshape(-1, *shape) for part, shape in shaped))

    def _as_seen(self, own: th.Tensor, masks: th.Tensor) -> Any:
        space, parts = self._policy.observation_space, {OBSERVATION: own, ACTION_MASK: masks}
        if not isinstance(space, spaces.Dict):
            return own
        return {key: each.reshape(-1, *(space[key].shape or ())) for key, each in parts.items() if key in space.spaces}


class DreamerFiles(Algorithm):
    """DreamerV3 in the registry."""

    model_class = DreamerV3

    def describe(self, model: Any) -> dict[str, Any]:
        """Implements `Algorithm.describe`: for Box observations, and choices that begin at 0."""
        policy, space, actions = model.policy, model.observation_space, model.action_space
        parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
        seen = policy.observed.signals.keys()
        if np.any(getattr(actions, "start", 0)) or not seen <= parts.keys():
            raise ValueError(f"there is no plain description of {space} and {actions}")
        return PlainPolicy(
            observation={key: Part.of(key, parts[key]) for key in seen},
            is_dict=isinstance(space, spaces.Dict),
            head_sizes=head_sizes_of(actions),
            is_discrete=isinstance(actions, spaces.Discrete),
            size=asdict(policy.size),
            is_fighter=isinstance(policy, FighterPolicy),
        ).model_dump(mode="json")

    def acting(self, model: Any) -> DreamerActing:
        """Implements `Algorithm.acting`."""
        return DreamerActing(model.policy)

    def build(self, data: Mapping[str, Any], weights: Mapping[str, th.Tensor], device: str) -> DreamerV3:
        """Implements `Algorithm.build`; raises `ValueError` if there is no plain description."""
        if data.get("description") is None:
            raise ValueError("it has no plain description, only pickled parts: load it without safe if you trust it")
        try:
            plain = PlainPolicy.model_validate(data["description"])
        except ValidationError as error:
            raise ValueError(f"its description is wrong: {first_error(error, of=PlainPolicy)}") from None
        with loading("it", "DreamerV3"):
            policy = plain.build(weights)
        model = DreamerV3(DreamerPolicy, None, device=device, _init_setup_model=False)  # type: ignore[arg-type]
        vars(model).update(
            policy=policy.to(model.device), observation_space=plain.observation_space, action_space=plain.action_space,
            num_timesteps=data.get("num_timesteps", 0), game_is_trusted=False,
            **{name: data.get(name) for name in ("game", "frame_ages", "reset_params")},
        )  # fmt: skip
        return model

    def load(self, file: ModelFile, device: str = "cpu") -> Any:
        """Implements `Algorithm.load`."""
        if file.content is None:
            return super().load(file, device)
        with loading(file.name, "DreamerV3"), importing_here():
            objects = objects_to_play(file.values, INFERENCE_OBJECTS)
            return DreamerV3.load(file.content, device=device, custom_objects=objects)


DREAMER_FILES = DreamerFiles()
