"""For all tests."""

import os

# No processes beside the tests, which may run in parallel themselves, unless a test asks for them.
os.environ.setdefault("SB3_PVP_CORES", "1")
