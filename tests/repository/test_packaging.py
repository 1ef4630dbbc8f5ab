"""What setup.cfg lists by hand must be what the checkout holds."""

import ast
import configparser
import fnmatch
import re
import runpy
from pathlib import Path

import pytest
import setuptools
from packaging.version import Version

from tests.paths import ROOT

DATA_FOLDERS = ("hyperparams", "models")  #: At the top of the checkout, but inside the package in a wheel.
OPTIONS = configparser.ConfigParser()
OPTIONS.read(ROOT / "setup.cfg")


def folder_of(package: str) -> Path:
    name = package.removeprefix("sb3_pvp.")
    return ROOT / name if name in DATA_FOLDERS else ROOT / package.replace(".", "/")


def shipped_files() -> list[Path]:
    files = [file for folder in ("sb3_pvp", *DATA_FOLDERS) for file in (ROOT / folder).rglob("*")]
    # Parts of trainings that go on are in no wheel.
    return [file for file in files if file.is_file() and not {"__pycache__", "unfinished"}.intersection(file.parts)]


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


def test_links_of_the_readme_lead_somewhere_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    (home,) = re.findall(r'^Homepage = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    readme, on_pypi = (ROOT / "README.md").read_text(), {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: on_pypi.update(given))
    runpy.run_path(str(ROOT / "setup.py"))
    targets, absolute = (re.findall(r"\]\(([^)]+)\)", text) for text in (readme, on_pypi["long_description"]))
    assert len(targets) == len(absolute) > 15
    for target, link in zip(targets, absolute, strict=True):
        if link != target:
            assert (ROOT / target).exists(), target
            assert link == f"{home}/{'raw' if target.endswith('.png') else 'blob'}/main/{target}"
        assert link.startswith("https://"), link


def test_the_address_of_the_project_is_in_one_file_only() -> None:
    (home,) = re.findall(r'^Homepage = "https://(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*"), *shipped_files()]
    assert not [file for file in texts if home.encode() in (file.read_bytes() if file.is_file() else b"")]


def test_the_page_of_installation_names_all_extras_that_are_for_users() -> None:
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    named = (ROOT / "docs/install.md").read_text().partition("| Extra | For |")[2].partition("\n\n")[0]
    for extra in set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE)) - {"test", "dev", "site"}:
        assert f"`{extra}`" in named, extra


#: The first releases without a known hole that a foreign file, or another user of the machine, could use here.
FIXED = {
    "filelock": "3.20.3",  # CVE-2026-22701, CVE-2025-68146: links in place of locks
    "jinja2": "3.1.6",  # CVE-2025-27516
    "onnx": "1.21",  # CVE-2026-34447, CVE-2026-27489: data outside of the model's folder
    "orjson": "3.11.6",  # CVE-2025-67221, CVE-2024-27454: deep nesting
    "torch": "2.10",  # CVE-2026-24747, CVE-2025-32434: code in files that are loaded with weights_only
    "tqdm": "4.66.3",  # CVE-2024-34062
}


@pytest.mark.parametrize("package", FIXED)
def test_dependencies_are_above_the_fixes_that_are_known(package: str) -> None:
    given = re.findall(rf'"{package}>=([\d.]+)', (ROOT / "pyproject.toml").read_text())
    tested = re.findall(rf"^{package}==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert given and tested and all(Version(each) >= Version(FIXED[package]) for each in given + tested)
