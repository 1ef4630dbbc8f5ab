"""A challenge: which game is played, who may enter, how matches are made and rated, and for how long. One YAML file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import orjson
import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sb3_pvp.common.arguments import read_model
from sb3_pvp.common.atomic_files import write_atomically
from sb3_pvp.common.errors import first_error, require_known
from sb3_pvp.common.plain_yaml import read_yaml
from sb3_pvp.envs.settings import AUTO, FightSettings
from sb3_pvp.game import Game, find_game
from sb3_pvp.players.league import Player, check_anchors
from sb3_pvp.players.opponents import opponent_names

FILE = "challenge.yaml"  #: Its name in the folder of an arena.
MOST_FIGHTS = 1000  #: In a match.
System = Literal["elo", "elo_sequential", "openskill", "bradley_terry"]  #: Of ratings.
SYSTEMS: tuple[str, ...] = get_args(System)
Kind = Literal["fighter", "onnx", "zip", "script"]  #: Of players: by the ending of their file, or the game's scripts.
FIGHTER: Kind = "fighter"
ONNX: Kind = "onnx"
ZIP: Kind = "zip"
SCRIPT: Kind = "script"
SAFE_KINDS = (FIGHTER, ONNX)  #: Files that need not be trusted.

_PLAIN = ConfigDict(extra="forbid", frozen=True)


class DecisionLimits(BaseModel):
    """How long a player may think."""

    model_config = _PLAIN
    seconds: Annotated[float, Field(gt=0, le=3600)] = 1.0  #: For one decision.
    strikes: Annotated[int, Field(ge=1, le=1000)] = 10  #: The match is lost at so many late or illegal decisions.
    #: What a masked choice of a model is: ``strike``, or ``allow``, since worlds can play them. Scripts may always.
    illegal: Literal["strike", "allow"] = "strike"


class Entry(BaseModel):
    """Who may enter. An empty list allows everything."""

    model_config = _PLAIN
    tags: tuple[str, ...] = ()  #: Of the repository on the hub; each of them is asked for.
    kinds: tuple[Kind, ...] = (FIGHTER, ONNX, ZIP, SCRIPT)
    algorithms: tuple[str, ...] = ()  #: Such as ``maskable_ppo``, the names in the registry.
    budget: Annotated[int, Field(ge=1)] | None = None  #: The most timesteps of training.


class Pairing(BaseModel):
    """How a round is made up."""

    model_config = _PLAIN
    kind: Literal["nearest", "round_robin", "swiss", "informative"] = "nearest"
    nearest: Annotated[int, Field(ge=1)] = 5  #: Of ``nearest``: among how many of nearest rating an opponent is drawn.
    matches: Annotated[int, Field(ge=1)] | None = None  #: Of ``informative``: in a round; default: one per two players.
    half_width: Annotated[float, Field(gt=0)] = 30.0  #: Of ``informative``: wanted of the 95 % intervals, Elo points.


class Rating(BaseModel):
    """What the table is ordered by; intervals are always those of Bradley-Terry."""

    model_config = _PLAIN
    system: System = "elo"
    k: Annotated[float, Field(gt=0, le=1000)] = 32.0  #: Of Elo: the most that a match changes.
    initial: Annotated[float, Field(ge=-10_000, le=10_000)] = 1200.0  #: Of Elo: of a new player.


class Season(BaseModel):
    """When players meet. At the end the table is frozen."""

    model_config = _PLAIN
    name: str = "1"
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    half_width: Annotated[float, Field(gt=0)] = 30.0  #: Wanted of the 95 % intervals, Elo points.

    @model_validator(mode="after")
    def _in_order(self) -> Season:
        if self.start and self.end and self.start >= self.end:
            raise ValueError(f"the season ends at {self.end} before it starts at {self.start}")
        return self

    def state(self, now: datetime | None = None) -> Literal["before", "running", "over"]:
        """Whether the season has begun, and is over, at a time (default: now)."""
        now = now or datetime.now(UTC)
        return "over" if self.end and now >= self.end else "before" if self.start and now < self.start else "running"


class Challenge(BaseModel):
    """The rules of an arena. Raises pydantic's `ValidationError` for anything unknown or out of range."""

    model_config = _PLAIN
    name: Annotated[str, Field(pattern=r"^\w[\w.+-]{0,79}$")]
    game: str  #: Its name, or ``module:object``.
    reset_params: dict[str, Any] = {}  #: How fights start.
    fingerprint: str | None = (
        None  #: Of the game's observations and actions, see `Contract.fingerprint`; `save` adds it.
    )
    fights_per_match: Annotated[int, Field(ge=2, le=MOST_FIGHTS, multiple_of=2)] = 2  #: In pairs with swapped seats.
    max_ticks: Annotated[int, Field(ge=1)] | None = None  #: Of a fight, which is tied then; default: the game's.
    match_seconds: Annotated[float, Field(gt=0)] = 600.0  #: A player that has used so much in a match loses it.
    memory_mb: Annotated[int, Field(ge=64)] = 2048  #: That matches may use besides the game.
    decision: DecisionLimits = DecisionLimits()
    deterministic: bool = False  #: Whether fighters take their most likely actions instead of sampling.
    entry: Entry = Entry()
    pairing: Pairing = Pairing()
    rating: Rating = Rating()
    anchors: dict[str, float] = {}  #: Fixed Elo ratings by player.
    season: Season = Season()
    scripts: tuple[str, ...] = ()  #: Scripts of the game, and fighters that ship, that take part from the start.

    @field_validator("anchors")
    @classmethod
    def _anchors(cls, anchors: dict[str, float]) -> dict[str, float]:
        return {str(player): rating for player, rating in check_anchors(anchors).items()}

    @cached_property
    def played(self) -> Game:
        """The game; raises `ValueError` if it is not installed, or has other observations or actions by now."""
        game = find_game(self.game)
        if self.fingerprint not in (None, game.contract.fingerprint):
            raise ValueError(
                f"the observations or actions of {game.name} have changed since the challenge {self.name} was made: "
                "make a new challenge, or install the version of then"
            )
        return game

    @property
    def settings(self) -> FightSettings:
        """How fights are set up; raises `ValueError` for reset parameters that the game does not have."""
        ticks = AUTO if self.max_ticks is None else self.max_ticks
        return FightSettings(game=self.played, reset_params=self.reset_params, max_episode_ticks=ticks)

    @property
    def fixed(self) -> dict[Player, float]:
        """The anchors by player."""
        return {Player.parse(name): rating for name, rating in self.anchors.items()}

    @property
    def rules(self) -> dict[str, Any]:
        """What a fight depends on: with equal rules and seed, it starts and goes on in the same way."""
        return {"game": self.game, "reset_params": self.reset_params, "max_ticks": self.settings.max_episode_ticks}

    @property
    def rules_hash(self) -> str:
        """Equal for challenges with the same `rules`."""
        text = orjson.dumps(self.rules, option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(text, digest_size=8).hexdigest()


def load_challenge(path: str | Path) -> Challenge:
    """Reads a challenge from its file, or from the folder of an arena.

    Raises `FileNotFoundError`, and `ValueError` if it is none, or its game cannot be played so.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    try:
        challenge = Challenge.model_validate(read_yaml(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no challenge {path}: make one with sb3-pvp arena init") from error
    except ValueError as error:
        why = first_error(error, of=Challenge) if isinstance(error, ValidationError) else error
        raise ValueError(f"{path} is not a challenge: {why}") from error
    check_challenge(challenge)
    return challenge


def check_challenge(challenge: Challenge) -> None:
    """Raises `ValueError` unless its game can be played so, and its scripts are there."""
    settings = challenge.settings
    if settings.game.contract.numbers.size:
        raise ValueError(f"the arena only records choices, but {settings.game.name} asks for numbers")
    if settings.game.params is not None:
        read_model(settings.game.params, challenge.reset_params, "reset parameter")
    names = opponent_names(settings.game)
    for script in challenge.scripts:
        if script not in settings.game.scripts:
            require_known("script", script, names)


def save_challenge(challenge: Challenge, path: Path) -> None:
    """Writes a challenge with the fingerprint of its game; what is as by default is left out."""
    complete = challenge.model_copy(update={"fingerprint": challenge.played.contract.fingerprint})
    plain = complete.model_dump(mode="json", exclude_defaults=True)
    write_atomically(path, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def refusal_of(challenge: Challenge, kind: str, algorithm: str | None, steps: int | None, tags: Sequence[str]) -> str:
    """Returns why a player may not enter, or ``""``. ``algorithm`` and ``steps`` are ``None`` if unknown."""
    entry = challenge.entry
    if kind not in entry.kinds:
        return f"players of the kind {kind!r} may not enter, only {', '.join(entry.kinds)}"
    if entry.algorithms and kind != SCRIPT and algorithm not in entry.algorithms:
        return f"its algorithm is {algorithm or 'unknown'}, but only {', '.join(entry.algorithms)} may enter"
    if entry.budget is not None and kind != SCRIPT and (steps is None or steps > entry.budget):
        trained = "an unknown number of" if steps is None else f"{steps:,}"
        return f"it was trained for {trained} steps, but the budget is {entry.budget:,}"
    if missing := [tag for tag in entry.tags if tag not in tags]:
        return f"its repository lacks the tag {missing[0]!r}"
    return ""
