"""Pictures by Matplotlib, which an extra installs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of so many inches, which no window shows; raises `MissingExtra` without Matplotlib."""
    with extra("plots", "pictures"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


def drawn(figure: Figure) -> NDArray[np.uint8]:
    """Returns the pixels ``(height, width, 3)`` of a figure, drawn once for all that show it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Writes the pixels ``(height, width, 3)`` of a picture as PNG, whatever the path ends with."""
    from matplotlib.image import imsave

    imsave(path, pixels, format="png")
