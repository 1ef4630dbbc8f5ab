"""Bad usage of a benchmark: one line on stderr that says what to do, exit code 2, no traceback."""

from __future__ import annotations

import runpy

import pytest

from benchmarks.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "command"),
        (["moon"], "moon"),
        (["world", "--fights", "1,zero"], "1,zero"),
        (["world", "--seconds", "0"], "--seconds"),
        (["faults", "--kinds", "dorp"], "did you mean 'drop'"),
        (["faults", "--rate", "0"], "--rate"),
        (["faults", "--rate", "nan"], "--rate"),
        (["faults", "--rate", "0.2"], "1 at most"),
        (["rollout", "--n-envs", "0"], "--n-envs"),
        (["rollout", "--seconds", "0"], "--seconds"),
        (["train", "--batches", "1,zero"], "1,zero"),
        (["train", "--n-steps", "many"], "--n-steps"),
        (["rock_paper_scissors", "--seeds", "0"], "--seeds"),
        (["learning_curves", "plot", "run", "-o", "."], "'.' is a directory"),
        (["learning_curves", "plot", "run", "--json", "."], "'.' is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_one_line_and_exit_code_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("benchmarks: error: ")
    assert output.err.count("\n") == 1
    assert words in output.err


def test_the_folder_is_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("benchmarks", run_name="__main__")
    printed = capsys.readouterr().out
    for name in ("world", "rollout", "train", "server", "faults", "rock_paper_scissors", "learning_curves"):
        assert name in printed
