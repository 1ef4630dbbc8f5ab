"""Models and ratings of a training in W&B, without rl-zoo3."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from chosen_duel import chosen_duels
from logged import remember

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback, WandbArtifactsCallback
from sb3_pvp.players.league import League
from sb3_pvp.players.league.leaderboard import snapshot_standings
from tests.zoo.runs.wandb_files import read_runs, use_folder

ROLLOUT = 8 * 16


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with monkeypatch.context() as patch:
        use_folder(patch, tmp_path)
        yield tmp_path
        wandb.teardown()


def new_model(folder: Path) -> PvpPPO:
    settings = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "seed": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", chosen_duels(8), device="cpu", **settings)
    model.run_folder = folder / "run"
    return model


@pytest.mark.slow
def test_models_and_ratings_of_a_league(folder: Path) -> None:
    model = new_model(folder)
    memory = remember(model)
    league = LeagueCallback(anchors={"baseline": 1500}, pictures_every=2)
    callbacks = [league, SelfPlayCallback(past=0.5), WandbArtifactsCallback(snapshots=True)]
    run = wandb.init(project="duels")
    model.learn(4 * ROLLOUT, callback=callbacks)
    callbacks[-1].publish(model)  # once is enough
    run.finish()

    standings = League.existing(folder / "run/league").leaderboard()
    own = dict(snapshot_standings(standings, "main"))
    (tracked,) = read_runs(folder)
    assert tracked.project == "duels" and tracked.exit_code == 0
    names = [(each.name.partition("-")[0], each.type) for each in tracked.artifacts]
    assert names == [
        *[("snapshots", "model")] * 4,
        *[("model", "model")] * 2,
        ("leaderboard", "leaderboard"),
        *[("run", "run_table")] * 2,
    ]
    assert {alias for each in tracked.artifacts[:4] for alias in each.aliases} == {
        "latest",
        *(f"steps-{step}" for step in own),
    }
    assert json.loads(tracked.artifact("steps-256").metadata)["steps"] == 256
    final = json.loads(tracked.artifact("final").metadata)
    newest = own[3 * ROLLOUT]
    assert (final["steps"], final["player"], final["elo"]) == (4 * ROLLOUT, "main@384", newest.elo)
    assert (final["bradley_terry"], final["open_skill"]) == (newest.rating, newest.open_skill)
    strongest = max(own.values(), key=lambda each: each.low)
    assert json.loads(tracked.artifact("strongest").metadata)["player"] == strongest.player
    (stored,) = [each.local_path for each in tracked.artifact("final").manifest.contents]
    assert PvpPPO.load(stored, device="cpu").num_timesteps == 4 * ROLLOUT

    (board,) = [each for each in tracked.artifacts if each.type == "leaderboard"]
    rows = list(csv.DictReader(Path(board.manifest.contents[0].local_path).read_text().splitlines()))
    assert [row["player"] for row in rows] == [each.player for each in standings]
    tables = [each for each in tracked.artifacts if each.type == "run_table"]
    table = json.loads(Path(tables[0].manifest.contents[0].local_path).read_text())
    assert table["columns"][:4] == ["steps", "player", "rating", "low"]
    assert [row[0] for row in table["data"] if row[1].startswith("main@")] == [
        int(each.player.partition("@")[2]) for each in standings if each.player.startswith("main@")
    ]
    curves = json.loads(Path(tables[1].manifest.contents[0].local_path).read_text())["data"]
    assert [step for step, name, _ in curves if name == "Elo"] == list(own)
    assert [value for _, name, value in curves if name == "Bradley-Terry"] == [each.rating for each in own.values()]

    # While it trains, ratings are metrics; that of Bradley-Terry whenever there are pictures.
    rated = [dump["league/bradley_terry/latest"] for dump in memory.dumps if "league/bradley_terry/latest" in dump]
    assert len(rated) == 2 and rated[-1] == newest.rating
    assert all("rollout/elo/latest" in dump and "rollout/open_skill/mu" in dump for dump in memory.dumps)


def test_a_training_without_a_league_or_a_folder_has_its_final_model() -> None:
    model = PvpPPO("MultiInputPolicy", chosen_duels(8), n_steps=16, batch_size=64, device="cpu")
    run = wandb.init(mode="disabled")
    logged: list[object] = []
    run.log_artifact = lambda artifact, aliases: logged.append((artifact.metadata, aliases))
    model.learn(ROLLOUT, callback=WandbArtifactsCallback())
    run.finish()
    assert logged == [({"steps": ROLLOUT}, ["final"])]


def test_a_run_that_is_resumed_logs_its_new_snapshots_only(folder: Path) -> None:
    model = new_model(folder)
    model.learn(2 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5)])
    run = wandb.init(mode="disabled")
    logged: list[str] = []
    run.log_artifact = lambda artifact, aliases=(): logged.extend(aliases)
    callbacks = [LeagueCallback(), SelfPlayCallback(past=0.5), WandbArtifactsCallback(snapshots=True)]
    model.learn(ROLLOUT, callback=callbacks, reset_num_timesteps=False)
    run.finish()
    assert [each for each in logged if each.startswith("steps-")] == ["steps-256"]


def test_without_a_wandb_run_training_does_not_begin(folder: Path) -> None:
    with pytest.raises(ValueError, match="--track"):
        new_model(folder).learn(ROLLOUT, callback=WandbArtifactsCallback())
