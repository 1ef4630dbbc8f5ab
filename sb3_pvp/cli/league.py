"""``sb3-pvp league``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.threads import use_one_thread
from sb3_pvp.cli.usage import json_object
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.names import require_known

if TYPE_CHECKING:
    from sb3_pvp.matches.rating import Arena, Progress
    from sb3_pvp.selfplay import League, Player

league = typer.Typer(help="Look at a league of self-play, and rate its players.")

Folder = Annotated[Path, typer.Argument(help="The league's folder, or that of its run.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
World = Annotated[str, typer.Option(help="Where to fight: sim, or rsps://host:port.")]
Contract = Annotated[
    str | None, typer.Option(help="What is played.", show_default="as in the league's training, else NhEnv")
]
ResetParams = Annotated[
    str | None,
    typer.Option(
        help="Reset parameters of the wire as a JSON object.", show_default="as in the league's training, else {}"
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the fights.")]
Rollouts = Annotated[bool, typer.Option("--rollouts", help="With the learner's single roll-outs between snapshots.")]


@league.command("show")
def show(folder: Folder, rollouts: Rollouts = False, as_json: AsJson = False) -> None:
    """Print the leaderboard, the strongest first: Bradley-Terry rating with its 95 % interval, Elo and OpenSkill."""
    print_leaderboard(open_league(folder), as_json, rollouts)


@league.command("recompute")
def recompute(folder: Folder, as_json: AsJson = False) -> None:
    """Compute all ratings from the match log alone, and keep them; tell whether they were kept right so far."""
    from sb3_pvp.selfplay.league import IDENTICAL

    opened = open_league(folder)
    kept, ratings = opened.recompute(), opened.ratings()
    figures = {"matches": ratings.position, "not_counted": ratings.broken, "identical": kept == IDENTICAL, "kept": kept}
    text = f"{folder}: ratings of {ratings.position} matches computed anew, {verdict(kept)}"
    typer.echo(json.dumps(figures) if as_json else text)


@league.command("export")
def export(
    folder: Folder,
    form: Annotated[str, typer.Option("--format", help="csv, json, markdown or table.")] = "csv",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; standard output if left out.", dir_okay=False)
    ] = None,
    rollouts: Rollouts = False,
) -> None:
    """Write the leaderboard to a file."""
    from sb3_pvp.common.atomic_files import write_atomically
    from sb3_pvp.selfplay.leaderboard import FORMATS

    with refusals(about="--format"):
        require_known("format", form, FORMATS)
    text = FORMATS[form](open_league(folder).leaderboard(rollouts))
    if out is None:
        typer.echo(text, nl=False)
        return
    with refusals():
        write_atomically(out, text)


@league.command("play")
def play(
    folder: Folder,
    a: Annotated[str, typer.Argument(help="A player, such as main@4096.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Another one, such as baseline.", metavar="B")],
    fights: Annotated[int, typer.Option(min=1, help="How many fights.")] = 100,
    world: World = "sim",
    contract: Contract = None,
    reset_params: ResetParams = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let two players fight, which the match log keeps: models in the league, scripted opponents or the baseline."""
    opened = open_league(folder)
    arena = make_arena(opened, world, contract, reset_params)
    from sb3_pvp.game import WorldError
    from sb3_pvp.matches.rating import play_matches
    from sb3_pvp.selfplay import Payoff

    with refusals(WorldError):
        pair = parse_player(a), parse_player(b)
        records = play_matches(opened, {pair: fights}, seed, arena)
    print_fights(opened, arena)
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
    contract: Contract = None,
    reset_params: ResetParams = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Let the players fight whose matches tell most, until all ratings are known well enough (exit code 1: not yet)."""
    given, opened = parse_anchors(anchor or []), open_league(folder)
    arena = make_arena(opened, world, contract, reset_params)
    from sb3_pvp.game import WorldError
    from sb3_pvp.matches.rating import rate as rounds
    from sb3_pvp.selfplay.players import evenly_spread

    with refusals(WorldError):
        models = opened.players()
        models = models if max_players is None else evenly_spread(models, max_players)
        candidates = {*models, *present_anchors(opened), *given, *map(parse_player, player or [])}
        opened.anchors.update(given)  # the folder gets them when fights have shown that everything is right
        for number, progress in enumerate(rounds(opened, candidates, until, arena, fights_per_round, max_fights, seed)):
            if number == 0:
                print_fights(opened, arena)
            print_progress(progress, until)
        opened.add_anchors(given)
    opened.save_ratings()
    print_leaderboard(opened, as_json)
    if max(progress.half_widths.values()) > until:
        raise typer.Exit(1)


def open_league(folder: Path) -> League:
    """The league in a folder; `Refusal` if there is none."""
    from sb3_pvp.selfplay import League

    with refusals():
        return League.existing(folder)


def parse_anchors(texts: list[str]) -> dict[Player, float]:
    """Anchors like ``baseline=1500``; anything else is a `Refusal`."""
    from sb3_pvp.selfplay import check_anchors

    given = {}
    for text in texts:
        name, _, rating = text.partition("=")
        try:
            given[parse_player(name)] = float(rating)
        except ValueError:
            raise Refusal(f"--anchor must be a player and a rating such as baseline=1500; got {text!r}") from None
    with refusals():
        return check_anchors(given)


def present_anchors(opened: League) -> list[Player]:
    """The league's anchors who can fight; of the others, such as models that are gone, a line tells."""
    from sb3_pvp.matches.rating import check_players

    present = []
    for player in opened.anchors:
        try:
            check_players(opened, [player])
            present.append(player)
        except ValueError as error:
            print(f"without the league's anchor {player}: {error}", file=sys.stderr)
    return present


def make_arena(opened: League, world: str, contract: str | None, reset_params: str | None) -> Arena:
    """Where the options say, as in the league's training where they say nothing; wrong ones are a `Refusal`.

    Whoever makes it is about to fight.
    """
    use_one_thread()
    given = None if reset_params is None else json_object(reset_params, "--reset-params")
    from sb3_pvp.matches.rating import Arena

    kept = opened.fights or {"contract": "NhEnv", "reset_params": {}}
    played = kept["contract"] if contract is None else contract
    own = kept["reset_params"] if played == kept["contract"] else {}  # those of another game have other names
    arena = Arena(world, played, own if given is None else given)
    with refusals():
        arena.settings()
    return arena


def parse_player(text: str) -> Player:
    """The player of that name; raises `ValueError` for what is none."""
    from sb3_pvp.selfplay import Player

    return Player.parse(text)


def verdict(kept: str) -> str:
    """What `League.recompute` has found out, in words."""
    from sb3_pvp.selfplay.league import ABSENT, DIFFERENT, IDENTICAL, OF_OTHERS, UNREADABLE

    return {
        IDENTICAL: "identical to the kept ones",
        DIFFERENT: "NOT those that were kept",
        ABSENT: "none were kept to compare them with",
        UNREADABLE: "the kept ones could not be read",
        OF_OTHERS: "the kept ones were of another log, or of other anchors",
    }[kept]


def print_fights(opened: League, arena: Arena) -> None:
    """One line on standard error: what is fought."""
    unsure = "" if opened.fights else " (the league does not tell what was trained)"
    print(f"fights of {arena.contract} with {json.dumps(arena.reset_params)}{unsure}", file=sys.stderr, flush=True)


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
