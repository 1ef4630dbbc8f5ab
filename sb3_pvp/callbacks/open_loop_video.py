"""What DreamerV3 imagines beside what happened, as a video of pixels (dreamer.md §5.2, A24)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.callbacks.videos import gif, log_video
from sb3_pvp.common.arguments import PositiveInt, checked
from sb3_pvp.common.atomic_files import replacing

if TYPE_CHECKING:
    from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
    from sb3_pvp.algorithms.dreamer.losses import Sequences

#: Frames of a sequence that the model sees are framed green, those that it only imagines red.
SEEN, IMAGINED = (0, 160, 0), (200, 0, 0)
MILLISECONDS = 150  #: Between two frames.


class OpenLoopVideoCallback(BaseCallback):
    """Shows what a `DreamerV3` that sees pixels expects: what happened, what its model says, and the error.

    The three are one below the other, sequences of the replay side by side. In their first half the model sees the
    pixels; in the second one it has the actions alone. A video goes to TensorBoard, as ``train/open_loop``, and to
    ``open_loop_STEPS.gif`` in ``folder``. Training is the same with and without it.

    Args:
        folder: for the files; it is made.
        every: steps of the environment between two videos.
        sequences: how many are side by side.
    """

    model: DreamerV3

    @checked
    def __init__(self, folder: str, every: PositiveInt = 10_000, sequences: PositiveInt = 6) -> None:
        super().__init__()
        self.folder, self.every, self.sequences = Path(folder), every, sequences
        self._next = every

    def _on_training_start(self) -> None:
        networks = getattr(self.model.policy, "networks", None)
        if networks is None or not networks.decoder.images:
            raise ValueError("OpenLoopVideoCallback is for a DreamerV3 that sees pixels: remove it from this run")
        self._next = self.num_timesteps + self.every

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next and self.model.replay_buffer.size():
            self._next += self.every
            self._write(gif(open_loop_frames(self.model, self._batch()), MILLISECONDS))
        return True

    def _batch(self) -> Sequences:
        """Returns sequences that the training may still draw: its own choice is not asked."""
        replay, random = self.model.replay_buffer, np.random.default_rng(self.num_timesteps)
        oldest, counts = replay.starts_of()
        envs = random.choice(np.flatnonzero(counts), self.sequences)
        return self.model._batch(replay.read(replay.places(envs, oldest[envs] + random.integers(counts[envs]))))

    def _write(self, video: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / f"open_loop_{self.num_timesteps}.gif") as partial:
            partial.write_bytes(video)
        log_video(self.logger, "train/open_loop", video, self.num_timesteps)


@th.no_grad()
def open_loop_frames(model: DreamerV3, batch: Sequences) -> NDArray[np.uint8]:
    """Returns frames ``(time, height, width, 3)`` of sequences, of which the model sees the first half."""
    from sb3_pvp.algorithms.dreamer.distributions import mixed_probs
    from sb3_pvp.algorithms.dreamer.world_model import Latent

    networks, draws = model.policy.networks, model.policy.draws
    recurrent, half = networks.recurrent, batch.rewards.shape[1] // 2
    # What is drawn here is not drawn from the training's random numbers.
    with th.random.fork_rng():
        th.manual_seed(0)
        tokens = networks.encoder(batch.observations)
        seen, actions, is_first = (part[:, :half] for part in (tokens, batch.actions, batch.is_first))
        states = recurrent.observe(batch.start, seen, actions, is_first, draws).states
        imagined = [Latent(*(part[:, -1] for part in states))]
        for action in batch.actions[:, half:].unbind(1):
            deter = recurrent.core(imagined[-1], action)
            imagined.append(Latent(deter, draws.latent(mixed_probs(recurrent.prior(deter)))))
    parts = zip(states, *imagined[1:], strict=True)
    whole = Latent(*(th.cat([known, th.stack(later, 1)], 1) for known, *later in parts))
    predictions = networks.decoder(whole)
    videos = []
    for key in networks.decoder.images:
        true, ours = batch.observations[key].float() / 255, predictions[key].float()
        videos.append(th.cat([true, ours, (ours - true + 1) / 2], 2))
    pixels = (th.cat(videos, 3) * 255).byte().cpu().numpy()
    # Grey is shown as three equal channels; of more than three, the first.
    pixels = np.repeat(pixels, 3, -1) if pixels.shape[-1] < 3 else pixels[..., :3]
    return np.concatenate([_framed(sequence, half) for sequence in pixels], 2)


def _framed(sequence: NDArray[np.uint8], half: int) -> NDArray[np.uint8]:
    """Returns frames with a border of two pixels that says whether the model sees them."""
    framed = np.pad(sequence, ((0, 0), (2, 2), (2, 2), (0, 0)))
    for frames, color in ((framed[:half], SEEN), (framed[half:], IMAGINED)):
        for edge in (np.s_[:, :2], np.s_[:, -2:], np.s_[:, :, :2], np.s_[:, :, -2:]):
            frames[edge] = color
    return framed
