"""The temperature of a policy: how evenly it chooses among what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sb3_pvp.common.arguments import ABOVE_0
from sb3_pvp.common.errors import require_known
from sb3_pvp.policies.autoregressive import AutoregressivePolicy


def set_temperature(policy: Any, temperature: float | Mapping[str, float]) -> None:
    """Divides the logits of a policy's heads by a temperature, in its weights.

    Above 1 a head chooses more evenly, so that others can predict it less; below 1 it is surer. Its most likely entry
    remains the same, and so does what other heads do after the same choices.

    Args:
        policy: an `AutoregressivePolicy`.
        temperature: of all heads, or by the ids of some.

    Raises:
        ValueError: for another kind of policy, an unknown head, or a temperature that is not above 0.
    """
    if not isinstance(policy, AutoregressivePolicy):
        raise ValueError(f"a {type(policy).__name__} has no temperature: it must be an AutoregressivePolicy")
    ids = policy.head_ids
    of_heads = temperature if isinstance(temperature, Mapping) else dict.fromkeys(ids, temperature)
    for name, value in of_heads.items():
        require_known("head", name, ids)
        ABOVE_0.check(**{f"the temperature of {name}": value})
    for name, value in of_heads.items():
        policy.heads.temper(ids.index(name), value)
