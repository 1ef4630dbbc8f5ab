"""Matches between the players of a league, for ratings and not for learning."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.envs.checks import require_known
from sb3_pvp.envs.opponents import OPPONENTS, WORLD_BOT, Opponent, make_opponent
from sb3_pvp.envs.worlds import WorldFactory, contract_of
from sb3_pvp.selfplay import BradleyTerry, Counts, League, MatchRecord, Payoff, Player, informative_pairs
from sb3_pvp.selfplay.match_log import SCORES

#: `rate` chooses pairs for so many fights at a time.
FIGHTS_OF_A_CHOICE = 16
#: Who has won, or lost, so many fights without exception cannot be measured with these partners.
ONE_SIDED = 200

Pair = tuple[Player, Player]


@dataclass(frozen=True)
class Arena:
    """Where matches are fought, by sampled actions on either side.

    Attributes:
        world: ``"sim"``, ``"rsps://host:port"`` or a factory (`sb3_pvp.envs.worlds.make_world`).
        contract: what is played; a factory may bring its own.
        reset_params: how fights start, under the names of the wire (protocol.md §3).
        parallel_fights: how many at the same time.
    """

    world: str | WorldFactory = "sim"
    contract: str | Contract = "NhEnv"
    reset_params: Mapping[str, Any] = field(default_factory=dict)
    parallel_fights: int = 128


def check_players(league: League, players: Collection[Player]) -> None:
    """Raises `ValueError` unless each of them has a model in the league, or is a bot or plug-in of that name."""
    for player in players:
        if league.path(player).is_file():
            continue
        if player.step is not None:
            raise ValueError(f"{player} has no model in {league.folder}: its file would be {league.path(player)}")
        require_known("player", player.name, [*map(str, league.players()), *OPPONENTS])


def play_matches(league: League, pair: Pair, num_fights: int, seed: int, arena: Arena) -> list[MatchRecord]:
    """Lets two players fight, half of the fights in either seat, and adds the matches to the league's log.

    The world's own bot can only sit in the second seat. Raises `ValueError` if both are that bot, or one is unknown.
    """
    check_players(league, pair)
    a, b = pair
    seatings = [(first, second) for first, second in ((a, b), (b, a)) if league.opponent(first) != WORLD_BOT]
    if a == b or not seatings:
        raise ValueError(f"{a} cannot fight {b}: a match needs two players, of whom one at least is an agent")
    records: list[MatchRecord] = []
    for number, (first, second) in enumerate(seatings):
        fights = (num_fights + number) // len(seatings)
        if fights:
            records += _fight(league, first, second, fights, seed + number * num_fights, arena)
    league.log.append(records)
    return records


@dataclass(frozen=True)
class Progress:
    """How far `rate` has come.

    Attributes:
        half_widths: half of the 95 % interval of each candidate, Elo points.
        out_of_reach: uncertain candidates who have won, or lost, so many fights without exception that more of them
            would tell next to nothing.
        num_fights: how many fights were fought so far.
    """

    half_widths: dict[Player, float]
    out_of_reach: tuple[Player, ...]
    num_fights: int


def rate(
    league: League,
    candidates: Collection[Player],
    half_width: float,
    arena: Arena,
    fights_per_round: int = 256,
    max_fights: int = 20_000,
    seed: int = 0,
) -> Iterator[Progress]:
    """Lets the most informative pairs fight until every candidate is known well enough; yields before each round.

    Nobody waits for those who are out of reach: whoever is uncertain although he has won, or lost, `ONE_SIDED` fights
    without exception since this began, against partners who were chosen for being near, cannot be measured here. Pairs
    whose fights do not count, as of two who never attack first, are left alone.

    Args:
        league: the matches go into its log, and its anchors are the fixed points.
        candidates: who takes part, two at least.
        half_width: Elo points; done when no 95 % interval is wider than this on either side.
        arena: where.
        fights_per_round: the ratings are fitted anew after so many fights.
        max_fights: give up after so many.
        seed: of the fights.

    Raises:
        ValueError: for unknown players, or fewer than two; nothing was played then.
    """
    players = tuple(sorted(set(candidates)))
    check_players(league, players)
    if len(players) < 2:
        raise ValueError("rating needs two players at least, such as two models, or a model and the baseline")
    fought, num_fights = Payoff(), 0
    fruitless: set[Pair] = set()
    while True:
        fit = league.ratings().bradley_terry(players)
        widths = dict(zip(fit.players, fit.half_widths.tolist(), strict=True))
        uncertain = [player for player in players if widths[player] > half_width]
        out_of_reach = tuple(player for player in uncertain if _is_one_sided(fought.total(player)))
        yield Progress({player: widths[player] for player in players}, out_of_reach, num_fights)
        measurable = [player for player in players if player not in out_of_reach]
        left = min(fights_per_round, max_fights - num_fights)
        pairs = _next_pairs(fit, measurable, half_width, left, fruitless)
        for pair, count in pairs.items():
            records = play_matches(league, pair, count, seed + num_fights, arena)
            if not any(record.counted for record in records):
                fruitless.add(pair)
            fought.update(records)
            num_fights += count
        if not pairs:
            return


def _is_one_sided(counts: Counts) -> bool:
    return counts.games >= ONE_SIDED and max(counts.wins, counts.losses) == counts.games


def _next_pairs(
    fit: BradleyTerry, players: list[Player], half_width: float, num_fights: int, excluded: set[Pair]
) -> Counter[Pair]:
    """How often which pairs fight next; nobody does when all are known well enough, or no fights are left."""
    choices = -(-num_fights // FIGHTS_OF_A_CHOICE)
    pairs = informative_pairs(fit, players, half_width, choices, FIGHTS_OF_A_CHOICE, excluded)
    return Counter([pair for pair in pairs for _ in range(FIGHTS_OF_A_CHOICE)][: max(num_fights, 0)])


def _fight(
    league: League, first: Player, second: Player, num_fights: int, seed: int, arena: Arena
) -> list[MatchRecord]:
    """Fights with the first player in the first seat; every row plays a fixed share, or short fights would prevail."""
    agent = make_opponent(league.opponent(first), contract_of(arena.world, arena.contract))
    assert agent is not None
    env = _make_env(league.opponent(second), agent, min(num_fights, arena.parallel_fights), seed, arena)
    records: list[MatchRecord] = []
    series = uuid.uuid4().hex
    try:
        for info in _finished_fights(env, agent, num_fights, seed):
            outcome, key = info["outcome"], f"match/{series}/{len(records)}"
            fight = (info.get("seed"), info.get("build"), info["episode"]["l"], outcome in SCORES, time.time(), key)
            records.append(MatchRecord(first, second, outcome, *fight))
    finally:
        env.close()
    return records


def _make_env(opponent: str, agent: Opponent, num_envs: int, seed: int, arena: Arena) -> NhVecEnv:
    return NhVecEnv(
        num_envs,
        opponent,
        arena.world,
        seed,
        contract=arena.contract,
        reset_params=arena.reset_params,
        frame_ages=getattr(agent, "frame_ages", (0,)),
    )


def _finished_fights(env: NhVecEnv, agent: Opponent, num_fights: int, seed: int) -> Iterator[dict[str, Any]]:
    """The infos of ended fights, with the agent in the first seat."""
    share = np.array([(num_fights + row) // env.num_envs for row in range(env.num_envs)])
    # The opponent's random numbers come from the fights' seeds, which those of the agent must not share.
    state: NDArray[Any] | None = agent.initial_state([(1 << 32) + seed + row for row in range(env.num_envs)])
    frames, starts = env.reset()["observation"], np.ones(env.num_envs, bool)
    while share.any():
        seen = frames if hasattr(agent, "frame_ages") else frames[:, 0]
        actions, state = agent.predict(seen, state, starts, False, env.action_masks())
        env.step_async(actions)
        observation, _, starts, infos = env.step_wait()
        frames = observation["observation"]
        for row in np.flatnonzero(starts & (share > 0)):
            share[row] -= 1
            yield infos[row]
