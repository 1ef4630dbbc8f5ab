"""``python -m benchmarks NAME``: everything that measures."""

from __future__ import annotations

from typing import NoReturn

import typer

from benchmarks.acting import bench_acting
from benchmarks.actors import bench_actors, bench_actors_learning
from benchmarks.arena import bench_arena
from benchmarks.chess import bench_chess
from benchmarks.chess_lessons import chess_lessons
from benchmarks.distributed import bench_distributed
from benchmarks.dreamer_fighters import dreamer_fighters
from benchmarks.dreamer_proofs.commands import dreamer_proofs
from benchmarks.dreamer_studies.commands import dreamer
from benchmarks.exploitability import bench_exploitability
from benchmarks.faults import bench_faults
from benchmarks.ghost import bench_ghost
from benchmarks.lanes import bench_lanes
from benchmarks.learning_curves.commands import learning_curves
from benchmarks.mapoca import bench_mapoca
from benchmarks.memory.commands import memory
from benchmarks.model_card import model_card
from benchmarks.peers import bench_peers
from benchmarks.recipes.commands import recipes
from benchmarks.rock_paper_scissors import bench_rock_paper_scissors
from benchmarks.rollout import bench_rollout
from benchmarks.screen import bench_screen
from benchmarks.screen_learning import bench_screen_learning
from benchmarks.search.commands import search
from benchmarks.serve import bench_serve
from benchmarks.server import bench_server
from benchmarks.soccer import bench_soccer
from benchmarks.sprt import bench_sprt
from benchmarks.team_play.commands import team_play
from benchmarks.train import bench_train
from benchmarks.unity_soccer import bench_unity_soccer
from benchmarks.walks import bench_walks
from benchmarks.world import bench_world
from benchmarks.yardsticks.commands import yardsticks
from sb3_pvp.cli.usage import run_app

app = typer.Typer(add_completion=False, help="Measure speed, what faults do, and learning.", rich_markup_mode=None)
app.command("world")(bench_world)
app.command("rollout")(bench_rollout)
app.command("rock_paper_scissors")(bench_rock_paper_scissors)
app.command("train")(bench_train)
app.command("mapoca")(bench_mapoca)
app.command("ghost")(bench_ghost)
app.command("acting")(bench_acting)
app.command("actors")(bench_actors)
app.command("actors_learning")(bench_actors_learning)
app.command("server")(bench_server)
app.command("serve")(bench_serve)
app.command("faults")(bench_faults)
app.command("distributed")(bench_distributed)
app.add_typer(dreamer, name="dreamer")
app.command("exploitability")(bench_exploitability)
app.command("model_card")(model_card)
app.command("peers")(bench_peers)
app.command("soccer")(bench_soccer)
app.command("chess")(bench_chess)
app.command("lanes")(bench_lanes)
app.command("screen")(bench_screen)
app.command("screen_learning")(bench_screen_learning)
app.command("walks")(bench_walks)
app.command("sprt")(bench_sprt)
app.command("arena")(bench_arena)
app.command("unity_soccer")(bench_unity_soccer)
app.add_typer(chess_lessons, name="chess_lessons")
app.add_typer(learning_curves, name="learning_curves")
app.add_typer(recipes, name="recipes")
app.add_typer(yardsticks, name="yardsticks")
app.add_typer(team_play, name="team_play")
app.add_typer(dreamer_proofs, name="dreamer_proofs")
app.add_typer(search, name="search")
app.add_typer(memory, name="memory")
app.add_typer(dreamer_fighters, name="dreamer_fighters")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs a benchmark; bad usage is one line on stderr and exit code 2."""
    run_app(app, "benchmarks", arguments)


if __name__ == "__main__":
    main()
