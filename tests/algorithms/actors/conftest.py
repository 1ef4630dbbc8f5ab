"""A cluster of two nodes on this machine, shared by the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

# Not in the fixture: Ray reads the mode when it is imported.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-these-tests-only-0123456789abcdef"}
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes with one CPU each; this process runs on the first one."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    both = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        both.add_node(num_cpus=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", both.address)
            yield both
    finally:
        ray.shutdown()
        both.shutdown()
