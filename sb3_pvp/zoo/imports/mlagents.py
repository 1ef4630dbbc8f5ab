"""Trainer files of Unity's ML-Agents as our presets: what is carried over, and a note on everything that is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from sb3_pvp.algorithms.mapoca.team_update import FLOORS
from sb3_pvp.common.errors import did_you_mean, foreign, loadable, require_known, shown
from sb3_pvp.common.plain_yaml import read_yaml
from sb3_pvp.game import Game, find_game, game_names
from sb3_pvp.game.contract import agents_per_seat
from sb3_pvp.zoo.imports.mlagents_keys import DEBUG, KNOWN, OTHERS, SECTIONS, SELF_PLAY, TOP, Key
from sb3_pvp.zoo.runs.changes import changes_between

_ROWS = 64  #: Fights side by side, if a buffer can be divided by so many.
_NO_CLIPPING = 1e6  #: ML-Agents does not clip gradients.
_ALGORITHMS = {"poca": "mapoca", "ppo": "maskable_ppo"}  #: By ``trainer_type``.
_POLICIES = {
    "mapoca": "sb3_pvp.algorithms.mapoca.MAPOCAPolicy",
    "maskable_ppo": "sb3_pvp.policies.AutoregressivePolicy",
}
_CALLBACKS = "sb3_pvp.callbacks"
_GHOST = f"{_CALLBACKS}.GhostSelfPlayCallback"


@dataclass(frozen=True)
class ImportedTrainers:
    """What became of a trainer file.

    Attributes:
        presets: hyperparameters by game, in the form of the files in ``hyperparams/``.
        notes: a line for each key that was not carried over, with the reason, and for each value that changed.
        behaviors: names of the behaviors in each preset.
    """

    presets: dict[str, dict[str, Any]]
    notes: list[str]
    behaviors: dict[str, list[str]]

    def text(self, source: str) -> str:
        """Returns the YAML file of all presets, with the notes as comments."""
        lines = [f"Made from {source} by sb3-pvp import-mlagents. Steps are those of teams.", "", *self.notes]
        comments = "".join(f"# {' '.join(line.split())}\n" if line else "#\n" for line in lines)
        return f"{comments}\n{yaml.safe_dump(self.presets, sort_keys=False, default_flow_style=None, width=120)}"


def import_mlagents(path: Path, behavior: str | None = None, game: str | None = None) -> ImportedTrainers:
    """Reads a trainer file, whose trainers are ``poca`` and ``ppo``, with the defaults of ML-Agents 1.1.0.

    Args:
        path: the YAML file.
        behavior: the only one to import; default: all of them.
        game: who plays, by name; default: the installed game that a behavior, or an agent of it, is named like. Of
            several behaviors for one game the first counts.

    Raises `FileNotFoundError`, and `ValueError` in one line if the file is no trainer file, or has impossible values.
    """
    with foreign(f"{path} cannot be imported"):
        content = read_yaml(path)
        if not isinstance(content, Mapping) or not isinstance(content.get("behaviors"), Mapping):
            raise ValueError("it has no behaviors: a trainer file begins with behaviors: {NAME: ...}")
        given = {str(name): value for name, value in content["behaviors"].items()}
        if behavior is not None:
            require_known("behavior", behavior, given)
        if not (names := [behavior] if behavior is not None else [*given]):
            raise ValueError("its behaviors are empty")
        presets: dict[str, dict[str, Any]] = {}
        behaviors: dict[str, list[str]] = {}
        notes = [f"{name}: left out, as another behavior is asked for" for name in given if name not in names]
        shared, own_notes = _flat(content.get("default_settings") or {}, "default_settings")
        notes += [*own_notes, *_others(content)]
        for name in names:
            values, own_notes = _flat(given[name] or {}, name)
            played = _game_of(name, game)
            hyperparams, changes = _preset(name, shared | values, played)
            hyperparams, parameters = _with_parameters(hyperparams, played, content.get("environment_parameters") or {})
            notes += own_notes + [f"{name}: {each}" for each in changes]
            notes += [each for each in parameters if each not in notes]
            if played.name in presets:
                if (seat := _seat_of(name, played)) != _seat_of(behaviors[played.name][0], played):
                    _share_ghosts(presets[played.name], hyperparams, seat)
                notes += _differences(name, behaviors[played.name][0], hyperparams, presets[played.name])
            presets.setdefault(played.name, hyperparams)
            behaviors.setdefault(played.name, []).append(name)
    return ImportedTrainers(presets, notes, behaviors)


def _flat(given: Any, name: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the known values of a behavior by path, as far as they are given, and notes on all others.

    ``"self_play"`` is among the values if there is such a section.
    """
    values: dict[str, Any] = {}
    notes = []
    for path, value in _leaves(given, name):
        where, key = f"{name}.{path}", KNOWN.get(path)
        reason = next((why for section, why in SECTIONS.items() if _is_in(path, section)), "")
        if _is_in(path, "self_play") and value is not None:
            values["self_play"] = True
        if key is not None and value is not None:
            values[path], reason = _value(where, key, value), key.reason
        elif key is None and not reason and not any(_is_in(each, path) for each in KNOWN):
            notes.append(f"{where}: unknown{_nearest(path)}, left out")
        elif key is None and not reason and value:
            raise ValueError(f"{where} must be a mapping, got {shown(value)}")
        if reason:
            notes.append(f"{where}: {shown(value)} has no meaning here: {reason}")
    return values, notes


