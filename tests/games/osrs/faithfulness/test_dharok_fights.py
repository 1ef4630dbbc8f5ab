"""The recorded Dharok fights, played again: every entry of every reply, from the reset to the reply after the end.

`dharok_draws` found a random state for each tick of each fight. With them our world must be the recorded fight. A rule
that differs shows up in the first tick in which it matters.
"""

from __future__ import annotations

import numpy as np
import pytest

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.faithfulness.dharok_draws import play
from tests.games.osrs.faithfulness.dharok_recordings import CONTRACT, Draws, Recording, disagreements, load

FIGHTS = load()


@pytest.mark.parametrize(("recording", "draws"), FIGHTS, ids=[recording.name for recording, _ in FIGHTS])
def test_every_entry_of_a_fight(recording: Recording, draws: Draws) -> None:
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"seed": draws.seed, **recording.reset_options})
    assert not disagreements(recording, 0, world)
    for t in range(1, recording.ticks + 1):
        over = t == recording.ticks  # one tick before, the fight was decided
        assert (world.outcome != Outcome.RUNNING).all() == over
        play(world, recording, t, draws.words[t - 1 : t])
        assert not disagreements(recording, t, world), f"tick {t}"
    told = recording.outcomes != Outcome.RUNNING
    assert (world.outcome[0, told] == recording.outcomes[told]).all()
    assert told.sum() == 1 + (not recording.against_bot)


def test_what_is_compared() -> None:
    """Of both seats: 5 fights of two agents, 8 against the bot and 2 that end when somebody has no food."""
    against_bot = [recording.against_bot for recording, _ in FIGHTS]
    assert (len(against_bot), sum(against_bot)) == (15, 10)
    assert sum(not recording.death_match for recording, _ in FIGHTS) == 2
    entries = sum(
        recording.obs_known.sum() * CONTRACT.num_observations + recording.masks.size for recording, _ in FIGHTS
    )
    assert entries > 500_000


def test_a_wrong_entry_is_noticed() -> None:
    recording, draws = FIGHTS[0]
    world = SimWorld(1, contract="DharokEnv")
    world.reset(options={"seed": draws.seed, **recording.reset_options})
    world.masks[0, 1, 3] = True
    world.obs[0, 0, 4] += 1e-4
    world.meta["distance"][0, 0] = 2
    assert disagreements(recording, 0, world).keys() == {
        "seat 0 obs player_health_percent",
        "seat 1 mask 3",
        "seat 0 meta distance",
    }


@pytest.mark.parametrize("against_bot", [False, True])
def test_resets(against_bot: bool) -> None:
    """All entries are those of any of our resets, but for who has PID and how far apart two agents are."""
    for recording, _ in FIGHTS:
        if recording.against_bot != against_bot:
            continue
        world = SimWorld(64, 7, contract="DharokEnv")
        world.reset(options=recording.reset_options)
        drawn = {"seat 0 obs player_has_pid", "seat 1 obs player_has_pid"}
        wrong = disagreements(recording, 0, world)
        assert wrong.keys() <= drawn | (set() if against_bot else {"seat 0 meta distance"})
        assert not np.logical_or.reduce(list(wrong.values())).all()
