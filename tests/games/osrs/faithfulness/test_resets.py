"""Every recorded reset, entry by entry: a world with the same parameters shows the same first observation and masks.

A fight has draws that its parameters do not decide. Each recording is therefore held against many seeds: entries that
a draw decides are listed here by id and must agree for some seed, all of them at once; everything else must agree for
every seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote.replies import ReplyEncoder
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.state import LOGIN
from tests.games.osrs.faithfulness.reference import RESETS, Json, read_lines

CONTRACT = load_contract("NhEnv")
OBSERVATIONS = [observation.id for observation in CONTRACT.observations]
MASKS = [action.id for head in CONTRACT.heads for action in head.actions]
NAMES = [f"obs {name}" for name in OBSERVATIONS] + [f"mask {name}" for name in MASKS]

DRAWN_ALWAYS = {"obs player_has_pid": "PID is drawn at login"}
DRAWN_FIGHT_TYPE = {
    "obs is_lms_restrictions": "randomizeFightType: the fight type comes from a seed that is not on the wire",
    "obs is_pvp_arena_rules": "the same",
    "mask smite_prayer": "follows from the fight type: not in LMS",
}
DRAWN_POSITIONS = {
    "obs player_location_can_melee": "position: both tiles are drawn, at most five apart",
    "obs destination_to_target_distance": "position",
    "obs player_to_target_distance": "position",
    **{f"mask farcast_{tiles}_tiles": "position" for tiles in range(2, 6)},
}
#: Given to the world with ``logins``; what follows from it, here the damage scale, is compared.
EARLIER_FIGHT = "damage_on_player_tick"

SOLO_SEEDS, PAIR_SEEDS = 64, 16384

Views = NDArray[np.float64]


def recorded(pair: bool) -> list[Json]:
    return [reset for reset in read_lines(RESETS) if (len(reset["resets"]) == 2) == pair]


def flat(masks: list[list[bool]]) -> list[bool]:
    return [allowed for head in masks for allowed in head]


def views(reply: Json) -> Views:
    """Own view and the target's view (NaN where the reply has none), ``(2, len(NAMES))``."""
    meta = reply["meta"]
    own = [*reply["obs"], *flat(reply["actionMasks"])]
    target = [*meta["targetObs"], *flat(meta["targetActionMasks"])] if "targetObs" in meta else [np.nan] * len(NAMES)
    return np.array([own, target], float)


def options(reset: Json) -> dict[str, Any]:
    bodies = reset["resets"]
    params = [body["resetParams"] for body in bodies]
    return {
        "seed": 0,
        "seat_reset_params": (params[0], params[-1]),
        "bots": (None, "baseline" if len(bodies) == 1 else None),
        "training": bodies[-1]["training"],
        "death_match": bodies[0]["deathMatch"],
        "maintain_target_environment": bodies[0]["maintainTargetEnvironment"],
        "logins": (earlier_fight(reset), None),
    }


def earlier_fight(reset: Json) -> Any:
    """A login that keeps the last hitsplat of an earlier fight, as the first observation shows it; or ``None``."""
    obs = reset["reply"]["obs"]
    shown = obs[CONTRACT.observation_index(EARLIER_FIGHT)]
    if not shown:
        return None
    login = np.zeros((), LOGIN)
    login["pid"], login["pid_countdown"], login["running"] = 0.5, 50, 1
    login["splat_damage"][0] = round(shown * obs[CONTRACT.observation_index("absolute_hitpoints_level")])
    login["splat_serial"][0] = 1
    return login[()]


def drawn(reset: Json) -> dict[str, str]:
    """The entries that the parameters of this reset leave open, and why."""
    table = dict(DRAWN_ALWAYS)
    if reset["resets"][0]["resetParams"].get("randomizeFightType"):
        table.update(DRAWN_FIGHT_TYPE)
    if len(reset["resets"]) == 2 and reset["resets"][-1]["training"]:
        table.update(DRAWN_POSITIONS)
    return table


