"""The Dockerfile, as far as it can be checked without Docker."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import typer

from sb3_pvp.cli.app import app
from tests.paths import ROOT

#: Instructions in order, each with its text on one line.
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(
        r"\\\n\s*", "", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    ).splitlines()
    if line
]


def texts(*names: str) -> list[str]:
    return [text for name, text in INSTRUCTIONS if name in names]


def last_stage() -> list[tuple[str, ...]]:
    start = max(number for number, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM")
    return INSTRUCTIONS[start:]


def test_the_base_has_an_ordinary_public_name() -> None:
    assert {text.split()[0] for text in texts("FROM")} == {"python:3.11-slim"}


def test_it_does_not_run_as_root() -> None:
    stage = last_stage()
    (user,) = [text for name, text in stage if name == "USER"]
    assert int(user) >= 1000 and any(name == "RUN" and f"--uid {user} " in text for name, text in stage)
    assert [name for name, _ in stage].index("USER") < [name for name, _ in stage].index("ENTRYPOINT")


def test_it_works_where_there_are_no_files_of_others() -> None:
    (folder,) = [text for name, text in last_stage() if name == "WORKDIR"]
    assert folder not in ("/", "/models")


def test_everything_that_is_installed_is_pinned() -> None:
    installed = re.findall(r"pip install (.+?)(?: && |$)", " && ".join(texts("RUN")))
    assert len(installed) == 2 and all("constraints.txt" in each or "torch.txt" in each for each in installed)
    assert "grep '^torch==' constraints.txt > torch.txt" in texts("RUN")[1]
    assert len(re.findall(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.M)) == 1
    extras = shlex.split(installed[1])[-1].partition("[")[2].rstrip("]").split(",")
    assert all(re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.M) for extra in extras)


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    sources = [word for text in texts("COPY") if "--from" not in text for word in shlex.split(text)[:-1]]
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignore and {*sources} == {line[1:] for line in ignore if line.startswith("!")}
    assert all((ROOT / source).exists() for source in sources)


def test_it_serves_with_options_that_exist() -> None:
    (entrypoint,) = map(json.loads, texts("ENTRYPOINT"))
    program, command, *options = entrypoint
    assert program == "sb3-pvp"
    known = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert {*given} <= {name for each in known.params for name in each.opts}
    assert given["--host"] == "0.0.0.0" and [given["--models"]] == texts("VOLUME")
    ports = [given["--port"], given["--metrics-port"]]
    assert texts("EXPOSE") == [" ".join(ports)]
    assert f"http://127.0.0.1:{ports[1]}/health" in texts("HEALTHCHECK")[0]


@pytest.mark.parametrize("page", ["docs/load.md"])
def test_the_page_publishes_its_port_to_this_machine_only(page: str) -> None:
    commands = re.findall(r"^docker run .*$", (ROOT / page).read_text(), re.M)
    assert commands and all("-p 127.0.0.1:9999:9999" in each for each in commands)
