from __future__ import annotations

import gzip
import json
import resource
from pathlib import Path

import pytest

from sb3_pvp.matches.replay import load_fight
from sb3_pvp.matches.replay.page import events_of, replay_page
from tests.paths import DATA

FOLDER = DATA / "recordings"
SELF_PLAY = FOLDER / "selfplay-04-core_random1.jsonl.gz"


@pytest.mark.parametrize(
    ("name", "contract", "outcomes"),
    [
        ("selfplay-04-core_random1", "NhEnv", ("won", "lost")),
        ("baseline-07-core_random1", "NhEnv", ("lost", "won")),
        ("dharok/selfplay-04", "DharokEnv", ("lost", "won")),
        ("dharok/baseline-10", "DharokEnv", ("won", "lost")),
    ],
)
def test_fights_on_the_reference_server_can_be_shown(name: str, contract: str, outcomes: tuple[str, str]) -> None:
    recording = load_fight(FOLDER / f"{name}.jsonl.gz")
    assert (recording.contract, recording.outcomes) == (contract, outcomes)
    ticks = [moment.scene.tick for moment in recording.moments]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    loser = recording.moments[-1].scene.fighters[outcomes.index("lost")]
    assert loser.hitpoints == 0
    assert recording.moments[5].decisions[0] is not None
    attackers = {event["seat"] for event in events_of(recording) if event.get("style")}
    assert attackers == {0, 1}
    assert "</html>" in replay_page(recording)


def test_both_sides_of_a_fight_agree(tmp_path: Path) -> None:
    """The second agent is left out: the first one's replies have the same facts about it as its own replies."""
    both = load_fight(SELF_PLAY)
    entries = map(json.loads, gzip.decompress(SELF_PLAY.read_bytes()).splitlines())
    kept = [entry for entry in entries if entry.get("conn") in (None, both.players[0].name)]
    path = tmp_path / "alone.jsonl"
    path.write_text("\n".join(map(json.dumps, kept)))
    alone = load_fight(path)
    assert [player.kind for player in alone.players] == ["agent", "bot"]
    for moment, seen in zip(both.moments, alone.moments[-len(both.moments) :], strict=True):
        sent, mirrored = moment.scene.fighters[1], seen.scene.fighters[1]
        assert (sent.attack, sent.hitpoints, sent.food) == (
            mirrored.attack,
            mirrored.hitpoints,
            mirrored.food,
        )
        assert moment.decisions[0] == seen.decisions[0] and seen.decisions[1] is None


def test_one_of_several_fights() -> None:
    path = FOLDER / "baseline-multi-episode-one-connection.jsonl.gz"
    first, second = (load_fight(path, fight) for fight in (0, 1))
    assert first.moments != second.moments
    with pytest.raises(ValueError, match="none with the number 99"):
        load_fight(path, 99)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no agent logs in"),
        ("[]\n", "no agent logs in"),
        ("{", "cannot be shown as a recording"),
        ('{"dir": ">", "conn": "1"}', "cannot be shown as a recording"),
        ('{"dir": ">", "conn": "1", "seq": 1, "line": "{\\"action\\": \\"step\\"}"}', "cannot be shown as a recording"),
        ('{"dir": ">", "conn": "1", "seq": 1, "line": "[]"}', "cannot be shown as a recording"),
    ],
)
def test_other_files_are_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_fight(path)
    hidden = FOLDER / "baseline-13-zerker_no_target_env_not_training.jsonl.gz"
    with pytest.raises(ValueError, match="the replies lack the opponent's view"):
        load_fight(hidden)


def entry(action: str, body: object, direction: str = ">", sequence: int = 1) -> str:
    line = json.dumps({"action": action, "body": body})
    return json.dumps({"dir": direction, "conn": "1", "seq": sequence, "line": line}) + "\n"


@pytest.mark.parametrize("agent_type", ["/dev/zero", "secret.json", "../secret.json", None, 7, {"a": 1}])
def test_the_type_of_an_agent_is_never_opened_as_a_file(agent_type: object, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"password": "hunter2"}')
    path = tmp_path / "recording.jsonl"
    path.write_text(entry("login", {"agentType": agent_type}))
    with pytest.raises(ValueError, match="agentType must be NhEnv or DharokEnv") as refused:
        load_fight(path)
    assert "hunter2" not in str(refused.value)


def test_a_line_that_unpacks_to_gigabytes_is_not_read(tmp_path: Path) -> None:
    """Three megabytes of zeros would be a line of three gigabytes; the reader stops after two megabytes."""
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 26)) * 48)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="lines over 2097152 bytes"):
        load_fight(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10  # kilobytes


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_nesting_is_refused_in_one_line(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    nested = '{"action": "login", "body": ' + "[" * depth + "]" * depth + "}"
    path.write_text(json.dumps({"dir": ">", "conn": "1", "seq": 1, "line": nested}) + "\n" + "[" * depth + "\n")
    with pytest.raises(ValueError, match="cannot be shown as a recording"):
        load_fight(path)
