"""``sb3-pvp models``."""

from __future__ import annotations

from typing import Annotated

import typer

from sb3_pvp.cli.tables import AsJson, Column, print_result, print_table
from sb3_pvp.cli.usage import complete_model
from sb3_pvp.common.errors import require_known
from sb3_pvp.policies.files.shipped import shipped_card, shipped_file, shipped_names, shipped_version

_COLUMNS: dict[str, Column] = {
    "name": "{name}",
    "version": "{version}",
    "game": "{game}",
    "steps": "{steps:,}",
    "win rate": "{win_rate:.1%}",
    "exploitability": "{exploitability:.1%}",
    "size": lambda card: f"{card['bytes'] / 1e6:.1f} MB",
    "description": "{description}",
}


def models(
    name: Annotated[
        str | None, typer.Argument(help="Fighter whose card to print.", autocompletion=complete_model)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the fighters that ship with the package, or print the card of one of them.

    Every command takes their names, as a model and as an opponent; NAME@1 is the first version of one, whatever comes
    later. Win rates and exploitability are those of the cards.
    """
    if name is not None:
        if (file := shipped_file(name)) is None:
            require_known("fighter", name, shipped_names())
        assert file is not None
        figures = {
            "name": name,
            "version": shipped_version(file.stem),
            **shipped_card(name).model_dump(),
            "file": str(file),
            "bytes": file.stat().st_size,
        }
        print_result(figures, file.with_suffix(".md").read_text(encoding="utf-8").rstrip(), as_json)
        return
    found = []
    for each in shipped_names():
        card, file = shipped_card(each), shipped_file(each)
        assert file is not None
        row = card.model_dump(include={"game", "default", "steps", "description"})
        win_rate = card.fights["baseline"].win_rate if "baseline" in card.fights else None
        row |= {
            "version": shipped_version(each),
            "name": each,
            "win_rate": win_rate,
            "exploitability": card.lower_bound,
            "bytes": file.stat().st_size,
        }
        found.append(row)
    print_table("models", found, _COLUMNS, as_json, empty="no fighters ship with this installation")
