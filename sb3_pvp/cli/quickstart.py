"""``sb3-pvp quickstart``: a first fighter, told as a story."""

from __future__ import annotations

import sys
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, print_result
from sb3_pvp.cli.usage import NumTimesteps, Seed, progress, use_one_thread
from sb3_pvp.common.errors import command_line
from sb3_pvp.game import HOME_GAME
from sb3_pvp.policies.files.shipped import default_fighter, shipped_file

if TYPE_CHECKING:
    from rich.console import Console

    from sb3_pvp.matches.evaluation import Score

_NUM_FIGHTS = 64  #: Of the new fighter against the one that ships.
_WIDTH = 30  #: Of a bar that shows a win rate of 100 %.


def quickstart(
    n_timesteps: NumTimesteps = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of fights for each win rate.")] = 400,
    log_folder: Annotated[Path, typer.Option("--log-folder", "-f", help="Log folder.", file_okay=False)] = Path("logs"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a first fighter in a few minutes.

    Prints its win rate before training, while it learns and after that, against the fighter that ships too, and shows
    what to try next. One of the fights becomes a replay page.
    """
    from rich.console import Console

    from sb3_pvp.algorithms.ppo.resumable import preserved_random_state
    from sb3_pvp.zoo import find_preset, train

    # This very file, even while rl-zoo3's lines go nowhere: with --json, stdout is for one JSON object.
    out = Console(
        file=sys.stderr if as_json else sys.stdout, soft_wrap=True, highlight=False, markup=False, emoji=False
    )
    defaults = find_preset(HOME_GAME).hyperparams()
    n_timesteps = n_timesteps or int(defaults["n_timesteps"])
    options = {
        "--n-timesteps": n_timesteps,
        "--seed": seed,
        "--log-folder": log_folder,
        # About 15 points for the learning curve, but at most one per rollout.
        "--eval-freq": max(n_timesteps // 15, defaults["n_envs"] * defaults["n_steps"]),
        "--eval-episodes": 128,
        "--n-eval-envs": 64,
        "--verbose": 0,
    }
    out.print(
        f"A new fighter fights the bot of {HOME_GAME}, learns from {n_timesteps:,} steps against\n"
        "it, and fights it again. That takes a few minutes; the first time, half a minute\n"
        "more, to compile the rules of the fight for this machine.\n"
    )
    before: list[Score] = []

    def begin(experiment: Any, model: Any) -> None:
        untrained = Path(experiment.save_path, "initial_model.zip")
        model.save(untrained)
        with preserved_random_state():
            before.append(_score(untrained, episodes, seed))
        out.print(f"Before training: {before[0]}\n\nNow it learns; each line is 128 fights on the way:")
        _show_learning(stack, out, experiment.callbacks, n_timesteps)

    use_one_thread()
    with redirect_stdout(StringIO()), ExitStack() as stack:
        run = train([str(word) for option in options.items() for word in option], begin)
    assert run is not None  # this is no sweep
    model, picture = run / f"{HOME_GAME}.zip", run / "learning_curve.png"
    after = _score(model, episodes, seed)
    out.print(f"\nAfter training:  {after}")
    figures: dict[str, Any] = {"model": str(model), "learning_curve": str(picture)}
    figures |= {"before": before[0].as_dict(), "after": after.as_dict()}
    _plot(run, picture, before[0])
    files = [(model, "the fighter"), (picture, "its learning curve")]
    opponent = default_fighter(HOME_GAME)
    if opponent is not None:
        page = run / "fight.html"
        score = _fight_the_shipped(model, opponent, page, seed)
        out.print(f"Against {opponent}: {score}")
        files.append((page, f"a fight against {opponent}, which ships: open it in a browser"))
        figures["shipped"] = {"opponent": opponent, **score.as_dict(), "replay": str(page)}
    again = command_line("evaluate", model, "--episodes", episodes, "--seed", seed)
    next_steps = [
        (again + (f" --opponent {opponent}" if opponent else ""), "fight again"),
        (command_line("record", model), "record another fight, to watch it tick by tick"),
        (command_line("train", "--preset", "PastSelfPlay", "-n", 1_000_000), "self-play, against itself and its past"),
    ]
    for title, rows in (("Saved", files), ("What to try next", next_steps)):
        out.print(f"\n{title}:")
        for what, why in rows:
            out.print(f"  {why}:\n      {what}")
    if as_json:
        print_result(figures, "", as_json)


def _score(model: Path, episodes: int, seed: int, **others: Any) -> Score:
    from sb3_pvp.matches.scoring import score_model

    def watch(processes: int) -> Any:
        return progress(f"{episodes} fights", episodes)

    return score_model(model, episodes, seed, watch, **others)[0]


def _show_learning(stack: ExitStack, out: Console, callbacks: list[Any], n_timesteps: int) -> None:
    """Shows a bar until the ``stack`` is closed, and a line for each evaluation of the training."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn
    from stable_baselines3.common.callbacks import ConvertCallback, EvalCallback

    evaluation = next(each for each in callbacks if isinstance(each, EvalCallback))
    columns = BarColumn(_WIDTH), TaskProgressColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=out, transient=True, redirect_stdout=False, disable=not out.is_terminal)
    task = stack.enter_context(bar).add_task("", total=n_timesteps)
    mark = "\u2588" if out.encoding.startswith("utf") else "#"

    def advance(variables: dict[str, Any], _: Any) -> bool:
        bar.update(task, completed=variables["self"].num_timesteps)
        return True

    def tell(*_: Any) -> bool:
        won, steps = evaluation.evaluations_successes[-1], evaluation.evaluations_timesteps[-1]
        share = sum(won) / len(won)
        out.print(f"{steps:>12,} steps  {share:>4.0%} won  {mark * round(share * _WIDTH)}")
        return True

    evaluation.verbose, evaluation.callback = 0, ConvertCallback(tell)
    callbacks.append(ConvertCallback(advance))


def _plot(run: Path, picture: Path, before: Score) -> None:
    """Plots the learning curve; evaluations begin after the first rollouts: the untrained model is its step 0."""
    import numpy as np

    from sb3_pvp.matches.curves import Band, find_runs, plot_curves, read_curve
    from sb3_pvp.matches.evaluation import wilson_interval

    curve = read_curve(find_runs([str(run)])[0], "eval_win_rate")
    first = (0, before.win_rate, *wilson_interval(before.wins, before.decided))
    columns = np.array([curve.steps, curve.center, curve.low, curve.high])
    band = Band(*np.insert(columns, 0, first, axis=1))
    plot_curves(picture, {run.name: band}, "win rate against the baseline bot", share=True)


def _fight_the_shipped(model: Path, opponent: str, page: Path, seed: int) -> Score:
    """Lets a model fight a fighter that ships, and writes one of the fights as a replay page."""
    from sb3_pvp.matches.replay import record_fight, write_replay_page
    from sb3_pvp.matches.scoring import start_of

    file = str(shipped_file(opponent))  # a file of the same name may lie here
    score = _score(model, _NUM_FIGHTS, seed, opponent=file)
    start, _ = start_of(str(model), None)
    write_replay_page(record_fight(model, file, seed=seed, reset_params=start), page)
    return score
