"""Where opponents come from: the league's past, the newest model, a list of targets (self-play.md §2, §4)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np

from sb3_pvp.opponents.opponents import is_path, opponent_name
from sb3_pvp.selfplay import LEARNER, League, Player, player_of_file


class Drawn(NamedTuple):
    """An opponent as environments take it, and what it is called: ``str()`` of a `Player`."""

    opponent: Any
    name: str


class OpponentSource:
    """Gives opponents to the rows of one kind."""

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Looks at what there is now. Raises `ValueError` if there is nobody."""

    def draw(self, rng: np.random.Generator) -> Drawn:
        """The opponent of an episode."""
        raise NotImplementedError


class LeaguePlayers(OpponentSource):
    """Players of a league; there is a ``label`` before their names if it is that of another run."""

    def __init__(self, league: League, label: str) -> None:
        self._league, self._label = league, label

    def _known(self, learner: Player) -> list[Player]:
        """The league's players with models, without those whom this run's ``learner`` has yet to become.

        A run that was killed and goes on from an earlier checkpoint finds such in its folder.
        """
        players = self._league.players()
        if self._label:
            return players
        return [player for player in players if player.name != learner.name or player.age <= learner.age]

    def _drawn(self, player: Player) -> Drawn:
        return Drawn(self._league.opponent(player), named(player, self._label))


class LatestPlayer(LeaguePlayers):
    """The newest snapshot of a run's own learner, the same for a whole roll-out."""

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        newest = max((player for player in self._known(learner) if player.name == LEARNER), default=None)
        if newest is None:
            raise ValueError(
                f"the league in {self._league.folder} has no snapshot of a learner: list LeagueCallback before "
                "SelfPlayCallback, or wait until the other run has begun"
            )
        self._newest = newest

    def draw(self, rng: np.random.Generator) -> Drawn:
        return self._drawn(self._newest)


class PastPlayers(LeaguePlayers):
    """Players of a league, drawn by its match maker.

    At most ``num_live`` players take part in a roll-out, as each costs a batch of its own in every tick: so many draws
    of the match maker at its start, which may repeat themselves, and from which every episode takes one at random. On
    average that is the match maker's distribution; while the league has no more players, episodes ask it directly.

    Args:
        league, label: as in `LeaguePlayers`; the league has a match maker.
        num_live: at least 1.
        chances: with which probability those who take part were drawn, by name; kept up to date here, since some of
            their episodes end in later roll-outs.
    """

    def __init__(self, league: League, label: str, num_live: int, chances: dict[str, float]) -> None:
        super().__init__(league, label)
        self._num_live, self._chances = num_live, chances
        self._live: list[Player] = []
        self._players: dict[str, Player] = {}

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        maker = self._league.match_maker
        assert maker is not None
        maker.trained_rollouts = trained_rollouts
        for player in self._known(learner):
            maker.add(player)
        if not maker.players:
            raise ValueError(
                f"the league in {self._league.folder} has no players: list LeagueCallback before SelfPlayCallback, "
                "it adds snapshots of the learner"
            )
        self._players = {named(player, self._label): player for player in maker.players}
        enough = len(self._players) <= self._num_live
        self._live = [] if enough else [self._league.choose(rng) for _ in range(self._num_live)]
        probabilities = maker.probabilities()
        met = [player for player in self._live if player in probabilities]  # the others have just lost their files
        self._chances |= {named(player, self._label): probabilities[player] for player in met}

    def draw(self, rng: np.random.Generator) -> Drawn:
        player = self._live[rng.integers(len(self._live))] if self._live else self._league.choose(rng)
        if not self._league.path(player).is_file():
            player = self._league.choose(rng)
        return self._drawn(player)

    def record(self, name: str, learner_outcome: str) -> int | None:
        """Tells the match maker how an episode ended; gives the age of the player, in steps of its learner."""
        player, maker = self._players.get(name), self._league.match_maker
        if player is None or maker is None:
            return None
        maker.record(player, learner_outcome, self._chances.get(name) if self._live else None)
        return player.step


class Targets(OpponentSource):
    """A fixed list of models and plug-ins, all equally likely.

    Raises `ValueError` if the list is empty or two of them have one name, and `FileNotFoundError` for a model that is
    not there.
    """

    def __init__(self, targets: Sequence[Any]) -> None:
        if not targets:
            raise ValueError("a share of target opponents needs targets: paths of models or names of plug-ins")
        self._targets = [Drawn(*each) for each in zip(targets, target_names(targets), strict=True)]

    def draw(self, rng: np.random.Generator) -> Drawn:
        # Nothing is drawn where there is no choice.
        return self._targets[rng.integers(len(self._targets)) if len(self._targets) > 1 else 0]


def named(player: Player, label: str) -> str:
    """What a player is called here: players of other runs have the run's name before their own."""
    return str(Player(f"{label}.{player.name}", player.step) if label else player)


def label_of(league: League) -> str:
    """A name for the run whose league it is: that of its folder."""
    folder = league.folder.absolute()
    return clean_name(folder.parent.name if folder.name == "league" else folder.name)


def clean_name(text: str) -> str:
    """The text without what must not be in the name of a `Player`."""
    return re.sub(r"[^\w.+-]|^[^\w]+", "_", text, flags=re.ASCII) or "_"


def player_of_opponent(name: str) -> Player:
    """The player whom environments call by this name: a player's name, or that of a model's file."""
    with contextlib.suppress(ValueError):
        return Player.parse(name)
    with contextlib.suppress(ValueError):
        return player_of_file(f"{name}.zip")
    return Player(clean_name(name))


def target_names(targets: Sequence[Any]) -> list[str]:
    """What fixed opponents are called as players: models by their file, see `told_apart`.

    Raises `ValueError` if that is one name for two of them, and `FileNotFoundError` for a model that is not there.
    """
    names = []
    for target in targets:
        player, is_file = player_of_opponent(opponent_name(target)), is_path(target)
        if is_file and not Path(target).is_file():
            raise FileNotFoundError(f"there is no model {target} to train against")
        # This run's own snapshots are called like those of any other run's learner.
        names.append(named(player, _run_name(target) if is_file and player.name == LEARNER else ""))
    return told_apart(targets, names)


def told_apart(targets: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The names of opponents, those that files share with the names of their folders before them.

    Raises `ValueError` if two opponents have one name even so: what happens to one would count for the other.
    """
    shared = _shared(targets, names)
    whole = [
        f"{_run_name(target)}.{name}" if name in shared and is_path(target) else name
        for target, name in zip(targets, names, strict=True)
    ]
    for name in _shared(targets, whole):
        raise ValueError(f"two opponents are called {name}: rename one of the files, or its folder")
    return whole


def _shared(targets: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The names that different opponents have; one may be listed twice, to be met more often."""
    owners: dict[str, set[str]] = {}
    for target, name in zip(targets, names, strict=True):
        owners.setdefault(name, set()).add(str(target))
    return [name for name, own in owners.items() if len(own) > 1]


def _run_name(path: str | PurePath) -> str:
    """The name of the file's folder, or of the run in whose league it is."""
    folder = Path(path).absolute().parent
    run = folder.parents[1] if folder.name == "players" and folder.parent.name == "league" else folder
    return clean_name(run.name)
