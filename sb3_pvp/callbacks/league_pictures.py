"""A league as pictures: who beats whom, and how ratings grew."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from stable_baselines3.common.logger import Figure as LoggedFigure
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks.rollouts import TABLES
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.selfplay import LEARNER, League, Player, Standing
from sb3_pvp.selfplay.leaderboard import of_snapshots
from sb3_pvp.selfplay.players import evenly_spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: So many rows of a payoff matrix can still be read.
MAX_PLAYERS = 24


def publish(league: League, standings: Sequence[Standing], logger: Logger) -> None:
    """Writes ``payoff.png`` and ``ratings.png`` into the league's folder, and logs both to TensorBoard.

    Without matplotlib there are none, which is told once.
    """
    try:
        pictures = {"payoff": draw_payoff(league, standings), "ratings": draw_ratings(standings)}
    except ImportError:
        warnings.warn("there are no pictures of the league without matplotlib: pip install matplotlib", stacklevel=2)
        return
    for name, figure in pictures.items():
        with replacing(league.folder / f"{name}.png") as path:
            figure.savefig(path, dpi=100)
        logger.record(f"league/{name}", LoggedFigure(figure, close=False), exclude=(*TABLES, "json"))


def draw_payoff(league: League, standings: Sequence[Standing]) -> Figure:
    """The win rates of at most `MAX_PLAYERS` players; white where two have never met."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 7), layout="constrained")
    players = shown_players(standings)
    names, axes = [str(player) for player in players], figure.subplots()
    rates = league.ratings().payoff.matrix(players)
    picture = axes.imshow(np.asarray(rates, float), vmin=0, vmax=1, cmap="RdYlGn", interpolation="nearest")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_title("win rate of the row against the column")
    figure.colorbar(picture, ax=axes)
    return figure


def draw_ratings(standings: Sequence[Standing]) -> Figure:
    """Ratings of the learner's snapshots over steps, with 95 % intervals; those of the others as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    own = of_snapshots(standings, LEARNER)
    steps = [step for step, _ in own]
    axes.plot(steps, [each.elo for _, each in own], "--", linewidth=1, label="Elo")
    axes.plot(steps, [each.rating for _, each in own], label="Bradley-Terry, 95 % interval")
    axes.fill_between(steps, [each.low for _, each in own], [each.high for _, each in own], alpha=0.2, linewidth=0)
    others = [each for each in standings if Player.parse(each.player).name != LEARNER]
    for number, each in enumerate(others[:8]):
        axes.axhline(each.rating, color=f"C{number + 2}", linewidth=0.8, linestyle=":", label=each.player)
    axes.set(xlabel="steps", ylabel="rating")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure


def shown_players(standings: Sequence[Standing]) -> list[Player]:
    """Up to half of the places for others, the rest for snapshots of the learner, evenly spread over their steps."""
    players = sorted((Player.parse(each.player) for each in standings), key=lambda player: (player.age, player))
    others = [player for player in players if player.name != LEARNER][-MAX_PLAYERS // 2 :]
    own = [player for player in players if player.name == LEARNER]
    return [*others, *evenly_spread(own, MAX_PLAYERS - len(others))]
