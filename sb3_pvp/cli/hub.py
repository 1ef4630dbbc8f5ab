"""``sb3-pvp push`` and ``sb3-pvp pull``: fighters on the Hugging Face hub."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile, ZipFile

import typer
from pydantic import BaseModel, Field

from sb3_pvp.common.errors import Refusal, refusals

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from sb3_pvp.policies.files.description import Description

RepoId = Annotated[str, typer.Argument(help="Repository on the hub.", metavar="OWNER/NAME")]
Revision = Annotated[str | None, typer.Option(help="Branch; for pull also a tag or a commit. Default: main.")]

#: Zips that rl-zoo3's own push puts next to a model.
_OTHER_ZIPS = ("train_eval_metrics.zip",)
_CARD = """
# {title}

A fighter for {game}, made with sb3-pvp, a plug-in of Stable-Baselines3. `{file}` holds plain numbers: loading it runs
no code of its author.

## Load it

```python
from huggingface_hub import hf_hub_download
from sb3_pvp import load

fighter = load(hf_hub_download("{repo_id}", "{file}"{revision}))
action, _ = fighter.predict(observation, action_masks=mask)
```

`pip install sb3-pvp` installs what this needs. `sb3-pvp pull {repo_id}{option}` downloads the file, and
`sb3-pvp evaluate {file}` lets it fight.

## What it is

| | |
|---|---|
{facts}
"""
_RESULTS = """
## How it fights

By `sb3-pvp evaluate --json`; the interval has 95 %.

| Opponent | Fights | Actions | Win rate | Interval | Mean length in ticks |
|---|---|---|---|---|---|
{rows}
"""


class Result(BaseModel):
    """What the card shows of the output of ``sb3-pvp evaluate --json``."""

    opponent: str
    game: str
    deterministic: bool
    episodes: Annotated[int, Field(ge=1)]
    win_rate: Annotated[float, Field(ge=0, le=1)]
    ci95: tuple[float, float]
    mean_ticks: float

    @property
    def opponent_name(self) -> str:
        """The opponent, without the folder if it is a file, which should stay private."""
        return self.opponent.replace("\\", "/").rpartition("/")[2]


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
    from huggingface_hub import CommitOperationAdd, get_token

    from sb3_pvp.policies.files.fighter_files import export_fighter, read_fighter
    from sb3_pvp.policies.files.model_files import load
    from sb3_pvp.policies.files.shipped import SUFFIX, find_model

    if get_token() is None:
        raise Refusal("pushing needs a token of the hub that may write: set HF_TOKEN, or run hf auth login")
    path, api = find_model(model), _api()
    with TemporaryDirectory() as folder:
        fighter = path
        if path.suffix != SUFFIX:
            fighter = Path(folder) / f"{path.stem}{SUFFIX}"
            export_fighter(load(path), fighter)
        description = read_fighter(fighter).description
        figures = [_read_result(each, description) for each in results or ()]
        with _hub_errors(repo_id, revision):
            repo_id = _prepare(api, repo_id, private, revision)
            card = make_card(repo_id, revision, fighter.name, description, figures)
            commit = api.create_commit(
                repo_id,
                [CommitOperationAdd("README.md", card.encode()), CommitOperationAdd(fighter.name, str(fighter))],
                commit_message=message or f"{fighter.name} after {description.steps:,} steps",
                revision=revision,
            )
    typer.echo(f"pushed {fighter.name}: {commit.commit_url}\nto get it: sb3-pvp pull {repo_id}{_option(revision)}")


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
    from sb3_pvp.common.atomic_files import replacing

    api = _api()
    with TemporaryDirectory() as folder:
        with _hub_errors(repo_id, revision):
            info = api.model_info(repo_id, revision=revision)
            name = _choose([each.rfilename for each in info.siblings or ()], repo_id, file)
            path = output or Path(Path(name).name)
            if path.suffix != Path(name).suffix:
                raise Refusal(f"{repo_id} has {name}: the name after -o must end in {Path(name).suffix}")
            # Of the commit that was looked into: the branch may have moved on.
            downloaded = Path(api.hf_hub_download(repo_id, name, revision=info.sha, local_dir=folder))
        try:
            is_safe = _check(downloaded)
        except ValueError as error:
            raise Refusal(str(error).replace(str(downloaded), f"{name} of {repo_id}")) from error
        with replacing(path) as partial:
            shutil.copyfile(downloaded, partial)
    typer.echo(f"{path} is {name} of {repo_id} at {info.sha!s:.7}")
    safe, also = ("", "") if is_safe else (" --safe", ", safe=True")
    typer.echo(f"to let it fight: sb3-pvp evaluate {path}{safe}\nin Python: sb3_pvp.load({str(path)!r}{also})")
    if not is_safe:
        typer.echo("without --safe, loading this zip unpickles parts of it: do that only if you trust its author")


def make_card(
    repo_id: str, revision: str | None, file: str, description: Description, results: Sequence[Result] = ()
) -> str:
    """Returns the model card, README.md, of a fighter file; ``results`` are in its table and its metadata."""
    from huggingface_hub import EvalResult, ModelCardData

    contract, game = description.contract, description.game
    name = game or (contract.name if contract else "a game of its own")
    frames = description.frame_ages
    facts = {
        "Game": name,
        "Steps of training": f"{description.steps:,}",
        "Contract": contract and f"{contract.name}, SHA-256 `{contract.sha256}`",
        "Its fights started with": description.reset_params and f"`{json.dumps(description.reset_params)}`",
        "Observation": ", ".join(f"`{key}` {part.shape}" for key, part in description.observation.items()),
        "Ages of the frames in ticks": frames and ", ".join(map(str, frames)),
        "Actions": f"{len(description.head_sizes)} heads of {', '.join(map(str, description.head_sizes))}",
        "Policy": f"{description.policy} of MaskablePPO",
    }
    text = _CARD.format(
        title=Path(file).stem,
        game=name,
        file=file,
        repo_id=repo_id,
        revision=f', revision="{revision}"' if revision else "",
        option=_option(revision),
        facts="\n".join(f"| {key} | {value} |" for key, value in facts.items() if value),
    )
    rows = [
        f"| {each.opponent_name} | {each.episodes} | {'most likely' if each.deterministic else 'sampled'} "
        f"| {each.win_rate:.1%} | {each.ci95[0]:.1%} to {each.ci95[1]:.1%} | {each.mean_ticks:.0f} |"
        for each in results
    ]
    metrics: Any = [
        EvalResult(
            "reinforcement-learning",
            dataset_type=name,
            dataset_name=name,
            metric_type="win_rate",
            metric_name=f"win rate against {each.opponent_name}",
            metric_value=each.win_rate,
        )
        for each in results
    ]
    data = ModelCardData(
        library_name="stable-baselines3",
        pipeline_tag="reinforcement-learning",
        tags=["stable-baselines3", "sb3-pvp", "reinforcement-learning", name.rpartition(":")[2]],
        model_name=Path(file).stem if metrics else None,
        eval_results=metrics or None,
    )
    return f"---\n{data.to_yaml()}\n---\n{text}" + (_RESULTS.format(rows="\n".join(rows)) if rows else "")


def _api() -> HfApi:
    """Returns the hub's client, whose progress bars are for terminals only."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(library_name="sb3-pvp")


