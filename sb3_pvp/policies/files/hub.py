"""Fighters on the Hugging Face hub: pushed as fighter files with a card, and pulled without executing anything."""

from __future__ import annotations

import json
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import Refusal, extra, one_line, refusals
from sb3_pvp.policies.files.description import Description
from sb3_pvp.policies.files.fighter_files import export_fighter, has_onnx
from sb3_pvp.policies.files.model_files import load, steps_of
from sb3_pvp.policies.files.reading import MOST_UNTRUSTED, read
from sb3_pvp.policies.files.shipped import SUFFIX, CardScore, find_model

with extra("hub", "push and pull"):
    from huggingface_hub import EvalResult, HfApi, ModelCard, ModelCardData, constants, get_token, hf_hub_url
    from huggingface_hub.utils.tqdm import disable_progress_bars

MOST_PULLED = 1 << 30  #: Bytes of a file that somebody asked for.
REPLAY = "replay.html"  #: Of a fight, beside the fighter.
_CARD = Path(__file__).with_name("hub_card.md")
_PLAIN = re.compile(r"\w[\w.+-]{0,199}")  #: Names of files that mean nothing else in any shell, page or folder.
_MAX_NAMES = 10  #: In an error; a repository may have any number of files.
_OTHER_ZIPS = ("train_eval_metrics.zip",)  #: Zips that rl-zoo3's own push puts next to a model.


class Result(CardScore, extra="ignore"):
    """What the card shows of the output of ``sb3-pvp evaluate --json``."""

    opponent: str
    game: str
    deterministic: bool

    @property
    def opponent_name(self) -> str:
        """The opponent, without the folder if it is a file, which should stay private."""
        return _one_line(self.opponent.replace("\\", "/").rpartition("/")[2])


def literal(text: object) -> str:
    """Returns a text of whoever made a file so that a page of Markdown shows it, and does nothing else with it."""
    return "".join(each if each.isalnum() or each in " .,_-" else f"&#{ord(each)};" for each in _one_line(text))


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:500]


def push_fighter(
    model: Path,
    repo_id: str,
    private: bool,
    revision: str | None,
    message: str | None,
    results: Sequence[Path],
    tags: Sequence[str] = (),
    show: Callable[[Path], Sequence[Path]] | None = None,
) -> tuple[str, str]:
    """Uploads a model, which must be trusted, as a fighter file with a card.

    Creates the repository and the branch ``revision`` if needed. ``results`` are files with the output of ``sb3-pvp
    evaluate --json``; ``tags`` are added to those of every card. ``show`` gets the path of the fighter file, writes
    ``replay.html`` and ``replay.mp4`` beside it, and returns more results. Returns the file's name and the commit's
    address. Raises `Refusal` for what the hub refuses, and results of another game.
    """
    if get_token() is None:
        raise Refusal("pushing needs a token of the hub that may write: set HF_TOKEN, or run hf auth login")
    path, api = find_model(model), _api()
    if not _PLAIN.fullmatch(path.name):
        raise Refusal(f"{path.name!r} is no name for a file on the hub: rename it, to letters, digits and . _ + -")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "pushed")
        folder.mkdir()
        fighter = folder / f"{path.stem}{SUFFIX}"
        if path.suffix == SUFFIX:
            shutil.copyfile(path, fighter)
        else:
            export_fighter(load(path), fighter, has_onnx())
        about = read(fighter).description
        figures = [_read_result(each, about) for each in results]
        with _hub_errors():
            repo_id = str(api.create_repo(repo_id, private=private or None, exist_ok=True).repo_id)
            # The hub leaves an existing repository as it is.
            if private and not api.model_info(repo_id).private:
                raise Refusal(f"{repo_id} exists and is public: push without --private, or make it private on the hub")
            if revision is not None:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
        figures += [_read_result(each, about) for each in (show(fighter) if show is not None else ())]
        card = make_card(repo_id, revision, fighter.name, about, figures, tags, (folder / REPLAY).exists())
        card.save(folder / "README.md")
        with _hub_errors():
            commit = api.upload_folder(
                repo_id=repo_id,
                folder_path=folder,
                commit_message=message or f"{fighter.name} after {about.steps:,} steps",
                revision=revision,
            )
    return fighter.name, commit.commit_url


