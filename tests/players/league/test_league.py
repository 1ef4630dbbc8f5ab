from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matches import match

from sb3_pvp.players.league import League, Player, Prioritised, Uniform, check_anchors
from sb3_pvp.players.league.leaderboard import COLUMNS, FORMATS
from sb3_pvp.players.league.league import ABSENT, DIFFERENT, IDENTICAL

BOT = Player("baseline")
SNAPSHOTS = [Player("main", step) for step in (0, 64, 640)]


def filled(folder: Path) -> League:
    league = League(folder, Prioritised())
    for player in reversed(SNAPSHOTS):
        league.add(player, lambda path, player=player: path.write_text(str(player)))
    for player in league.players():
        league.match_maker.add(player)  # type: ignore[union-attr]
    return league


def test_models_are_listed_by_age_and_found_again(tmp_path: Path) -> None:
    league = filled(tmp_path)
    assert league.players() == SNAPSHOTS == list(league.match_maker.players)  # type: ignore[union-attr]
    path = league.path(SNAPSHOTS[1])
    assert path.name == "main_64_steps.zip" and path.read_text() == "main@64"
    assert league.opponent(SNAPSHOTS[1]) == str(path)
    assert league.opponent(BOT) == "baseline"
    (league.path(BOT).parent / "champion_9_steps.zip").write_text("dropped in by hand")
    assert Player("champion", 9) in league.players()


def test_a_model_appears_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    league = League(tmp_path)

    def half(path: Path) -> None:
        path.write_text("half")
        assert league.players() == []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        league.add(SNAPSHOTS[0], half)
    assert list((tmp_path / "players").iterdir()) == []


def test_a_player_never_changes(tmp_path: Path) -> None:
    league = filled(tmp_path)
    assert league.add(SNAPSHOTS[0], lambda path: path.write_text("another")).read_text() == "main@0"


def test_files_with_other_names_are_left_out_with_a_warning(tmp_path: Path) -> None:
    league = filled(tmp_path)
    for name in ("my best one", "main_007_steps"):
        path = tmp_path / "players" / f"{name}.zip"
        path.write_text("")
        with pytest.warns(UserWarning, match=name):
            assert league.players() == SNAPSHOTS
        path.unlink()


def test_players_whose_model_is_gone_leave_when_they_are_chosen(tmp_path: Path) -> None:
    league, rng = filled(tmp_path), np.random.default_rng(0)
    league.match_maker.add(BOT)  # type: ignore[union-attr]
    for player in SNAPSHOTS[:2]:
        league.path(player).unlink()
    with pytest.warns(UserWarning, match="main@.* leaves the league"):
        chosen = {league.choose(rng) for _ in range(50)}
    assert chosen == {BOT, SNAPSHOTS[2]} == set(league.match_maker.players)  # type: ignore[union-attr]


def test_versions_of_fighters_that_ship_are_no_snapshots(tmp_path: Path) -> None:
    league, version, later = filled(tmp_path), Player("generalist", 1), Player("generalist", 999)
    for player in (version, later):
        league.match_maker.add(player)  # type: ignore[union-attr]
    with pytest.warns(UserWarning, match="generalist@999 leaves the league"):
        assert version in {league.choose(np.random.default_rng(seed)) for seed in range(200)}
    league.log.append([match(version, BOT, key="1"), match(later, BOT, key="2")])
    shown = {line.player for line in league.leaderboard(rollouts=False)}
    assert "generalist@1" in shown and "generalist@999" not in shown


def test_the_match_maker_resumes_from_its_saved_state(tmp_path: Path) -> None:
    league = filled(tmp_path)
    league.match_maker.record(SNAPSHOTS[0], "won")  # type: ignore[union-attr]
    league.save()
    maker = Prioritised()
    assert League(tmp_path, maker).choose(np.random.default_rng(0)) in SNAPSHOTS
    assert maker.get_state() == league.match_maker.get_state()  # type: ignore[union-attr]
    League(tmp_path, anchors={BOT: 1500})  # opened without a match maker: its state must not change
    again = Prioritised()
    assert League(tmp_path, again).anchors == {BOT: 1500}
    assert again.get_state() == maker.get_state()
    with pytest.raises(ValueError, match="prioritised"):
        League(tmp_path, Uniform())


