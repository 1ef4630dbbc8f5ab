"""Pictures by Matplotlib, which an extra installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sb3_pvp.common.errors import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of so many inches, which no window shows; raises `MissingExtra` without Matplotlib."""
    with extra("plots", "pictures"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")
