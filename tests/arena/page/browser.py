"""A real browser: Chromium, of the environment variable ``CHROMIUM`` or on the path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

#: ``.ci/run`` sets it, where every test must run.
REQUIRED = "SB3_PVP_REQUIRE_BROWSER"
#: Milliseconds that anything may take on a busy machine.
PATIENCE = 60_000


def chromium() -> str:
    """Its path; skips the test where there is none, unless that is forbidden."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get(REQUIRED):
            pytest.fail("no Chromium: set CHROMIUM, or install Debian's chromium")
        pytest.skip("needs Chromium: set CHROMIUM to it, or install Debian's chromium")
    return found


@contextmanager
def opened(browser: Any, width: int = 1280, refused: str = "", **options: Any) -> Iterator[Any]:
    """Yields a page; nothing may go wrong on it but what ``refused`` is a part of the message of."""
    context = browser.new_context(viewport={"width": width, "height": 844}, **options)
    context.set_default_timeout(PATIENCE)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not [each for each in wrong if not refused or refused not in each], wrong
