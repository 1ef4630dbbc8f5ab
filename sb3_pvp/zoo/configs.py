"""``--configs NAME NAME …``: configurations, merged from left to right, and options with dots (dreamer.md C4, C5).

A name is that of a block in ``hyperparams/configs.yaml``, of a preset, or a YAML file; capitals do not matter. Mappings
are merged, all else is replaced. A key with other characters than those of names is a regular expression, and changes
all keys there are that begin so, written with dots, such as ``.*\\.units``. A file with blocks for environments is
that of the environment that is trained.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import yaml

from sb3_pvp.algorithms.hyperparameters import policy_class_in
from sb3_pvp.algorithms.presets import (
    ALGO,
    DEFAULT,
    Preset,
    find_preset,
    hyperparams_folder,
    hyperparams_in,
    hyperparams_path,
    presets,
    with_current_names,
    with_nested,
)
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import Refusal, arguments_of, command_line, refusals, unknown_name, without_passwords
from sb3_pvp.common.plain_yaml import parse_yaml, read_yaml
from sb3_pvp.game import HOME_GAME

_PATTERN = re.compile(r"[^\w.-]")
#: Type hints of whole numbers, also of those that may be something else.
_WHOLE = re.compile(r"(?!.*float)(?!.*Schedule).*\bint\b")
#: rl-zoo3's name for the block of all games of the Atari 2600.
_ATARI = "atari"
#: Special keys of blocks: what is trained, and where.
_ALGO, _ENV = "algo", "env"
#: Names of rl-zoo3 that are no arguments of algorithms.
_OF_ZOO = (
    "n_envs", "n_timesteps", "policy", "env_wrapper", "vec_env_wrapper", "callback", "normalize", "frame_stack",
    "noise_type", "noise_std", "env_kwargs", "monitor_kwargs", "optimizer_kwargs",
)  # fmt: skip
#: Of these, whole numbers.
_WHOLE_OF_ZOO = {"n_envs", "frame_stack"}
#: What algorithms give to their policies.
_PASSED_TO_POLICIES = ("observation_space", "action_space", "lr_schedule")
#: Keys of mappings of one class, whose name has dots, to its arguments.
_OF_CLASSES = ("callback", "env_wrapper", "vec_env_wrapper")


class Resolved(NamedTuple):
    """What configurations come to."""

    algo: str
    env_id: str
    hyperparams: dict[str, Any]

    def with_options(self, given: Namespace) -> Resolved:
        """Returns what the run has: also what ``-params``, ``--env-kwargs``, ``-n`` and a challenge set."""
        merged = with_current_names(with_nested(self.hyperparams | (given.hyperparams or {})))
        if given.env_kwargs:
            merged["env_kwargs"] = given.env_kwargs
        if given.n_timesteps > 0:
            merged["n_timesteps"] = given.n_timesteps
        return self._replace(hyperparams=merged)

    def write(self, path: Path, command: str) -> tuple[Path, bool]:
        """Writes a preset, which makes the same run; returns its path, and whether there was none.

        No file changes, neither a configuration that has this name, nor what a run reads that begins at the same time:
        where another one is in the way, the name gets an ending of its own. An empty one is what a kill has left.
        """
        try:
            text = yaml.safe_dump({self.env_id: {_ALGO: self.algo} | self.hyperparams}, sort_keys=False, width=120)
        except yaml.YAMLError as error:
            raise ValueError(
                "-params and --env-kwargs with Python objects cannot be kept in a file: give them as texts, such as "
                "\"policy_kwargs:'dict(activation_fn=nn.ReLU)'\""
            ) from error
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_name(f"{path.stem}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}.yml")
        for place in (path, own):
            is_new = False
            with suppress(FileExistsError):
                place.open("x").close()  # of two processes one makes it
                is_new = True
            if is_new or not place.stat().st_size:
                write_atomically(place, f"# Resolved from: {command}\n{text}")
            if place.read_text("utf-8").partition("\n")[2] == text:
                return place, is_new
        raise ValueError(f"{own} is another configuration: rename it")


def resolve(
    names: Sequence[str], algo: str | None, env_id: str | None, conf: str | None, options: Sequence[str]
) -> Resolved:
    """Merges configurations over the hyperparameters of an algorithm for an environment, and options over these.

    Args:
        names: of the configurations; ``algo`` and ``env_id`` are theirs unless given.
        algo, env_id, conf: given on the command line.
        options: such as ``--run.train_ratio 32`` or ``--policy_kwargs.size=large``.

    Raises `ValueError` for names that are unknown, with the nearest one, and patterns that match nothing.
    """
    blocks: list[dict[str, Any]] = []
    named = env_id
    for name in names:
        blocks.append(_block(name, named))
        named = env_id or blocks[-1].get(_ENV, named)
    env_id, is_preset = named, any(_ENV in block for block in blocks)
    algo = algo or next((block[_ALGO] for block in reversed(blocks) if _ALGO in block), None)
    algo = algo or (ALGO if is_preset else None)  # as with --preset
    if not algo or not env_id:
        lacking = "environment: add --env" if algo else "algorithm: add --algo"
        raise ValueError(f"--configs {' '.join(names)} name no {lacking}")
    # A preset is whole; sizes and the like change the usual hyperparameters of the algorithm.
    is_whole = not conf and any(_ENV in block and "policy" in block for block in blocks)
    merged = {} if is_whole else with_nested(hyperparams_in(conf or _usual(algo), env_id, _group(env_id)))
    for block in blocks:
        merged = merge(merged, {key: value for key, value in block.items() if key not in (_ALGO, _ENV)})
    known = _known(algo)
    for name, value in read_options(options):
        merged = merge(merged, _as_option(name, value, known, merged))
    for name in merged:
        if known is not None and name not in known:
            raise unknown_name("hyperparameter", name, sorted(known))
    _check_policy(algo, merged)
    return Resolved(algo, env_id, _with_whole_numbers(algo, merged))


def resolve_options(parser: ArgumentParser, arguments: list[str]) -> Resolved:
    """Returns what ``--configs`` and the options that nobody else knows come to, as the parser's defaults, too."""
    usual = {name: parser.get_default(name) for name in ("algo", "env", "conf_file")}
    parser.set_defaults(algo=None, env=None, conf_file=None)
    typed, options = parser.parse_known_args(arguments)
    parser.set_defaults(**usual)
    with refusals():
        found = resolve(typed.configs, typed.algo, typed.env, typed.conf_file, options)
    parser.set_defaults(algo=found.algo, env=found.env_id)
    return found


