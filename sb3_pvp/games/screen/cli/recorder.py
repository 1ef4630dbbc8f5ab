"""Records what a person does on a display: demonstrations in the format of the arena's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
import orjson

from sb3_pvp.games.screen.display import VirtualDisplay
from sb3_pvp.games.screen.env import ScreenEnv
from sb3_pvp.games.screen.game_file import ScreenGame, ScreenInput
from sb3_pvp.policies.files.demonstrations import Demonstration, save_demonstration

#: Seconds between two looks at keyboard and mouse: a key that is down for less may be missed.
LOOK = 0.004
_BUTTONS = 8  #: Bits of X's mask that come before those of buttons.


def fingerprint_of_screen(game: ScreenGame) -> str:
    """Returns what is equal for games with the same observations and actions."""
    parts = [game.scale, game.color, game.stack, game.tick, game.seen, [name for name, _ in game.inputs()]]
    return sha256(orjson.dumps(parts)).hexdigest()[:16]


@dataclass
class HandsWatch:
    """What somebody does with keyboard and mouse in a tick.

    Attributes:
        keys: that were down at some time.
        clicks: buttons that were released, with the places where they were pressed and released.
    """

    display: VirtualDisplay
    keys: set[str] = field(default_factory=set)
    clicks: list[tuple[int, tuple[int, int], tuple[int, int]]] = field(default_factory=list)
    _down: dict[int, tuple[int, int]] = field(default_factory=dict)

    def watch(self, seconds: float) -> None:
        """Looks for some time."""
        ends = time.monotonic() + seconds
        while True:
            keys, at, mask = self.display.pressed()
            self.keys |= keys
            for button in range(1, 6):
                if mask >> (_BUTTONS + button - 1) & 1:
                    self._down.setdefault(button, at)
                elif button in self._down:
                    self.clicks.append((button, self._down.pop(button), at))
            if (left := ends - time.monotonic()) <= 0:
                return
            time.sleep(min(LOOK, left))

    def action(self, inputs: tuple[ScreenInput, ...]) -> int:
        """Returns the action nearest to what was done, which is forgotten: a click before keys, else the first one."""
        keys, clicks = self.keys, self.clicks
        self.keys, self.clicks = set(), []
        if clicks:
            button, start, end = clicks[-1]
            if (found := _nearest(inputs, button, start, end)) is not None:
                return found
        wanted = [{*each.hold, *(key for part in each.tap for key in part.split("+"))} for each in inputs]
        mouse = [number for number, each in enumerate(inputs) if each.click or each.drag or each.move]
        able = [number for number, own in enumerate(wanted) if own <= keys and number not in mouse]
        return max(able, key=lambda number: len(wanted[number]), default=0)


def record_play(
    env: ScreenEnv, folder: Path, episodes: int, say: Callable[[str], None], most_ticks: int | None = None
) -> list[Path]:
    """Records episodes that a person plays on the display of an environment, each to a file; returns these.

    Of an episode that is cut off, by ``most_ticks`` or Ctrl-C, what there is so far is kept. Rewards are not.
    """
    written: list[Path] = []
    for _ in range(episodes):
        observation, _ = env.reset()
        seen, actions, total, is_over = list[np.ndarray](), list[int](), 0.0, False
        hands = HandsWatch(env.display)
        say(f"play on {env.display.name}")
        try:
            while not is_over and (most_ticks is None or len(actions) < most_ticks):
                before = observation
                hands.watch(env.game.tick * 0.9)
                observation, reward, ended, truncated, _ = env.follow(None)
                seen.append(before)
                actions.append(hands.action(env.inputs))
                total, is_over = total + reward, ended or truncated
        finally:
            if actions:
                path = folder / f"{env.game.name}-{time.time_ns()}.npz"
                masks = np.ones((len(actions), len(env.inputs)), bool)
                given = np.array(seen, np.float32), masks, np.array(actions, np.int64)[:, None]
                about = f"Screen-v0/{env.game.name}", fingerprint_of_screen(env.game), f"the program, for {total:g}"
                folder.mkdir(parents=True, exist_ok=True)
                save_demonstration(Demonstration(*given, *about, "tied"), path)
                written.append(path)
                say(f"{path}: {len(actions)} ticks, reward {total:g}")
    return written


def _nearest(inputs: tuple[ScreenInput, ...], button: int, start: tuple[int, int], end: tuple[int, int]) -> int | None:
    """Returns the click or drag of a button that is nearest to one from here to there, or ``None``."""
    clicks = {number: (each.click, each.click) for number, each in enumerate(inputs) if each.click is not None}
    places = clicks | {number: each.drag for number, each in enumerate(inputs) if each.drag is not None}

    def distance(number: int) -> float:
        return float(np.abs(np.subtract(places[number], (start, end))).sum())

    return min((number for number in places if inputs[number].button == button), key=distance, default=None)
