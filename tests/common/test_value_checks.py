"""Checks of values that are more than plain numbers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sb3_pvp.common.arguments import check_mask

TYPES = st.sampled_from([np.bool_, np.int8, np.uint8, np.int64, np.float32, np.float64])


@given(TYPES.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=2))))
def test_a_mask_is_0_or_1(mask: Any) -> None:
    is_mask = all(value in (0, 1) for value in mask.ravel().tolist())
    with nullcontext() if is_mask else pytest.raises(ValueError, match="an action mask is 0 or 1, but this one has"):
        check_mask(mask)
