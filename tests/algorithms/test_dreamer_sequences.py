"""The replay of sequences does as the original's does, by its own records (tests/data/dreamer/README.md)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sb3_pvp.algorithms.dreamer.sequences import SequenceReplayBuffer, updates_due
from tests.algorithms.dreamer_reference import file_of

SEMANTICS = json.loads(file_of("replay_semantics.json").read_text())
LAYOUT = {"number": ((), np.int64), "is_first": ((), bool), "is_last": ((), bool), "latent": ((2,), np.float32)}


def replay_of(length: int, buffer_size: int = 1000, n_envs: int = 1) -> SequenceReplayBuffer:
    return SequenceReplayBuffer(buffer_size, n_envs, LAYOUT, length, seed=0)


def add(replay: SequenceReplayBuffer, env: int, number: int, **flags: Any) -> None:
    replay.append(np.array([env]), {"number": number, "is_first": False, "is_last": False, "latent": 0.0, **flags})


def test_fresh_sequences_come_first_and_once() -> None:
    facts = SEMANTICS["online_queue"]
    replay = replay_of(facts["length"])
    for number in range(facts["records_added"]):
        add(replay, 0, number)
    expected = facts["start_index_of_each_online_segment_in_order"]
    assert replay.size() == facts["items_in_replay"]
    assert replay.choose(2)[:, 0].tolist() == expected[:2]
    assert replay.choose(1)[:, 0].tolist() == expected[2:]
    assert set(replay.choose(300)[:, 0].tolist()) == set(range(facts["items_in_replay"]))


def test_fresh_sequences_of_two_environments_wait_in_one_queue() -> None:
    facts = SEMANTICS["online_queue_two_workers"]
    replay = replay_of(facts["length"], n_envs=2)
    for number in range(facts["records_added_per_worker"]):
        add(replay, 0, number)
        add(replay, 1, facts["worker_1_ids_offset"] + number)
    expected = facts["start_index_of_each_online_segment_in_order"]
    assert replay.size() == facts["items_in_replay"]
    assert replay.read(replay.choose(len(expected)))["number"][:, 0].tolist() == expected


def test_capacity_counts_starts_and_the_oldest_go() -> None:
    facts = SEMANTICS["capacity"]
    replay = replay_of(facts["length"], facts["capacity_items"])
    for number in range(facts["records_added"]):
        add(replay, 0, number)
    assert replay.size() == facts["items"]
    read = replay.read(replay.choose(300))["number"]
    assert sorted(set(read[:, 0].tolist())) == facts["start_indices_that_can_be_sampled"]
    assert (np.diff(read) == 1).all()


def test_sequences_begin_like_episodes_and_abandoned_episodes_end() -> None:
    facts = SEMANTICS["sample_annotation"]
    replay = replay_of(facts["length"])
    for first, last in zip(facts["stored_is_first"], facts["stored_is_last"], strict=True):
        add(replay, 0, 0, is_first=bool(first), is_last=bool(last))
    for start, flags in facts["by_start_index"].items():
        read = replay.read(replay.places(np.array([0]), np.array([int(start)])))
        assert read["is_first"][0].tolist() == flags["is_first"]
        assert read["is_last"][0].tolist() == flags["is_last"]
    assert replay.records["is_first"][:16].tolist() == facts["stored_is_first"]


def test_latents_are_refreshed_but_that_of_the_first_record() -> None:
    replay = replay_of(3, buffer_size=4)
    for number in range(10):
        add(replay, 0, number)
    places = replay.places(np.array([0]), np.array([6]))
    replay.write(places[:, 1:], {"latent": np.array([[[1, 2], [3, 4]]])})
    assert replay.read(places)["latent"].tolist() == [[[0, 0], [1, 2], [3, 4]]]
    assert np.count_nonzero(replay.records["latent"]) == 4


@pytest.mark.parametrize("facts", SEMANTICS["ratio"], ids=lambda facts: facts["train_ratio"])
def test_updates_are_due_as_in_the_original(facts: dict[str, Any]) -> None:
    ratio, counted = facts["train_ratio"] / (facts["batch_size"] * facts["batch_length"]), None

    def due_at(records: int) -> int:
        nonlocal counted
        updates, counted = updates_due(ratio, records, counted)
        return updates

    if isinstance(facts["step_values"], str):
        first, last = map(int, facts["step_values"].split(".."))
        updates = {step: due for step in range(first, last + 1) if (due := due_at(step))}
        assert list(updates) == facts["updates"]["nonzero_at_step"]
        assert list(updates.values()) == facts["updates"]["count_each"]
    else:
        assert [due_at(step) for step in facts["step_values"]] == facts["updates"]


@pytest.mark.parametrize("facts", SEMANTICS["prefill"]["cases"], ids=lambda facts: str(facts["envs"]))
def test_training_starts_after_as_many_records(facts: dict[str, Any]) -> None:
    replay = replay_of(facts["replay_length"], 10_000, facts["envs"])
    added = 0
    while replay.size() < facts["batch_size"] * facts["batch_length"]:
        add(replay, added % facts["envs"], added)
        added += 1
    assert added == facts["env_records_at_first_update"]
