"""How drawn values become hyperparameters in rl-zoo3's format, of which every set can be trained; and the way back."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

from sb3_contrib import MaskablePPO

from sb3_pvp.common.arguments import NUMBER
from sb3_pvp.game import game_and_contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.schedules import parse_schedule
from sb3_pvp.simple_game import OutcomeRewards
from sb3_pvp.zoo.sweeps.space import DEFAULT_SPACE, Parameter, Space, read_space

Block = dict[str, Any]

#: Numbers that the algorithm takes where a block says nothing, and so what can be a schedule.
_DEFAULTS = {"n_envs": 1} | {
    each.name: each.default
    for each in inspect.signature(MaskablePPO).parameters.values()
    if isinstance(each.default, (int, float)) and not isinstance(each.default, bool)
}
#: The kinds of opponents among which a `SelfPlayCallback` divides the environments.
_SHARES = ("self_play", "past", "target", "latest")
#: Smaller batches have no mean to subtract from their advantages.
_SMALLEST_BATCH = 2


def applicable(space: Space, block: Mapping[str, Any], is_ours: bool) -> Space:
    """The parameters that these hyperparameters have a use for; ``is_ours``: in an environment with rewards."""
    return tuple(parameter for parameter in space if _applies(parameter.target, block, is_ours))


def chosen_space(file: str | Path | None, block: Mapping[str, Any], is_ours: bool) -> Space:
    """The space in a file, or what is applicable of the default one.

    Raises `ValueError` or `OSError` for a file that is none, or has parameters for which there is no use.
    """
    space = DEFAULT_SPACE if file is None else read_space(Path(file), DEFAULT_SPACE)
    used = applicable(space, block, is_ours)
    for parameter in space if file is not None else ():
        if parameter not in used:
            raise ValueError(f"{file}: there is nothing like {parameter.target} here, which {parameter.name} varies")
    return used


def hyperparameters(sample: Mapping[str, Any], space: Space, block: Mapping[str, Any], n_timesteps: int) -> Block:
    """A copy of the block with a sample of the space in place of its own values; the rest stays, in nested values too.

    Schedules are counted in the roll-outs of a run of ``n_timesteps``. Raises `ValueError` for values that are not in
    the space, or have no place in the block.
    """
    conversion = _Conversion(block, n_timesteps)
    # What others are counted in comes first: roll-outs, initial values, rows.
    order = ("value", "complement", "layers", "minibatches", "of_initial", "of_run", "rows", "rows_left")
    for each in sorted(space, key=lambda each: (each.target not in ("n_envs", "n_steps"), order.index(each.unit))):
        if each.name in sample:
            each.check(sample[each.name])
            conversion.put(each, sample[each.name])
    return conversion.block


def own_values(space: Space, block: Mapping[str, Any], n_timesteps: int) -> dict[str, Any]:
    """What one would have to draw to get the block itself, as far as possible: the first trial of a sweep.

    Schedules other than linear ones are linear then, with the same ends. Numbers that the space does not have are
    replaced by the next ones that it has, other values are left out.
    """
    conversion = _Conversion(block, n_timesteps)
    values = {}
    for parameter in space:
        try:
            values[parameter.name] = parameter.nearest(conversion.get(parameter))
        except (ValueError, TypeError, KeyError, ZeroDivisionError):  # it is not there, or nothing like it in the space
            continue
    return values


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of a positive number that is not above a positive limit."""
    return next(divisor for divisor in range(min(number, limit), 0, -1) if number % divisor == 0)


