"""Uploads of players by people with a token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tempfile
from pathlib import Path

import orjson

from sb3_pvp.arena.admission import AdmissionReport
from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page.guards import PageRefusal
from sb3_pvp.arena.store import ACTIVE

MOST_PLAYERS = 20  #: Of one owner that take part at the same time.
_TOKENS = "tokens"
_OWNER = re.compile(r"\w[\w.-]{0,39}")
_FILE = re.compile(r"\w[\w.+@-]{0,79}\.(fighter|onnx)")


def add_token(arena: Arena, owner: str) -> str:
    """Returns a new token for an owner, whose old one is worth nothing any more; only its hash is kept.

    Raises `ValueError` for a name with other characters than letters, digits and ``_ . -``.
    """
    if not _OWNER.fullmatch(owner):
        raise ValueError(f"a name has at most 40 letters, digits and _ . -; got {owner!r}")
    token = secrets.token_urlsafe(24)
    arena.store.set_fact(_TOKENS, orjson.dumps({**tokens(arena), owner: _hash(token)}).decode())
    return token


def remove_token(arena: Arena, owner: str) -> None:
    """Makes the token of an owner worth nothing; raises `ValueError` if there is none."""
    known = tokens(arena)
    if known.pop(owner, None) is None:
        raise ValueError(f"{owner} has no token")
    arena.store.set_fact(_TOKENS, orjson.dumps(known).decode())


def tokens(arena: Arena) -> dict[str, str]:
    """Returns the hash of each owner's token."""
    return dict(orjson.loads(arena.store.fact(_TOKENS) or "{}"))


def owner_of(arena: Arena, token: str) -> str | None:
    """Returns whose token this is."""
    given = _hash(token)
    return next((owner for owner, known in tokens(arena).items() if hmac.compare_digest(known, given)), None)


def upload(arena: Arena, owner: str, name: str, content: bytes) -> AdmissionReport:
    """Admits a file as a player of an owner, as ``sb3-pvp arena add`` does with a file that is not trusted.

    Raises `PageRefusal` if it is no file that can be played without trust, or the owner has too many.
    """
    if not _FILE.fullmatch(name):
        raise PageRefusal("name is the file's: letters, digits and _ . + @ -, then .fighter or .onnx")
    if sum(each.owner == owner for each in arena.store.players(ACTIVE)) >= MOST_PLAYERS:
        raise PageRefusal(f"{owner} has {MOST_PLAYERS} players already: let one go with sb3-pvp arena remove", 409)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        reports = arena.add(str(path), owner)
    if not reports:
        raise PageRefusal("this file is known already", 409)
    return reports[0]


def _hash(token: str) -> str:
    # A token is random and long: nobody can try them all, however fast the hash is.
    return hashlib.sha256(token.encode()).hexdigest()
