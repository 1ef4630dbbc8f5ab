"""The people of an arena: their names, their fights, a ladder of their own, and how all of that is forgotten."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import orjson
import sqlalchemy as sa
from numpy.typing import NDArray

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.match_rounds import TICK_LIMIT
from sb3_pvp.arena.referee import packed
from sb3_pvp.common.databases import NUMBER, TEXT, connected, writing
from sb3_pvp.common.errors import require_known, shown
from sb3_pvp.players.league import MatchRecord, Player
from sb3_pvp.players.league.glicko import GlickoLadder
from sb3_pvp.players.league.match_records import SCORES, MatchDetails
from sb3_pvp.policies.files.demonstrations import Demonstration, save_demonstration

FOLDER = "people"  #: In that of the arena: all that is kept of people is in it.
MOST_PEOPLE = 10_000
DAY = 86_400.0  #: Seconds of a rating period, and those that a name without a fight is kept.
_NAME = re.compile(r"\w[\w .-]{1,23}")
_VERSION, _LOCK = 1, 0x73623372
_NUMBERS = ("seed", "ticks", "rated", "digest")
_SAME = ("opponent", "handicap", "outcome", "build", "finished_at", "cause")
_RATED = ("number", "person", "opponent", "handicap", "outcome", "finished_at", "rated")
_META = sa.MetaData()
_PEOPLE = sa.Table(
    "people",
    _META,
    sa.Column("person", sa.Text, primary_key=True),  # see `_folded`
    *(sa.Column(name, **TEXT) for name in ("name", "key_hash")),
    sa.Column("claimed_at", sa.Double, nullable=False),
)
# Not a `MatchLog`: that never loses a row, and here a person may ask for it.
_FIGHTS = sa.Table(
    "fights",
    _META,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("key", **TEXT, unique=True),
    *(sa.Column(name, **TEXT) for name in ("person", "opponent", "handicap", "outcome", "version", "challenge")),
    *(sa.Column(name, **NUMBER) for name in _NUMBERS),
    *(sa.Column(name, sa.Text) for name in ("build", "cause")),
    sa.Column("finished_at", sa.Double, nullable=False),
    sa.Column("actions", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,  # a number is never given again, so a ladder sees that a fight is gone
)


@dataclass(frozen=True)
class PersonFight:
    """A fight of a person, in the first seat, against a player of the arena."""

    person: str  #: Name, as it was claimed.
    opponent: str  #: Name of the player in the arena.
    handicap: str  #: What made the opponent weaker, such as ``delay 2, randomness 0.1``; empty if nothing did.
    outcome: str  #: As the person sees it: ``won``, ``lost`` or ``tied``.
    seed: int
    build: str | None
    ticks: int
    reset_params: Mapping[str, Any]  #: How it began.
    actions: NDArray[np.int64]  #: Of both seats, ``(ticks, 2, heads)``.
    digest: int  #: Of all observations, see `sb3_pvp.arena.referee.Digests`.
    finished_at: float  #: Unix time in seconds.
    rated: bool
    cause: str | None = None  #: `TICK_LIMIT`, or why the person has lost other than by the game's rules.
    observations: NDArray[np.float32] | None = None  #: Of the person, ``(ticks, *shape)``, if they consent to keep it.
    masks: NDArray[np.bool_] | None = None  #: Of the person, ``(ticks, choices)``, as well.


@dataclass(frozen=True)
class PersonStanding:
    """One line of the ladder, of rated fights alone."""

    name: str
    rating: float  #: Of Glicko-2; who is new has 1500.
    deviation: float  #: Its standard deviation, which grows while a person does not fight.
    fights: int
    won: int
    tied: int
    lost: int
    last_played: float  #: Unix time in seconds.

    @property
    def lower(self) -> float:
        """What the person is worth at least, with 97.5 %; it orders the ladder."""
        return self.rating - 1.96 * self.deviation


class People:
    """The people of an arena, who are no players of its table; shared by any number of threads and processes.

    Raises `ValueError` if what the folder has of them is of another version, `OSError` if it cannot be used.
    """

    def __init__(self, arena: Arena) -> None:
        self.folder = arena.folder / FOLDER
        self._arena, self._lock = arena, threading.Lock()
        self.folder.mkdir(exist_ok=True)
        with self._writing() as connection:
            if (version := connection.exec_driver_sql("PRAGMA user_version").scalar()) not in (0, _VERSION):
                raise ValueError(f"{self.folder} is of version {version}: use the sb3_pvp that wrote it")
            _META.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {_VERSION}")
        # With the number of the newest fight that was read, and how many were.
        self._rated, self._newest, self._known = GlickoLadder(DAY), 0, 0

    def claim(self, name: str, key: str) -> str:
        """Binds a name to a key, of which only the hash is kept; returns the name as it was first written.

        Raises `ValueError` for a name that is impossible, another person's or a player's, and for a key of a wrong
        length. A name is free again if it has not fought within a day.
        """
        if not 20 <= len(key) <= 200:
            raise ValueError("a key has 20 to 200 characters")
        written, person = _written(name), _folded(name)
        if person in {_folded(each.name.replace("+", " ")) for each in self._arena.players}:
            raise ValueError(f"there is a player {written} in this arena: choose another name")
        hashed, now = hashlib.sha256(key.encode()).hexdigest(), time.time()
        idle = (_PEOPLE.c.claimed_at < now - DAY) & _PEOPLE.c.person.not_in(sa.select(_FIGHTS.c.person))
        with self._writing() as connection:
            connection.execute(_PEOPLE.delete().where(idle))
            known = connection.execute(sa.select(_PEOPLE).where(_PEOPLE.c.person == person)).fetchone()
            if known is None:
                if connection.execute(sa.select(sa.func.count()).select_from(_PEOPLE)).scalar_one() >= MOST_PEOPLE:
                    raise ValueError(f"this arena has {MOST_PEOPLE:,} people already: fight without a name")
                row = {"person": person, "name": written, "key_hash": hashed, "claimed_at": now}
                connection.execute(_PEOPLE.insert(), row)
            elif not hmac.compare_digest(known.key_hash, hashed):
                raise ValueError(f"{written} is somebody else's name: choose another one")
        return written if known is None else str(known.name)

    def record(self, fight: PersonFight) -> str:
        """Keeps a fight, and with its observations a demonstration; returns its key.

        Raises `ValueError` if nobody has the name any more, and for an opponent or an outcome that there is not.
        """
        person, number = _folded(fight.person), secrets.token_hex(8)
        versions = {each.name: each.version for each in self._arena.players}
        if fight.opponent not in versions:
            raise ValueError(f"there is no player {fight.opponent}")
        require_known("outcome", fight.outcome, SCORES)
        challenge = self._arena.challenge.model_copy(update={"reset_params": dict(fight.reset_params)})
        rules = orjson.dumps(challenge.rules).decode()
        self._arena.store.set_fact(f"rules/{challenge.rules_hash}", rules, replace=False)
        own = {"key": f"{FOLDER}/fight-{number}", "person": person, "version": versions[fight.opponent]}
        own |= {"challenge": challenge.rules_hash, **{name: getattr(fight, name) for name in _SAME}}
        numbers = {name: int(getattr(fight, name)) for name in _NUMBERS}  # SQLite would store NumPy's as blobs
        with self._writing() as connection:  # until the file is there, so that nobody is forgotten between the two
            if connection.execute(sa.select(_PEOPLE.c.name).where(_PEOPLE.c.person == person)).scalar() is None:
                raise ValueError(f"nobody has the name {fight.person}: claim it first")
            connection.execute(_FIGHTS.insert(), {**own, **numbers, "actions": packed(fight.actions)})
            if fight.observations is not None and fight.masks is not None:
                contract, opponent = challenge.played.contract, f"{fight.opponent} {fight.handicap}".strip()
                seen, about = (fight.observations, fight.masks), (contract.name, contract.fingerprint, opponent)
                demonstration = Demonstration(*seen, fight.actions[:, 0], *about, fight.outcome)
                save_demonstration(demonstration, self._demonstrations(person) / f"{number}.npz")
        return own["key"]

    def fight(self, key: str) -> MatchRecord:
        """Returns a fight for `sb3_pvp.arena.verify` and ``recording_of``; raises `ValueError` if there is none.

        A space in a person's name is a ``+`` in it, since players' names have none.
        """
        query = sa.select(_FIGHTS, _PEOPLE.c.name).join(_PEOPLE, _FIGHTS.c.person == _PEOPLE.c.person)
        with self._reading() as connection:
            row = connection.execute(query.where(_FIGHTS.c.key == key)).fetchone()
        if row is None:
            raise ValueError(f"there is no fight {key!r} of a person")
        person, opponent = _player(row.name), Player.parse(row.opponent)
        at_fault = None if row.cause in (None, TICK_LIMIT) else str(person)
        versions, times, what = ("", row.version), ("", ""), (row.digest, row.actions)
        details = MatchDetails(key, 0, row.challenge, 0, row.cause, at_fault, *versions, *times, *what)
        about = row.outcome, row.seed, row.build, row.ticks, bool(row.rated), row.finished_at
        return MatchRecord(person, opponent, *about, key, details)

    def ladder(self, now: float | None = None) -> list[PersonStanding]:
        """Returns everybody with a rated fight, the best `PersonStanding.lower` first.

        Each fight is a rating period of both, in the order in which they were recorded. An opponent, which does not
        change, is rated by these fights alone, and apart with each handicap. Only what is new is computed.

        Args:
            now: Unix time for which deviations are, since they grow while nobody fights; default: this moment.
        """
        now, found, numbers = time.time() if now is None else now, [], _FIGHTS.c.number
        with self._lock, self._reading() as connection:
            connection.exec_driver_sql("BEGIN")  # so that names and fights are of one moment
            if connection.execute(sa.select(sa.func.count()).where(numbers <= self._newest)).scalar() != self._known:
                self._rated, self._newest, self._known = GlickoLadder(DAY), 0, 0  # since one is gone
            query = sa.select(*(_FIGHTS.c[name] for name in _RATED)).where(numbers > self._newest).order_by(numbers)
            for row in connection.execute(query):
                self._newest, self._known = row.number, self._known + 1
                if row.rated:
                    self._rated.add(row.person, (row.opponent, row.handicap), SCORES[row.outcome], row.finished_at)
            names = {row.person: row.name for row in connection.execute(sa.select(_PEOPLE))}
            for person, counts in self._rated.results.items():
                known, last = self._rated.rating(person, now), self._rated.last[person]
                won, tied, lost = (counts[score] for score in SCORES.values())
                strength = known.rating, known.deviation
                found.append(PersonStanding(names[person], *strength, counts.total(), won, tied, lost, last))
        return sorted(found, key=lambda each: (-each.lower, each.name))

    def forget(self, name: str) -> int:
        """Deletes a name with its key, fights and demonstrations, all or nothing; returns how many fights went.

        Raises `ValueError` if nobody has it.
        """
        person = _folded(name)
        with self._writing() as connection:
            if not connection.execute(_PEOPLE.delete().where(_PEOPLE.c.person == person)).rowcount:
                raise ValueError(f"nobody has the name {name}")
            gone = connection.execute(_FIGHTS.delete().where(_FIGHTS.c.person == person)).rowcount
            if (folder := self._demonstrations(person)).is_dir():
                shutil.rmtree(folder)
        return int(gone)

    def _demonstrations(self, person: str) -> Path:
        return self.folder / "demonstrations" / person

    def _reading(self) -> AbstractContextManager[sa.Connection]:
        return connected(self.folder / "people.sqlite", "list of an arena's people")

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction that nobody else writes beside; what it deletes is overwritten."""
        with self._reading() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
            with writing(connection, _LOCK):
                yield connection


def _written(name: str) -> str:
    """Returns a name as it is shown; raises `ValueError` if it is none."""
    written = " ".join(normalize("NFKC", name).split())
    with suppress(ValueError):
        if _NAME.fullmatch(written) and _player(written):
            return written
    raise ValueError(f"a name has 2 to 24 letters, digits, spaces and _ . -, not . or - first; got {shown(name)}")


def _folded(name: str) -> str:
    """Returns what is equal for names that only differ in case, spaces or forms of letters."""
    return normalize("NFKC", " ".join(normalize("NFKC", name).split()).casefold())


def _player(name: str) -> Player:
    """Returns a person as a player in a record of a fight."""
    return Player(name.replace(" ", "+"))