def test_ratings_are_kept_and_recomputed(tmp_path: Path) -> None:
    league = filled(tmp_path)
    league.log.append([match(SNAPSHOTS[1], SNAPSHOTS[0], key="1"), match(SNAPSHOTS[1], BOT, "desync", "2")])
    league.save_ratings()
    other = League.existing(tmp_path)
    other.log.append([match(SNAPSHOTS[2], SNAPSHOTS[1], key="3")])
    assert other.ratings().position == league.ratings().position == 3
    assert other.recompute() == IDENTICAL
    assert other.ratings().get_state() == league.ratings().get_state()
    # The file is only a cache: a wrong one is found out, a broken one is no harm.
    cache = json.loads((tmp_path / "ratings.json").read_text())
    (tmp_path / "ratings.json").write_text(json.dumps({**cache, "elo": {"main@64": 9000.0}}))
    assert League.existing(tmp_path).recompute() == DIFFERENT
    assert League.existing(tmp_path).recompute() == IDENTICAL
    others: list[dict[str, Any]] = [
        {"last_key": "other log"},
        {"position": 9},
        {"anchors": {"baseline": 1000.0}},
        {"position": 1},
        {"position": "x"},
        {"position": {"a": 1}},
        {"position": 10**30},
        {"position": 1e308},
    ]
    damages: list[dict[str, Any]] = [{"elo": []}, {"payoff": 3}, {"open_skill": None}, {"broken": -1}]
    damages += [{"elo": {"main@64": 1e300}}, {"elo": {"main@64": "high"}}, {"open_skill": {"main@64": [1e300, 1]}}]
    damages += [{"payoff": [["main@64", "main@0", *counts]]} for counts in ("xyz", [1, 2], [1, 2, 10**30], [0, -1, 0])]
    changed = [json.dumps({**cache, **each}) for each in (*others, *damages)]
    del cache["elo"]
    for text in (*changed, "{", "{}", "[1]", json.dumps(cache)):
        (tmp_path / "ratings.json").write_text(text)
        assert League.existing(tmp_path).ratings().get_state() == league.ratings().get_state()
        assert League.existing(tmp_path).recompute() == ABSENT
    (tmp_path / "ratings.json").unlink()
    assert League.existing(tmp_path).recompute() == ABSENT


def test_anchors_change_all_ratings(tmp_path: Path) -> None:
    league = League(tmp_path)
    league.log.append([match(SNAPSHOTS[0], BOT, key="1")])
    league.save_ratings()
    anchored = League(tmp_path, anchors={BOT: 1000})
    assert anchored.ratings().elo.ratings[BOT] == 1000
    assert League.existing(tmp_path).leaderboard()[-1].rating == 1000


def test_anchors_that_another_process_sets_stay_and_count(tmp_path: Path) -> None:
    training = League(tmp_path, Prioritised(), {BOT: 1500})
    training.match_maker.add(BOT)  # type: ignore[union-attr]
    training.log.append([match(SNAPSHOTS[0], BOT, key="1")])
    training.save()
    League.existing(tmp_path).add_anchors({BOT: 1400, SNAPSHOTS[0]: 1600})
    training.save()
    expected = {BOT: 1400, SNAPSHOTS[0]: 1600}
    assert training.anchors == League.existing(tmp_path).anchors == expected
    assert training.ratings().elo.ratings == expected
    assert League.existing(tmp_path).recompute() == IDENTICAL
    maker = Prioritised()
    assert League(tmp_path, maker).anchors == expected and list(maker.players) == [BOT]


@pytest.mark.parametrize(
    "rating", [float("nan"), float("inf"), 1e6, pytest.param(10**400, id="huge"), "1500", True, None]
)
def test_anchors_that_are_none(tmp_path: Path, rating: Any) -> None:
    with pytest.raises(ValueError, match="the anchor of baseline must be a number"):
        check_anchors({"baseline": rating})
    with pytest.raises(ValueError, match="the anchor of baseline must be a number"):
        League(tmp_path / "league", anchors={BOT: rating})
    assert not (tmp_path / "league").exists()
    league = League(tmp_path)
    with pytest.raises(ValueError, match="the anchor of baseline must be a number"):
        league.add_anchors({BOT: rating})
    assert League.existing(tmp_path).anchors == {}


def test_anchors_by_name_and_by_player() -> None:
    assert check_anchors({"baseline": 1500, SNAPSHOTS[1]: np.float32(1600.5)}) == {BOT: 1500.0, SNAPSHOTS[1]: 1600.5}
    for wrong in ([1], None, {"a b": 1500}):
        with pytest.raises(ValueError, match="anchors|player"):
            check_anchors(wrong)


