"""Every citation of a specification can be opened: the document is in docs/spec, and has that section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

SPEC = ROOT / "docs" / "spec"
#: Whatever cites: code, hyperparameters, and the pages beside the specifications.
FILES = sorted(
    path
    for folder in ("sb3_pvp", "benchmarks", "examples", "hyperparams", "scripts", "tests", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".yml", ".yaml") and path.name != Path(__file__).name
)
#: Names without a section are those of other pages as well, such as docs/contract.md.
_CITATION = re.compile(
    r"([a-z-]+\.md)`{0,2},? (?:§|sections? |part |(?=[A-Z]\b))([0-9A-Z][0-9]*(?:\.[0-9]+)*)"
    r"((?:(?:, | and |-)§?[0-9.]*[0-9])*)"
)
_HEADING = re.compile(r"^#+ ([0-9A-Z][0-9]*(?:\.[0-9]+)*)\.? ", re.M)


def sections(name: str) -> set[str]:
    """The section numbers of a specification; empty if there is no such document."""
    path = SPEC / name
    return {match[1] for match in _HEADING.finditer(path.read_text())} if path.is_file() else set()


def citations(text: str) -> set[tuple[str, str]]:
    """The documents and sections that a text cites, also across line breaks."""
    joined = re.sub(r"\s*\n\s*(#:?|//)?\s*", " ", text)
    found = set()
    for match in _CITATION.finditer(joined):
        more = re.findall(r"[0-9]+(?:\.[0-9]+)*", match[3])
        found |= {(match[1], section) for section in (match[2], *more)}
    return found


def test_the_pattern_finds_citations() -> None:
    text = (
        "See (mechanics.md §4.2), `training.md\n    §3.1`, ``nh-actions.md`` §B.1, x.md §2, §3.1 and 4; protocol.md A."
    )
    expected = {("mechanics.md", "4.2"), ("training.md", "3.1"), ("nh-actions.md", "B.1"), ("protocol.md", "A")}
    assert citations(text) == expected | {("x.md", number) for number in ("2", "3.1", "4")}


CITED = {path: citations(path.read_text()) for path in FILES}


@pytest.mark.parametrize("name", sorted({name for cited in CITED.values() for name, _ in cited}))
def test_every_citation_can_be_opened(name: str) -> None:
    known = sections(name)
    missing = {
        f"{path.relative_to(ROOT)}: {name} §{section}"
        for path, sections_of in CITED.items()
        for cited, section in sections_of
        if cited == name and section not in known
    }
    assert not missing
