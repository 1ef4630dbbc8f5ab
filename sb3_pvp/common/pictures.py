"""Pictures by Matplotlib, which an extra installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sb3_pvp.common.extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_pictures() -> None:
    """Raises `MissingExtra` without Matplotlib, before work whose end is a picture."""
    with extra("plots", "pictures"):
        import matplotlib.figure  # noqa: F401


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of so many inches, which no window shows; raises as `check_pictures`."""
    check_pictures()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
