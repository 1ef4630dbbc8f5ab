"""Bad usage of ``sb3-pvp serve``: one line that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sb3_pvp.cli import main


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--models", "nowhere"], "pass --models FOLDER"),
        (["--backend", "onx"], "did you mean 'onnx'"),
        (["--worker-type", "fiber"], "process, thread"),
        (["--remote-processor-type", "ray"], "process, thread"),
        (["--workers", "-1"], "--workers"),
        (["--worker-type", "thread", "--workers", "4"], "thread is the event loop alone: leave --worker-type out"),
        (["--remote-processor-type", "process", "--remote-processor-pool-size", "0"], "at least one: leave --workers"),
        (["--port", "99999"], "--port"),
        (["--device", "tpu"], "cpu or cuda"),
        (["--game", "Chess"], "unknown game 'Chess'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_one_line_and_exit_code_2(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--models" not in options:
        (tmp_path / "models").mkdir()
    with pytest.raises(SystemExit) as exit_info:
        main(["serve", "--port", "0", *options])
    assert exit_info.value.code == 2
    output = capsys.readouterr()
    assert output.err.startswith("sb3-pvp: error: ") and output.err.count("\n") == 1
    assert words in output.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--models", str(tmp_path), "--device", "cuda"])
    assert "PyTorch sees no GPU" in capsys.readouterr().err
