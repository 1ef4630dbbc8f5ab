"""What setup.cfg lists by hand must be what the checkout holds."""

import ast
import configparser
import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONS = configparser.ConfigParser()
OPTIONS.read(ROOT / "setup.cfg")


def folder_of(package: str) -> Path:
    return ROOT / "hyperparams" if package == "sb3_pvp.hyperparams" else ROOT / package.replace(".", "/")


def shipped_files() -> list[Path]:
    files = [*(ROOT / "sb3_pvp").rglob("*"), *(ROOT / "hyperparams").rglob("*")]
    return [file for file in files if file.is_file() and "__pycache__" not in file.parts]


def test_every_folder_with_files_is_listed_once() -> None:
    listed = OPTIONS["options"]["packages"].split()
    assert sorted(map(folder_of, listed)) == sorted({file.parent for file in shipped_files()})


def test_every_data_file_reaches_the_wheel() -> None:
    patterns = {folder_of(package): names.split(", ") for package, names in OPTIONS["options.package_data"].items()}
    data = [file for file in shipped_files() if file.suffix != ".py"]
    left_out = [file for file in data if not any(fnmatch.fnmatch(file.name, p) for p in patterns.get(file.parent, []))]
    assert data
    assert not left_out


def test_shipped_code_imports_nothing_that_is_for_tests_and_benchmarks_only() -> None:
    for file in shipped_files():
        if file.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            forbidden = {"benchmarks", "tests", "unittest", "pytest"}
            assert not forbidden.intersection(name.split(".")[0] for name in names), file
