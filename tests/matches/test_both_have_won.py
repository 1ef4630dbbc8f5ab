"""In NH fights both win if both die in one tick: neither has beaten the other."""

from __future__ import annotations

from typing import Any

import pytest

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Outcome
from sb3_pvp.matches.play import PlannedFight, play_fights
from sb3_pvp.matches.replay import record_fight
from sb3_pvp.players.league import Player
from sb3_pvp.players.opponents import OpponentChoice
from tests.game.team_game import CoinsForTwo, CoinsForTwoWorld


class EndsWorld(CoinsForTwoWorld):
    ends = Outcome.WON, Outcome.WON

    def end(self, fight: int, first: float, second: float) -> None:
        self.outcome[fight] = self.ends


class Ends(CoinsForTwo):
    def make_world(self, where: str, num_fights: int, seed: int, params: Any) -> EndsWorld:
        return EndsWorld(num_fights, seed)


def test_a_fight_that_both_have_won_is_rated_as_a_tie() -> None:
    players = Player("one"), Player("other")
    planned = {number: PlannedFight(players, number) for number in range(3)}
    played = play_fights(planned, dict.fromkeys(players, OpponentChoice("noop")), FightSettings(game=Ends()))
    assert {number: fight.outcome for number, fight in played} == dict.fromkeys(range(3), "tied")


@pytest.mark.parametrize("second", ["noop", "baseline"])
@pytest.mark.parametrize(
    ("ends", "names"),
    [
        ((Outcome.WON, Outcome.WON), ("won", "won")),
        ((Outcome.LOST, Outcome.WON), ("lost", "won")),
        ((Outcome.TARGET_LOST, Outcome.DESYNC), ("target_lost", "desync")),
    ],
)
def test_a_recording_has_the_outcome_of_each_side(
    second: str, ends: Any, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EndsWorld, "ends", ends)
    assert record_fight("noop", second, game=Ends()).outcomes == names
