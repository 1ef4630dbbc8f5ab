"""Observations with a shape, on their whole way: learning, files, opponents, graphs, the server, another project."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor

from sb3_pvp import PvpPPO, load
from sb3_pvp.common.errors import installed
from sb3_pvp.envs import PvpEnv, PvpVecEnv
from sb3_pvp.game import Game
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract import Contract, ContractError
from sb3_pvp.game.contract.model import read_contract
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.inference import BACKENDS, open_backend
from sb3_pvp.policies.features import frames_of
from sb3_pvp.policies.files.description import contract_hash
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.policies.files.reading import read
from sb3_pvp.serving import Client
from tests.envs.planes_game import HEAD, PICTURE_GAME, PLANES, PLANES_GAME, Board, PlanesCnn
from tests.paths import ROOT
from tests.serving.served import serving

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 128, "n_epochs": 4, "learning_rate": 2e-3, "seed": 0}
#: Own policies by their features extractor.
EXTRACTORS: dict[str, dict[str, Any]] = {
    "own": {},
    "flat": {"features_extractor_class": FlattenExtractor},
    "cnn": {"features_extractor_class": PlanesCnn, "features_extractor_kwargs": {"channels": 4}},
    "shared": {"features_extractor_class": PlanesCnn, "share_features_extractor": True, "features_arch": [16]},
}
NUMBER = 1000


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path of this process, in which the package with `PlanesCnn` is installed."""
    folder = tmp_path_factory.mktemp("package")
    info = folder / "planes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sb3_pvp.features_extractors]\nPlanesCnn = tests.envs.planes_game:PlanesCnn\nbroken = tests.paths:ROOT\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        installed.cache_clear()
        yield folder
    installed.cache_clear()


def made(kind: str, game: Game = PLANES_GAME, num_envs: int = 16, **env: Any) -> MaskablePPO:
    envs = PvpVecEnv(num_envs, game=game, seed=0, **env)
    if kind == "stock":
        return MaskablePPO("MultiInputPolicy", envs, policy_kwargs={"net_arch": [32]}, **SMALL)
    return PvpPPO(AutoregressivePolicy, envs, policy_kwargs={"net_arch": [32], **EXTRACTORS[kind]}, **SMALL)


