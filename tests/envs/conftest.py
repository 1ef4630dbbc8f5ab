"""Small networks are faster in one thread, and much faster when the machine is busy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch as th


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(threads)
