"""Features extractors by name, for files that need not be trusted: those of SB3, and of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch as th
from gymnasium import Space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor, NatureCNN

from sb3_pvp.common.entry_points import installed
from sb3_pvp.policies.shaped_features import ShapedFeatures

EXTRACTORS = "sb3_pvp.features_extractors"  #: Entry-point group of features extractors.
_SB3: dict[str, type[BaseFeaturesExtractor]] = {
    each.__name__: each for each in (CombinedExtractor, FlattenExtractor, NatureCNN)
}


def known_extractors() -> tuple[str, ...]:
    """Returns the names of SB3's features extractors, and of those that installed packages add."""
    return (*_SB3, *(name for name in installed(EXTRACTORS) if name not in _SB3))


def find_extractor(name: str) -> type[BaseFeaturesExtractor]:
    """Returns a features extractor by its name among `known_extractors`; `ValueError` if it cannot be imported."""
    if name in _SB3:
        return _SB3[name]
    try:
        found = installed(EXTRACTORS)[name].load()
    except Exception as error:  # the code of another package can raise anything
        raise ValueError(f"the features extractor {name!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, BaseFeaturesExtractor)):
        raise ValueError(f"the features extractor {name!r} is not a BaseFeaturesExtractor, but {found!r:.60}")
    return found


def name_of_extractor(extractor_class: type) -> str | None:
    """Returns the name of a features extractor among `known_extractors`, or ``None``."""
    for name in known_extractors():
        with suppress(ValueError):  # one that cannot be imported is not this one
            if find_extractor(name) is extractor_class:
                return name
    return None


def weights_of_extractor(space: Space[Any], arguments: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the number of outputs of a features extractor, and of its weights, without allocating these.

    ``arguments`` are those of `AutoregressivePolicy` that make it. Raises `ValueError` if it refuses them.
    """
    with th.device("meta"):
        given = arguments["features_extractor_class"], arguments["features_extractor_kwargs"] or {}
        extractor = ShapedFeatures(space, *given).extractor
    return extractor.features_dim, sum(each.numel() for each in extractor.parameters())
