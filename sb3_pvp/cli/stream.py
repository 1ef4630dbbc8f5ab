"""``sb3-pvp stream``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.usage import complete_model, use_one_thread
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import Refusal, extra, refusals

_WHAT = "An environment that draws pictures, such as Screen-v0; an arena's page; or a display such as :0."
_TO = "A folder, for HLS, or rtmp://HOST/APP/KEY; in SB3_PVP_STREAM a key is hidden from ps."


def stream(
    what: Annotated[str, typer.Argument(help=_WHAT)],
    to: Annotated[str, typer.Option(help=_TO, envvar="SB3_PVP_STREAM")],
    model: Annotated[
        Path | None, typer.Option(help="Who plays; default: random actions.", autocompletion=complete_model)
    ] = None,
    env_kwargs: Annotated[str, typer.Option(help="Arguments of the environment.", metavar="JSON")] = "{}",
    deterministic: Annotated[bool, typer.Option("--deterministic", help="Take the most likely actions.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    size: Annotated[str, typer.Option(help="Width and height of the video.")] = "1280x720",
    fps: Annotated[int, typer.Option(min=1, max=60, help="Pictures of a second.")] = 25,
    seconds: Annotated[float | None, typer.Option(min=0, help="How long; default: until it is stopped.")] = None,
    figure: Annotated[list[str] | None, typer.Option(help="A line of the panel, such as rating=1534.")] = None,
) -> None:
    """Show what a player does as a video that goes on, with figures beside it.

    It starts anew what ends: ffmpeg, the connection to an arena. The same command goes on with the video in a folder.
    """
    import gymnasium

    from sb3_pvp.matches.stream import Broadcast, display_shows, env_shows, live_shows
    from sb3_pvp.policies.files.model_files import load

    if (read := re.fullmatch(r"(\d{2,4})x(\d{2,4})", size)) is None or int(read[1]) % 2 or int(read[2]) % 2:
        raise Refusal(f"--size must be two even numbers such as 1280x720, not {size!r}")
    is_page, is_display = what.startswith(("http://", "https://")), re.fullmatch(r"\S*:\d+(\.\d+)?", what)
    own = {"--model": model, "--env-kwargs": env_kwargs != "{}", "--deterministic": deterministic, "--seed": seed}
    if (is_page or is_display) and (given := [name for name, value in own.items() if value]):
        raise Refusal(f"{what} is no environment: leave out {' and '.join(given)}")
    with extra("screen", "streams"):
        import PIL  # noqa: F401  (before ffmpeg starts)
    sender = Broadcast(to, (int(read[1]), int(read[2])), fps, dict(each.partition("=")[::2] for each in figure or ()))
    if is_page:
        with extra("arena", "streams of an arena's page"):
            import websockets  # noqa: F401
        shows = live_shows(what)
    elif is_display:
        with extra("screen", "streams of displays"):
            import mss  # noqa: F401
        shows = display_shows(what, fps)
    else:
        use_one_thread()
        player = load(model) if model else None
        with refusals(gymnasium.error.Error, RuntimeError, TypeError, about=f"cannot make {what}"):
            env = gymnasium.make(what, render_mode="rgb_array", **json_object(env_kwargs, "--env-kwargs"))
        if "rgb_array" not in env.metadata.get("render_modes", ()):
            raise Refusal(f"{what} draws no pictures: streams need the render mode rgb_array")
        shows = env_shows(env, player, deterministic, seed)
    with refusals(gymnasium.error.Error):
        sender.send_all(shows, seconds)
    typer.echo(f"{sender.name}: {sender.sent} pictures, {sender.lost} lost, ffmpeg started {sender.starts} times")
