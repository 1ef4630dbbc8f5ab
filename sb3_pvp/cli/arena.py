"""``sb3-pvp arena``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, OutFile, print_result, print_table, table, write
from sb3_pvp.cli.usage import GameName, ResetParams, choice, progress, resumable
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import Refusal, command_line, refusals, require_known

if TYPE_CHECKING:
    from sb3_pvp.arena.admission import AdmissionReport
    from sb3_pvp.arena.arena import Arena
    from sb3_pvp.arena.match_rounds import RoundSummary
    from sb3_pvp.players.league import MatchRecord

arena = typer.Typer(help="Let fighters of many owners meet: challenges, rounds, ratings.")

_FORMATS = ("table", "csv", "json", "markdown", "payoff")  #: Of the leaderboard.
_SYSTEMS = ("elo", "elo_sequential", "openskill", "bradley_terry")  #: Those of `sb3_pvp.arena.challenge`.

Folder = Annotated[Path, typer.Argument(help="Folder of the arena.", metavar="DIR")]
Processes = Annotated[int | None, typer.Option("--jobs", min=1, help="Processes; default: one for each core.")]
Distribute = Annotated[bool, typer.Option("--distribute", help="Play on the Ray cluster at RAY_ADDRESS.")]
Source = Annotated[str, typer.Argument(help="A model file, a folder, hub:TAG or a script's name.", metavar="PLAYER")]
Owner = Annotated[str, typer.Option(help="Whose players these are; it stands in front of their names.")]
Trusted = Annotated[bool, typer.Option("--trusted", help="Unpickle SB3 zips from there: only what you trust.")]
System = Annotated[str | None, choice(_SYSTEMS, text="Rating; default: that of the challenge.")]
Until = Annotated[str | None, typer.Option(help="Only matches until this date, such as 2026-05-01T12:00:00+00:00.")]
Match = Annotated[str, typer.Argument(help="Key of a match, or of a fight in it, see arena matches.", metavar="MATCH")]


@arena.command("init")
def init(
    folder: Folder,
    game: GameName = None,
    name: Annotated[str | None, typer.Option(help="Name of the challenge; default: that of the folder.")] = None,
    reset_params: ResetParams = None,
    fights: Annotated[int, typer.Option(min=2, help="Fights of a match, in pairs with swapped seats.")] = 2,
    script: Annotated[list[str] | None, typer.Option(help="A script, or fighter that ships, to let in.")] = None,
    store: Annotated[str | None, typer.Option(help="Address of a PostgreSQL database; default: a file.")] = None,
) -> None:
    """Make an arena: a folder with a challenge, challenge.yaml, that you can edit."""
    from sb3_pvp.arena.arena import Arena
    from sb3_pvp.arena.challenge import Challenge
    from sb3_pvp.common.sandbox.sandbox import missing_walls
    from sb3_pvp.game import HOME_GAME

    params = json_object(reset_params, "--reset-params")
    facts: Any = {"reset_params": params, "fights_per_match": fights, "scripts": tuple(script or ())}
    with refusals(about="no challenge is made"):
        challenge = Challenge(name=name or folder.resolve().name, game=game or HOME_GAME, **facts)
        made = Arena.create(folder, challenge, store)
    made.close()
    for each in made.players:
        if each.reason:
            typer.echo(f"{each.name} is refused: {each.reason}", err=True)
    for wall in missing_walls():
        typer.echo(f"strangers are not let in: {wall}", err=True)
    typer.echo(
        f"made {folder}: edit {folder / 'challenge.yaml'}, then {command_line('arena', 'add', folder, 'PLAYER')}"
    )


@arena.command("add")
def add(folder: Folder, player: Source, owner: Owner = "", trusted: Trusted = False, as_json: AsJson = False) -> None:
    """Let players in, after a test fight.

    Folders and tags of the hub are looked through again before each round. The exit code is 1 if nobody got in.
    """
    _admit(folder, player, owner, trusted, as_json, "add")


@arena.command("check")
def check(folder: Folder, player: Source, owner: Owner = "", trusted: Trusted = False, as_json: AsJson = False) -> None:
    """Check players as for arena add, and let nobody in."""
    _admit(folder, player, owner, trusted, as_json, "check")


@arena.command("remove")
def remove(folder: Folder, player: Annotated[str, typer.Argument(help="Its name in the table.")]) -> None:
    """Let a player take part no more. Its matches still count."""
    _opened(folder).remove(player)
    typer.echo(f"{player} takes part no more")


@arena.command("run-once")
def run_once(folder: Folder, jobs: Processes = None, distribute: Distribute = False, as_json: AsJson = False) -> None:
    """Look for new players, play one round, or what is left of one, and write the table."""
    opened = _opened(folder, jobs, distribute)
    try:
        with progress("playing a round"), resumable("stopped; all matches that were over count, go on with"):
            summary = opened.run_once()
    finally:
        opened.close()
    print_result({"round": summary}, _told(opened, summary), as_json)


@arena.command("serve")
def serve(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the arena.", metavar="DIR")] = None,
    every: Annotated[str, typer.Option(help="Time between two rounds, such as 4h, 30m or 10s.")] = "4h",
    jobs: Processes = None,
    distribute: Distribute = False,
    host: Annotated[str, typer.Option(help="Where the page listens; 0.0.0.0 is for everybody.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0: a free one.")] = 8400,
    public_host: Annotated[
        list[str] | None, typer.Option(help="A name that a proxy has for the page, such as arena.example.org.")
    ] = None,
    no_page: Annotated[bool, typer.Option("--no-page", help="Only play rounds.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Make an arena of the fighters that ship, and watch one.")
    ] = False,
    game: GameName = None,
) -> None:
    """Play a round every few hours, until the season is over, and serve the page: leaderboard, replays, live fights."""
    from contextlib import ExitStack

    from sb3_pvp.arena.serve import parse_interval
    from sb3_pvp.arena.serve import serve as play_rounds

    if demo == (folder is not None):
        raise Refusal("name the folder of an arena, or pass --demo without one")
    seconds = parse_interval(every)

    def told(summary: RoundSummary | Exception | None) -> None:
        is_wrong = isinstance(summary, Exception)
        typer.echo(f"no round: {summary}" if is_wrong else _told(opened, summary), err=is_wrong)  # type: ignore[arg-type]

    with ExitStack() as stack:
        if demo:
            from sb3_pvp.arena.page.demo import make_demo

            with progress("letting the fighters in"):
                opened = stack.enter_context(make_demo(game, jobs))
        else:
            assert folder is not None
            opened = _opened(folder, jobs, distribute)
            stack.callback(opened.close)
        if not no_page:
            from sb3_pvp.arena.page.page_server import serving_page

            address = stack.enter_context(serving_page(opened, host, port, public_host or (), shows=demo))
            typer.echo(f"open {address}{'/live' if demo else ''} in a browser; Ctrl-C ends it")
        stopped = "stopped, and its arena is gone; begin another with"
        with resumable(stopped if demo else "stopped; all matches that were over count, go on with"):
            play_rounds(opened, seconds, told)
            if not no_page:
                _wait_for_ever()


def _wait_for_ever() -> None:
    """Keeps the page of a season that is over."""
    import time

    while True:
        time.sleep(3600)


tokens = typer.Typer(help="Tokens of people who may send players to the page.")
arena.add_typer(tokens, name="token")


@tokens.command("add")
def add_token(folder: Folder, owner: Annotated[str, typer.Argument(help="Who gets it.", metavar="NAME")]) -> None:
    """Make a token, and print it: only its hash is kept. An old one of the same name is worth nothing any more."""
    from sb3_pvp.arena.page import uploads

    with refusals():
        typer.echo(uploads.add_token(_opened(folder), owner))


@tokens.command("remove")
def remove_token(folder: Folder, owner: Annotated[str, typer.Argument(help="Whose it is.", metavar="NAME")]) -> None:
    """Make a token worth nothing."""
    from sb3_pvp.arena.page import uploads

    with refusals():
        uploads.remove_token(_opened(folder), owner)
    typer.echo(f"{owner} has no token any more")


@tokens.command("list")
def list_tokens(folder: Folder, as_json: AsJson = False) -> None:
    """List who has a token."""
    from sb3_pvp.arena.page import uploads

    names = [{"name": name} for name in sorted(uploads.tokens(_opened(folder)))]
    print_table("tokens", names, {"name": "{name}"}, as_json, "nobody has a token")


@arena.command("people")
def people(folder: Folder, as_json: AsJson = False) -> None:
    """Print the ladder of the people who have fought on the page, the best lower bound first."""
    from sb3_pvp.arena.page.people import People

    columns: Any = {
        "name": "{0.name}",
        "rating": "{0.rating:.0f}",
        "±": lambda each: f"{each.rating - each.lower:.0f}",
        **{name: f"{{0.{name}}}" for name in ("fights", "won", "tied", "lost")},
    }
    ladder = People(_opened(folder)).ladder()
    print_table("people", ladder, columns, as_json, "nobody has fought a rated fight")


@arena.command("forget")
def forget(folder: Folder, name: Annotated[str, typer.Argument(help="A name of the ladder of people.")]) -> None:
    """Delete a person's name with its key, its fights and its demonstrations. Nothing is asked."""
    from sb3_pvp.arena.page.people import People

    with refusals():
        gone = People(_opened(folder)).forget(name)
    typer.echo(f"{name} is forgotten: the name with its key, all demonstrations, and fights: {gone}")


