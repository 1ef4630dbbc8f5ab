"""README.md and docs: their Python runs, their commands and options exist, their links resolve."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from stable_baselines3.common.logger import configure

from docs import commands_page, examples_page, fighters_page, presets_page
from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.games.osrs.remote import serve
from sb3_pvp.matches.replay import load_fight, record_fight, save_fight, write_replay_page
from sb3_pvp.players.league import League
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.fighter_files import export_fighter
from tests.games.osrs.remote.served import in_thread
from tests.paths import ROOT
from tests.policies.export.hostile_graphs import READING, SECRET, with_graphs
from tests.serving.served import serving

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]}
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<reason>.+) -->\n+)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
#: The first line of a block that is a file or continues one.
_FILE = re.compile(r"# (\w+\.py)(?:, continued)?\n")
#: Smaller sizes for the tests, as replacements in the code of a page.
_SMALLER = [
    (r"(?<=\.learn\()[\d_]+", "1"),  # which is one rollout
    (r"(?<=NhVecEnv\()\d+", "8"),
    (r"(?<=n_steps=)128", "16"),
    (r"(?<=batch_size=)1024", "32"),
    (r"(?<=episodes=)200", "16"),
    (r"(?<=num_fights=)1024", "4"),
    (r"(?<=continuations=)64", "4"),
]


def blocks(page: Path, language: str) -> Iterator[re.Match[str]]:
    return (each for each in _BLOCK.finditer(page.read_text(encoding="utf-8")) if each["language"] == language)


def runnable(page: Path) -> list[str]:
    """The Python blocks of a page, except those marked by an invisible ``<!-- not run: REASON -->``."""
    return [block["text"] for block in blocks(page, "python") if not block["reason"]]


@pytest.fixture(scope="module")
def fighter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in both kinds of files, ``fighter.zip`` and ``fighter.fighter``."""
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, policy_kwargs={"net_arch": [8]})
    model.learn(2)  # also compiles the rules
    folder = tmp_path_factory.mktemp("fighter")
    model.save(folder / "fighter.zip")
    export_fighter(model, folder / "fighter.fighter")
    return folder


@pytest.fixture(scope="module")
def port(fighter: Path) -> Iterator[int]:
    """A server of the wire protocol. It needs `fighter`, which compiles the rules, to be fast enough for clients."""
    with in_thread(lambda on_listening: serve(port=0, on_listening=on_listening)) as port:
        yield port


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Changes to an empty folder; afterwards modules imported from it, and what was registered, are removed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("gymnasium.registry", dict(gymnasium.registry))
    monkeypatch.setattr("sb3_pvp.policies.files.registry._registered", {})
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def run(page: Path, names: dict[str, Any], *changes: tuple[str, str]) -> dict[str, Any]:
    """Writes the files of a page, then runs its other blocks in order; returns the resulting namespace."""
    code = runnable(page)
    for block in code:
        if (named := _FILE.match(block)) is not None:
            with Path(named[1]).open("a", encoding="utf-8") as file:
                file.write(block)
    for block in code:
        if _FILE.match(block) is None:
            for pattern, smaller in (*changes, *_SMALLER):
                block = re.sub(pattern, smaller, block)
            exec(compile(block, str(page), "exec"), names)
    return names


