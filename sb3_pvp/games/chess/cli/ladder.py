"""The ladder of engines: how strong a player is on the scale of a pool of engines."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from sb3_pvp.games.chess.cli.chess_games import ChessFight, ChessResult, GameFile, find_player, play_games
from sb3_pvp.games.chess.engines import engine, is_engine
from sb3_pvp.games.chess.notation import Opening, name_opening, openings, write_pgn
from sb3_pvp.players.league import Player
from sb3_pvp.players.league.bradley_terry import Interval, fit_bradley_terry
from sb3_pvp.players.league.payoff import Counts, Payoff
from sb3_pvp.players.search.search_settings import SEARCH_OF, parameters_of, read_search
from sb3_pvp.policies.files.shipped import find_model

#: From the weakest to the strongest. With the higher ratings an engine needs more nodes to be as strong as they say.
RUNGS = (
    "random",
    "stockfish?skill=0&nodes=1",
    "stockfish?elo=1350&nodes=1000",
    "stockfish?elo=1600&nodes=1000",
    "stockfish?elo=2000&nodes=10000",
    "stockfish?elo=2650&nodes=100000",
)
SCALE = "UCI_Elo is an engine-pool scale, not FIDE"
_EVENT = "sb3-pvp chess ladder"
_MANNER = "deterministic, seed 0"  #: Of games without that tag, which earlier versions wrote.
_PLIES = range(4, 9)  #: Of the lines with which games begin.
_OF_RESULT = {"1-0": 1, "0-1": -1, "1/2-1/2": 0}


class Rung(NamedTuple):
    """What a player has reached against one engine."""

    opponent: str
    counts: Counts
    #: By these games alone: on the engines' scale if the opponent's ``UCI_Elo`` is known, else the lead on it.
    elo: Interval | None
    on_scale: bool


def play_ladder(
    name: str,
    rungs: Sequence[str],
    games: int,
    file: Path,
    seed: int,
    deterministic: bool,
    say: Callable[[str], object],
) -> list[Rung]:
    """Plays what is left of a ladder: ``games`` on each rung, in pairs with swapped colors, appended to the file.

    ``say`` is told about each rung. Raises `ValueError` for a player or engine that is none, and if the file has games
    of another model, or of one that acts otherwise or by another seed; `sb3_pvp.games.chess.engines.EngineFailed` if an
    engine fails; what was played stays.
    """
    choice, game = find_player(name, deterministic)
    for rung in rungs:
        find_player(rung, False)
        if is_engine(rung):
            engine(rung).start()  # all, before the first game
    kept, version = GameFile(file), _version(str(choice.opponent))
    if others := {each.get("Model", "") for each in kept.games} - {version}:
        raise ValueError(
            f"{file} has games of {others.pop() or 'another player'}, not of {version}: choose another --output"
        )
    manner = f"{'deterministic' if deterministic else 'stochastic'}, seed {seed}"
    if others := {each.get("Manner", _MANNER) for each in kept.games} - {manner}:
        raise ValueError(f"{file} has games that are {others.pop()}, not {manner}: choose another --output")
    lines = [each for each in openings() if len(each.moves) in _PLIES]
    choices = {name: choice}
    for rung in rungs:
        done = {int(each["Round"]) for each in kept.games if each.get("Rung") == rung}
        todo = [number for number in range(1, games + 1) if number not in done]
        opponent = f"{rung} " if rung == name else rung  # it may play itself
        fights = [_planned(name, opponent, number, seed, lines) for number in todo]
        say(f"{rung}: {len(todo)} of {games} games to play")
        for index, result in play_games(fights, {**choices, opponent: find_player(rung, False)[0]}, game):
            heads = _heads(fights[index], result) | {"Round": str(todo[index]), "Rung": rung}
            heads |= {"Model": version, "Manner": manner}
            kept.append(write_pgn(heads, result.moves))
            kept.games.append(heads)
    return [rung_of(name, rung, kept.games) for rung in rungs]


def rung_of(name: str, rung: str, games: Sequence[Mapping[str, str]]) -> Rung:
    """Returns what a player has reached on a rung, by the tags of all games."""
    points = Counter(
        _OF_RESULT[each["Result"]] * (1 if int(each["Round"]) % 2 else -1) for each in games if each["Rung"] == rung
    )
    counts, elo = Counts(points[1], points[0], points[-1]), engine(rung).elo if is_engine(rung) else None
    return Rung(rung, counts, _elo_of([(counts, elo or 0.0)]) if counts.games else None, elo is not None)


def elo_together(rungs: Sequence[Rung]) -> Interval | None:
    """Returns the Elo by the games against all engines whose rating is known; ``None`` without such games."""
    known = [
        (each.counts, float(engine(each.opponent).elo or 0)) for each in rungs if each.on_scale and each.counts.games
    ]
    return _elo_of(known) if known else None


def _elo_of(results: Sequence[tuple[Counts, float]]) -> Interval:
    """Returns the rating of whoever has these results against opponents of these ratings."""
    payoff, player = Payoff(), Player("player")
    anchors = {Player(f"opponent{number}"): rating for number, (_, rating) in enumerate(results)}
    for opponent, (counts, _) in zip(anchors, results, strict=True):
        payoff.add(player, opponent, counts)
    return fit_bradley_terry(payoff, anchors=anchors).intervals()[player]


def _planned(name: str, opponent: str, number: int, seed: int, lines: Sequence[Opening]) -> ChessFight:
    """Returns the game of this number, from 1: odd ones with White, both of a pair with the same line."""
    line = lines[(seed + (number - 1) // 2 * 7) % len(lines)]  # from all over the table
    pair = (name, opponent) if number % 2 else (opponent, name)
    return ChessFight(pair, crc32(f"{seed} {opponent} {number}".encode()), line.moves)


def _heads(fight: ChessFight, result: ChessResult) -> dict[str, str]:
    opening = name_opening(result.moves)
    white, black = (each.strip() for each in fight.players)
    tags = {"Event": _EVENT, "White": white, "Black": black, "Result": result.result, "Termination": result.ending}
    return tags | {"ECO": opening.eco, "Opening": opening.name}


def _version(opponent: str) -> str:
    """Returns what tells a player from a later one of the same name."""
    searches = opponent.startswith(SEARCH_OF)
    path = find_model(read_search(opponent)[0]) if searches else Path(opponent)
    if not path.is_file():
        return opponent
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return f"{digest}?{parameters_of(read_search(opponent)[1])}" if searches else digest


def as_record(rung: Rung) -> dict[str, Any]:
    """Returns a rung as plain values."""
    figures = None if rung.elo is None else rung.elo._asdict()
    kind = "elo" if rung.on_scale else "lead"
    counts = rung.counts._asdict()
    return {"opponent": rung.opponent, **counts, "score": rung.counts.win_rate, kind: figures, "scale": SCALE}


def in_words(interval: Interval | None, on_scale: bool = True) -> str:
    """Returns a rating for people, with what it means beside it."""
    if interval is None:
        return "not rated"
    numbers = f"{interval.rating:.0f} [{interval.low:.0f}, {interval.high:.0f}]"
    return f"Elo {numbers} (engine pool, not FIDE)" if on_scale else f"Elo lead on it {numbers} (not FIDE)"