def _nearest(path: str) -> str:
    """Returns the hint at a known key for the first part of a path that is unknown."""
    parts = path.split(".")
    for number, part in enumerate(parts):
        begin = ".".join(parts[:number])
        inside = (each.removeprefix(begin).lstrip(".") for each in (*KNOWN, *SECTIONS) if _is_in(each, begin))
        siblings = {each.partition(".")[0] for each in inside}
        if part not in siblings:
            return did_you_mean(part, sorted(siblings))
    return ""


def _leaves(given: Any, name: str, begin: str = "") -> Iterator[tuple[str, Any]]:
    """Yields paths and values of nested mappings; raises `ValueError` if there is no mapping at all."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{name} must be a mapping, got {shown(given)}")
    for key, value in given.items():
        path = f"{begin}{key}"
        if isinstance(value, Mapping) and value and path not in KNOWN:
            yield from _leaves(value, name, f"{path}.")
        else:
            yield path, value


def _is_in(path: str, section: str) -> bool:
    return not section or path == section or path.startswith(f"{section}.")


def _value(what: str, key: Key, given: Any) -> Any:
    """Returns a value in the type of the default: YAML takes 5e-4 for a text, as ML-Agents' does."""
    number = given
    if isinstance(given, str) and not isinstance(key.default, str):
        try:
            number = float(given)
        except ValueError:
            number = given
    if isinstance(number, float) and number.is_integer() and not isinstance(key.default, float):
        number = int(number)
    return key.kind.read(what, number)


def _others(content: Mapping[Any, Any]) -> Iterator[str]:
    """Yields notes on everything beside behaviors, defaults and parameters of the environment."""
    for name, section in content.items():
        if name not in TOP:
            yield f"{name}: unknown{did_you_mean(name, TOP)}, left out"
        elif name == "debug":
            yield f"debug: {shown(section)} has no meaning here: {DEBUG}"
        elif name in OTHERS and section is not None:
            for path, value in _leaves(section, name):
                reason = OTHERS[name].get(path)
                hint = f"unknown{did_you_mean(path, OTHERS[name])}, left out"
                yield f"{name}.{path}: " + (f"{shown(value)} has no meaning here: {reason}" if reason else hint)


def _game_of(behavior: str, wanted: str | None) -> Game:
    """Returns the game that a behavior plays; raises `ValueError` if none is named like it or like its agents."""
    if wanted is not None:
        return find_game(wanted)
    names = game_names()
    if named := [each for each in names if re.sub(r"-v\d+$", "", each) == behavior]:
        return find_game(named[0])
    for game in loadable("game", names, find_game):
        if behavior.lower() in {_kind(agent.id) for agent in game.contract.agents}:
            return game
    raise ValueError(f"no game, and no agent of one, is named like the behavior {behavior!r}: pass --game NAME")


