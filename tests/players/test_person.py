"""A person's seat: what was ordered is played where that is allowed, and the person is told what there is to do."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.players.person import PersonActions
from tests.arena.duel import CONTRACT, Duel


def test_orders_are_played_where_they_are_allowed() -> None:
    person = PersonActions(CONTRACT, None, 0)
    with closing(FightSettings(game=Duel).make_world(1)) as world:
        world.reset(np.array([0]), [{"bots": (None, None), "seed": 1}])
        for tick in range(3):
            seen = person.look(world, 0, ("Ann", "Ben"))
            assert seen["can"] == ["11" + "10"[tick % 2], "11"] and seen["why"] == {}
            assert person.scene.seen[1] is None, "what the other one sees is nobody's business"
            person.orders = ["low", "no such thing", "high", "large"]
            chosen, _ = person.predict(None, None, None, False, world.masks[:1, 0])
            assert chosen.tolist() == [[2 if tick % 2 == 0 else 0, 1]]
            assert person.played == (["high"] if tick % 2 == 0 else ["low"]) + ["large"]
            assert person.orders == [] and (person.masks[-1] == world.masks[0, 0]).all()
            world.step(np.array([[chosen[0], [0, 0]]]), np.array([0]))
