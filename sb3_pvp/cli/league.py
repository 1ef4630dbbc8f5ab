"""``sb3-pvp league``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, OutFile, aligned, print_result, write
from sb3_pvp.cli.usage import (
    OLDER_NAMES,
    GameName,
    Jobs,
    ResetParams,
    Seed,
    World,
    choice,
    progress,
    resumable,
    say_processes,
    use_one_thread,
)
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import refusals, require_known
from sb3_pvp.game import game_reference
from sb3_pvp.players.league import League, Payoff, Player, check_anchors
from sb3_pvp.players.league.leaderboard import FORMATS, as_rows
from sb3_pvp.players.league.league import IDENTICAL, VERDICTS
from sb3_pvp.players.league.players import evenly_spread

if TYPE_CHECKING:
    from sb3_pvp.envs.settings import FightSettings
    from sb3_pvp.matches.rating import Progress

league = typer.Typer(help="Show a league's leaderboard, and rate its players.")

Folder = Annotated[Path, typer.Argument(help="Folder of the league or of its run.", metavar="DIR")]
Rollouts = Annotated[bool, typer.Option("--rollouts", help="Include the learner at each rollout between snapshots.")]


@league.command("show")
def show(folder: Folder, rollouts: Rollouts = False, as_json: AsJson = False) -> None:
    """Print the leaderboard.

    Ratings are Bradley-Terry with a 95 % interval, Elo and OpenSkill.
    """
    _print_leaderboard(League.existing(folder), as_json, rollouts)


@league.command("recompute")
def recompute(folder: Folder, as_json: AsJson = False) -> None:
    """Recompute all ratings from the match log.

    Saves them, and prints whether they are identical to those that were saved before.
    """
    opened = League.existing(folder)
    kept, ratings = opened.recompute(), opened.ratings()
    figures = {"matches": ratings.position, "not_counted": ratings.broken, "identical": kept == IDENTICAL, "kept": kept}
    print_result(figures, f"{folder}: recomputed the ratings of {ratings.position} matches: {VERDICTS[kept]}", as_json)


@league.command("export")
def export(
    folder: Folder,
    form: Annotated[str, choice([*FORMATS], "--format", text="Format.")] = "csv",
    out: OutFile = None,
    rollouts: Rollouts = False,
) -> None:
    """Export the leaderboard."""
    require_known("format", form, FORMATS)
    write(FORMATS[form](League.existing(folder).leaderboard(rollouts)), out)


@league.command("play", context_settings=OLDER_NAMES)
def play(
    folder: Folder,
    a: Annotated[str, typer.Argument(help="A player, such as main@76800.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Another player, such as baseline.", metavar="B")],
    fights: Annotated[int, typer.Option(min=1, help="Number of fights.")] = 100,
    world: World = "sim",
    game: GameName = None,
    reset_params: ResetParams = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Let two players fight, and add the matches to the league's log.

    Players are models in the league, fighters that ship, scripts and the baseline. Game and reset parameters default to
    those of the league's training.
    """
    opened = League.existing(folder)
    from sb3_pvp.matches.evaluation import num_processes
    from sb3_pvp.matches.rating import match_settings, play_matches

    settings = match_settings(opened, world, game, _params(reset_params))
    pair = Player.parse(a), Player.parse(b)
    say_processes(num_processes(jobs, fights, world))
    with progress(f"{fights} fights", fights) as advance:
        first = seed + len(opened.log)  # so that a second time they are other fights
        records = play_matches(opened, {pair: fights}, first, settings, jobs=jobs, advance=advance)
    _print_fights(opened, settings)
    counts = Payoff(records).counts(*pair)
    broken = len(records) - counts.games
    words = f"{counts.wins} won, {counts.ties} tied, {counts.losses} lost, {broken} not counted"
    print_result({"a": a, "b": b, **counts._asdict(), "not_counted": broken}, f"{a} against {b}: {words}", as_json)