def world_views(world: SimWorld) -> Views:
    return np.concatenate([world.obs, world.masks], axis=2)


def agreement(ours: Views, reference: Views) -> NDArray[np.bool_]:
    """Which entries are equal, ``(F, 2, len(NAMES))``; what was not recorded agrees."""
    return np.isclose(ours, reference, rtol=1e-6, atol=1e-6) | np.isnan(reference)


def wrong_names(agrees: NDArray[np.bool_], table: Mapping[str, str]) -> set[str]:
    """Entries that no draw decides and that differ for some seed."""
    return {NAMES[k] for k in np.flatnonzero(~agrees.all(axis=(0, 1)))} - set(table)


def body(world: SimWorld, fight: int, seat: int) -> Json:
    place = 2 * fight + seat
    seen = ReplyEncoder(CONTRACT).views(world, [place], others=[place ^ 1])
    reply: Json = orjson.loads(seen.reply(place, True))["body"]
    return reply


def wrong_meta(ours: Json, reference: Json) -> set[str]:
    """The names in ``meta`` with another value than recorded; the target's view is left to `agreement`."""
    names = (ours["meta"].keys() | reference["meta"].keys()) - {"targetObs", "targetActionMasks"}
    return {name for name in names if not same(ours["meta"].get(name), reference["meta"].get(name))}


def same(x: Any, y: Any) -> bool:
    return bool(x == pytest.approx(y, abs=1e-6)) if isinstance(y, float) and x is not None else x == y


def test_all_recordings_are_here() -> None:
    solo, pairs = recorded(pair=False), recorded(pair=True)
    rolls = [reset for reset in solo if reset["source"].startswith("gear roll")]
    assert (len(rolls), len(solo) - len(rolls), len(pairs)) == (725, 10, 3)
    assert sum(earlier_fight(reset) is not None for reset in solo) == 2


def test_resets_against_the_bot() -> None:
    world = SimWorld(SOLO_SEEDS)
    for reset in recorded(pair=False):
        world.reset(options=options(reset))
        agrees = agreement(world_views(world), views(reset["reply"]))
        assert wrong_names(agrees, drawn(reset)) == set(), reset["source"]
        possible = agrees.all(axis=(1, 2))
        assert possible.any(), reset["source"]
        assert wrong_meta(body(world, int(possible.argmax()), 0), reset["reply"]) == set(), reset["source"]


def test_every_listed_entry_is_needed() -> None:
    """An entry in the tables does differ between seeds in some recorded reset."""
    world, seen = SimWorld(SOLO_SEEDS), set()
    for reset in recorded(pair=False)[:10] + recorded(pair=True):
        world.reset(options=options(reset))
        seen |= wrong_names(agreement(world_views(world), views(reset["reply"])), {})
    assert seen == {*DRAWN_ALWAYS, *DRAWN_FIGHT_TYPE, *DRAWN_POSITIONS}


@pytest.mark.parametrize("reset", recorded(pair=True), ids=lambda reset: reset["source"])
def test_resets_of_two_agents(reset: Json) -> None:
    """The agent without PID is answered at the reset; after its first action the other one is, a tick later."""
    world = SimWorld(PAIR_SEEDS)
    world.reset(options=options(reset))
    agrees = agreement(world_views(world), views(reset["reply"]))
    assert wrong_names(agrees, drawn(reset)) == set()
    possible = agrees.all(axis=(1, 2))
    assert possible.any()
    assert wrong_meta(body(world, int(possible.argmax()), 0), reset["reply"]) == set()

    actions = np.zeros((PAIR_SEEDS, 2, CONTRACT.num_heads), np.int64)
    actions[:, 0] = reset["action"]
    world.step(actions)
    first, late = (views(reply) for reply in reset["replies"])
    assert (first[::-1] == late).all()
    possible &= agreement(world_views(world), first).all(axis=(1, 2))
    assert any(
        not any(wrong_meta(body(world, int(fight), seat), reset["replies"][seat]) for seat in (0, 1))
        for fight in np.flatnonzero(possible)
    )
