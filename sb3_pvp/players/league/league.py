"""A league: a folder with players' models, the log of their matches, and the state of a match maker."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from filelock import FileLock
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError

from sb3_pvp.common.arguments import Kind
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import extra, first_error
from sb3_pvp.players.league.leaderboard import Standing, leaderboard
from sb3_pvp.players.league.match_makers import MatchMaker
from sb3_pvp.players.league.players import Player, file_name, player_of_file
from sb3_pvp.players.league.ratings import Ratings
from sb3_pvp.players.search.search_settings import SEARCH_OF
from sb3_pvp.policies.files.shipped import MODEL_SUFFIXES, is_version

SETTINGS, MATCHES, PLAYERS, RATINGS = "league.json", "matches.sqlite", "players", "ratings.json"
_LOCK = ".league.lock"  #: Held while a process changes the settings.
LEAGUE = "league"  #: Name of the league's folder in the folder of a run.

IDENTICAL, DIFFERENT, ABSENT = "identical", "different", "absent"
#: Results of `League.recompute` in words: how the recomputed ratings compare with those in the folder.
VERDICTS = {
    IDENTICAL: "identical to the kept ones",
    DIFFERENT: "NOT identical to the kept ones",
    ABSENT: "none of this log and these anchors were kept to compare with",
}

# Larger ratings must be a mistake, and `expected_score` would overflow.
_RATING = Kind[float](Annotated[float, Field(ge=-10_000, le=10_000)], "a number from -10000 to 10000")


def check_anchors(anchors: object) -> dict[Player, float]:
    """Returns anchors by player, given by player or by name; raises `ValueError` if one is not from -10000 to 10000."""
    if not isinstance(anchors, Mapping):
        raise ValueError(f"anchors must be a mapping such as {{'baseline': 1500}}, got {anchors!r}")
    return {Player.parse(str(name)): _RATING.read(f"the anchor of {name}", each) for name, each in anchors.items()}


class _Fights(BaseModel):
    """The game of the matches, as `sb3_pvp.game.find_game` takes it, and its reset parameters."""

    model_config = ConfigDict(extra="forbid")
    game: str = Field(validation_alias=AliasChoices("game", "contract"))  #: ``contract`` in files of the first edition.
    reset_params: dict[str, Any]


class _Settings(BaseModel):
    """The content of ``league.json``."""

    model_config = ConfigDict(extra="allow")  # keep keys that other versions have added
    kind: Literal["league"]
    version: Literal[1]
    anchors: Annotated[
        dict[Player, float],
        PlainValidator(check_anchors),
        PlainSerializer(lambda anchors: {str(player): rating for player, rating in sorted(anchors.items())}),
    ]
    match_maker: dict[str, Any] | None  #: Result of `MatchMaker.get_state`.
    exploitability: dict[str, float] = {}  #: Lower bounds by player, see `League.set_exploitability`.
    fights: _Fights | Annotated[dict[str, Any], Field(max_length=0)] = {}  #: Missing in files of earlier versions.


class League:
    """A folder with the following files; several processes may use it at the same time.

    * ``players/``: a model file per snapshot (`file_name`), never changed once written; files of other kinds
      (`MODEL_SUFFIXES`) may be added as players;
    * ``matches.sqlite``: the `MatchLog`;
    * ``league.json``: anchors, the game, and the match maker's state (written by `save`, only by the run's owner);
    * ``ratings.json``: ratings computed from the log so far, a cache that may be deleted at any time.

    Args:
        folder: the folder, created if missing.
        match_maker: chooses opponents, and resumes from its state in the folder. ``None`` leaves that state unchanged.
        anchors: fixed Elo ratings, such as ``{Player("baseline"): 1500}``; by default those in the folder.

    Raises:
        ValueError: if a file or an anchor is invalid, or the state in the folder is of another kind of match maker.
    """

    def __init__(
        self, folder: str | Path, match_maker: MatchMaker | None = None, anchors: Mapping[Player, float] | None = None
    ) -> None:
        with extra("rate", "leagues"):  # not before: many import this who never open one
            from sb3_pvp.players.league.match_log import MatchLog
        self.folder = Path(folder)
        stored = self._settings()
        self.anchors = stored.anchors if anchors is None else check_anchors(anchors)
        # Refused before the folder is made: an error leaves nothing behind.
        if match_maker is not None and stored.match_maker is not None:
            if (kind := stored.match_maker.get("kind")) != match_maker.kind:
                raise ValueError(
                    f"the league {self.folder} has the match maker {kind!r}: {match_maker.kind!r} needs another"
                )
            match_maker.set_state(stored.match_maker)
        self.match_maker = match_maker
        is_new = not (self.folder / SETTINGS).exists()
        self.log = MatchLog(self.folder / MATCHES)  # makes the folder
        self._ratings: Ratings | None = None
        if is_new:
            (self.folder / PLAYERS).mkdir(exist_ok=True)
        if is_new or self.anchors != stored.anchors:
            self._change_settings(lambda stored: {"anchors": self.anchors})

    @classmethod
    def existing(cls, folder: str | Path, anchors: Mapping[Player, float] | None = None) -> League:
        """Opens the league in a folder, or in that of a run; raises `ValueError` if league or match log are missing."""
        for found in (Path(folder), Path(folder) / LEAGUE):
            if (found / SETTINGS).is_file():
                log = found / MATCHES
                # A new log would look like a league that has never fought, and its kept ratings would be thrown away.
                if not log.is_file() or log.stat().st_size == 0:
                    raise ValueError(f"the league in {found} has lost its matches: {MATCHES} is missing or empty")
                return cls(found, anchors=anchors)
        raise ValueError(f"{folder} holds no league: there is no {SETTINGS}")

    @property
    def fights(self) -> dict[str, Any]:
        """The ``game`` (see `sb3_pvp.game.find_game`) and ``reset_params`` of the matches; ``{}`` if not recorded."""
        return dict(self._settings().fights)

    def set_fights(self, game: str, reset_params: Mapping[str, Any]) -> None:
        """Records the game and its reset parameters, so that later matches can be of the same kind."""
        plain = orjson.loads(orjson.dumps(dict(reset_params), default=list, option=orjson.OPT_SERIALIZE_NUMPY))
        fights = _Fights(game=game, reset_params=plain)
        if dict(fights) != self.fights:
            self._change_settings(lambda stored: {"fights": fights})

    def add_anchors(self, anchors: Mapping[Player, float]) -> None:
        """Adds anchors to those in the folder; raises `ValueError` as `check_anchors` does."""
        added = check_anchors(anchors)
        self._change_settings(lambda stored: {"anchors": {**stored.anchors, **added}})

    def set_exploitability(self, player: Player, lower_bound: float) -> None:
        """Saves what a best response at least wins against a player (`sb3_pvp.callbacks.exploiters.best_response`)."""
        found = {str(player): lower_bound}
        self._change_settings(lambda stored: {"exploitability": {**stored.exploitability, **found}})

    def path(self, player: Player) -> Path:
        """Returns the path of the player's model: a zip, unless there is a file with another ending, or a team."""
        snapshot = self.folder / PLAYERS / file_name(player)
        kinds = (snapshot.with_name(f"{snapshot.stem}{suffix}") for suffix in (*MODEL_SUFFIXES, ".team"))
        return next((path for path in kinds if path.is_file()), snapshot)

    def opponent(self, player: Player) -> str:
        """Returns the ``opponent`` for environments: the path of the player's model, or its name without one.

        With parameters behind its name, such as ``main?simulations=100@4096``, it is the player that searches.
        """
        path = self.path(player)
        name, _, parameters = player.name.partition("?")
        if parameters and (fighter := self.path(Player(name, player.step))).is_file():
            return f"{SEARCH_OF}{fighter}?{parameters}"
        return str(path) if path.is_file() else str(player)

    def add(self, player: Player, save: Callable[[Path], object]) -> Path:
        """Adds a snapshot atomically: ``save(path)`` writes the model. Returns its path; an existing model is kept."""
        path = self.path(player)
        if not path.is_file():  # a resumed run repeats its last rollout, and adds the same players again
            with replacing(path) as partial:
                save(partial)
        return path

    def players(self) -> list[Player]:
        """Returns all players with a model, in order of their steps; warns of files with other names."""
        found = []
        for path in (self.folder / PLAYERS).glob("[!.]*"):  # hidden files are unfinished ones
            if path.suffix not in MODEL_SUFFIXES:
                continue
            try:
                player = player_of_file(path)
                if path != self.path(player):  # such as main_007_steps.zip
                    raise ValueError(f"the file of {player} must be named {file_name(player)}")
                found.append(player)
            except ValueError as error:
                warnings.warn(f"{path} is not used in the league: {error}", stacklevel=2)
        return sorted(found, key=lambda player: (player.age, player))

    def choose(self, rng: np.random.Generator) -> Player:
        """Samples the next opponent; players whose models are gone are removed. `ValueError` if none is left."""
        maker = self.match_maker
        if maker is None:
            raise ValueError(f"the league in {self.folder} was opened without a match maker: pass one to League(...)")
        self.remove_gone(maker)
        return maker.choose(rng)

    def remove_gone(self, maker: MatchMaker) -> None:
        """Removes players whose models are gone from a match maker, with a warning for each."""
        for player in maker.players:
            if self._is_gone(player):
                warnings.warn(f"{player} leaves the league: {self.path(player)} is gone", stacklevel=3)
                maker.remove(player)

    def _is_gone(self, player: Player) -> bool:
        return is_snapshot(player) and not self.path(player).is_file()

    def ratings(self) -> Ratings:
        """Returns the ratings after all matches so far, starting from those in the folder if they are valid."""
        # Other processes append to the log too. Only if it was replaced is everything computed anew.
        if self._ratings is None or not self._ratings.is_prefix_of(self.log):
            self._ratings = self._stored_ratings() or Ratings(self.anchors)
        self._ratings.update(self.log)
        return self._ratings

    def recompute(self) -> str:
        """Computes all ratings from the log alone and saves them; returns a key of `VERDICTS`."""
        before, self._ratings = self._stored_ratings(), Ratings(self.anchors)
        self.save_ratings()
        if before is None:
            return ABSENT
        before.update(self.log)
        return IDENTICAL if before.get_state() == self._ratings.get_state() else DIFFERENT

    def leaderboard(self, rollouts: bool = True) -> list[Standing]:
        """Returns all players with games or a model, strongest first; ``rollouts``: also those between snapshots."""
        standings = leaderboard(self.ratings(), self.players(), self._settings().exploitability)
        return [line for line in standings if rollouts or not self._is_gone(Player.parse(line.player))]

    def save(self) -> None:
        """Saves the match maker's state and the ratings."""
        if self.match_maker is not None:
            state = self.match_maker.get_state()
            self._change_settings(lambda stored: {"match_maker": state})
        self.save_ratings()

    def save_ratings(self) -> None:
        """Saves the ratings only, which any process may do at any time."""
        write_atomically(self.folder / RATINGS, orjson.dumps(self.ratings().get_state()).decode() + "\n")

    def _change_settings(self, change: Callable[[_Settings], Mapping[str, Any]]) -> None:
        """Writes the keys that ``change`` returns for the settings in the folder; other processes wait meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / _LOCK):
            stored = self._settings()
            settings = stored.model_copy(update=change(stored))
            write_atomically(self.folder / SETTINGS, settings.model_dump_json(indent=1) + "\n")
        if settings.anchors != self.anchors:
            self.anchors, self._ratings = settings.anchors, None

    def _settings(self) -> _Settings:
        """Reads the settings, by default those of a new league; raises `ValueError` if the file is invalid."""
        path = self.folder / SETTINGS
        try:
            if path.exists():
                return _Settings.model_validate_json(path.read_bytes())
            return _Settings(kind="league", version=1, anchors={}, match_maker=None)
        except ValidationError as error:
            reason = first_error(error, of=_Settings)
            raise ValueError(f"{path} is not a league of this version of sb3_pvp: {reason}") from error

    def _stored_ratings(self) -> Ratings | None:
        """Returns the ratings that begin with those in the folder; ``None`` if these are damaged or of another log."""
        ratings = Ratings(self.anchors)
        with suppress(Exception):  # the file is only a cache, and what is wrong with the log shows without it
            ratings.set_state(orjson.loads((self.folder / RATINGS).read_bytes()))
            if ratings.is_prefix_of(self.log):
                ratings.update(self.log)
                return ratings
        return None


def league_of(model: Path) -> Path | None:
    """Returns the league folder of the run that this final model, checkpoint or snapshot belongs to, if it has one."""
    parents = model.resolve().parents
    # run/model.zip, run/checkpoints/main_64_steps.zip, or run/league/players/main_64_steps.zip
    candidates = [*(parent / LEAGUE for parent in parents[:2]), *parents[1:2]]
    return next((folder for folder in candidates if (folder / SETTINGS).is_file()), None)


def is_snapshot(player: Player) -> bool:
    """Whether this is a model of a training at a step; versions of fighters that ship (``generalist@1``) are none."""
    return player.step is not None and not is_version(str(player))
