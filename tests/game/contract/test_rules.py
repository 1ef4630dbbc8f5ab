"""Laws of masks and rules that hold for every contract."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_contracts import contracts, contracts_with_masks

from sb3_pvp.game.contract import Contract, ContractError, Head, Observation, SubAction

SEEN = (Observation("seen", ""),)


def allowed_by_definition(contract: Contract, mask: list[bool], chosen: list[int]) -> list[bool]:
    """contract.md §2.3 word by word, with sets of ids instead of tables."""
    head = contract.heads[len(chosen)]
    names = {contract.heads[number].actions[choice].id for number, choice in enumerate(chosen)}
    allowed = [
        mask[contract.flat_index(action.id)]
        and names >= set(action.require_all)
        and (not action.require_any or bool(names & set(action.require_any)))
        and not names & set(action.require_none)
        for action in head.actions
    ]
    return allowed if any(allowed) else [True] + [False] * (len(allowed) - 1)


@given(contracts_with_masks(), st.integers(0, 2**32))
def test_conditional_masks_follow_the_definition(drawn: tuple[Contract, np.ndarray], seed: int) -> None:
    contract, masks = drawn
    actions = np.random.default_rng(seed).integers(0, contract.head_sizes, (len(masks), contract.num_heads))
    for head in range(contract.num_heads):
        allowed = contract.conditional_mask(masks, actions[:, :head])
        for row, mask, action in zip(allowed, masks, actions, strict=True):
            assert row.tolist() == allowed_by_definition(contract, mask.tolist(), action[:head].tolist())


@given(contracts_with_masks(), st.integers(0, 2**32))
def test_random_actions_are_legal_choice_by_choice(drawn: tuple[Contract, np.ndarray], seed: int) -> None:
    contract, masks = drawn
    actions = contract.random_action(masks, np.random.default_rng(seed))
    assert actions.shape == (len(masks), contract.num_heads)
    assert actions.dtype == np.int64
    for mask, action in zip(masks, actions, strict=True):
        for head, choice in enumerate(action):
            assert contract.conditional_mask(mask, action[:head])[choice]


@given(contracts_with_masks())
def test_a_head_is_never_left_without_a_choice(drawn: tuple[Contract, np.ndarray]) -> None:
    contract, masks = drawn
    nothing = np.zeros_like(masks)
    actions = contract.random_action(nothing, np.random.default_rng(0))
    assert not actions.any(), "an empty mask falls back to choice 0 everywhere"


@given(contracts_with_masks(), st.integers(0, 100))
def test_a_random_action_of_an_own_generator_is_the_same_in_every_batch(
    drawn: tuple[Contract, np.ndarray], seed: int
) -> None:
    contract, masks = drawn
    together = contract.random_action(masks, [np.random.default_rng(seed + row) for row in range(len(masks))])
    alone = [contract.random_action(mask, np.random.default_rng(seed + row)) for row, mask in enumerate(masks)]
    np.testing.assert_array_equal(together, alone)


def test_random_actions_reach_every_legal_action() -> None:
    free, tied = SubAction("free", ""), SubAction("tied", "", require_all=("second",))
    heads = (Head("a", "", (SubAction("first", ""), SubAction("second", ""))), Head("b", "", (free, tied)))
    contract = Contract("Two", heads, SEEN)
    actions = contract.random_action(np.ones((200, 4), dtype=bool), np.random.default_rng(0))
    assert {tuple(action) for action in actions.tolist()} == {(0, 0), (1, 0), (1, 1)}


@given(contracts())
def test_look_ups_agree(contract: Contract) -> None:
    flat = 0
    for head, choice in itertools.chain.from_iterable(
        [(head, choice) for choice in range(size)] for head, size in enumerate(contract.head_sizes)
    ):
        name = contract.heads[head].actions[choice].id
        assert contract.action_index(name) == (head, choice)
        assert contract.flat_index(name) == flat == contract.flat_offset(head) + choice
        assert (getattr(contract.flat_numbers, name), getattr(contract.action_numbers, name)) == (flat, choice)
        flat += 1
    assert flat == contract.num_flat_actions


@given(contracts_with_masks())
def test_a_split_mask_is_the_whole_mask(drawn: tuple[Contract, np.ndarray]) -> None:
    contract, masks = drawn
    parts = contract.split_mask(masks)
    assert tuple(part.shape[-1] for part in parts) == contract.head_sizes
    assert (np.concatenate(parts, axis=-1) == masks).all()


@given(contracts())
def test_copies_are_equal(contract: Contract) -> None:
    _ = contract.flat_numbers
    assert pickle.loads(pickle.dumps(contract)) == contract == copy.deepcopy(contract)
    assert hash(copy.deepcopy(contract)) == hash(contract)


def two_heads(first: SubAction, second: SubAction) -> Contract:
    return Contract("Two", (Head("a", "", (first,)), Head("b", "", (second,))), SEEN)


@pytest.mark.parametrize("rule", ["require_all", "require_any", "require_none"])
@pytest.mark.parametrize("required", ["later", "itself"])
def test_a_rule_about_something_undecided_is_refused(rule: str, required: str) -> None:
    with pytest.raises(ContractError, match=f"{rule} of sub-action 'itself' names '{required}'"):
        two_heads(SubAction("itself", "", **{rule: (required,)}), SubAction("later", ""))


def test_a_rule_about_an_unknown_id_is_refused() -> None:
    with pytest.raises(ContractError, match="'two' names 'nothing', which is not a sub-action"):
        two_heads(SubAction("one", ""), SubAction("two", "", require_any=("nothing",)))


def test_a_rule_about_another_choice_of_its_own_head_is_refused() -> None:
    head = Head("a", "", (SubAction("first", ""), SubAction("second", "", require_none=("first",))))
    with pytest.raises(ContractError, match="'second' names 'first', which is not decided before it"):
        Contract("One", (head,), SEEN)


@pytest.mark.parametrize(
    ("heads", "observations", "message"),
    [
        ((Head("a", "", (SubAction("x", ""), SubAction("x", ""))),), SEEN, "sub-action id 'x' is used twice"),
        ((Head("a", "", (SubAction("x", ""),)), Head("a", "", (SubAction("y", ""),))), SEEN, "head id 'a'"),
        ((Head("a", "", (SubAction("x", ""),)),), SEEN * 2, "observation id 'seen' is used twice"),
        ((Head("a", "", ()),), SEEN, "contract 'Bad' has no heads, no observations"),
        ((), SEEN, "contract 'Bad' has no heads, no observations"),
        ((Head("a", "", (SubAction("x", ""),)),), (), "contract 'Bad' has no heads, no observations"),
    ],
)
def test_bad_contracts_are_refused(
    heads: tuple[Head, ...], observations: tuple[Observation, ...], message: str
) -> None:
    with pytest.raises(ContractError, match=message):
        Contract("Bad", heads, observations)


@pytest.mark.parametrize(
    ("mask", "chosen", "message"),
    [
        ([True] * 3, [], r"flat mask of Two must have shape \(..., 2\)"),
        ([True] * 2, [0, 0], "takes 0 to 1 earlier choices"),
        ([True] * 2, [0, 0, 0], "takes 0 to 1 earlier choices"),
        ([True] * 2, [1], "out of range"),
        ([True] * 2, [-1], "out of range"),
        ([True] * 2, [0.5], "must be integers"),
    ],
)
def test_bad_masks_and_choices_are_refused(mask: list[bool], chosen: list[float], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        two_heads(SubAction("x", ""), SubAction("y", "")).conditional_mask(mask, chosen)
