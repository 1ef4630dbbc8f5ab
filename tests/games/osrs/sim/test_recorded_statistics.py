"""Replays recorded hits through the compiled statistics and compares entries 63 to 95 with the recorded ones."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entry_points import ME, TARGET, clear_tick, record_hit, refresh_hitsplats, start_memory, write_statistics
from numpy.typing import NDArray
from recordings import FOLDER, Episode, Reply, fights_below, read

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT
from sb3_pvp.games.osrs.sim.state import HITPOINTS, SEAT

ALL_RECORDINGS = os.environ.get("SB3_PVP_RECORDINGS")
CONTRACT = load_contract("NhEnv")
STATISTICS = slice(
    CONTRACT.observation_index("player_prayer_correct"),
    CONTRACT.observation_index("recent_target_correct_pray_percent") + 1,
)
DAMAGE = [CONTRACT.observation_index(name) for name in ("damage_on_player_tick", "damage_on_target_tick")]
#: One order can make two hits, and the wire only has the last; more than two are not possible in a tick.
HITS_PER_TICK = (1, 2)
MOST_HYPOTHESES = 64

Seats = NDArray[np.void]


def new_memory(reply: Reply) -> Seats:
    seats = np.zeros(2, SEAT)
    seats["worn"] = -1
    seats["base"][:, HITPOINTS] = reply.obs[CONTRACT.observation_index("absolute_hitpoints_level")]
    start_memory(seats)
    count_earlier_fight(seats[ME], reply)
    return seats


def count_earlier_fight(me: np.void, first: Reply) -> None:
    """Hitsplats of an earlier fight of the login may have been counted in a tick before the first reply."""
    scale = first.obs[CONTRACT.observation_index("total_damage_dealt_scale")]
    if first.obs[DAMAGE].sum() == 0:
        me["sum_dealt"], me["sum_received"] = max(scale - 1, 0), max(1 / scale - 1, 0)


def hit(seats: Seats, attacker: int, style: str, prayer: str | None, times: int) -> None:
    victim = 1 - attacker
    seats[victim]["prayers"] = PROTECT_BIT[Style[prayer]] if prayer else 0
    for _ in range(times):
        record_hit(seats, attacker, int(Style[style]), 0, 4)


def show_damage(seats: Seats, victim: int, fraction: float) -> None:
    if fraction > 0:
        seats[victim]["splat_damage"][0] = round(fraction * seats[victim]["base"][HITPOINTS])
        seats[victim]["splat_serial"][0] += 1


def play(seats: Seats, reply: Reply, dealt: int, received: int) -> None:
    meta = reply.meta
    clear_tick(seats)
    if dealt:
        hit(seats, ME, meta["attackTypeHit"], meta.get("targetPrayerType"), dealt)
    if received:
        hit(seats, TARGET, meta["attackTypeReceived"], meta.get("playerPrayerType"), received)
    for victim, entry in zip((ME, TARGET), DAMAGE, strict=True):
        show_damage(seats, victim, reply.obs[entry])
    refresh_hitsplats(seats)


def explains(seats: Seats, reply: Reply) -> bool:
    out = np.full(CONTRACT.num_observations, np.nan, np.float32)
    write_statistics(seats, out)
    return bool(np.allclose(out[STATISTICS], reply.obs[STATISTICS], rtol=0, atol=1e-6))


def possible_hits(meta: dict[str, Any]) -> list[tuple[int, int]]:
    dealt = HITS_PER_TICK if "attackTypeHit" in meta else (0,)
    received = HITS_PER_TICK if "attackTypeReceived" in meta else (0,)
    return list(product(dealt, received))


def replay(episode: Episode) -> int:
    """Plays an episode; raises `AssertionError` at the first reply that no number of hits explains."""
    hypotheses = [new_memory(episode.replies[0])]
    for tick, reply in enumerate(episode.replies):
        if reply.terminal:
            continue
        survivors: dict[bytes, Seats] = {}
        for seats, (dealt, received) in product(hypotheses, possible_hits(reply.meta)):
            candidate = seats.copy()
            play(candidate, reply, dealt, received)
            if explains(candidate, reply):
                survivors[candidate.tobytes()] = candidate
        assert survivors, f"{episode.source}, agent {episode.agent}, reply {tick}"
        hypotheses = list(survivors.values())
        assert len(hypotheses) <= MOST_HYPOTHESES
    return len(episode.replies)


@pytest.mark.parametrize(
    "name", ["baseline-multi-episode-one-connection", "selfplay-02-lms_zerker", "spec_darkbow2_lms_med"]
)
def test_recorded_statistics(name: str) -> None:
    episodes = read(FOLDER / f"{name}.jsonl.gz")
    assert sum(replay(episode) for episode in episodes) > 500


@pytest.mark.slow
@pytest.mark.skipif(ALL_RECORDINGS is None, reason="set SB3_PVP_RECORDINGS to a folder with recordings")
def test_all_recorded_statistics() -> None:
    for path in fights_below(Path(str(ALL_RECORDINGS))):
        for episode in read(path):
            replay(episode)