def _kind(agent: str) -> str:
    return re.sub(r"\d+$", "", agent).lower()


def _preset(behavior: str, given: Mapping[str, Any], game: Game) -> tuple[dict[str, Any], list[str]]:
    """Returns the hyperparameters for given values by path, and notes on what changes with the defaults filled in."""
    get = {**{name: key.default for name, key in KNOWN.items()}, **given}
    require_known(f"trainer_type of {behavior}, of those that can be imported,", get["trainer_type"], _ALGORITHMS)
    algorithm, notes = _ALGORITHMS[get["trainer_type"]], []
    agents = agents_per_seat(game.contract.agents)
    buffer = get["hyperparameters.buffer_size"] / agents
    rows = next(rows for rows in (_ROWS, 32, 16, 8, 4, 2, 1) if buffer % rows == 0 or rows == 1)
    rows = rows if buffer % rows == 0 else min(_ROWS, ceil(buffer))
    n_steps, steps = ceil(buffer / rows), ceil(get["max_steps"] / agents)
    batch = max(round(get["hyperparameters.batch_size"] / agents), 1)
    for name, changed, agent_steps in (
        ("hyperparameters.buffer_size", rows * n_steps, get["hyperparameters.buffer_size"]),
        ("hyperparameters.batch_size", batch, get["hyperparameters.batch_size"]),
        ("max_steps", steps, get["max_steps"]),
    ):
        if changed * agents != agent_steps:
            notes.append(
                f"{name}: {agent_steps} steps of agents became {changed} steps of teams, {agents:g} agents each"
            )
    hyperparams: dict[str, Any] = {"algo": algorithm, "n_envs": rows, "n_timesteps": steps}
    is_alone = bool(game.contract.agents) and not any(1 in each.seats for each in game.contract.agents)
    is_ghost = "self_play" in given and not is_alone
    if is_ghost:
        hyperparams["actors"] = 0  # the opponent changes in the middle of rollouts
    elif "self_play" in given:
        notes.append(f"self_play: left out, as nobody plays the other side of {game.name}")
    self_play = _self_play(get, is_ghost)
    hyperparams["callback"] = [_checkpoints(behavior, get, agents), *([] if is_alone else [self_play])]
    hyperparams |= _networks(algorithm, get, notes)
    hyperparams |= {"n_steps": n_steps, "batch_size": batch, "n_epochs": get["hyperparameters.num_epoch"]}
    hyperparams |= _schedules(get, given, rollouts=max(ceil(steps / (rows * n_steps)), 1))
    hyperparams["gamma"] = get["reward_signals.extrinsic.gamma"]
    hyperparams["gae_lambda"] = get["hyperparameters.lambd"]
    if "self_play" not in given and "time_horizon" in given:
        notes.append(f"time_horizon: {get['time_horizon']} has no meaning here: returns are cut after n_steps")
    return hyperparams, notes


def _checkpoints(behavior: str, get: Mapping[str, Any], agents: float) -> dict[str, Any]:
    keep, even = get["keep_checkpoints"], get["even_checkpoints"]
    if even and not keep:
        raise ValueError(f"{behavior}: even_checkpoints needs keep_checkpoints of at least 1")
    often = {"even": True} if even else {"interval": max(round(get["checkpoint_interval"] / agents), 1)}
    settings = {"keep": keep or None, **often, "onnx": True, "behavior": behavior}
    return {f"{_CALLBACKS}.MaskableCheckpointCallback": settings}


def _self_play(get: Mapping[str, Any], is_ghost: bool) -> dict[str, Any]:
    """Returns what decides who plays the other side."""
    if not is_ghost:
        return {f"{_CALLBACKS}.SelfPlayCallback": {"self_play": 1.0}}  # without self_play all agents learn
    settings = {name.partition(".")[2]: get[name] for name in SELF_PLAY}
    settings["team_change"] = settings["team_change"] or 5 * settings["save_steps"]
    return {_GHOST: {**settings, "time_horizon": get["time_horizon"]}}


