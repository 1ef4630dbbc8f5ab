"""A griffe extension that turns names and citations of the specification in docstrings into links."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import griffe
from markdown.extensions.toc import slugify

SPEC = Path(__file__).parent / "spec"
_NAME = re.compile(r"(?<![`\[])`([A-Za-z_][\w.]*)`(?![`\]])")
_CITATION = re.compile(r"`{0,2}([a-z-]+)\.md`{0,2},?\s+§([0-9A-Z](?:\.?[0-9]+)*)")
_COMMENT = re.compile(r"^\s*#: ?(.*)$")
_HEADING = re.compile(r"^#+ (([0-9A-Z](?:\.?[0-9]+)*)\.? .*)", re.MULTILINE)


class CrossReferences(griffe.Extension):
    """Runs when the whole package is loaded, so that any name of it can be resolved."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replaces names and citations in all docstrings of the package."""
        self._visit(pkg)

    def _visit(self, item: griffe.Object) -> None:
        if isinstance(item, griffe.Attribute) and item.docstring is None and (comment := _comment_of(item)):
            item.docstring = griffe.Docstring(comment, lineno=item.lineno, parent=item)
        if item.docstring is not None:
            linked = _NAME.sub(lambda name: _reference(item, name[1]), item.docstring.value)
            item.docstring.value = _CITATION.sub(_citation, linked)
        for member in item.members.values():
            if not member.is_alias:
                self._visit(member)


def _comment_of(item: griffe.Attribute) -> str:
    """The ``#:`` comment of an attribute, on its last line or on the lines above it; empty without one."""
    lines, first, last = item.lines_collection[item.filepath], item.lineno or 1, item.endlineno or 1
    if "  #: " in lines[last - 1]:
        return lines[last - 1].split("  #: ", 1)[1]
    above = []
    while first > 1 and (found := _COMMENT.match(lines[first - 2])):
        above.insert(0, found[1])
        first -= 1
    return " ".join(above)


def _reference(item: griffe.Object, name: str) -> str:
    """Returns the name as an optional reference if it can be resolved from ``item``, else as code."""
    try:
        path = name if name.startswith("sb3_pvp.") else item.resolve(name)
    except griffe.NameResolutionError:
        return f"`{name}`"
    return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'


def _citation(found: re.Match[str]) -> str:
    """Returns the citation as a link from a page of docs/reference; unchanged if there is no such section."""
    document, section = found.groups()
    if section not in (anchors := _anchors(document)):
        return found[0]
    # A path between sources, not between built pages: Zensical rewrites relative links in raw HTML as well.
    return f'<a href="../spec/{document}.md#{anchors[section]}">{document}.md §{section}</a>'


@lru_cache
def _anchors(document: str) -> dict[str, str]:
    """Returns the anchors of a specification's sections by their numbers."""
    path = SPEC / f"{document}.md"
    headings = _HEADING.findall(path.read_text(encoding="utf-8")) if path.is_file() else []
    return {number: slugify(re.sub("[`*]", "", heading), "-") for heading, number in headings}
