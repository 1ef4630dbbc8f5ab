"""``sb3-pvp export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.tables import AsJson, print_result


def export(
    model: Annotated[Path, typer.Argument(help="The model's zip, which must be trusted, or a name.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file; default: MODEL with the ending .fighter.", dir_okay=False),
    ] = None,
    no_onnx: Annotated[bool, typer.Option("--no-onnx", help="Leave out the ONNX graphs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a model to a .fighter file, which others can load without trusting it.

    The file has the weights, a plain description, and graphs for ONNX Runtime. Every command takes it as a model.
    """
    from sb3_pvp.policies.files.fighter_files import export_fighter, read_fighter
    from sb3_pvp.policies.files.model_files import load
    from sb3_pvp.policies.files.shipped import SUFFIX, find_model

    path = output or model.with_suffix(SUFFIX)
    export_fighter(load(find_model(model)), path, onnx=not no_onnx)
    written = read_fighter(path)
    about = written.description
    entries = {name: len(content) for name, content in written.entries.items()}
    figures = {"file": str(path), "bytes": path.stat().st_size, "entries": entries, "steps": about.steps}
    contract = None if about.contract is None else about.contract.name
    figures |= {"policy": about.policy, "game": about.game, "contract": contract}
    kinds = ", ".join(f"{name} ({size:,} bytes)" for name, size in entries.items())
    text = f"{path}: {about.policy} after {about.steps:,} steps\nit has {kinds}\nto try it: sb3-pvp evaluate {path}"
    print_result(figures, text, as_json)
