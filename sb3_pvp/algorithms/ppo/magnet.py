"""A magnet: another policy that learning pulls towards, by a KL divergence in the loss.

Self-play by policy gradients alone goes round an equilibrium. With a pull towards a fixed policy it comes to rest: if
that policy is uniform, at a quantal response equilibrium (magnetic mirror descent, https://arxiv.org/abs/2206.05825),
which is close to a Nash equilibrium where the pull is weak. PPO with it is as hard to exploit as algorithms that were
made for such games (https://arxiv.org/abs/2502.08938). A magnet that follows the policy slowly, the average of its
weights, does not pull back to actions that have turned out to be bad (EMAgnet, https://arxiv.org/abs/2606.23995).

MMD also has a divergence from the last policy, which is left to PPO's clipping here, as in the second of these papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import PyTorchObs

from sb3_pvp.algorithms.ppo.resumable import found_again
from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import ACTION_MASK, map_parts
from sb3_pvp.policies.files.model_files import load
from sb3_pvp.policies.memory import NOT_CARRIED
from sb3_pvp.policies.networks import ROWS_AT_ONCE

if TYPE_CHECKING:
    from sb3_pvp.algorithms.ppo.average import WeightAverage

UNIFORM, EMA = "uniform", "ema"
#: From raw observations, the policy's own features of them, actions and flat masks of all steps to flat logits of the
#: magnet ``(steps, A)``: in every head, those of its choice given the actions of earlier heads.
Magnet = Callable[[PyTorchObs, th.Tensor, th.Tensor, th.Tensor], th.Tensor]


def place_of(given: str | None, run_folder: str | Path | None) -> str | None:
    """Returns what a magnet goes by: of a file its absolute path, also if the folder of the run was moved since."""
    if given in (None, UNIFORM, EMA):
        return given
    place = str(Path(str(given)).absolute())
    if run_folder is not None:
        place = found_again(place, Path(run_folder).absolute())
    return next((name for name in (place, f"{place}.zip") if Path(name).is_file()), given)


def make_magnet(given: Any, policy: th.nn.Module, average: WeightAverage | None) -> Magnet | None:
    """Returns the magnet of a policy: ``"uniform"``, ``"ema"`` for its average, or a fighter by its file or name.

    Raises `ValueError` if there is no such magnet, or it does not fit; `FileNotFoundError` if there is no such file.
    """
    if given is None:
        return None
    if not isinstance(policy, AutoregressivePolicy):
        raise ValueError(f"a magnet needs sb3_pvp.policies.AutoregressivePolicy, not {type(policy).__name__}")
    if given == UNIFORM:
        return _uniform
    if given == EMA and policy.memory is not None:
        raise ValueError(NOT_CARRIED.format(what="magnet='ema'", instead="take 'uniform', or a fighter without memory"))
    if given == EMA and average is None:
        raise ValueError("magnet='ema' is the average of the weights: give ema_decay, such as 0.999, too")
    return _of_average(policy, average) if average is not None and given == EMA else _of_fighter(policy, given)


def _uniform(_: PyTorchObs, features: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
    return features.new_zeros(1, 1).expand(masks.shape)


def _of_average(policy: AutoregressivePolicy, average: WeightAverage) -> Magnet:
    """The average as it is before a learning phase: within one, it hardly moves."""

    def logits(_: PyTorchObs, features: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
        with average.in_place():
            return th.cat([policy.logits(features[at], actions[at], masks[at]) for at in _parts(len(masks))])

    return logits


def _of_fighter(policy: AutoregressivePolicy, given: Any) -> Magnet:
    other: Any = load(given, device=str(policy.device)).policy
    if not isinstance(other, AutoregressivePolicy):
        raise ValueError(f"the magnet {given} is a {type(other).__name__}, not an AutoregressivePolicy")
    if other.head_sizes != policy.head_sizes or not _sees(policy.observation_space, other.observation_space):
        raise ValueError(f"the magnet {given} is of another game, or sees other frames: take a fighter of this one")
    if other.memory is not None:
        raise ValueError(NOT_CARRIED.format(what=f"the magnet {given}", instead="take a fighter without memory"))
    other.set_training_mode(False)

    @th.no_grad()
    def logits(observations: PyTorchObs, _: th.Tensor, actions: th.Tensor, masks: th.Tensor) -> th.Tensor:
        found = []
        for at in _parts(len(masks)):
            seen = other.features(map_parts(observations, itemgetter(at)))
            found.append(other.logits(seen, actions[at], masks[at]))
        return th.cat(found)

    return logits


def _sees(space: spaces.Space[Any], other: spaces.Space[Any]) -> bool:
    """Whether a policy with the ``other`` space can take the observations of ``space``."""
    if not (isinstance(space, spaces.Dict) and isinstance(other, spaces.Dict)):
        return space.shape == other.shape
    needed = {key: part.shape for key, part in other.items() if key != ACTION_MASK}
    return needed == {key: part.shape for key, part in space.items() if key in needed}


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, size, ROWS_AT_ONCE))
