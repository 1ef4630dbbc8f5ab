"""Graphs that read other files are refused wherever their file is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sb3_pvp import load
from sb3_pvp.policies.export import onnx_graph
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.model_files import load_opponent
from sb3_pvp.policies.files.reading import read
from tests.policies.export.hostile_graphs import READING, SECRET, with_graphs
from tests.serving.fighters import make_model, random_nh
from tests.serving.served import serving


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("honest") / "honest.fighter"
    export_fighter(random_nh(3), path)
    return path


@pytest.mark.parametrize("where", READING)
def test_a_graph_that_reads_other_files_is_refused(
    honest: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / SECRET).write_bytes(b"sixteen letters!")
    evil = with_graphs(honest, READING[where], tmp_path / "evil.fighter")
    for reader in (lambda path: read(path).description, load, load_opponent):
        with pytest.raises(ValueError, match="evil.fighter cannot be .*its graph actor.onnx refers to other files"):
            reader(evil)
    with serving(evil, backend="onnx") as server:
        assert "other files" in server.server.health()["errors"]["evil.fighter"]


def test_no_graph_is_written_that_would_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "ELSEWHERE", b"trunk")  # as if a module had that name
    with pytest.raises(ValueError, match="cannot become a graph: rename its parts that have 'trunk' in their names"):
        export_fighter(random_nh(3), tmp_path / "x.fighter")
    assert not [*tmp_path.iterdir()]


def test_no_file_is_written_that_would_be_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too large: it has more than 256 heads"):
        export_fighter(make_model(1, 2, 0, (1,) * 300, contract=None), tmp_path / "x.fighter")
    assert not [*tmp_path.iterdir()]


def test_a_graph_of_a_small_file_needs_little_memory() -> None:
    space, actions = spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([8000])
    policy = MaskableActorCriticPolicy(space, actions, lambda _: 0.0, net_arch=[1])
    with pytest.raises(ValueError, match="has at most 2048 entries of all heads, not 8000"):
        onnx_graph.actor_graph(policy)


@pytest.mark.slow
def test_threads_can_make_graphs_at_once() -> None:
    """As the server does while another thread exports."""
    policy = random_nh(3).policy
    with ThreadPoolExecutor(4) as pool:
        graphs = [*pool.map(onnx_graph.actor_graph, [policy] * 8)]
    assert graphs == [graphs[0]] * 8
