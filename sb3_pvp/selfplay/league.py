"""A league: a folder with the players' models, the log of their matches, and what a match maker has learned."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError

from sb3_pvp.common.arguments import Kind, first_error
from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.selfplay.leaderboard import Standing, leaderboard
from sb3_pvp.selfplay.match_log import MatchLog
from sb3_pvp.selfplay.match_makers import MatchMaker
from sb3_pvp.selfplay.players import Player, file_name, player_of_file
from sb3_pvp.selfplay.ratings import Ratings

SETTINGS, MATCHES, PLAYERS, RATINGS = "league.json", "matches.sqlite", "players", "ratings.json"
LEAGUE = "league"  #: The folder of a run's league inside the folder of the run.

IDENTICAL, DIFFERENT, ABSENT, UNREADABLE, OF_OTHERS = "identical", "different", "absent", "unreadable", "of others"
#: What `League.recompute` finds out about the ratings that were kept.
VERDICTS = {
    IDENTICAL: "identical to the kept ones",
    DIFFERENT: "NOT those that were kept",
    ABSENT: "none were kept to compare them with",
    UNREADABLE: "the kept ones could not be read",
    OF_OTHERS: "the kept ones were of another log, or of other anchors",
}

#: Ratings beyond this are surely a mistake; expected scores would leave the range of numbers.
_RATING = Kind[float](Annotated[float, Field(ge=-10_000, le=10_000)], "a number from -10000 to 10000")


def check_anchors(anchors: object) -> dict[Player, float]:
    """Anchors by player, from a mapping by player or by name; raises `ValueError` for anything else."""
    if not isinstance(anchors, Mapping):
        raise ValueError(f"anchors must be a mapping such as {{'baseline': 1500}}, got {anchors!r}")
    return {Player.parse(str(name)): _RATING.read(f"the anchor of {name}", each) for name, each in anchors.items()}


class _Fights(BaseModel):
    """What is fought: a game as `sb3_pvp.game.find_game` takes it, and its reset parameters."""

    model_config = ConfigDict(extra="forbid")
    game: str = Field(validation_alias=AliasChoices("game", "contract"))  #: In the first edition, ``contract``.
    reset_params: dict[str, Any]


class _Settings(BaseModel):
    """The content of ``league.json``."""

    model_config = ConfigDict(extra="allow")  # what other versions may have added stays there
    kind: Literal["league"]
    version: Literal[1]
    anchors: Annotated[
        dict[Player, float],
        PlainValidator(check_anchors),
        PlainSerializer(lambda anchors: {str(player): rating for player, rating in sorted(anchors.items())}),
    ]
    match_maker: dict[str, Any] | None  #: Its state.
    exploitability: dict[str, float] = {}  #: Lower bounds by player, see `League.set_exploitability`.
    fights: _Fights | Annotated[dict[str, Any], Field(max_length=0)] = {}  #: Files of earlier versions do not tell.


class League:
    """A folder with these files; several processes may use it at the same time.

    * ``players/``: a model file for each snapshot (`file_name`), never changed once it is there;
    * ``matches.sqlite``: the `MatchLog`;
    * ``league.json``: anchors, what the fights are, and the match maker's state (written by `save`, which is for the
      owner of the run);
    * ``ratings.json``: what was computed from the log so far; may be deleted at any time.

    Args:
        folder: made if it is missing.
        match_maker: who chooses; it goes on from the state in the folder. ``None`` leaves that state alone.
        anchors: Elo ratings of players that are given, such as ``{Player("baseline"): 1500}``; ``None``: as before.

    Raises `ValueError` for files that are something else, for anchors that are none, and if another kind of match maker
    left its state there.
    """

    def __init__(
        self, folder: str | Path, match_maker: MatchMaker | None = None, anchors: Mapping[Player, float] | None = None
    ) -> None:
        self.folder = Path(folder)
        stored = self._settings()
        self.anchors = stored.anchors if anchors is None else check_anchors(anchors)
        if match_maker is not None and stored.match_maker is not None:
            if (kind := stored.match_maker.get("kind")) != match_maker.kind:
                raise ValueError(
                    f"opponents in the league {self.folder} were chosen by the match maker {kind!r}: go on with that, "
                    f"or begin a league for {match_maker.kind!r} in a folder of its own"
                )
            match_maker.set_state(stored.match_maker)
        self.match_maker = match_maker
        self.log = MatchLog(self.folder / MATCHES)
        (self.folder / PLAYERS).mkdir(exist_ok=True)
        self._ratings: Ratings | None = None
        if not (self.folder / SETTINGS).exists() or self.anchors != stored.anchors:
            self._change_settings(anchors=self.anchors)

    @classmethod
    def existing(cls, folder: str | Path, anchors: Mapping[Player, float] | None = None) -> League:
        """The league in a folder, or in that of a run; `ValueError` if there is none, or its matches are gone."""
        for found in (Path(folder), Path(folder) / LEAGUE):
            if (found / SETTINGS).is_file():
                log = found / MATCHES
                if not log.is_file() or log.stat().st_size == 0:
                    raise ValueError(f"the league in {found} has lost its matches: {MATCHES} is missing or empty")
                return cls(found, anchors=anchors)
        raise ValueError(f"{folder} holds no league: there is no {SETTINGS}")

    @property
    def fights(self) -> dict[str, Any]:
        """What is fought here, a ``game`` (`sb3_pvp.game.find_game`) and ``reset_params``; ``{}`` if nobody said."""
        return dict(self._settings().fights)

    def set_fights(self, game: str, reset_params: Mapping[str, Any]) -> None:
        """Writes down what is fought here, so that more matches can be of the same kind."""
        plain = orjson.loads(orjson.dumps(dict(reset_params), default=list, option=orjson.OPT_SERIALIZE_NUMPY))
        fights = _Fights(game=game, reset_params=plain)
        if dict(fights) != self.fights:
            self._change_settings(fights=fights)

    def add_anchors(self, anchors: Mapping[Player, float]) -> None:
        """Writes down these anchors besides those that are there; raises `ValueError` as `check_anchors` does."""
        self._change_settings(anchors={**self._settings().anchors, **check_anchors(anchors)})

    def set_exploitability(self, player: Player, lower_bound: float) -> None:
        """Writes down what a best response wins against a player at least (`sb3_pvp.exploiters.best_response`)."""
        self._change_settings(exploitability={**self._settings().exploitability, str(player): lower_bound})

    def path(self, player: Player) -> Path:
        """Where the player's model is, or would be."""
        return self.folder / PLAYERS / file_name(player)

    def opponent(self, player: Player) -> str:
        """What environments take as ``opponent``: the model's path, or the name of somebody who has none."""
        path = self.path(player)
        return str(path) if path.is_file() else str(player)

    def add(self, player: Player, save: Callable[[Path], object]) -> Path:
        """Adds a snapshot, which ``save(path)`` writes and which appears as a whole, and returns where it is."""
        path = self.path(player)
        if not path.is_file():  # who is there stays as he is, as when a resumed run repeats its last rollout
            with replacing(path) as partial:
                save(partial)
        return path

    def players(self) -> list[Player]:
        """All with a model here, in order of their steps; files with other names are left out, with a warning."""
        found = []
        for path in (self.folder / PLAYERS).glob("[!.]*.zip"):
            try:
                player = player_of_file(path)
                if path != self.path(player):  # such as main_007_steps.zip
                    raise ValueError(f"the file of {player} would be {file_name(player)}")
                found.append(player)
            except ValueError as error:
                warnings.warn(f"{path} does not take part in the league: {error}", stacklevel=2)
        return sorted(found, key=lambda player: (player.age, player))

    def choose(self, rng: np.random.Generator) -> Player:
        """Draws whom to fight next; players whose models are gone leave now. `ValueError` if nobody is left."""
        maker = self.match_maker
        if maker is None:
            raise ValueError(f"the league in {self.folder} was opened without a match maker: give it one")
        while True:
            player = maker.choose(rng)
            if player.step is None or self.path(player).is_file():  # bots and plug-ins have neither step nor model
                return player
            warnings.warn(f"{player} leaves the league: {self.path(player)} is gone", stacklevel=2)
            maker.remove(player)

    def ratings(self) -> Ratings:
        """The ratings of all matches up to now; what was computed before is taken from the folder, if it fits."""
        if self._ratings is None or not self._ratings.are_of(self.log):
            stored, _ = self._stored_ratings()
            self._ratings = stored or Ratings(self.anchors)
        self._ratings.update(self.log)
        return self._ratings

    def recompute(self) -> str:
        """Computes all ratings from the log alone, and keeps them; one of `VERDICTS` on those that were kept."""
        (before, verdict), now = self._stored_ratings(), Ratings(self.anchors)
        now.update(self.log)
        if before is not None:
            before.update(self.log)
            verdict = IDENTICAL if before.get_state() == now.get_state() else DIFFERENT
        self._ratings = now
        self.save_ratings()
        return verdict

    def leaderboard(self, rollouts: bool = True) -> list[Standing]:
        """Who has played or has a model, the strongest first; ``rollouts``: also the learner between its snapshots."""
        players = self.players()
        exploitability, models = self._settings().exploitability, {str(player) for player in players}
        standings = leaderboard(self.ratings(), players, exploitability)
        return [one for one in standings if rollouts or one.player in models or Player.parse(one.player).step is None]

    def save(self) -> None:
        """Writes down what the match maker has learned, and the ratings."""
        self._change_settings(**({"match_maker": self.match_maker.get_state()} if self.match_maker else {}))
        self.save_ratings()

    def save_ratings(self) -> None:
        """Writes down the ratings only, which any process may do at any time."""
        write_atomically(self.folder / RATINGS, orjson.dumps(self.ratings().get_state()).decode() + "\n")

    def _change_settings(self, **changes: Any) -> None:
        """Writes some keys of the settings; of the others, such as anchors, what another process has written counts."""
        settings = self._settings().model_copy(update=changes)
        write_atomically(self.folder / SETTINGS, settings.model_dump_json(indent=1) + "\n")
        if settings.anchors != self.anchors:
            self.anchors, self._ratings = settings.anchors, None

    def _settings(self) -> _Settings:
        """The content of the file, that of a new league if there is no file; `ValueError` if it is something else."""
        path = self.folder / SETTINGS
        try:
            if path.exists():
                return _Settings.model_validate_json(path.read_bytes())
            return _Settings(kind="league", version=1, anchors={}, match_maker=None)
        except ValidationError as error:
            reason = first_error(error, of=_Settings)
            raise ValueError(f"{path} is of no league that this version of sb3_pvp reads: {reason}") from error

    def _stored_ratings(self) -> tuple[Ratings | None, str]:
        """Ratings from the folder, or ``None`` and why there are none that fit: they are only a cache."""
        ratings, path = Ratings(self.anchors), self.folder / RATINGS
        if not path.exists():
            return None, ABSENT
        try:
            state = orjson.loads(path.read_bytes())
            if {name: state[name] for name in ratings.identity} != ratings.identity:
                return None, OF_OTHERS
            ratings.set_state(state)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None, UNREADABLE
        return (ratings, DIFFERENT) if ratings.are_of(self.log) else (None, OF_OTHERS)
