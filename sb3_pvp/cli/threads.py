"""How many threads PyTorch takes for commands that only act."""

from __future__ import annotations

import os


def use_one_thread() -> None:
    """One thread, unless ``OMP_NUM_THREADS`` says otherwise.

    With networks as small as a fighter's, more only wait for one another: on two busy cores four times as long.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
