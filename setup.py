"""All is in pyproject.toml and setup.cfg, but for links of README.md: PyPI needs the address of the project in them."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
HOME = re.search(r'^Homepage = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


def _absolute(link: re.Match) -> str:
    return f"]({HOME}/{'raw' if link[1].endswith(('.gif', '.png')) else 'blob'}/main/{link[1]})"


setup(
    long_description=re.sub(r"\]\((?!https:)(\S+?)\)", _absolute, (ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
