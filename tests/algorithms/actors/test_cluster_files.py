"""The files in examples/cluster are valid by Ray's own schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.paths import ROOT

EXAMPLES = ROOT / "examples" / "cluster"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yml")), ids=lambda file: file.name)
def test_ray_accepts_the_file_and_both_kinds_of_machines_ask_for_the_token(file: Path) -> None:
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = util.prepare_config(yaml.safe_load(file.read_text("utf-8")))
    util.validate_config(config)
    assert config["max_workers"] > 0
    for kind in ("head", "worker"):
        # All commands run in a shell that has read this file.
        assert any("RAY_AUTH_MODE=token' >> ~/.bashrc" in command for command in config[f"{kind}_setup_commands"])
    assert "~/.ray/auth_token" in config["file_mounts"]
    if file.stem == "aws":
        assert "NEVER RUN BY US" in file.read_text("utf-8")
