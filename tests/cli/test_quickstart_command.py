from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from sb3_pvp.cli import main
from sb3_pvp.policies.files.shipped import default_fighter


def test_it_trains_and_compares_as_a_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What will happen, before, the curve as it grows, after, what to try next; without rl-zoo3's dictionaries."""
    folder = tmp_path / "my logs"
    with pytest.raises(SystemExit) as exit_info:
        main(["quickstart", "-n", "20000", "--episodes", "5", "--log-folder", str(folder), "--seed", "1"])
    assert exit_info.value.code == 0
    output = capsys.readouterr().out
    moments = (
        "learns from 20,000 steps",
        "\nBefore training: ",
        " 8,192 steps ",
        "\nAfter training: ",
        "\nWhat to try next:",
    )
    places = [output.find(moment) for moment in moments]
    assert places == sorted(places) and places[0] > 0, output
    assert len(re.findall(r"^ +[\d,]+ steps +\d+% won", output, re.MULTILINE)) == 3
    assert "{" not in output and "Eval num_timesteps" not in output
    next_steps = re.findall(r"^ +(sb3-pvp .*)", output[places[-1] :], re.MULTILINE)
    assert [shlex.split(each)[1] for each in next_steps] == ["evaluate", "record", "train"]
    run = folder / "maskable_ppo/NhEnv_1"
    assert next_steps[0].startswith(f"sb3-pvp evaluate '{run}/NhEnv.zip' --episodes 5 --seed 1"), "quoted for the shell"
    for moment in ("Before", "After"):
        assert re.search(rf"^{moment} training: +win rate [\d.]+% \(95 % interval ", output, re.MULTILINE)
    assert (run / "NhEnv.zip").is_file()
    assert (run / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    shipped = default_fighter("NhEnv")
    assert (shipped is not None) == (run / "fight.html").is_file() == (f"\nAgainst {shipped}: win rate" in output)


@pytest.mark.slow
def test_it_prints_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["first-fighter", "-n", "100", "--episodes", "5", "--log-folder", str(tmp_path), "--json"])
    assert exit_info.value.code == 0
    figures = json.loads(capsys.readouterr().out)
    assert Path(figures["model"]).is_file() and figures["before"]["episodes"] == figures["after"]["episodes"] == 5
