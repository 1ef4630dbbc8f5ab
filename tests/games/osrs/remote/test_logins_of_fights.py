"""A login for all fights of a row, or one for each fight: an option of the address, and what is measured by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from sb3_pvp.cli import main
from sb3_pvp.game import find_game
from sb3_pvp.games.osrs.remote import RemoteWorld
from sb3_pvp.games.osrs.remote.address import parse_address
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.remote.served import world_server

BOT = {"bots": (None, "baseline")}


class Watched(SimWorld):
    """Records which logins the server brings along, by reset."""

    seen: list[bool]

    def reset(self, fights: ArrayLike | None = None, options: Any = None) -> None:
        listed: Sequence[Mapping[str, Any]] = [options or {}] if isinstance(options, Mapping | None) else options
        self.seen.extend(any(login is not None for login in each.get("logins") or ()) for each in listed)
        super().reset(fights, options)


def watched(seen: list[bool]) -> Any:
    def make_world(num_fights: int, seed: int, *, contract: str) -> Watched:
        world = Watched(num_fights, seed, contract=contract)
        world.seen = seen
        return world

    return make_world


@pytest.mark.parametrize("bots", [BOT, {}])
@pytest.mark.parametrize(("option", "brings"), [("", True), ("?logins=kept", True), ("?logins=fresh", False)])
def test_each_fight_has_the_login_of_the_row_or_one_of_its_own(option: str, brings: bool, bots: Any) -> None:
    seen: list[bool] = []
    with world_server(watched(seen)) as port:
        world = RemoteWorld(f"rsps://127.0.0.1:{port}{option}", 2, contract="DharokEnv")
        for _ in range(3):  # the last one is broken off by the next reset
            world.reset(options=bots)
            for _ in range(3):
                world.step(np.zeros((2, 2, world.contract.num_heads), np.int64))
                assert not world.outcome.any()
        world.close()
    assert seen == [False] * 2 + [brings] * 4


def test_an_address_for_results_has_fresh_logins_unless_it_says_otherwise() -> None:
    game = find_game("DharokEnv")
    places = {
        "sim": "sim",
        "rsps://h:1": "rsps://h:1?logins=fresh",
        "rsps:": "rsps:?logins=fresh",
        "rsps://h:1?attempts=3": "rsps://h:1?attempts=3&logins=fresh",
        "rsps://h:1?logins=kept": "rsps://h:1?logins=kept",
        "rsps://?launch=run%20me": "rsps://?launch=run%20me&logins=fresh",
    }
    assert {place: game.place_for_results(place) for place in places} == places
    assert parse_address("rsps://h:1?logins=fresh").logins == "fresh" and parse_address("rsps://h:1").logins == "kept"
    assert find_game("SoccerTwos-v0").place_for_results("sim") == "sim"
    for wrong, words in (("rsps://h:1?logins=fesh", "did you mean 'fresh'"), ("rspss://h", "rsps://host:port")):
        with pytest.raises(ValueError, match=words):
            game.place_for_results(wrong)


@pytest.mark.parametrize(("option", "brings"), [("", False), ("?logins=kept", True)])
def test_evaluate_measures_fights_with_a_login_each(
    option: str, brings: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[bool] = []
    with world_server(watched(seen)) as port, pytest.raises(SystemExit) as stopped:
        address = f"rsps://127.0.0.1:{port}{option}"
        main(["evaluate", "dharok", "--episodes", "4", "--world", address, "--env-kwargs", '{"max_episode_ticks": 20}'])
    assert not stopped.value.code, capsys.readouterr().err
    assert len(seen) >= 4 and any(seen) == brings