def _option(revision: str | None) -> str:
    return f" --revision {revision}" if revision else ""


def _read_result(path: Path, fighter: Description) -> Result:
    with refusals(about=f"--results {path} is not the output of sb3-pvp evaluate --json"):
        result = Result.model_validate_json(path.read_bytes())
    if fighter.game not in (None, result.game):
        raise Refusal(f"--results {path} is of fights in {result.game}, but the fighter is for {fighter.game}")
    return result


def _prepare(api: HfApi, repo_id: str, private: bool, revision: str | None) -> str:
    """Creates the repository and the branch if needed; returns the full name of the repository."""
    name = api.create_repo(repo_id, private=private or None, exist_ok=True).repo_id
    # The hub leaves an existing repository as it is.
    if private and not api.model_info(name).private:
        raise Refusal(f"{name} exists and is public: push without --private, or make it private on the hub first")
    if revision is not None:
        api.create_branch(name, branch=revision, exist_ok=True)
    return str(name)


def _choose(names: Sequence[str], repo_id: str, wanted: str | None) -> str:
    """Returns the fighter among the files of a repository, the one that is ``wanted`` or else the only one."""
    from sb3_pvp.policies.files.shipped import SUFFIX

    at_top = [name for name in names if "/" not in name and name.isprintable() and name not in _OTHER_ZIPS]
    kinds = [
        [name for name in at_top if name.endswith(suffix) and wanted in (None, name)] for suffix in (SUFFIX, ".zip")
    ]
    found = kinds[0] or kinds[1]
    if len(found) > 1:
        raise Refusal(f"{repo_id} has several fighters, choose one with --file: {', '.join(found)}")
    if not found:
        what = f"no fighter {wanted}" if wanted else f"no fighter, which is a file *{SUFFIX} or *.zip"
        raise Refusal(f"{repo_id} has {what}")
    return found[0]


def _check(path: Path) -> bool:
    """Returns whether a file is a fighter file and not the zip of a model; `ValueError` if it is neither."""
    from sb3_pvp.policies.files.fighter_files import read_fighter
    from sb3_pvp.policies.files.model_files import steps_of
    from sb3_pvp.policies.files.shipped import SUFFIX

    if path.suffix == SUFFIX:
        read_fighter(path)
        return True
    try:
        steps_of(path)
        with ZipFile(path) as file:
            damaged = file.testzip()
    except (BadZipFile, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not the zip of a model, or is damaged: {error}") from error
    if damaged is not None:
        raise ValueError(f"{path} is damaged: its entry {damaged} has another checksum")
    return False


@contextmanager
def _hub_errors(repo_id: str, revision: str | None) -> Iterator[None]:
    """Turns what can go wrong with the hub into one line that says what to do."""
    from huggingface_hub import constants, errors

    # httpx2's or, with an older huggingface_hub, httpx's; no `OSError` as one would expect.
    failed: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]
    unreachable = (failed, errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)
    try:
        yield
    except errors.RevisionNotFoundError as error:
        raise Refusal(f"{repo_id} has no revision {revision}") from error
    except errors.RepositoryNotFoundError as error:
        raise Refusal(
            f"there is no repository {repo_id} on {constants.ENDPOINT} that you can see: if it is private, set HF_TOKEN"
        ) from error
    except errors.HFValidationError as error:
        raise Refusal(f"a repository has a name such as OWNER/NAME: {error}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        what = f"the hub answered {status}: {error.server_message or error.response.reason_phrase}"
        if status in (401, 403):
            what = f"the hub refuses this ({status}): set HF_TOKEN to a token that may write to {repo_id}"
        raise Refusal(what) from error
    except unreachable as error:
        raise Refusal(f"cannot talk to the hub at {constants.ENDPOINT}: {error.__cause__ or error}") from error
    except OSError as error:
        if error.filename is not None:  # about a file here
            raise
        raise Refusal(f"the transfer broke off: {str(error).splitlines()[0]}") from error
