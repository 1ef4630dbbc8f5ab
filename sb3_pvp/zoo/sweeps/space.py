"""A search space as data: from it come Optuna's distributions, the configuration of W&B's sweeps and a page about it.

A file with a search space maps names to what is known of each parameter; only the parameters in it are varied::

    n_steps: {kind: categorical, choices: [32, 64], target: n_steps, meaning: "steps of a roll-out"}
    one_minus_gamma: {low: 0.002} # the rest as in the default space
    n_epochs: {}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, FiniteFloat, StrictFloat, StrictInt, StrictStr, ValidationError

from sb3_pvp.common.arguments import NUMBER, first_error
from sb3_pvp.common.names import require_all_known
from sb3_pvp.presets.presets import hyperparams_folder

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

#: What is maximised, in the log of a run.
WIN_RATE = "sweep/win_rate"
#: What a drawn value counts, and so how it becomes a hyperparameter (`sb3_pvp.zoo.sweeps.conversion`).
UNITS = {
    "value": "as it is",
    "complement": "1 minus the hyperparameter",
    "layers": "sizes joined by x, or none",
    "minibatches": "mini-batches in a roll-out",
    "of_initial": "share of the initial value",
    "of_run": "share of the roll-outs of a run",
    "rows": "share of the environments, in pairs",
    "rows_left": "share of the environments left",
}
CATEGORICAL, LOG_UNIFORM = "categorical", "log_uniform"


class Parameter(BaseModel, frozen=True, extra="forbid"):
    """One thing that is varied, see `from_dict`."""

    name: str  #: What studies call it.
    kind: Literal["categorical", "uniform", "log_uniform"]
    target: str  #: A path like ``policy_kwargs.net_arch`` in the hyperparameters; a callback's class may be a step.
    meaning: str = ""  #: A few words for people.
    unit: Literal["value", "complement", "layers", "minibatches", "of_initial", "of_run", "rows", "rows_left"] = "value"
    choices: tuple[StrictStr | StrictInt | StrictFloat, ...] = ()  #: If it is categorical.
    low: FiniteFloat = 0.0  #: The least number otherwise; log-uniform ones are above 0.
    high: FiniteFloat = 0.0

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        if self.choices:
            return CategoricalDistribution(self.choices)
        return FloatDistribution(self.low, self.high, log=self.kind == LOG_UNIFORM)

    def wandb(self) -> dict[str, Any]:
        """The same in the terms of W&B's sweeps."""
        if self.choices:
            return {"values": list(self.choices)}
        distribution = "log_uniform_values" if self.kind == LOG_UNIFORM else "uniform"
        return {"distribution": distribution, "min": self.low, "max": self.high}

    def __str__(self) -> str:  # the values in words
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}{' (logarithmic)' if self.kind == LOG_UNIFORM else ''}"

    def check(self, value: Any) -> None:
        """Raises `ValueError` unless this is a value that may be drawn."""
        is_between = NUMBER.fits(value) and self.low <= value <= self.high
        if not (value in self.choices and not isinstance(value, bool) if self.choices else is_between):
            raise ValueError(f"{self.name} must be {self}, got {value!r}")

    def nearest(self, value: Any) -> str | int | float:
        """The value that may be drawn next to this one; raises `ValueError` if there is nothing like it."""
        nearest: str | int | float = value
        if NUMBER.fits(value) and self.choices:
            numbers = [choice for choice in self.choices if not isinstance(choice, str)]
            nearest = min(numbers, key=lambda number: abs(number - value), default=value)
        elif NUMBER.fits(value):
            nearest = float(min(max(value, self.low), self.high))
        self.check(nearest)
        return nearest


Space = tuple[Parameter, ...]


def as_dict(space: Iterable[Parameter]) -> dict[str, dict[str, Any]]:
    """The space as plain values, as in a file."""
    plain = ((each, {"name", *(("low", "high") if each.choices else ("choices",))}) for each in space)
    return {each.name: each.model_dump(mode="json", exclude=without) for each, without in plain}


def from_dict(described: Mapping[str, Any], defaults: Iterable[Parameter] = ()) -> Space:
    """The space that `as_dict` describes; what is left out of a parameter is that of its namesake in ``defaults``.

    Raises `ValueError` for anything that is no search space.
    """
    if not isinstance(described, Mapping) or not described:
        raise ValueError("a search space maps names of parameters to {kind: ..., target: ..., ...}")
    known = as_dict(defaults)
    return tuple(_parameter(str(name), values, known.get(str(name), {})) for name, values in described.items())


def read_space(path: Path, defaults: Iterable[Parameter] = ()) -> Space:
    """The space in a yaml file, see `from_dict`; raises `ValueError` or `OSError` for what is none."""
    try:
        return from_dict(yaml.safe_load(path.read_text()), defaults)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def as_markdown(space: Iterable[Parameter]) -> str:
    """A table of the space."""
    rows = [(each.name, str(each), UNITS[each.unit], each.target, each.meaning) for each in space]
    lines = [f"| `{name}` | {values} | {unit} | `{target}` | {text} |" for name, values, unit, target, text in rows]
    return "\n".join(["| Parameter | Values | Unit | Hyperparameter | |", "|---|---|---|---|---|", *lines]) + "\n"


def wandb_configuration(
    preset: str, env_id: str, space: Space, search_space: Path | None = None, n_timesteps: int | None = None
) -> dict[str, Any]:
    """What ``wandb sweep`` reads; its agents run ``train`` with the values that they are told.

    Runs begin with the preset, a name or a file, and are as long as it says without ``n_timesteps``. ``space`` is from
    the file ``search_space`` if there is one.
    """
    more = [] if n_timesteps is None else ["-n", str(n_timesteps)]
    more += [] if search_space is None else ["--search-space", str(search_space)]
    train = ["-m", "sb3_pvp.zoo", "train", "--preset", preset, "--track", "--eval-freq", "-1", *more]
    return {
        "name": f"sb3_pvp {env_id}",
        "method": "bayes",
        "metric": {"name": WIN_RATE, "goal": "maximize"},
        "early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 3},
        "parameters": {parameter.name: parameter.wandb() for parameter in space},
        "command": ["${env}", "${interpreter}", *train, "--sample", "${args_json}"],
    }


def _parameter(name: str, values: Any, default: Mapping[str, Any]) -> Parameter:
    if not isinstance(values, Mapping):
        raise ValueError(f"parameter {name!r} must be a mapping, got {values!r}")
    require_all_known(f"key of parameter {name!r}", values, Parameter.model_fields.keys() - {"name"})
    if values.get("kind", default.get("kind")) != default.get("kind"):
        default = {key: default[key] for key in default.keys() - {"choices", "low", "high"}}
    try:
        found = Parameter.model_validate({**default, **values, "name": name})
    except ValidationError as error:
        raise ValueError(f"parameter {name!r}: {first_error(error, 'it')}") from error
    if bool(found.choices) != (found.kind == CATEGORICAL):
        raise ValueError(f"parameter {name!r}: choices are what a categorical one needs, and no other one has")
    above = "above 0 " if found.kind == LOG_UNIFORM else ""
    if not found.choices and (not found.low < found.high or (above and found.low <= 0)):
        raise ValueError(f"low of parameter {name!r} must be {above}below high, got {found.low}, {found.high}")
    return found


#: What `-optimize` varies unless a file says otherwise; what a configuration has no use for is left out. The file is
#: called ``.yaml`` because every ``.yml`` in that folder is a preset.
DEFAULT_SPACE = read_space(hyperparams_folder() / "search_space.yaml")