def pull_fighter(repo_id: str, revision: str | None, output: Path | None, file: str | None) -> tuple[Path, str, str]:
    """Downloads the fighter file of a repository, or without one the zip of a model; checks it, and unpickles nothing.

    Returns its path, by default its name there; that name; and the commit. Raises `Refusal` for what the hub refuses,
    for damaged files, unless there is one fighter only or ``file`` names one, and instead of replacing a file that only
    the repository names.
    """
    api = _api()
    with TemporaryDirectory() as folder:
        with _hub_errors():
            info = api.model_info(repo_id, revision=revision)
            name = _choose([each.rfilename for each in info.siblings or ()], repo_id, file)
            path = output or Path(Path(name).name)
            if output is None and path.exists():
                raise Refusal(f"there is a file {path} here already: to replace it, add -o {path}")
            if path.suffix != Path(name).suffix:
                raise Refusal(f"{repo_id} has {name}: the name after -o must end in {Path(name).suffix}")
            if (size := _size(api, repo_id, name, info.sha)) > MOST_PULLED:
                raise Refusal(f"{name} of {repo_id} has {size:,} bytes, and at most {MOST_PULLED:,} are taken")
            # Of the commit that was looked into: the branch may have moved on.
            downloaded = Path(api.hf_hub_download(repo_id, name, revision=info.sha, local_dir=folder))
        try:
            steps_of(downloaded)  # reads and checks a fighter file as a whole, but only a part of a zip
            damaged = None if path.suffix == SUFFIX else ZipFile(downloaded).testzip()
        except Exception as error:  # testzip() decompresses whatever is there
            reason = one_line(error).replace(str(downloaded), "it")
            raise Refusal(f"{name} of {repo_id} is no model, or is damaged: {reason}") from error
        if damaged is not None:
            raise Refusal(f"{name} of {repo_id} is damaged: its entry {damaged!r:.80} has another checksum")
        with replacing(path) as partial:
            shutil.copyfile(downloaded, partial)
    return path, name, str(info.sha)


@dataclass(frozen=True)
class HubFighter:
    """A fighter file on the hub, downloaded."""

    repo_id: str
    commit: str
    path: Path
    source: str  #: Its address, which names the commit.
    tags: tuple[str, ...]  #: Of the repository.


def find_fighters(tags: Sequence[str], known: Collection[str]) -> Iterator[HubFighter]:
    """Yields the fighter files, and ONNX files where there are none, of all repositories with these tags.

    They are not checked. What is from a source that is ``known`` already is skipped, and so is a repository with
    several of them, one that is too large, or none; with a warning, one that the hub does not give out. Raises
    `Refusal` if the hub does not list them.
    """
    api = _api()
    with _hub_errors():
        found = [each.id for each in api.list_models(filter=[*tags])]
    for repo_id in found:
        try:
            yield from _fighter_of(api, repo_id, known)
        except Refusal as error:  # which must not keep the others out, whoever they are from
            warnings.warn(f"{repo_id} is left out: {error}", RuntimeWarning, stacklevel=2)


def _fighter_of(api: HfApi, repo_id: str, known: Collection[str]) -> Iterator[HubFighter]:
    """Yields the one fighter of a repository that `find_fighters` looks for, if it has one."""
    with _hub_errors():
        info = api.model_info(repo_id)
    names = [each.rfilename for each in info.siblings or () if _PLAIN.fullmatch(each.rfilename)]
    fitting = [name for name in names if name.endswith(SUFFIX)] or [n for n in names if n.endswith(".onnx")]
    source = f"{repo_id}@{info.sha}"
    if len(fitting) != 1 or source in known:
        return
    with TemporaryDirectory() as folder, _hub_errors():
        if _size(api, repo_id, fitting[0], info.sha) <= MOST_UNTRUSTED:
            path = Path(api.hf_hub_download(repo_id, fitting[0], revision=info.sha, local_dir=folder))
            yield HubFighter(repo_id, str(info.sha), path, source, tuple(info.tags or ()))