@league.command("rate", context_settings=OLDER_NAMES)
def rate(
    folder: Folder,
    until: Annotated[float, typer.Option(min=1, help="Target half-width of the 95 % intervals, in Elo points.")],
    anchor: Annotated[list[str] | None, typer.Option(help="Fixed rating, as baseline=1500; may be repeated.")] = None,
    player: Annotated[list[str] | None, typer.Option(help="Bot, script or fighter to rate too; repeatable.")] = None,
    max_players: Annotated[int | None, typer.Option(min=1, help="Maximum number of models, evenly spread.")] = None,
    fights_per_round: Annotated[int, typer.Option(min=1, help="Number of fights before ratings are updated.")] = 256,
    max_fights: Annotated[int, typer.Option(min=1, help="Maximum number of fights.")] = 20_000,
    world: World = "sim",
    game: GameName = None,
    reset_params: ResetParams = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Let players fight until their ratings are precise enough.

    Chooses the most informative pairs. The exit code is 1 if --max-fights is not enough. Game and reset parameters
    default to those of the league's training.
    """
    opened = League.existing(folder)
    from sb3_pvp.matches import rating

    settings = rating.match_settings(opened, world, game, _params(reset_params))
    with refusals(about="--anchor must be a player and a rating such as baseline=1500"):
        pairs = (text.partition("=") for text in anchor or [])
        given = check_anchors({name: float(fixed) for name, _, fixed in pairs})
    models = opened.players()
    models = models if max_players is None else evenly_spread(models, max_players)
    present = []
    for each in opened.anchors:
        try:
            rating.check_players(opened, [each], settings.game)
            present.append(each)
        except ValueError as error:  # such as a model that was deleted
            typer.echo(f"ignoring the league's anchor {each}: {error}", err=True)
    candidates = {*models, *present, *given, *map(Player.parse, player or [])}
    opened.anchors.update(given)  # only in memory: saved after the fights, when nothing can be refused any more
    rounds = rating.rate(opened, candidates, until, settings, fights_per_round, max_fights, seed, jobs)
    processes = 1
    with progress("fighting"), resumable("stopped; all fights that were over count, go on with"):
        for number, state in enumerate(rounds):
            if number == 0:  # now the arguments have been checked
                _print_fights(opened, settings)
            if state.num_processes != processes:
                say_processes(processes := state.num_processes)
            _print_progress(state, until)
    opened.add_anchors(given)
    opened.save_ratings()
    _print_leaderboard(opened, as_json)
    if max(state.half_widths.values()) > until:
        raise typer.Exit(1)


def _params(text: str | None) -> dict[str, Any] | None:
    use_one_thread()  # here, because all commands that fight call this first
    return None if text is None else json_object(text, "--reset-params")


def _print_fights(opened: League, settings: FightSettings) -> None:
    note = "" if opened.fights else " (the league does not record how its training fights started)"
    # On stderr, like the progress below: stdout is the result, which may be JSON.
    start = settings.game.start_in_words(settings.reset_params)
    typer.echo(f"fights of {game_reference(settings.game)} with {start}{note}", err=True)


def _print_progress(state: Progress, until: float) -> None:
    widths = state.half_widths
    widest = max(widths, key=lambda player: widths[player])
    certain = sum(width <= until for width in widths.values())
    beyond = f"; out of reach: {', '.join(map(str, state.out_of_reach))}" if state.out_of_reach else ""
    precision = f"{certain} of {len(widths)} players within ±{until:g}, widest {widest} ±{widths[widest]:.0f}"
    typer.echo(f"{state.num_fights} fights: {precision}{beyond}", err=True)


def _print_leaderboard(opened: League, as_json: bool, rollouts: bool = False) -> None:
    standings, ratings = opened.leaderboard(rollouts), opened.ratings()
    figures = {"matches": ratings.position, "not_counted": ratings.broken, "players": standings}
    counts = f"{ratings.position} matches, {ratings.broken} of them not counted"
    print_result(figures, f"{aligned(as_rows(standings), 'right')}\n{counts}", as_json)
