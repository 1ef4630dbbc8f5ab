"""``python -m benchmarks arena``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from itertools import combinations
from tempfile import TemporaryDirectory
from typing import Annotated

import psutil
import typer

from benchmarks.arena_page import bench_page
from benchmarks.report import Row, print_report
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.playing import MatchFight, MatchProcess
from sb3_pvp.cli.usage import use_one_thread
from sb3_pvp.common.sandbox.sandbox import Sandbox
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.matches.rating import play_matches
from sb3_pvp.players.league import League, Player
from sb3_pvp.policies.files.shipped import shipped_file, shipped_names

_SCRIPTS = ("scripted", "stayalive")


def bench_arena(
    game: Annotated[str, typer.Option(help="A game with fighters that ship.")] = "NhEnv",
    fights: Annotated[int, typer.Option(min=2, help="Fights of each pair of players.")] = 40,
    repeat: Annotated[int, typer.Option(min=1, help="Number of alternating measurements.")] = 3,
    page: Annotated[bool, typer.Option("--page", help="Measure the page with 200 viewers and 20 live fights.")] = False,
    seconds: Annotated[float, typer.Option(min=30, help="With --page: how long.")] = 600.0,
    people: Annotated[int, typer.Option(min=0, help="With --page: how many people play beside.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare what a fight costs in an arena's sandbox and in a league, in CPU time, with the same players."""
    use_one_thread()
    if page:
        print_report("arena page", bench_page(game, seconds, people), ("torch", "numba"), as_json)
        return
    names = [*shipped_names(game), *_SCRIPTS]
    pairs = list(combinations(names, 2))
    challenge = Challenge(name="benchmark", game=game)
    settings = FightSettings(game=game)
    rows = list[Row]()
    with TemporaryDirectory() as folder, closing(MatchProcess(challenge.model_dump(mode="json"))) as part:
        league, players = League(folder), dict[str, tuple[str, str, tuple[str, bytes] | None]]()
        for name in names:
            file = shipped_file(name)
            content = None if file is None else (f"{name}.fighter", file.read_bytes())
            players[name] = ("script", name, None) if content is None else ("fighter", content[0], content)

        def in_league(first: int) -> int:
            return len(play_matches(league, {_players(pair): fights for pair in pairs}, first, settings, jobs=1))

        def in_arena(first: int) -> int:
            planned = _planned(pairs, fights, first)
            return len(list(part.play(players, planned)))

        for kind in (in_league, in_arena):  # compiles, and starts the sandbox
            kind(1_000_000)
        sandbox: Sandbox = part._sandbox._sandbox
        worker = sandbox._worker
        assert worker is not None
        guard = psutil.Process(worker._process.pid)
        for number in range(repeat):
            for name, kind in (("league", in_league), ("arena", in_arena)):
                rows.append(_measured(name, kind, number * 10_000, guard))
    print_report("arena", rows, ("torch", "numba"), as_json)


def _players(pair: tuple[str, str]) -> tuple[Player, Player]:
    return Player(pair[0]), Player(pair[1])


def _planned(pairs: list[tuple[str, str]], fights: int, first: int) -> list[MatchFight]:
    seats = [(pair, n) for pair in pairs for n in range(fights)]
    return [
        MatchFight(f"{a} {b}", n, *((a, b), (b, a))[n % 2], first + k // 2) for k, ((a, b), n) in enumerate(seats)
    ]  # fmt: skip


def _measured(name: str, play: Callable[[int], int], first: int, guard: psutil.Process) -> Row:
    def seconds() -> float:
        inside = [guard, *guard.children(recursive=True)]
        return time.process_time() + sum(sum(each.cpu_times()[:2]) for each in inside)

    before, count = seconds(), play(first)
    cpu = seconds() - before
    return Row(case=name, fights=count, cpu_s=cpu, fights_per_core_s=count / cpu)
