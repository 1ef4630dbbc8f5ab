"""An arena: a folder with a challenge, its players and their matches. This is all that a program needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from sb3_pvp.arena.admission import AdmissionReport, candidates, examine
from sb3_pvp.arena.challenge import FILE as CHALLENGE
from sb3_pvp.arena.challenge import Challenge, check_challenge, load_challenge, save_challenge
from sb3_pvp.arena.match_rounds import RoundSummary, play_round
from sb3_pvp.arena.playing import Workers
from sb3_pvp.arena.store import ACTIVE, GONE, REFUSED, Entrant, Store
from sb3_pvp.arena.store import FILE as STORE
from sb3_pvp.arena.table import ArenaStanding, as_json, standings, unsettled
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import Refusal, one_line
from sb3_pvp.common.sandbox.sandbox import missing_walls
from sb3_pvp.players.league import MatchLog, MatchRecord
from sb3_pvp.players.league.league import MATCHES
from sb3_pvp.players.opponents import opponent_names

TABLE = "leaderboard.json"  #: The table after the last round.
_SOURCES, _DATABASE, _SEASON, _CHALLENGE = "sources", "store.txt", "season/", "challenge"


class Arena:
    """An arena in a folder; several processes, and with a database several machines, may use it at the same time.

    Args:
        folder: with ``challenge.yaml``, see `create`.
        processes: that play matches, by default one for each core.
        distribute: play on the Ray cluster at ``RAY_ADDRESS`` instead.

    Raises:
        FileNotFoundError: if there is no arena.
        ValueError: if its challenge cannot be played here, or its store is that of another challenge.
    """

    def __init__(self, folder: str | Path, processes: int | None = None, distribute: bool = False) -> None:
        self.folder = Path(folder)
        self.challenge = load_challenge(self.folder / CHALLENGE)
        database = self.folder / _DATABASE
        url = database.read_text().strip() if database.is_file() else None
        self.store = Store(url or self.folder / STORE)
        self.log = MatchLog(url or self.folder / MATCHES)
        self.store.set_fact(_CHALLENGE, self.challenge.name, replace=False)
        if (owner := self.store.fact(_CHALLENGE)) != self.challenge.name:
            raise ValueError(f"the store is that of the challenge {owner}, not {self.challenge.name}: use another one")
        self.store.set_fact(f"rules/{self.challenge.rules_hash}", orjson.dumps(self.challenge.rules).decode())
        self.workers = Workers(self.challenge, processes, distribute)

    @classmethod
    def create(cls, folder: str | Path, challenge: Challenge, database: str | None = None) -> Arena:
        """Makes an arena, whose store is in the folder, or in a PostgreSQL database; its scripts take part at once.

        Raises `ValueError` if there is one already, or the challenge cannot be played.
        """
        path = Path(folder) / CHALLENGE
        if path.exists():
            raise ValueError(f"there is an arena in {folder} already: choose another folder")
        check_challenge(challenge)
        path.parent.mkdir(parents=True, exist_ok=True)
        if database is not None:
            secret = path.parent / _DATABASE  # it may contain a password
            secret.touch(0o600)
            secret.write_text(database + "\n")
        save_challenge(challenge, path)
        arena = cls(folder)
        for script in challenge.scripts:
            arena.add(script)
        return arena

    @property
    def players(self) -> list[Entrant]:
        """All players, also those that were refused."""
        return self.store.players()

    def add(self, source: str, owner: str = "", trusted: bool = False) -> list[AdmissionReport]:
        """Lets players in from a source, see `sb3_pvp.arena.admission.candidates`; returns what was found about each.

        A folder or a tag of the hub is looked through again before each round.
        """
        known = [each for each in self.players if each.state != REFUSED]  # who was refused may try again
        reports = self._admit(source, owner, trusted, known)
        if source.startswith("hub:") or (source not in self._names and Path(source).is_dir()):
            kept = self._sources
            place = source if source.startswith("hub:") else str(Path(source).resolve())
            kept[place] = {"owner": owner, "trusted": trusted}
            self.store.set_fact(_SOURCES, orjson.dumps(kept).decode())
        return reports

    def check(self, source: str, owner: str = "", trusted: bool = False) -> list[AdmissionReport]:
        """Does the same as `add`, but lets nobody in."""
        return [
            each if isinstance(each, AdmissionReport) else examine(each, self.challenge, self.store, self.workers)[0]
            for each in candidates(source, owner, trusted, (), self._names, self.challenge.entry.kinds)
        ]

    def remove(self, player: str, reason: str = "withdrawn") -> None:
        """Lets a player take part no more; its matches still count. Raises `ValueError` if it is unknown."""
        if player not in {each.name for each in self.players}:
            raise ValueError(f"there is no player {player}")
        self.store.set_state(player, GONE, reason)

    def refresh(self) -> list[AdmissionReport]:
        """Lets in who is new at the sources; one that cannot be read is skipped, with a report."""
        reports = []
        for source, about in self._sources.items():
            try:
                reports += self._admit(source, about["owner"], about["trusted"], self.players)
            except (ValueError, OSError, Refusal) as error:
                reports.append(AdmissionReport(source, refusal=f"cannot be read: {one_line(error)}"))
        return reports

    def run_once(self, advance: Callable[[int], object] = lambda matches: None) -> RoundSummary | None:
        """Looks for new players, plays a round, or what is left of one, and writes the table.

        Returns ``None`` if the season has not begun or is over; then the table is frozen. Raises `ValueError` if there
        are less than two players, or strangers among them on a machine that has no walls for these.
        """
        self.refresh()
        strangers = [each.name for each in self.store.players(ACTIVE) if not each.facts.get("trusted", True)]
        if strangers and (lacking := missing_walls()):
            raise ValueError(f"{strangers[0]} is a stranger's file, which is not played here: {'; '.join(lacking)}")
        if self.challenge.season.state() != "running":
            self.freeze()
            return None
        summary = play_round(self.challenge, self.store, self.log, self.workers, advance)
        self.publish()
        return summary

    def records(self, until: float | None = None) -> list[MatchRecord]:
        """Returns the fights of the season, up to a Unix time."""
        season = self.challenge.season
        start = season.start.timestamp() if season.start else 0.0
        end = season.end.timestamp() if season.end else float("inf")
        last = min(end, until) if until is not None else end
        return [each for each in self.log.records(detailed=True) if start <= each.finished_at <= last]

    def table(self, system: str | None = None, until: float | None = None) -> list[ArenaStanding]:
        """Computes the table from the log, by default with the challenge's system and all matches so far."""
        rating = self.challenge.rating.model_copy(update={"system": system or self.challenge.rating.system})
        players = {each.name: each for each in self.players}
        records = self.records(until)
        seen = {str(player) for each in records for player in (each.player_a, each.player_b)}
        taking_part = {name: each.owner for name, each in players.items() if each.state == "active" or name in seen}
        found = {name: each.facts["exploitability"] for name, each in players.items() if "exploitability" in each.facts}
        return standings(records, rating, self.challenge.fixed, taking_part, found)

    def publish(self) -> list[ArenaStanding]:
        """Computes the table and writes it to ``leaderboard.json``."""
        table = self.table()
        write_atomically(self.folder / TABLE, as_json(table))
        return table

    def recompute(self) -> bool | None:
        """Writes the table again; returns whether it is byte for byte the one before, ``None`` without one."""
        path = self.folder / TABLE
        before = path.read_bytes() if path.is_file() else None
        self.publish()
        return None if before is None else path.read_bytes() == before

    def freeze(self) -> Mapping[str, Any] | None:
        """Keeps the table of a season that is over for good; returns it, or ``None`` if the season is not over.

        It also names the ``unsettled`` players, whose rank is not certain.
        """
        season = self.challenge.season
        if season.state() == "over" and self.store.fact(_SEASON + season.name) is None:
            table = self.table()
            about = {
                "season": season.name,
                "frozen_at": datetime.now(UTC).isoformat(),
                "table": orjson.loads(as_json(table)),
                "unsettled": unsettled(table, season.half_width),
            }
            self.store.set_fact(_SEASON + season.name, orjson.dumps(about).decode(), replace=False)
            self.publish()
        kept = self.store.fact(_SEASON + season.name)
        return None if kept is None else dict(orjson.loads(kept))

    def close(self) -> None:
        """Ends the processes."""
        self.workers.close()

    def _admit(self, source: str, owner: str, trusted: bool, known: Sequence[Entrant]) -> list[AdmissionReport]:
        reports = []
        for candidate in candidates(source, owner, trusted, known, self._names, self.challenge.entry.kinds):
            if isinstance(candidate, AdmissionReport):
                reports.append(candidate)
                continue
            report, entrant, content = examine(candidate, self.challenge, self.store, self.workers)
            twin = self.store.add(entrant, content)
            if twin is not None and not report.refusal:
                report.refusal = f"there is a player {twin.name} already"
            reports.append(report)
        return reports

    @property
    def _names(self) -> tuple[str, ...]:
        return (*opponent_names(self.challenge.played), *self.challenge.scripts)

    @property
    def _sources(self) -> dict[str, Any]:
        return dict(orjson.loads(self.store.fact(_SOURCES) or "{}"))
