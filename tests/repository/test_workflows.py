"""Workflows, as far as they can be checked here: nothing is published that has not passed."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.paths import ROOT

WORKFLOWS = ROOT / ".github/workflows"
CI, RELEASE, SLOW = (yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text()) for name in ("ci", "release", "slow"))


def test_a_release_has_passed_all_checks_and_its_site_follows_it() -> None:
    jobs = RELEASE["jobs"]
    assert jobs["check"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in CI[True]  # `on`, as YAML 1.1 reads it
    assert jobs["publish"]["needs"] == ["check", "build"] and jobs["site"]["needs"] == "publish"
    assert {path.name for path in WORKFLOWS.iterdir()} == {"ci.yml", "release.yml", "slow.yml"}
    assert CI["permissions"] == SLOW["permissions"] == {"contents": "read"}, "others may publish, too"


def test_there_is_as_much_shared_memory_as_we_advise() -> None:
    assert "--shm-size=1g" in CI["jobs"]["check"]["container"]["options"]
    assert "--shm-size=1g" in (ROOT / "docs/train.md").read_text()


def test_what_strangers_try_first_is_tried_although_it_is_slow() -> None:
    tried = re.findall(r"tests/\S+\.py", (ROOT / ".ci/run").read_text())
    names = {f"test_{name}.py" for name in ("bare_install", "example_notebooks", "hub_commands", "readme_commands")}
    assert names <= {Path(each).name for each in tried}
    assert all("pytest.mark.slow" in (ROOT / path).read_text() for path in tried)