@arena.command("leaderboard")
def leaderboard(
    folder: Folder,
    system: System = None,
    until: Until = None,
    form: Annotated[str, choice(_FORMATS, "--format", text="Format.")] = "table",
    out: OutFile = None,
) -> None:
    """Print the table.

    Ranks are ranges at 95 %, and ± is the half-width of the rating's 95 % interval against the mean of all players.
    """
    from sb3_pvp.arena import table as tables

    require_known("format", form, _FORMATS)
    opened, moment = _opened(folder), _time(until)
    if form == "payoff":
        write(json.dumps(tables.payoff_matrix(opened.records(moment)), indent=1) + "\n", out)
        return
    lines = opened.table(_system(system), moment)
    cells = [dict(zip(tables.HEADER, row, strict=True)) for row in tables.as_cells(lines)]
    columns: Any = {name: (lambda row, name=name: row[name]) for name in tables.HEADER}
    formats: Any = {"csv": tables.as_csv, "json": tables.as_json, "markdown": tables.as_markdown}
    write(table(cells, columns) + "\n" if form == "table" else formats[form](lines), out)


@arena.command("recompute")
def recompute(
    folder: Folder, system: System = None, until: Until = None, as_json: AsJson = False, out: OutFile = None
) -> None:
    """Compute the table from the log alone.

    Writes it and says whether it is byte for byte the one before; with --system or --until only prints it.
    """
    if system is not None or until is not None:
        if as_json:
            raise Refusal("--system and --until print a JSON list anyway: leave --json out")
        leaderboard(folder, system, until, "json", out)
        return
    if out is not None:
        again = command_line("arena", "leaderboard", folder, "-o", out)
        raise Refusal(f"-o is for --system and --until: for the table, {again}")
    same = _opened(folder).recompute()
    words = {
        True: "identical to the one before",
        False: "NOT identical to the one before",
        None: "there was none before",
    }
    print_result({"identical": same}, f"{folder}: computed the table again: {words[same]}", as_json)


