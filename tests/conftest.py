"""For all tests."""

import os

import torch
from hypothesis import settings

# No processes beside the tests, which may run in parallel themselves, unless a test asks for them.
os.environ.setdefault("SB3_PVP_CORES", "1")

# With networks as small as these, more threads only wait for each other, above all on a busy machine.
torch.set_num_threads(1)

# No test asserts an absolute time: on a busy machine, one example may take a second.
settings.register_profile("sb3_pvp", deadline=None)
settings.load_profile("sb3_pvp")
