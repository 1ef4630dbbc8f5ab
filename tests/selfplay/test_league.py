from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matches import match

from sb3_pvp.selfplay import League, Player, Prioritised, Uniform
from sb3_pvp.selfplay.leaderboard import COLUMNS, FORMATS

BOT = Player("baseline")
SNAPSHOTS = [Player("main", step) for step in (0, 64, 640)]


def filled(folder: Path) -> League:
    league = League(folder, Prioritised())
    for player in reversed(SNAPSHOTS):
        league.add(player, lambda path, player=player: path.write_text(str(player)))
    league.refresh()
    return league


def test_models_are_listed_by_age_and_found_again(tmp_path: Path) -> None:
    league = filled(tmp_path)
    assert league.players() == SNAPSHOTS == list(league.match_maker.players)  # type: ignore[union-attr]
    path = league.path(SNAPSHOTS[1])
    assert path.name == "main_64_steps.zip" and path.read_text() == "main@64"
    assert league.opponent(SNAPSHOTS[1]) == str(path)
    assert league.opponent(BOT) == "baseline"
    assert league.content_hash(SNAPSHOTS[1]) == hashlib.sha256(b"main@64").hexdigest()
    assert league.refresh() == []
    (league.path(BOT).parent / "champion_9_steps.zip").write_text("dropped in by hand")
    assert league.refresh() == [Player("champion", 9)]


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
    (tmp_path / "players" / "my best one.zip").write_text("")
    with pytest.warns(UserWarning, match="my best one"):
        assert league.players() == SNAPSHOTS


def test_players_whose_model_is_gone_leave_when_they_are_chosen(tmp_path: Path) -> None:
    league, rng = filled(tmp_path), np.random.default_rng(0)
    league.match_maker.add(BOT)  # type: ignore[union-attr]
    for player in SNAPSHOTS[:2]:
        league.path(player).unlink()
    with pytest.warns(UserWarning, match="main@.* leaves the league"):
        chosen = {league.choose(rng) for _ in range(50)}
    assert chosen == {BOT, SNAPSHOTS[2]} == set(league.match_maker.players)  # type: ignore[union-attr]


def test_the_match_maker_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    league = filled(tmp_path)
    league.match_maker.record(SNAPSHOTS[0], "won")  # type: ignore[union-attr]
    league.save()
    maker = Prioritised()
    assert League(tmp_path, maker).choose(np.random.default_rng(0)) in SNAPSHOTS
    assert maker.get_state() == league.match_maker.get_state()  # type: ignore[union-attr]
    League(tmp_path, anchors={BOT: 1500})  # somebody else opens it, and leaves what was learned alone
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
    assert other.recompute()
    assert other.ratings().get_state() == league.ratings().get_state()
    # The file is only a cache: a wrong one is found out, a broken one is no harm.
    cache = json.loads((tmp_path / "ratings.json").read_text())
    (tmp_path / "ratings.json").write_text(json.dumps({**cache, "elo": {"main@64": 9000.0}}))
    assert not League.existing(tmp_path).recompute()
    assert League.existing(tmp_path).recompute()
    del cache["elo"]
    for text in ("{", "{}", json.dumps(cache), json.dumps({**cache, "elo": {}, "last_key": "other log"})):
        (tmp_path / "ratings.json").write_text(text)
        assert League.existing(tmp_path).ratings().get_state() == league.ratings().get_state()


def test_anchors_change_all_ratings(tmp_path: Path) -> None:
    league = League(tmp_path)
    league.log.append([match(SNAPSHOTS[0], BOT, key="1")])
    league.save_ratings()
    anchored = League(tmp_path, anchors={BOT: 1000})
    assert anchored.ratings().elo.ratings[BOT] == 1000
    assert League.existing(tmp_path).leaderboard()[-1].rating == 1000


def test_folders_that_are_no_league(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no league"):
        League.existing(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    for text in ("{", "[]", '{"kind": "league", "version": 2}'):
        (tmp_path / "league.json").write_text(text)
        with pytest.raises(ValueError, match="league.json"):
            League(tmp_path)
    with pytest.raises(ValueError, match="without a match maker"):
        League(tmp_path / "other").refresh()


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
    code = (
        "import sys, sb3_pvp.selfplay; print([m for m in ('torch', 'stable_baselines3', 'numba') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], env=os.environ).strip() == b"[]"
