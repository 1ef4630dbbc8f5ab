"""A league: a folder with the players' models, the log of their matches, and what a match maker has learned."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.atomic_files import replacing, write_atomically
from sb3_pvp.selfplay.leaderboard import Standing, leaderboard
from sb3_pvp.selfplay.match_log import MatchLog
from sb3_pvp.selfplay.match_makers import MatchMaker
from sb3_pvp.selfplay.players import Player, file_name, player_of_file
from sb3_pvp.selfplay.ratings import Ratings
from sb3_pvp.snapshots import check_identity

SETTINGS, MATCHES, PLAYERS, RATINGS = "league.json", "matches.sqlite", "players", "ratings.json"
_IDENTITY = {"kind": "league", "version": 1}


class League:
    """A folder with these files; several processes may use it at the same time.

    * ``players/``: a model file for each snapshot (`file_name`), never changed once it is there;
    * ``matches.sqlite``: the `MatchLog`;
    * ``league.json``: anchors, and the match maker's state (written by `save`, which is for the owner of the run);
    * ``ratings.json``: what was computed from the log so far; may be deleted at any time.

    Args:
        folder: made if it is missing.
        match_maker: who chooses; it goes on from the state in the folder. ``None`` leaves that state alone.
        anchors: Elo ratings of players that are given, such as ``{Player("baseline"): 1500}``; ``None``: as before.

    Raises:
        ValueError: if the folder's files are something else or of another version, or if another kind of match maker
            left its state there.
    """

    def __init__(
        self,
        folder: str | Path,
        match_maker: MatchMaker | None = None,
        anchors: Mapping[Player, float] | None = None,
    ) -> None:
        self.folder = Path(folder)
        stored = self._stored_settings()
        if match_maker is not None and stored["match_maker"] is not None:
            self._go_on(match_maker, stored["match_maker"])
        self.match_maker = match_maker
        self.anchors = _parse_anchors(stored["anchors"]) if anchors is None else dict(anchors)
        self.log = MatchLog(self.folder / MATCHES)
        (self.folder / PLAYERS).mkdir(exist_ok=True)
        self._ratings: Ratings | None = None
        if not (self.folder / SETTINGS).exists() or self.anchors != _parse_anchors(stored["anchors"]):
            self._write_settings()

    @classmethod
    def existing(cls, folder: str | Path, anchors: Mapping[Player, float] | None = None) -> League:
        """The league in a folder, for looking at it and for more matches; raises `ValueError` if there is none."""
        if not (Path(folder) / SETTINGS).is_file():
            raise ValueError(f"{folder} holds no league: there is no {SETTINGS}")
        return cls(folder, anchors=anchors)

    def path(self, player: Player) -> Path:
        """Where the player's model is, or would be."""
        return self.folder / PLAYERS / file_name(player)

    def opponent(self, player: Player) -> str:
        """What environments take as ``opponent``: the model's path, or the name of somebody who has none."""
        path = self.path(player)
        return str(path) if path.is_file() else str(player)

    def add(self, player: Player, save: Callable[[Path], object]) -> Path:
        """Adds a snapshot, which ``save(path)`` writes to the path that it is given; it appears as a whole.

        A player who is there already stays as he is, as when a resumed run repeats its last roll-out. Returns where
        the model is.
        """
        path = self.path(player)
        if not path.is_file():
            with replacing(path) as partial:
                save(partial)
        return path

    def players(self) -> list[Player]:
        """All with a model here, in order of their steps; files with other names are left out, with a warning."""
        found = []
        for path in (self.folder / PLAYERS).glob("[!.]*.zip"):
            try:
                found.append(player_of_file(path))
            except ValueError as error:
                warnings.warn(f"{path} does not take part in the league: {error}", stacklevel=2)
        return sorted(found, key=lambda player: (player.age, player))

    def content_hash(self, player: Player) -> str:
        """SHA-256 of the player's model file, in hexadecimal digits; raises ``FileNotFoundError`` if there is none."""
        digest = hashlib.sha256()
        with self.path(player).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def refresh(self) -> list[Player]:
        """Tells the match maker of all new models, in order of their steps, and returns these (self-play.md §4)."""
        maker = self._needed_match_maker()
        new = [player for player in self.players() if player not in maker.players]
        for player in new:
            maker.add(player)
        return new

    def choose(self, rng: np.random.Generator) -> Player:
        """Draws whom to fight next; players whose model is gone leave the league now, with a warning.

        Raises `ValueError` if nobody is left. Whoever has no step needs no model: he may be a bot or a plug-in.
        """
        maker = self._needed_match_maker()
        while True:
            player = maker.choose(rng)
            if player.step is None or self.path(player).is_file():
                return player
            warnings.warn(f"{player} leaves the league: {self.path(player)} is gone", stacklevel=2)
            maker.remove(player)

    def ratings(self) -> Ratings:
        """The ratings of all matches up to now; only what is new is computed.

        What a process computed before is taken from the folder, if it fits the log and the anchors.
        """
        if self._ratings is None or not self._ratings.are_of(self.log):
            self._ratings = self._stored_ratings() or Ratings(self.anchors)
        self._ratings.update(self.log)
        return self._ratings

    def recompute(self) -> bool:
        """Computes all ratings from the log alone, and keeps them; whether they equal what the folder had, bit for bit.

        True as well if the folder had none.
        """
        before, now = self._stored_ratings(), Ratings(self.anchors)
        now.update(self.log)
        if before is not None:
            before.update(self.log)
        self._ratings = now
        self._write_ratings()
        return before is None or before.get_state() == now.get_state()

    def leaderboard(self, rollouts: bool = True) -> list[Standing]:
        """Everybody who has played or has a model here, the strongest first.

        Without ``rollouts`` those are left out who are known from single roll-outs only: the learner between two
        snapshots, of whom there is no model to fight.
        """
        standings = leaderboard(self.ratings(), self.players())
        models = {str(player) for player in self.players()}
        return [one for one in standings if rollouts or one.player in models or Player.parse(one.player).step is None]

    def save(self) -> None:
        """Writes down what the match maker has learned, and the ratings."""
        self._write_settings()
        self.ratings()
        self._write_ratings()

    def save_ratings(self) -> None:
        """Writes down the ratings only, which any process may do at any time."""
        self.ratings()
        self._write_ratings()

    def _needed_match_maker(self) -> MatchMaker:
        if self.match_maker is None:
            raise ValueError(
                f"the league in {self.folder} was opened without a match maker: League(folder, match_maker)"
            )
        return self.match_maker

    def _go_on(self, maker: MatchMaker, state: Mapping[str, Any]) -> None:
        if state.get("kind") != maker.kind:
            raise ValueError(
                f"opponents in the league {self.folder} were chosen by the match maker {state.get('kind')!r}: "
                f"go on with that, or begin a league for {maker.kind!r} in a folder of its own"
            )
        maker.set_state(state)

    def _stored_settings(self) -> dict[str, Any]:
        path = self.folder / SETTINGS
        if not path.exists():
            return {**_IDENTITY, "anchors": {}, "match_maker": None}
        settings: dict[str, Any] = _read_json(path)
        try:
            check_identity(settings, _IDENTITY)
        except ValueError as error:
            raise ValueError(f"{path} is of no league that this version of sb3_pvp reads: {error}") from error
        return settings

    def _write_settings(self) -> None:
        maker = self.match_maker
        state = self._stored_settings()["match_maker"] if maker is None else maker.get_state()
        anchors = {str(player): rating for player, rating in sorted(self.anchors.items())}
        settings = {**_IDENTITY, "anchors": anchors, "match_maker": state}
        write_atomically(self.folder / SETTINGS, json.dumps(settings, indent=1) + "\n")

    def _stored_ratings(self) -> Ratings | None:
        """Ratings from the folder; ``None`` if there are none that fit."""
        ratings, path = Ratings(self.anchors), self.folder / RATINGS
        try:
            ratings.set_state(_read_json(path))
        except (OSError, ValueError, LookupError, TypeError):  # only a cache: missing, or of another version
            return None
        return ratings if ratings.are_of(self.log) else None

    def _write_ratings(self) -> None:
        if self._ratings is not None:
            write_atomically(self.folder / RATINGS, json.dumps(self._ratings.get_state()) + "\n")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def _parse_anchors(stored: Mapping[str, float]) -> dict[Player, float]:
    return {Player.parse(text): float(rating) for text, rating in stored.items()}