#: Pages whose code runs for many seconds.
LONG = ("docs/exploitability.md", "docs/mapoca.md", "docs/remote.md", "docs/search.md")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG else name
        for name in sorted(name for name, page in PAGES.items() if runnable(page))
    ],
)
def test_all_python_of_a_page_runs(
    name: str, place: Path, fighter: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    code = "".join(runnable(PAGES[name]))
    shutil.copytree(fighter, place, dirs_exist_ok=True)
    if name == "docs/own-game.md":
        follow_the_page_about_own_games(place, capsys)
        return
    if "Client(port=" in code:
        with serving(place) as server:
            run(PAGES[name], {"__name__": "__main__"}, (r"(?<=port=)9999", str(server.port)))
        return
    port = request.getfixturevalue("port") if "localhost:" in code else 0
    run(PAGES[name], {"__name__": "__main__"}, (r"(?<=localhost:)7070", str(port)))


def test_the_graph_needs_neither_this_package_nor_torch(fighter: Path) -> None:
    (block,) = (block for block in runnable(DOCS / "load.md") if "onnxruntime" in block)
    prepared = "import sys; sys.modules |= {'sb3_pvp': None, 'torch': None}; import numpy; mask = numpy.ones(45, bool)"
    shown = "print(action.shape, probability.shape)"
    done = subprocess.run(
        [sys.executable, "-c", f"{prepared}\n{block}\n{shown}"], cwd=fighter, capture_output=True, text=True
    )
    assert done.stdout == "(1, 12) (1, 45)\n", done.stderr


def test_no_page_opens_a_graph_that_reads_other_files(fighter: Path, place: Path) -> None:
    (place / SECRET).write_bytes(b"sixteen letters!")
    opening = [block for page in PAGES.values() for block in runnable(page) if "InferenceSession(" in block]
    assert len(opening) == 2
    for block, graph in product(opening, READING.values()):
        with_graphs(fighter / "fighter.fighter", graph, place / "fighter.fighter")
        with pytest.raises(ValueError, match="would read other files"):
            exec(compile(block, "page", "exec"), {"np": np, "mask": np.ones(45, bool)})


def test_the_fight_on_the_wire_is_one(port: int) -> None:
    (block,) = blocks(DOCS / "wire.md", "text")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, connection.makefile("rw") as line:
        for exchange in block["text"].split("> ")[1:]:
            request, _, reply = exchange.replace("\n   ", " ").partition("\n< ")
            line.write(f"{request}\n")
            line.flush()
            answer, shown = json.loads(line.readline()), json.loads(reply)
            assert answer.keys() == shown.keys()
            assert answer.get("body", {}).keys() == shown.get("body", {}).keys()


def follow_the_page_about_own_games(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its code runs unchanged, except for fewer steps, and does what the page says."""
    log = {"logger": configure(str(place / "log"), ["json"])}
    after = run(DOCS / "own-game.md", log, (r"model\.learn\(60_000", "model.set_logger(logger)\nmodel.learn( 8_192"))
    assert len([line for line in (place / "standoff.py").read_text().splitlines() if line]) <= 100
    assert capsys.readouterr().out.startswith("learner *")
    shapes = {key: space.shape for key, space in after["observation"].items()}
    assert shapes == {"observation": (1, 3), "privileged": (1, 1), "action_mask": (6,)}
    assert len(League.existing(place / "runs/standoff/league").players()) == 1
    *_, logged = map(json.loads, (place / "log" / "progress.json").read_text().splitlines())
    assert 0 < logged["standoff/shots"] < 1 and logged["rewards/shot_total"] < 0
    assert logged["rollout/elo/latest"] > 0
    save_fight(record_fight("runs/standoff/model.zip", "coward"), "fight.json.gz")
    write_replay_page(load_fight("fight.json.gz", game="standoff:Standoff"), "fight.html")
    assert "scene.bullets.join" in (place / "fight.html").read_text()


def test_few_blocks_are_not_run() -> None:
    reasons = [each["reason"] for page in PAGES.values() for each in blocks(page, "python") if each["reason"]]
    assert len(reasons) <= 3 and all(len(reason) > 10 for reason in reasons)


@pytest.mark.parametrize("name", sorted(name for name, page in PAGES.items() if [*blocks(page, "yaml")]))
def test_yaml_can_be_read(name: str) -> None:
    assert all(yaml.safe_load(block["text"]) for block in blocks(PAGES[name], "yaml"))


@pytest.mark.parametrize("name", sorted(name for name, page in PAGES.items() if [*blocks(page, "sh")]))
def test_commands_and_their_options_exist(name: str) -> None:
    """Options of train and enjoy are rl-zoo3's and not checked."""
    _, *sections = re.split(r"^##+ sb3-pvp ", (DOCS / "commands.md").read_text(encoding="utf-8"), flags=re.M)
    known = {section.partition("\n")[0]: section for section in sections}
    for block in blocks(PAGES[name], "sh"):
        for line in block["text"].replace("\\\n", " ").splitlines():
            for part in line.partition(" #")[0].split("&&"):
                _, _, rest = part.partition("sb3-pvp ")
                words = shlex.split(rest)
                if not words or words[0].startswith("-"):
                    continue
                command = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
                assert command in known, line
                if command in ("train", "enjoy"):
                    continue
                options = words[: words.index("--")] if "--" in words else words
                for option in (word for word in options if word.startswith("-")):
                    assert f"`{option}`" in known[command], f"{option} in: {line}"


@pytest.mark.parametrize("name", PAGES)
def test_links_and_files_are_there(name: str) -> None:
    """`make site` also checks the anchors of links between pages."""
    page = PAGES[name]
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("https://", "#")):
            assert (page.parent / target.partition("#")[0]).is_file() or page.parent == ROOT, target
    for path in re.findall(r"`((?:sb3_pvp|examples|tests|scripts|hyperparams|docs)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r'" = "([\w/-]+\.md)" }', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_code_that_rules_name_is_there() -> None:
    named = re.findall(r"rules\.md#sb3_pvp\.games\.osrs\.sim\.(\w+)\.(\w+)\)", (DOCS / "fight.md").read_text())
    shown = (DOCS / "reference" / "rules.md").read_text()
    assert len(named) > 80
    for module, function in named:
        source = (ROOT / "sb3_pvp" / "games" / "osrs" / "sim" / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^def {function}\(", source, re.M), f"{module}.{function}"
        assert f"::: sb3_pvp.games.osrs.sim.{module}\n" in shown, module


def test_citations_in_docstrings_become_links_between_sources() -> None:
    """Zensical does not check links in raw HTML, so `make site` would not notice a wrong path."""
    pytest.importorskip("griffe")  # only with the extra `site`
    from docs import cross_references

    found = cross_references._CITATION.search("see mechanics.md §4.2")
    assert found is not None
    link = re.search(r'href="([^"#]+)#([^"]+)"', cross_references._citation(found))
    assert link is not None and (DOCS / "reference" / link[1]).is_file()
    assert link[2] in cross_references._anchors("mechanics").values()


def test_pages_that_are_made_from_data_are_up_to_date() -> None:
    for made in (commands_page, examples_page, fighters_page, presets_page):
        page = DOCS / f"{made.__name__.partition('.')[2].removesuffix('_page')}.md"
        assert page.read_text(encoding="utf-8") == made.render_page() + "\n", "run `make docs`"
