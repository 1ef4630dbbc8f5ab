"""Videos as GIF files, also in TensorBoard: SB3's own need moviepy."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat


def gif(frames: NDArray[np.uint8], milliseconds: int = 50) -> bytes:
    """Returns frames ``(time, height, width, 3)`` as a GIF file, with so much time between two of them."""
    from PIL import Image

    file, images = BytesIO(), [Image.fromarray(frame) for frame in frames]
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=milliseconds, loop=0)
    return file.getvalue()


def log_video(logger: Logger, tag: str, video: bytes, step: int) -> None:
    """Shows a GIF file in TensorBoard, if a logger writes to it."""
    for board in logger.output_formats:
        if isinstance(board, TensorBoardOutputFormat):
            from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]

            image = Summary.Image(encoded_image_string=video, colorspace=3)
            summary = Summary(value=[Summary.Value(tag=tag, image=image)])
            board.writer._get_file_writer().add_summary(summary, step)  # type: ignore[no-untyped-call]
