"""``python -m docs.examples_page`` prints the programs in ``examples`` as a Markdown page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
INTRODUCTION = """# Examples

Small programs that each show one thing, in the folder `examples` of a checkout. Made by `make docs`; do not edit it
by hand."""
_COMMAND = re.compile(r"^(?:pip install|python) ", re.MULTILINE)


def render_page() -> str:
    """The Markdown page about all examples."""
    return "\n".join([INTRODUCTION, *(line for path in sorted(EXAMPLES.glob("*.py")) for line in _section(path))])


def _section(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, *paragraphs = (ast.get_docstring(tree) or path.stem).split("\n\n")
    yield from ("", f"## {path.name}", "", title)
    for paragraph in paragraphs:
        yield from ("", *(("```sh", paragraph, "```") if _COMMAND.match(paragraph) else (paragraph,)))
    _, _, code = source.partition('"""\n\n')
    # Folded on the site and on GitHub alike. "py": a page's "python" is run by tests, and examples have their own.
    yield from ("", '<details markdown="1">', "<summary>Source</summary>", "", "```py")
    yield from (code.rstrip(), "```", "", "</details>")


if __name__ == "__main__":
    print(render_page())
