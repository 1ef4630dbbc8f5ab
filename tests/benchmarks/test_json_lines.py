"""Lines of JSON that runs append to."""

from __future__ import annotations

from pathlib import Path

from benchmarks.json_lines import append_line, read_lines


def test_what_a_process_was_cut_off_in_costs_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_line(path, {"steps": 1})
    with path.open("a") as file:
        file.write('{"ste')
    assert read_lines(path) == [{"steps": 1}]
    append_line(path, {"steps": 2})
    append_line(path, {"steps": 3})
    assert read_lines(path) == [{"steps": 1}, {"steps": 2}, {"steps": 3}]
