"""``sb3-pvp export``, ``import-upstream``, ``import-mlagents``, ``push`` and ``pull``: from and for elsewhere."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, print_result
from sb3_pvp.cli.usage import Average, GameName, complete_model, use_one_thread, watched
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import Refusal, command_line, refusals
from sb3_pvp.players.opponents import SELF_PLAY, WORLD_BOT
from sb3_pvp.policies.files.shipped import GRAPH, SUFFIX, find_model

RepoId = Annotated[str, typer.Argument(help="Repository on the hub.", metavar="OWNER/NAME")]
_FIGHTS = 200  #: For the figures of a card.
Revision = Annotated[str | None, typer.Option(help="Branch; for pull also a tag or a commit. Default: main.")]


def _can_have_graphs() -> bool:
    from sb3_pvp.policies.files.fighter_files import has_onnx

    if not (has := has_onnx()):
        typer.echo('the file has no ONNX graphs: for those, pip install "sb3-pvp[onnx]"', err=True)
    return has


def saver(output: Path) -> Callable[[Any], None]:
    """Returns what writes a model to this file, of the kind that its ending says; refuses other endings."""
    from sb3_pvp.policies.files.fighter_files import export_fighter

    if output.suffix == SUFFIX:
        return lambda model: export_fighter(model, output, onnx=_can_have_graphs())
    if output.suffix != ".zip":
        raise Refusal(f"--output must end in .zip or {SUFFIX}, such as {output.with_suffix('.zip')}")
    return lambda model: model.save(output)


def export(
    model: Annotated[
        Path,
        typer.Argument(help="The model's zip, which must be trusted, or a name.", autocompletion=complete_model),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file; default: MODEL with the ending .fighter. With .onnx the graph that acts alone.",
            dir_okay=False,
        ),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Of a team, for .onnx; default: the first.")] = None,
    no_onnx: Annotated[bool, typer.Option("--no-onnx", help="Leave out the ONNX graphs.")] = False,
    mlagents: Annotated[bool, typer.Option("--mlagents", help="The graph of an agent for Unity's ML-Agents.")] = False,
    sensors: Annotated[
        str | None,
        typer.Option(help="For --mlagents: how many numbers each sensor has; default: as the game names them."),
    ] = None,
    average: Average = False,
    temperature: Annotated[
        str | None,
        typer.Option(help="""Above 1: choose more evenly. Of all heads, or of some as '{"HEAD": 2}'.""", metavar="T"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a model to a .fighter file, which others can load without trusting it.

    The file has the weights, a plain description and, where ONNX is installed, graphs for ONNX Runtime. Every command
    takes it as a model. A graph alone can be an opponent; that of a team decides for one agent. With --mlagents it has
    the names and the version that Unity's ML-Agents asks for, see docs/ml-agents.md.
    """
    from sb3_pvp.policies.files.fighter_files import export_fighter, export_graph, export_unity
    from sb3_pvp.policies.files.model_files import load
    from sb3_pvp.policies.files.reading import read
    from sb3_pvp.policies.temperature import set_temperature

    source = find_model(model)
    path = output or model.with_suffix(GRAPH if mlagents else SUFFIX)
    if mlagents and path.suffix != GRAPH:
        raise Refusal(f"--mlagents writes a graph: -o must end in {GRAPH}, not {path.name}")
    if sensors is not None and not (mlagents and re.fullmatch(r"[1-9]\d{0,6}(,[1-9]\d{0,6})*", sensors)):
        raise Refusal("--sensors is for --mlagents, and takes their sizes, such as 264,72")
    if agent is not None and path.suffix != GRAPH:
        raise Refusal(f"--agent is for a graph alone: pass -o {model.with_suffix(GRAPH)}")
    read_model = load(source, average=average)
    if temperature is not None:
        with refusals(about="--temperature must be a number, or some as in '{\"HEAD\": 2}'"):
            set_temperature(read_model.policy, json.loads(temperature))
    if path.suffix == GRAPH:
        sizes = None if sensors is None else [*map(int, sensors.split(","))]
        size = export_unity(read_model, path, agent, sizes) if mlagents else export_graph(read_model, path, agent)
        figures = {"file": str(path), "bytes": size, "agent": agent}
        print_result(figures, f"{path}: a graph of {figures['bytes']:,} bytes", as_json)
        return
    export_fighter(read_model, path, onnx=not no_onnx and _can_have_graphs())
    written = read(path)
    about = written.description
    entries = {name: len(content) for name, content in written.entries.items()}
    figures = {"file": str(path), "bytes": path.stat().st_size, "entries": entries, "steps": about.steps}
    contract = None if about.contract is None else about.contract.name
    figures |= {"policy": about.policy, "game": about.game, "contract": contract}
    kinds = ", ".join(f"{name} ({size:,} bytes)" for name, size in entries.items())
    text = f"{path}: {about.policy} after {about.steps:,} steps\nit has {kinds}"
    text += f"\nto try it: {command_line('evaluate', path)}"
    print_result(figures, text, as_json)


