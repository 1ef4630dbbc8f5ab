"""What setup.cfg lists by hand must be what the checkout holds."""

import ast
import configparser
import fnmatch
import re
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


def test_what_explains_the_package_is_in_the_sdist() -> None:
    grafted = re.findall(r"^graft (\w+)$", (ROOT / "MANIFEST.in").read_text(), re.MULTILINE)
    assert {"docs", "examples"} <= set(grafted) and all((ROOT / folder).is_dir() for folder in grafted)


def test_links_of_the_readme_lead_somewhere_from_anywhere() -> None:
    (home,) = re.findall(r'^Homepage = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    raw = home.replace("github.com", "raw.githubusercontent.com")
    targets = re.findall(r"\]\(([^)]+)\)|^\[[^\]]+\]: (\S+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    for target in (inline or defined for inline, defined in targets):
        assert target.startswith("https://"), target
        if found := re.fullmatch(rf"{home}/blob/main/(.+)|{raw}/main/(.+)", target):
            assert (ROOT / (found[1] or found[2])).exists(), target
    assert f"{home}/blob/main/docs/replay.md" in (ROOT / "README.md").read_text()


def test_the_readme_names_all_extras_that_are_for_users() -> None:
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    named = (ROOT / "README.md").read_text().partition("| Extra | For |")[2].partition("\n\n")[0]
    for extra in set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE)) - {"test", "dev"}:
        assert f"`{extra}`" in named, extra
