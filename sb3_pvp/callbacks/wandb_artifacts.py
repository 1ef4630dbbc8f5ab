"""Logs the models and ratings of a run to Weights & Biases."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.callbacks.base import PvpCallback, path_in_run, shared_league
from sb3_pvp.callbacks.evaluations import strongest
from sb3_pvp.common.arguments import Flag, OptionalPath, checked
from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.common.errors import extra
from sb3_pvp.players.league import LEARNER, League, Player, Standing
from sb3_pvp.players.league.leaderboard import COLUMNS, FORMATS, snapshot_standings
from sb3_pvp.players.league.league import LEAGUE
from sb3_pvp.policies.files.model_files import steps_of


class WandbArtifactsCallback(PvpCallback):
    """Logs models and ratings to the open W&B run, see `sb3_pvp.zoo.runs.tracking`.

    At the end of training it logs the artifact ``model-ID`` (ID: of the W&B run) with the aliases ``final``, ``best``
    (``best_model.zip`` of SB3's ``EvalCallback``) and ``strongest`` (of the league), and with steps and ratings as
    metadata; the leaderboard as artifact ``leaderboard-ID`` and table ``league/leaderboard``; and the final ratings of
    the learner's snapshots as chart ``league/rating_curves``. Metrics need ``wandb.init(sync_tensorboard=True)``. List
    this callback last.

    Args:
        snapshots: also log each new snapshot in the league to the artifact ``snapshots-ID``, as ``steps-STEPS``.
        directory: of the league; default: ``league`` in the run folder.
    """

    @checked
    def __init__(self, snapshots: Flag = False, directory: OptionalPath = None, verbose: bool | int = 0) -> None:
        super().__init__(verbose)
        self._snapshots, self._directory = snapshots, directory
        self._published_at: int | None = None

    def publish(self, model: BaseAlgorithm) -> None:
        """Logs what is due at the end of training, unless that was done already after the same number of steps."""
        if model.num_timesteps == self._published_at:
            return  # called at the end of training, and again after the final model was saved
        self._published_at = model.num_timesteps
        league = self._league(model)
        standings = {} if league is None else {each.player: each for each in league.leaderboard()}
        own = snapshot_standings([*standings.values()], LEARNER)
        with temporary_folder() as folder:
            path = Path(folder) / "model.zip"
            model.save(path)
            self._log("model", path, "final", model.num_timesteps, own[-1][1] if own else None)
        with contextlib.suppress(ValueError, FileNotFoundError):  # no run folder, or no such model in it
            best = path_in_run(model, None, "best_model.zip")
            self._log("model", best, "best", steps_of(best))
        if league is not None and (player := strongest(league)) is not None:
            self._log("model", league.path(player), "strongest", player.age, standings[str(player)])
        if standings:
            self._log_leaderboard([*standings.values()], own)

    def _init_callback(self) -> None:
        with extra("track", "artifacts"):
            import wandb
        if wandb.run is None:
            raise ValueError("WandbArtifactsCallback needs a W&B run: train with --track, or call wandb.init() before")
        self._wandb: Any = wandb
        self._first_step = int(self.model.num_timesteps)  # SB3 sets that of a callback later

    def _on_rollout_end(self) -> None:
        league = self._league(self.model) if self._snapshots else None
        players = [] if league is None else league.players()
        new = [each for each in players if each.name == LEARNER and each.age >= self._first_step]
        if league is not None and new:
            standings = {each.player: each for each in league.leaderboard()}
            for player in new:
                standing = standings.get(str(player))
                self._log("snapshots", league.path(player), f"steps-{player.age}", player.age, standing)
            self._first_step = max(each.age for each in new) + 1  # older snapshots are logged already

    def _on_training_end(self) -> None:
        self.publish(self.model)

    def _league(self, model: BaseAlgorithm) -> League | None:
        """Returns the league of the run, if it has one."""
        with contextlib.suppress(ValueError):  # the run has no folder
            if path_in_run(model, self._directory, LEAGUE).exists():
                return shared_league(model, self._directory)
        return None

    def _log(self, name: str, path: Path, alias: str, steps: int, standing: Standing | None = None) -> None:
        """Logs a model's file as a new version of the artifact ``name-ID``, with this alias."""
        metadata: dict[str, Any] = {"steps": steps}
        if standing is not None:
            metadata |= {name: getattr(standing, name) for name in ("player", "elo", "open_skill", "games", "win_rate")}
            metadata |= {"bradley_terry": standing.rating, "bradley_terry_interval": [standing.low, standing.high]}
        run = self._wandb.run
        artifact = self._wandb.Artifact(f"{name}-{run.id}", type="model", metadata=metadata)
        # "mutable" copies the file, which may be deleted or overwritten before W&B has uploaded it.
        artifact.add_file(str(path), name="model.zip", policy="mutable")
        run.log_artifact(artifact, aliases=[alias])

    def _log_leaderboard(self, standings: list[Standing], own: list[tuple[int, Standing]]) -> None:
        wandb, run = self._wandb, self._wandb.run
        artifact = wandb.Artifact(f"leaderboard-{run.id}", type="leaderboard")
        with artifact.new_file("leaderboard.csv") as file:
            file.write(FORMATS["csv"](standings))
        run.log_artifact(artifact)
        rows = [[Player.parse(each.player).step, *(getattr(each, name) for name in COLUMNS)] for each in standings]
        curves = [[each.rating for _, each in own], [each.elo for _, each in own]]
        steps, names = [step for step, _ in own], ["Bradley-Terry", "Elo"]
        chart = wandb.plot.line_series(steps, curves, names, "Ratings of the learner's snapshots", "steps")
        run.log({"league/leaderboard": wandb.Table(columns=["steps", *COLUMNS], data=rows)})
        run.log({"league/rating_curves": chart})
