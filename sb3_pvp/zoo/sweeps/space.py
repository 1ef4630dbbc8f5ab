"""Search spaces, and the conversion of sampled values to valid hyperparameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, Literal, get_args

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from pydantic import BaseModel, StrictFloat, StrictInt, StrictStr, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from sb3_contrib import MaskablePPO

from sb3_pvp.algorithms.presets import hyperparams_folder
from sb3_pvp.common.arguments import NUMBER, as_written
from sb3_pvp.common.errors import first_error
from sb3_pvp.common.plain_yaml import read_yaml
from sb3_pvp.common.schedules import parse_schedule
from sb3_pvp.game import game_and_contract
from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.policies import AutoregressivePolicy

Block = dict[str, Any]
#: The unit of a sampled value, see `_Conversion.put` and `docs/sweeps.md`. In this order, since some depend on others.
Unit = Literal["value", "complement", "layers", "minibatches", "of_initial", "of_run", "rows", "rows_left"]

#: The objective's tag in the log of a run.
WIN_RATE = "sweep/win_rate"
#: The algorithm's default numbers, for what a block leaves out; these hyperparameters can be schedules.
_DEFAULTS = {"n_envs": 1} | {
    each.name: each.default
    for each in inspect.signature(MaskablePPO).parameters.values()
    if isinstance(each.default, (int, float)) and not isinstance(each.default, bool)
}


class Parameter(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A parameter of a search space."""

    kind: Literal["categorical", "uniform", "log_uniform"]
    target: str  #: Path in the hyperparameters, such as ``policy_kwargs.net_arch`` or ``callback.CLASS.ARGUMENT``.
    meaning: str = ""  #: A short description.
    unit: Unit = "value"
    choices: tuple[StrictStr | StrictInt | StrictFloat, ...] = ()  #: Only for ``categorical``.
    low: float = 0.0  #: Lower end of the range, above 0 for ``log_uniform``.
    high: float = 0.0  #: Upper end of the range.

    @model_validator(mode="after")
    def _has_values(self) -> Parameter:
        if bool(self.choices) != (self.kind == "categorical"):
            raise PydanticCustomError("values", "needs choices if it is categorical, and must have none otherwise")
        if not self.choices and not (self.low < self.high and (self.low > 0 or self.kind == "uniform")):
            raise PydanticCustomError("values", "needs a low that is below its high, and above 0 if it is log_uniform")
        return self

    def distribution(self) -> BaseDistribution:
        """Returns Optuna's distribution for this parameter."""
        if self.choices:
            return CategoricalDistribution(self.choices)
        return FloatDistribution(self.low, self.high, log=self.kind == "log_uniform")

    def __str__(self) -> str:
        """Describes the possible values in words."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}{' (logarithmic)' if self.kind == 'log_uniform' else ''}"

    def may_be(self, value: Any) -> bool:
        """Whether this value is in the search space."""
        if self.choices:
            return value in self.choices and not isinstance(value, bool)  # True == 1 in Python
        return NUMBER.fits(value) and self.low <= value <= self.high

    def nearest(self, value: Any) -> Any:
        """Returns the nearest number in the search space; values that are not numbers are returned unchanged."""
        if not NUMBER.fits(value):
            return value
        numbers = [choice for choice in self.choices if not isinstance(choice, str)]
        return min(numbers or [float(min(max(value, self.low), self.high))], key=lambda number: abs(number - value))


#: Parameters by their names in studies.
Space = dict[str, Parameter]


def as_dict(space: Space) -> dict[str, dict[str, Any]]:
    """Returns the space as plain values, as in its yaml file."""
    return TypeAdapter(Space).dump_python(space, mode="json", exclude_unset=True)  # type: ignore[no-any-return]


def read_space(path: Path, defaults: Space | None = None) -> Space:
    """Reads a search space from a yaml file, which maps names of parameters to their settings.

    Settings that it leaves out are taken from the parameter of the same name in ``defaults``. Raises `ValueError` or
    `OSError` for a file that is not a search space.
    """
    try:
        described = read_yaml(path)
        if not isinstance(described, dict) or not described:
            raise ValueError("a search space maps names of parameters to {kind: ..., target: ..., ...}")
        for name, known in as_dict(defaults or {}).items():
            if isinstance(values := described.get(name), dict):
                if values.get("kind", known["kind"]) != known["kind"]:  # the default's values are of another kind
                    known = {key: known[key] for key in known.keys() - {"choices", "low", "high"}}
                described[name] = {**known, **values}
        return TypeAdapter(Space).validate_python(described)
    except ValidationError as error:
        which = error.errors()[0]["loc"][0]
        raise ValueError(f"{path}: {which}: {first_error(error, 'it', 1, Parameter)}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


#: The default space of ``-optimize``, of which inapplicable parameters are left out. The file ends in ``.yaml`` because
#: every ``.yml`` in that folder is a preset.
DEFAULT_SPACE = read_space(hyperparams_folder() / "search_space.yaml")


def applicable(space: Space, block: Mapping[str, Any], is_ours: bool) -> Space:
    """Returns the parameters that apply to these hyperparameters; ``is_ours``: for an environment of this package."""
    return {name: each for name, each in space.items() if _applies(each.target, block, is_ours)}


def chosen_space(file: str | Path | None, block: Mapping[str, Any], is_ours: bool) -> Space:
    """Returns the space in a file, by default the applicable part of the default space.

    Raises `ValueError` or `OSError` for a file that is not a search space or has inapplicable parameters.
    """
    if file is None:
        return applicable(DEFAULT_SPACE, block, is_ours)
    space = read_space(Path(file), DEFAULT_SPACE)
    for name, each in space.items():
        if not _applies(each.target, block, is_ours):
            raise ValueError(f"{file}: {name} varies {each.target}, which these hyperparameters do not have")
    return space


def hyperparameters(sample: Mapping[str, Any], space: Space, block: Mapping[str, Any], n_timesteps: int) -> Block:
    """Returns a copy of the block, with the values of a sample of the space; everything else stays as it is.

    Schedules extend over the rollouts of a run of ``n_timesteps``. Raises `ValueError` for values that are not in the
    space, or whose target does not exist in the block.
    """
    conversion = _Conversion(block, n_timesteps)
    # In the order of their dependencies: the size of a rollout first, then units by what they refer to.
    units = get_args(Unit)
    order = {name: (each.target not in ("n_envs", "n_steps"), units.index(each.unit)) for name, each in space.items()}
    for name in sorted((name for name in space if name in sample), key=order.__getitem__):
        if not space[name].may_be(sample[name]):
            raise ValueError(f"{name} must be {space[name]}, got {sample[name]!r}")
        conversion.put(space[name], sample[name])
    return conversion.block


def own_values(space: Space, block: Mapping[str, Any], n_timesteps: int) -> dict[str, Any]:
    """Returns the sample that reproduces the block itself, as closely as possible, for the first trial of a sweep.

    Other schedules become linear ones with the same ends. Numbers that are not in the space are replaced by the nearest
    ones, other values are left out.
    """
    conversion = _Conversion(block, n_timesteps)
    values = {}
    for name, each in space.items():
        with suppress(ValueError, TypeError, KeyError, ZeroDivisionError):  # the block has no such value
            values[name] = each.nearest(conversion.get(each))
    return {name: value for name, value in values.items() if space[name].may_be(value)}


def callback_options(block: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Returns the arguments (not a copy) of the callback of this class in a block; ``None`` if it has none."""
    listed = block.get("callback")
    for each in listed if isinstance(listed, list) else [listed]:
        for path, options in each.items() if isinstance(each, dict) else ():
            if str(path).rsplit(".", 1)[-1] == name and isinstance(options, dict):
                return options
    return None


