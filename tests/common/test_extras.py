"""What an extra installs may be missing: then one line says which, and everything else works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sb3_pvp.common.errors import MissingExtra, Refusal, extra
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: What bare installs lack, by the names of modules.
OPTIONAL = (
    "rl_zoo3 huggingface_sb3 optuna wandb tensorboard huggingface_hub sqlalchemy pandas matplotlib openskill tqdm"
)


def without(modules: str, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code where these modules cannot be imported."""
    absent = f"import sys\nfor name in {modules.split()!r}: sys.modules[name] = None\n"
    return subprocess.run(
        [sys.executable, "-c", absent + code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    ("module", "command", "line"),
    [
        (
            "rl_zoo3",
            "train --algo maskable_ppo --env NhEnv",
            'train and enjoy need rl_zoo3: pip install "sb3-pvp[zoo]"',
        ),
        # The slow ones import much before they find out.
        pytest.param("rl_zoo3", "runs", 'saved runs need rl_zoo3: pip install "sb3-pvp[zoo]"', marks=pytest.mark.slow),
        ("optuna", "sweep best sweep.log", 'sweeps need optuna: pip install "sb3-pvp[sweeps]"'),
        ("sqlalchemy", "league show league", 'leagues need sqlalchemy: pip install "sb3-pvp[rate]"'),
        ("openskill", "league show league", 'ratings need openskill: pip install "sb3-pvp[rate]"'),
        ("matplotlib", "plot run", 'curves need matplotlib: pip install "sb3-pvp[plots]"'),
        pytest.param(
            "matplotlib",
            "exploit fast",
            'pictures need matplotlib: pip install "sb3-pvp[plots]"',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "huggingface_hub",
            "push fast me/fast",
            'push and pull need huggingface_hub: pip install "sb3-pvp[hub]"',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "sqlalchemy",
            "arena serve arena",
            'arenas need sqlalchemy: pip install "sb3-pvp[arena]"',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "psycopg",
            "arena init arena --store postgresql://a@127.0.0.1/b",
            'PostgreSQL databases need psycopg: pip install "sb3-pvp[postgres]"',
            marks=pytest.mark.slow,
        ),
        ("PIL", "stream NhEnv --to video", 'streams need PIL: pip install "sb3-pvp[screen]"'),
        pytest.param(
            "mss",
            "stream :77 --to video",
            'streams of displays need mss: pip install "sb3-pvp[screen]"',
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "websockets",
            "stream http://x --to v",
            'streams of an arena\'s page need websockets: pip install "sb3-pvp[arena]"',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_missing_extra_is_one_line(
    module: str, command: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sb3_pvp.players.league import League

    monkeypatch.chdir(tmp_path)
    if "league" in command:
        League("league")
    done = without(module, f"from sb3_pvp.cli import main\nmain({command.split()!r})")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.rstrip().endswith(f"error: {line}")


@pytest.mark.parametrize(
    "game", ["NhEnv", *(pytest.param(game, marks=pytest.mark.slow) for game in ("SoccerTwos-v0", "ChessPvP-v0"))]
)
def test_a_viewer_that_draws_says_what_it_lacks(game: str) -> None:
    code = (
        "from sb3_pvp.game import find_game, make_world\n"
        f"world = make_world(find_game({game!r}), 'sim', num_fights=1)\n"
        "world.reset()\n"
        f"viewer = find_game({game!r}).viewer\n"
        "viewer.picture(viewer.scene(world, 0, ('a', 'b')))\n"
    )
    said = without("pygame", code).stderr.splitlines()[-1]
    assert said.endswith('MissingExtra: pictures need pygame: pip install "sb3-pvp[render]"')


@pytest.mark.slow
def test_a_bare_install_plays_fights_and_evaluates() -> None:
    code = (
        "import gymnasium as gym\n"
        "from sb3_pvp import load\n"
        "from sb3_pvp.cli import main\n"
        "env, fighter = gym.make('NhEnv'), load('generalist')\n"
        "(seen, _), over = env.reset(seed=0), False\n"
        "while not over:\n"
        "    seen, _, terminated, truncated, _ = env.step(fighter.predict(seen)[0])\n"
        "    over = terminated or truncated\n"
        "main(['evaluate', 'fast', '--episodes', '4', '--jobs', '1', '--json'])\n"
    )
    done = without(OPTIONAL, code)
    assert done.returncode == 0 and '"wins":' in done.stdout, done.stderr


def test_there_are_few_hard_dependencies_and_no_extra_that_is_named_lacks() -> None:
    assert len(PROJECT["dependencies"]) <= 14
    known, named = {*PROJECT["optional-dependencies"]}, set[str]()
    places = [
        *(ROOT / "sb3_pvp").rglob("*.py"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
        ROOT / "pyproject.toml",
    ]
    for path in places:
        text = path.read_text()
        named |= {*re.findall(r'\bextra\("(\w+)"', text)}
        named |= {each for group in re.findall(r"sb3-pvp\[([\w,]+)\]", text) for each in group.split(",")}
    assert named - known == set() and {"zoo", "sweeps", "track", "hub", "rate", "plots"} <= known


def test_only_what_others_install_is_an_extra_s_fault() -> None:
    said = r'^curves need nothing_such: pip install "sb3-pvp\[plots\]"$'
    with pytest.raises(MissingExtra, match=said) as caught, extra("plots", "curves"):
        import nothing_such.inside  # type: ignore[import-not-found]  # noqa: F401
    assert isinstance(caught.value, (Refusal, ImportError)) and caught.value.name == "nothing_such"
    with pytest.raises(ModuleNotFoundError, match=r"sb3_pvp\.nothing"), extra("plots", "curves"):
        import sb3_pvp.nothing  # type: ignore[import-not-found]  # noqa: F401
