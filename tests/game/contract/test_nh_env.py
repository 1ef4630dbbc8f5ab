"""The two contracts of the package: their sizes, and the places that models and the wire rely on."""

import subprocess
import sys

import numba
import numpy as np
import pytest
from gymnasium import spaces

from docs.contract_page import render_page
from sb3_pvp.game.contract import Contract, ContractError, load_contract
from tests.paths import ROOT

NH = load_contract("NhEnv")
DHAROK = load_contract("DharokEnv")

# contract.md §5 and §6.4, first and last index of every run.
NH_PARTIAL_RUNS = "10-11 22-28 34-40 42-43 46-46 51-51 54-54 58-62 65-65 103-159 165-165 168-175"
DHAROK_PARTIAL_RUNS = "10-18 20-20 22-23 26-27 30-30"


def indices(runs: str) -> list[int]:
    pairs = (run.split("-") for run in runs.split())
    return [index for first, last in pairs for index in range(int(first), int(last) + 1)]


def test_sizes() -> None:
    assert NH.head_sizes == (4, 3, 3, 4, 5, 2, 2, 2, 2, 5, 7, 6)
    assert (NH.num_observations, NH.num_heads, NH.num_flat_actions) == (176, 12, 45)
    assert DHAROK.head_sizes == (4, 4, 2, 2, 2, 3)
    assert (DHAROK.num_observations, DHAROK.num_heads, DHAROK.num_flat_actions) == (40, 6, 17)


@pytest.mark.parametrize(("contract", "runs", "count"), [(NH, NH_PARTIAL_RUNS, 93), (DHAROK, DHAROK_PARTIAL_RUNS, 15)])
def test_partial_observations(contract: Contract, runs: str, count: int) -> None:
    assert contract.partial_indices.tolist() == indices(runs)
    assert len(contract.partial_indices) == count


def test_constant_observations() -> None:
    assert len(NH.constant_indices) == 69
    assert set(range(96, 160)) < set(NH.constant_indices.tolist())
    assert DHAROK.constant_indices.size == 0


@pytest.mark.parametrize(
    ("index", "observation_id", "kind"),
    [
        (0, "player_using_melee", "int"),
        (4, "special_energy_percent", "float"),
        (29, "player_frozen_ticks", "float"),
        (47, "ticks_until_hit_on_target", "int"),
        (63, "player_prayer_correct", "float"),
        (95, "recent_target_correct_pray_percent", "float"),
        (102, "absolute_hitpoints_level", "float"),
        (128, "ranged_attack_speed", "int"),
        (142, "target_current_gear_ranged_defence", "int"),
        (159, "target_melee_gear_melee_defence", "float"),
        (175, "is_food_anglerfish", "int"),
    ],
)
def test_observations_stand_where_the_wire_has_them(index: int, observation_id: str, kind: str) -> None:
    assert NH.observation_index(observation_id) == index
    assert (NH.observations[index].id, NH.observations[index].kind) == (observation_id, kind)


@pytest.mark.parametrize(
    ("head", "head_id", "flat"),
    [
        (0, "attack", 0),
        (1, "melee_attack_type", 4),
        (2, "ranged_attack_type", 7),
        (3, "mage_attack_type", 10),
        (4, "potion", 14),
        (5, "food", 19),
        (6, "karambwan", 21),
        (7, "veng", 23),
        (8, "gear", 25),
        (9, "movement", 27),
        (10, "farcast_distance", 32),
        (11, "prayer", 39),
    ],
)
def test_flat_offsets(head: int, head_id: str, flat: int) -> None:
    assert NH.head_index(head_id) == head
    assert NH.flat_offset(head) == NH.flat_offset(head_id) == flat


@pytest.mark.parametrize(
    ("sub_action_id", "place", "flat"),
    [
        ("no_op_attack", (0, 0), 0),
        ("use_magic_spec", (3, 3), 13),
        ("use_tank_gear", (8, 1), 26),
        ("farcast_7_tiles", (10, 6), 38),
        ("redemption_prayer", (11, 5), 44),
    ],
)
def test_sub_actions(sub_action_id: str, place: tuple[int, int], flat: int) -> None:
    assert NH.action_index(sub_action_id) == place
    assert NH.flat_index(sub_action_id) == flat


