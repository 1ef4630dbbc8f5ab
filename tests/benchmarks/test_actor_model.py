"""The model of what many actors cost keeps to the limits of its parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.actor_model import Costs, Place, limits, steps_per_second

#: An actor makes 50,000 steps per second, the learner learns from 200,000, and nothing else costs anything.
SIMPLE = Costs(4096, 20.0, 0.0, 0.0, 5.0, 1.0, 0.0, 0, spread=0.0)
FAST = Place(1e9)


def test_one_actor_waits_in_turns_and_overlapped_the_slower_one_counts() -> None:
    assert steps_per_second(SIMPLE, FAST, 1, False) == pytest.approx(1e6 / 25)
    assert steps_per_second(SIMPLE, FAST, 1, True) == pytest.approx(1e6 / 20)
    assert steps_per_second(SIMPLE, FAST, 3, True) == pytest.approx(3e6 / 20)
    assert steps_per_second(SIMPLE, FAST, 8, True) == pytest.approx(1e6 / 5)


def test_renewing_costs_only_where_rollouts_overlap() -> None:
    costs = replace(SIMPLE, renewing_us=3.0)
    assert steps_per_second(costs, FAST, 8, False) == steps_per_second(SIMPLE, FAST, 8, False)
    assert steps_per_second(costs, FAST, 8, True) == pytest.approx(1e6 / 8) == limits(costs, FAST)["learner_limit"]
    half = replace(costs, batch_size=4 * 4096)  # of the steps of eight actors
    assert steps_per_second(half, FAST, 8, True) == pytest.approx(1e6 / 6.5)


def test_the_network_limits_actors_that_the_learner_could_feed() -> None:
    costs, slow = replace(SIMPLE, bytes_up=1250.0), Place(1.0)  # 100,000 steps per second
    assert limits(costs, slow)["network_limit"] == pytest.approx(1e5)
    assert 0.9e5 < steps_per_second(costs, slow, 64, True) <= 1e5
    assert steps_per_second(costs, Place(10.0), 64, True) == pytest.approx(2e5)


def test_actors_and_learner_share_the_cores_of_one_machine() -> None:
    assert steps_per_second(SIMPLE, Place(1e9, cores=1.0), 1, True) == pytest.approx(1e6 / 25)
    assert steps_per_second(SIMPLE, Place(1e9, cores=2.0), 2, True) == pytest.approx(1e6 / 12.5)


@given(
    st.builds(
        Costs,
        st.integers(64, 10_000),
        *[st.floats(0.1, 100.0)] * 4,
        *[st.floats(1.0, 2000.0)] * 2,
        st.integers(0, 10_000_000),
        st.floats(0.0, 20.0),
        st.floats(0.0, 0.3),
    ),
    st.sampled_from([1, 2, 7, 40]),
    st.booleans(),
)
def test_nothing_is_faster_than_its_limits(costs: Costs, num_actors: int, is_overlapped: bool) -> None:
    place = Place(1.0)
    speed = steps_per_second(costs, place, num_actors, is_overlapped)
    least = 1e6 / (costs.receiving_us + costs.replaying_us + costs.learning_us)
    network = limits(costs, place)["network_limit"]
    assert speed <= min(least, network) * (1 + 1e-9)
