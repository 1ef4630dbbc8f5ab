"""``python -m benchmarks screen_learning``: what models have learnt of a game behind a screen, beside random play."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecTransposeImage

from benchmarks.json_lines import append_line, read_lines
from benchmarks.report import Row, print_report, running_means
from sb3_pvp import load
from sb3_pvp.algorithms.presets import presets
from sb3_pvp.callbacks.metric_lines import SCORES
from sb3_pvp.cli.usage import use_one_thread
from sb3_pvp.common.errors import Refusal, one_line, refusals, require_known
from sb3_pvp.common.pictures import new_figure
from sb3_pvp.game import WorldError
from sb3_pvp.games.screen import ScreenEnv, read_screen_game
from sb3_pvp.zoo.worker_vec_env import ENDED, WorkerVecEnv

RANDOM, ALL = "random", "all models"
REPEATS = 10_000  #: Of the bootstrap.
WINDOW = 40  #: Episodes of a training that are averaged in the picture.


def bench_screen_learning(
    models: Annotated[list[Path], typer.Argument(help="Models, by their files.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The file of episodes: the same command goes on with it.", dir_okay=False)],
    preset: Annotated[str, typer.Option(help="The preset of their training, whose game is played.")] = "ScreenGalaga",
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each player.")] = 30,
    displays: Annotated[int | None, typer.Option(min=1, help="Displays side by side; default: as in training.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the actions.")] = 0,
    picture: Annotated[Path | None, typer.Option(help="Draw the returns of the trainings.", dir_okay=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play episodes of models, which draw their actions, and of random actions, in turns; compare mean returns.

    ``more`` is by how much a mean return is greater than the random one. Intervals are those of 95 % of a bootstrap
    over episodes. That of all models together first draws as many models as there are, then episodes of each; it is
    over the seeds of their trainings, if each has one of its own.

    ``ticks`` is how long an episode is, ``dropped`` the share of them for which there was no frame, ``lost`` how many
    episodes were under way at a kill or a failure, which are no part of the mean. ``hours`` is the play of the
    training, ``at most`` what it can have been.
    """
    use_one_thread()
    with refusals():
        if picture and (lacking := [str(path) for path in models if not (path.parent / SCORES).is_file()]):
            raise Refusal(f"--picture needs {SCORES} beside each model, not so {', '.join(lacking)}")
        known = {name: each for name, each in presets().items() if each.env_id == "Screen-v0"}
        require_known("preset", preset, known)
        hyperparams = known[preset].hyperparams()
        game = hyperparams["env_kwargs"]
        players = {RANDOM: preset} | {str(path): sha256(path.read_bytes()).hexdigest()[:16] for path in models}
        tick = read_screen_game(game["game"], game.get("changes")).tick
    try:
        play(players, out, game, episodes, displays or hyperparams["n_envs"], seed)
    except (EOFError, ConnectionError, WorldError) as error:
        why = one_line(error) if isinstance(error, WorldError) else ENDED
        print(f"benchmarks: error: {why}; the same command goes on", file=sys.stderr)
        raise typer.Exit(1) from None
    names = [name for name in players if name != RANDOM]
    rows = compared(read_lines(out), names)
    for row in rows:
        row |= hours_of_play(Path(row["case"]), tick) if row["case"] in names else {}
    if picture is not None:
        draw_trainings(picture, [Path(name) for name in names], rows[0], tick)
    print_report("screen_learning", rows, ("numpy", "mss"), as_json)


def play(
    players: Mapping[str, str], out: Path, game: Mapping[str, Any], episodes: int, displays: int, seed: int
) -> None:
    """Plays what the file lacks. All episodes that are begun count: the first ones to end would be the short ones.

    ``players`` are models by their files, and `RANDOM`, with what tells them from others of the same name. Raises
    `Refusal` if the file has episodes of such others.
    """
    lines = read_lines(out) if out.exists() else []
    for line in lines:
        if (player := line["player"]) in players and line.get("content") != players[player]:
            raise Refusal(f"{out} has episodes of another model {player}, or another preset: take another --out")
    played = Counter(line["player"] for line in lines if "return" in line)
    left = {player: episodes - played[player] for player in players}
    if lost := sum(("begins" in line) - ("return" in line) for line in lines if line["player"] in players):
        print(f"{lost} episodes did not come to an end, and are played again", file=sys.stderr)
    if max(left.values()) <= 0:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    set_random_seed(seed + len(lines))
    rng, models = np.random.default_rng(seed + len(lines)), {each: load(each) for each in players if each != RANDOM}
    env = VecTransposeImage(WorkerVecEnv([partial(ScreenEnv, **game)] * displays))

    def begin() -> str | None:
        player = max(left, key=lambda each: left[each])
        if left[player] <= 0:
            return None
        left[player] -= 1
        append_line(out, {"player": player, "content": players[player], "begins": True})
        return player

    try:
        on, returns, states = [begin() for _ in range(displays)], np.zeros(displays), dict[str, Any]()
        seen: Any = env.reset()
        starts = np.ones(displays, bool)
        while any(on):
            actions = rng.integers(env.action_space.n, size=displays)  # type: ignore[attr-defined]
            for player, model in models.items():
                if player in on:
                    own, states[player] = model.predict(seen, states.get(player), starts, deterministic=False)
                    actions = np.where([each == player for each in on], own, actions)
            seen, rewards, starts, infos = env.step(actions)
            returns += rewards
            for row in np.flatnonzero(starts).tolist():
                if (ended := on[row]) is not None:
                    counts = {name: infos[row][name] for name in ("frames", "late", "dropped")}
                    result = {"return": round(float(returns[row]), 6)} | counts
                    if "failed" in infos[row]:
                        result, left[ended] = {"failed": infos[row]["failed"]}, left[ended] + 1
                    append_line(out, {"player": ended, "content": players[ended]} | result)
                returns[row], on[row] = 0.0, begin()
    finally:
        env.close()


