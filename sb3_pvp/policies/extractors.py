"""Features extractors by name, for files and hyperparameters."""

from __future__ import annotations

from contextlib import suppress

from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, FlattenExtractor, NatureCNN

from sb3_pvp.common.errors import installed, require_known
from sb3_pvp.policies.planes import ResidualPlanes

EXTRACTORS = "sb3_pvp.features_extractors"  #: Entry-point group of features extractors.
_BUILT_IN: dict[str, type[BaseFeaturesExtractor]] = {
    each.__name__: each for each in (CombinedExtractor, FlattenExtractor, NatureCNN, ResidualPlanes)
}


def known_extractors() -> tuple[str, ...]:
    """Returns the names of SB3's features extractors and ours, and of those that installed packages add."""
    return (*_BUILT_IN, *(name for name in installed(EXTRACTORS) if name not in _BUILT_IN))


def find_extractor(name: str | type[BaseFeaturesExtractor]) -> type[BaseFeaturesExtractor]:
    """Returns a features extractor by its name among `known_extractors`, a class as it is.

    Raises `ValueError` for an unknown name, and if it cannot be imported.
    """
    if not isinstance(name, str):
        return name
    require_known("features extractor", name, known_extractors())
    if name in _BUILT_IN:
        return _BUILT_IN[name]
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
