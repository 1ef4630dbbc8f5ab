"""The runs of a study: what each recipe has reached, as data, as a table and as a picture."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, get_args

from pydantic import BaseModel

from benchmarks.learning_curves.records import Evaluation, read_evaluations, read_settings
from benchmarks.learning_curves.run import CHECKPOINT
from sb3_pvp.callbacks.exploiters.best_response import FIGURES, Start
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.pictures import new_figure
from sb3_pvp.players.league import League, Player, file_name
from sb3_pvp.players.league.league import PLAYERS
from sb3_pvp.policies.files.model_files import load

STARTS: tuple[Start, ...] = get_args(Start)
#: Beside the checkpoint of a run: ``sb3-pvp export checkpoint.zip --average --output averaged.fighter``.
AVERAGED = "averaged"


class Curve(BaseModel):
    """The win rate of a best response against the fighter, while it trains."""

    start: Start
    seed: int
    steps: list[int]
    win_rates: list[float]
    final: float  #: Of its best model, in fights that did not choose it.


class Trained(BaseModel):
    """A run of a recipe."""

    recipe: str
    seed: int
    steps: int
    cpu_minutes: float
    #: Against the baseline, in the last evaluation, with its interval; that of an averaged policy is not measured.
    win_rate: float | None = None
    ci95: tuple[float, float] | None = None
    exploitability: float | None  #: Lower bound, see docs/exploitability.md.
    responses: list[Curve]
    #: By build: what the best of the responses to fights in it alone wins.
    builds: dict[str, float] = {}
    #: Bradley-Terry with its 95 % interval, in the league of its seed.
    rating: tuple[float, float, float] | None = None

    @property
    def player(self) -> Player:
        """Its name in a league."""
        return Player(f"{self.recipe}-{self.seed}", self.steps)

    @property
    def exploited(self) -> float | None:
        """What the best of its responses wins: in the worst build, if it was measured by build."""
        return max(self.builds.values() or (each.final for each in self.responses), default=None)


def read_run(folder: Path) -> list[Trained]:
    """Reads a run of ``learning_curves train``, with the figures of ``sb3-pvp exploit`` on its checkpoint, if any.

    The averaged policy of the run is a second one, if its export, `AVERAGED`, was exploited too. Raises `ValueError` if
    there is no run, or it has no evaluation yet.
    """
    settings, evaluations = read_settings(folder), read_evaluations(folder)
    if not evaluations:
        raise ValueError(f"the run in {folder} has no evaluation yet")
    name, seed, last = settings["preset"], settings["seed"], evaluations[-1]
    policy = _trained(name, seed, last, *_read_figures(folder / "exploit", Path(CHECKPOINT).stem))
    averaged = _trained(f"{name}, averaged", seed, last, *_read_figures(folder / "exploit", AVERAGED))
    found = [policy.model_copy(update={"win_rate": last.win_rate, "ci95": last.ci95})]
    return found if averaged.exploited is None else [*found, averaged]


def _read_figures(folder: Path, fighter: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Returns the figures over all builds, and what the best response in each build wins; both may be empty."""
    figures, of_builds = folder / fighter / FIGURES, folder / f"{fighter}-each-build"
    builds = {file.parent.name: json.loads(file.read_text()) for file in sorted(of_builds.glob(f"*/{FIGURES}"))}
    return (
        json.loads(figures.read_text()) if figures.is_file() else {},
        {build: found["result"]["value"] for build, found in builds.items()},
    )


def _trained(name: str, seed: int, last: Evaluation, found: dict[str, Any], builds: dict[str, float]) -> Trained:
    return Trained(
        recipe=name,
        seed=seed,
        steps=last.steps,
        cpu_minutes=last.cpu_s / 60,
        exploitability=found.get("lower_bound"),
        responses=[
            Curve(
                start=each["start"],
                seed=each["seed"],
                steps=[point["steps"] for point in each["curve"]],
                win_rates=[point["value"] for point in each["curve"]],
                final=each["result"]["value"],
            )
            for each in found.get("responses", [])
            if each["result"] is not None
        ],
        builds=builds,
    )


def add_to_league(folder: Path, runs: Iterable[Path]) -> None:
    """Copies the fighters of runs into a league, whose fights start like theirs, for ``sb3-pvp league rate``."""
    league = League(folder)
    for run in runs:
        with replacing(league.folder / PLAYERS / file_name(read_run(run)[0].player)) as partial:
            shutil.copyfile(run / CHECKPOINT, partial)
        model: Any = load(run / CHECKPOINT)
        league.set_fights(model.game, model.reset_params)


def drawn_builds(win_rates: Mapping[str, float], most: int) -> list[str]:
    """Returns each build at least once, and the one in which the best response wins most ``most`` times.

    The number of the others is in between by what their best responses win; who wins half of its fights or less has
    found nothing.
    """
    excess = {build: max(rate - 0.5, 0.0) for build, rate in win_rates.items()}
    highest = max(excess.values()) or 1.0
    return [build for build, more in excess.items() for _ in range(1 + round((most - 1) * more / highest))]