@contextmanager
def resolved_file(found: Resolved, given: Namespace, arguments: list[str]) -> Iterator[None]:
    """Writes beside the run what ``--configs`` came to, prints it, and lets the run read it.

    If the context raises, nothing runs, and no file stays.
    """
    if (given.algo, given.env) != (found.algo, found.env_id):  # the default of a challenge
        raise Refusal(
            f"--configs are for {found.algo} in {found.env_id}, and this is {given.algo} in {given.env}: add "
            f"--algo {given.algo} --env {given.env}"
        )
    folder = Path(given.logdir or Path(given.log_folder, "-".join(Path(name).stem for name in given.configs)))
    had_folder = folder.parent.exists()
    with refusals():
        path = folder.with_name(f"{folder.name}.yml")
        path, is_new = found.with_options(given).write(path, command_line("train", *without_passwords(arguments)))
    print(f"Configuration: {path}\n{path.read_text(encoding='utf-8')}")
    given.conf_file = str(path)
    try:
        yield
    except BaseException:
        if is_new:
            path.unlink(missing_ok=True)
        if not had_folder:
            with suppress(OSError):  # where the run has left something
                os.removedirs(path.parent)
        raise


def merge(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a mapping with what another one changes; raises `ValueError` for a pattern that no key matches."""
    merged = dict(before)
    for key, value in now.items():
        if _PATTERN.search(key):
            try:
                pattern = re.compile(key)
            except re.error as error:
                raise ValueError(f"the key {key!r} is no regular expression: {error}") from error
            found = [name for name, _ in flat(merged) if pattern.match(name)]
            if not found:
                raise ValueError(f"the key {key!r} matches none of: {', '.join(name for name, _ in flat(merged))}")
            for name in found:
                merged = merge(merged, _nested(name, value, merged))
        elif "." in key and key not in merged:
            merged = merge(merged, _nested(key, value, merged))
        elif isinstance(value, Mapping) and isinstance(old := merged.get(key), Mapping):
            is_other_class = key in _OF_CLASSES and old.keys() != value.keys()
            merged[key] = value if is_other_class else merge(old, value)
        elif isinstance(value, Mapping) and key.endswith("_kwargs") and isinstance(old := merged.get(key), str):
            raise ValueError(f"{key} is Python here, {old!r}, of which no part can change: give all of it as a text")
        else:
            merged[key] = _like(merged.get(key), value)
    return merged


def _nested(path: str, value: Any, where: Any) -> dict[str, Any]:
    """Returns a mapping with a value at a path with dots; keys of ``where`` may have dots themselves, as classes do."""
    known = where if isinstance(where, Mapping) else {}
    if path in known or "." not in path:
        return {path: value}
    key = next((each for each in known if path.startswith(f"{each}.")), path.partition(".")[0])
    return {key: _nested(path[len(key) + 1 :], value, known.get(key))}


def flat(mapping: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yields all values inside mappings with their keys, joined by dots."""
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def read_options(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yields the names and values, read as YAML, of options; raises `ValueError` for one without a value."""
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or (not equals and not left):
            raise ValueError(f"{word!r} is no option with a value, such as --train_ratio 32")
        yield name, parse_yaml(text if equals else left.pop(0))


def _block(name: str, env_id: str | None) -> dict[str, Any]:
    """Returns the configuration of this name, of a file that for the environment, if that is known by now."""
    path = Path(name)
    if path.suffix in (".yml", ".yaml") and path.is_file():
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path} must map names to values")
        is_plain = any(not isinstance(each, dict) or key.endswith("_kwargs") for key, each in content.items())
        return content if is_plain or {*content} & {*_OF_ZOO} else _in_file(path, content, env_id)
    blocks = read_yaml(hyperparams_folder() / "configs.yaml")
    known = {each.lower(): each for each in (*presets(), *blocks)}
    if name.lower() not in known:
        raise unknown_name("configuration", name, sorted(known.values()))
    found = known[name.lower()]
    return dict(blocks[found]) if found in blocks else _of_preset(find_preset(found))


def _in_file(path: Path, content: Mapping[str, Any], env_id: str | None) -> dict[str, Any]:
    """Returns the block for an environment in a file of blocks, by default the only one.

    A file of a user says nothing about the algorithm unless it names one.
    """
    if env_id is None or not {env_id, DEFAULT, _group(env_id)} & content.keys():
        named = [each for each in content if each not in (DEFAULT, _ATARI)]
        if len(named) > 1:
            raise ValueError(f"{path} is for {', '.join(named)}: add --env with one of them")
        env_id = (named or [HOME_GAME])[0]
    block = _of_preset(Preset(path.stem, path, env_id))
    is_shipped = path.resolve().parent == hyperparams_folder().resolve()
    if not is_shipped and _ALGO not in content.get(env_id, {}):
        del block[_ALGO]
    return block


def _group(env_id: str) -> str:
    """Returns which block of rl-zoo3 an environment has that is not named there."""
    from rl_zoo3.exp_manager import ExperimentManager

    return _ATARI if env_id in gymnasium.registry and ExperimentManager.is_atari(env_id) else DEFAULT


def _usual(algo: str) -> str:
    """Returns the file with the hyperparameters of an algorithm: ours, or that of rl-zoo3."""
    import rl_zoo3

    return str(hyperparams_path(algo) or Path(rl_zoo3.__file__).parent / "hyperparams" / f"{algo}.yml")


def _of_preset(preset: Preset) -> dict[str, Any]:
    found = hyperparams_in(str(preset.path), preset.env_id, _group(preset.env_id))
    return {_ALGO: preset.algo, _ENV: preset.env_id} | with_nested(found)


def _known(algo: str) -> set[str] | None:
    """Returns what an algorithm may be given in rl-zoo3, ``None`` if that is anything."""
    from rl_zoo3 import ALGOS

    of_class = arguments_of(ALGOS[algo], {"env", "self"}) if algo in ALGOS else None
    return None if of_class is None else {*of_class, *_OF_ZOO}


def _check_policy(algo: str, hyperparams: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a name in ``policy_kwargs`` that neither the policy nor its optimizer knows."""
    from rl_zoo3 import ALGOS

    from sb3_pvp.algorithms.dreamer.dreamer_fighters import FighterPolicy
    from sb3_pvp.algorithms.dreamer.dreamer_policy import DreamerPolicy
    from sb3_pvp.algorithms.dreamer.laprop import LaProp

    policy, given = hyperparams.get("policy"), hyperparams.get("policy_kwargs")
    of: Any = policy_class_in(policy) or getattr(ALGOS.get(algo), "policy_aliases", {}).get(policy)
    if not isinstance(given, Mapping) or of is None:  # a text is Python, which rl-zoo3 reads
        return
    # Where there are masks, `DreamerV3` takes the other one for the same name.
    known = {"policy_kwargs": arguments_of(FighterPolicy if of is DreamerPolicy else of, _PASSED_TO_POLICIES)}
    optimizer = inspect.signature(of).parameters.get("optimizer_class")
    if issubclass(of, DreamerPolicy) or (optimizer and "optimizer_class" not in given):
        optimizer_class: Any = optimizer.default if optimizer else LaProp
        known["policy_kwargs.optimizer_kwargs"] = arguments_of(optimizer_class, ("params", "lr"))
    for name, _ in flat({"policy_kwargs": given}):
        for place, names in known.items():
            inner = name.removeprefix(f"{place}.").partition(".")[0]
            if name.startswith(f"{place}.") and names is not None and inner not in names:
                raise unknown_name("hyperparameter", f"{place}.{inner}", [f"{place}.{each}" for each in sorted(names)])


def _with_whole_numbers(algo: str, hyperparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns whole numbers as such, as the original does, also where they are written as 1e6."""
    from rl_zoo3 import ALGOS

    bases = getattr(ALGOS.get(algo), "__mro__", ())
    inits = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    hints = {each.name: str(each.annotation) for init in inits for each in inspect.signature(init).parameters.values()}
    result = dict(hyperparams)
    for name in {*_WHOLE_OF_ZOO, *(each for each, hint in hints.items() if _WHOLE.search(hint))}:
        if isinstance(value := result.get(name), float):
            if not value.is_integer():
                raise ValueError(f"{name} is a whole number, got {value}")
            result[name] = int(value)
    return result


def _as_option(name: str, value: Any, known: set[str] | None, merged: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the change that an option asks for; ``run.`` before a name, a section of the original, has no meaning."""
    name = name.removeprefix("run.")
    names = {*(known or ()), *(key for key, _ in flat(merged))}
    if not _PATTERN.search(name) and known is not None and name.partition(".")[0] not in known:
        raise unknown_name("option", f"--{name}", sorted(f"--{each}" for each in names))
    return {name: value}


def _like(before: Any, value: Any) -> Any:
    """Returns a number as of the kind of that before it, if it is one of both: 1 for 1.0, 1.0 for 1."""
    if type(before) is float and type(value) is int:
        return float(value)
    return int(value) if type(before) is int and type(value) is float and value.is_integer() else value
