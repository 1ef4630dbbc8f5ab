"""Files of other makers on the socket: a checkpoint of the original with its recorded outputs, by every back-end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import import_upstream
from sb3_pvp.policies.export.inference import CompiledBackend, OnnxBackend, automatic_backend, random_batch
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.model_files import load
from tests.paths import DATA
from tests.policies.export.exported import stock
from tests.policies.export.hostile_graphs import lying, with_graphs
from tests.serving.fighters import NH, random_nh
from tests.serving.served import RawClient, serving

UPSTREAM = DATA / "upstream"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    export_fighter(import_upstream(UPSTREAM / "small.zip"), folder / "upstream.fighter")
    return folder


def close(reply: Any, recorded: Any) -> bool:
    return np.allclose(reply, recorded, atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", ["torch", "compiled", "onnx", "auto"])
def test_a_checkpoint_of_the_original_answers_as_recorded(folder: Path, backend: str) -> None:
    recorded = np.load(UPSTREAM / "small-io.npz")
    with serving(folder, backend=backend, reload_interval=0) as server, RawClient(server.port) as client:
        for row, observation in enumerate(recorded["obs"]):
            request = {
                "model": "upstream",
                "obs": observation.tolist(),
                "actionMasks": [part.tolist() for part in NH.split_mask(recorded["masks"][row])],
                "deterministic": True,
                **dict.fromkeys(("returnLogProb", "returnEntropy", "returnValue", "returnProbs"), True),
                "extensions": ["winrate"],
            }
            reply = client.ask(request)
            assert reply["action"] == recorded["det_actions"][row].tolist()
            assert close(reply["logProb"], recorded["det_log_probs"][row])
            assert close(reply["entropy"], recorded["det_entropy"][row])
            assert close(reply["values"], [recorded["values"][row]])
            assert close(np.concatenate(reply["probs"]), recorded["det_probs"][row])
            for name, (share,) in reply["extensionResults"][0].items():
                assert close(share, recorded[f"winrate_{name}"][row])
            # The public part alone gives the same action.
            short = {"obs": observation[:, :176].tolist(), "returnValue": False}
            assert client.ask(request | short)["action"] == reply["action"]


def test_graphs_decide_as_compiled_loops(tmp_path: Path) -> None:
    path = tmp_path / "nh.fighter"
    export_fighter(random_nh(3), path)
    model = load(path, safe=True)
    assert automatic_backend(model) == "compiled"
    compiled, graphs = CompiledBackend(model.policy), OnnxBackend(model.policy)
    assert (graphs.frame_shape, graphs.num_privileged) == (compiled.frame_shape, compiled.num_privileged)
    batch = random_batch(compiled, 100)
    batch[2][::2] = -1.0
    decided, expected = graphs.decide(*batch, True), compiled.decide(*batch, True)
    same = (decided.actions == expected.actions).all(axis=1)
    assert same.mean() > 0.98 and same[::2].all()  # a random number on the border of two entries may differ
    for name in ("log_probs", "entropies", "probabilities"):
        assert close(vars(decided)[name][same], vars(expected)[name][same]), name
    privileged = np.ones((100, 1, 93), np.float32)
    assert close(graphs.values(batch[0], privileged, batch[1]), compiled.values(batch[0], privileged, batch[1]))


@pytest.mark.parametrize("backend", ["onnx", "auto"])
def test_the_graphs_in_a_file_are_never_run(backend: str, tmp_path: Path) -> None:
    """Whatever they are, it answers by its weights, and a file without graphs does too."""
    honest, folder = tmp_path / "honest.fighter", tmp_path / "models"
    folder.mkdir()
    export_fighter(stock("MultiInputPolicy") if backend == "auto" else random_nh(3), honest)
    graphs = {"large": lying(honest, 1_000_000), "negative": lying(honest, -5), "none": b"no graph"}
    names = ["honest", "bare", *graphs]
    shutil.copy(honest, folder)
    export_fighter(load(honest), folder / "bare.fighter", onnx=False)
    for name, graph in graphs.items():
        with_graphs(honest, graph, folder / f"{name}.fighter")
    masks = [[1] * size for size in NH.head_sizes]
    request = {"obs": [[0.5] * 176], "actionMasks": masks, "deterministic": True, "returnProbs": True}
    with serving(folder, backend=backend) as server, RawClient(server.port) as client:
        replies = [client.ask(request | {"model": name}) for name in names]
    assert replies == [replies[0]] * len(names) and len(replies[0]["action"]) == len(NH.head_sizes)


def test_policies_of_sb3_contrib_answer_by_their_graphs(tmp_path: Path) -> None:
    model = stock("MultiInputPolicy")
    export_fighter(model, tmp_path / "stock.fighter")
    frame, mask = np.linspace(0, 1, 176 + 93, dtype=np.float32), np.ones(NH.num_flat_actions, np.int8)
    seen = {"observation": frame[None, :176], "privileged": frame[None, 176:], "action_mask": mask}
    acting = seen | {"privileged": np.zeros((1, 93), np.float32)}  # unknown while acting
    action, _ = model.predict(acting, deterministic=True, action_masks=mask.astype(bool))
    with th.no_grad():
        value = model.policy.predict_values(model.policy.obs_to_tensor(seen)[0])
    request = {
        "model": "stock",
        "obs": [frame.tolist()],
        "actionMasks": [part.tolist() for part in NH.split_mask(mask)],
        "deterministic": True,
        "returnValue": True,
    }
    with serving(tmp_path, backend="auto") as server, RawClient(server.port) as client:
        reply = client.ask(request)
        assert reply["action"] == action.tolist()
        assert close(reply["values"], value.flatten().tolist())
