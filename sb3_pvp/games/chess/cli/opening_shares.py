"""Which named lines of chess a model plays against itself, over its training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import extra
from sb3_pvp.common.pictures import new_figure
from sb3_pvp.games.chess.cli.chess_games import ChessFight, find_player, play_games
from sb3_pvp.games.chess.notation import name_opening, write_pgn
from sb3_pvp.players.league.players import LEARNER, player_of_file

_EVENT = "sb3-pvp chess openings"
_MOST_LINES = 8  #: That have a color of their own in the picture.
OTHERS = "all others"


class Repertoire(NamedTuple):
    """The lines of a model at one time of its training."""

    model: str
    steps: int | None  #: ``None`` if the name of the file does not say.
    shares: Mapping[str, float]  #: By line, such as ``C60 Ruy Lopez``, the most frequent first.


def models_of(source: str) -> list[str]:
    """Returns the model itself, or the checkpoints in a folder, the youngest first; `ValueError` if it has none.

    Of several players, as in the folder of a league, those of the one with most of them: no exploiter, but the learner.
    """
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    by_name = dict[str, dict[int, str]]()
    for path in sorted(folder.rglob("*_steps.zip")):
        with suppress(ValueError):  # another file
            player = player_of_file(path)
            by_name.setdefault(player.name, {}).setdefault(player.age, str(path))
    if not by_name:
        raise ValueError(f"{folder} has no checkpoints, such as main_1024_steps.zip")
    _, found = max(by_name.items(), key=lambda each: (len(each[1]), each[0] == LEARNER))
    return [found[age] for age in sorted(found)]


def play_openings(
    models: Sequence[str], games: int, seed: int, stem: Path, say: Callable[[str], object]
) -> list[Repertoire]:
    """Lets each model play against itself, with sampled actions; writes all games and a picture beside the ``stem``."""
    with extra("plots", "pictures"):
        import matplotlib  # noqa: F401  (before work whose end is a picture)
    played, texts = list[Repertoire](), list[str]()
    for name in models:
        choice, game = find_player(name, deterministic=False)
        fights = [ChessFight((name, name), seed + number) for number in range(games)]
        lines = Counter[str]()
        say(f"{name}: {games} games against itself")
        for number, result in play_games(fights, {name: choice}, game):
            opening = name_opening(result.moves)
            lines[str(opening)] += 1
            heads = {"Event": _EVENT, "Round": str(number + 1), "White": name, "Black": name, "Result": result.result}
            facts = {"Termination": result.ending, "ECO": opening.eco or "?", "Opening": opening.name}
            texts.append(write_pgn(heads | facts, result.moves))
        played.append(Repertoire(name, _steps(name), {line: n / games for line, n in lines.most_common()}))
    write_atomically(stem.with_name(f"{stem.name}.pgn"), "".join(texts))
    draw(played, stem.with_name(f"{stem.name}.png"))
    return played


def draw(played: Sequence[Repertoire], path: Path) -> None:
    """Draws the share of each line over training, the most frequent ones with their names."""
    total = Counter[str]()
    for each in played:
        total.update(each.shares)
    named = [line for line, _ in total.most_common(_MOST_LINES)]
    shares = np.array([[each.shares.get(line, 0.0) for each in played] for line in named])
    shares = np.vstack([shares, 1 - shares.sum(axis=0)])
    figure = new_figure(9, 5)
    axes = figure.subplots()
    places = np.arange(len(played))
    bottom = np.zeros(len(played))
    for line, heights in zip([*named, OTHERS], shares, strict=True):
        axes.bar(places, heights, 0.8, bottom, label=line, color="lightgray" if line == OTHERS else None)
        bottom += heights
    axes.set_xticks(places, [_label(each) for each in played], rotation=30, ha="right")
    axes.set(ylabel="share of games", ylim=(0, 1))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", frameon=False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120)


def _steps(name: str) -> int | None:
    try:
        return player_of_file(name).step
    except ValueError:
        return None


def _label(repertoire: Repertoire) -> str:
    return Path(repertoire.model).stem if repertoire.steps is None else f"{repertoire.steps:,} steps"
