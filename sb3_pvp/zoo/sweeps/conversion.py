"""How drawn values become hyperparameters in rl-zoo3's format, of which every set can be trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

from sb3_pvp.common.arguments import NUMBER
from sb3_pvp.schedules import parse_schedule
from sb3_pvp.zoo.sweeps.default_space import DEFAULT_SPACE
from sb3_pvp.zoo.sweeps.space import Parameter, Space, read_space

Block = dict[str, Any]

#: What PvpPPO takes where a block says nothing.
_DEFAULTS = {
    "n_envs": 1,
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "learning_rate": 3e-4,
    "ent_coef": 0.0,
    "clip_range": 0.2,
    "vf_coef": 0.5,
}
#: The kinds of opponents among which a `SelfPlayCallback` divides the environments.
_SHARES = ("self_play", "past", "target", "latest")
#: Smaller batches have no mean to subtract from their advantages.
_SMALLEST_BATCH = 2


def applicable(space: Space, block: Mapping[str, Any], is_ours: bool) -> Space:
    """The parameters that this configuration has a use for.

    Args:
        space: all of them.
        block: the hyperparameters of the configuration.
        is_ours: whether the environment is one of this package, with rewards.
    """
    return tuple(parameter for parameter in space if _applies(parameter.target, block, is_ours))


def chosen_space(file: str | Path | None, block: Mapping[str, Any], is_ours: bool) -> Space:
    """The space in a file, or what is applicable of the default one.

    Raises `ValueError` or `OSError` for a file that is none, or has parameters for which there is no use.
    """
    if file is None:
        return applicable(DEFAULT_SPACE, block, is_ours)
    space = read_space(Path(file), DEFAULT_SPACE)
    for parameter in space:
        if parameter not in applicable(space, block, is_ours):
            raise ValueError(f"{file}: there is nothing like {parameter.target} here, which {parameter.name} varies")
    return space


def hyperparameters(sample: Mapping[str, Any], space: Space, block: Mapping[str, Any], n_timesteps: int) -> Block:
    """The block with what was drawn in place of its own values; nested values keep what is not drawn.

    Args:
        sample: drawn values by the names of parameters; those that are missing leave the block as it is.
        space: what they mean.
        block: hyperparameters in rl-zoo3's format; it stays as it is.
        n_timesteps: the length of the run, in whose roll-outs schedules are counted.

    Raises:
        ValueError: for values that are not in the space, or have no place in the block.
    """
    conversion = Conversion(copy.deepcopy(dict(block)), n_timesteps)
    for parameter in sorted(space, key=_order):
        if parameter.name in sample:
            parameter.check(sample[parameter.name])
            conversion.put(parameter, sample[parameter.name])
    return conversion.block


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of a positive number that is not above a positive limit."""
    return next(divisor for divisor in range(min(number, limit), 0, -1) if number % divisor == 0)