def test_every_choice_that_has_a_rule() -> None:
    rules = NH.dependencies
    assert [rules.require_all.sum(), rules.require_any.sum(), rules.require_none.sum()] == [14, 0, 5]
    for style in ("melee", "ranged", "mage"):
        attack = NH.flat_index(f"{style}_attack")
        assert rules.require_none[NH.flat_index(f"no_{style}_attack"), attack]
        begin, end = NH.head_offsets[NH.head_index(f"{style}_attack_type") :][:2]
        assert rules.require_all[begin + 1 : end, attack].all()


def chosen_by(**choices: str) -> list[int]:
    return [NH.action_index(choices[head.id])[1] if head.id in choices else 0 for head in NH.heads]


@pytest.mark.parametrize(
    ("tank_allowed", "attack", "expected"),
    [
        (True, "no_op_attack", [False, True]),
        (False, "no_op_attack", [True, False]),
        (True, "mage_attack", [True, False]),
    ],
)
def test_tank_gear_is_forced_when_nothing_is_attacked(tank_allowed: bool, attack: str, expected: list[bool]) -> None:
    mask = np.ones(45, dtype=bool)
    mask[NH.flat_index("use_tank_gear")] = tank_allowed
    gear = NH.head_index("gear")
    assert NH.conditional_mask(mask, chosen_by(attack=attack)[:gear]).tolist() == expected


def test_an_attack_style_forces_its_own_head_and_closes_the_others() -> None:
    mask = np.ones(45, dtype=bool)
    assert NH.conditional_mask(mask, [2]).tolist() == [True, False, False]
    assert NH.conditional_mask(mask, [2, 0]).tolist() == [False, True, True]
    assert NH.conditional_mask(mask, [2, 0, 1]).tolist() == [True, False, False, False]


def test_a_farcast_needs_a_distance() -> None:
    mask = np.ones(45, dtype=bool)
    for movement, expected in (("move_to_farcast_tile", [False] + 6 * [True]), ("dont_move", [True] + 6 * [False])):
        before = chosen_by(attack="mage_attack", movement=movement)[: NH.head_index("farcast_distance")]
        assert NH.conditional_mask(mask, before).tolist() == expected


def test_spaces() -> None:
    assert NH.observation_space == spaces.Box(-np.inf, np.inf, (176,), dtype=np.float32)
    assert NH.action_space == spaces.MultiDiscrete([4, 3, 3, 4, 5, 2, 2, 2, 2, 5, 7, 6])


def test_numbers_are_compile_time_constants() -> None:
    obs, head, action, flat = NH.observation_numbers, NH.head_numbers, NH.action_numbers, NH.flat_numbers

    @numba.njit
    def places() -> tuple[int, int, int, int]:
        return obs.player_frozen_ticks, head.prayer, action.smite_prayer, flat.smite_prayer

    assert places() == (29, 11, 4, 43)


def test_errors_about_a_misspelt_id_name_the_right_one() -> None:
    with pytest.raises(ContractError, match="unknown observation 'player_frozen_tick'.*'player_frozen_ticks'"):
        NH.observation_index("player_frozen_tick")
    with pytest.raises(ContractError, match="unknown head 'prayers'.*'prayer'"):
        NH.head_index("prayers")


def test_importing_is_light() -> None:
    code = "import sb3_pvp.game.contract, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numba", "rl_zoo3", "optuna", "wandb"} & set(done.stdout.split())


def test_the_page_in_the_docs_is_up_to_date() -> None:
    page = ROOT / "docs" / "contract.md"
    assert page.read_text(encoding="utf-8") == render_page([NH, DHAROK, load_contract("LaneClash-v0")]) + "\n", (
        "run `make docs`"
    )