def compared(lines: Sequence[Mapping[str, Any]], models: Sequence[str]) -> list[Row]:
    """Returns a row for each player, and one for all models if there are several."""
    rng, rows = np.random.default_rng(0), list[Row]()
    ended = {
        name: [each for each in lines if each["player"] == name and "return" in each] for name in (RANDOM, *models)
    }
    begun = Counter(each["player"] for each in lines if "begins" in each)
    returns = {name: np.array([each["return"] for each in own]) for name, own in ended.items()}

    def drawn(name: str) -> Any:
        return rng.choice(returns[name], (REPEATS, len(returns[name]))).mean(axis=1)

    mean, means = returns[RANDOM].mean(), drawn(RANDOM)
    for name, own in ended.items():
        own_mean, own_means = (mean, means) if name == RANDOM else (returns[name].mean(), drawn(name))
        rows.append({"case": name} | _interval("return", own_mean, own_means))
        rows[-1] |= {} if name == RANDOM else _interval("more", own_mean - mean, own_means - means)
        ticks = [each["frames"] + each["dropped"] for each in own]
        rows[-1] |= {"episodes": len(own), "lost": begun[name] - len(own), "ticks": float(np.mean(ticks))}
        rows[-1]["dropped"] = sum(each["dropped"] for each in own) / sum(ticks)
    if len(models) > 1:
        places = rng.integers(len(models), size=(len(models), REPEATS))
        # A model that is drawn twice has other episodes the second time.
        each_time = [np.choose(place, [drawn(name) for name in models]) for place in places]
        all_mean, all_means = float(np.mean([returns[name].mean() for name in models])), np.mean(each_time, axis=0)
        rows.append({"case": ALL} | _interval("return", all_mean, all_means))
        rows[-1] |= _interval("more", all_mean - mean, all_means - means)
    return rows


def draw_trainings(path: Path, models: Sequence[Path], random: Row, tick: float) -> None:
    """Draws the mean of the last `WINDOW` returns of each model's training over hours of play, and random actions."""
    figure = new_figure(8, 4)
    axes = figure.subplots()
    for number, model in enumerate(models):
        lines = read_lines(model.parent / SCORES)
        hours = [line["step"] * tick / 3600 for line in lines]
        means = running_means([line["episode/score"] for line in lines], WINDOW)
        axes.plot(hours[WINDOW // 4 :], means[WINDOW // 4 :], color=f"C{number}", label=model.parent.name)
    axes.axhline(random["return"], color="k", linewidth=0.8, label="random actions, 95 % interval")
    axes.axhspan(random["return low"], random["return high"], color="k", alpha=0.12, linewidth=0)
    axes.set(xlabel="hours of play, of all displays together", ylabel=f"mean return of {WINDOW} episodes")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _interval(name: str, mean: Any, means: Any) -> Row:
    low, high = np.percentile(means, (2.5, 97.5))
    return {name: float(mean), f"{name} low": float(low), f"{name} high": float(high)}


def hours_of_play(model: Path, tick: float) -> Row:
    """Returns the hours of play of the run whose monitor files are beside a model, and what they can be at most.

    The first is of episodes that have come to an end. The displays stand still while the model learns: at most they
    play in all the time of the rollouts, if a run that was never stopped has logged each of these.
    """
    files, ticks, found = [*model.parent.glob("*.monitor.csv")], 0, Row()
    for file in files:
        for line in csv.DictReader(text for text in file.read_text().splitlines() if not text.startswith("#")):
            with suppress(KeyError, TypeError, ValueError):  # it was cut off, or another game's
                ticks += int(line["frames"]) + int(line["dropped"])
                found["hours"] = ticks * tick / 3600
    metrics = model.parent / "metrics.jsonl"
    rollouts = [each for each in (read_lines(metrics) if metrics.exists() else ()) if "rollout/time" in each]
    if rollouts and [each.get("time/iterations") for each in rollouts] == [*range(1, len(rollouts) + 1)]:
        found["at most"] = sum(each["rollout/time"] for each in rollouts) * len(files) / 3600
    return found
