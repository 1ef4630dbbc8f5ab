"""``python -m docs.commands_page`` prints all commands and their options as a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from sb3_pvp.cli.app import app

INTRODUCTION = """# Command line

All commands of `sb3-pvp`, with their options. Made by `make docs` from their help; do not edit by hand.

`sb3-pvp COMMAND -h` says the same. What is wrong with a command line is one line on stderr and exit code 2; `--json`
prints figures for programs; `sb3-pvp --install-completion` lets your shell complete commands and options."""

#: Commands whose options are those of rl-zoo3, and what this package adds to them.
OF_RL_ZOO3 = {
    "train": """Takes every option of `rl_zoo3.train`; without `--algo` and `--env` it trains `maskable_ppo` in `NhEnv`.
See [Train](train.md), [Sweeps](sweeps.md) and [Tracking and jobs](jobs.md). `sb3-pvp train -h` lists all options; these
are additional or different:

| Option | Meaning |
|---|---|
| `--preset NAME` | The algorithm, game and hyperparameters of a [preset](presets.md). |
| `--resume [DIR]` | Go on with a run exactly where it was: the newest one of this kind, or the one in that folder. |
| `-i MODEL` | Begin a new run with that model, its counters and its league. |
| `-optimize` | [Sweep](sweeps.md) hyperparameters. |
| `--track` | Log to [Weights & Biases](jobs.md#weights-biases). |""",
    "enjoy": """Takes every option of `rl_zoo3.enjoy`. `sb3-pvp enjoy --algo maskable_ppo --env NhEnv -f logs` shows the
newest fighter in a window (`pip install "sb3-pvp[render]"`).""",
}

CONCLUSION = """## Other programs

`python -m sb3_pvp.zoo train|enjoy|record_video|record_training|plots|push` are the commands of rl-zoo3 with the games
of this package. `python -m benchmarks world|rollout|train|server|faults|learning_curves|rock_paper_scissors`, in a
checkout, measure how fast and how well it works; `-h` lists their options."""


def render_page() -> str:
    """The Markdown page about all commands."""
    root = typer.main.get_command(app)
    with root.make_context("sb3-pvp", [], resilient_parsing=True) as context:
        lines = [INTRODUCTION, *_commands(root, context, "sb3-pvp", 2), "", CONCLUSION]
    return "\n".join(lines)


def _commands(group: Any, context: Any, name: str, level: int) -> Iterator[str]:
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if command.hidden:
            continue
        yield from ("", f"{'#' * level} {name} {word}", "")
        if word in OF_RL_ZOO3:
            yield OF_RL_ZOO3[word]
            continue
        yield _sentence(command.help or "")
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, f"{name} {word}", level + 1)
        else:
            yield from _table(command)


def _table(command: Any) -> Iterator[str]:
    rows = [_row(parameter).replace("\n", " ") for parameter in command.params if not parameter.hidden]
    if rows:
        yield from ("", "| Option | Meaning |", "|---|---|", *rows)


def _row(parameter: Any) -> str:
    name = (parameter.metavar or str(parameter.name).upper()).strip("[]")
    shown = name if parameter.required else f"[{name}]"
    if parameter.param_type_name == "option":
        shown = ", ".join(f"`{each}`" for each in [*parameter.opts, *parameter.secondary_opts])
        shown += "" if parameter.is_flag else f" `{name}`"
    else:
        shown = f"`{shown}`"
    default = parameter.default
    told = default not in (None, "") and not callable(default) and not isinstance(default, bool)
    text = _sentence(parameter.help or "") + (f" Default: `{default}`." if told else "")
    shown, text = (each.replace("|", r"\|") for each in (shown, text))
    return f"| {shown} | {text} |"


def _sentence(text: str) -> str:
    """Help without the line breaks within its paragraphs."""
    return re.sub(r"(?<=\S) *\n(?=\S)", " ", text.partition("\f")[0]).strip()


if __name__ == "__main__":
    print(render_page())