def callback_options(block: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The arguments of the callback of that class in a block, to look at or change; ``None`` if there is none."""
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
    """The defaults of the game that is played; without rewards of its own, those of outcomes."""
    env_kwargs = block.get("env_kwargs") or {}
    game, _ = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
    rewards = game.rewards or OutcomeRewards()
    return {rewards.tags[tag]: value for tag, value in rewards.figures(rewards.weights(), 0).items()}


class _Conversion:
    """A copy of a block while it is read or changed, and what its values are counted in."""

    def __init__(self, block: Mapping[str, Any], n_timesteps: int) -> None:
        self.block, self._n_timesteps = copy.deepcopy(dict(block)), n_timesteps
        self._schedules: set[str] = set()

    def put(self, parameter: Parameter, value: Any) -> None:
        """Puts a drawn value where it belongs."""
        *parents, name = parameter.target.split(".")
        owner = self._owner(parents, parameter)
        owner[name] = _UNITS[parameter.unit][0](self, owner, name, value)

    def get(self, parameter: Parameter) -> Any:
        """What one would have to draw to get what stands there, or is the default there."""
        *parents, name = parameter.target.split(".")
        owner = self._owner(parents, parameter)
        value = owner.get(name) if parents else self._own(name)
        if parents == ["policy_kwargs"] and name not in owner:
            value = inspect.signature(AutoregressivePolicy).parameters[name].default
        elif parents == ["env_kwargs", "rewards"] and name not in owner:
            value = _reward_weights(self.block).get(name)
        return _UNITS[parameter.unit][1](self, owner, name, value)

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
        """The linear schedule that replaces a value or another schedule, and has the same ends in this run."""
        if name not in self._schedules:
            self._schedules.add(name)
            before, rollouts = self._own(name), self._n_rollouts()
            if isinstance(before, str):  # rl-zoo3's lin_...
                first, last = float(before.removeprefix("lin_")), 0.0
            else:
                schedule = parse_schedule(before)
                first, last = float(schedule(0)), float(schedule(rollouts))
            steps = before.get("change_over_time_steps", rollouts) if isinstance(before, dict) else rollouts
            over = {"initial_value": first, "final_value": last, "change_over_time_steps": min(steps, rollouts)}
            self.block[name] = {"type": "linear", **over}
        schedule_: Block = self.block[name]
        return schedule_

    def _own(self, name: str) -> Any:
        """A hyperparameter of the block, or what `PvpPPO` takes where the block says nothing."""
        value = self.block.get(name)
        return _DEFAULTS.get(name) if value is None else value

    def _rollout(self) -> int:
        """Steps of a roll-out."""
        return int(self._own("n_envs")) * int(self._own("n_steps"))

    def _n_rollouts(self) -> int:
        return max(ceil(self._n_timesteps / self._rollout()), 1)

    def _minibatch(self, owner: Block, name: str, count: int) -> int:
        rollout = self._rollout()
        return rollout // largest_divisor(rollout, max(min(int(count), rollout // _SMALLEST_BATCH), 1))

    def _pairs(self, owner: Block, name: str, share: float) -> float:
        """Both seats of a fight learn, so that rows come in pairs."""
        rows = int(self._own("n_envs"))
        return min(round(rows * share / 2), self._rows_left(owner, "self_play", "past") // 2) * 2 / rows

    def _rows_left(self, owner: Block, *free: str) -> int:
        """The rows that the kinds of opponents leave that are not among the free ones; owner: of the shares."""
        rows = left = int(self._own("n_envs"))
        for kind in (kind for kind in _SHARES if kind not in free):
            if not NUMBER.fits(share := owner.get(kind, 0.0)):
                raise ValueError(f"shares of opponents cannot be varied beside the schedule {kind}: make it a number")
            left -= ceil(rows * share)
        return max(left, 0)


#: How a drawn value is written, and read back.
_UNITS: dict[str, tuple[Callable[[_Conversion, Block, str, Any], Any], Callable[[_Conversion, Block, str, Any], Any]]]
_UNITS = {
    "value": (lambda self, owner, name, value: value, lambda self, owner, name, value: value),
    "complement": (lambda self, owner, name, value: 1 - value, lambda self, owner, name, value: float(1 - value)),
    "layers": (
        lambda self, owner, name, value: [] if value == "none" else [int(size) for size in str(value).split("x")],
        lambda self, owner, name, value: "x".join(map(str, value)) or "none",
    ),
    "minibatches": (_Conversion._minibatch, lambda self, owner, name, value: self._rollout() // int(value)),
    "of_initial": (
        lambda self, owner, name, share: float(owner["initial_value"] * share),
        lambda self, owner, name, value: value / owner["initial_value"],
    ),
    "of_run": (
        lambda self, owner, name, share: max(round(self._n_rollouts() * share), 1),
        lambda self, owner, name, value: value / self._n_rollouts(),
    ),
    "rows": (_Conversion._pairs, lambda self, owner, name, value: value),
    "rows_left": (
        lambda self, owner, name, share: int(round(self._rows_left(owner, name) * share, 6)) / int(self._own("n_envs")),
        lambda self, owner, name, value: min(value * int(self._own("n_envs")) / self._rows_left(owner, name), 1.0),
    ),
}