def positions(game: Game, number: int = NUMBER) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Observations and masks of random games, in the shape of the environment."""
    env = PvpVecEnv(8, game=game, seed=5)
    rng, seen, masks = np.random.default_rng(0), [], []
    observed = env.reset()
    for _ in range(-(-number // 8)):
        seen.append(observed["observation"])
        masks.append(np.stack(env.env_method("action_masks")))
        actions = np.stack([game.contract.random_action(mask, rng) for mask in masks[-1]])
        observed, *_ = env.step(actions)
    return np.concatenate(seen)[:number], np.concatenate(masks)[:number]


def test_a_contract_with_a_shape(tmp_path: Path) -> None:
    contract = PLANES_GAME.contract
    assert contract.num_observations == 18 and contract.observations[5].id == "cell_0_2_1"
    assert contract.observation_space == spaces.Box(-np.inf, np.inf, PLANES, np.float32)
    assert contract.stacked_space(2).shape == (2, *PLANES)
    assert PICTURE_GAME.contract.observation_space == spaces.Box(0, 255, (2, 36, 36), np.uint8)
    assert pickle.loads(pickle.dumps(contract)) == contract
    plain = Contract(contract.name, contract.heads, contract.observations)
    assert contract_hash(plain) != contract_hash(contract)
    path = tmp_path / "planes.json"
    path.write_text(
        '{"format": "sb3_pvp.contract", "version": 1, "name": "planes", "shape": [3, 3, 2], "heads": '
        '[{"id": "move", "about": "", "choices": [{"id": "pass", "about": ""}]}]}'
    )
    assert read_contract(path).observation_shape == PLANES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shape": (3, 3)}, "has 3 axes"),
        ({"shape": (3, 0, 2)}, "has 3 axes of at least 1"),
        (
            {"shape": (3, 3, 3), "observations": PLANES_GAME.contract.observations},
            "27 numbers, but there are 18",
        ),
        ({"pixels": True, "observations": PLANES_GAME.contract.observations}, "has 3 axes"),
        ({"shape": (36, 36, 3), "pixels": True}, "channels on the first axis"),
        ({}, "no observations"),
    ],
)
def test_a_wrong_shape_is_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ContractError, match=words) as raised:
        Contract("wrong", (HEAD,), **arguments)
    assert "\n" not in str(raised.value)


@given(st.lists(st.integers(1, 4), min_size=0, max_size=5))
def test_frames_of_a_space(shape: list[int]) -> None:
    box = spaces.Box(-1, 1, tuple(shape))
    frames, each = frames_of(box)
    assert frames * np.prod(each) == spaces.flatdim(box) and len(each) in (1, 3)
    assert frames_of(spaces.Dict({"observation": box, "action_mask": spaces.Box(0, 1, (3,))})) == (frames, each)


def test_environments_show_the_array() -> None:
    check_world(PLANES_GAME.make_world("sim", 4, 0, {}))
    env = PvpVecEnv(3, game=PLANES_GAME, seed=0)
    assert env.observation_space["observation"].shape == PLANES
    first = env.reset()["observation"]
    assert first.shape == (3, *PLANES) and first.dtype == np.float32
    single = PvpEnv(game=PLANES_GAME, frame_ages=(0, 1))
    assert single.reset(seed=0)[0]["observation"].shape == (2, *PLANES)
    picture = PvpVecEnv(2, game=PICTURE_GAME, seed=0, opponent="self")
    seen = picture.reset()["observation"]
    assert seen.shape == (2, 2, 36, 36) and seen.dtype == np.uint8
    mover = int(np.stack(picture.env_method("action_masks"))[0][0])  # who waits sees nothing else
    actions = np.full((2, 1), 5)
    actions[1 - mover] = 0
    both = picture.step(actions)[0]["observation"]
    assert both[0].reshape(2, 3, 12, 3, 12).max((2, 4)).sum() == 255  # one cell is drawn, in the right plane
    assert both[mover, 0, 18, 18] == 255 and both[1 - mover, 1, 18, 18] == 255


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own", "cnn", "stock"])
def test_it_learns_from_planes(kind: str) -> None:
    model = made(kind, num_envs=64)
    env = PvpVecEnv(64, game=PLANES_GAME, seed=1)
    before = evaluate_model(model, env, 200).win_rate
    model.learn(40_000)
    after = evaluate_model(model, env, 200).win_rate
    assert after > 0.8 and after > before + 0.1, (before, after)


@pytest.mark.parametrize("extractor", [None, CombinedExtractor])
def test_it_learns_from_pixels_with_the_networks_of_sb3(extractor: Any) -> None:
    """Only that it learns at all: the value function explains what it is fitted to."""
    env = PvpVecEnv(4, game=PICTURE_GAME, seed=0)
    if extractor is None:
        model = MaskablePPO("MultiInputPolicy", env, n_steps=8, batch_size=16, seed=0)
        assert [*model.policy.features_extractor.extractors] == ["action_mask", "observation"]
    else:
        arguments = {"features_extractor_class": extractor, "features_extractor_kwargs": {"cnn_output_dim": 16}}
        model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=16, policy_kwargs=arguments, seed=0)
    convolutions = [each for each in model.policy.modules() if isinstance(each, th.nn.Conv2d)]
    before = [each.weight.detach().clone() for each in convolutions]
    model.learn(96)
    assert len(convolutions) >= 3
    assert any(not th.equal(old, each.weight) for old, each in zip(before, convolutions, strict=True))


@pytest.mark.parametrize("kind", [*EXTRACTORS, "stock"])
@pytest.mark.parametrize("frame_ages", [pytest.param((0,), marks=pytest.mark.slow), (0, 1)], ids=["one", "two"])
def test_everything_that_acts_decides_alike(kind: str, frame_ages: tuple[int, ...], tmp_path: Path) -> None:
    model = made(kind, frame_ages=frame_ages).learn(16 * 32)
    seen, masks = positions(PLANES_GAME)
    if len(frame_ages) > 1:
        seen = np.stack([seen, np.roll(seen, 1, axis=0)], axis=1)
    observations = {"observation": seen, "action_mask": masks.astype(np.int8)}
    wanted, _ = model.predict(observations, deterministic=True, action_masks=masks)
    flat = seen.reshape(NUMBER, len(frame_ages), -1)
    model.save(tmp_path / "model.zip")
    export_fighter(model, tmp_path / "model.fighter")
    sizes, uniforms = model.action_space.nvec, np.full((NUMBER, 1), -1.0, np.float32)
    assert np.array_equal(sizes, [10])
    for name in ("model.zip", "model.fighter"):
        loaded = load(tmp_path / name)
        assert np.array_equal(loaded.predict(observations, deterministic=True, action_masks=masks)[0], wanted)
        opponent = load_opponent(tmp_path / name)
        opponent.check(PLANES_GAME.contract)
        acted, _ = opponent.predict(flat, opponent.initial_state(range(NUMBER)), np.zeros(NUMBER, bool), True, masks)
        assert np.array_equal(acted, wanted)
    names = BACKENDS if kind != "stock" else ("onnx",)
    loaded, privileged = load(tmp_path / "model.fighter"), None
    values = model.policy.predict_values(model.policy.obs_to_tensor(observations)[0]).detach().numpy().ravel()
    for name in names:
        backend = open_backend(name, loaded)
        decided = backend.decide(flat, masks, uniforms, True)
        assert np.array_equal(decided.actions, wanted), name
        np.testing.assert_allclose(backend.values(flat, privileged, masks), values, atol=1e-4)


def test_as_an_opponent_also_while_learning(tmp_path: Path) -> None:
    model = made("cnn").learn(16 * 32)
    model.save(tmp_path / "cnn.zip")
    export_fighter(model, tmp_path / "cnn.fighter")
    for name in ("cnn.zip", "cnn.fighter"):
        env = PvpVecEnv(8, game=PLANES_GAME, opponent=str(tmp_path / name), seed=0)
        assert evaluate_model(model, env, 16).decided == 16
    actors = made("cnn", num_envs=4, opponent=str(tmp_path / "cnn.zip"))
    assert actors.learn(4 * 32).num_timesteps == 4 * 32


@pytest.mark.parametrize(("game", "name"), [(PLANES_GAME, "ResidualPlanes"), (PICTURE_GAME, "NatureCNN")])
def test_an_opponent_whose_extractor_goes_by_its_name(game: Game, name: str, tmp_path: Path) -> None:
    """As in YAML, where the arguments in the zip keep the name."""
    arguments = {"features_extractor_class": name, "features_extractor_kwargs": {"features_dim": 8}, "net_arch": []}
    model = PvpPPO(AutoregressivePolicy, PvpVecEnv(2, game=game, seed=0), policy_kwargs=arguments, **SMALL)
    model.save(tmp_path / "named.zip")
    seen, masks = positions(game, 16)
    observations = {"observation": seen, "action_mask": masks.astype(np.int8)}
    wanted, _ = model.predict(observations, deterministic=True)
    for opponent in (load_opponent(tmp_path / "named.zip"), model_opponent(model)):
        given = opponent.initial_state(range(16)), np.zeros(16, bool), True, masks
        assert np.array_equal(opponent.predict(seen.reshape(16, 1, -1), *given)[0], wanted)


@pytest.mark.parametrize("kind", ["cnn", "stock"])
def test_served(kind: str, tmp_path: Path) -> None:
    model = made(kind).learn(16 * 32)
    export_fighter(model, tmp_path / "planes.fighter")
    seen, masks = positions(PLANES_GAME, 50)
    observations = {"observation": seen, "action_mask": masks.astype(np.int8)}
    wanted, _ = model.predict(observations, deterministic=True, action_masks=masks)
    for backend in ("onnx", "torch") if kind == "cnn" else ("onnx",):
        with serving(tmp_path, backend=backend) as server, Client(port=server.port) as client:
            given = zip(seen, masks, strict=True)
            replies = [client.predict("planes", array, [mask], deterministic=True).action for array, mask in given]
            assert replies == wanted.tolist()


ELSEWHERE = """
import numpy as np
from sb3_contrib import MaskablePPO
model = MaskablePPO.load("cnn.zip")
data = np.load("positions.npz")
seen = {"observation": data["seen"], "action_mask": data["masks"].astype(np.int8)}
np.save("actions.npy", model.predict(seen, deterministic=True)[0])
"""


@pytest.mark.slow
def test_loaded_elsewhere(tmp_path: Path) -> None:
    model = made("cnn").learn(16 * 32)
    model.save(tmp_path / "cnn.zip")
    seen, masks = positions(PLANES_GAME)
    np.savez(tmp_path / "positions.npz", seen=seen, masks=masks)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", ELSEWHERE], check=True, cwd=tmp_path, env=environment)
    wanted, _ = model.predict({"observation": seen, "action_mask": masks.astype(np.int8)}, deterministic=True)
    assert np.array_equal(np.load(tmp_path / "actions.npy"), wanted)


def test_what_does_not_fit_is_one_line(tmp_path: Path) -> None:
    model = made("own")
    model.save(tmp_path / "planes.zip")
    turned = Board("turned", (2, 3, 3))
    with pytest.raises(ValueError, match=r"features in the shape \(3, 3, 2\)") as raised:
        PvpVecEnv(2, game=turned, opponent=str(tmp_path / "planes.zip"))
    assert "turned has features in the shape (2, 3, 3)" in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(ValueError, match="does not fit"):
        model.predict(np.zeros((3, 2, 3), np.float32), action_masks=np.ones(10, bool))
    small = {"features_extractor_class": CombinedExtractor, "features_extractor_kwargs": {"depth": 3}}
    with pytest.raises(ValueError, match="CombinedExtractor refuses"):
        PvpPPO(AutoregressivePolicy, PvpVecEnv(2, game=PLANES_GAME), policy_kwargs=small)


def test_extractors_in_files_that_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Local(PlanesCnn):
        """Not installed."""

    arguments = {"features_extractor_class": Local}
    local = PvpPPO(AutoregressivePolicy, PvpVecEnv(2, game=PLANES_GAME), policy_kwargs=arguments, n_steps=8)
    with pytest.raises(ValueError, match="Local cannot be described"):
        export_fighter(local, tmp_path / "local.fighter")
    export_fighter(made("cnn"), tmp_path / "cnn.fighter", onnx=False)
    described = read(tmp_path / "cnn.fighter").description
    for changes, words in (
        ({"features_extractor": "PlanesCn"}, "did you mean 'PlanesCnn'"),
        ({"features_extractor": "broken"}, "is not a BaseFeaturesExtractor"),
        ({"features_extractor_kwargs": {"channels": 1 << 16}}, "needs more weights"),
        ({"features_extractor_kwargs": {"depth": 3}}, "PlanesCnn refuses"),
    ):
        with pytest.raises(ValueError, match=words) as raised:
            described.model_copy(update=changes).check(10**6)
        assert "\n" not in str(raised.value)
