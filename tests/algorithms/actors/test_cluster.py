"""Joining a cluster: what is missing or wrong is one line that says what to do."""

from __future__ import annotations

import importlib
import socket
from typing import Any

import pytest

from sb3_pvp.algorithms.actors import connect
from sb3_pvp.common.errors import MissingExtra
from sb3_pvp.zoo import train


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r'pip install "sb3-pvp\[ray\]"'):
        connect()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--distribute", "-1"], "--distribute must be at least 0"),
        (
            ["--distribute", "--algo", "ppo", "--env", "CartPole-v1"],
            "is for --algo maskable_ppo and mapoca, not for ppo",
        ),
        (["--distribute"], "there is no Ray cluster at RAY_ADDRESS=127.0.0.1"),
    ],
)
def test_bad_use_is_one_line_before_anything_is_written(
    arguments: list[str], message: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # whatever other tests have joined
    with socket.socket() as free:  # nobody listens there
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(SystemExit, match="2"):
            train([*arguments, "-f", str(tmp_path / "logs")])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()
