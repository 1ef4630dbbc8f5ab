"""``sb3-pvp doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.tables import AsJson, print_result, table


def doctor(
    folder: Annotated[Path, typer.Option("--folder", "-f", help="Where runs are to be written.")] = Path("logs"),
    as_json: AsJson = False,
) -> None:
    """Say what this machine and this installation are, and what is known to go wrong on such ones.

    The exit code is 1 if something of the package cannot work here, else 0; warnings cost time or memory. Put its
    output into a report of a bug.
    """
    from sb3_pvp.zoo.doctor import examine

    found = examine(folder)
    rows = [{"state": each.state, **asdict(each)} for each in found]
    text = table(rows, {"": "{state}", "about": "{about}", "found": "{found}"})
    text += "".join(f"\n{each.state}: {each.about}: {each.advice}" for each in found if each.advice)
    is_fine = not any(each.is_error for each in found)
    print_result({"ok": is_fine, "findings": rows}, text, as_json)
    raise typer.Exit(0 if is_fine else 1)