def _applies(target: str, block: Mapping[str, Any], is_ours: bool) -> bool:
    path = target.split(".")
    if path[0] == "callback":
        return len(path) == 3 and path[2] in (callback_options(block, path[1]) or {})
    if path[0] == "env_kwargs":
        return is_ours and (path[1] != "rewards" or path[-1] in _reward_weights(block))
    if path[0] == "policy_kwargs" and path[1:] != ["net_arch"]:
        return str(block.get("policy")).endswith("AutoregressivePolicy")
    return True


def _reward_weights(block: Mapping[str, Any]) -> dict[str, float]:
    """Returns the default reward weights of the environment's game, or those of outcomes if it defines no rewards."""
    env_kwargs = block.get("env_kwargs") or {}
    game, _ = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
    rewards = game.rewards or OutcomeRewards()
    return {rewards.tags[tag]: value for tag, value in rewards.figures(rewards.weights(), 0).items()}


class _Conversion:
    """Converts between sampled values and the values in a copy of a block."""

    def __init__(self, block: Mapping[str, Any], n_timesteps: int) -> None:
        self.block, self._n_timesteps = copy.deepcopy(dict(block)), n_timesteps

    def put(self, parameter: Parameter, value: Any) -> None:
        """Sets the target of a parameter to a sampled value."""
        owner, name = self._find(parameter.target)
        match parameter.unit:
            case "complement":
                value = as_written(1 - value)
            case "layers":
                value = [] if value == "none" else [int(size) for size in str(value).split("x")]
            case "minibatches":
                # batch_size must divide a rollout, and be at least 2 to normalise advantages.
                rollout = self._rollout()
                at_most = max(min(int(value), rollout // 2), 1)
                value = rollout // next(number for number in range(at_most, 0, -1) if rollout % number == 0)
            case "of_initial":
                value = as_written(float(owner["initial_value"] * value))
            case "of_run":
                value = max(round(self._n_rollouts() * value), 1)
            case "rows":  # of self-play, in which both seats learn: an even number
                pairs = min(round(self._rows() * value / 2), self._rows_left(owner, "self_play", "past") // 2)
                value = pairs * 2 / self._rows()
            case "rows_left":  # rounded first, so that 2.9999999 rows are 3
                value = int(round(self._rows_left(owner, name) * value, 6)) / self._rows()
        owner[name] = value

    def get(self, parameter: Parameter) -> Any:
        """Returns the sampled value that would give the current value (or default) of the target."""
        owner, name = self._find(parameter.target)
        value: Any = self._own(name) if owner is self.block else owner.get(name)
        if name not in owner and parameter.target.startswith("policy_kwargs."):
            value = inspect.signature(AutoregressivePolicy).parameters[name].default
        elif name not in owner and parameter.target.startswith("env_kwargs.rewards."):
            value = _reward_weights(self.block).get(name)
        match parameter.unit:
            case "complement":
                return as_written(float(1 - value))
            case "layers":
                return "x".join(map(str, value)) or "none"
            case "minibatches":
                return self._rollout() // int(value)
            case "of_initial":
                return as_written(value / owner["initial_value"])
            case "of_run":
                return value / self._n_rollouts()
            case "rows_left":
                return min(value * self._rows() / self._rows_left(owner, name), 1.0)
        return value

    def _find(self, target: str) -> tuple[Block, str]:
        """Returns the mapping that contains the target, and its key; scalar hyperparameters become linear schedules."""
        *parents, name = target.split(".")
        if parents[:1] == ["callback"]:
            options = callback_options(self.block, parents[-1])
            if options is None:
                raise ValueError(f"{target} needs a {parents[-1]} with arguments among the callbacks")
            return options, name
        # The keys of a schedule can be varied although a configuration has a number.
        if len(parents) == 1 and parents[0] in _DEFAULTS:
            self.block[parents[0]] = self._schedule(parents[0])
        owner = self.block
        for parent in parents:
            owner[parent] = owner.get(parent) or {}
            owner = owner[parent]
            if not isinstance(owner, dict):
                raise ValueError(f"there is no {target}: {parent} is {owner!r}")
        return owner, name

    def _schedule(self, name: str) -> Block:
        """Returns a linear schedule with the same first and last value in this run as the current value or schedule."""
        before, rollouts = self._own(name), self._n_rollouts()
        if isinstance(before, str):  # rl-zoo3's lin_...
            first, last = float(before.removeprefix("lin_")), 0.0
        else:
            schedule = parse_schedule(before)
            first, last = float(schedule(0)), float(schedule(rollouts))
        steps = before.get("change_over_time_steps", rollouts) if isinstance(before, dict) else rollouts
        over = min(steps, rollouts)
        return {"type": "linear", "initial_value": first, "final_value": last, "change_over_time_steps": over}

    def _own(self, name: str) -> Any:
        """Returns a hyperparameter of the block, or its default."""
        value = self.block.get(name)
        return _DEFAULTS.get(name) if value is None else value

    def _rows(self) -> int:
        return int(self._own("n_envs"))

    def _rollout(self) -> int:
        """Returns the number of steps in a rollout, of all environments together."""
        return self._rows() * int(self._own("n_steps"))

    def _n_rollouts(self) -> int:
        return max(ceil(self._n_timesteps / self._rollout()), 1)

    def _rows_left(self, owner: Block, *free: str) -> int:
        """Returns the rows that are left by all kinds of opponents except ``free``; ``owner`` has their shares."""
        left = self._rows()
        for kind in (kind for kind in ("self_play", "past", "target", "latest") if kind not in free):
            if not NUMBER.fits(share := owner.get(kind, 0.0)):
                raise ValueError(f"shares of opponents cannot be varied while {kind} is a schedule: make it a number")
            left -= ceil(self._rows() * share)
        return max(left, 0)
