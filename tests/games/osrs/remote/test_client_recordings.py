"""The client against recorded sessions of the reference server: same requests, and every reply is decoded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote import RemoteWorld
from sb3_pvp.games.osrs.remote.client_replies import ReplyDecoder
from sb3_pvp.games.osrs.remote.replies import ReplyEncoder
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.games.osrs.remote.replay import Recording, ReplayServer
from tests.games.osrs.remote.served import handler_server
from tests.paths import DATA

FOLDER = DATA / "recordings"
#: A folder with more recordings.
MORE = Path(os.environ.get("SB3_PVP_RECORDINGS", FOLDER))
SESSIONS = {path.name: path for folder in (MORE, FOLDER) for path in sorted(folder.rglob("*-*.jsonl.gz"))}
PATHS = [path for name, path in SESSIONS.items() if name.startswith(("baseline-", "selfplay-"))]
OWN_PARAMS = ("agent", "target", "episodeId")


def reset_options(request: dict[str, Any], against_bot: bool) -> dict[str, Any]:
    """Returns the options of `RemoteWorld.reset` that lead to a recorded request."""
    body = request["body"]
    params = {name: value for name, value in body["resetParams"].items() if name not in OWN_PARAMS}
    return {
        "reset_params": params,
        "bots": (None, "baseline" if against_bot else None),
        "training": body["training"],
        "death_match": body["deathMatch"],
        "maintain_target_environment": body["maintainTargetEnvironment"],
    }


def comparable(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Masks random values, and the action of the last step of a fight, which has no effect."""
    shown = []
    for request, follower in zip(requests, [*requests[1:], {}], strict=True):
        request = json.loads(json.dumps(request))
        if request["action"] == "reset":
            request["body"]["resetParams"]["episodeId"] = "?"
        if request["action"] == "step" and follower.get("action") != "step":
            request["body"] = "?"
        shown.append(request)
    return shown


def replay(path: Path) -> tuple[Recording, ReplayServer, list[list[tuple[Any, ...]]]]:
    """Replays a recording. The third result is what the world showed after the reset and the steps of each fight."""
    recording = Recording(path)
    server = ReplayServer(recording)
    agents = sorted(recording.requests, key=int)
    resets = [request for request in recording.requests[agents[0]] if request["action"] == "reset"]
    fights: list[list[tuple[Any, ...]]] = []
    with handler_server(server.handle) as port:
        address = f"rsps://127.0.0.1:{port}?first_id={agents[0]}&reset_timeout=5&step_timeout=5"
        world = RemoteWorld(address, contract=recording.contract)
        for number, reset in enumerate(resets):
            world.reset(options=reset_options(reset, len(agents) == 1))
            fights.append([shown(world)])
            play(world, [recording.actions(agent)[number] for agent in agents], fights[-1])
        world.close()
    return recording, server, fights


def play(world: RemoteWorld, steps: list[list[list[int]]], log: list[tuple[Any, ...]]) -> None:
    """Plays the steps of both agents; the one answered later has one step less, and begins a tick later."""
    ticks, no_op = max(map(len, steps)), [0] * world.contract.num_heads
    steps = [[no_op] * (ticks - len(each)) + each for each in steps]
    for tick in range(ticks - 1):
        joint = [each[tick] for each in steps] + [no_op] * (2 - len(steps))
        world.step(np.array([joint]))
        log.append(shown(world))


def shown(world: RemoteWorld) -> tuple[Any, ...]:
    """Returns copies of what the world shows of its only fight."""
    return world.obs[0].copy(), world.masks[0].copy(), world.meta[0].copy(), tuple(map(Outcome, world.outcome[0]))


def flat(heads: list[list[bool]]) -> list[bool]:
    """Returns the masks of all heads in one list."""
    return [choice for head in heads for choice in head]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
def test_requests_equal_the_recorded_ones_and_every_reply_is_shown(path: Path) -> None:
    recording, server, fights = replay(path)
    for agent, requests in recording.requests.items():
        assert comparable(server.received[agent]) == comparable(requests)

    for seat, agent in enumerate(sorted(recording.requests, key=int)):
        bodies = iter(recording.bodies(agent))
        for fight in fights:
            late = len(recording.requests) == 2 and len(recording.actions(agent)[0]) < len(fight)
            # The first reply to a late agent shows what it sees after the first tick.
            for obs, masks, meta, _ in fight[late:]:
                body = next(bodies)
                assert np.array_equal(obs[seat], np.array(body["obs"], np.float32))
                assert masks[seat].tolist() == flat(body["actionMasks"])
                assert meta[seat]["episode_ticks"] == body["meta"]["episodeTicks"]
                if len(recording.requests) == 1 and "targetObs" in body["meta"]:
                    assert np.array_equal(obs[1], np.array(body["meta"]["targetObs"], np.float32))
            assert fight[-1][3][seat].name == next(bodies)["terminalState"]
            assert all(outcomes[seat] is Outcome.RUNNING for *_, outcomes in fight[:-1])


def test_until_the_late_agent_is_answered_its_view_comes_from_the_early_reply() -> None:
    recording, _, ((first, *_),) = replay(FOLDER / "selfplay-04-core_random1.jsonl.gz")
    early = recording.bodies("141")[0]
    assert np.array_equal(first[0][1], np.array(early["obs"], np.float32))
    assert np.array_equal(first[0][0], np.array(early["meta"]["targetObs"], np.float32))
    assert first[1][0].tolist() == flat(early["meta"]["targetActionMasks"])


def recorded_replies(contract: str) -> list[Any]:
    """Returns the bodies of all recorded replies of a contract."""
    recordings = [recording for recording in map(Recording, PATHS) if recording.contract == contract]
    return [body for recording in recordings for agent in recording.requests for body in recording.bodies(agent)]


@pytest.mark.parametrize("contract", ["NhEnv", "DharokEnv"])
def test_a_decoded_reply_encodes_to_what_was_sent(contract: str) -> None:
    decoder, encoder = ReplyDecoder(load_contract(contract)), ReplyEncoder(load_contract(contract))
    world = FakeWorld(1, 0, contract=contract)
    replies = recorded_replies(contract)[::9]
    assert len(replies) > 100
    for body in replies:
        reply = decoder.decode(body)
        world.meta[0, 0] = reply.own.meta
        encoded = encoder.views(world, [0]).meta[0] + b"}"
        sent = {name: value for name, value in body["meta"].items() if not name.startswith("target") or name[6] != "O"}
        sent.pop("targetActionMasks", None)
        again = json.loads(encoded)
        assert again.keys() == sent.keys()
        assert all(again[name] == pytest.approx(value, abs=1e-6) for name, value in sent.items())
