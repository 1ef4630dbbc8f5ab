"""What is known of environments by their ids: those of other packages, which extras install (dreamer.md C14)."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from sb3_pvp.common.errors import Refusal, refusals


@dataclass(frozen=True)
class Domain:
    """Environments whose ids begin with one of ``prefixes``.

    ``packages`` are those of its extra; importing ``module`` registers the environments with Gymnasium. There are
    packages for Python ``below`` a version only.
    """

    prefixes: tuple[str, ...]
    packages: tuple[str, ...]
    module: str
    below: tuple[int, int] = (4, 0)

    @property
    def is_installed(self) -> bool:
        """Whether all packages are there, of whatever version."""
        return all(find_spec(each) is not None for each in self.packages)


#: By the name of the extra.
DOMAINS = {
    "atari": Domain(("ALE/",), ("ale_py", "cv2"), "ale_py"),
    "crafter": Domain(("Crafter",), ("crafter",), "sb3_pvp.zoo.crafter_env"),
    "dmc": Domain(("dm_control/",), ("dm_control", "shimmy"), "shimmy", (3, 13)),
    "minigrid": Domain(("MiniGrid-", "BabyAI-"), ("minigrid",), "minigrid"),
    "vizdoom": Domain(("Vizdoom",), ("vizdoom",), "vizdoom.gymnasium_wrapper"),
}


def register_domain(env_id: str) -> None:
    """Registers the environments of the domain that an id belongs to, if there is one.

    Raises `Refusal` with the command that installs what is missing, and for a package that cannot be imported.
    """
    for extra, domain in DOMAINS.items():
        if env_id.startswith(domain.prefixes):
            if sys.version_info >= domain.below and not domain.is_installed:
                major, minor = domain.below
                raise Refusal(f"{env_id} needs Python below {major}.{minor}: its packages are for no later one")
            require_packages(extra, *domain.packages)
            with refusals(ImportError, about=f"{domain.module} cannot be imported"):
                importlib.import_module(domain.module)


def require_packages(extra: str, *packages: str) -> None:
    """Raises `Refusal` unless all packages of an extra are installed."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Refusal(f'not installed here: {" and ".join(missing)}; pip install "sb3-pvp[{extra}]"')


def is_real_time(env_id: str) -> bool:
    """Returns whether the metadata of an environment says ``real_time``: a step takes its time by the clock."""
    made: Any = gym.spec(env_id).entry_point
    made = load_env_creator(made) if isinstance(made, str) else made
    return bool(getattr(made, "metadata", {}).get("real_time"))


class SmallPictures(gym.ObservationWrapper[Any, Any, Any]):
    """Shrinks pictures ``(H, W, C)`` uint8 to ``(size, size, C)``: the observation, or each part of a Dict that is one.

    Each pixel is the mean of those that it stands for.
    """

    def __init__(self, env: gym.Env[Any, Any], size: int = 64) -> None:
        super().__init__(env)
        self._size, space = size, env.observation_space
        if isinstance(space, spaces.Dict):
            self.observation_space = spaces.Dict({key: self._space(part) for key, part in space.items()})
        else:
            self.observation_space = self._space(space)

    def observation(self, observation: Any) -> Any:
        """Returns an observation with small pictures."""
        if isinstance(observation, dict):
            return {key: self._shrunk(part) for key, part in observation.items()}
        return self._shrunk(observation)

    def _space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        if not _is_picture(space):
            return space
        return spaces.Box(0, 255, (self._size, self._size, *(space.shape or ())[2:]), np.uint8)

    def _shrunk(self, part: Any) -> Any:
        if not _is_picture(part):
            return part
        from PIL import Image

        channels = [Image.fromarray(part[..., i]) for i in range(part.shape[-1])]
        small = [np.asarray(each.resize((self._size, self._size), Image.Resampling.BOX)) for each in channels]
        return np.stack(small, -1)


def _is_picture(part: spaces.Space[Any] | NDArray[Any]) -> bool:
    return part.dtype == np.uint8 and len(part.shape or ()) == 3
