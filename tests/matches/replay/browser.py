"""A headless Chromium that tests talk to over a pipe, in its DevTools protocol."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.arena.page import browser

#: Where Chromium reads commands, and writes answers, with ``--remote-debugging-pipe``.
COMMANDS, ANSWERS = 3, 4
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,800")


class Tab:
    """A page in a browser.

    Args:
        commands: a file that the browser reads.
        answers: one that it writes.
    """

    def __init__(self, commands: Any, answers: Any) -> None:
        self._commands, self._answers, self._count = commands, answers, 0
        self._session: dict[str, str] = {}
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}

    def ask(self, method: str, **params: Any) -> Any:
        """Returns the answer to a command; unsolicited messages of the browser are dropped."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params, **self._session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Shows a file; returns when its script has run."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=f"{path.as_uri()}#{fragment}")
        self.wait_for("document.readyState === 'complete' && document.documentElement.dataset.tick !== ''")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is worth."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Returns when the expression is true; fails if that takes far too long."""
        deadline = time.monotonic() + 60
        while self.value(expression) is not True:
            assert time.monotonic() < deadline, f"in vain for {expression}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Presses a key and lets it go."""
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key)

    def _read(self) -> bytes:
        message = b""
        while not message.endswith(b"\0"):
            part = self._answers.read(1)
            assert part, "the browser is gone"
            message += part
        return message[:-1]


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Tab]:
    """A tab of a browser of its own, whose files are in ``folder``; skips the test where there is none."""
    program = browser.chromium()
    theirs, ours = zip(*_pipes(), strict=True)

    def connect() -> None:
        os.dup2(theirs[0], COMMANDS)
        os.dup2(theirs[1], ANSWERS)

    process = subprocess.Popen(
        [program, *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
        preexec_fn=connect,
        pass_fds=(COMMANDS, ANSWERS),
        stderr=subprocess.DEVNULL,
    )
    for descriptor in theirs:
        os.close(descriptor)
    with os.fdopen(ours[0], "wb", 0) as commands, os.fdopen(ours[1], "rb") as answers:
        try:
            yield Tab(commands, answers)
            commands.write(b'{"id": 0, "method": "Browser.close"}\0')
            process.wait(20)
        finally:
            process.kill()
            process.wait()


def _pipes() -> Iterator[tuple[int, int]]:
    """The browser's and our end of the pipe for commands, then of that for answers, out of the way of both numbers."""
    for browser_reads in (True, False):
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        yield (high[0], high[1]) if browser_reads else (high[1], high[0])
