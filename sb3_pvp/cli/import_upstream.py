"""``sb3-pvp import-upstream``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.tables import AsJson, print_result
from sb3_pvp.common.errors import Refusal


def import_upstream(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint of the original system, a zip file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .zip or .fighter.", dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Convert a checkpoint of the original system, pvp-ml, to a model that all commands take.

    The model decides as the original does; see docs/import-upstream.md for what is carried over. Nothing in the
    checkpoint is executed, so it need not be trusted. Training can continue from a zip.
    """
    from sb3_pvp.policies.files.fighter_files import export_fighter
    from sb3_pvp.policies.files.shipped import SUFFIX
    from sb3_pvp.zoo.imports.pvp_ml import import_upstream as read

    if output.suffix not in (".zip", SUFFIX):
        raise Refusal(f"--output must end in .zip or {SUFFIX}, such as {output.with_suffix('.zip')}")
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model = read(checkpoint)
    if output.suffix == SUFFIX:
        export_fighter(model, output)
    else:
        model.save(output)
    texts = [str(note.message) for note in notes]
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
        *([f"sb3-pvp evaluate {output}"] if model.game else []),
    ]
    print_result(figures, "\n".join(text), as_json)
