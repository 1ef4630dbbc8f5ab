"""``python -m benchmarks model_card``: measures a fighter that ships, and writes its card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.utils import set_random_seed

from benchmarks.card_text import card_text
from sb3_pvp.callbacks.exploiters.best_response import FIGURES
from sb3_pvp.callbacks.exploiters.each_build import FIGURES as EACH_BUILD
from sb3_pvp.cli.usage import Jobs, Seed, use_one_thread, watched
from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.measures import summarize
from sb3_pvp.game import Game
from sb3_pvp.matches.evaluation import finished_episodes
from sb3_pvp.matches.scoring import score_model
from sb3_pvp.players.opponents import make_opponent
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.model_files import game_of, load
from sb3_pvp.policies.files.shipped import (
    SUFFIX,
    Card,
    find_model,
    shipped_card,
    shipped_folder,
    shipped_names,
    shipped_version,
)

_NUM_ENVS = 64
_MAX_POINTS = 20  #: Of a learning curve.
#: Numbers of a card by the metric's tag; for what is counted in a fight also the way to a number per fight.
_SHARES = {
    "combat/prayer/protected_prayer_correct": "hits received that met the right prayer",
    "combat/prayer/hit_off_prayer": "own hits that the opponent's prayer did not protect against",
    "combat/prayer/protected_prior_prayer_correct": "prayers that suited what the opponent wielded one tick earlier",
    "combat/eating/eat_from_average": "health at which it eats",
    "combat/eating/mean_player_food_on_death_scale": "food left at its death, in health bars",
}
_PER_FIGHT = {
    "combat/eating/count_food_eaten": "ticks of eating, per fight",
    "combat/eating/count_wasted_food": "ticks of eating that wasted food, per fight",
    "combat/eating/total_wasted_food_scale": "food wasted, in health bars per fight",
}
_SPECIALS = "special attacks chosen, per fight"


def model_card(
    name: Annotated[str, typer.Argument(help="The fighter's name.")],
    train: Annotated[Path, typer.Option(help="JSON of what only its trainer knows: see `Card`.", dir_okay=False)],
    model: Annotated[Path | None, typer.Option(help="Model to export to this name first.")] = None,
    new_version: Annotated[bool, typer.Option("--new-version", help="Keep the one before as NAME@VERSION.")] = False,
    run: Annotated[Path | None, typer.Option(help="Run folder, for the learning curve.", file_okay=False)] = None,
    rival: Annotated[
        list[Path] | None, typer.Option(help="Model that does not ship, to meet too; may be repeated.")
    ] = None,
    exploit: Annotated[list[Path] | None, typer.Option(help="Folder of sb3-pvp exploit; may be repeated.")] = None,
    each_build: Annotated[
        Path | None, typer.Option(help="Folder of sb3-pvp exploit --each-build.", file_okay=False)
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Fights against each opponent, all builds together.")] = 7000,
    behaviour: Annotated[int, typer.Option(min=1, help="Fights for the numbers of its behaviour.")] = 512,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """Measure a fighter that ships, and write its card into models/.

    The JSON of --train has at least: description, command, steps, cpu_hours. Fights start as in its training, and
    actions are sampled.
    """
    use_one_thread()
    file = _file_of(name)
    fighter = load(find_model(model or file))
    game = game_of(fighter)
    facts: dict[str, Any] = json.loads(train.read_text(encoding="utf-8"))
    facts |= {"game": game.name, "sha256": ""}  # of a file that is not written yet
    if run is not None:
        facts["curve"] = _curve(run)
    facts["exploitability"] = [_exploitability(json.loads((f / FIGURES).read_text("utf-8"))) for f in exploit or ()]
    if each_build is not None:
        found = json.loads((each_build / EACH_BUILD).read_text("utf-8"))["builds"]
        facts["each_build"] = {build: _exploitability(each) for build, each in found.items()}
    read_model(Card, facts, "fact")  # refuses what is wrong before any file changes
    if new_version and file.is_file():
        _keep_earlier(name)
    if model is not None:
        export_fighter(fighter, file, onnx=False)
    fighter = load(find_model(file), safe=True)
    facts["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    facts["fights"] = {each: _fights(file, each, episodes, seed, jobs) for each in _rivals(game) if each != name}
    facts["fights"] |= {each.stem: _fights(file, str(each), episodes, seed, jobs) for each in rival or ()}
    facts["behaviour"] = {
        "baseline": _behaviour(fighter, game, "baseline", behaviour, seed),
        "itself": _behaviour(fighter, game, str(file), behaviour, seed),
    }
    card = Card.model_validate(facts)
    _write(name, card)
    typer.echo(f"{file.with_suffix('.md')}: {card.description}")


def _keep_earlier(name: str) -> None:
    """Renames a fighter to ``NAME@VERSION``, also among the opponents in the cards of others."""
    kept = f"{name}@{shipped_version(name)}"
    for ending in (SUFFIX, ".json", ".md"):
        file = _file_of(name).with_suffix(ending)
        file.rename(file.with_name(f"{kept}{ending}"))
    _write(kept, shipped_card(kept).model_copy(update={"default": False}))
    for each in shipped_names():
        fights = (card := shipped_card(each)).fights
        if name in fights:
            renamed = {kept if rival == name else rival: score for rival, score in fights.items()}
            _write(each, card.model_copy(update={"fights": renamed}))


def _write(name: str, card: Card) -> None:
    """Writes the card of a fighter that ships, also as text."""
    file = _file_of(name)
    write_atomically(file.with_suffix(".json"), card.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    write_atomically(file.with_suffix(".md"), card_text(name, card) + "\n")


def _file_of(name: str) -> Path:
    folder = shipped_folder()
    assert folder is not None, "a checkout has the folder models"
    return folder / f"{name}{SUFFIX}"


def _rivals(game: Game) -> Iterator[str]:
    """Yields whom a fighter meets: all that can play this game; other fighters that ship need a card by now."""
    yield "baseline"
    for name in game.scripts:
        with suppress(ValueError):  # that of another game of the same family
            make_opponent(name, game.contract, game)
            yield name
    yield from shipped_names(game.name)


def _fights(file: Path, opponent: str, episodes: int, seed: int, jobs: int | None) -> dict[str, Any]:
    """Plays against one opponent; returns its part of the card."""
    score, _, _ = score_model(file, episodes, seed, watched(episodes), False, jobs=jobs, opponent=opponent)
    typer.echo(f"against {opponent}: {score}")
    groups = {name: group.as_dict() for name, group in sorted(score.groups.items())}
    return {**score.as_dict(), "groups": groups if len(groups) > 1 else {}}


def _behaviour(model: MaskablePPO, game: Game, opponent: str, episodes: int, seed: int) -> dict[str, float]:
    """Plays against one opponent; returns the numbers of `_SHARES` and `_PER_FIGHT`, and `_SPECIALS`."""
    own = {name: getattr(model, name, None) for name in ("frame_ages", "reset_params")}
    settings = {name: value for name, value in own.items() if value is not None}
    ids = [entry.id for head in game.contract.heads for entry in head.actions]
    special = np.array(["_spec" in each for each in ids])
    offsets, chosen, ticks = np.asarray(game.contract.head_offsets[:-1]), 0, 0

    def act(observations: Any, masks: NDArray[np.bool_], starts: NDArray[np.bool_]) -> NDArray[Any]:
        nonlocal chosen, ticks
        actions = model.predict(observations, deterministic=False, action_masks=masks)[0]
        chosen, ticks = chosen + int(special[actions + offsets].sum()), ticks + len(actions)
        return actions

    set_random_seed(seed)  # of what the model draws
    with closing(PvpVecEnv(_NUM_ENVS, game=game, opponent=opponent, seed=seed, **settings)) as env:
        env.env_method("enable_metrics")
        ended = finished_episodes(act, env, env.reset())
        lengths = [next(ended)[1]["episode"]["l"] for _ in range(episodes)]
        measures = env.env_method("measures", indices=[0])[0]
        found = summarize(np.sum(env.env_method("pop_metrics"), axis=0), measures)
    fights = ticks / float(np.mean(lengths))  # of which some are not over
    unused = () if any("prayer" in each for each in ids) else ("combat/prayer/",)  # in a game without prayers
    numbers = {text: found[tag] for tag, text in _SHARES.items() if tag in found and not tag.startswith(unused)}
    numbers |= {text: found.get(tag, 0.0) / fights for tag, text in _PER_FIGHT.items() if game.metrics}
    numbers |= {_SPECIALS: chosen / fights} if special.any() else {}
    return {text: round(value, 4) for text, value in numbers.items()}


def _curve(run: Path) -> list[tuple[int, float, float, float]]:
    """Returns some points of the win rate against the bot while a run was trained."""
    from sb3_pvp.matches.curves import find_runs, read_curve

    band = read_curve(find_runs([str(run)])[0], "eval_win_rate")
    rows = np.unique(np.linspace(0, len(band.steps) - 1, _MAX_POINTS).round().astype(int)).tolist()
    columns = band.steps, band.center, band.low, band.high
    points = [[float(column[row]) for column in columns] for row in rows]
    return [(int(steps), round(center, 4), round(low, 4), round(high, 4)) for steps, center, low, high in points]


def _exploitability(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the results in the figures of ``sb3-pvp exploit``."""
    responses = [
        {
            "start": each["start"],
            "seed": each["seed"],
            "steps": each["curve"][-1]["steps"],
            "win_rate": each["result"]["value"],
            "ci95": [each["result"]["low"], each["result"]["high"]],
        }
        for each in found["responses"]
    ]
    return {"lower_bound": found["lower_bound"], "responses": responses}
