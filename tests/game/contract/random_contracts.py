"""Hypothesis strategies for contracts that never existed, with masks for them."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract, Head, Observation, SubAction


@st.composite
def contracts(draw: st.DrawFn) -> Contract:
    """A contract of up to five heads; rules name sub-actions of earlier heads."""
    earlier: list[str] = []
    heads = []
    for number in range(draw(st.integers(1, 5))):
        rules = st.lists(st.sampled_from(earlier), max_size=2, unique=True) if earlier else st.just([])
        ids = [f"choice_{number}_{choice}" for choice in range(draw(st.integers(1, 4)))]
        actions = [SubAction(name, "", *(tuple(draw(rules)) for _ in range(3))) for name in ids]
        heads.append(Head(f"head_{number}", "", tuple(actions)))
        earlier += ids
    flags = draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6))
    observations = (Observation(f"seen_{index}", "", *pair) for index, pair in enumerate(flags))
    return Contract("Random", tuple(heads), tuple(observations))


@st.composite
def contracts_with_masks(draw: st.DrawFn) -> tuple[Contract, NDArray[np.bool_]]:
    """A contract with flat masks ``(fights, num_flat_actions)`` for it."""
    contract = draw(contracts())
    rows = st.lists(st.booleans(), min_size=contract.num_flat_actions, max_size=contract.num_flat_actions)
    return contract, np.array(draw(st.lists(rows, min_size=1, max_size=4)))
