"""Reads recordings of the wire: what the fighters saw and chose, without the outputs of their policies.

A recording has a JSON object in every line: ``{"dir": ">", "conn": agent, "seq": number, "line": request}`` for a
request, and the same with ``"<"`` for its reply (protocol-observed.md). Other lines are ignored.
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

from sb3_pvp.common.errors import foreign
from sb3_pvp.game import SeenFight, as_other_sees
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.remote.client_replies import FightReply, ReplyDecoder, View, meta_record
from sb3_pvp.games.osrs.remote.messages import AGENT_TYPES
from sb3_pvp.games.osrs.rendering.fighter import ShownFighter
from sb3_pvp.games.osrs.rendering.scene import Scene, fighters_scene

#: Maximum bytes of an unpacked file, and of a line of it, against compression bombs. Real lines have some ten thousand.
MAX_SIZE, MAX_LINE = 100_000_000, 1 << 21
#: The choice of each head, and the masks bool ``(A,)`` that it was made under.
Choice = tuple[tuple[int, ...], NDArray[np.bool_]]


@dataclass(frozen=True)
class WireFight:
    """A fight of a recording; pairs have an entry for each seat.

    Attributes:
        contract: contract of the game.
        names: of the fighters.
        kinds: ``"agent"``, or ``"bot"`` for an opponent that sends no requests.
        outcomes: names of `Outcome` in lower case.
        moments: the scene after each tick and the two choices that led to it, ``None`` where they are unknown.
        reset_params: reset parameters of the first agent.
    """

    contract: Contract
    names: tuple[str, str]
    kinds: tuple[str, str]
    outcomes: tuple[str, str]
    moments: tuple[tuple[Scene, Choice | None, Choice | None], ...]
    reset_params: Any


def read_wire_recording(path: str | Path, fight: int = 0) -> WireFight:
    """Reads one fight of a recording of the wire.

    The agent with the first request has the first seat. An opponent that sends no requests, such as the server's own
    bot, is shown by the ``targetObs`` of that agent's replies.

    Args:
        path: a text file; gzipped if its name ends with ``.gz``.
        fight: index among that agent's fights, from 0.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if it has no such fight, or is not a recording.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no recording {path}")
    try:
        contract, agents = _read(Path(path))
        return _wire_fight(contract, agents, fight)
    except Exception as error:  # anybody may have written the file, so that anything may be raised
        raise ValueError(f"{path} cannot be shown as a recording of the wire: {error}") from error


def read_seen(path: str | Path) -> list[SeenFight]:
    """Reads what all agents of a recording have seen in all of their fights, and what they did.

    Raises `FileNotFoundError`, and `ValueError` if it is no recording.
    """
    with foreign(f"{path} is not a recording of the wire"):
        contract, agents = _read(Path(path))
        fights = [(name, fight) for name, own in agents.items() for fight in own]
        return [_seen(name, contract, fight) for name, fight in fights if fight.actions and len(fight.replies) > 1]


def _seen(player: str, contract: Contract, fight: _AgentFight) -> SeenFight:
    views = [reply.own for reply in fight.replies][: len(fight.actions)][: len(fight.replies) - 1]
    actions = np.array(fight.actions[: len(views)], np.int64).reshape(len(views), contract.num_heads)
    outcome, opponent = fight.replies[-1].outcome.name.lower(), str(fight.reset.get("target"))
    seen, masks = (np.stack([getattr(view, name) for view in views]) for name in ("obs", "masks"))
    return SeenFight(player, opponent, outcome, seen.astype(np.float32), masks, actions)


@dataclass
class _AgentFight:
    """One agent's side of a fight: the body of its reset, the actions of its steps, and the replies to both."""

    reset: dict[str, Any]
    actions: list[list[int]] = field(default_factory=list)
    replies: list[FightReply] = field(default_factory=list)


def _read(path: Path) -> tuple[Contract, dict[str, list[_AgentFight]]]:
    """Returns the contract and the fights of every agent."""
    contract: Contract | None = None
    agents: dict[str, list[_AgentFight]] = defaultdict(list)
    requested: dict[tuple[str, int], _AgentFight] = {}
    for entry in _entries(path):
        message, key = json.loads(entry["line"]), (entry["conn"], entry["seq"])
        action, body = message.get("action"), message.get("body")
        if action == "login":
            if body["agentType"] not in AGENT_TYPES:  # the name of a contract may also be a path
                raise ValueError(f"agentType must be {' or '.join(AGENT_TYPES)}, got {body['agentType']!r:.60}")
            contract = load_contract(body["agentType"])
        elif action == "reset":
            agents[entry["conn"]].append(_AgentFight(body))
        elif action == "step":
            agents[entry["conn"]][-1].actions.append(body["action"])
        if action in ("reset", "step"):
            requested[key] = agents[entry["conn"]][-1]
        elif entry["dir"] == "<" and key in requested and contract is not None and not message.get("error"):
            requested[key].replies.append(ReplyDecoder(contract).decode(body))
    if contract is None or not agents:
        raise ValueError("no agent logs in and fights in it")
    return contract, agents


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the messages of both directions."""
    open_file: Any = gzip.open if path.name.endswith(".gz") else open
    size = 0
    with open_file(path, "rb") as file:
        # Not `for line in file`, which reads a line of any length.
        while line := file.readline(MAX_LINE + 1):
            size += len(line)
            if len(line) > MAX_LINE or size > MAX_SIZE:
                raise ValueError(
                    f"it unpacks to more than {MAX_SIZE // 1_000_000} MB, or to lines over {MAX_LINE} bytes"
                )
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
    return WireFight(
        contract=contract,
        names=(first, second),
        kinds=("agent", "bot" if other is None else "agent"),
        outcomes=(outcome, as_other_sees(outcome)),
        moments=tuple(_moments((first, second), contract, own, other)),
        reset_params=own.reset.get("resetParams"),
    )


def _moments(
    names: tuple[str, str], contract: Contract, own: _AgentFight, other: _AgentFight | None
) -> Iterator[tuple[Scene, Choice | None, Choice | None]]:
    """Yields the moments of all ticks for which both fighters have a view."""
    # By tick and not by position: one of a pair is answered a tick later (protocol.md §5.5).
    facing = {reply.episode_ticks: reply.own if other else reply.target for reply in (other or own).replies}
    first, second = _choices(own), _choices(other) if other else {}
    for reply in own.replies:
        tick = reply.episode_ticks
        if tick not in facing:
            continue
        foe = facing[tick]
        if foe is None:
            raise ValueError("the replies lack the opponent's view (maintainTargetEnvironment was false)")
        fighters = [_fighter(name, contract, view) for name, view in zip(names, (reply.own, foe), strict=True)]
        yield fighters_scene(fighters, reply.outcome), first.get(tick), second.get(tick)


def _fighter(name: str, contract: Contract, view: View) -> ShownFighter:
    return ShownFighter(name, contract, view.obs, np.frombuffer(meta_record(view.meta), META_DTYPE)[0])


def _choices(fight: _AgentFight) -> dict[int, Choice]:
    """Returns the choices by the tick that they led to, without those that got no reply."""
    answered = zip(fight.actions, fight.replies, fight.replies[1:], strict=False)
    return {after.episode_ticks: (tuple(map(int, action)), before.own.masks) for action, before, after in answered}
