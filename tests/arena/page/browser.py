"""A real browser: Chromium, of the environment variable ``CHROMIUM`` or on the path."""

from __future__ import annotations

import os
import shutil

import pytest

#: ``.ci/run`` sets it, where every test must run.
REQUIRED = "SB3_PVP_REQUIRE_BROWSER"


def chromium() -> str:
    """Its path; skips the test where there is none, unless that is forbidden."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get(REQUIRED):
            pytest.fail("no Chromium: set CHROMIUM, or install Debian's chromium")
        pytest.skip("needs Chromium: set CHROMIUM to it, or install Debian's chromium")
    return found
