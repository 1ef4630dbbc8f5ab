"""``sb3-pvp screen check`` and ``sb3-pvp screen record``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.common.arguments import json_object

_Game = Annotated[str, typer.Argument(help="A game that ships, such as xboard, or a YAML file, which must be trusted.")]
_Changes = Annotated[str, typer.Option(help="Values in place of those of the file.", metavar="JSON")]

screen = typer.Typer(help="Games behind a screen: try a file, and record how people play.", add_completion=False)


@screen.command("check")
def check(
    game: _Game,
    ticks: Annotated[int, typer.Option(min=1, help="Ticks of random play.")] = 50,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="PNG file for the last frame of the display.", dir_okay=False)
    ] = None,
    changes: _Changes = "{}",
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start a game, play at random, and show what its readers say and how well it keeps time."""
    from sb3_pvp.games.screen import ScreenEnv, ScreenError

    env = ScreenEnv(game, json_object(changes, "--changes"))
    try:
        env.action_space.seed(seed)
        _, info = env.reset(seed=seed)
        total, episodes, counts = 0.0, 1, dict.fromkeys(("frames", "late", "dropped", "unread"), 0)
        for tick in range(1, ticks + 1):
            _, reward, ended, truncated, info = env.step(env.action_space.sample())
            total += reward
            if "failed" in info:  # a check is to find that, not to begin anew
                raise ScreenError(info["failed"])
            is_over = (ended or truncated) and tick < ticks
            if is_over or tick == ticks:
                counts = {name: count + info[name] for name, count in counts.items()}
            if is_over:
                env.reset()
                episodes += 1
        if output is not None:
            from PIL import Image

            Image.fromarray(env.display.frame((0, 0, *env.game.display)).copy()).save(output)
    finally:
        env.close()
    figures: dict[str, Any] = {"game": env.game.name, "actions": int(env.action_space.n), "episodes": episodes}
    figures |= {"reward": total, **counts, "readings": info["readings"]}
    typer.echo(json.dumps(figures) if as_json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


@screen.command("record")
def record(
    game: _Game,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the demonstrations.", file_okay=False)],
    display: Annotated[
        str | None, typer.Option(help="The display to play on, such as :0; default: a virtual one, for VNC.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes.")] = 1,
    ticks: Annotated[int | None, typer.Option(min=1, help="Ticks of an episode at most.")] = None,
    changes: _Changes = "{}",
) -> None:
    """Record how a person plays: what is seen in each tick, and the action that is nearest to what was done."""
    from sb3_pvp.games.screen import ScreenEnv
    from sb3_pvp.games.screen.cli.recorder import record_play

    env = ScreenEnv(game, {"freeze": False, **json_object(changes, "--changes")}, display=display)
    try:
        record_play(env, output, episodes, lambda text: print(text, file=sys.stderr, flush=True), ticks)
    finally:
        env.close()
