"""What one would have to draw to get a configuration as it is: the first trial of a sweep."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from sb3_pvp.game import game_and_contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.schedules import parse_schedule
from sb3_pvp.zoo.sweeps.conversion import Block, Conversion, callback_options
from sb3_pvp.zoo.sweeps.space import Parameter, Space


def own_values(space: Space, block: Mapping[str, Any], n_timesteps: int) -> dict[str, Any]:
    """Values with which `sb3_pvp.zoo.sweeps.conversion.hyperparameters` gives the block itself, as far as possible.

    Schedules other than linear ones are linear then, with the same ends. Numbers that the space does not have are
    replaced by the next ones that it has, other values are left out.

    Args:
        space: what is varied.
        block: hyperparameters in rl-zoo3's format; it stays as it is.
        n_timesteps: the length of a trial.
    """
    conversion = Conversion(copy.deepcopy(dict(block)), n_timesteps)
    values = {}
    for parameter in space:
        try:
            values[parameter.name] = parameter.nearest(_READERS[parameter.unit](conversion, parameter))
        except (ValueError, TypeError, ZeroDivisionError):  # it is not there, or nothing like it in the space
            continue
    return values


def _value(conversion: Conversion, parameter: Parameter) -> Any:
    """What stands at the target, or is the default there."""
    *parents, name = parameter.target.split(".")
    block = conversion.block
    if parents[:1] == ["callback"]:
        return (callback_options(block, parents[-1]) or {}).get(name)
    if parents == ["env_kwargs", "rewards"]:
        env_kwargs = block.get("env_kwargs", {})
        game, _ = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
        return getattr(game.rewards and game.rewards.weights(_child(block, parents)), name, None)
    if parents == ["policy_kwargs"]:
        return _child(block, parents).get(name, _default(AutoregressivePolicy, name))
    if name == "initial_value":
        return float(parse_schedule(_schedule(conversion, parents))(0))
    return _child(block, parents).get(name) if parents else conversion.own(name)


def _child(block: Block, path: list[str]) -> Block:
    for name in path:
        block = block.get(name) or {}
    return block


def _default(function: Callable[..., Any], name: str) -> Any:
    parameter = inspect.signature(function).parameters.get(name)
    return None if parameter is None else parameter.default


def _schedule(conversion: Conversion, path: list[str]) -> Any:
    """A number or schedule of the block; rl-zoo3's ``lin_...`` as a schedule over the whole run."""
    value = conversion.own(path[0])
    if not isinstance(value, str):
        return value
    first = float(value.removeprefix("lin_"))
    over = {"final_value": 0.0, "change_over_time_steps": conversion.n_rollouts()}
    return {"type": "linear", "initial_value": first, **over}


def _complement(conversion: Conversion, parameter: Parameter) -> float:
    return float(1 - _value(conversion, parameter))


def _layers(conversion: Conversion, parameter: Parameter) -> str:
    return "x".join(map(str, _value(conversion, parameter))) or "none"


def _minibatches(conversion: Conversion, parameter: Parameter) -> int:
    return conversion.rollout() // int(_value(conversion, parameter))


def _of_initial(conversion: Conversion, parameter: Parameter) -> float:
    schedule = parse_schedule(_schedule(conversion, parameter.target.split(".")))
    return float(schedule(conversion.n_rollouts())) / float(schedule(0))


def _of_run(conversion: Conversion, parameter: Parameter) -> float:
    schedule = _schedule(conversion, parameter.target.split("."))
    rollouts = conversion.n_rollouts()
    steps = schedule.get("change_over_time_steps", rollouts) if isinstance(schedule, dict) else rollouts
    return min(float(steps / rollouts), 1.0)


def _rows_left(conversion: Conversion, parameter: Parameter) -> float:
    _, callback, name = parameter.target.split(".")
    rows, owner = int(conversion.own("n_envs")), callback_options(conversion.block, callback) or {}
    return min(float(_value(conversion, parameter) * rows / (rows - conversion.taken(owner, (name,)))), 1.0)


_READERS: dict[str, Callable[[Conversion, Parameter], Any]] = {
    "value": _value,
    "complement": _complement,
    "layers": _layers,
    "minibatches": _minibatches,
    "of_initial": _of_initial,
    "of_run": _of_run,
    "rows": _value,
    "rows_left": _rows_left,
}
