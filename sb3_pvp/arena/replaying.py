"""Matches from the log again: as recordings to watch, and checked bit for bit."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import MOST_FIGHTS, SCRIPT
from sb3_pvp.arena.match_rounds import TICK_LIMIT, files_of
from sb3_pvp.arena.playing import MatchFight
from sb3_pvp.arena.referee import Digests, unpacked
from sb3_pvp.arena.store import Entrant
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import World, as_other_sees
from sb3_pvp.game.world import result_of
from sb3_pvp.matches.replay import recording
from sb3_pvp.players.league import MatchRecord, Player
from sb3_pvp.players.opponents import WORLD_BOT


@dataclass(frozen=True)
class Verification:
    """Whether a fight from the log comes out as it did."""

    key: str
    same_observations: bool  #: Of both seats in all ticks, bit for bit.
    same_outcome: bool
    #: Share of the decisions that the players' files take again, ``None`` if that was not asked for. Rounding depends
    #: on how many decide at the same time, so a few may differ.
    agreement: float | None = None


def fights_of(arena: Arena, match: str) -> list[MatchRecord]:
    """Returns the fights of a match with all details; ``match`` is its key, or that of one of its fights.

    Raises `ValueError` if there is none.
    """
    if "/fight-" in match:
        return [arena.log.fight(match)]
    keys = [f"{match}/fight-{number}" for number in range(MOST_FIGHTS)]
    known = arena.log.known(keys)
    return [arena.log.fight(key) for key in keys if key in known] or [arena.log.fight(match)]


def verify(arena: Arena, match: str | MatchRecord, decisions: bool = True) -> list[Verification]:
    """Plays the actions of a match again, and compares outcome and observations with those of then.

    Args:
        arena: whose match it is.
        match: see `fights_of`; or the record of one fight that is in another log, with all details.
        decisions: also let the players of the log decide again, each in the situations of then.

    Raises `ValueError` if the log does not have it, or the game has other rules by now.
    """
    records, found = fights_of(arena, match) if isinstance(match, str) else [match], []
    again = _decided_again(arena, records) if decisions and isinstance(match, str) else {}
    for record in records:
        assert record.details is not None
        *_, (world, digests) = _worlds(arena, record)
        outcome = result_of(*world.outcome[0, :: 1 if record.details.seat == 0 else -1].tolist())
        expected = "timeout" if record.details.cause == TICK_LIMIT else record.outcome
        # Who is at fault has lost, whatever the game says.
        same = record.details.at_fault is not None or record.details.cause not in (None, TICK_LIMIT)
        is_same = digests.of(0) == record.details.digest or not record.details.actions
        found.append(Verification(record.key, is_same, same or outcome == expected, again.get(record.key)))
    return found


def recording_of(arena: Arena, fight: str | MatchRecord) -> recording.Recording:
    """Returns a fight as a recording, by its key in the log or its record; raises `ValueError` as `verify` does."""
    record = arena.log.fight(fight) if isinstance(fight, str) else fight
    assert record.details is not None
    viewer = recording.viewer_of(arena.challenge.game)
    kinds = {each.name: kind_of(each) for each in arena.players}  # whoever is none of them is a person
    players = [recording.RecordedPlayer(str(seat), kinds.get(str(seat), "agent"), "") for seat in _seats(record)]
    moments, rules = list[recording.Moment](), _rules(arena, record)
    contract = arena.challenge.played.contract
    actions, masks = unpacked(record.details.actions, contract.num_heads), np.empty((2, 0), bool)
    for tick, (world, _) in enumerate(_worlds(arena, record)):
        # A moment has the decisions that led to it, and these the masks of the moment before.
        one, two = (
            recording.decision_of(contract, actions[tick - 1, seat], masks[seat])
            if tick and each.kind != "bot"
            else None
            for seat, each in enumerate(players)
        )
        moments.append(recording.Moment(viewer.scene(world, 0, [each.name for each in players]), (one, two)))
        masks = world.masks[0].copy()
    outcome = record.outcome if record.details.seat == 0 else as_other_sees(record.outcome)
    return recording.Recording(
        **recording.about_game(arena.challenge.played, contract),
        players=(players[0], players[1]),
        outcomes=(outcome, as_other_sees(outcome)),
        moments=tuple(moments),
        seed=record.seed,
        world="sim",
        reset_params=rules["reset_params"],
        build=record.build,
    )


def _seats(record: MatchRecord) -> list[Player]:
    """Returns the players of the first and the second seat."""
    assert record.details is not None
    return [record.player_a, record.player_b][:: 1 if record.details.seat == 0 else -1]


def kind_of(player: Entrant) -> Any:
    """Returns the kind of a player in recordings."""
    return "bot" if player.opponent == WORLD_BOT else "script" if player.kind == SCRIPT else "model"


def _rules(arena: Arena, record: MatchRecord) -> dict[str, Any]:
    assert record.details is not None
    kept = arena.store.fact(f"rules/{record.details.challenge}")
    if kept is None:
        raise ValueError(f"the rules of {record.key} are not known here: it is an imported match")
    return dict(orjson.loads(kept))


def _worlds(arena: Arena, record: MatchRecord) -> Iterator[tuple[World, Digests]]:
    """Yields the world at the start of a fight of the log and after each tick, always the same object."""
    details, rules = record.details, _rules(arena, record)
    assert details is not None
    settings = FightSettings(game=arena.challenge.played, reset_params=rules["reset_params"])
    second = str(_seats(record)[1])
    has_bot = {each.name: each.opponent for each in arena.players}.get(second) == WORLD_BOT
    with closing(settings.make_world(1)) as world:
        digests, row = Digests(world), np.array([0])
        world.reset(row, [{"bots": (None, WORLD_BOT if has_bot else None), "seed": record.seed}])
        yield world, digests
        for chosen in unpacked(details.actions, world.contract.num_heads) if details.actions else ():
            digests.add(row)
            world.step(chosen[np.newaxis], row)
            yield world, digests


def _decided_again(arena: Arena, records: list[MatchRecord]) -> dict[str, float]:
    """Returns by fight how many of the decisions of then the players take again."""
    names = {str(name) for record in records for name in (record.player_a, record.player_b)}
    players, lost = files_of(arena.store, {each.name: each for each in arena.players}, names)
    if lost:
        raise ValueError(f"{next(iter(lost))} cannot decide again: {next(iter(lost.values()))}")
    agreed = {}
    for number, record in enumerate(records):
        details = record.details
        assert details is not None
        if not details.actions:
            continue
        first, second = map(str, _seats(record))
        actions = b64encode(details.actions).decode()
        fight = MatchFight("again", number, first, second, int(record.seed or 0), actions)
        ((_, result),) = arena.workers.play_now(players, [fight])
        agreed[record.key] = result["agreement"]
    return agreed
