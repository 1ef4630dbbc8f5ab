"""What setup.cfg lists by hand must be what the checkout holds."""

import ast
import configparser
import fnmatch
import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import setuptools
import yaml
from packaging.version import Version

import sb3_pvp
from tests.paths import ROOT

DATA_FOLDERS = ("hyperparams", "models")  #: At the top of the checkout, but inside the package in a wheel.
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
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


def test_all_that_tests_read_is_in_the_sdist() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    manifest = (ROOT / "MANIFEST.in").read_text()
    listed = {name for line in re.findall(r"^(?:include|graft) (.+)$", manifest, re.MULTILINE) for name in line.split()}
    always = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.cfg", "setup.py"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name.partition("/")[0] for name in tracked.splitlines()} - {".gitignore"} == {
        *listed,
        *always,
        "sb3_pvp",
        *DATA_FOLDERS,
    }


def test_the_version_is_the_same_everywhere() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    assert sb3_pvp.__version__ == PROJECT["version"] == cited


def test_links_of_the_readme_lead_somewhere_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    home = PROJECT["urls"]["Homepage"]
    readme, on_pypi = (ROOT / "README.md").read_text(), {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: on_pypi.update(given))
    runpy.run_path(str(ROOT / "setup.py"))
    targets, absolute = (re.findall(r"\]\(([^)]+)\)", text) for text in (readme, on_pypi["long_description"]))
    assert len(targets) == len(absolute) > 15
    for target, link in zip(targets, absolute, strict=True):
        if link != target:
            assert (ROOT / target).exists(), target
            assert link in (f"{home}/raw/main/{target}", f"{home}/blob/main/{target}")
        assert link.startswith("https://"), link
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", on_pypi["long_description"])
    assert pictures and all("/raw/" in each for each in pictures), "what is not raw is a page about the picture"


def test_addresses_of_the_project_and_its_maintainers_are_in_one_file_only() -> None:
    home, (maintainers,) = PROJECT["urls"]["Homepage"].removeprefix("https://"), PROJECT["maintainers"]
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*"), *shipped_files()]
    found = {file: file.read_bytes() for file in texts if file.is_file()}
    for address in (home, maintainers["email"]):
        assert not [file for file, text in found.items() if address.encode() in text]
    assert all(b"`maintainers` in" in found[ROOT / name] for name in ("CODE_OF_CONDUCT.md", "SECURITY.md"))


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
