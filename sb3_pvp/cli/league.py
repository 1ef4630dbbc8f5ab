"""``sb3-pvp league``."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.threads import use_one_thread
from sb3_pvp.cli.usage import UsageError, bad_usage_if_refused, json_object

if TYPE_CHECKING:
    from sb3_pvp.matches import Arena, Progress
    from sb3_pvp.selfplay import League, Player

league = typer.Typer(help="Look at a league of self-play, and rate its players.")

Folder = Annotated[Path, typer.Argument(help="The league's folder.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
World = Annotated[str, typer.Option(help="Where to fight: sim, or rsps://host:port.")]
Contract = Annotated[str, typer.Option(help="What is played.")]
ResetParams = Annotated[str, typer.Option(help="Reset parameters of the wire as a JSON object.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the fights.")]
Rollouts = Annotated[bool, typer.Option("--rollouts", help="With the learner's single roll-outs between snapshots.")]


@league.command("show")
def show(folder: Folder, rollouts: Rollouts = False, as_json: AsJson = False) -> None:
    """Print the leaderboard, the strongest first: Bradley-Terry rating with its 95 % interval, Elo and OpenSkill."""
    print_leaderboard(open_league(folder), as_json, rollouts)


@league.command("recompute")
def recompute(folder: Folder, as_json: AsJson = False) -> None:
    """Compute all ratings from the match log alone, and keep them; tell whether they were kept right so far."""
    opened = open_league(folder)
    identical, ratings = opened.recompute(), opened.ratings()
    figures = {"matches": ratings.position, "not_counted": ratings.broken, "identical": identical}
    verdict = "identical to" if identical else "NOT those that were"
    text = f"{folder}: ratings of {ratings.position} matches computed anew, {verdict} kept ones"
    typer.echo(json.dumps(figures) if as_json else text)


@league.command("export")
def export(
    folder: Folder,
    form: Annotated[str, typer.Option("--format", help="csv, json, markdown or table.")] = "csv",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; standard output if left out.")
    ] = None,
    rollouts: Rollouts = False,
) -> None:
    """Write the leaderboard to a file."""
    from sb3_pvp.atomic_files import write_atomically
    from sb3_pvp.contract.errors import unknown_name
    from sb3_pvp.selfplay.leaderboard import FORMATS

    if form not in FORMATS:
        raise UsageError(f"--format: {unknown_name('format', form, FORMATS)}")
    text = FORMATS[form](open_league(folder).leaderboard(rollouts))
    if out is None:
        typer.echo(text, nl=False)
        return
    with bad_usage_if_refused():
        write_atomically(out, text)


@league.command("play")
def play(
    folder: Folder,
    a: Annotated[str, typer.Argument(help="A player, such as main@4096.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Another one, such as baseline.", metavar="B")],
    fights: Annotated[int, typer.Option(min=1, help="How many fights.")] = 100,
    world: World = "sim",
    contract: Contract = "NhEnv",
    reset_params: ResetParams = "{}",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let two players fight, which the match log keeps: models in the league, scripted opponents or the baseline."""
    opened = open_league(folder)
    arena = make_arena(world, contract, reset_params)
    from sb3_pvp.matches import play_matches
    from sb3_pvp.selfplay import Payoff

    with refused_fights():
        pair = parse_player(a), parse_player(b)
        records = play_matches(opened, {pair: fights}, seed, arena)
    counts = Payoff(records).counts(*pair)
    figures = {**counts._asdict(), "not_counted": len(records) - counts.games}
    words = f"{counts.wins} won, {counts.ties} tied, {counts.losses} lost, {figures['not_counted']} not counted"
    typer.echo(json.dumps({"a": a, "b": b, **figures}) if as_json else f"{a} against {b}: {words}")