def test_what_is_fought_is_kept(tmp_path: Path) -> None:
    league = League(tmp_path, Prioritised())
    assert league.fights == {}
    builds = {"randomizeBuild": np.bool_(True), "randomBuildOptions": ("PURE", "MED")}
    League.existing(tmp_path).set_fights("NhEnv", builds)
    league.save()
    kept = {"game": "NhEnv", "reset_params": {"randomizeBuild": True, "randomBuildOptions": ["PURE", "MED"]}}
    assert league.fights == League.existing(tmp_path).fights == kept
    file = tmp_path / "league.json"
    file.write_text(file.read_text().replace('"game"', '"contract"'))  # as the first edition called it
    assert League.existing(tmp_path).fights == kept


def test_leagues_of_earlier_versions_do_not_tell_what_is_fought(tmp_path: Path) -> None:
    League(tmp_path)
    (tmp_path / "league.json").write_text('{"kind": "league", "version": 1, "anchors": {}, "match_maker": null}')
    assert League.existing(tmp_path).fights == {}


def test_a_league_without_its_matches_is_refused(tmp_path: Path) -> None:
    League(tmp_path).save_ratings()
    log = tmp_path / "matches.sqlite"
    for damage in (log.unlink, log.touch):
        damage()
        before = sorted(tmp_path.iterdir())
        with pytest.raises(ValueError, match="has lost its matches"):
            League.existing(tmp_path)
        assert sorted(tmp_path.iterdir()) == before


def test_a_league_is_found_in_the_folder_of_its_run(tmp_path: Path) -> None:
    League(tmp_path / "league")
    assert League.existing(tmp_path).folder == League.existing(tmp_path / "league").folder == tmp_path / "league"


def test_folders_that_are_no_league(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no league"):
        League.existing(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    sound = {"kind": "league", "version": 1, "anchors": {}, "match_maker": None, "fights": {}}
    damages: list[dict[str, Any]] = [{"version": 2}, {"anchors": [1]}, {"anchors": {"baseline": "x"}}]
    damages += [{"match_maker": 3}, {"fights": []}, {"fights": {"contract": 3, "reset_params": {}}}]
    texts = [json.dumps({**sound, **damage}) for damage in damages]
    for name in ("anchors", "match_maker"):
        texts.append(json.dumps({key: value for key, value in sound.items() if key != name}))
    for text in ("{", "[]", "\0", "", *texts):
        (tmp_path / "league.json").write_text(text)
        with pytest.raises(ValueError, match="league.json"):
            League(tmp_path)
    (tmp_path / "league.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="league.json"):
        League(tmp_path)
    with pytest.raises(ValueError, match="without a match maker"):
        League(tmp_path / "other").choose(np.random.default_rng(0))


def test_leaderboard_as_data_and_text(tmp_path: Path) -> None:
    league = filled(tmp_path)
    league.log.append(
        [match(SNAPSHOTS[1], SNAPSHOTS[0], outcome, str(n)) for n, outcome in enumerate(["won", "won", "tied", "lost"])]
    )
    standings = league.leaderboard()
    assert [one.player for one in standings] == ["main@64", "main@640", "main@0"]
    first, unrated, last = standings
    assert (first.games, first.wins, first.ties, first.losses, first.win_rate) == (4, 2, 1, 1, 0.625)
    assert last.win_rate == 0.375 and unrated.games == 0 and unrated.win_rate is None
    assert first.low < first.rating < first.high and first.elo > last.elo and first.mu > last.mu
    assert unrated.elo == first.elo  # it would enter as strong as its predecessor
    text = {name: form(standings) for name, form in FORMATS.items()}
    assert [row["player"] for row in json.loads(text["json"])] == [one.player for one in standings]
    rows = list(csv.DictReader(io.StringIO(text["csv"])))
    assert tuple(rows[0]) == COLUMNS and float(rows[0]["elo"]) == first.elo and rows[1]["win_rate"] == ""
    assert text["markdown"].count("\n") == 5 and text["markdown"].startswith("| player | rating |")
    assert len({len(line) for line in text["table"].splitlines()}) == 1
    assert FORMATS["csv"]([]).count("\n") == 1


def test_the_package_needs_no_learning_library() -> None:
    heavy = "torch", "stable_baselines3", "numba"
    code = f"import sys, sb3_pvp.players.league; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], env=os.environ).strip() == b"[]"


def test_processes_that_change_the_settings_at_once_keep_each_others_changes(tmp_path: Path) -> None:
    League(tmp_path)
    players = [Player("learner", steps) for steps in range(1, 33)]

    def measure(player: Player) -> None:
        League(tmp_path).set_exploitability(player, 0.5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(measure, players))
    stored = json.loads((tmp_path / "league.json").read_text())
    assert stored["exploitability"].keys() == {str(player) for player in players}
