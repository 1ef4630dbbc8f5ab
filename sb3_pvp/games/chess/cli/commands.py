"""``sb3-pvp chess ladder``, ``sb3-pvp chess openings`` and ``sb3-pvp uci``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.common.errors import Refusal

_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Model = Annotated[
    str, typer.Argument(help="A model's file, mcts:FILE, random, or an engine such as stockfish?elo=1350.")
]
_Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
_Stochastic = Annotated[bool, typer.Option("--stochastic", help="Sample actions, as in training.")]

chess = typer.Typer(help="Chess: how strong a model is, and what it plays.", add_completion=False)


@chess.command("ladder")
def ladder(
    model: _Model,
    games: Annotated[int, typer.Option(min=2, help="Games on each rung, in pairs with swapped colors.")] = 20,
    rung: Annotated[
        list[str] | None, typer.Option(help="An opponent, the weakest first; default: random to UCI_Elo 2650.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="PGN file; default: ladder-MODEL.pgn.", dir_okay=False)
    ] = None,
    seed: _Seed = 0,
    stochastic: _Stochastic = False,
    as_json: _AsJson = False,
) -> None:
    """Play engines, from weak to strong, for an Elo on their scale.

    All games are kept in the PGN file: the same command goes on where it was stopped. UCI_Elo is an engine-pool scale,
    not FIDE.
    """
    from sb3_pvp.games.chess.cli.ladder import RUNGS, SCALE, as_record, elo_together, in_words, play_ladder

    _use_one_thread()
    if games % 2:
        raise Refusal(f"games come in pairs with swapped colors: --games must be even, not {games}")
    file = output or Path(f"ladder-{_stem(model)}.pgn")
    try:
        rungs = play_ladder(model, tuple(rung or RUNGS), games, file, seed, not stochastic, _say)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"stopped; the games that were over are in {file}, go on with") from error
    together = elo_together(rungs)
    if as_json:
        rows: Any = {"elo": together and together._asdict(), "scale": SCALE, "rungs": [*map(as_record, rungs)]}
        typer.echo(json.dumps({"model": model, "games": str(file), **rows}))
        return
    width = max(len(each.opponent) for each in rungs)
    typer.echo(f"{model} on the ladder, won drawn lost:")
    for each in rungs:
        won, drawn, lost = each.counts
        counts = f"{won:4} {drawn:4} {lost:4}   score {each.counts.win_rate:.2f}"
        typer.echo(f"  {each.opponent:<{width}} {counts}   {in_words(each.elo, each.on_scale)}")
    typer.echo(f"against all with a UCI_Elo: {in_words(together)}")
    typer.echo(f"{SCALE}; the games are in {file}")


@chess.command("openings")
def openings(
    model: Annotated[str, typer.Argument(help="A model's file, or a run's folder: all its checkpoints.")],
    games: Annotated[int, typer.Option(min=1, help="Games of each model against itself.")] = 64,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Files, without ending; default: openings-MODEL.")
    ] = None,
    seed: _Seed = 0,
    as_json: _AsJson = False,
) -> None:
    """Show which named openings a model plays against itself.

    Writes the games (.pgn) and a picture (.png) of the share of each line, over training if a run's folder is given.
    """
    from sb3_pvp.games.chess.cli.opening_shares import models_of, play_openings

    _use_one_thread()
    stem = output or Path(f"openings-{_stem(model)}")
    played = play_openings(models_of(model), games, seed, stem, _say)
    if as_json:
        typer.echo(json.dumps({"files": str(stem), "models": [each._asdict() for each in played]}))
        return
    for each in played:
        typer.echo(each.model)
        for line, share in [*each.shares.items()][:10]:
            typer.echo(f"  {share:6.1%}  {line}")
    typer.echo(f"the games are in {stem}.pgn, a picture of the shares in {stem}.png")


def uci(model: _Model, seed: _Seed = 0, stochastic: _Stochastic = False) -> None:
    """Be a chess engine: a fighter for any chess program, by UCI."""
    from sb3_pvp.games.chess.cli.chess_games import find_player
    from sb3_pvp.games.chess.cli.uci import UciSession

    _use_one_thread()
    session = UciSession(_stem(model), *find_player(model, not stochastic), seed)
    for line in sys.stdin:
        if line.split()[:1] == ["quit"]:
            return
        for answer in session.answers(line):
            print(answer, flush=True)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)  # more would wait for each other in so small a network


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _stem(model: str) -> str:
    """Returns a name for files."""
    name = Path(model).name.removesuffix(".zip").removesuffix(".fighter")
    return "".join(each if each.isalnum() or each in "+-_=." else "-" for each in name)
