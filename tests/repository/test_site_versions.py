"""The pages of all versions: a new one is added, an old one stays, and the first page leads to the newest."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.paths import ROOT


def test_versions_are_beside_each_other(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.9.1", "0.10.0"):
        site = tmp_path / f"site of {version}"
        site.mkdir(exist_ok=True)
        (site / "index.html").write_text(version)
        subprocess.run([ROOT / ".ci/add-version", site, tmp_path / "pages", version], check=True)
    pages = tmp_path / "pages"
    assert {each.name for each in pages.iterdir()} == {"0.9.0", "0.9.1", "0.10.0", "index.html", ".nojekyll"}
    assert (pages / "0.9.0/index.html").read_text() == "0.9.0"
    first = (pages / "index.html").read_text()
    assert 'url=0.10.0/"' in first and first.index("0.9.1</a>") < first.index("0.9.0</a>")