@league.command("rate")
def rate(
    folder: Folder,
    until: Annotated[float, typer.Option(min=1, help="Elo points to either side that 95 % intervals may have.")],
    anchor: Annotated[
        list[str] | None, typer.Option(help="A rating that is given, such as baseline=1500; the league keeps it.")
    ] = None,
    player: Annotated[
        list[str] | None, typer.Option(help="A bot or scripted opponent that takes part besides models and anchors.")
    ] = None,
    max_players: Annotated[
        int | None, typer.Option(min=1, help="So many models at most take part, evenly spread over their steps.")
    ] = None,
    fights_per_round: Annotated[int, typer.Option(min=1, help="Fights between two looks at the ratings.")] = 256,
    max_fights: Annotated[
        int, typer.Option(min=1, help="Stop after so many fights, known well enough or not.")
    ] = 20_000,
    world: World = "sim",
    contract: Contract = "NhEnv",
    reset_params: ResetParams = "{}",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let the players fight whose matches tell most, until all ratings are known well enough (exit code 1: not yet)."""
    opened = open_league(folder, anchor or [])
    arena = make_arena(world, contract, reset_params)
    from sb3_pvp.matches import rate as rounds
    from sb3_pvp.selfplay.players import evenly_spread

    with refused_fights():
        models = opened.players()
        models = models if max_players is None else evenly_spread(models, max_players)
        candidates = {*models, *opened.anchors, *map(parse_player, player or [])}
        for progress in rounds(opened, candidates, until, arena, fights_per_round, max_fights, seed):
            print_progress(progress, until)
    opened.save_ratings()
    print_leaderboard(opened, as_json)
    if max(progress.half_widths.values()) > until:
        raise typer.Exit(1)


def open_league(folder: Path, anchors: list[str] | None = None) -> League:
    """The league in a folder, with anchors like ``baseline=1500`` besides its own; `UsageError` for anything else."""
    from sb3_pvp.selfplay import League

    given = {}
    for text in anchors or []:
        name, _, rating = text.partition("=")
        try:
            given[parse_player(name)] = float(rating)
        except ValueError:
            raise UsageError(f"--anchor must be a player and a rating such as baseline=1500; got {text!r}") from None
    with bad_usage_if_refused():
        opened = League.existing(folder)
        return League.existing(folder, {**opened.anchors, **given}) if given else opened


def make_arena(world: str, contract: str, reset_params: str) -> Arena:
    """Where the options say; wrong ones are a `UsageError`. Whoever makes it is about to fight."""
    use_one_thread()
    params = json_object(reset_params, "--reset-params")
    from sb3_pvp.matches import Arena

    arena = Arena(world, contract, params)
    with bad_usage_if_refused():
        arena.settings()
    return arena


def parse_player(text: str) -> Player:
    """The player of that name; raises `ValueError` for what is none."""
    from sb3_pvp.selfplay import Player

    return Player.parse(text)


def refused_fights() -> AbstractContextManager[None]:
    """Around fights: unknown players, wrong settings and servers that fail become a `UsageError`."""
    from sb3_pvp.rsps import RemoteError

    return bad_usage_if_refused(RemoteError)


def print_progress(progress: Progress, until: float) -> None:
    """One line on standard error."""
    widths = progress.half_widths
    widest = max(widths, key=lambda player: widths[player])
    certain = sum(width <= until for width in widths.values())
    beyond = f"; out of reach: {', '.join(map(str, progress.out_of_reach))}" if progress.out_of_reach else ""
    print(
        f"{progress.num_fights} fights: {certain} of {len(widths)} players within ±{until:g}, "
        f"least certain {widest} ±{widths[widest]:.0f}{beyond}",
        file=sys.stderr,
        flush=True,
    )


def print_leaderboard(opened: League, as_json: bool, rollouts: bool = False) -> None:
    """Prints who is how strong, and of how many matches that is known."""
    from sb3_pvp.selfplay.leaderboard import as_table

    standings, ratings = opened.leaderboard(rollouts), opened.ratings()
    if as_json:
        players = [asdict(standing) for standing in standings]
        typer.echo(json.dumps({"matches": ratings.position, "not_counted": ratings.broken, "players": players}))
        return
    typer.echo(as_table(standings), nl=False)
    typer.echo(f"{ratings.position} matches, {ratings.broken} of which do not count")
