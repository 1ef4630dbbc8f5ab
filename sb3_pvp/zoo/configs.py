"""``--configs NAME NAME …``: configurations, merged from left to right, and options with dots (dreamer.md C4, C5).

A name is that of a block in ``hyperparams/configs.yaml``, of a preset, or a YAML file; capitals do not matter. Mappings
are merged, all else is replaced. A key with other characters than those of names is a regular expression, and changes
all keys there are that begin so, written with dots, such as ``.*\\.units``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sb3_pvp.algorithms.presets import (
    find_preset,
    hyperparams_folder,
    hyperparams_in,
    hyperparams_path,
    presets,
    with_nested,
)
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import arguments_of, unknown_name
from sb3_pvp.common.plain_yaml import parse_yaml, read_yaml

_PATTERN = re.compile(r"[^\w.-]")
#: Special keys of blocks: what is trained, and where.
_ALGO, _ENV = "algo", "env"
#: Names of rl-zoo3 that are no arguments of algorithms.
_OF_ZOO = (
    "n_envs", "n_timesteps", "policy", "env_wrapper", "vec_env_wrapper", "callback", "normalize", "frame_stack",
    "noise_type", "noise_std", "env_kwargs", "monitor_kwargs", "optimizer_kwargs",
)  # fmt: skip


class Resolved(NamedTuple):
    """What configurations come to."""

    algo: str
    env_id: str
    hyperparams: dict[str, Any]

    def write(self, path: Path, command: str) -> Path:
        """Writes a preset, which makes the same run, and returns its path.

        No file changes, neither a configuration that has this name, nor what a run reads that begins at the same time:
        where another one is in the way, the name gets an ending of its own.
        """
        text = yaml.safe_dump({self.env_id: {_ALGO: self.algo} | self.hyperparams}, sort_keys=False, width=120)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.open("x").close()  # of two processes one makes it
        except FileExistsError:
            if path.read_text("utf-8").partition("\n")[2] == text:
                return path
            path = path.with_name(f"{path.stem}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}.yml")
        write_atomically(path, f"# Resolved from: {command}\n{text}")
        return path


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
    blocks = [_block(name) for name in names]
    algo = algo or next((block[_ALGO] for block in reversed(blocks) if _ALGO in block), None)
    env_id = env_id or next((block[_ENV] for block in reversed(blocks) if _ENV in block), None)
    if not algo or not env_id:
        lacking = "environment: add --env" if algo else "algorithm: add --algo"
        raise ValueError(f"--configs {' '.join(names)} name no {lacking}")
    # A preset is whole; sizes and the like change the usual hyperparameters of the algorithm.
    is_whole = not conf and any(_ENV in block for block in blocks)
    merged = {} if is_whole else with_nested(hyperparams_in(conf or _usual(algo), env_id))
    for block in blocks:
        merged = merge(merged, {key: value for key, value in block.items() if key not in (_ALGO, _ENV)})
    known = _known(algo)
    for name, value in read_options(options):
        merged = merge(merged, _as_option(name, value, known, merged))
    for name in merged:
        if known is not None and name not in known:
            raise unknown_name("hyperparameter", name, sorted(known))
    return Resolved(algo, env_id, merged)


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
                merged = merge(merged, with_nested({name: value}))
        elif "." in key:
            merged = merge(merged, with_nested({key: value}))
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = _like(merged.get(key), value)
    return merged


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


def _block(name: str) -> dict[str, Any]:
    """Returns the configuration of this name."""
    path = Path(name)
    if path.suffix in (".yml", ".yaml") and path.is_file():
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path} must map names to values")
        is_preset = all(isinstance(each, dict) and not key.endswith("_kwargs") for key, each in content.items())
        return _of_preset(name) if is_preset else content
    blocks = read_yaml(hyperparams_folder() / "configs.yaml")
    known = {each.lower(): each for each in (*presets(), *blocks)}
    if name.lower() not in known:
        raise unknown_name("configuration", name, sorted(known.values()))
    found = known[name.lower()]
    return dict(blocks[found]) if found in blocks else _of_preset(found)


def _usual(algo: str) -> str:
    """Returns the file with the hyperparameters of an algorithm: ours, or that of rl-zoo3."""
    import rl_zoo3

    return str(hyperparams_path(algo) or Path(rl_zoo3.__file__).parent / "hyperparams" / f"{algo}.yml")


def _of_preset(name: str) -> dict[str, Any]:
    preset = find_preset(name)
    return {_ALGO: preset.algo, _ENV: preset.env_id} | with_nested(preset.hyperparams())


def _known(algo: str) -> set[str] | None:
    """Returns what an algorithm may be given in rl-zoo3, ``None`` if that is anything."""
    from rl_zoo3 import ALGOS

    of_class = arguments_of(ALGOS[algo], {"env", "self"}) if algo in ALGOS else None
    return None if of_class is None else {*of_class, *_OF_ZOO}


def _as_option(name: str, value: Any, known: set[str] | None, merged: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the change that an option asks for; ``run.`` before a name, a section of the original, has no meaning."""
    name = name.removeprefix("run.")
    names = {*(known or ()), *(key for key, _ in flat(merged))}
    if not _PATTERN.search(name) and known is not None and name.partition(".")[0] not in known:
        raise unknown_name("option", f"--{name}", sorted(f"--{each}" for each in names))
    return {name: value}


def _like(before: Any, value: Any) -> Any:
    """Returns a value as of the kind of that before it, where one is the other, such as 1 for 1.0."""
    return float(value) if type(before) is float and type(value) is int else value
