"""What ``rl_zoo3.push_to_hub`` needs to work, and to say how a fighter is used."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sb3_pvp.common.errors import Refusal
from sb3_pvp.presets.presets import ALGO
from sb3_pvp.zoo.manager import replaced

_USAGE = """
## This fighter needs sb3-pvp

With it installed, the commands above are `python -m sb3_pvp.zoo enjoy ...` and the like. Without rl-zoo3:

```python
import gymnasium as gym

from sb3_pvp import load

fighter = load("{file}")
env = gym.make("{env_id}", opponent="baseline")
observation, info = env.reset(seed=1)
action, _ = fighter.predict(observation)  # obeys the masks in the observation
```
"""


@contextmanager
def mended_hub() -> Iterator[None]:
    """Gives rl-zoo3 the older names that it imports, and completes the model card; raises `Refusal` if the hub does."""
    from huggingface_hub.errors import HfHubHTTPError

    integration = importlib.import_module("huggingface_sb3.push_to_hub")
    cards = importlib.import_module("huggingface_hub.repocard")
    make_metadata = getattr(integration, "generate_metadata", None) or integration._generate_metadata
    save_metadata = cards.metadata_save

    def metadata_save(path: Path, metadata: Any) -> None:
        """Says first how to use the model beside the card, if it is a fighter of this package."""
        for model in Path(path).parent.glob(f"{ALGO}-*.zip"):
            with Path(path).open("a", encoding="utf-8") as card:
                card.write(_USAGE.format(file=model.name, env_id=model.stem.removeprefix(f"{ALGO}-")))
        save_metadata(path, metadata if isinstance(metadata, dict) else metadata.to_dict())

    with (
        _ffmpeg_on_path(),
        replaced(integration, generate_metadata=make_metadata),
        replaced(cards, metadata_save=metadata_save),
    ):
        try:
            yield
        except HfHubHTTPError as error:
            raise Refusal(f"the hub has refused: {error}") from error


@contextmanager
def _ffmpeg_on_path() -> Iterator[None]:
    """Lets commands find ``ffmpeg``: the system's, or else the one of the extra ``render``, if it is there."""
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("ffmpeg") is None and find_spec("imageio_ffmpeg"):
            program = Path(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
            (Path(folder) / f"ffmpeg{program.suffix if os.name == 'nt' else ''}").symlink_to(program)
        before = os.environ.get("PATH", os.defpath)
        os.environ["PATH"] = os.pathsep.join([folder, before])
        try:
            yield
        finally:
            os.environ["PATH"] = before
