"""What bad usage of the command line is turned into."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer

from sb3_pvp.common.errors import Refusal, refusals

#: Typer does not export it, and where it lives differs between versions.
_UsageError: Any = typer.BadParameter.__bases__[0]


def json_object(text: str, option: str) -> dict[str, Any]:
    """Parses the value of an option that takes a JSON object; anything else is a `Refusal`."""
    with refusals(about=f"{option} is not valid JSON"):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise Refusal(f'{option} must be a JSON object such as \'{{"accountBuild": "MED"}}\'')
    return value


def run_app(app: typer.Typer, name: str, arguments: list[str] | None) -> NoReturn:
    """Runs a command line and exits; what it refuses is one line on stderr that begins with ``name``, and code 2."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name=name, standalone_mode=False)
    except (Refusal, _UsageError) as error:
        text = str(error) if isinstance(error, Refusal) else error.format_message()
        print(f"{name}: error: {' '.join(text.split())}", file=sys.stderr)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
