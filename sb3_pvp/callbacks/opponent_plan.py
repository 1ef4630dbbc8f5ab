"""Which kind of opponent each row has, how these play, who they are and how they are called (self-play.md §1)."""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.callbacks.base import Scheduled
from sb3_pvp.common.arguments import MAPPING, SHARE
from sb3_pvp.common.names import require_all_known
from sb3_pvp.opponents.opponents import OpponentChoice, is_path, opponent_name
from sb3_pvp.schedules import drawing_from
from sb3_pvp.selfplay import LEARNER, League, Player, player_of_file

SELF, PAST, TARGET, LATEST, BASELINE = "self", "past", "target", "latest", "baseline"
#: In the order in which they are given rows.
KINDS = (SELF, PAST, TARGET, LATEST, BASELINE)
#: Shares that were written as decimals may exceed 1 by so much when they are summed.
_ROUNDING = 1e-9

_SCHEDULES, _PLAIN_OPTIONS = ("delay_chance", "deterministic_share"), ("reset_params", "noise", "action_mask_override")


class Shares:
    """Which share of the rows each kind of opponent gets over time.

    From numbers or schedules (`sb3_pvp.schedules.parse_schedule`) for all kinds but the last, which gets what is left.
    Raises `ValueError` for a wrong schedule, or shares that are impossible at the beginning.
    """

    def __init__(self, schedules: Mapping[str, Any]) -> None:
        self._shares = {
            kind: Scheduled(f"the share {kind!r} of opponents", schedules[kind], SHARE) for kind in KINDS[:-1]
        }
        self.at(0)

    def at(self, t: int) -> dict[str, float]:
        """The share of each kind after ``t`` roll-outs; raises `ValueError` if they are negative or too many."""
        shares = {kind: share(t) for kind, share in self._shares.items()}
        total = math.fsum(shares.values())
        if total > 1 + _ROUNDING:
            raise ValueError(f"the shares of opponents must not sum to more than 1: {shares} after {t} roll-outs")
        return {**shares, BASELINE: max(1 - total, 0.0)}

    def divide(self, num_envs: int, t: int) -> list[str]:
        """The kind of each row, ``num_envs`` of them; shares are rounded half to even (self-play.md §1).

        Raises `ValueError` if that is impossible: rows in self-play come in pairs.
        """
        shares = self.at(t)
        counts = {kind: round(num_envs * shares[kind]) for kind in KINDS[:-1]}
        if counts[SELF] % 2:
            raise ValueError(
                f"rows in self-play come in pairs, but a share of {shares[SELF]} of {num_envs} environments is "
                f"{counts[SELF]} after {t} roll-outs: choose a share or n_envs that gives an even number"
            )
        rows = [kind for kind, count in counts.items() for _ in range(count)]
        if len(rows) > num_envs:
            raise ValueError(
                f"{num_envs} environments cannot be divided by {shares}, rounded they are {counts} after {t} "
                "roll-outs: choose n_envs so that the shares give whole numbers"
            )
        return rows + [BASELINE] * (num_envs - len(rows))