def make_card(
    repo_id: str,
    revision: str | None,
    file: str,
    about: Description,
    results: Sequence[Result],
    tags: Sequence[str] = (),
    has_replay: bool = False,
) -> ModelCard:
    """Returns the model card of a fighter file; ``results`` are in its table and its metadata."""
    game = _one_line(about.game or (about.contract.name if about.contract else "a game of its own"))
    of: Any = {"task_type": "reinforcement-learning", "dataset_type": game, "dataset_name": game}
    of["metric_type"] = "win_rate"
    names = (f"win rate against {each.opponent_name}" for each in results)
    metrics = [
        EvalResult(**of, metric_name=n, metric_value=each.win_rate) for n, each in zip(names, results, strict=True)
    ]
    data = ModelCardData(
        library_name="stable-baselines3",
        pipeline_tag="reinforcement-learning",
        tags=["stable-baselines3", "sb3-pvp", "reinforcement-learning", game.rpartition(":")[2], *tags],
        model_name=Path(file).stem if metrics else None,
        eval_results=metrics or None,
    )
    place: Any = {"repo_id": repo_id, "revision": revision, "file": file, "title": Path(file).stem}
    facts: Any = {"game": game, "about": about, "start": json.dumps(about.reset_params), "results": results}
    facts["replay"] = REPLAY if has_replay else None
    card: ModelCard = ModelCard.from_template(data, str(_CARD), **place, **facts, literal=literal)
    return card


def _api() -> HfApi:
    """Returns the hub's client, whose progress bars are for terminals only."""
    if not sys.stderr.isatty():
        disable_progress_bars()
    return HfApi(library_name="sb3-pvp")


def _size(api: HfApi, repo_id: str, name: str, commit: str | None) -> int:
    """Returns how many bytes the hub says that a file has."""
    return api.get_hf_file_metadata(url=hf_hub_url(repo_id, name, revision=commit, endpoint=api.endpoint)).size or 0


def _read_result(path: Path, fighter: Description) -> Result:
    with refusals(about=f"--results {path} is not the output of sb3-pvp evaluate --json"):
        result = Result.model_validate_json(path.read_bytes())
    if fighter.game not in (None, result.game):
        raise Refusal(f"--results {path} is of fights in {result.game}, but the fighter is for {fighter.game}")
    return result


def _choose(names: Sequence[str], repo_id: str, wanted: str | None) -> str:
    """Returns the fighter among the files of a repository, the one that is ``wanted`` or else the only one."""
    plain = [each for each in names if all(map(_PLAIN.fullmatch, each.split("/"))) and each not in _OTHER_ZIPS]
    fitting = [name for name in plain if name.endswith((SUFFIX, ".zip")) and wanted in (None, name)]
    # Those in folders only if nothing else is there, and never unasked: they may be anything.
    at_top = [name for name in fitting if "/" not in name] or fitting
    found = [name for name in at_top if name.endswith(SUFFIX)] or at_top
    if len(found) > 1 or (found and wanted is None and "/" in found[0]):
        more = f" and {len(found) - _MAX_NAMES:,} more" if len(found) > _MAX_NAMES else ""
        what = "several fighters" if len(found) > 1 else "a fighter in a folder"
        raise Refusal(f"{repo_id} has {what}, choose one with --file: {', '.join(found[:_MAX_NAMES])}{more}")
    if not found:
        what = f"no fighter {wanted}" if wanted else f"no fighter, which is a file *{SUFFIX} or *.zip with a plain name"
        raise Refusal(f"{repo_id} has {what}")
    return found[0]


@contextmanager
def _hub_errors() -> Iterator[None]:
    """Turns what can go wrong with the hub into a `Refusal`, in the words of huggingface_hub, which say what to do.

    That may be anything: who answers at its address decides what huggingface_hub has to read.
    """
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        if getattr(error, "filename", None) is not None:  # about a file here
            raise
        raise Refusal(f"the hub at {constants.ENDPOINT}: {error}") from error
