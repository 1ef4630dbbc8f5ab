"""Fighters on the hub: pushed and pulled again, and what can go wrong on the way."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml
from stable_baselines3 import PPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.cli import exchange, main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.hub import Result, make_card
from sb3_pvp.policies.files.reading import read
from tests.hub_stand_in import TOKEN, Hub, hub_stand_in  # noqa: F401  (a fixture)

REPO = "somebody/archer"
RESULT = {
    "opponent": "/home/somebody/best.zip",
    "deterministic": False,
    "game": "NhEnv",
    "start": {},
    "episodes": 200,
    "wins": 150,
    "losses": 48,
    "ties": 2,
    "broken": 0,
    "win_rate": 0.75,
    "ci95": [0.6857, 0.805],
    "mean_ticks": 61.5,
    "groups": {},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in both kinds of files, ``archer.zip`` and ``archer.fighter``."""
    folder = tmp_path_factory.mktemp("models")
    env = NhVecEnv(1, frame_ages=(0, 2), reset_params={"accountBuild": "MED"})
    model = PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, policy_kwargs={"net_arch": [8]}, seed=0)
    model.num_timesteps = 1_048_576
    model.save(folder / "archer.zip")
    export_fighter(model, folder / "archer.fighter")
    return folder


def run(*arguments: object) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    assert exit_info.value.code == 0


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Runs a command that is refused; returns its only line on stderr. Nothing may be left in the current folder."""
    capsys.readouterr()
    before = sorted(Path().iterdir())
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    assert exit_info.value.code == 2
    output = capsys.readouterr()
    assert not output.out and output.err.count("\n") == 1 and sorted(Path().iterdir()) == before
    return output.err.removeprefix("sb3-pvp: error: ").rstrip()


def files(hub: Hub, branch: str = "main") -> dict[str, bytes]:
    return hub.repositories[REPO].branches[branch]


@pytest.mark.parametrize("kind", ["zip", "fighter"])
def test_what_is_pushed_is_pulled(kind: str, models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    run("push", "--plain", models / f"archer.{kind}", REPO)
    printed = capsys.readouterr().out
    assert f"{hub.url}/{REPO}/commit/" in printed and "to get it: sb3-pvp pull somebody/archer\n" in printed
    assert files(hub).keys() == {".gitattributes", "README.md", "archer.fighter"}, "no pickle"
    assert hub.messages == ["archer.fighter after 1,048,576 steps"] and not hub.repositories[REPO].private
    run("pull", REPO)
    assert Path("archer.fighter").read_bytes() == files(hub)["archer.fighter"]
    assert Path("archer.fighter").read_bytes() == (models / "archer.fighter").read_bytes()
    assert load("archer.fighter", safe=True).num_timesteps == 1_048_576
    assert "sb3-pvp evaluate archer.fighter\n" in capsys.readouterr().out
    assert [each.name for each in Path().iterdir()] == ["archer.fighter"]


def test_a_private_repository_and_a_branch(
    models: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("push", "--plain", models / "archer.zip", REPO, "--private", "--revision", "next", "--message", "Draws faster")
    assert hub.repositories[REPO].private and hub.messages == ["Draws faster"]
    assert "archer.fighter" not in files(hub)
    run("pull", REPO, "--revision", "next", "-o", "mine/it.fighter")
    assert Path("mine/it.fighter").read_bytes() == files(hub, "next")["archer.fighter"]
    assert "no fighter, which is a file *.fighter or *.zip" in refusal(capsys, "pull", REPO)
    assert "Revision Not Found" in refusal(capsys, "pull", REPO, "--revision", "last")
    monkeypatch.delenv("HF_TOKEN")
    assert "make sure you are authenticated" in refusal(capsys, "pull", REPO, "--revision", "next")
    Path("archer.fighter").write_bytes(b"older")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    run("push", "--plain", models / "archer.zip", REPO, "--private")
    run("pull", REPO, "-o", "archer.fighter")
    assert Path("archer.fighter").read_bytes() == files(hub)["archer.fighter"]


def test_nothing_private_goes_into_a_public_repository(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(REPO, {})
    assert "exists and is public" in refusal(capsys, "push", "--plain", models / "archer.zip", REPO, "--private")
    assert files(hub) == {} and not hub.large


def test_the_card_says_what_it_is_and_how_it_fights(models: Path, hub: Hub, tmp_path: Path) -> None:
    for number, opponent in enumerate((RESULT["opponent"], "baseline")):
        (tmp_path / f"{number}.json").write_text(json.dumps(RESULT | {"opponent": opponent}))
    results = ["--results", tmp_path / "0.json", "--results", tmp_path / "1.json"]
    run("push", "--plain", models / "archer.zip", REPO, "--revision", "next", *results)
    card = files(hub, "next")["README.md"].decode()
    _, header, text = card.split("---\n", 2)
    data: Any = yaml.safe_load(header)
    assert {"stable-baselines3", "sb3-pvp", "reinforcement-learning", "NhEnv"} <= {*data["tags"]}
    assert data["library_name"] == "stable-baselines3" and data["pipeline_tag"] == "reinforcement-learning"
    (entry,) = data["model-index"]
    metrics = [metric for result in entry["results"] for metric in result["metrics"]]
    assert entry["name"] == "archer" and [metric["value"] for metric in metrics] == [0.75, 0.75]
    assert {"| Game | NhEnv |", "| Steps of training | 1,048,576 |", "| Ages of the frames in ticks | 0, 2 |"} <= {
        *text.splitlines()
    }
    assert re.search(r"\| Contract \| NhEnv, SHA-256 `[0-9a-f]{64}` \|", text)
    assert '{"accountBuild": "MED"' in unescape(text)
    assert "| best.zip | 200 | sampled | 75.0% | 68.6% to 80.5% | 62 |" in text and "| baseline | 200 |" in text
    assert "/home" not in card, "where somebody keeps their files"
    assert 'hf_hub_download("somebody/archer", "archer.fighter", revision="next")' in text


@pytest.mark.slow
def test_a_replay_a_video_and_figures_are_made_by_default(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_FIGHTS", 4)
    run("push", models / "archer.zip", REPO)
    found, lacking = files(hub), "" if shutil.which("ffmpeg") else "videos need ffmpeg"
    assert found.keys() - {"replay.mp4"} == {".gitattributes", "README.md", "archer.fighter", "replay.html"}
    assert b"archer" in found["replay.html"] and lacking in capsys.readouterr().err
    if not lacking:
        assert found["replay.mp4"][4:8] == b"ftyp"
    _, header, text = found["README.md"].decode().split("---\n", 2)
    (metric,) = yaml.safe_load(header)["model-index"][0]["results"][0]["metrics"]
    assert (metric["type"], metric["name"]) == ("win_rate", "win rate against baseline") and 0 <= metric["value"] <= 1
    assert "| baseline | 4 | most likely |" in text and "`replay.html` is a fight of it against itself" in text


def test_the_code_on_the_card_runs(models: Path, hub: Hub) -> None:
    run("push", "--plain", models / "archer.zip", REPO)
    (block,) = re.findall(r"```python\n(.*?)```", files(hub)["README.md"].decode(), re.DOTALL)
    env = NhVecEnv(1, frame_ages=(0, 2))
    observation = {key: value[0] for key, value in env.reset().items()}  # type: ignore[union-attr]
    names: dict[str, Any] = {"observation": observation, "mask": env.action_masks()[0]}
    assert len(block.strip().splitlines()) <= 5
    exec(block, names)
    assert names["action"].shape == (12,)


def test_results_of_something_else(models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    push = ["push", "--plain", models / "archer.zip", REPO, "--results"]
    Path("no.json").write_text('{"win_rate": 2}')
    assert "is not the output of sb3-pvp evaluate --json" in refusal(capsys, *push, "no.json")
    Path("other.json").write_text(json.dumps(RESULT | {"game": "DharokEnv"}))
    assert "is of fights in DharokEnv, but the fighter is for NhEnv" in refusal(capsys, *push, "other.json")
    assert "missing.json" in refusal(capsys, *push, "missing.json")
    assert not hub.repositories


def test_a_zip_is_taken_where_there_is_no_fighter_file(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    """As rl-zoo3's own push leaves it."""
    content = (models / "archer.zip").read_bytes()
    hub.add(REPO, {"maskable_ppo-NhEnv.zip": content, "train_eval_metrics.zip": b"PK", "maskable_ppo-NhEnv/data": b""})
    run("pull", REPO)
    assert Path("maskable_ppo-NhEnv.zip").read_bytes() == content
    printed = capsys.readouterr().out
    assert "sb3-pvp evaluate maskable_ppo-NhEnv.zip --safe\n" in printed and "only if you trust its author" in printed