def import_upstream(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint of the original system, a zip file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .zip or .fighter.", dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Convert a checkpoint of the original system, pvp-ml, to a model that all commands take.

    The model decides as the original does, and notes say what is not carried over. Nothing in the checkpoint is
    executed, so it need not be trusted. Training can continue from a zip.
    """
    from sb3_pvp.zoo.imports.pvp_ml import import_upstream as read

    save = saver(output)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model = read(checkpoint)
    save(model)
    # Not those of Python itself, such as that a file elsewhere was not closed.
    texts = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    figures = {
        "model": str(output),
        "game": model.game,
        "steps": model.num_timesteps,
        "rollouts": model.trained_rollouts,
        "frame_ages": model.frame_ages,
        "has_outcome_predictor": hasattr(model, "outcome_predictor"),
        "notes": texts,
    }
    text = [
        f"{output}: a fighter for {model.game or 'an unknown game'}, trained for {model.num_timesteps:,} steps",
        *(f"note: {each}" for each in texts),
        *([command_line("evaluate", output)] if model.game else []),
    ]
    print_result(figures, "\n".join(text), as_json)


def import_mlagents(
    config: Annotated[
        Path, typer.Argument(help="A trainer file of ML-Agents, or the folder of a run there, results/RUN.")
    ],
    behavior: Annotated[str | None, typer.Option(help="The only behavior to import; default: all.")] = None,
    game: GameName = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file, .yml; default: stdout.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a trainer file of Unity's ML-Agents to a preset.

    Defaults of ML-Agents are filled in. Every key that has no meaning here, or is unknown, is named with the reason. Of
    the folder of a run it also shows how far that is, and the newest graph, which can be an opponent.
    """
    from sb3_pvp.callbacks.training_status import STATUS, read_status
    from sb3_pvp.zoo.imports.mlagents import import_mlagents as read_trainers

    if output is not None and output.suffix not in (".yml", ".yaml"):
        raise Refusal(f"--output must end in .yml, such as {output.with_suffix('.yml')}")
    run = config if config.is_dir() else None
    imported = read_trainers(config / "configuration.yaml" if run else config, behavior, game)
    status: dict[str, dict[str, Any]] = {}
    for name, state in (read_status(run / STATUS) if run and (run / STATUS).is_file() else {}).items():
        newest = state.newest_file(config)
        status[name] = {"steps": state.steps, "checkpoints": len(state.checkpoints), "elo": state.elo}
        status[name]["file"] = None if newest is None else str(newest)
    source = imported.text(config.name)
    if output is not None:
        write_atomically(output, source)
    lines = [source] if output is None else [*imported.notes, f"{output}: {', '.join(imported.presets)}"]
    for name, own in status.items():
        elo = "" if own["elo"] is None else f", Elo {own['elo']:.1f}"
        lines.append(f"{name}: {own['steps']:,} steps, {own['checkpoints']} checkpoints{elo}")
        if str(own["file"]).endswith(GRAPH):
            lines.append(f"to play against it: {command_line('evaluate', 'MODEL', '--opponent', own['file'])}")
    if output is not None:
        lines.append(f"to train: {command_line('train', '--preset', output)}")
    file = None if output is None else str(output)
    figures = {"presets": imported.presets, "notes": imported.notes, "file": file, "status": status}
    print_result(figures, "\n".join(lines), as_json)


def push(
    model: Annotated[
        Path,
        typer.Argument(
            help="The model's file, or the name of a fighter that ships; a zip must be trusted.",
            autocompletion=complete_model,
        ),
    ],
    repo_id: RepoId,
    private: Annotated[bool, typer.Option("--private", help="Only you and those you name can see it.")] = False,
    revision: Revision = None,
    message: Annotated[str | None, typer.Option(help="Message of the commit.")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(help="Output of sb3-pvp evaluate --json, for the card; can be repeated.", dir_okay=False),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Fight nothing: no replay, no video, no new figures.")] = False,
) -> None:
    """Upload a model to the Hugging Face hub as a fighter file, with a model card.

    Beside it go a fight of it against itself, as a page and, where ffmpeg and the extra render are, as a video. Without
    --results it fights 200 times against the bot of its game, for the card's figures.

    Creates the repository and the branch if needed, and replaces the card there. Needs a token that may write, from
    HF_TOKEN or `hf auth login`; HF_ENDPOINT is the address of another hub.
    """
    from sb3_pvp.policies.files.hub import push_fighter

    show = None if plain else partial(_show_fights, is_evaluated=not results)
    name, url = push_fighter(model, repo_id, private, revision, message, results or (), show=show)
    again = command_line("pull", repo_id, *(("--revision", revision) if revision else ()))
    typer.echo(f"pushed {name}: {url}\nto get it: {again}")


def _show_fights(fighter: Path, is_evaluated: bool) -> list[Path]:
    """Writes what shows how a fighter fights beside its file; returns files for ``--results``. Says what it lacks."""
    from sb3_pvp.matches.replay import record_fight, write_replay_page, write_video
    from sb3_pvp.matches.scoring import score_model, start_of

    use_one_thread()
    results = list[Path]()
    try:
        fight = record_fight(fighter, SELF_PLAY, reset_params=start_of(str(fighter), None)[0])
        write_replay_page(fight, fighter.with_name("replay.html"))
        write_video(fight, fighter.with_name("replay.mp4"))
    except (Refusal, ValueError) as error:
        typer.echo(f"not all is there that shows a fight: {error}", err=True)
    if is_evaluated:
        try:
            score, fights, _ = score_model(fighter, _FIGHTS, 0, watched(_FIGHTS))
        except (Refusal, ValueError) as error:  # not every game has a bot
            typer.echo(f"the card has no figures: {error}", err=True)
        else:
            found = {"opponent": WORLD_BOT, "deterministic": True, **fights, **score.as_dict()}
            results.append(fighter.parent.parent / "results.json")
            write_atomically(results[0], json.dumps(found))
    return results


def pull(
    repo_id: RepoId,
    revision: Revision = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file; default: its name there.", dir_okay=False)
    ] = None,
    file: Annotated[str | None, typer.Option(help="Which file, in a repository with several fighters.")] = None,
) -> None:
    """Download a fighter from the Hugging Face hub; nothing in it is executed.

    Takes the fighter file of the repository, or without one the zip of a model. For a private repository set HF_TOKEN;
    HF_ENDPOINT is the address of another hub.
    """
    from sb3_pvp.policies.files.hub import pull_fighter

    path, name, commit = pull_fighter(repo_id, revision, output, file)
    typer.echo(f"{path} is {name} of {repo_id} at {commit:.7}")
    safe = also = trust = ""
    if path.suffix != SUFFIX:
        trust = "\nloading this zip unpickles parts of it: do that only if you trust its author"
        if _loads_safely(path):
            safe, also, trust = " --safe", ", safe=True", trust.replace("loading", "without --safe, loading")
    typer.echo(
        f"to let it fight: {command_line('evaluate', path)}{safe}\nin Python: sb3_pvp.load({str(path)!r}{also}){trust}"
    )


def _loads_safely(path: Path) -> bool:
    from sb3_pvp.policies.files.model_files import load

    with suppress(ValueError):  # a model of another algorithm than ours
        load(path, safe=True)
        return True
    return False