@arena.command("matches")
def matches(
    folder: Folder,
    player: Annotated[str | None, typer.Option(help="Only those of this player.")] = None,
    faults: Annotated[bool, typer.Option("--faults", help="Only those that were lost by a fault.")] = False,
    waiting: Annotated[bool, typer.Option("--waiting", help="Those that are still to be played, or failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """List matches."""
    from sb3_pvp.arena.table import matches_of

    opened = _opened(folder)
    if waiting:
        columns: Any = {name: f"{{0.{name}}}" for name in ("key", "player_a", "player_b", "reason")}
        print_table("matches", opened.store.waiting(), columns, as_json, "no match waits")
        return
    found = [
        {"match": each.key, "a": str(each.player_a), "b": str(each.player_b), "score": each.score,
         "fights": each.fights, "cause": f"{each.at_fault}: {each.cause}" if each.at_fault else ""}
        for each in matches_of(opened.log.records(detailed=True))
        if (player in (None, str(each.player_a), str(each.player_b))) and (each.at_fault or not faults)
    ]  # fmt: skip
    names = {name: f"{{{name}}}" for name in ("match", "a", "b", "score", "fights", "cause")}
    print_table("matches", found, names, as_json, "no matches")


@arena.command("verify")
def verify(
    folder: Folder,
    match: Match,
    no_decisions: Annotated[bool, typer.Option("--no-decisions", help="Do not let the players decide again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play the actions of a match again, and compare its outcome and every observation with those of then.

    Also says how many of the decisions the players' files take again: rounding depends on how many decide at once. The
    exit code is 1 if something differs.
    """
    from sb3_pvp.arena.replaying import verify as verified

    opened = _opened(folder)
    try:
        found = verified(opened, _match(opened, match), not no_decisions)
    finally:
        opened.close()
    columns: Any = {
        "fight": "{0.key}",
        "observations": lambda each: "identical" if each.same_observations else "DIFFERENT",
        "outcome": lambda each: "identical" if each.same_outcome else "DIFFERENT",
        "decisions": lambda each: "" if each.agreement is None else f"{each.agreement:.2%} again",
    }
    print_table("fights", found, columns, as_json)
    if not all(each.same_observations and each.same_outcome for each in found):
        raise typer.Exit(1)


@arena.command("replay")
def replay(
    folder: Folder,
    match: Match,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Output file.", dir_okay=False)] = None,
) -> None:
    """Turn a fight of a match into a single HTML page, and a recording beside it."""
    from sb3_pvp.arena.replaying import recording_of
    from sb3_pvp.matches.replay import save_fight, write_replay_page

    key = match if "/fight-" in match else f"{match}/fight-0"
    page = output or Path(f"{key.replace('/', '-')}.html")
    opened = _opened(folder)
    fight = recording_of(opened, _match(opened, key))
    save_fight(fight, page.with_suffix(".json.gz"))
    write_replay_page(fight, page)
    typer.echo(
        f"open {page} in a browser: {' against '.join(each.name for each in fight.players)}, {fight.outcomes[0]}"
    )


@arena.command("sprt")
def sprt(
    folder: Folder,
    a: Annotated[str, typer.Argument(help="A player.", metavar="A")],
    b: Annotated[str, typer.Argument(help="Another player.", metavar="B")],
    elo0: Annotated[float, typer.Option(help="A is not better at this difference or less.")] = 0.0,
    elo1: Annotated[float, typer.Option(help="A is better at this difference or more.")] = 20.0,
    alpha: Annotated[float, typer.Option(help="Probability of a wrong 'better'.")] = 0.05,
    beta: Annotated[float, typer.Option(help="Probability of a wrong 'not better'.")] = 0.05,
    max_pairs: Annotated[int | None, typer.Option(min=1, help="Stop after so many pairs of fights.")] = None,
    jobs: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Test whether A is better than B, in pairs of fights with swapped seats, until it is certain.

    Its fights are in the log, but change no rating. The exit code is 1 unless A is better.
    """
    from sb3_pvp.arena.exchange import compare_players
    from sb3_pvp.matches.sprt import Sprt

    opened, result = _opened(folder, jobs), None
    try:
        with progress("fighting"):
            for result in compare_players(opened, a, b, Sprt(elo0, elo1, alpha, beta), max_pairs):
                low, high = result.elo[1:]
                typer.echo(f"{result.num_fights} fights: llr {result.llr:.2f}, {low:.0f} to {high:.0f} Elo", err=True)
    finally:
        opened.close()
    assert result is not None
    verdict = result.verdict or "not decided"
    figures: Any = {"a": a, "b": b, "verdict": result.verdict, "llr": result.llr, "pairs": result.pairs}
    figures["elo"] = list(result.elo)
    text = f"{a} is {verdict} than {b}" if result.verdict else f"{a} against {b}: not decided"
    rating, low, high = result.elo
    print_result(
        figures, f"{text}: {rating:.0f} Elo ({low:.0f} to {high:.0f}) after {result.num_fights} fights", as_json
    )
    if result.verdict != "better":
        raise typer.Exit(1)


@arena.command("push")
def push(
    folder: Folder,
    model: Annotated[Path, typer.Argument(help="The model file, which must be trusted.")],
    repo_id: Annotated[str, typer.Argument(help="Repository on the hub: OWNER/NAME.", metavar="REPO")],
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
) -> None:
    """Push a fighter to the hub with the tags of the challenge, so that arenas find it."""
    from sb3_pvp.arena.challenge import load_challenge
    from sb3_pvp.policies.files.hub import push_fighter

    challenge = load_challenge(folder)
    if not challenge.entry.tags:
        raise Refusal(
            f"the challenge {challenge.name} asks for no tags: add some under entry in {folder}/challenge.yaml"
        )
    name, address = push_fighter(model, repo_id, private, None, None, (), challenge.entry.tags)
    typer.echo(f"pushed {name} with the tags {', '.join(challenge.entry.tags)}: {address}")


@arena.command("export")
def export(
    folder: Folder,
    out: OutFile = None,
    site: Annotated[Path | None, typer.Option(help="Write the page to this folder instead, as files.")] = None,
) -> None:
    """Export all matches as CSV: model1, model2, timestamp and result; or the whole page."""
    if site is not None:
        from sb3_pvp.arena.page.rendering import write_site

        with progress("writing the page"):
            count = write_site(_opened(folder), site)
        typer.echo(f"wrote {count} pages: open {site / 'index.html'}")
        return
    from sb3_pvp.arena.exchange import export_matches

    write(export_matches(_opened(folder)), out)


@arena.command("import")
def import_csv(folder: Folder, file: Annotated[Path, typer.Argument(help="A CSV file of arena export.")]) -> None:
    """Add the matches of a CSV to the log."""
    from sb3_pvp.arena.exchange import import_matches

    typer.echo(f"added {import_matches(_opened(folder), file.read_text(encoding='utf-8'))} matches")


def _opened(folder: Path, jobs: int | None = None, distribute: bool = False) -> Arena:
    from sb3_pvp.arena.arena import Arena

    return Arena(folder, jobs, distribute)


def _match(opened: Arena, key: str) -> str | MatchRecord:
    """Returns the key of a match in the log, or the fight of a person."""
    from sb3_pvp.arena.page.people import FOLDER, People

    return People(opened).fight(key) if key.startswith(f"{FOLDER}/") else key


def _admit(folder: Path, player: str, owner: str, trusted: bool, as_json: bool, how: str) -> None:
    opened = _opened(folder, 1)
    try:
        with progress("checking"):
            reports: list[AdmissionReport] = getattr(opened, how)(player, owner, trusted)
    finally:
        opened.close()
    print_result({"players": reports}, "\n".join(map(str, reports)) or "nobody new was found", as_json)
    if reports and all(report.refusal for report in reports):
        raise typer.Exit(1)


def _told(opened: Arena, summary: RoundSummary | None) -> str:
    if summary is None:
        season = opened.challenge.season
        return f"season {season.name}: {'it has not begun' if season.state() == 'before' else 'it is over'}"
    others = "" if summary.is_over else "; other matches of it are played elsewhere"
    return (
        f"round {summary.number}: {summary.matches} matches, {summary.fights} fights, {summary.faults} lost by faults, "
        f"{summary.failed} failed{others}"
    )


def _system(system: str | None) -> str | None:
    if system is not None:
        require_known("system", system, _SYSTEMS)
    return system


def _time(text: str | None) -> float | None:
    from datetime import UTC, datetime

    if text is None:
        return None
    with refusals(about="--until must be a date and time such as 2026-05-01T12:00:00+00:00"):
        moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