def test_the_fighter_file_is_preferred_to_zips_and_one_of_several_is_chosen(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    fighter, archive = ((models / f"archer.{kind}").read_bytes() for kind in ("fighter", "zip"))
    hub.add(REPO, {"a.zip": archive, "b.fighter": fighter})
    run("pull", REPO, "-o", "it.fighter")
    assert Path("it.fighter").read_bytes() == fighter
    assert "must end in .fighter" in refusal(capsys, "pull", REPO, "-o", "other.zip")
    hub.add(REPO, {"a.fighter": fighter, "b.fighter": fighter, "c.zip": archive})
    assert refusal(capsys, "pull", REPO).endswith("choose one with --file: a.fighter, b.fighter")
    run("pull", REPO, "--file", "c.zip")
    assert Path("c.zip").read_bytes() == archive
    assert "has no fighter d.zip" in refusal(capsys, "pull", REPO, "--file", "d.zip")


def test_a_fighter_in_a_folder_is_taken_if_it_is_named(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    fighter = (models / "archer.fighter").read_bytes()
    hub.add(REPO, {"deep/dir/x.fighter": fighter, "deep/../y.fighter": fighter, "deep/.z/x.fighter": fighter})
    assert "has a fighter in a folder, choose one with --file: deep/dir/x.fighter" in refusal(capsys, "pull", REPO)
    run("pull", REPO, "--file", "deep/dir/x.fighter")
    assert [each.name for each in Path().iterdir()] == ["x.fighter"] and Path("x.fighter").read_bytes() == fighter
    assert "x.fighter is deep/dir/x.fighter of somebody/archer" in capsys.readouterr().out
    assert "to replace it, add -o x.fighter" in refusal(capsys, "pull", REPO, "--file", "deep/dir/x.fighter")
    for name in ("deep/../y.fighter", "deep/.z/x.fighter"):
        assert f"no fighter {name}" in refusal(capsys, "pull", REPO, f"--file={name}")


def test_no_command_is_recommended_that_would_refuse_what_was_pulled(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    content = BytesIO()
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu").save(content)
    hub.add(REPO, {"stock.zip": content.getvalue()})
    run("pull", REPO)
    printed = capsys.readouterr().out
    assert "sb3-pvp evaluate stock.zip\n" in printed and "sb3_pvp.load('stock.zip')\n" in printed
    assert printed.endswith("\nloading this zip unpickles parts of it: do that only if you trust its author\n")
    with pytest.raises(ValueError, match="pickled"):
        load("stock.zip", safe=True)


ODD = (
    "x;touch PWNED;.fighter",
    "$(id).fighter",
    "-o.fighter",
    "a b.fighter",
    "a\\b.fighter",
    ".bashrc.fighter",
    "`id`.zip",
)


def test_names_that_a_shell_would_run_are_no_fighters(
    models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    content = (models / "archer.fighter").read_bytes()
    hub.add(REPO, dict.fromkeys(ODD, content))
    assert "no fighter, which is a file *.fighter or *.zip with a plain name" in refusal(capsys, "pull", REPO)
    for name in ODD:
        assert f"no fighter {name}" in refusal(capsys, "pull", REPO, f"--file={name}")
    hub.add(REPO, {"archer.fighter": content})
    run("pull", REPO, "-o", "it is;mine.fighter")
    (line,) = (each for each in capsys.readouterr().out.splitlines() if "evaluate" in each)
    assert shlex.split(line.partition(": ")[2]) == ["sb3-pvp", "evaluate", "it is;mine.fighter"]
    assert "is no name for a file on the hub" in refusal(capsys, "push", "--plain", "it is;mine.fighter", REPO)


def test_a_repository_chooses_no_file_to_replace(models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add(REPO, {"mine.fighter": (models / "archer.fighter").read_bytes()})
    Path("mine.fighter").write_text("trained for a month")
    assert refusal(capsys, "pull", REPO).endswith("to replace it, add -o mine.fighter")
    assert Path("mine.fighter").read_text() == "trained for a month"


def test_any_number_of_names_is_a_short_error(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add(REPO, {f"fighter-{number}.fighter": b"" for number in range(5_000)})
    message = refusal(capsys, "pull", REPO)
    assert message.endswith(" and 4,990 more") and len(message) < 500


def test_what_a_hub_should_never_answer_is_one_line(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer in ([], {}, {"siblings": 3}, {"siblings": [{"rfilename": []}]}, {"sha": 1, "siblings": [{}]}):
        monkeypatch.setattr("tests.hub_stand_in._Request._answer", wrong(answer))
        hub.add(REPO, {})
        assert refusal(capsys, "pull", REPO)


def wrong(answer: Any) -> Any:
    def send(request: Any, *_: object) -> None:
        request._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    return send


BAD = "</td><script>alert(1)</script>|[x](javascript:a)`\n\n# hi\n---\n![](http://evil)"


def test_names_on_a_card_are_only_text(models: Path) -> None:
    about = read(models / "archer.fighter").description
    assert about.contract is not None
    contract = about.contract.model_copy(update={"name": BAD, "sha256": BAD})
    about = about.model_copy(update={"game": BAD, "contract": contract, "reset_params": {BAD: BAD}})
    result = Result.model_validate(RESULT | {"opponent": BAD, "game": BAD})
    card = str(make_card(REPO, None, "archer.fighter", about, [result]))
    _, header, text = card.split("---\n", 2)
    plain = " ".join(BAD.split())
    (found,) = yaml.safe_load(header)["model-index"][0]["results"]
    assert found["dataset"]["type"] == plain
    assert [each for each in ("<script", "[x]", "![](", "javascript:", "http://", "\n# hi") if each in text] == []
    assert f"| Game | {plain} |" in unescape(text)
    assert all(line.count("|") in (0, 3, 7) for line in text.splitlines())


class _Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("unpickled",)


def test_nothing_that_is_pulled_is_unpickled(models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    bomb = pickle.dumps(_Bomb())
    with ZipFile("evil.zip", "w") as evil, ZipFile(models / "archer.zip") as good:
        for name in good.namelist():
            evil.writestr(name, good.read(name) if name != "data" else armed(good.read(name), bomb))
    content = Path("evil.zip").read_bytes()
    Path("evil.zip").unlink()
    hub.add(REPO, {"evil.zip": content})
    run("pull", REPO)
    assert Path("evil.zip").read_bytes() == content and not Path("unpickled").exists()
    with pytest.raises(ValueError):
        load("evil.zip")
    assert Path("unpickled").is_dir(), "it would have run"
    hub.add(REPO, {"evil.fighter": bomb})
    Path("unpickled").rmdir()
    assert refusal(capsys, "pull", REPO).startswith("evil.fighter of somebody/archer ")
    assert not Path("unpickled").exists()


def armed(data: bytes, bomb: bytes) -> str:
    """SB3's data of a model, with a pickle for the class of its policy."""
    values = json.loads(data)
    values["policy_class"][":serialized:"] = base64.b64encode(bomb).decode()
    return json.dumps(values)


@pytest.mark.parametrize("kind", ["zip", "fighter"])
def test_a_damaged_file_is_not_kept(kind: str, models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((models / f"archer.{kind}").read_bytes())
    content[len(content) // 2] ^= 1
    hub.add(REPO, {f"archer.{kind}": bytes(content)})
    Path(f"archer.{kind}").write_text("the one from before")
    pull = ["pull", REPO, "-o", f"archer.{kind}"]
    message = refusal(capsys, *pull)
    assert message.startswith(f"archer.{kind} of somebody/archer ") and "damaged" in message
    assert Path(f"archer.{kind}").read_text() == "the one from before"
    hub.add(REPO, {f"archer.{kind}": b"not even a zip"})
    assert refusal(capsys, *pull).startswith(f"archer.{kind} of somebody/archer ")


def test_a_download_that_breaks_off_is_continued(models: Path, hub: Hub) -> None:
    hub.add(REPO, {"archer.fighter": (models / "archer.fighter").read_bytes()})
    hub.cut = 1000
    run("pull", REPO)
    assert Path("archer.fighter").read_bytes() == (models / "archer.fighter").read_bytes()


def test_a_download_that_stays_too_short(models: Path, hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add(REPO, {"archer.fighter": (models / "archer.fighter").read_bytes()})
    hub.shortened = 1000
    assert refusal(capsys, "pull", REPO).startswith(f"the hub at {hub.url}: Consistency check failed")


def test_a_hub_that_refuses(
    models: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    push = ["push", "--plain", models / "archer.fighter", REPO]
    hub.failing["/create"] = 500
    assert refusal(capsys, *push).startswith(f"the hub at {hub.url}: Server error '500")
    hub.failing = {"/commit/": 403}
    assert "Make sure your token has the correct permissions" in refusal(capsys, *push)
    hub.failing = {"/api/models/": 500}
    assert refusal(capsys, "pull", REPO).endswith("the stand-in fails as told")
    hub.failing = {}
    monkeypatch.setenv("HF_TOKEN", "hf_somebody_else")
    assert "Invalid username or password" in refusal(capsys, *push[:-1], "somebody/other")
    assert "Repository Not Found" in refusal(capsys, "pull", "somebody/other")
    monkeypatch.delenv("HF_TOKEN")
    assert refusal(capsys, *push).startswith("pushing needs a token")
    assert "'some/body/else'" in refusal(capsys, "pull", "some/body/else")


def test_a_hub_that_cannot_be_reached(
    models: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    for command in (["pull", REPO], ["push", models / "archer.fighter", REPO]):
        assert refusal(capsys, *command).startswith("the hub at http://127.0.0.1:1: ")


def test_a_model_that_is_not_there(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "push", "--plain", "nowhere.zip", REPO) == "There is no model file nowhere.zip"
    assert not hub.repositories


@pytest.mark.slow
def test_the_address_of_the_hub_comes_from_the_environment(models: Path, hub: Hub, tmp_path: Path) -> None:
    hub.add(REPO, {"archer.fighter": (models / "archer.fighter").read_bytes()})
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": ""}
    done = subprocess.run(
        [sys.executable, "-m", "sb3_pvp.cli", "pull", REPO], env={**os.environ, **own}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "archer.fighter").read_bytes() == (models / "archer.fighter").read_bytes()
