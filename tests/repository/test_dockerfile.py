"""The Dockerfiles of the server and of training, as far as they can be checked without Docker."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import typer

from sb3_pvp.cli.app import app
from tests.paths import ROOT

FILES = ("Dockerfile", "Dockerfile.train")
#: The instructions that the files use; another one may be misspelled.
KNOWN = {"FROM", "ARG", "ENV", "WORKDIR", "RUN", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
each_file = pytest.mark.parametrize("file", FILES)


def instructions(file: str) -> list[tuple[str, str]]:
    """The instructions of a file in order, each with its text on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / file).read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, text) for line in lines if line for name, _, text in [line.partition(" ")]]


def texts(file: str, *names: str) -> list[str]:
    return [text for name, text in instructions(file) if name in names]


def stages(file: str) -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage, by its name; the last one may have none."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, text in instructions(file):
        if name == "FROM":
            found[text.partition(" AS ")[2]] = []
        found[[*found][-1]].append((name, text))
    return found


def whole(file: str, stage: str) -> list[tuple[str, str]]:
    """The instructions of a stage after those of the stages that it begins with."""
    (_, begins), *_ = own = stages(file)[stage]
    base = begins.partition(" AS ")[0]
    return [*(whole(file, base) if base in stages(file) else []), *own]


@each_file
def test_it_can_be_read_as_docker_reads_it(file: str) -> None:
    assert {name for name, _ in instructions(file)} <= KNOWN and instructions(file)[0][0] == "FROM"
    earlier: list[str] = []
    for stage, lines in stages(file).items():
        for name, text in lines:
            if name == "COPY" and text.startswith("--from="):
                assert text.split()[0].removeprefix("--from=") in earlier, text
            if name in ("ENTRYPOINT", "CMD"):
                assert all(isinstance(word, str) for word in json.loads(text))
        earlier.append(stage)


@each_file
def test_the_base_has_an_ordinary_public_name(file: str) -> None:
    assert {text.split()[0] for text in texts(file, "FROM")} - {*stages(file)} == {"python:3.11-slim"}
    hosts = re.findall(r"https?://([\w.]+)", (ROOT / file).read_text())
    assert {*hosts} <= {"download.pytorch.org", "127.0.0.1"}


@pytest.mark.parametrize(
    ("file", "stage"), [("Dockerfile", ""), ("Dockerfile.train", "cpu"), ("Dockerfile.train", "cuda")]
)
def test_it_does_not_run_as_root(file: str, stage: str) -> None:
    lines = whole(file, stage)
    (user,) = [text for name, text in lines if name == "USER"]
    assert int(user) >= 1000 and any(name == "RUN" and f"--uid {user} " in text for name, text in lines)
    assert [name for name, _ in lines].index("USER") < [name for name, _ in lines].index("ENTRYPOINT")


@pytest.mark.parametrize(("file", "folder"), [("Dockerfile", "/home/fighter"), ("Dockerfile.train", "/runs")])
def test_it_works_where_there_are_no_files_of_others(file: str, folder: str) -> None:
    assert texts(file, "WORKDIR")[-1] == folder


@each_file
def test_everything_that_is_installed_is_pinned(file: str) -> None:
    installed = re.findall(r"pip install (.+?)(?: && |$)", " && ".join(texts(file, "RUN")))
    assert len(installed) in (2, 4) and all("constraints.txt" in each or "torch.txt" in each for each in installed)
    assert any("grep '^torch==' constraints.txt > torch.txt" in text for text in texts(file, "RUN"))
    assert len(re.findall(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.M)) == 1
    given = [text.partition("EXTRAS=")[2] for text in texts(file, "ARG") if "EXTRAS=" in text]
    of_project = [each.partition("[")[2].rstrip("\"']") for each in installed if "[" in each]
    extras = {extra for each in (*given, *of_project) if "$" not in each for extra in each.split(",")}
    assert extras
    assert all(re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.M) for extra in extras)


@each_file
def test_what_is_copied_exists_and_is_not_ignored(file: str) -> None:
    sources = [word for text in texts(file, "COPY") if "--from" not in text for word in shlex.split(text)[:-1]]
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignore and {*sources} == {line[1:] for line in ignore if line.startswith("!")}
    assert all((ROOT / source).exists() for source in sources)


def test_it_serves_with_options_that_exist() -> None:
    (entrypoint,) = map(json.loads, texts("Dockerfile", "ENTRYPOINT"))
    program, command, *options = entrypoint
    assert program == "sb3-pvp"
    known = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert {*given} <= {name for each in known.params for name in each.opts}
    assert given["--host"] == "0.0.0.0" and [given["--models"]] == texts("Dockerfile", "VOLUME")
    ports = [given["--port"], given["--metrics-port"]]
    assert texts("Dockerfile", "EXPOSE") == [" ".join(ports)]
    assert f"http://127.0.0.1:{ports[1]}/health" in texts("Dockerfile", "HEALTHCHECK")[0]


def test_training_has_a_target_for_each_device_and_the_small_one_is_the_default() -> None:
    assert [*stages("Dockerfile.train")][-1] == "cpu"
    for target in ("cpu", "cuda"):
        lines = whole("Dockerfile.train", target)
        assert [text for name, text in lines if name == "ENTRYPOINT"] == ['["sb3-pvp", "train"]']
        assert [text.split()[0] for name, text in lines if name == "COPY"] == [f"--from=build-{target}"]
    of_torch = {
        target: next(text for name, text in stages("Dockerfile.train")[f"build-{target}"] if name == "RUN")
        for target in ("cpu", "cuda")
    }
    assert "--index-url" in of_torch["cpu"] and "--index-url" not in of_torch["cuda"]
    assert all("torch.txt" in text for text in of_torch.values())


@pytest.mark.parametrize("page", ["docs/load.md"])
def test_the_page_publishes_its_port_to_this_machine_only(page: str) -> None:
    commands = re.findall(r"^docker run .*$", (ROOT / page).read_text(), re.M)
    assert commands and all("-p 127.0.0.1:9999:9999" in each for each in commands)


def test_the_page_builds_the_targets_that_there_are() -> None:
    commands = re.findall(r"^docker build .*$", (ROOT / "docs/train.md").read_text(), re.M)
    targets = {match[1] for each in commands if (match := re.search(r"--target (\w+)", each))}
    assert commands and all("-f Dockerfile.train" in each for each in commands)
    assert targets and targets <= {*stages("Dockerfile.train")}
