"""`LogKeys`: observations that are for the log only (dreamer.md C10)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.common.errors import Refusal, refusals

#: Beginnings of the names of such keys: those of 2023 and of 2024.
PREFIXES = ("log_", "log/")
#: A pattern that matches no key.
NOTHING = "$^"
#: The name in the last ``info`` of an episode under which `LogKeys` puts its figures.
LOGGED = "log"


@dataclass(frozen=True)
class LogPatterns:
    """Which keys are logged, and as what: regular expressions that match a key from its beginning, or after its prefix.

    `NOTHING` matches none. ``video`` are of keys with images ``(H, W, 3)``, or grey ``(H, W, 1)``, uint8, and means
    nothing for others; the others are of numbers, of which arrays are summed. With ``zeros``, a key that was zero
    throughout an episode is logged as well.
    """

    sum: str = ".*"
    mean: str = ".*"
    max: str = ".*"
    video: str = NOTHING
    zeros: bool = False


@dataclass
class _Episode:
    """What an episode has logged so far, by key."""

    numbers: dict[str, list[float]] = field(default_factory=dict)
    frames: dict[str, list[NDArray[np.uint8]]] = field(default_factory=dict)


class LogKeys(gym.Wrapper[Any, Any, Any, Any]):
    """Takes keys with `PREFIXES` out of a Dict of observations: the agent does not see them, no replay holds them.

    The last ``info`` of an episode has their figures under ``"log"``: ``log_sum/KEY``, ``log_mean/KEY`` and
    ``log_max/KEY``, where KEY is without the prefix, and ``log_video/KEY``, frames ``(T, H, W, C)``, of every
    ``videos_every``-th episode. Raises `ValueError` for a pattern that is no regular expression, or matches no key.
    """

    def __init__(self, env: gym.Env[Any, Any], patterns: LogPatterns | None = None, videos_every: int = 20) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        self._patterns, self._videos_every, self._episodes = patterns or LogPatterns(), videos_every, 0
        keys = {key: part for key, part in env.observation_space.items() if key.startswith(PREFIXES)}
        images = [
            key
            for key, part in keys.items()
            if part.dtype == np.uint8 and len(part.shape or ()) == 3 and (part.shape or ())[2] in (1, 3)
        ]
        self._videos = self._matching("video", images)
        self._numbers = {kind: self._matching(kind, keys) for kind in ("sum", "mean", "max")}
        seen = {key: part for key, part in env.observation_space.items() if not key.startswith(PREFIXES)}
        if not seen:
            raise ValueError("all keys of the observation are for the log: the agent would see nothing")
        self.observation_space = spaces.Dict(seen)

    def _matching(self, kind: str, keys: Iterable[str]) -> set[str]:
        """Returns the names, without prefix, of the keys that the pattern of this kind matches."""
        pattern, names = getattr(self._patterns, kind), {key: key[len(PREFIXES[0]) :] for key in keys}
        try:
            found = {name for key, name in names.items() if re.match(pattern, name) or re.match(pattern, key)}
        except re.error as error:
            raise ValueError(f"a pattern of log keys is no regular expression: {error}") from error
        if not found and pattern not in (NOTHING, getattr(LogPatterns, kind)):
            known = ", ".join(names) or "none"
            raise ValueError(
                f"the {kind} of log keys {pattern!r} matches none that can be logged so; there are: {known}"
            )
        return found

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment; what it logs at once counts for the episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode, self._episodes = _Episode(), self._episodes + 1
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Makes a step; at the end of an episode ``info`` has its figures."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = self._seen(observation)
        if terminated or truncated:
            info = info | {LOGGED: self._figures()}
        return seen, reward, terminated, truncated, info

    def _seen(self, observation: dict[str, Any]) -> dict[str, Any]:
        has_videos = (self._episodes - 1) % self._videos_every == 0
        for key, value in observation.items():
            if not key.startswith(PREFIXES):
                continue
            name = key[len(PREFIXES[0]) :]
            if name in self._videos:
                if has_videos:
                    frame = np.array(np.broadcast_to(value, (*value.shape[:2], 3)), np.uint8)
                    self._episode.frames.setdefault(name, []).append(frame)
            else:
                self._episode.numbers.setdefault(name, []).append(float(np.sum(value)))
        return {key: observation[key] for key in self.observation_space}  # type: ignore[attr-defined]

    def _figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = {}
        for name, values in self._episode.numbers.items():
            if self._patterns.zeros or any(values):
                kinds: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "max": np.max}
                figures |= {
                    f"log_{kind}/{name}": float(of(values)) for kind, of in kinds.items() if name in self._numbers[kind]
                }
        return figures | {f"log_video/{name}": np.stack(frames) for name, frames in self._episode.frames.items()}


def has_log_keys(env: gym.Env[Any, Any]) -> bool:
    """Returns whether an environment has observations that are for the log only."""
    space = env.observation_space
    return isinstance(space, spaces.Dict) and any(key.startswith(PREFIXES) for key in space)


@dataclass(frozen=True)
class LogKeysWrapper:
    """Wraps environments that have such keys, after ``inner`` has wrapped them; for SB3's and rl-zoo3's makers."""

    patterns: LogPatterns = LogPatterns()
    inner: Any = None

    def __call__(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """Returns the wrapped environment; raises `Refusal` for patterns that match none of its keys."""
        env = self.inner(env) if self.inner else env
        if not has_log_keys(env):
            if self.patterns != LogPatterns():
                raise Refusal("the environment has no observations named log_...: leave out the options of log keys")
            return env
        with refusals():
            return LogKeys(env, self.patterns)