def with_rating(run: Trained, league: Path | None) -> Trained:
    """Returns the run with its rating, if it is in the league and was rated."""
    lines = [] if league is None else League.existing(league).leaderboard()
    found = [(each.rating, each.low, each.high) for each in lines if each.player == str(run.player) and each.games]
    return run.model_copy(update={"rating": found[0]}) if found else run


def merged(path: Path, runs: Sequence[Trained]) -> list[Trained]:
    """Writes the runs into a JSON file, in place of those with the same recipe and seed, and returns all in it."""
    before = [Trained.model_validate(each) for each in json.loads(path.read_text())] if path.is_file() else []
    together = {(each.recipe, each.seed): each for each in (*before, *runs)}
    found = [together[key] for key in sorted(together)]
    write_atomically(path, json.dumps([each.model_dump() for each in found], indent=1) + "\n")
    return found


def table(runs: Sequence[Trained]) -> str:
    """Returns a Markdown table of means over seeds, with the range if there are several; the least exploited first.

    Columns are the builds in which responses were trained and the worst of them, or the starts of the responses.
    """
    builds = _builds(runs)
    exploited = [*builds, "worst build"] if builds else [f"best response, {STARTS[0]}", *STARTS[1:]]
    head = ["recipe", "seeds", "steps", "win rate against the baseline", *exploited, "rating"]
    rows = []
    for name in _order(runs):
        own = [run for run in runs if run.recipe == name]
        of_starts = [[each.final for run in own for each in run.responses if each.start == start] for start in STARTS]
        of_builds = [[run.builds[build] for run in own if build in run.builds] for build in builds]
        worst = [run.exploited for run in own if run.exploited is not None]
        rows.append(
            [
                name,
                str(len(own)),
                f"{mean(run.steps for run in own) / 1e6:.1f} M",
                _cell([run.win_rate for run in own if run.win_rate is not None], ".1%"),
                *(_cell(finals, ".1%") for finals in ([*of_builds, worst] if builds else of_starts)),
                _cell([run.rating[0] for run in own if run.rating is not None], ".0f"),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _cell(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    spread = f" ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else ""
    return f"{mean(values):{form}}{spread}"


def draw(path: Path, runs: Sequence[Trained]) -> None:
    """Draws what best responses win, the least exploited recipe first: by build, or their curves."""
    (_draw_builds if _builds(runs) else _draw_curves)(path, runs)


def _draw_builds(path: Path, runs: Sequence[Trained]) -> None:
    """Draws what the best response wins in each build against each seed, and the mean over seeds in the worst build."""
    names = _order(runs)[::-1]
    figure = new_figure(8, 1.2 + 0.4 * len(names))
    axes = figure.subplots()
    for number, build in enumerate(_builds(runs)):
        own = [(run.builds[build], names.index(run.recipe)) for run in runs if build in run.builds]
        values, rows = zip(*own, strict=True)
        axes.scatter(values, rows, color=f"C{number}", s=22, alpha=0.7, label=build)
    means = [_worst(runs, name) for name in names]
    axes.scatter(means, range(len(names)), marker="|", color="black", s=260, label="worst build, mean")
    axes.axvline(0.5, color="0.7", linewidth=0.8)
    axes.set(yticks=range(len(names)), yticklabels=names, xlabel="what the best response wins")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _draw_curves(path: Path, runs: Sequence[Trained]) -> None:
    names = _order(runs)
    figure = new_figure(3.2 * len(names), 3.4)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        for curve in (curve for run in runs if run.recipe == name for curve in run.responses):
            is_warm = curve.start == "warm"
            million = [step / 1e6 for step in curve.steps]
            panel.plot(million, curve.win_rates, color="C3" if is_warm else "C0", alpha=0.8, label=curve.start)
        panel.axhline(0.5, color="0.7", linewidth=0.8)
        panel.set(title=name, ylim=(0, 1), xlabel="million steps")
        panel.yaxis.set_major_formatter("{x:.0%}")
    panels[0].set_ylabel("best response wins")
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines() if line.get_label()[0] != "_"}
    panels[0].legend(lines.values(), lines.keys(), frameon=False, loc="lower right")
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _builds(runs: Sequence[Trained]) -> list[str]:
    """Returns the builds in which responses were trained."""
    return sorted({build for run in runs for build in run.builds})


def _order(runs: Sequence[Trained]) -> list[str]:
    """Returns the recipes, the least exploited first."""
    return sorted({run.recipe for run in runs}, key=lambda name: _worst(runs, name))


def _worst(runs: Sequence[Trained], name: str) -> float:
    """What the best response wins, in the worst build if it was measured by build: mean over a recipe's seeds."""
    return mean([1.0 if run.exploited is None else run.exploited for run in runs if run.recipe == name])
