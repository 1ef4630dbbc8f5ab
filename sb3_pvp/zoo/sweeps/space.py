"""A search space as data: from it come Optuna's distributions, the configuration of W&B's sweeps and a page about it.

A file with a search space maps names to what is known of each parameter; only the parameters in it are varied::

    n_steps: {kind: categorical, choices: [32, 64], target: n_steps, meaning: "steps of a roll-out"}
    one_minus_gamma: {low: 0.002} # the rest as in the default space
    n_epochs: {}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml

from sb3_pvp.common.arguments import NUMBER, TEXT
from sb3_pvp.common.names import require_all_known, require_known

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

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


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One thing that is varied. Raises `ValueError` for impossible values.

    Attributes:
        name: what studies call it.
        target: where it goes in the hyperparameters: a path like ``policy_kwargs.net_arch``, with the class of a
            callback as a step.
        meaning: a few words for people.
        unit: a key of `UNITS`.
    """

    kind: ClassVar[str]
    name: str
    target: str
    meaning: str = ""
    unit: str = "value"

    def __post_init__(self) -> None:
        for key in ("name", "target", "meaning", "unit"):
            TEXT.read(f"{key} of parameter {self.name!r}", getattr(self, key))
        require_known(f"unit of parameter {self.name!r}", self.unit, UNITS)

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        raise NotImplementedError

    def wandb(self) -> dict[str, Any]:
        """The same in the terms of W&B's sweeps."""
        raise NotImplementedError

    def range(self) -> str:
        """The values in words."""
        raise NotImplementedError

    def first(self) -> str | int | float:
        """One of the values."""
        raise NotImplementedError

    def check(self, value: Any) -> None:
        """Raises `ValueError` unless this is a value that may be drawn."""
        raise NotImplementedError

    def nearest(self, value: Any) -> str | int | float:
        """The value that may be drawn next to this one; raises `ValueError` if there is nothing like it."""
        raise NotImplementedError

    def _refuse(self, value: Any) -> None:
        raise ValueError(f"{self.name} must be {self.range()}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Categorical(Parameter):
    """One of several numbers or texts."""

    kind = "categorical"
    choices: tuple[str | int | float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "choices", tuple(self.choices))
        if not self.choices or not all(type(each) in (str, int, float) for each in self.choices):
            raise ValueError(f"choices of parameter {self.name!r} must be texts and numbers, got {self.choices!r}")

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.choices)

    def wandb(self) -> dict[str, Any]:
        """The same in the terms of W&B's sweeps."""
        return {"values": list(self.choices)}

    def range(self) -> str:
        """The values in words."""
        return "one of " + ", ".join(map(str, self.choices))

    def first(self) -> str | int | float:
        """One of the values."""
        return self.choices[0]

    def check(self, value: Any) -> None:
        """Raises `ValueError` unless this is a value that may be drawn."""
        if isinstance(value, bool) or value not in self.choices:
            self._refuse(value)

    def nearest(self, value: Any) -> str | int | float:
        """The choice itself, or that of the numbers which is next to a number."""
        numbers = [choice for choice in self.choices if not isinstance(choice, str)]
        if NUMBER.fits(value) and value not in self.choices and numbers:
            return min(numbers, key=lambda number: abs(number - value))
        self.check(value)
        return next(choice for choice in self.choices if choice == value)


@dataclass(frozen=True, kw_only=True)
class Uniform(Parameter):
    """A number from ``low`` to ``high``."""

    kind = "uniform"
    _log: ClassVar[bool] = False
    _wandb: ClassVar[str] = "uniform"
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("low", "high"):
            NUMBER.read(f"{key} of parameter {self.name!r}", getattr(self, key))
        if not self.low < self.high or (self._log and self.low <= 0):
            above = "above 0 " if self._log else ""
            raise ValueError(
                f"low of parameter {self.name!r} must be {above}below high, got {self.low} and {self.high}"
            )

    def distribution(self) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self._log)

    def wandb(self) -> dict[str, Any]:
        """The same in the terms of W&B's sweeps."""
        return {"distribution": self._wandb, "min": self.low, "max": self.high}

    def range(self) -> str:
        """The values in words."""
        return f"{self.low:g} to {self.high:g}{' (logarithmic)' if self._log else ''}"

    def first(self) -> float:
        """One of the values."""
        return self.low

    def check(self, value: Any) -> None:
        """Raises `ValueError` unless this is a value that may be drawn."""
        if not NUMBER.fits(value) or not self.low <= value <= self.high:
            self._refuse(value)

    def nearest(self, value: Any) -> float:
        """The number itself, or the limit beyond which it is."""
        if not NUMBER.fits(value):
            self._refuse(value)
        return float(min(max(value, self.low), self.high))


@dataclass(frozen=True, kw_only=True)
class LogUniform(Uniform):
    """A number from ``low`` to ``high`` whose logarithm is uniform."""

    kind = "log_uniform"
    _log = True
    _wandb = "log_uniform_values"


KINDS: dict[str, type[Parameter]] = {each.kind: each for each in (Categorical, Uniform, LogUniform)}
Space = tuple[Parameter, ...]


def as_dict(space: Iterable[Parameter]) -> dict[str, dict[str, Any]]:
    """The space as plain values, as in a file."""
    described: dict[str, dict[str, Any]] = {}
    for parameter in space:
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(parameter).items()}
        described[parameter.name] = {"kind": parameter.kind, **{key: values[key] for key in values if key != "name"}}
    return described


def from_dict(described: Mapping[str, Any], defaults: Iterable[Parameter] = ()) -> Space:
    """The space that `as_dict` describes; what is left out of a parameter is that of its namesake in ``defaults``.

    Raises `ValueError` for anything that is no search space.
    """
    if not isinstance(described, Mapping) or not described:
        raise ValueError("a search space maps names of parameters to {kind: ..., target: ..., ...}")
    known = as_dict(defaults)
    return tuple(_parameter(str(name), values, known.get(str(name), {})) for name, values in described.items())


def read_space(path: Path, defaults: Iterable[Parameter]) -> Space:
    """The space in a yaml file, see `from_dict`; raises `ValueError` or `OSError` for what is none."""
    try:
        described = yaml.safe_load(path.read_text())
        return from_dict(described, defaults)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def as_markdown(space: Iterable[Parameter]) -> str:
    """A table of the space."""
    rows = [(each.name, each.range(), UNITS[each.unit], each.target, each.meaning) for each in space]
    lines = [f"| `{name}` | {values} | {unit} | `{target}` | {text} |" for name, values, unit, target, text in rows]
    return "\n".join(["| Parameter | Values | Unit | Hyperparameter | |", "|---|---|---|---|---|", *lines]) + "\n"


def _parameter(name: str, values: Any, default: Mapping[str, Any]) -> Parameter:
    if not isinstance(values, Mapping):
        raise ValueError(f"parameter {name!r} must be a mapping, got {values!r}; known are {', '.join(KINDS)}")
    kind = values.get("kind", default.get("kind"))
    require_known(f"kind of parameter {name!r}", kind, KINDS)
    names = [field.name for field in fields(KINDS[kind]) if field.name != "name"]
    given = {key: value for key, value in {**default, **values}.items() if key != "kind"}
    require_all_known(f"key of parameter {name!r}", values.keys() - {"kind"}, names)
    missing = {"target", "choices", "low", "high"} & set(names) - given.keys()
    if missing:
        raise ValueError(f"parameter {name!r} needs {', '.join(sorted(missing))}")
    return KINDS[kind](name=name, **{key: value for key, value in given.items() if key in names})