def callback_options(block: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The arguments of the callback of that class in a block, to look at or change; ``None`` if there is none."""
    listed = block.get("callback")
    for each in listed if isinstance(listed, list) else [listed]:
        if isinstance(each, dict):
            for path, options in each.items():
                if str(path).rsplit(".", 1)[-1] == name and isinstance(options, dict):
                    return options
    return None


def _applies(target: str, block: Mapping[str, Any], is_ours: bool) -> bool:
    path = target.split(".")
    if path[0] == "callback":
        return len(path) == 3 and path[2] in (callback_options(block, path[1]) or {})
    if path[0] == "env_kwargs":
        return is_ours
    if path[0] == "policy_kwargs" and path[1:] != ["net_arch"]:
        return str(block.get("policy")).endswith("AutoregressivePolicy")
    return True


def _order(parameter: Parameter) -> tuple[bool, bool, bool]:
    """What others are counted in comes first: roll-outs, initial values, rows."""
    plain = parameter.unit in ("value", "complement", "layers")
    return parameter.target not in ("n_envs", "n_steps"), not plain, parameter.unit == "rows_left"


class Conversion:
    """A block while it is changed, and what its values are counted in.

    Args:
        block: hyperparameters in rl-zoo3's format, to be changed.
        n_timesteps: the length of the run.
    """

    def __init__(self, block: Block, n_timesteps: int) -> None:
        self.block, self._n_timesteps = block, n_timesteps
        self._schedules: set[str] = set()

    def put(self, parameter: Parameter, value: Any) -> None:
        """Puts a drawn value where it belongs."""
        *parents, name = parameter.target.split(".")
        owner = self._owner(parents, parameter)
        owner[name] = _UNITS[parameter.unit](self, owner, name, value)

    def _owner(self, parents: list[str], parameter: Parameter) -> Block:
        if parents[:1] == ["callback"]:
            options = callback_options(self.block, parents[-1])
            if options is None:
                raise ValueError(f"{parameter.name} needs a {parents[-1]} with options among the callbacks")
            return options
        if len(parents) == 1 and parents[0] in _DEFAULTS:
            return self._schedule(parents[0])
        owner = self.block
        for parent in parents:
            if owner.get(parent) is None:
                owner[parent] = {}
            owner = owner[parent]
            if not isinstance(owner, dict):
                raise ValueError(f"{parameter.name} cannot be put into {parent}, which is {owner!r}")
        return owner

    def _schedule(self, name: str) -> Block:
        """The linear schedule over the whole run that replaces a value or another schedule."""
        if name not in self._schedules:
            self._schedules.add(name)
            first, last = _ends(self.own(name))
            over = {"initial_value": first, "final_value": last, "change_over_time_steps": self.n_rollouts()}
            self.block[name] = {"type": "linear", **over}
        schedule: Block = self.block[name]
        return schedule

    def own(self, name: str) -> Any:
        """A hyperparameter of the block, or what `PvpPPO` takes where the block says nothing."""
        value = self.block.get(name)
        return _DEFAULTS.get(name) if value is None else value

    def rollout(self) -> int:
        """Steps of a roll-out."""
        return int(self.own("n_envs")) * int(self.own("n_steps"))

    def n_rollouts(self) -> int:
        """Roll-outs of the run."""
        return max(ceil(self._n_timesteps / self.rollout()), 1)

    def _minibatch(self, owner: Block, name: str, count: int) -> int:
        rollout = self.rollout()
        return rollout // largest_divisor(rollout, max(min(int(count), rollout // _SMALLEST_BATCH), 1))

    def _of_initial(self, owner: Block, name: str, share: float) -> float:
        return float(owner["initial_value"] * share)

    def _of_run(self, owner: Block, name: str, share: float) -> int:
        return max(round(self.n_rollouts() * share), 1)

    def _pairs(self, owner: Block, name: str, share: float) -> float:
        """Both seats of a fight learn, so that rows come in pairs."""
        rows = int(self.own("n_envs"))
        free = rows - self.taken(owner, ("self_play", "past"))
        return min(round(rows * share / 2), free // 2) * 2 / rows

    def _of_left(self, owner: Block, name: str, share: float) -> float:
        rows = int(self.own("n_envs"))
        return int(round((rows - self.taken(owner, (name,))) * share, 6)) / rows

    def taken(self, owner: Block, free: tuple[str, ...]) -> int:
        """The rows of the kinds of opponents that are not among the free ones; owner: of the shares.

        Raises `ValueError` for a share that is a schedule.
        """
        taken = 0
        for kind in _SHARES:
            share = owner.get(kind, 0.0)
            if kind in free:
                continue
            if not NUMBER.fits(share):
                raise ValueError(f"shares of opponents cannot be varied beside the schedule {kind}: make it a number")
            taken += ceil(self.own("n_envs") * share)
        return min(taken, int(self.own("n_envs")))


_UNITS: dict[str, Callable[[Conversion, Block, str, Any], Any]] = {
    "value": lambda conversion, owner, name, value: value,
    "complement": lambda conversion, owner, name, value: 1 - value,
    "layers": lambda conversion, owner, name, value: _layers(str(value)),
    "minibatches": Conversion._minibatch,
    "of_initial": Conversion._of_initial,
    "of_run": Conversion._of_run,
    "rows": Conversion._pairs,
    "rows_left": Conversion._of_left,
}


def _layers(text: str) -> list[int]:
    try:
        return [] if text == "none" else [int(size) for size in text.split("x")]
    except ValueError:
        raise ValueError(f"layers are written like 128x128 or none, got {text!r}") from None


def _ends(value: Any) -> tuple[float, float]:
    """The first and last value of a number, a schedule, or rl-zoo3's ``lin_...``."""
    if isinstance(value, str):
        return float(value.split("_")[-1]), 0.0
    schedule = parse_schedule(value)
    first = float(schedule(0))
    last = value.get("final_value", first) if isinstance(value, dict) else first
    return first, float(last)
