"""The requests that a client of `benchmarks.server_load` sends, fight after fight, and the replies that it expects."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import orjson

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.remote.client_requests import AgentRequest, Login, Logout, Reset, Step
from sb3_pvp.games.osrs.remote.reset_request import ACCOUNT_BUILDS, BASELINE

#: Yields the id of an agent and its next request, and takes the reply line.
Talk = Generator[tuple[str, AgentRequest], bytes, None]

#: Random joint actions kept per set of masks: masks repeat a lot, and sampling must not slow down the load.
_DRAWN = 16
_MASKS = re.compile(rb'"actionMasks":(\[\[.*?\]\])')
_TICKS = re.compile(rb'"episodeTicks":(\d+)')
_TERMINAL = re.compile(rb'"terminalState":"(\w+)"')


class Fault(Exception):
    """A reply is missing or wrong."""


class RandomChoices:
    """Random legal joint actions, by the masks' text in a reply."""

    def __init__(self, contract: Contract, seed: int) -> None:
        self._contract = contract
        self._rng = np.random.default_rng(seed)
        self._drawn = lru_cache(maxsize=None)(self._draw)
        self._uses = 0

    def choose(self, masks: bytes) -> list[int]:
        """The next of the joint actions that were sampled for these masks."""
        self._uses += 1
        return self._drawn(masks)[self._uses % _DRAWN]

    def _draw(self, masks: bytes) -> list[list[int]]:
        flat = np.concatenate(orjson.loads(masks))
        drawn: list[list[int]] = self._contract.random_action(np.tile(flat, (_DRAWN, 1)), self._rng).tolist()
        return drawn


@dataclass
class Speaker:
    """The agents of one connection, one after another: each logs in, resets, steps and logs out.

    Attributes:
        index: number of the connection, from which the agents' ids follow.
        opponent: number of the connection that it fights, ``None`` for the bot.
        speakers: number of connections.
        is_leaving: the agent logs out instead of taking another step, and no other follows.
        moment: number of the fight, and its last tick in a reply.
    """

    index: int
    opponent: int | None
    speakers: int
    choices: RandomChoices
    fights: int = 0
    is_leaving: bool = False
    moment: tuple[int, int] = (0, 0)

    def talk(self) -> Talk:
        """Fights without end; raises `Fault` for a wrong reply: each reply to a step must show the next tick."""
        while not self.is_leaving:
            yield from self._fight()
            self.fights += 1

    def _fight(self) -> Talk:
        agent = self._agent(self.index)
        target = BASELINE if self.opponent is None else self._agent(self.opponent)
        # The same build for both connections of a pair, and another one in each of their fights.
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
