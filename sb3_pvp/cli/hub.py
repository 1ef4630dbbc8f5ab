"""``sb3-pvp push`` and ``sb3-pvp pull``: fighters on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RepoId = Annotated[str, typer.Argument(help="Repository on the hub.", metavar="OWNER/NAME")]
Revision = Annotated[str | None, typer.Option(help="Branch; for pull also a tag or a commit. Default: main.")]


def push(
    model: Annotated[
        Path, typer.Argument(help="The model's file, or the name of a fighter that ships; a zip must be trusted.")
    ],
    repo_id: RepoId,
    private: Annotated[bool, typer.Option("--private", help="Only you and those you name can see it.")] = False,
    revision: Revision = None,
    message: Annotated[str | None, typer.Option(help="Message of the commit.")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option(help="Output of sb3-pvp evaluate --json, for the card; can be repeated.", dir_okay=False),
    ] = None,
) -> None:
    """Upload a model to the Hugging Face hub as a fighter file, with a model card.

    Creates the repository and the branch if needed, and replaces the card there. Needs a token that may write, from
    HF_TOKEN or `hf auth login`; HF_ENDPOINT is the address of another hub.
    """
    from sb3_pvp.policies.files.hub import push_fighter

    name, url = push_fighter(model, repo_id, private, revision, message, results or ())
    branch = f" --revision {revision}" if revision else ""
    typer.echo(f"pushed {name}: {url}\nto get it: sb3-pvp pull {repo_id}{branch}")


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
    from sb3_pvp.policies.files.shipped import SUFFIX

    path, name, commit = pull_fighter(repo_id, revision, output, file)
    is_safe = path.suffix == SUFFIX
    typer.echo(f"{path} is {name} of {repo_id} at {commit:.7}")
    safe, also = ("", "") if is_safe else (" --safe", ", safe=True")
    typer.echo(f"to let it fight: sb3-pvp evaluate {path}{safe}\nin Python: sb3_pvp.load({str(path)!r}{also})")
    if not is_safe:
        typer.echo("without --safe, loading this zip unpickles parts of it: do that only if you trust its author")
