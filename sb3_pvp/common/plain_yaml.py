"""YAML that anybody may have written, read within limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

#: Characters of a file, and of its values where each alias is replaced by what it stands for; and how deep these go.
_MAX_TEXT, _MAX_VALUES, _MAX_DEPTH = 1 << 18, 1 << 20, 50


class _Loader(yaml.SafeLoader):
    """Reads plain values. A few aliases inside aliases make more of them than any machine can hold."""

    def get_single_node(self) -> Any:
        """Returns the root of the document; raises `ValueError` if it has too much in it, or contains itself."""
        root: Any = super().get_single_node()
        waiting, size = [(root, 0)], 0
        while waiting:
            node, depth = waiting.pop()
            is_inner = isinstance(node, yaml.CollectionNode)
            size += 1 if is_inner or node is None else 1 + len(node.value)
            if depth > _MAX_DEPTH or size + len(waiting) > _MAX_VALUES:
                raise ValueError("its aliases make it endless, or too large or too deep")
            for child in node.value if is_inner else ():  # of a mapping, a pair
                waiting += [(each, depth + 1) for each in (child if isinstance(child, tuple) else (child,))]
        return root


# YAML 1.1, which PyYAML reads, takes numbers such as 3e-4 and 1.1e6 for texts.
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, [*"-+0123456789"])


def parse_yaml(text: str) -> Any:
    """Returns the plain values in a text; raises `ValueError`, in one line, if it is not YAML or too large."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"it has more than {_MAX_TEXT:,} characters")
    try:
        return yaml.load(text, _Loader)
    except Exception as error:  # some values, such as `!!int x`, raise no YAMLError
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error


def read_text(path: Path) -> str:
    """Returns the text of a file for `parse_yaml`; raises `ValueError` if it is no file, too large, or not UTF-8."""
    if path.exists() and not path.is_file():  # a device or a pipe may never end
        raise ValueError("it is a folder, a device or a pipe")
    with path.open(encoding="utf-8") as file:
        return file.read(_MAX_TEXT + 1)


def read_yaml(path: Path) -> Any:
    """Returns the plain values in a file; raises `FileNotFoundError`, or `ValueError` as `parse_yaml` does."""
    return parse_yaml(read_text(path))


def parse_ordered_dict(text: str) -> dict[str, Any]:
    """Returns an ``OrderedDict`` of plain values that PyYAML has dumped; raises as `parse_yaml` does.

    Without its tag it is plain lists, which need no unsafe loader.
    """
    (pairs,) = parse_yaml(text.replace("!!python/object/apply:collections.OrderedDict", ""))
    return {str(name): value for name, value in pairs}


def read_ordered_dict(path: Path) -> dict[str, Any]:
    """Does `parse_ordered_dict` for a file; raises as `read_yaml` does."""
    return parse_ordered_dict(read_text(path))
