from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.players.league import Player, file_name, player_of_file
from sb3_pvp.players.league.players import predecessor

NAMES = st.from_regex(r"[a-z0-9_][a-zA-Z0-9_.+-]{0,8}", fullmatch=True).filter(lambda name: not name.endswith("_steps"))
ALL_PLAYERS = st.builds(Player, NAMES, st.none() | st.integers(0, 10**12))


@given(ALL_PLAYERS)
def test_text_and_file_name_lead_back_to_the_player(player: Player) -> None:
    assert Player.parse(str(player)) == player
    assert player_of_file(f"/some/where/{file_name(player)}") == player


def test_files_are_called_as_stable_baselines_calls_checkpoints() -> None:
    assert file_name(Player("main", 1048576)) == "main_1048576_steps.zip"
    assert player_of_file("rl_model_2000_steps.zip") == Player("rl_model", 2000)
    assert str(Player("main", 1048576)) == "main@1048576"


@pytest.mark.parametrize(
    "text", ["", "main@", "main@-1", "main@1.5", "a b", "a/b", ".hidden", "main_5_steps", "main@٣", 3, None]
)
def test_what_is_no_player(text: Any) -> None:
    with pytest.raises(ValueError, match="player.*got") as error:
        Player.parse(text)
    assert "\n" not in str(error.value)


@given(ALL_PLAYERS, ALL_PLAYERS)
def test_order_is_total(a: Player, b: Player) -> None:
    assert (a < b) + (a > b) + (a == b) == 1


def test_order_is_by_name_then_age() -> None:
    shuffled = [Player("main", 10), Player("main"), Player("bot"), Player("main", 9)]
    assert [str(player) for player in sorted(shuffled)] == ["bot", "main", "main@9", "main@10"]


def test_only_the_learners_snapshots_have_predecessors() -> None:
    known = [Player("main", 10), Player("main", 20), Player("main", 40), Player("champion", 5)]
    assert predecessor(Player("main", 30), known) == Player("main", 20)
    assert predecessor(Player("main", 5), known) is None
    assert predecessor(Player("champion", 30), known) is None
    assert predecessor(Player("main", 30), [*known, Player("main")]) == Player("main")
