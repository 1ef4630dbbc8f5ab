"""Requests and replies written by hand from protocol.md §9 and cli-config.md §8."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import find_game
from sb3_pvp.game.contract.turn import Turn
from tests.paths import DATA
from tests.serving.fighters import NH, by_hand, random_nh, write
from tests.serving.served import RawClient, RunningServer, serving

SERVING = DATA / "serving"
GOOD = [json.loads(line) for line in (SERVING / "requests.jsonl").read_text().splitlines()]
BAD = [json.loads(line) for line in (SERVING / "bad_requests.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(by_hand(), folder / "hand.fighter")
    write(random_nh(1), folder / "nh.fighter")
    return folder


@pytest.fixture(scope="module", params=["torch", "compiled"])
def server(folder: Path, request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with serving(folder, backend=request.param, reload_interval=0) as server:
        yield server


def same(reply: Any, expected: Any) -> bool:
    """Equal but for rounding; numbers are never bools or the like."""
    if isinstance(expected, dict):
        return isinstance(reply, dict) and [*reply] == [*expected] and all(same(reply[k], expected[k]) for k in reply)
    if isinstance(expected, list):
        return isinstance(reply, list) and len(reply) == len(expected) and all(map(same, reply, expected))
    if isinstance(expected, int | float):
        return type(reply) in (int, float) and reply == pytest.approx(expected, abs=1e-5, rel=1e-6)
    return bool(reply == expected)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["why"])
def test_right_answers(server: RunningServer, case: dict[str, Any]) -> None:
    with RawClient(server.port) as client:
        reply = client.ask(case["request"])
    assert same(reply, case["reply"]), reply


def test_all_together_on_one_connection_in_order(server: RunningServer) -> None:
    with RawClient(server.port) as client:
        lines = [
            (json.dumps(good["request"]).encode(), bad["line"].encode()) for good, bad in zip(GOOD, BAD, strict=False)
        ]
        client.send(*(line for pair in lines for line in pair))
        for good, bad in zip(GOOD, BAD, strict=False):
            assert same(client.receive(), good["reply"])
            assert bad["error"] in client.receive()["error"]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["line"][:200])
def test_bad_requests_get_an_error_and_keep_the_connection(server: RunningServer, case: dict[str, str]) -> None:
    with RawClient(server.port) as client:
        reply = client.ask(case["line"].encode())
        assert [*reply] == ["error"]
        assert case["error"] in reply["error"]
        assert same(client.ask(GOOD[0]["request"]), GOOD[0]["reply"])


def test_strict_servers_close_without_a_word_as_the_original(folder: Path) -> None:
    with serving(folder, is_strict=True) as server:
        for case in BAD:
            with RawClient(server.port) as client:
                client.send(json.dumps(GOOD[0]["request"]).encode(), case["line"].encode(), b"{}")
                assert same(client.receive(), GOOD[0]["reply"])
                assert client.receive() is None


def test_sampling_follows_the_probabilities(server: RunningServer) -> None:
    request = {"model": "hand", "obs": [[1.0986123, 0]], "actionMasks": [[True, True], [True, True, True]]}
    line, count = json.dumps(request | {"deterministic": [False, True]}).encode(), 2000
    with RawClient(server.port) as client:
        chosen = []
        for _ in range(count // 100):
            client.send(*[line] * 100)
            chosen += [client.receive()["action"] for _ in range(100)]
    ones = sum(first for first, _ in chosen)
    assert abs(ones / count - 0.75) < 5 * (0.75 * 0.25 / count) ** 0.5
    assert {tuple(action) for action in chosen} == {(0, 0), (1, 2)}


def masks_of(flat: np.ndarray) -> list[list[bool]]:
    return [part.tolist() for part in NH.split_mask(flat)]


def test_scripted_fighters_by_name(server: RunningServer) -> None:
    rng = np.random.default_rng(0)
    observation = rng.random((20, NH.num_observations)).astype(np.float32)
    masks = rng.random((20, NH.num_flat_actions)) < 0.7
    masks[:, NH.head_offsets[:-1]] = True
    turn = Turn(NH, observation, masks, np.zeros(20))
    find_game("NhEnv").scripts["scripted"](turn)
    with RawClient(server.port) as client:
        for seen, mask, action in zip(observation, masks, turn.actions(), strict=True):
            request = {
                "model": "scripted",
                "obs": [seen.tolist()],
                "actionMasks": masks_of(mask),
                "deterministic": True,
            }
            nothing = {"logProb": None, "entropy": None, "values": None, "probs": None, "extensionResults": []}
            assert client.ask(request) == {"action": action.tolist(), **nothing}
        for more in ({"returnValue": True}, {"returnLogProb": True}, {"extensions": ["winrate"]}):
            assert "only has actions" in client.ask(request | more)["error"]


def test_models_without_the_extension_say_so(server: RunningServer) -> None:
    request = {"model": "nh", "obs": [[0] * NH.num_observations], "actionMasks": masks_of(np.ones(NH.num_flat_actions))}
    with RawClient(server.port) as client:
        assert "no outcome predictor" in client.ask(request | {"extensions": ["winrate"]})["error"]


def test_weights_that_are_nan_give_an_error(folder: Path, tmp_path: Path) -> None:
    broken = random_nh(2)
    broken.policy.actor[0].bias.data[:] = np.nan  # type: ignore[union-attr, index]
    write(broken, tmp_path / "broken.fighter")
    request = {
        "model": "broken",
        "obs": [[0] * NH.num_observations],
        "actionMasks": masks_of(np.ones(NH.num_flat_actions)),
    }
    with serving(tmp_path) as server, RawClient(server.port) as client:
        assert "NaN" in client.ask(request)["error"]