class OpponentOptions:
    """How the opponents of one ``kind`` play. Raises `ValueError` for an unknown option or a wrong schedule.

    The ``options`` are ``deterministic_share`` (the first rows of the kind, rounded up, meet opponents who choose
    without chance) and ``delay_chance`` (see `OpponentChoice`; an expression is drawn anew for each row in each
    roll-out), both numbers or schedules; ``reset_params``, ``noise``, ``action_mask_override`` as in `OpponentChoice`.
    """

    def __init__(self, kind: str, options: Mapping[str, Any] | None = None) -> None:
        options = dict(MAPPING.read(f"the options of {kind} opponents", options) or {})
        require_all_known(f"option of {kind} opponents", options, (*_SCHEDULES, *_PLAIN_OPTIONS))
        with drawing_from(np.random.default_rng(0)):
            self._delay_chance, self._deterministic_share = (
                Scheduled(f"{name} of {kind} opponents", options.get(name, 0.0), SHARE) for name in _SCHEDULES
            )
        self._plain = {name: options[name] for name in _PLAIN_OPTIONS if options.get(name) is not None}

    def of_row(self, position: int, count: int, t: int, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of `OpponentChoice` for the ``position``-th of ``count`` rows, after ``t`` roll-outs."""
        with drawing_from(rng):
            delay_chance, share = self._delay_chance(t), self._deterministic_share(t)
        return {"delay_chance": delay_chance, "deterministic": position < math.ceil(count * share), **self._plain}


class LatestPlayer:
    """Gives rows the newest snapshot of a run's own learner, the same for a whole roll-out.

    Players of another run have its ``label`` before their names.
    """

    def __init__(self, league: League, label: str) -> None:
        self._league, self._label = league, label

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Looks at what there is now; raises `ValueError` if there is nobody."""
        newest = max((player for player in self._known(learner) if player.name == LEARNER), default=None)
        if newest is None:
            raise ValueError(
                f"the league in {self._league.folder} has no snapshot of a learner: list LeagueCallback before "
                "SelfPlayCallback, or wait until the other run has begun"
            )
        self._newest = newest

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        """The opponent of an episode, whose name is the ``str()`` of a `Player`."""
        return self._chosen(self._newest)

    def _known(self, learner: Player) -> list[Player]:
        """The league's players with models, without those whom this run's ``learner`` has yet to become.

        A run that was killed and goes on from an earlier checkpoint finds such in its folder.
        """
        known = self._league.players()
        return [each for each in known if self._label or each.name != learner.name or each.age <= learner.age]

    def _chosen(self, player: Player) -> OpponentChoice:
        return OpponentChoice(self._league.opponent(player), named(player, self._label))


class PastPlayers(LatestPlayer):
    """Gives rows players of a league, drawn by its match maker.

    At most ``num_live`` players take part in a roll-out, as each costs a batch of its own in every tick: so many draws
    of the match maker at its start, which may repeat themselves, and from which every episode takes one at random. On
    average that is the match maker's distribution; while the league has no more players, episodes ask it directly.
    How probable they were is kept in ``chances``, by name: some of their episodes end in later roll-outs.
    """

    def __init__(self, league: League, label: str, num_live: int, chances: dict[str, float]) -> None:
        super().__init__(league, label)
        assert league.match_maker is not None
        self._maker, self._num_live, self._chances = league.match_maker, num_live, chances
        self._live: list[Player] = []
        self._players: dict[str, Player] = {}

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """As that of `LatestPlayer`."""
        self._maker.trained_rollouts = trained_rollouts
        for player in self._known(learner):
            self._maker.add(player)
        self._players = {named(player, self._label): player for player in self._maker.players}
        if not self._players:
            raise ValueError(
                f"the league in {self._league.folder} has no players: list LeagueCallback before SelfPlayCallback, "
                "it adds snapshots of the learner"
            )
        enough = len(self._players) <= self._num_live
        self._live = [] if enough else [self._league.choose(rng) for _ in range(self._num_live)]
        probabilities = self._maker.probabilities()
        met = [player for player in self._live if player in probabilities]  # the others have just lost their files
        self._chances |= {named(player, self._label): probabilities[player] for player in met}

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        """As that of `LatestPlayer`."""
        player = self._live[rng.integers(len(self._live))] if self._live else self._league.choose(rng)
        if not self._league.path(player).is_file():
            player = self._league.choose(rng)
        return self._chosen(player)

    def record(self, name: str, learner_outcome: str) -> int | None:
        """Tells the match maker how an episode ended; gives the age of the player, in steps of its learner."""
        player = self._players.get(name)
        if player is None:
            return None
        self._maker.record(player, learner_outcome, self._chances.get(name) if self._live else None)
        return player.step


class Targets:
    """A fixed list of models and plug-ins, all equally likely; raises what `target_names` raises."""

    def __init__(self, targets: Sequence[Any]) -> None:
        self._targets = [OpponentChoice(*each) for each in zip(targets, target_names(targets), strict=True)]

    def begin_rollout(self, learner: Player, trained_rollouts: int, rng: np.random.Generator) -> None:
        """Nothing changes."""

    def draw(self, rng: np.random.Generator) -> OpponentChoice:
        """One of them; nothing is drawn where there is no choice."""
        return self._targets[rng.integers(len(self._targets)) if len(self._targets) > 1 else 0]


def named(player: Player, label: str) -> str:
    """What a player is called here: players of other runs have the run's name before their own."""
    return str(Player(f"{label}.{player.name}", player.step) if label else player)


def run_name(folder: Path) -> str:
    """A name for the run whose folder, league or players these are."""
    folder = folder.absolute()
    folder = folder.parent if folder.name == "players" and folder.parent.name == "league" else folder
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
        names.append(named(player, run_name(Path(target).parent) if is_file and player.name == LEARNER else ""))
    return told_apart(targets, names)


def told_apart(targets: Sequence[Any], names: Sequence[str]) -> list[str]:
    """The names of opponents, those that files share with the names of their folders before them.

    One may be listed twice, to be met more often. Raises `ValueError` if two opponents have one name even so: what
    happens to one would count for the other.
    """
    told = dict(zip(map(str, targets), names, strict=True))
    shared = Counter(told.values())
    for target, name in zip(targets, names, strict=True):
        if shared[name] > 1 and is_path(target):
            told[str(target)] = f"{run_name(Path(target).parent)}.{name}"
    name, number = max(Counter(told.values()).items(), key=lambda each: each[1], default=("", 0))
    if number > 1:
        raise ValueError(f"two opponents are called {name}: rename one of the files, or its folder")
    return [told[str(target)] for target in targets]
