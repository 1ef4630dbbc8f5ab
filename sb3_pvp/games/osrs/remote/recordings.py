"""Recordings of the wire: what was to be seen in a fight and what was chosen, without anybody's thoughts.

Such a recording has a JSON object in every line: ``{"dir": ">", "conn": agent, "seq": number, "line": request}`` for
what an agent asked, and the same with ``"<"`` for what it was answered (protocol.md §2). Other lines are ignored.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract, load_contract
from sb3_pvp.games.osrs.remote.client_errors import Lost
from sb3_pvp.games.osrs.remote.client_replies import FightReply, ReplyDecoder, View, meta_record
from sb3_pvp.games.osrs.rendering.fighter import Fighter
from sb3_pvp.games.osrs.rendering.scene import Scene, fighters_scene
from sb3_pvp.games.osrs.report import META_DTYPE

#: Bytes that a file may unpack to.
MAX_SIZE = 100_000_000
#: What somebody chose, an entry of each head, and from what, bool ``(A,)``.
Choice = tuple[tuple[int, ...], NDArray[np.bool_]]


@dataclass(frozen=True)
class WireFight:
    """A fight of a recording; pairs are of the two seats.

    Attributes:
        contract: what is played.
        names: of the fighters.
        kinds: ``"agent"``, or ``"bot"`` for somebody who does not ask.
        outcomes: names of `Outcome` in small letters.
        moments: what was to be seen after each tick, and the two choices that led to it; ``None`` where nobody knows.
        reset_params: how the fight started.
    """

    contract: Contract
    names: tuple[str, str]
    kinds: tuple[str, str]
    outcomes: tuple[str, str]
    moments: tuple[tuple[Scene, Choice | None, Choice | None], ...]
    reset_params: Any


def read_wire_recording(path: str | Path, fight: int = 0) -> WireFight:
    """One fight of a recording of the wire.

    The first seat is that of the agent who asked first. Somebody who does not ask, such as the server's own bot, is
    seen as the answers to that agent tell it.

    Args:
        path: a text file, perhaps gzipped.
        fight: which of that agent's fights, from 0 on.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it holds no such fight.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no recording {path}")
    try:
        contract, agents = _read(Path(path))
        return _wire_fight(contract, agents, fight)
    except (OSError, EOFError, LookupError, AttributeError, TypeError, ValueError, Lost) as error:
        raise ValueError(f"{path} is no recording of the wire that can be shown: {error}") from error


@dataclass
class _AgentFight:
    """One agent's side: its reset, the steps that it asked for, and the answers to all of that."""

    reset: dict[str, Any]
    actions: list[list[int]] = field(default_factory=list)
    replies: list[FightReply] = field(default_factory=list)


def _read(path: Path) -> tuple[Contract, dict[str, list[_AgentFight]]]:
    """What is played, and the fights of every agent."""
    contract: Contract | None = None
    agents: dict[str, list[_AgentFight]] = defaultdict(list)
    asked: dict[tuple[str, int], _AgentFight] = {}
    for entry in _entries(path):
        message, key = json.loads(entry["line"]), (entry["conn"], entry["seq"])
        action, body = message.get("action"), message.get("body")
        if action == "login":
            contract = load_contract(body["agentType"])
        elif action == "reset":
            agents[entry["conn"]].append(_AgentFight(body))
        elif action == "step":
            agents[entry["conn"]][-1].actions.append(body["action"])
        if action in ("reset", "step"):
            asked[key] = agents[entry["conn"]][-1]
        elif entry["dir"] == "<" and key in asked and contract is not None and not message.get("error"):
            asked[key].replies.append(ReplyDecoder(contract).decode(body))
    if contract is None or not agents:
        raise ValueError("nobody logs in and fights in it")
    return contract, agents


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The messages of both directions."""
    open_text: Any = gzip.open if path.name.endswith(".gz") else open
    size = 0
    with open_text(path, "rt", encoding="utf-8") as file:
        for line in file:
            size += len(line)
            if size > MAX_SIZE:
                raise ValueError(f"it unpacks to more than {MAX_SIZE // 1_000_000} MB")
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("dir") in ("<", ">"):
                yield entry


def _wire_fight(contract: Contract, agents: dict[str, list[_AgentFight]], number: int) -> WireFight:
    first, fights = next(iter(agents.items()))
    if not 0 <= number < len(fights) or not fights[number].replies:
        raise ValueError(f"agent {first} has {len(fights)} fights in it, and none with the number {number}")
    own, second = fights[number], str(fights[number].reset.get("target"))
    other = agents[second][number] if number < len(agents.get(second, ())) else None
    outcome = own.replies[-1].outcome.name.lower()
    mirrored = {"won": "lost", "lost": "won"}.get(outcome, outcome)
    return WireFight(
        contract=contract,
        names=(first, second),
        kinds=("agent", "bot" if other is None else "agent"),
        outcomes=(outcome, mirrored),
        moments=tuple(_moments((first, second), contract, own, other)),
        reset_params=own.reset.get("resetParams"),
    )


def _moments(
    names: tuple[str, str], contract: Contract, own: _AgentFight, other: _AgentFight | None
) -> Iterator[tuple[Scene, Choice | None, Choice | None]]:
    """One for each tick that the first agent was told of, and the other one, too, if it asked."""
    facing = {reply.episode_ticks: reply.own if other else reply.target for reply in (other or own).replies}
    first, second = _choices(own), _choices(other) if other else {}
    for reply in own.replies:
        tick = reply.episode_ticks
        if tick not in facing:
            continue
        foe = facing[tick]
        if foe is None:
            raise ValueError("the server did not tell what the opponent saw (maintainTargetEnvironment was false)")
        fighters = [_fighter(name, contract, view) for name, view in zip(names, (reply.own, foe), strict=True)]
        yield fighters_scene(fighters, reply.outcome), first.get(tick), second.get(tick)


def _fighter(name: str, contract: Contract, view: View) -> Fighter:
    return Fighter(name, contract, view.obs, np.frombuffer(meta_record(view.meta), META_DTYPE)[0])


def _choices(fight: _AgentFight) -> dict[int, Choice]:
    """By the ticks that they led to; choices that were not answered are left out."""
    answered = zip(fight.actions, fight.replies, fight.replies[1:], strict=False)
    return {after.episode_ticks: (tuple(map(int, action)), before.own.masks) for action, before, after in answered}
