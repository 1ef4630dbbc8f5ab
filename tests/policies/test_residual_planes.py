"""The features extractor for boards, and a policy of it that plays chess."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.inference import open_backend
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.planes import ResidualPlanes
from sb3_pvp.policies.sampling import HeadTables
from sb3_pvp.serving.client import Client
from tests.serving.served import serving


def test_it_is_what_it_says() -> None:
    extractor = ResidualPlanes(spaces.Box(-1, 1, (2, 3, 4, 5)), channels=6, blocks=2, features_dim=7)
    for weight in extractor.parameters():
        th.nn.init.normal_(weight)
    seen = th.randn(8, 2, 3, 4, 5)
    weights = extractor.state_dict()

    def convolved(board: th.Tensor, name: str) -> th.Tensor:
        return th.nn.functional.conv2d(board, weights[f"{name}.weight"], weights[f"{name}.bias"], padding=1)

    board = convolved(seen.flatten(1, 2), "first").clamp(min=0)
    for block in ("blocks.0", "blocks.1"):
        board = (board + convolved(convolved(board, f"{block}.first").clamp(min=0), f"{block}.second")).clamp(min=0)
    wanted = (board.flatten(1) @ weights["last.weight"].T + weights["last.bias"]).clamp(min=0)
    th.testing.assert_close(extractor(seen), wanted)
    th.testing.assert_close(extractor({"observation": seen}), wanted)


def test_it_needs_planes() -> None:
    with pytest.raises(ValueError, match=r"three axes, not \(9,\)"):
        ResidualPlanes(spaces.Box(-1, 1, (9,)))


def test_a_policy_takes_its_name() -> None:
    spaces_ = spaces.Box(-1, 1, (2, 4, 4)), spaces.Discrete(3)
    small = {"features_extractor_kwargs": {"channels": 2, "blocks": 1, "features_dim": 3}, "net_arch": []}
    policy = AutoregressivePolicy(
        *spaces_, lambda _: 1e-3, features_extractor_class="ResidualPlanes", contract=None, **small
    )
    assert isinstance(policy.extractors[0][0].extractor, ResidualPlanes)
    with pytest.raises(ValueError, match="unknown features extractor 'ResidualPlane'.*did you mean 'ResidualPlanes'"):
        AutoregressivePolicy(*spaces_, lambda _: 1e-3, features_extractor_class="ResidualPlane", contract=None)


def test_a_policy_that_plays_chess_is_the_same_everywhere(tmp_path: Path) -> None:
    env = PvpVecEnv(4, game="ChessPvP-v0", opponent="random", seed=0)
    small = {"channels": 4, "blocks": 1, "features_dim": 16}
    arguments = {
        "features_extractor_class": ResidualPlanes,
        "features_extractor_kwargs": small,
        "net_arch": [],
        "autoregressive": False,  # else each action has a weight for every other one
    }
    model = PvpPPO(AutoregressivePolicy, env, n_steps=16, batch_size=32, policy_kwargs=arguments, seed=0)
    model.learn(4 * 32)
    # Two tables of rules between 4,672 actions would take 175 MB, in the policy and in what it samples with.
    tables = HeadTables(model.policy.heads)
    parts = (*model.policy.rules.buffers(), *map(th.as_tensor, (tables.table, tables.permits)))
    assert sum(part.nbytes for part in parts) < 1e6
    assert any(block.second.weight.any() for block in model.policy.extractors[0][0].extractor.blocks)
    observations = env.reset()
    wanted, _ = model.predict(observations, deterministic=True)
    assert np.take_along_axis(observations["action_mask"], wanted, axis=1).all()
    model.save(tmp_path / "chess.zip")
    assert (tmp_path / "chess.zip").stat().st_size < 4e6
    loaded = MaskablePPO.load(tmp_path / "chess.zip")
    assert np.array_equal(loaded.predict(observations, deterministic=True)[0], wanted)
    export_fighter(model, tmp_path / "chess.fighter")
    backend = open_backend("onnx", load(tmp_path / "chess.fighter"))
    flat, masks = observations["observation"].reshape(4, 1, -1), observations["action_mask"].astype(bool)
    decided = backend.decide(flat, masks, np.full((4, 1), -1.0, np.float32), True)
    assert np.array_equal(decided.actions, wanted)
    assert np.array_equal(load(tmp_path / "chess.fighter").predict(observations, deterministic=True)[0], wanted)
    for backend_name in ("torch", "compiled", "onnx"):
        with serving(tmp_path, backend=backend_name) as server, Client(port=server.port) as client:
            served = [
                client.predict("chess", one.reshape(1, -1), [mask], True).action
                for one, mask in zip(flat, masks, strict=True)
            ]
            assert np.array_equal(served, wanted)