def _seat_of(behavior: str, game: Game) -> int:
    """Returns the seat that only this behavior's agents play, or 0."""
    seats = {seat for each in game.contract.agents if _kind(each.id) == behavior.lower() for seat in each.seats}
    return int(seats == {1})


def _share_ghosts(taken: dict[str, Any], own: dict[str, Any], seat: int) -> None:
    """Adds the self-play of a second behavior, which plays this seat, to that of the first; it is then in both."""
    first, second = ([each[_GHOST] for each in part["callback"] if _GHOST in each] for part in (taken, own))
    for mine, theirs in zip(first, second, strict=False):
        differs = [name for name, value in theirs.items() if value != mine[name] and f"self_play.{name}" in SELF_PLAY]
        here, there = ({name: each[name] for name in differs} for each in ((mine, theirs) if seat else (theirs, mine)))
        for settings in (mine, theirs) if differs else ():
            settings.update(here, other=there)


def _networks(algorithm: str, get: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    layers = [get["network_settings.hidden_units"]] * get["network_settings.num_layers"]
    normalize = get["network_settings.normalize"]
    if algorithm == "mapoca":
        if layers[0] % 4:
            raise ValueError(
                f"hidden_units of poca must be a multiple of 4, as its attention has 4 heads, got {layers[0]}"
            )
        if normalize:
            notes.append("network_settings.normalize: True has no meaning here: MAPOCA sees observations as they are")
        return {"policy": _POLICIES[algorithm], "policy_kwargs": {"net_arch": layers, "shared": "kinds"}}
    notes.append("trainer_type: ppo learns one policy for a whole side here, whose agents act together")
    kwargs = {"net_arch": layers, "activation": "gelu", "normalize_observations": normalize}
    return {"policy": _POLICIES[algorithm], "policy_kwargs": kwargs, "max_grad_norm": _NO_CLIPPING}


def _schedules(get: Mapping[str, Any], given: Mapping[str, Any], rollouts: int) -> dict[str, Any]:
    """Returns learning rate, entropy coefficient and clip range, of which linear ones end at ML-Agents' floors.

    Schedules that are not given are that of the learning rate.
    """
    made: dict[str, Any] = {}
    of_rate = get["hyperparameters.learning_rate_schedule"]
    for name, key in (("learning_rate", "learning_rate"), ("ent_coef", "beta"), ("clip_range", "epsilon")):
        path = f"hyperparameters.{key}_schedule"
        kind = given.get(path, of_rate)
        require_known(f"{path}", kind, ("linear", "constant"))
        made[name] = get[f"hyperparameters.{key}"]
        if kind == "linear":
            ends = {"initial_value": made[name], "final_value": FLOORS[name]}
            made[name] = {"type": "linear", **ends, "change_over_time_steps": rollouts}
    return made


def _with_parameters(hyperparams: dict[str, Any], game: Game, given: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns hyperparameters with what the game knows of the environment's parameters, and notes on the others."""
    if not isinstance(given, Mapping):
        raise ValueError(f"environment_parameters must be a mapping, got {shown(given)}")
    known = [] if game.params is None else [*game.params.model_fields]
    taken, notes = {}, []
    for name, value in given.items():
        where = f"environment_parameters.{name}"
        if name not in known:
            notes.append(f"{where}: {game.name} has no such reset parameter{did_you_mean(name, known)}, left out")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            notes.append(f"{where}: {shown(value)} is left out: samplers and lessons have no meaning here")
        else:
            taken[str(name)] = value
    return hyperparams | ({"env_kwargs": {"reset_params": taken}} if taken else {}), notes


def _differences(name: str, first: str, own: Mapping[str, Any], taken: Mapping[str, Any]) -> Iterator[str]:
    """Yields a note for each setting of a behavior that differs from those of the first one of the same game."""
    for path, used, found in changes_between(taken, own):
        if not path.endswith(".behavior"):
            yield f"{name}: its {path} would be {found}; {used} of {first} counts for both"
