"""``python -m benchmarks search``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import Case, measure, positive_numbers, print_report
from sb3_pvp.common.arguments import json_object
from sb3_pvp.common.errors import refusals, require_known

search = typer.Typer(help="What search costs, and what it teaches.", invoke_without_command=True)

_PLAIN = "plain Python, one tree"


@search.callback()
def bench_search(
    context: typer.Context,
    trees: Annotated[str, typer.Option(help="Numbers of trees, comma-separated.")] = "1,16,128",
    simulations: Annotated[int, typer.Option(min=1, help="Of each tree.")] = 100,
    hidden: Annotated[int, typer.Option(min=1, help="Units of both layers of the network.")] = 128,
    seconds: Annotated[float, typer.Option(min=0.0, help="CPU seconds for each case.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure simulations of connect four with a network, beside a plain search in Python; agent steps are those."""
    if context.invoked_subcommand is not None:
        return
    import numpy as np
    import torch

    from benchmarks.search.plain import plain_search
    from sb3_pvp import PvpPPO
    from sb3_pvp.envs import PvpVecEnv
    from sb3_pvp.games.connect_four import CONNECT_FOUR, ConnectFourWorld
    from sb3_pvp.players.search.opponent import network_of
    from sb3_pvp.players.search.search import Search
    from sb3_pvp.players.search.search_settings import SearchSettings
    from sb3_pvp.policies import AutoregressivePolicy

    torch.set_num_threads(1)
    sizes = positive_numbers(trees, "--trees")
    env, networks = PvpVecEnv(1, game=CONNECT_FOUR), {"net_arch": [hidden, hidden]}
    network = network_of(PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2, seed=0, policy_kwargs=networks))
    world = ConnectFourWorld(max(sizes))
    world.reset()
    looking = Search(CONNECT_FOUR, network, SearchSettings(simulations=simulations))
    cases = [Case(_PLAIN, 1, simulations, partial(plain_search, world, 0, network, simulations))]
    for size in sizes:
        given = world, np.arange(size), world.movers[:size], [None] * size
        cases.append(Case(f"{size} trees", size, size * simulations, partial(looking.look, *given), _PLAIN))
    print_report("search", measure(cases, seconds), ("numba", "numpy", "torch"), as_json)


@search.command("run")
def run(
    parts: Annotated[
        list[str], typer.Argument(help="Methods with seeds, such as expert:0 self-play:0, in this order.")
    ],
    out: Annotated[Path, typer.Option(help="The folder; measurements are appended to its file.")],
    minutes: Annotated[float, typer.Option(min=0.1, help="CPU minutes of each part in all.")] = 30,
    every: Annotated[float, typer.Option(min=1, help="CPU seconds between measurements.")] = 30,
    network: Annotated[str, typer.Option(help="Of the model: planes, which are convolutions, or layers.")] = "planes",
    settings: Annotated[str, typer.Option(help="Settings that replace those of the callback, as JSON.")] = "{}",
) -> None:
    """Learn connect four on one core, by expert iteration or by self-play alone.

    A part that was stopped goes on from its last measurement; one that is complete is left out.
    """
    changes = json_object(settings, "--settings")
    from benchmarks.search.learning import METHODS, NETWORKS, run_part

    with refusals():
        require_known("network", network, NETWORKS)
        chosen = []
        for part in parts:
            method, _, seed = part.partition(":")
            require_known("method", method, METHODS)
            if not seed.isdecimal():
                raise ValueError(f"a part is a method with its seed, such as {method}:0; got {part!r}")
            chosen.append((method, int(seed)))
        for method, number in chosen:
            run_part(method, number, minutes, every, out, network, changes)


@search.command("draw")
def draw(
    folder: Annotated[Path, typer.Argument(help="The folder of the parts.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture.", dir_okay=False)] = Path("search-shares.png"),
) -> None:
    """Draw the share of solved positions answered best over CPU time, and print the last ones as a Markdown table."""
    from benchmarks.search.pictures import draw_shares, read_shares, table

    with refusals():
        shares = read_shares(folder)
    draw_shares(out, shares)
    typer.echo(table(shares))
