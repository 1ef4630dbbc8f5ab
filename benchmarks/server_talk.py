"""What a client of `benchmarks.server_load` says to a server, fight after fight, and what it expects to hear."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import orjson

from sb3_pvp.contract import Contract
from sb3_pvp.contract.actions import random_action
from sb3_pvp.games.osrs.remote.client_requests import AgentRequest, Login, Logout, Reset, Step
from sb3_pvp.games.osrs.remote.reset_request import ACCOUNT_BUILDS, BASELINE

#: Yields what an agent (named by its id) asks for, and takes the reply line.
Talk = Generator[tuple[str, AgentRequest], bytes, None]

#: Random joint actions that are drawn for the same masks, which repeat a lot.
_DRAWN = 16
_MASKS = re.compile(rb'"actionMasks":(\[\[.*?\]\])')
_TICKS = re.compile(rb'"episodeTicks":(\d+)')
_TERMINAL = re.compile(rb'"terminalState":"(\w+)"')


class Fault(Exception):
    """A reply is not what it has to be."""


class RandomChoices:
    """Random legal joint actions for masks as they stand on the wire."""

    def __init__(self, contract: Contract, seed: int) -> None:
        self._contract = contract
        self._rng = np.random.default_rng(seed)
        self._drawn = lru_cache(maxsize=None)(self._draw)
        self._uses = 0

    def choose(self, masks: bytes) -> list[int]:
        """The next one of the joint actions that were drawn for these masks."""
        self._uses += 1
        return self._drawn(masks)[self._uses % _DRAWN]

    def _draw(self, masks: bytes) -> list[list[int]]:
        flat = np.concatenate(orjson.loads(masks))
        drawn: list[list[int]] = random_action(self._contract, np.tile(flat, (_DRAWN, 1)), self._rng).tolist()
        return drawn


@dataclass
class Speaker:
    """One after another, the agents of one connection among ``speakers`` many: log-in, reset, steps, log-out.

    Attributes:
        index: number of the connection; it makes the ids.
        opponent: number of the connection that it fights, ``None`` for the bot.
        is_leaving: agents log out instead of taking another step, and no more agents come.
        moment: number of the fight, and the tick of it that was seen last.
    """

    index: int
    opponent: int | None
    speakers: int
    choices: RandomChoices
    fights: int = 0
    is_leaving: bool = False
    moment: tuple[int, int] = (0, 0)

    def talk(self) -> Talk:
        """Fights without end; `Fault` if a reply is wrong: each one to a step has to show the next tick."""
        while not self.is_leaving:
            yield from self._fight()
            self.fights += 1

    def _fight(self) -> Talk:
        agent = self._agent(self.index)
        target = BASELINE if self.opponent is None else self._agent(self.opponent)
        # Both of a pair come to the same build, in each of their fights to another one.
        build = ACCOUNT_BUILDS[(self.index // 2 + self.fights) % len(ACCOUNT_BUILDS)]
        yield from _answered(agent, Login("NhEnv"))
        first = yield from _answered(agent, Reset(target, {"accountBuild": build}))
        yield from self._steps(agent, first)
        yield from _answered(agent, Logout())

    def _agent(self, index: int) -> str:
        return str(index + self.fights * self.speakers)

    def _steps(self, agent: str, reply: bytes) -> Talk:
        ticks, end = _ticks(reply), None
        while end is None and not self.is_leaving:
            self.moment = self.fights, ticks
            choices = self.choices.choose(_found(_MASKS, reply, "masks"))
            reply = yield from _answered(agent, Step(choices))
            ticks += 1
            if _ticks(reply) != ticks:
                raise Fault("a tick is missing")
            end = _TERMINAL.search(reply)
        if end is not None and end[1] == b"TARGET_LOST" and not self.is_leaving:
            raise Fault("the opponent was lost")


def _answered(agent: str, request: AgentRequest) -> Generator[tuple[str, AgentRequest], bytes, bytes]:
    reply = yield agent, request
    if reply.startswith(b'{"error"'):
        raise Fault(f"{request.action} was refused: {reply[:200].decode(errors='replace').strip()}")
    return reply


def _ticks(reply: bytes) -> int:
    return int(_found(_TICKS, reply, "episodeTicks"))


def _found(pattern: re.Pattern[bytes], reply: bytes, name: str) -> bytes:
    found = pattern.search(reply)
    if found is None:
        raise Fault(f"a reply without {name}")
    return found[1]
