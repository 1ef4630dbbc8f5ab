"""The fighters that ship with this package: in ``models/`` of a checkout, package data in a wheel.

A fighter is a file ``NAME.fighter`` and its card, ``NAME.json``, which ``NAME.md`` shows as text. Whatever is in the
folder is found by name; no code knows a fighter. Earlier versions are beside it as ``NAME@1.fighter`` and so on;
``NAME`` alone is the newest, whose version is the next number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.common.errors import did_you_mean

_PACKAGE = Path(__file__).resolve().parents[2]
SUFFIX, _CARD = ".fighter", ".json"
GRAPH = ".onnx"  #: Of files that can only be opponents, see `sb3_pvp.policies.files.onnx_files`.
MODEL_SUFFIXES = (".zip", SUFFIX, GRAPH)  #: Of model files.

_VERSION = re.compile(r"([^/\\\\@]+)@(\d+)")  #: The name of a fighter and its version.

Share = Annotated[float, Field(ge=0, le=1)]
Interval = tuple[Share, Share]


def data_folders(name: str) -> tuple[Path, Path]:
    """Returns where a folder of package data may be: in a wheel, and in a checkout."""
    return _PACKAGE / name, _PACKAGE.parent / name


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CardScore(_Plain):
    """Fights against one opponent, as ``sb3-pvp evaluate --json`` counts them."""

    episodes: int
    wins: int
    losses: int
    ties: int
    broken: int
    win_rate: Share
    ci95: Interval
    mean_ticks: float
    groups: dict[str, CardScore] = {}  #: By build, in games with builds.


class Attack(_Plain):
    """A best response that was trained against the fighter, and its fights at the end."""

    start: str  #: ``"scratch"``, or ``"warm"``: from a copy of the fighter.
    seed: int
    steps: int  #: Of its training.
    win_rate: Share
    ci95: Interval


class CardExploitability(_Plain):
    """What ``sb3-pvp exploit`` measured: responses of equally long training."""

    lower_bound: Share  #: With 97.5 % confidence some opponent wins at least that share.
    responses: list[Attack]


class Card(_Plain):
    """What is known of a fighter that ships, from measurements."""

    description: str  #: One line.
    game: str
    default: bool = False  #: It is the one to be compared with in its game.
    sha256: str  #: Of the fighter's file.
    command: str  #: That trained it.
    steps: int  #: Of training.
    cpu_hours: float  #: Of training.
    curve: list[tuple[int, Share, Share, Share]] = []  #: While training: steps, win rate against the bot, interval.
    fights: dict[str, CardScore] = {}  #: By opponent; actions are sampled.
    exploitability: list[CardExploitability] = []
    each_build: dict[str, CardExploitability] = {}  #: By build: of responses to fights in it alone.
    behaviour: dict[str, dict[str, float]] = {}  #: By opponent: numbers by what they mean.
    notes: str = ""  #: Paragraphs about how it was made.

    @property
    def lower_bound(self) -> float | None:
        """The highest of all lower bounds of its exploitability; ``None`` if it was not measured."""
        return max((each.lower_bound for each in self.exploitability), default=None)


def shipped_folder() -> Path | None:
    """Returns the folder of all fighters that ship; ``None`` if this installation has none."""
    return next((folder for folder in data_folders("models") if folder.is_dir()), None)


def shipped_names(game: str | None = None) -> list[str]:
    """Returns the names of all fighters that ship, sorted; with ``game`` only those with a card for that game."""
    folder = shipped_folder()
    files = sorted(folder.glob(f"[!.]*{SUFFIX}")) if folder else []
    return [
        file.stem for file in files if game is None or (file.with_suffix(_CARD).is_file() and _read(file).game == game)
    ]


@lru_cache(maxsize=4)
def _names_in(folder: Path, changed: int) -> list[str]:
    """Returns `shipped_names`, listed again when the folder has ``changed``: each name of an opponent is looked up."""
    return shipped_names()


def shipped_file(name: str | Path) -> Path | None:
    """Returns the file of the fighter that ships under this name, such as ``generalist``; ``None`` if there is none.

    ``generalist@1`` is that version of it, whatever comes later; raises `FileNotFoundError` if it has no such version.
    """
    if (folder := shipped_folder()) is None:
        return None
    known = _names_in(folder, folder.stat().st_mtime_ns)
    if str(name) in known:
        return folder / f"{name}{SUFFIX}"
    if (wanted := _VERSION.fullmatch(str(name))) is None or wanted[1] not in known:
        return None
    newest = shipped_version(wanted[1])
    if int(wanted[2]) != newest:
        versions = "1" if newest == 1 else f"1 to {newest}"
        raise FileNotFoundError(f"the fighter {wanted[1]} has no version {wanted[2]}: it has {versions}")
    return folder / f"{wanted[1]}{SUFFIX}"


def shipped_version(name: str) -> int:
    """Returns the version of a fighter that ships: of ``hero@1`` 1, of ``hero`` one more than of earlier ones."""
    found = _VERSION.fullmatch(name)
    earlier = (_VERSION.fullmatch(each) for each in shipped_names())
    return int(found[2]) if found else 1 + max((int(e[2]) for e in earlier if e and e[1] == name), default=0)


def is_version(name: str) -> bool:
    """Whether this is a version of a fighter that ships, such as ``generalist@1``; never the name alone."""
    try:
        return "@" in name and shipped_file(name) is not None
    except FileNotFoundError:  # it has others
        return False


def shipped_card(name: str) -> Card:
    """Returns the card of a fighter that ships; raises `FileNotFoundError` and `ValueError` if it has no valid one."""
    file = shipped_file(name)
    if file is None:
        raise FileNotFoundError(f"no fighter {name!r} ships with this package")
    return _read(file)


def _read(file: Path) -> Card:
    """Returns the card of a fighter's file."""
    return Card.model_validate_json(file.with_suffix(_CARD).read_bytes())


def default_fighter(game: str) -> str | None:
    """Returns the name of the fighter to be compared with in a game; ``None`` if none ships for it."""
    return next((name for name in shipped_names(game) if shipped_card(name).default), None)


def find_model(path: str | Path, folder: str | Path = "") -> Path:
    """Returns the model file, adding ``.zip`` if needed, or else the fighter that ships under this name.

    Relative paths are relative to ``folder``. Raises `FileNotFoundError` if there is no such file, or version.
    """
    given = Path(folder, path)
    zipped = given.with_name(f"{given.name}.zip") if given.name else None  # the working directory and / have none
    for candidate in (given, zipped):
        if candidate is not None and candidate.is_file():
            return candidate
    if (shipped := shipped_file(path)) is not None:
        return shipped
    why = ", which is a folder" if given.is_dir() else did_you_mean(path, shipped_names())
    raise FileNotFoundError(f"There is no model file {path}{why}")


def is_fighter(path: str | Path) -> bool:
    """Whether this is the name of a fighter file, which is read without unpickling anything."""
    return Path(path).suffix == SUFFIX
